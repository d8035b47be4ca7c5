//! Messages as steps: what a scenario says of each, with the amounts, the marks and the category that doors take.

use cardswitch_engine::command::network::{
    AdviceOutcome, Advise, AuthorizationKind, Authorize, ConcludeTransfer, Increment,
    MessageAmounts, NetworkCommand, OriginalRef, PartialApproval, Present, PurchaseFacts, Refund,
    ReversalAmount, ReversalKind, Reverse, Transfer, TransferConclusion, TransferTiming,
};
use cardswitch_engine::domain::transaction::{TransactionKind, TransferDirection};
use cardswitch_feed::has_merchant_of;
use cardswitch_feed::scenario::{Money, Naming, Presentment, StepFile};

use super::{Omission, SECOND, Teller};

/// The largest amount that a message carries. Source: ISO DE4, twelve digits.
const AMOUNT_MAX: i64 = 999_999_999_999;

impl Teller {
    pub(super) fn message(&mut self, command: &NetworkCommand) -> Result<StepFile, Omission> {
        match command {
            NetworkCommand::Authorize(authorize) => self.authorize(authorize),
            NetworkCommand::Increment(increment) => self.increment(increment),
            NetworkCommand::Advise(advise) => self.advise(advise),
            NetworkCommand::Reverse(reverse) => self.reverse(reverse),
            NetworkCommand::Present(present) => self.present(present),
            NetworkCommand::Refund(refund) => self.refund(refund),
            NetworkCommand::InquireBalance(inquiry) => {
                let inquire = Some(self.card(inquiry.card)?);
                Ok(StepFile { inquire, ..StepFile::default() })
            }
            NetworkCommand::Transfer(transfer) => self.transfer(transfer),
            NetworkCommand::ConcludeTransfer(conclude) => self.conclude(conclude),
        }
    }

    fn authorize(&mut self, authorize: &Authorize) -> Result<StepFile, Omission> {
        let facts = &authorize.facts;
        let is_cash = authorize.kind == AuthorizationKind::Cash;
        let is_nothing = facts.amounts.amount.is_zero() && !is_cash;
        if authorize.kind == AuthorizationKind::Verification || is_nothing {
            let verify = Some(self.card(facts.card)?);
            return Ok(StepFile { verify, ..with_category(StepFile::default(), facts)? });
        }
        let (amount, billing) = money(&facts.amounts)?;
        let at = self.model.find_card(facts.card);
        let allows_partial = at.is_some_and(|at| self.model.allows_partial(at));
        let takes_partial = authorize.partial == PartialApproval::Taken && allows_partial;
        let card = Some(self.card(facts.card)?);
        let step = with_category(StepFile { card, billing, ..StepFile::default() }, facts)?;
        let partial = (takes_partial && billing.is_none()).then_some(true);
        Ok(match authorize.kind {
            AuthorizationKind::Cash => StepFile { cash: Some(amount), ..step },
            AuthorizationKind::SingleMessage => {
                StepFile { purchase: Some(amount), partial, ..step }
            }
            _ => StepFile { authorize: Some(amount), partial, ..step },
        })
    }

    fn increment(&mut self, increment: &Increment) -> Result<StepFile, Omission> {
        let card = increment.card.map(|card| self.model.find_card(card));
        let found = match card {
            Some(None) => None,
            Some(card) => self.model.find_original(card, &increment.original),
            None => self.model.find_original(None, &increment.original),
        };
        match (found.filter(|found| self.is_pending(*found)), &increment.otherwise) {
            (Some(found), _) => {
                let (amount, billing) = money(&increment.amounts)?;
                let of = Some(self.purchase(found)?);
                Ok(StepFile { increment: Some(amount), of, billing, ..StepFile::default() })
            }
            (None, Some(authorize)) => self.authorize(authorize),
            (None, None) => Err(("increments", "the purchase is not pending")),
        }
    }

    fn advise(&mut self, advise: &Advise) -> Result<StepFile, Omission> {
        let facts = &advise.facts;
        let declined = (advise.outcome == AdviceOutcome::Declined).then_some(true);
        let (amount, billing) = money(&facts.amounts)?;
        let step = StepFile { advise: Some(amount), billing, declined, ..StepFile::default() };
        let card = self.model.find_card(facts.card);
        let found = card.and_then(|card| self.model.find_original(Some(card), &advise.original));
        match found.filter(|found| self.is_pending(*found)) {
            Some(found) => self.naming(step, found, &advise.original),
            None => self.opening(step, facts),
        }
    }

    fn reverse(&mut self, reverse: &Reverse) -> Result<StepFile, Omission> {
        let card = reverse.card.map(|card| self.model.find_card(card));
        let found = match card {
            Some(None) => None,
            Some(card) => self.model.find_original(card, &reverse.original),
            None => self.model.find_original(None, &reverse.original),
        };
        let advice = (reverse.kind == ReversalKind::Advice).then_some(true);
        let step = StepFile { advice, ..StepFile::default() };
        let Some(found) = found else { return self.reverse_early(step, reverse) };
        let purchase = &self.model.purchases[found];
        let is_refund = purchase.kind == TransactionKind::Refund;
        let open = if is_refund { -purchase.posted } else { purchase.held().max(purchase.posted) };
        let kept = match reverse.amount {
            ReversalAmount::Full => None,
            ReversalAmount::GiveBack(back) => Some(open - back.0),
            ReversalAmount::Remaining(kept) | ReversalAmount::RemainingOriginal(kept) => {
                Some(kept.0)
            }
        };
        if kept.is_some() && purchase.foreign.is_some() {
            return Err((
                "partial reversals",
                "the rate of a purchase in another currency is not told",
            ));
        }
        let keep = kept_money(kept)?;
        let reverse_of = Some(self.purchase(found)?);
        let by = by_of(&reverse.original, false);
        Ok(StepFile { reverse: reverse_of, keep, by, ..step })
    }

    /// A reversal of a purchase that has not come. Its name is filled in when it comes.
    fn reverse_early(&mut self, step: StepFile, reverse: &Reverse) -> Result<StepFile, Omission> {
        let Some(key) = reverse.original.original_key else {
            return Err(("reversals", "there is no purchase that they name"));
        };
        let kept = match reverse.amount {
            ReversalAmount::Full => None,
            ReversalAmount::GiveBack(_) => {
                return Err((
                    "partial reversals",
                    "what they leave of a later message is not told",
                ));
            }
            ReversalAmount::Remaining(kept) | ReversalAmount::RemainingOriginal(kept) => {
                Some(kept.0)
            }
        };
        let keep = kept_money(kept)?;
        self.begin(None);
        // Behind the step of the time that passes before it.
        let gap = usize::from((self.at - self.told_at) / SECOND > 0);
        self.early.entry(key).or_default().push(self.told.steps.len() + gap);
        Ok(StepFile { reverse: Some(String::new()), keep, ..step })
    }

    fn present(&mut self, present: &Present) -> Result<StepFile, Omission> {
        let card = present.facts.as_ref().map(|facts| self.model.find_card(facts.card));
        let found = match card {
            Some(None) => return Err(("messages", "their card does not exist")),
            card => self.model.find_original(card.flatten(), &present.original),
        };
        let purchases = &self.model.purchases;
        let found = found.filter(|at| purchases[*at].kind != TransactionKind::Refund);
        let held = found.map_or(0, |at| purchases[at].held());
        let of_facts = present.facts.as_ref().map(|facts| facts.amounts);
        let amounts = present.amounts.or(of_facts.filter(|_| found.is_none()));
        let (amount, billing) = match &amounts {
            Some(amounts) => money(amounts)?,
            None => (carried(Money::of_account(held))?, None),
        };
        let number = present.number;
        if number.number > number.count {
            return Err(("presentments", "their number is beyond their count"));
        }
        let number = (number.count > 1)
            .then_some(Presentment { number: number.number, count: number.count });
        let step = StepFile { present: Some(amount), billing, number, ..StepFile::default() };
        match (found, &present.facts) {
            (Some(found), _) => self.naming(step, found, &present.original),
            (None, Some(facts)) => self.opening(step, facts),
            (None, None) => Err(("presentments", "there is no purchase that they name")),
        }
    }

    fn refund(&mut self, refund: &Refund) -> Result<StepFile, Omission> {
        let facts = &refund.facts;
        let (amount, billing) = money(&facts.amounts)?;
        let step = StepFile { refund: Some(amount), billing, ..StepFile::default() };
        let card = self.model.find_card(facts.card);
        let found = card.and_then(|card| self.model.find_original(Some(card), &refund.original));
        match found {
            Some(found) => {
                let by = by_of(&refund.original, true);
                let of = Some(self.purchase(found)?);
                Ok(StepFile { of, by, ..step })
            }
            None => self.opening(step, facts),
        }
    }

    fn transfer(&mut self, transfer: &Transfer) -> Result<StepFile, Omission> {
        let Money { minor, .. } = carried(Money::of_account(transfer.amount.0))?;
        let is_deposit = transfer.direction == TransferDirection::Deposit;
        let amount = Money::of_account(if is_deposit { minor } else { -minor });
        let is_settled = transfer.timing == TransferTiming::AtOnce;
        if !self.model.has_account(transfer.account) {
            return Err(("transfers", "there is no such account"));
        }
        self.begin(None);
        let settled = is_settled.then_some(true);
        Ok(StepFile { transfer: Some(amount), settled, ..StepFile::default() })
    }

    fn conclude(&mut self, conclude: &ConcludeTransfer) -> Result<StepFile, Omission> {
        let count = self.model.transfers.len();
        let found = (0..count).find(|at| self.model.transfer_id(*at) == conclude.transaction);
        let name = found.and_then(|found| self.transfers.get(&found).cloned());
        let name = name.ok_or(("ends of transfers", "there is no such transfer"))?;
        Ok(match conclude.conclusion {
            TransferConclusion::Settle => StepFile { settle: Some(name), ..StepFile::default() },
            TransferConclusion::Return => StepFile { take_back: Some(name), ..StepFile::default() },
        })
    }

    /// A message that is about an earlier purchase.
    fn naming(
        &self,
        step: StepFile,
        found: usize,
        original: &OriginalRef,
    ) -> Result<StepFile, Omission> {
        Ok(StepFile { of: Some(self.purchase(found)?), by: by_of(original, false), ..step })
    }

    /// A message that opens a transaction by itself.
    fn opening(&mut self, step: StepFile, facts: &PurchaseFacts) -> Result<StepFile, Omission> {
        let card = Some(self.card(facts.card)?);
        with_category(StepFile { card, ..step }, facts)
    }
}

/// The way in which a message names its purchase. A refund's own reference number names none.
fn by_of(original: &OriginalRef, is_refund: bool) -> Option<Naming> {
    if original.transaction.is_some() {
        return None;
    }
    if original.authorization_id.is_some() {
        return Some(Naming::AuthorizationId);
    }
    let by_reference = original.original_key.is_none() && !is_refund;
    Some(if by_reference { Naming::Rrn } else { Naming::OriginalData })
}

fn with_category(step: StepFile, facts: &PurchaseFacts) -> Result<StepFile, Omission> {
    let mcc = facts.merchant.mcc.map(|mcc| mcc.0);
    let mcc = mcc.ok_or(("messages without a category", "a scenario's merchants have one"))?;
    if has_merchant_of(mcc) {
        return Ok(StepFile { mcc: Some(mcc), ..step });
    }
    // Holds of stays last longer.
    let mcc = if (3351..=3999).contains(&mcc) { 7011 } else { 4111 };
    Ok(StepFile { mcc: Some(mcc), ..step })
}

/// The amount of a message, and the billed one where the currencies differ.
fn money(amounts: &MessageAmounts) -> Result<(Money, Option<Money>), Omission> {
    let own = Money::of_account(amounts.amount.0);
    let Some(currency) = amounts.currency.filter(|currency| currency.0 != own.numeric()) else {
        return Ok((carried(own)?, None));
    };
    let no_billing = ("messages without a billed amount", "a scenario's always have one");
    let billing = amounts.billing.filter(|billing| billing.currency.0 == own.numeric());
    let billing = Money::of_account(billing.ok_or(no_billing)?.amount.0);
    let amount = Money::of_currency(amounts.amount.0, currency.0).ok_or(no_billing)?;
    Ok((carried(amount)?, Some(carried(billing)?)))
}

/// What stays after a reversal, which may be nothing.
/// Errors: an amount that a door refuses.
fn kept_money(kept: Option<i64>) -> Result<Option<Money>, Omission> {
    match kept {
        Some(0) => Ok(Some(Money::of_account(0))),
        kept => kept.map(Money::of_account).map(carried).transpose(),
    }
}

/// Errors: an amount that a door refuses.
fn carried(money: Money) -> Result<Money, Omission> {
    let is_carried = (1..=AMOUNT_MAX).contains(&money.minor);
    is_carried.then_some(money).ok_or(("messages", "not every door takes their amount"))
}
