//! From a JSON body to what is asked of the engine. Faults are collected in the body's `Fields`;
//! whoever calls refuses the body when there are any.

use std::borrow::Cow;

use cardswitch_engine::command::network::{
    AdviceOutcome, Advise, AuthorizationKind, Authorize, CardRef, Increment, InquireBalance,
    MessageAmounts, NetworkCommand, NetworkRequest, OriginalRef, PartialApproval, Present,
    PresentmentNumber, PurchaseFacts, Refund, ReversalAmount, ReversalKind, Reverse,
};
use cardswitch_engine::command::{Command, TimedCommand};
use cardswitch_engine::domain::card::PanHash;
use cardswitch_engine::domain::credential::{PackedZip, PresentedCredentials};
use cardswitch_engine::domain::ids::{CardId, Timestamp};
use cardswitch_engine::domain::merchant::Merchant;
use cardswitch_engine::domain::money::{CurrencyAmount, CurrencyCode, Minor};
use cardswitch_engine::domain::network_key::{
    DuplicateKey, DuplicateWindow, Fingerprint, NetworkTrace,
};
use cardswitch_engine::domain::text::LineText;
use uuid::Uuid;

use super::named::Named;
use super::transfers::plan_transfer;
use super::values::{
    CardUse, Lowest, Steering, amount, authorization_id, card_use, category_code, currency, digits,
    expiry_month, line, merchant_id, presentment_count, trace_number,
};
use crate::error::ApiError;
use crate::network::marks::{Marks, merchant_number};
use crate::secrets::{HashPurpose, Secrets};
use crate::state::AppState;
use crate::switch::View;
use crate::wire::fault::Flaw;
use crate::wire::fields::{self, Fields};

/// What can be asked through this door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Authorization,
    Advice,
    Reversal,
    Presentment,
    Refund,
    Increment,
    Transfer,
}

impl Operation {
    /// The operation by its name in a batch.
    pub(super) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "authorization" => Self::Authorization,
            "advice" => Self::Advice,
            "reversal" => Self::Reversal,
            "presentment" => Self::Presentment,
            "refund" => Self::Refund,
            "increment" => Self::Increment,
            "transfer" => Self::Transfer,
            _ => return None,
        })
    }

    /// What becomes of its texts.
    const fn steering(self) -> Steering {
        match self {
            Self::Authorization | Self::Increment | Self::Transfer => Steering::Refused,
            Self::Advice | Self::Reversal | Self::Presentment | Self::Refund => Steering::Spaced,
        }
    }
}

/// How a client marks a request that it may repeat.
#[derive(Clone, Copy)]
pub(super) struct Repetition<'a> {
    pub(super) key: &'a [u8],
    /// Its place in a batch.
    pub(super) place: u64,
}

/// What came in.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) operation: Operation,
    /// The body the fields are of.
    pub(super) body: &'a [u8],
    pub(super) repetition: Option<Repetition<'a>>,
}

/// A command, and what its answer needs.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) command: TimedCommand,
    pub(super) currency: CurrencyCode,
}

/// Reads a body. What it gives counts only if `fields` has no faults afterwards.
/// Errors: the body names a transaction that is not there; the tables cannot be read.
pub(super) fn plan_request(
    state: &AppState,
    view: &View<'_>,
    asked: &Asked<'_>,
    fields: &mut Fields<'_>,
) -> Result<Planned, ApiError> {
    if asked.operation == Operation::Transfer {
        return plan_transfer(state, view, asked, fields);
    }
    let named = Named::read(state, view, fields)?;
    let card_of_transaction = match named.transaction.as_ref().and_then(|(_, row)| row.record.card)
    {
        Some(slot) => view.snapshot()?.card(slot)?.map(|card| card.profile.id),
        None => None,
    };
    let supplied_at = fields.optional("time", fields::timestamp);
    let steering = asked.operation.steering();
    let mut reader = Reader::new(state, &named, (card_of_transaction, steering), fields);
    let command = match asked.operation {
        Operation::Authorization => reader.authorization(),
        Operation::Advice => reader.advice(),
        Operation::Reversal => reader.reversal(),
        Operation::Presentment => reader.presentment(),
        Operation::Refund => reader.refund(),
        Operation::Increment => reader.increment(),
        Operation::Transfer => unreachable!("planned by itself"),
    };
    Ok(planned(state, asked, command, supplied_at, named.currency))
}

pub(super) fn planned(
    state: &AppState,
    asked: &Asked<'_>,
    command: NetworkCommand,
    supplied_at: Option<Timestamp>,
    currency: CurrencyCode,
) -> Planned {
    let fingerprint = fingerprint_of(&state.secrets, asked);
    let command = Command::Network(Box::new(NetworkRequest { command, fingerprint }));
    Planned { command: TimedCommand { command, supplied_at }, currency }
}

/// The identity of a request that its client marked; without a mark none is a repeat.
fn fingerprint_of(secrets: &Secrets, asked: &Asked<'_>) -> Option<Fingerprint> {
    let Repetition { key, place } = asked.repetition?;
    let mut id = secrets.message_hasher(HashPurpose::Idempotency);
    let mut content = secrets.message_hasher(HashPurpose::Content);
    Some(Fingerprint {
        key: DuplicateKey(id.part(Some(key)).number(place).finish128()),
        trace: None,
        content: content.number(asked.operation as u64).part(Some(asked.body)).finish64(),
        window: DuplicateWindow::Day,
    })
}

/// One body while it is read. Where a field is at fault a stand-in is returned, which is never
/// used.
struct Reader<'a, 'b, 'c> {
    secrets: &'a Secrets,
    named: &'a Named,
    card_of_transaction: Option<CardId>,
    /// The currency the merchant asks in, where the body says it.
    currency: Option<CurrencyCode>,
    steering: Steering,
    rrn: Option<LineText>,
    acquirer: Option<Cow<'c, str>>,
    fields: &'b mut Fields<'c>,
}

impl<'a, 'b, 'c> Reader<'a, 'b, 'c> {
    fn new(
        state: &'a AppState,
        named: &'a Named,
        (card_of_transaction, steering): (Option<CardId>, Steering),
        fields: &'b mut Fields<'c>,
    ) -> Self {
        let currency = fields.nullable("currency", currency).flatten();
        let rrn = fields.optional("rrn", |value| line(value, 12, steering));
        let acquirer = fields.optional("acquirer", |value| digits(value, 1, 11));
        Self {
            secrets: &state.secrets,
            named,
            card_of_transaction,
            currency,
            steering,
            rrn,
            acquirer,
            fields,
        }
    }

    fn authorization(&mut self) -> NetworkCommand {
        self.require_card();
        let kind = match self.fields.optional("kind", card_use) {
            Some(CardUse::InquireBalance) => return self.balance_inquiry(),
            Some(CardUse::Authorize(kind)) => Some(kind),
            None => None,
        };
        let amounts = match kind {
            Some(AuthorizationKind::Verification) if !self.fields.has("amount") => {
                self.amounts_of(Minor::ZERO)
            }
            _ => self.required_amounts(Lowest::Zero),
        };
        let kind = match kind {
            None | Some(AuthorizationKind::Purchase | AuthorizationKind::SingleMessage)
                if amounts.amount.is_zero() =>
            {
                AuthorizationKind::Verification
            }
            kind => kind.unwrap_or(AuthorizationKind::Purchase),
        };
        if kind == AuthorizationKind::Verification && !amounts.amount.is_zero() {
            let flaw = Flaw::new("not_zero", "must be 0 or absent in a verification");
            self.fields.fault("amount", flaw);
        }
        let takes_partial = self.fields.optional("partial", fields::boolean).unwrap_or(false);
        let partial =
            if takes_partial { PartialApproval::Taken } else { PartialApproval::NotTaken };
        let credentials = self.credentials();
        let facts = self.facts(amounts);
        NetworkCommand::Authorize(Authorize { facts, kind, credentials, partial })
    }

    fn increment(&mut self) -> NetworkCommand {
        let original = self.original();
        self.require_original(&original);
        let amounts = self.required_amounts(Lowest::AboveZero);
        let credentials = self.credentials();
        let mcc = self.merchant("").mcc;
        // Of no use, but a wrong one is a mistake all the same.
        self.trace();
        let card = self.named.card;
        let otherwise = None;
        NetworkCommand::Increment(Increment {
            card,
            amounts,
            mcc,
            credentials,
            original,
            otherwise,
        })
    }

    fn balance_inquiry(&mut self) -> NetworkCommand {
        let card = self.card();
        NetworkCommand::InquireBalance(InquireBalance { card, credentials: self.credentials() })
    }

    fn advice(&mut self) -> NetworkCommand {
        self.require_card();
        let amounts = self.required_amounts(Lowest::Zero);
        let is_approved = self.fields.optional("approved", fields::boolean).unwrap_or(true);
        let credentials = self.credentials();
        NetworkCommand::Advise(Advise {
            facts: self.facts(amounts),
            credentials,
            outcome: if is_approved { AdviceOutcome::Approved } else { AdviceOutcome::Declined },
            original: self.original(),
        })
    }

    fn reversal(&mut self) -> NetworkCommand {
        let original = self.original();
        self.require_original(&original);
        let own = self.named.currency;
        let given_back = self.fields.optional("amount", |v| amount(v, own, Lowest::AboveZero));
        let remaining = self.fields.optional("remaining", |v| amount(v, own, Lowest::Zero));
        let amount = match (given_back, remaining) {
            (Some(_), Some(_)) => {
                let message = "must not be given together with `amount`";
                self.fields.fault("remaining", Flaw::new("conflicting", message));
                ReversalAmount::Full
            }
            (Some(given_back), None) => ReversalAmount::GiveBack(given_back),
            (None, Some(remaining)) => ReversalAmount::Remaining(remaining),
            (None, None) => ReversalAmount::Full,
        };
        let kind = ReversalKind::Request;
        NetworkCommand::Reverse(Reverse { card: self.named.card, original, amount, kind })
    }

    fn presentment(&mut self) -> NetworkCommand {
        let original = self.original();
        if original.transaction.is_none() {
            self.require_card();
        }
        let has_amount = self.fields.has("amount");
        let amounts = if has_amount || original.transaction.is_none() {
            Some(self.required_amounts(Lowest::AboveZero))
        } else {
            None
        };
        let facts = amounts.filter(|_| self.named.card.is_some());
        NetworkCommand::Present(Present {
            facts: facts.map(|amounts| self.facts(amounts)),
            amounts,
            original,
            number: self.presentment_number(),
        })
    }

    fn refund(&mut self) -> NetworkCommand {
        let original = self.original();
        if original.transaction.is_none() {
            self.require_card();
        }
        let amounts = self.required_amounts(Lowest::AboveZero);
        let mut facts = self.facts(amounts);
        if let Some((_, row)) = &self.named.transaction
            && !self.fields.has("merchant")
            && let Some(merchant) = &row.record.merchant
        {
            facts.merchant = merchant.clone();
        }
        NetworkCommand::Refund(Refund { facts, original })
    }

    /// A card must be named, or a transaction that has one.
    fn require_card(&mut self) {
        let is_at_fault = self.fields.has("card_number") || self.fields.has("card_id");
        if self.named.card.is_none() && !is_at_fault {
            let message = "is required, or `card_id` instead";
            self.fields.fault("card_number", Flaw::new("required", message));
        }
    }

    fn require_original(&mut self, original: &OriginalRef) {
        let is_named = original.authorization_id.is_some()
            || original.original_key.is_some()
            || original.retrieval_key.is_some();
        if original.transaction.is_some() {
            return;
        }
        self.require_card();
        let names = ["transaction_id", "authorization_id", "rrn", "original_stan"];
        if !is_named && !names.iter().any(|name| self.fields.has(name)) {
            let message =
                "is required, or `authorization_id`, `rrn` or `original_stan` with a card";
            self.fields.fault("transaction_id", Flaw::new("required", message));
        }
    }

    fn facts(&mut self, amounts: MessageAmounts) -> PurchaseFacts {
        let card = self.card();
        let trace = self.trace();
        let merchant = self.merchant(&trace.acquirer);
        PurchaseFacts { card, amounts, merchant, trace }
    }

    /// The card named, else the one of the transaction named.
    fn card(&self) -> CardRef {
        let of_transaction = self.card_of_transaction;
        let nobody = CardId(Uuid::nil());
        self.named.card.unwrap_or_else(|| CardRef::Id(of_transaction.unwrap_or(nobody)))
    }

    fn required_amounts(&mut self, lowest: Lowest) -> MessageAmounts {
        let currency = self.currency.unwrap_or(self.named.currency);
        let amount = self.fields.required("amount", |value| amount(value, currency, lowest));
        self.amounts_of(amount)
    }

    fn amounts_of(&mut self, asked: Minor) -> MessageAmounts {
        let own = self.named.currency;
        let is_foreign = self.currency.is_some_and(|currency| currency != own);
        let read = |value| amount(value, own, Lowest::Zero);
        let billing = if is_foreign {
            Some(self.fields.required("billing_amount", read))
        } else {
            // Of no use, but a wrong one is a mistake all the same.
            self.fields.nullable("billing_amount", read);
            None
        };
        MessageAmounts {
            amount: asked,
            currency: self.currency,
            billing: billing.map(|amount| CurrencyAmount { amount, currency: own }),
        }
    }

    fn credentials(&mut self) -> PresentedCredentials {
        let (named, secrets) = (self.named, self.secrets);
        let cvv = self.fields.optional("cvv", fields::borrowed_text);
        let pin = self.fields.optional("pin", fields::borrowed_text);
        let steering = self.steering;
        let zip = self.fields.optional("zip", |value| line(value, 16, steering));
        PresentedCredentials {
            expiry: self.fields.optional("expiration", expiry_month),
            cvv: cvv.map(|cvv| named.check_cvv(secrets, &cvv)),
            pin: pin.and_then(|pin| named.pin_verifier(secrets, &pin)),
            zip: zip.map(|zip| PackedZip::pack(&zip)).filter(|zip| !zip.is_absent()),
        }
    }

    fn merchant(&mut self, acquirer: &str) -> Merchant {
        let steering = self.steering;
        let read = |inner: &mut Fields<'_>| {
            let text = |inner: &mut Fields<'_>, name: &str, chars_max: usize| {
                inner.optional(name, |value| line(value, chars_max, steering))
            };
            let number = inner.optional("mid", |value| merchant_id(value, steering));
            let sent = text(inner, "card_acceptor_id", 15).or(number);
            let sent = sent.unwrap_or_default();
            Merchant {
                mid: merchant_number(acquirer, &sent),
                mcc: inner.nullable("mcc", category_code).flatten(),
                card_acceptor_id: sent,
                name: text(inner, "name", 64).unwrap_or_default(),
                city: text(inner, "city", 64).unwrap_or_default(),
                state: text(inner, "state", 16).unwrap_or_default(),
                country: text(inner, "country", 3).unwrap_or_default(),
                zip: text(inner, "zip", 16).unwrap_or_default(),
            }
        };
        self.fields.object("merchant", read).unwrap_or_default()
    }

    fn trace(&mut self) -> NetworkTrace {
        let stan = self.fields.optional("stan", trace_number);
        let time = self.fields.optional("transmission_time", |value| digits(value, 10, 10));
        let steering = self.steering;
        let terminal = self.fields.optional("terminal", |value| line(value, 8, steering));
        let marks = Marks {
            stan: stan.as_deref(),
            transmission_time: time.as_deref(),
            rrn: self.rrn.as_deref(),
            acquirer: self.acquirer.as_deref(),
            terminal: terminal.as_deref(),
        };
        match self.named.hash {
            Some(hash) => marks.trace(self.secrets, hash),
            None => NetworkTrace {
                original_key: None,
                retrieval_key: None,
                ..marks.trace(self.secrets, PanHash::default())
            },
        }
    }

    /// Which earlier purchase this is about.
    fn original(&mut self) -> OriginalRef {
        let authorization_id = self.fields.optional("authorization_id", authorization_id);
        let stan = self.fields.optional("original_stan", trace_number);
        let time =
            self.fields.optional("original_transmission_time", |value| digits(value, 10, 10));
        let marks = Marks {
            stan: stan.as_deref(),
            transmission_time: time.as_deref(),
            rrn: self.rrn.as_deref(),
            acquirer: self.acquirer.as_deref(),
            terminal: None,
        };
        let (hash, secrets) = (self.named.hash, self.secrets);
        OriginalRef {
            transaction: self.named.transaction.as_ref().map(|(id, _)| *id),
            authorization_id,
            original_key: hash.and_then(|hash| marks.original_key(secrets, hash)),
            retrieval_key: hash.and_then(|hash| marks.retrieval_key(secrets, hash)),
        }
    }

    fn presentment_number(&mut self) -> PresentmentNumber {
        let number = self.fields.optional("presentment_number", presentment_count);
        let count = self.fields.optional("presentment_count", presentment_count);
        let number = number.unwrap_or(1);
        let count = count.unwrap_or(number);
        if number > count {
            let message = "must not be above `presentment_count`";
            self.fields.fault("presentment_number", Flaw::new("out_of_range", message));
        }
        PresentmentNumber { number, count }
    }
}

#[cfg(test)]
#[path = "requests_tests.rs"]
mod tests;
