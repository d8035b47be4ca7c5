//! Authorizations, advices and balance inquiries: the messages that a card's rules judge.

use super::card_money::CardMoney;
use super::duplicates::DuplicateCheck;
use super::execute_card::{Attempt, Judgement, count_attempt, facts_of, judge, velocity_facts};
use super::execute_network::{amount_for_account, log_unknown_card};
use super::execute_reversal::{cancel_if_nothing_remains, left_by_early, reverse_early};
use super::open_transaction::OpenTransaction;
use super::shard_change::ShardChange;
use super::state::ShardState;
use crate::command::Moment;
use crate::command::effect::{Effect, NetworkMessageKind};
use crate::command::network::{
    AdviceOutcome, Advise, AuthorizationKind, Authorize, InquireBalance, PartialApproval,
    PurchaseFacts, ReversalAmount,
};
use crate::command::reply::{AuthorizationReply, BalanceReply, NetworkReply};
use crate::decision::{DecisionFacts, RuleSet, VelocityFinding, approvable_part};
use crate::domain::authorization_id::authorization_id_of;
use crate::domain::credential::PresentedCredentials;
use crate::domain::ids::{CardSlot, TransactionSeq};
use crate::domain::later_message::{LaterMessage, LaterMessageKind};
use crate::domain::money::{Conversion, CurrencyAmount, CurrencyCode, Minor};
use crate::domain::network_key::MessageClass;
use crate::domain::response_code::{ResponseCode, SubReason};
use crate::domain::transaction::{
    TransactionFlags, TransactionKind, TransactionProgress, TransactionRecord, TransactionState,
};

/// A purchase as the shard sees it: on which card, for how much, and how it was decided.
pub(super) struct Purchase<'a> {
    pub(super) facts: &'a PurchaseFacts,
    pub(super) kind: TransactionKind,
    /// The requested amount.
    pub(super) amount: Minor,
    /// The approved part of it, if any is approved.
    pub(super) approved: Minor,
    pub(super) foreign: Option<CurrencyAmount>,
    pub(super) response_code: ResponseCode,
    pub(super) sub_reason: SubReason,
    pub(super) failed: RuleSet,
    /// The facts that the rules were evaluated on, if they were.
    pub(super) decided_on: Option<DecisionFacts>,
    pub(super) refund_of: Option<TransactionSeq>,
}

pub(super) fn execute_authorize(change: &mut ShardChange<'_>, command: &Authorize) -> NetworkReply {
    let facts = &command.facts;
    let Some(slot) = change.state.find_card(facts.card) else {
        let kind = NetworkMessageKind::Authorization;
        log_unknown_card(change, kind, facts.card, Some(facts));
        return NetworkReply::Authorization(unknown_card());
    };
    let mut money = CardMoney::open(change, slot, change.state.last_transaction.next());
    let (amount, foreign) = match amount_for_account(&facts.amounts, money.account.currency()) {
        Ok(amounts) => amounts,
        Err(reason) => return NetworkReply::FormatError(reason),
    };
    let class = transaction_kind(command.kind, amount).class();
    let attempt = Attempt {
        amount,
        added_to: Minor::ZERO,
        mcc: facts.merchant.mcc,
        is_cash: command.kind == AuthorizationKind::Cash,
        credentials: &command.credentials,
        // CHOICE: also where the reversal would leave a rest. The merchant was given nothing yet, so
        // it loses nothing, and a decline is what the terminal that gave up can tell its customer.
        is_reversed_before: reversal_before(change, facts, class).is_some(),
        velocity: count_attempt(change, slot),
        before: velocity_facts(change.state, change.moment, slot),
    };
    let Judgement { failed, facts: known } = judge(change, &mut money, &attempt);
    let part = approved_part(change.state, command, &money, &attempt, failed);
    let (response_code, sub_reason) = match part {
        Some(_) => (ResponseCode::Approved, SubReason::None),
        None => (failed.response_code(), failed.sub_reason()),
    };
    let purchase = Purchase {
        facts,
        kind: transaction_kind(command.kind, amount),
        amount,
        approved: part.unwrap_or(amount),
        foreign,
        response_code,
        sub_reason,
        failed,
        decided_on: Some(known),
        refund_of: None,
    };
    let mut flags = TransactionFlags::default();
    if part.is_some() {
        flags.insert(TransactionFlags::PARTIALLY_APPROVED);
    }
    conclude(change, purchase, flags, money)
}

/// The approved part of a purchase whose amount alone is too much, where the terminal can take less
/// and the company allows it; none in a foreign currency.
fn approved_part(
    state: &ShardState,
    command: &Authorize,
    money: &CardMoney<'_>,
    attempt: &Attempt<'_>,
    failed: RuleSet,
) -> Option<Minor> {
    // Nearly every purchase is approved whole, so that is asked first.
    if failed.is_empty() || command.partial == PartialApproval::NotTaken {
        return None;
    }
    let company = state.cards.head(money.slot).company;
    let currency = command.facts.amounts.currency;
    let is_allowed = state.company(company).company.partial_approval
        && currency.is_none_or(|currency| currency == money.account.currency());
    approvable_part(&facts_of(state, money, attempt), failed).filter(|_| is_allowed)
}

/// Holds or settles what was approved, records the transaction and answers.
fn conclude(
    change: &mut ShardChange<'_>,
    purchase: Purchase<'_>,
    flags: TransactionFlags,
    mut money: CardMoney<'_>,
) -> NetworkReply {
    let is_approved = purchase.response_code.is_approved();
    let mut progress = TransactionProgress::empty(TransactionState::Declined);
    progress.flags = flags;
    if is_approved {
        take_purchase(change, &purchase, &mut money, &mut progress);
    }
    let seq = change.state.last_transaction.next();
    let record = record_of(change.state, change.moment, &purchase, seq, money.slot);
    let reply = AuthorizationReply {
        transaction: Some(record.id),
        response_code: purchase.response_code,
        sub_reason: purchase.sub_reason,
        failed_rules: purchase.failed,
        approved: if is_approved { purchase.approved } else { Minor::ZERO },
        authorization_id: is_approved.then(|| authorization_id_of(seq)),
        allowance_balance: money.allowance_balance(),
        currency: money.account.currency(),
    };
    money.make(change, record, progress);
    NetworkReply::Authorization(reply)
}

/// Takes an approved purchase's money: held now and settled later, or settled in the same step.
fn take_purchase(
    change: &mut ShardChange<'_>,
    purchase: &Purchase<'_>,
    money: &mut CardMoney<'_>,
    progress: &mut TransactionProgress,
) {
    let merchant = &purchase.facts.merchant;
    match purchase.kind {
        // A check of the card holds nothing and does not use up a single-use card.
        TransactionKind::Verification => {
            progress.state = TransactionState::Canceled;
            return;
        }
        TransactionKind::SingleMessagePurchase => {
            money.clear(change, purchase.approved, progress);
            money.write_line(change, -purchase.approved, &merchant.name, money.holder());
            progress.state = TransactionState::Completed;
            progress.is_final = true;
            progress.posted_at = Some(change.moment.at);
        }
        _ => {
            money.hold(change, purchase.approved, progress);
            progress.state = TransactionState::Pending;
            progress.hold_expires_at = money.hold_end(change, merchant.mcc);
        }
    }
    money.use_up_single_use(progress);
}

/// The unchanging row of a new card transaction.
pub(super) fn record_of(
    state: &ShardState,
    moment: &Moment<'_>,
    purchase: &Purchase<'_>,
    seq: TransactionSeq,
    card: CardSlot,
) -> TransactionRecord {
    let head = state.cards.head(card);
    TransactionRecord {
        seq,
        id: moment.ids.transaction_id(moment.at, seq),
        kind: purchase.kind,
        company: head.company,
        account: state.card(card).account,
        card: Some(card),
        member: head.assigned_to(),
        requested: purchase.amount,
        foreign: purchase.foreign,
        merchant: Some(purchase.facts.merchant.clone()),
        bank_account: None,
        trace: purchase.facts.trace.clone(),
        response_code: purchase.response_code,
        sub_reason: purchase.sub_reason,
        failed_rules: purchase.failed,
        facts: purchase.decided_on,
        refund_of: purchase.refund_of,
        authorized_at: moment.at,
        dimensions: state.cards.dimensions(card),
    }
}

const fn transaction_kind(kind: AuthorizationKind, amount: Minor) -> TransactionKind {
    match kind {
        AuthorizationKind::Cash => TransactionKind::Cash,
        _ if amount.is_zero() => TransactionKind::Verification,
        AuthorizationKind::Verification => TransactionKind::Verification,
        AuthorizationKind::SingleMessage => TransactionKind::SingleMessagePurchase,
        AuthorizationKind::Purchase => TransactionKind::Purchase,
    }
}

fn unknown_card() -> AuthorizationReply {
    declined_without_transaction(SubReason::UnknownCard)
}

/// The answer to what cannot be judged, since there is nothing to judge it by.
pub(super) fn declined_without_transaction(sub_reason: SubReason) -> AuthorizationReply {
    AuthorizationReply {
        transaction: None,
        response_code: ResponseCode::Declined,
        sub_reason,
        failed_rules: RuleSet::EMPTY,
        approved: Minor::ZERO,
        authorization_id: None,
        allowance_balance: Minor::ZERO,
        currency: CurrencyCode::default(),
    }
}

pub(super) fn execute_advise(change: &mut ShardChange<'_>, command: &Advise) -> NetworkReply {
    let facts = &command.facts;
    let Some(slot) = change.state.find_card(facts.card) else {
        log_unknown_card(change, NetworkMessageKind::Advice, facts.card, Some(facts));
        return NetworkReply::Authorization(unknown_card());
    };
    let currency = change.state.account(change.state.card(slot).account).currency;
    let (amount, foreign) = match amount_for_account(&facts.amounts, currency) {
        Ok(amounts) => amounts,
        Err(reason) => return NetworkReply::FormatError(reason),
    };
    let named = change.state.find_original(change.moment.ids, Some(slot), &command.original);
    let known = approved_before(change, command, amount);
    if let Some(reply) = known.or_else(|| approved_as_named(change, command, named, amount)) {
        return NetworkReply::Authorization(reply);
    }
    let held = named
        .filter(|(_, open)| !open.progress.held.is_empty())
        .filter(|_| command.outcome == AdviceOutcome::Approved);
    let conversion = Conversion::of(foreign, amount);
    if let Some(purchase) = held {
        let (kind, key) = (LaterMessageKind::Completion, facts.trace.original_key);
        let completion = LaterMessage::new(kind, key, amount, conversion);
        return complete_hold(change, purchase, completion);
    }
    // The network has given the merchant its word, so what a reversal leaves of it counts.
    let early = reversal_before(change, facts, MessageClass::Authorization);
    let left = left_by_early(early, amount, conversion);
    let mut money = CardMoney::open(change, slot, change.state.last_transaction.next());
    let purchase = advised_purchase(change, command, &mut money, ((amount, foreign), left));
    conclude(change, purchase, TransactionFlags::ADVICE, money)
}

/// The approval of the request that an approved advice stands for, where that came first and got it
/// whole: the purchase is known, with all that has become of it since.
fn approved_before(
    change: &ShardChange<'_>,
    command: &Advise,
    amount: Minor,
) -> Option<AuthorizationReply> {
    let is_approved = command.outcome == AdviceOutcome::Approved;
    let request = command.request.as_deref().filter(|_| is_approved)?;
    match change.state.known_message(request, change.moment.at) {
        DuplicateCheck::Answered(NetworkReply::Authorization(reply)) => Some(reply)
            .filter(|known| known.response_code.is_approved() && known.approved == amount),
        _ => None,
    }
}

/// The same where the advice names the purchase, and has the marks of the very message that made it: not
/// every door gives requests an identity.
fn approved_as_named(
    change: &ShardChange<'_>,
    command: &Advise,
    named: Option<(TransactionSeq, &OpenTransaction)>,
    amount: Minor,
) -> Option<AuthorizationReply> {
    let own = command.facts.trace.original_key?;
    let is_approved = command.outcome == AdviceOutcome::Approved;
    let (seq, open) = named.filter(|(_, open)| is_approved && open.original_key == Some(own))?;
    let is_whole = open.kind == TransactionKind::Purchase
        && open.requested == amount
        && !open.progress.flags.contains(TransactionFlags::PARTIALLY_APPROVED);
    let money = CardMoney::open(change, open.card.filter(|_| is_whole)?, seq);
    Some(approval(change, (seq, open), amount, &money))
}

/// The approval of an amount of a known purchase.
fn approval(
    change: &ShardChange<'_>,
    (seq, open): (TransactionSeq, &OpenTransaction),
    approved: Minor,
    money: &CardMoney<'_>,
) -> AuthorizationReply {
    AuthorizationReply {
        transaction: Some(change.moment.ids.transaction_id(open.authorized_at, seq)),
        approved,
        authorization_id: Some(authorization_id_of(seq)),
        response_code: ResponseCode::Approved,
        sub_reason: SubReason::None,
        failed_rules: RuleSet::EMPTY,
        allowance_balance: money.allowance_balance(),
        currency: money.account.currency(),
    }
}

/// The amount of an early reversal of a purchase.
fn reversal_before(
    change: &ShardChange<'_>,
    facts: &PurchaseFacts,
    class: MessageClass,
) -> Option<ReversalAmount> {
    change.state.early_reversals.of_purchase(&facts.trace, class, change.moment.at)
}

/// A purchase decided by the network: the rules are evaluated and kept, but do not decide. No
/// credential is compared: the network has judged those of an advice. It takes what an earlier
/// reversal leaves of it; one of which nothing is left is declined.
fn advised_purchase<'a>(
    change: &mut ShardChange<'_>,
    command: &'a Advise,
    money: &mut CardMoney<'_>,
    ((amount, foreign), left): ((Minor, Option<CurrencyAmount>), Option<Minor>),
) -> Purchase<'a> {
    let facts = &command.facts;
    let attempt = Attempt {
        amount,
        added_to: Minor::ZERO,
        mcc: facts.merchant.mcc,
        is_cash: command.is_cash,
        credentials: &PresentedCredentials::NONE,
        is_reversed_before: left.is_none(),
        velocity: VelocityFinding::default(),
        before: None,
    };
    let Judgement { failed, facts: known } = judge(change, money, &attempt);
    // Bounds and an early reversal stand above the network's word: money is never invented.
    let veto = failed.intersection(RuleSet::VETOES).first();
    let (response_code, sub_reason) = match (veto, command.outcome) {
        (Some(rule), _) => (rule.response_code(), rule.sub_reason()),
        (None, AdviceOutcome::Declined) => (ResponseCode::Declined, SubReason::DeclinedByNetwork),
        (None, AdviceOutcome::Approved) => (ResponseCode::Approved, SubReason::None),
    };
    let kind = transaction_kind(AuthorizationKind::Purchase, amount);
    let approved = left.unwrap_or(amount);
    let refund_of = None;
    Purchase {
        facts,
        kind,
        amount,
        approved,
        foreign,
        response_code,
        sub_reason,
        failed,
        decided_on: Some(known),
        refund_of,
    }
}

/// Sets a hold to what the purchase came to, up or down, without rules: a fuel pump's completion. What
/// was presented already is a part of that. An early reversal of it gives back at once.
fn complete_hold(
    change: &mut ShardChange<'_>,
    (seq, open): (TransactionSeq, &OpenTransaction),
    completion: LaterMessage,
) -> NetworkReply {
    let Some(card) = open.card else { unreachable!("found by its card") };
    let mut money = CardMoney::open(change, card, seq);
    let mut progress = open.progress.clone();
    let (held, amount, key) = (progress.held.total(), completion.amount, completion.key);
    let open_amount = (amount - progress.posted).or_zero();
    if !money.can_post(amount) || !money.can_hold(open_amount - held) {
        return NetworkReply::FormatError(SubReason::OutOfBounds);
    }
    if open_amount > held {
        money.hold(change, open_amount - held, &mut progress);
    } else {
        money.release(change, held - open_amount, &mut progress);
    }
    progress.later.set_hold();
    progress.later.add(completion);
    let purse = (&mut money, &mut progress);
    let marks = (key, open.retrieval_key);
    let given_back = reverse_early(change, marks, open.named_on_lines(), purse);
    cancel_if_nothing_remains(&mut progress);
    change.push(Effect::TransactionProgress(seq, Box::new(progress)));
    let reply = approval(change, (seq, open), amount - given_back, &money);
    money.close(change);
    NetworkReply::Authorization(reply)
}

pub(super) fn execute_inquire_balance(
    change: &mut ShardChange<'_>,
    command: &InquireBalance,
) -> NetworkReply {
    let Some(slot) = change.state.find_card(command.card) else {
        log_unknown_card(change, NetworkMessageKind::BalanceInquiry, command.card, None);
        return NetworkReply::Balance(BalanceReply {
            response_code: ResponseCode::Declined,
            sub_reason: SubReason::UnknownCard,
            failed_rules: RuleSet::EMPTY,
            allowance_balance: Minor::ZERO,
            currency: CurrencyCode::default(),
        });
    };
    let mut money = CardMoney::open(change, slot, change.state.last_transaction.next());
    let failed = judge_standing(change, &mut money, &command.credentials);
    let reply = BalanceReply {
        response_code: failed.response_code(),
        sub_reason: failed.sub_reason(),
        failed_rules: failed,
        allowance_balance: money.allowance_balance(),
        currency: money.account.currency(),
    };
    // Only the count of wrong PINs is kept: a question about the balance rolls no period.
    let kept = change.state.card(slot).usage;
    money.usage =
        crate::domain::allowance::CardUsage { pin_failures: money.usage.pin_failures, ..kept };
    money.close(change);
    NetworkReply::Balance(reply)
}

/// The rules about the card and its credentials alone.
fn judge_standing(
    change: &mut ShardChange<'_>,
    money: &mut CardMoney<'_>,
    credentials: &PresentedCredentials,
) -> RuleSet {
    let attempt = Attempt {
        amount: Minor::ZERO,
        added_to: Minor::ZERO,
        mcc: None,
        is_cash: false,
        credentials,
        is_reversed_before: false,
        velocity: VelocityFinding::default(),
        before: None,
    };
    let Judgement { failed, .. } = judge(change, money, &attempt);
    failed.intersection(RuleSet::CARD_AND_CREDENTIALS)
}
