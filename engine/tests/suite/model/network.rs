//! What the network may do to the model.

use cardswitch_engine::command::network::{
    AdviceOutcome, Advise, AuthorizationKind, Authorize, CardRef, Increment, InquireBalance,
    MessageAmounts, NetworkCommand, NetworkRequest, PartialApproval, Present, PresentmentNumber,
    PurchaseFacts, Refund, ReversalAmount, Reverse,
};
use cardswitch_engine::command::reply::{
    AuthorizationReply, BalanceReply, NetworkReply, PostingOutcome, PostingReply, ReversalOutcome,
    ReversalReply,
};
use cardswitch_engine::decision::{Rule, RuleSet};
use cardswitch_engine::domain::card::{CardState, SuspensionReason};
use cardswitch_engine::domain::credential::{CvvCheck, PresentedCredentials};
use cardswitch_engine::domain::ids::TransactionSeq;
use cardswitch_engine::domain::merchant_category::is_in_scope;
use cardswitch_engine::domain::money::{CurrencyAmount, CurrencyCode, Minor};
use cardswitch_engine::domain::network_key::{DuplicateWindow, Fingerprint};
use cardswitch_engine::domain::response_code::{ResponseCode, SubReason};
use cardswitch_engine::domain::transaction::{TransactionFlags, TransactionKind, TransactionState};
use cardswitch_engine::shard::authorization_id_of;
use chrono::Datelike;

use super::{
    Answer, DAY, Early, HOUR, IncrementDone, MINUTE, Model, Purchase, move_first, take_last, total,
};

pub(super) const AMOUNT_MAX: i64 = 10_000_000_000_000_000;

/// What an attempt brings with it besides card and amount.
struct Attempt<'a> {
    /// What the purchase holds already.
    added_to: i64,
    mcc: Option<u16>,
    is_cash: bool,
    credentials: &'a PresentedCredentials,
    is_reversed_before: bool,
    over_minute: bool,
    over_hour: bool,
}

/// How an authorization ends.
struct Verdict {
    code: ResponseCode,
    sub_reason: SubReason,
    failed: RuleSet,
    flags: TransactionFlags,
    /// What is approved, where that is not all.
    part: Option<i64>,
}

fn set_of(rules: &[Rule]) -> RuleSet {
    let mut set = RuleSet::EMPTY;
    for rule in rules {
        set.insert_if(*rule, true);
    }
    set
}

impl Model {
    pub(super) fn network(&mut self, at: i64, request: &NetworkRequest) -> NetworkReply {
        if let Some(reply) = request.fingerprint.and_then(|print| self.said_before(&print)) {
            return reply;
        }
        let reply = match &request.command {
            NetworkCommand::Authorize(command) => self.authorize(at, command),
            NetworkCommand::Increment(command) => self.increment(at, command),
            NetworkCommand::Advise(command) => self.advise(at, command),
            NetworkCommand::Reverse(command) => NetworkReply::Reversal(self.reverse(at, command)),
            NetworkCommand::Present(command) => self.present(at, command),
            NetworkCommand::Refund(command) => self.refund(at, command),
            NetworkCommand::InquireBalance(command) => self.inquire(at, command),
            NetworkCommand::Transfer(command) => self.transfer(at, command),
            NetworkCommand::ConcludeTransfer(command) => self.conclude_transfer(command),
        };
        if let Some(fingerprint) = request.fingerprint {
            let lives = match fingerprint.window {
                DuplicateWindow::Day => DAY,
                DuplicateWindow::RepeatsOnly { .. } => 10 * MINUTE,
            };
            let reply = reply.clone();
            self.answers.push(Answer { fingerprint, expires_at: at + lives, reply });
        }
        reply
    }

    fn said_before(&self, asked: &Fingerprint) -> Option<NetworkReply> {
        let newest_first = || self.answers.iter().rev();
        let same_key = newest_first().find(|answer| answer.fingerprint.key == asked.key);
        if asked.window != (DuplicateWindow::RepeatsOnly { is_repeat: false })
            && let Some(answer) = same_key
        {
            let is_same = answer.fingerprint.content == asked.content;
            return Some(if is_same { answer.reply.clone() } else { NetworkReply::Conflict });
        }
        asked.trace?;
        let same_trace = newest_first().find(|answer| answer.fingerprint.trace == asked.trace)?;
        (same_trace.fingerprint.content != asked.content).then_some(NetworkReply::Conflict)
    }

    fn currency(&self, card: usize) -> CurrencyCode {
        CurrencyCode(self.companies[self.cards[card].company].currency)
    }

    fn amounts(
        &self,
        card: usize,
        amounts: &MessageAmounts,
    ) -> Result<(i64, Option<CurrencyAmount>), NetworkReply> {
        let own = self.currency(card);
        let asked = amounts.currency.unwrap_or(own);
        if asked == own {
            return Ok((amounts.amount.0, None));
        }
        match amounts.billing {
            Some(billing) if billing.currency == own => {
                let foreign = CurrencyAmount { amount: amounts.amount, currency: asked };
                Ok((billing.amount.0, Some(foreign)))
            }
            _ => Err(NetworkReply::FormatError(SubReason::BillingAmountMissing)),
        }
    }

    fn can_post(amount: i64) -> bool {
        (0..=AMOUNT_MAX).contains(&amount)
    }

    fn failed_rules(&self, at: i64, card_at: usize, amount: i64, tried: &Attempt<'_>) -> Vec<Rule> {
        let card = &self.cards[card_at];
        let company = &self.companies[card.company];
        let terms = &card.terms;
        let shown = tried.credentials;
        let valid_until = card.expires_on;
        let expiry = (valid_until.year() % 100) as u16 * 100 + valid_until.month() as u16;
        let has_ended = at > terms.ends_at.0;
        let is_ended = card.reason == SuspensionReason::EndTime && has_ended;
        let available = self.available(card.company) + company.credit_limit;
        let blocked = card.wrong_credentials.is_some_and(|(since, n)| n >= 5 && at < since + HOUR);
        let scope = terms.scope.codes();
        let checks = [
            (Rule::CardTerminated, card.state == CardState::Terminated),
            (Rule::CompanyClosed, company.is_closed || self.is_holder_gone(card)),
            (Rule::ReversedBefore, tried.is_reversed_before),
            (Rule::OutOfBounds, !Self::can_post(amount) || amount > AMOUNT_MAX - tried.added_to),
            (Rule::CardUnactivated, card.state == CardState::Unactivated),
            (Rule::CardSuspended, card.state == CardState::Suspended && !is_ended),
            (Rule::CardExpired, card.today > card.expires_on),
            (Rule::ExpirationDiffers, shown.expiry.is_some_and(|shown| shown.0 != expiry)),
            (
                Rule::PinWrong,
                shown
                    .pin
                    .is_some_and(|pin| card.wrong_pins >= 3 || card.pin == 0 || pin.0 != card.pin),
            ),
            (Rule::CvvWrong, shown.cvv == Some(CvvCheck::Mismatch)),
            (Rule::ZipDiffers, shown.zip.is_some_and(|zip| card.zip != 0 && zip.0 != card.zip)),
            (Rule::CashWithdrawal, tried.is_cash || matches!(tried.mcc, Some(6010 | 6011))),
            (Rule::VelocityPerMinute, tried.over_minute),
            (Rule::VelocityPerHour, tried.over_hour),
            (Rule::CredentialFailures, blocked),
            (Rule::BeforeStart, at < terms.starts_at.0),
            (Rule::AfterEnd, has_ended),
            (Rule::OutOfScope, !is_in_scope(scope, tried.mcc)),
            (Rule::TransactionLimit, amount + tried.added_to > terms.transaction_limit.0),
            (
                Rule::DailyLimit,
                terms.daily_limit != Minor::UNLIMITED
                    && amount > terms.daily_limit.0 - self.day_spent(card_at),
            ),
            (Rule::AllowanceBalance, amount > self.allowance_balance(card_at)),
            (Rule::AvailableCredit, amount > available),
        ];
        checks.into_iter().filter(|(_, fails)| *fails).map(|(rule, _)| rule).collect()
    }

    /// Whether this attempt is one too many in a minute, and in an hour; counts it.
    fn count_attempt(&mut self, at: i64, card: usize) -> (bool, bool) {
        let card = &mut self.cards[card];
        let limits = self.companies[card.company].velocity;
        if limits.per_minute == 0 && limits.per_hour == 0 {
            return (false, false);
        }
        let since = |span: i64| card.attempts.iter().filter(|then| **then > at - span).count();
        let is_over = |limit: u16, span| limit > 0 && since(span) >= usize::from(limit);
        let over = (is_over(limits.per_minute, MINUTE), is_over(limits.per_hour, HOUR));
        card.attempts.push(at);
        over
    }

    fn count_credentials(
        &mut self,
        at: i64,
        card: usize,
        shown: &PresentedCredentials,
        failed: &[Rule],
    ) {
        let card = &mut self.cards[card];
        if shown.pin.is_some() && card.wrong_pins < 3 {
            let is_wrong = failed.contains(&Rule::PinWrong);
            card.wrong_pins = if is_wrong { card.wrong_pins + 1 } else { 0 };
        }
        let wrong = [Rule::ExpirationDiffers, Rule::PinWrong, Rule::CvvWrong, Rule::ZipDiffers];
        if failed.iter().any(|rule| wrong.contains(rule)) {
            card.wrong_credentials = match card.wrong_credentials {
                Some((since, count)) if at < since + HOUR => Some((since, count + 1)),
                _ => Some((at, 1)),
            };
        }
    }

    fn unknown_card() -> NetworkReply {
        Self::declined_without(SubReason::UnknownCard)
    }

    fn declined_without(sub_reason: SubReason) -> NetworkReply {
        NetworkReply::Authorization(AuthorizationReply {
            transaction: None,
            response_code: ResponseCode::Declined,
            sub_reason,
            failed_rules: RuleSet::EMPTY,
            approved: Minor::ZERO,
            authorization_id: None,
            allowance_balance: Minor::ZERO,
            currency: CurrencyCode::default(),
        })
    }

    fn authorize(&mut self, at: i64, command: &Authorize) -> NetworkReply {
        let facts = &command.facts;
        let Some(card) = self.find_card(facts.card) else { return Self::unknown_card() };
        let (amount, foreign) = match self.amounts(card, &facts.amounts) {
            Ok(amounts) => amounts,
            Err(reply) => return reply,
        };
        self.turn_pages(card, at);
        let (over_minute, over_hour) = self.count_attempt(at, card);
        let tried = Attempt {
            added_to: 0,
            mcc: facts.merchant.mcc.map(|mcc| mcc.0),
            is_cash: command.kind == AuthorizationKind::Cash,
            credentials: &command.credentials,
            is_reversed_before: self.is_reversed_before(&facts.trace),
            over_minute,
            over_hour,
        };
        let failed = self.failed_rules(at, card, amount, &tried);
        self.count_credentials(at, card, &command.credentials, &failed);
        let kind = match command.kind {
            AuthorizationKind::Cash => TransactionKind::Cash,
            AuthorizationKind::Verification => TransactionKind::Verification,
            _ if amount == 0 => TransactionKind::Verification,
            AuthorizationKind::SingleMessage => TransactionKind::SingleMessagePurchase,
            AuthorizationKind::Purchase => TransactionKind::Purchase,
        };
        let part = self.part_allowed(card, &failed).filter(|_| {
            let is_own_currency = foreign.is_none();
            command.partial == PartialApproval::Taken && is_own_currency
        });
        let first = failed.first().filter(|_| part.is_none());
        let mut flags = TransactionFlags::default();
        if part.is_some() {
            flags.insert(TransactionFlags::PARTIALLY_APPROVED);
        }
        let verdict = Verdict {
            code: first.map_or(ResponseCode::Approved, |rule| rule.response_code()),
            sub_reason: first.map_or(SubReason::None, |rule| rule.sub_reason()),
            failed: set_of(&failed),
            flags,
            part,
        };
        self.conclude(at, self.new_purchase(at, card, facts, (kind, amount, foreign)), &verdict)
    }

    /// The most that passes every amount rule, where only those fail.
    fn part_allowed(&self, card_at: usize, failed: &[Rule]) -> Option<i64> {
        let amounts = [
            Rule::TransactionLimit,
            Rule::DailyLimit,
            Rule::AllowanceBalance,
            Rule::AvailableCredit,
        ];
        let card = &self.cards[card_at];
        let company = &self.companies[card.company];
        if !company.allows_partial
            || failed.is_empty()
            || !failed.iter().all(|rule| amounts.contains(rule))
        {
            return None;
        }
        let day = card.terms.daily_limit;
        let day_room =
            if day == Minor::UNLIMITED { i64::MAX } else { day.0 - self.day_spent(card_at) };
        let part = self
            .allowance_balance(card_at)
            .min(card.terms.transaction_limit.0)
            .min(day_room)
            .min(self.available(card.company) + company.credit_limit);
        (part > 0).then_some(part)
    }

    fn increment(&mut self, at: i64, command: &Increment) -> NetworkReply {
        let named = command.card.map(|card| self.find_card(card));
        let found = match named {
            Some(None) => None,
            Some(card) => self.find_original(card, &command.original),
            None => self.find_original(None, &command.original),
        };
        let pending =
            found.filter(|found| self.purchases[*found].state == TransactionState::Pending);
        let Some(found) = pending else {
            return match &command.otherwise {
                Some(authorize) => self.authorize(at, authorize),
                None if named == Some(None) => Self::unknown_card(),
                None => Self::declined_without(SubReason::NotPending),
            };
        };
        let card = self.purchases[found].card;
        let amount = match self.amounts(card, &command.amounts) {
            Ok((amount, _)) => amount,
            Err(reply) => return reply,
        };
        self.turn_pages(card, at);
        let (over_minute, over_hour) = self.count_attempt(at, card);
        let mcc = command.mcc.map(|mcc| mcc.0).or(self.purchases[found].mcc);
        let tried = Attempt {
            added_to: self.purchases[found].held(),
            mcc,
            is_cash: false,
            credentials: &command.credentials,
            is_reversed_before: false,
            over_minute,
            over_hour,
        };
        let mut failed = self.failed_rules(at, card, amount, &tried);
        let used_up = self.purchases[found].flags.contains(TransactionFlags::CONSUMED_SINGLE_USE);
        if used_up && self.cards[card].reason == SuspensionReason::SingleUse {
            failed.retain(|rule| *rule != Rule::CardSuspended);
        }
        self.count_credentials(at, card, &command.credentials, &failed);
        let first = failed.first();
        self.increments.push(IncrementDone {
            seq: self.purchases[found].seq,
            at,
            amount,
            added_to: tried.added_to,
            failed: set_of(&failed),
        });
        if first.is_none() {
            let part = self.part(card, amount);
            self.purchases[found].held.extend(part);
            self.purchases[found].expires_at = at + hold_lifetime(mcc);
        }
        let seq = self.purchases[found].seq;
        NetworkReply::Authorization(AuthorizationReply {
            transaction: Some(self.id_of(found)),
            response_code: first.map_or(ResponseCode::Approved, |rule| rule.response_code()),
            sub_reason: first.map_or(SubReason::None, |rule| rule.sub_reason()),
            failed_rules: set_of(&failed),
            approved: Minor(if first.is_none() { amount } else { 0 }),
            authorization_id: first.is_none().then(|| authorization_id_of(TransactionSeq(seq))),
            allowance_balance: Minor(self.allowance_balance(card)),
            currency: self.currency(card),
        })
    }

    fn new_purchase(
        &self,
        at: i64,
        card: usize,
        facts: &PurchaseFacts,
        (kind, requested, foreign): (TransactionKind, i64, Option<CurrencyAmount>),
    ) -> Purchase {
        let mcc = facts.merchant.mcc.map(|mcc| mcc.0);
        Purchase {
            seq: self.last_seq + 1,
            at,
            card,
            member: self.cards[card].holder,
            merchant: facts.merchant.name.to_string(),
            kind,
            state: TransactionState::Declined,
            held: Vec::new(),
            cleared: Vec::new(),
            requested,
            foreign,
            posted: 0,
            refunded: 0,
            presented: Vec::new(),
            is_final: false,
            expires_at: at + hold_lifetime(mcc),
            flags: TransactionFlags::default(),
            original_key: facts.trace.original_key,
            retrieval_key: facts.trace.retrieval_key,
            mcc,
            refund_of: None,
        }
    }

    /// Enters a new purchase into the books, where it was approved, and answers.
    fn conclude(&mut self, at: i64, mut purchase: Purchase, verdict: &Verdict) -> NetworkReply {
        self.last_seq += 1;
        let Purchase { card, seq, requested, .. } = purchase;
        let amount = verdict.part.unwrap_or(requested);
        let is_approved = verdict.code == ResponseCode::Approved;
        purchase.flags = verdict.flags;
        if is_approved {
            match purchase.kind {
                TransactionKind::Verification => purchase.state = TransactionState::Canceled,
                TransactionKind::SingleMessagePurchase => {
                    purchase.cleared = self.part(card, amount);
                    purchase.posted = amount;
                    (purchase.state, purchase.is_final) = (TransactionState::Completed, true);
                }
                _ => {
                    purchase.held = self.part(card, amount);
                    purchase.state = TransactionState::Pending;
                }
            }
            if purchase.kind != TransactionKind::Verification {
                self.use_up(&mut purchase);
            }
            let is_settled = purchase.kind == TransactionKind::SingleMessagePurchase;
            let merchant = purchase.merchant.clone();
            self.purchases.push(purchase);
            if is_settled {
                self.write_line(self.purchases.len() - 1, -amount, &merchant);
            }
        }
        NetworkReply::Authorization(AuthorizationReply {
            transaction: Some(self.ids.transaction_id(super::Timestamp(at), TransactionSeq(seq))),
            response_code: verdict.code,
            sub_reason: verdict.sub_reason,
            failed_rules: verdict.failed,
            approved: Minor(if is_approved { amount } else { 0 }),
            authorization_id: is_approved.then(|| authorization_id_of(TransactionSeq(seq))),
            allowance_balance: Minor(self.allowance_balance(card)),
            currency: self.currency(card),
        })
    }

    fn use_up(&mut self, purchase: &mut Purchase) {
        let card = &mut self.cards[purchase.card];
        if card.terms.single_use && card.state == CardState::Active {
            (card.state, card.reason) = (CardState::Suspended, SuspensionReason::SingleUse);
            purchase.flags.insert(TransactionFlags::CONSUMED_SINGLE_USE);
        }
    }

    fn advise(&mut self, at: i64, command: &Advise) -> NetworkReply {
        let facts = &command.facts;
        let Some(card) = self.find_card(facts.card) else { return Self::unknown_card() };
        let (amount, foreign) = match self.amounts(card, &facts.amounts) {
            Ok(amounts) => amounts,
            Err(reply) => return reply,
        };
        self.turn_pages(card, at);
        let pending = self
            .find_original(Some(card), &command.original)
            .filter(|found| self.purchases[*found].state == TransactionState::Pending);
        if let Some(pending) = pending {
            return self.complete_hold(pending, amount);
        }
        let tried = Attempt {
            added_to: 0,
            mcc: facts.merchant.mcc.map(|mcc| mcc.0),
            is_cash: false,
            credentials: &command.credentials,
            is_reversed_before: self.is_reversed_before(&facts.trace),
            over_minute: false,
            over_hour: false,
        };
        let failed = self.failed_rules(at, card, amount, &tried);
        let (code, sub_reason) = if failed.contains(&Rule::ReversedBefore) {
            (ResponseCode::Declined, SubReason::ReversedBefore)
        } else if failed.contains(&Rule::OutOfBounds) {
            (ResponseCode::Declined, SubReason::OutOfBounds)
        } else if command.outcome == AdviceOutcome::Declined {
            (ResponseCode::Declined, SubReason::DeclinedByNetwork)
        } else {
            (ResponseCode::Approved, SubReason::None)
        };
        let flags = TransactionFlags::ADVICE;
        let verdict = Verdict { code, sub_reason, failed: set_of(&failed), flags, part: None };
        let kind =
            if amount == 0 { TransactionKind::Verification } else { TransactionKind::Purchase };
        self.conclude(at, self.new_purchase(at, card, facts, (kind, amount, foreign)), &verdict)
    }

    fn complete_hold(&mut self, pending: usize, amount: i64) -> NetworkReply {
        if !Self::can_post(amount) {
            return NetworkReply::FormatError(SubReason::OutOfBounds);
        }
        let (card, held) = (self.purchases[pending].card, self.purchases[pending].held());
        if amount > held {
            let added = self.part(card, amount - held);
            self.purchases[pending].held.extend(added);
        } else {
            take_last(&mut self.purchases[pending].held, held - amount);
        }
        self.purchases[pending].close_if_nothing_is_held();
        NetworkReply::Authorization(AuthorizationReply {
            transaction: Some(self.id_of(pending)),
            response_code: ResponseCode::Approved,
            sub_reason: SubReason::None,
            failed_rules: RuleSet::EMPTY,
            approved: Minor(amount),
            authorization_id: Some(authorization_id_of(TransactionSeq(
                self.purchases[pending].seq,
            ))),
            allowance_balance: Minor(self.allowance_balance(card)),
            currency: self.currency(card),
        })
    }

    fn reverse(&mut self, at: i64, command: &Reverse) -> ReversalReply {
        let card = command.card.map(|card| self.find_card(card));
        let found = match card {
            Some(None) => None,
            Some(card) => self.find_original(card, &command.original),
            None => self.find_original(None, &command.original),
        };
        let Some(found) = found else {
            let (original_key, retrieval_key) =
                (command.original.original_key, command.original.retrieval_key);
            self.early.push(Early { original_key, retrieval_key, expires_at: at + DAY });
            return ReversalReply {
                outcome: ReversalOutcome::NotFound,
                transaction: None,
                given_back: Minor::ZERO,
                remaining: Minor::ZERO,
                allowance_balance: Minor::ZERO,
                currency: CurrencyCode::default(),
            };
        };
        let card = self.purchases[found].card;
        self.turn_pages(card, at);
        let outcome = self.give_back(found, command.amount);
        ReversalReply {
            outcome: outcome.err().unwrap_or(ReversalOutcome::Reversed),
            transaction: Some(self.id_of(found)),
            given_back: Minor(outcome.unwrap_or(0)),
            remaining: Minor(self.purchases[found].held()),
            allowance_balance: Minor(self.allowance_balance(card)),
            currency: self.currency(card),
        }
    }

    fn give_back(&mut self, found: usize, asked: ReversalAmount) -> Result<i64, ReversalOutcome> {
        if self.purchases[found].kind == TransactionKind::Refund {
            return self.take_refund_back(found, asked);
        }
        let purchase = &mut self.purchases[found];
        let (held, posted) = (purchase.held(), purchase.posted - purchase.refunded);
        if held > 0 {
            let amount = asked_back(purchase, asked, held)?;
            take_last(&mut purchase.held, amount);
            purchase.close_if_nothing_is_held();
            return Ok(amount);
        }
        if purchase.state == TransactionState::Canceled {
            return Ok(0);
        }
        if !purchase.is_at_once() || posted <= 0 {
            return Err(ReversalOutcome::NothingHeld);
        }
        let amount = asked_back(purchase, asked, posted)?;
        if amount > 0 {
            let room = amount.min(total(&purchase.cleared));
            take_last(&mut purchase.cleared, room);
            purchase.posted -= amount;
            purchase.close_if_nothing_is_held();
            let merchant = purchase.merchant.clone();
            self.write_line(found, amount, &merchant);
        }
        Ok(amount)
    }

    /// A refund is taken back by a line against it; its purchase takes the room again, today.
    fn take_refund_back(
        &mut self,
        found: usize,
        asked: ReversalAmount,
    ) -> Result<i64, ReversalOutcome> {
        let refund = &self.purchases[found];
        let (card, given) = (refund.card, -refund.posted);
        if given == 0 {
            return Ok(0);
        }
        let amount = asked_back(refund, asked, given)?;
        if amount == 0 {
            return Ok(0);
        }
        let room = amount.min(refund.refunded);
        if let Some(purchase) = refund.refund_of {
            let again = self.part(card, room);
            self.purchases[purchase].cleared.extend(again);
            self.purchases[purchase].refunded -= room;
            self.purchases[found].refunded -= room;
        }
        self.purchases[found].posted += amount;
        self.purchases[found].close_if_nothing_is_held();
        let merchant = self.purchases[found].merchant.clone();
        self.write_line(found, -amount, &merchant);
        Ok(amount)
    }

    fn not_posted(outcome: PostingOutcome) -> NetworkReply {
        NetworkReply::Posting(PostingReply {
            outcome,
            transaction: None,
            posted: Minor::ZERO,
            allowance_balance: Minor::ZERO,
            currency: CurrencyCode::default(),
        })
    }

    fn posted(&self, purchase: usize, amount: i64) -> NetworkReply {
        let card = self.purchases[purchase].card;
        NetworkReply::Posting(PostingReply {
            outcome: PostingOutcome::Posted,
            transaction: Some(self.id_of(purchase)),
            posted: Minor(amount),
            allowance_balance: Minor(self.allowance_balance(card)),
            currency: self.currency(card),
        })
    }

    fn present(&mut self, at: i64, command: &Present) -> NetworkReply {
        let named: Option<CardRef> = command.facts.as_ref().map(|facts| facts.card);
        let card = named.and_then(|card| self.find_card(card));
        if named.is_some() && card.is_none() {
            return Self::not_posted(PostingOutcome::UnknownCard);
        }
        let found = self
            .find_original(card, &command.original)
            .filter(|found| self.purchases[*found].kind != TransactionKind::Refund);
        let (found, amount) = match (found, &command.facts, card) {
            (Some(found), ..) => {
                let purchase = &self.purchases[found];
                let owner = purchase.card;
                self.turn_pages(owner, at);
                let purchase = &self.purchases[found];
                if purchase.kind == TransactionKind::SingleMessagePurchase
                    || purchase.presented.contains(&command.number.number)
                {
                    return self.posted(found, 0);
                }
                let amounts = command.amounts.as_ref();
                match amounts.map(|amounts| self.amounts(owner, amounts)) {
                    Some(Ok((amount, _))) => (found, amount),
                    Some(Err(reply)) => return reply,
                    None => (found, purchase.held()),
                }
            }
            (None, Some(facts), Some(card)) => {
                let (amount, foreign) = match self.amounts(card, &facts.amounts) {
                    Ok(amounts) => amounts,
                    Err(reply) => return reply,
                };
                if !Self::can_post(amount) {
                    return Self::not_posted(PostingOutcome::OutOfBounds);
                }
                self.turn_pages(card, at);
                let kind = TransactionKind::Purchase;
                let mut purchase = self.new_purchase(at, card, facts, (kind, amount, foreign));
                self.last_seq += 1;
                self.use_up(&mut purchase);
                self.purchases.push(purchase);
                (self.purchases.len() - 1, amount)
            }
            _ => return Self::not_posted(PostingOutcome::NotFound),
        };
        if !Self::can_post(amount) {
            return Self::not_posted(PostingOutcome::OutOfBounds);
        }
        self.settle(at, found, command.number, amount);
        let named = command.facts.as_ref().map(|facts| facts.merchant.name.to_string());
        let of_purchase = || self.purchases[found].merchant.clone();
        let merchant = named.filter(|name| !name.is_empty()).unwrap_or_else(of_purchase);
        self.write_line(found, -amount, &merchant);
        self.posted(found, amount)
    }

    fn settle(&mut self, _at: i64, found: usize, number: PresentmentNumber, amount: i64) {
        let card = self.purchases[found].card;
        let held = self.purchases[found].held();
        let beyond = self.part(card, (amount - held).max(0));
        let purchase = &mut self.purchases[found];
        if purchase.is_final {
            purchase.flags.insert(TransactionFlags::AFTER_FINAL);
        } else if held == 0 {
            purchase.flags.insert(TransactionFlags::FORCED);
        } else if amount > held {
            purchase.flags.insert(TransactionFlags::OVER_CLEARED);
        }
        move_first(&mut purchase.held, &mut purchase.cleared, amount.min(held));
        purchase.cleared.extend(beyond);
        purchase.posted += amount;
        purchase.presented.push(number.number);
        purchase.is_final |= number.number >= number.count;
        if purchase.is_final {
            purchase.held.clear();
        }
        purchase.state = TransactionState::Completed;
    }

    fn refund(&mut self, at: i64, command: &Refund) -> NetworkReply {
        let facts = &command.facts;
        let Some(card) = self.find_card(facts.card) else {
            return Self::not_posted(PostingOutcome::UnknownCard);
        };
        let (amount, foreign) = match self.amounts(card, &facts.amounts) {
            Ok(amounts) => amounts,
            Err(reply) => return reply,
        };
        if !Self::can_post(amount) {
            return Self::not_posted(PostingOutcome::OutOfBounds);
        }
        self.turn_pages(card, at);
        let kind = TransactionKind::Refund;
        let mut refund = self.new_purchase(at, card, facts, (kind, amount, foreign));
        if let Some(found) = self.find_original(Some(card), &command.original) {
            let purchase = &mut self.purchases[found];
            let refundable = (purchase.posted - purchase.refunded).max(0);
            if amount > refundable {
                refund.flags.insert(TransactionFlags::OVER_REFUNDED);
            }
            let given_back = amount.min(refundable);
            let room = given_back.min(total(&purchase.cleared));
            take_last(&mut purchase.cleared, room);
            purchase.refunded += given_back;
            (refund.refunded, refund.refund_of) = (given_back, Some(found));
            refund.member = purchase.member;
        }
        refund.posted = -amount;
        (refund.state, refund.is_final) = (TransactionState::Completed, true);
        self.last_seq += 1;
        self.purchases.push(refund);
        let refund = self.purchases.len() - 1;
        self.write_line(refund, amount, &facts.merchant.name);
        self.posted(refund, amount)
    }

    fn inquire(&mut self, at: i64, command: &InquireBalance) -> NetworkReply {
        let Some(card) = self.find_card(command.card) else {
            return NetworkReply::Balance(BalanceReply {
                response_code: ResponseCode::Declined,
                sub_reason: SubReason::UnknownCard,
                failed_rules: RuleSet::EMPTY,
                allowance_balance: Minor::ZERO,
                currency: CurrencyCode::default(),
            });
        };
        self.turn_pages(card, at);
        let tried = Attempt {
            added_to: 0,
            mcc: None,
            is_cash: false,
            credentials: &command.credentials,
            is_reversed_before: false,
            over_minute: false,
            over_hour: false,
        };
        let asked = [
            Rule::CardTerminated,
            Rule::CompanyClosed,
            Rule::CardUnactivated,
            Rule::CardSuspended,
            Rule::CardExpired,
            Rule::ExpirationDiffers,
            Rule::PinWrong,
            Rule::CvvWrong,
            Rule::ZipDiffers,
            Rule::CredentialFailures,
        ];
        let mut failed = self.failed_rules(at, card, 0, &tried);
        failed.retain(|rule| asked.contains(rule));
        self.count_credentials(at, card, &command.credentials, &failed);
        let first = failed.first();
        NetworkReply::Balance(BalanceReply {
            response_code: first.map_or(ResponseCode::Approved, |rule| rule.response_code()),
            sub_reason: first.map_or(SubReason::None, |rule| rule.sub_reason()),
            failed_rules: set_of(&failed),
            allowance_balance: Minor(self.allowance_balance(card)),
            currency: self.currency(card),
        })
    }
}

fn hold_lifetime(mcc: Option<u16>) -> i64 {
    let is_stay = matches!(mcc, Some(3351..=3999 | 7011 | 7012 | 7512 | 7513 | 7519));
    if is_stay { 30 * DAY } else { 7 * DAY }
}

/// How much of what is `open` a reversal asks back.
fn asked_back(
    purchase: &Purchase,
    asked: ReversalAmount,
    open: i64,
) -> Result<i64, ReversalOutcome> {
    let whole = i128::from(open);
    let back = match (asked, purchase.foreign) {
        (ReversalAmount::Full, _) => whole,
        (ReversalAmount::GiveBack(back), _) => i128::from(back.0),
        (ReversalAmount::RemainingOriginal(kept), Some(foreign))
            if foreign.amount.0 > 0 && kept.0 >= 0 =>
        {
            // At the rate of the authorization, rounded up to the next minor unit.
            let share = i128::from(purchase.requested) * i128::from(kept.0);
            let rate = i128::from(foreign.amount.0);
            whole - (share / rate + i128::from(share % rate != 0))
        }
        (ReversalAmount::Remaining(kept) | ReversalAmount::RemainingOriginal(kept), _) => {
            if kept.0 < 0 {
                return Err(ReversalOutcome::AmountOutOfRange);
            }
            whole - i128::from(kept.0)
        }
    };
    if (0..=whole).contains(&back) {
        Ok(back as i64)
    } else {
        Err(ReversalOutcome::AmountOutOfRange)
    }
}
