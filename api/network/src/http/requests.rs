//! From a JSON body to what is asked of the engine. Faults are collected in the body's `Fields`;
//! whoever calls refuses the body when there are any.
//!
//! INVARIANT: each operation reads every field of its shape, also those that it has no use for: what
//! is left unread is unknown, and refused. A request must not spend by a misunderstanding.

use std::borrow::Cow;

use cardswitch_edge::error::ApiError;
use cardswitch_edge::switch::View;
use cardswitch_engine::command::network::{
    AdviceOutcome, Advise, AuthorizationKind, Authorize, Increment, InquireBalance, MessageAmounts,
    NetworkCommand, NetworkRequest, OriginalRef, PartialApproval, Present, PresentmentNumber,
    PurchaseFacts, Refund, ReversalAmount, ReversalKind, Reverse,
};
use cardswitch_engine::command::{Command, TimedCommand};
use cardswitch_engine::domain::card::PanHash;
use cardswitch_engine::domain::credential::{
    ExpiryMonth, PackedZip, PinVerifier, PresentedCredentials, Shown,
};
use cardswitch_engine::domain::ids::{Timestamp, TransactionId};
use cardswitch_engine::domain::merchant::Merchant;
use cardswitch_engine::domain::money::{CurrencyAmount, CurrencyCode, Minor};
use cardswitch_engine::domain::network_key::{
    DuplicateKey, DuplicateWindow, Fingerprint, NetworkTrace,
};
use cardswitch_engine::domain::text::LineText;
use cardswitch_secrets::{HashPurpose, Secrets};
use cardswitch_wire::fault::Flaw;
use cardswitch_wire::fields::{self, Fields};

use super::named::Named;
use super::state::DoorState;
use super::transfers::plan_transfer;
use super::values::{
    CardUse, Lowest, Steering, amount, authorization_id, card_use, category_code, currency, digits,
    expiry_month, line, merchant_id, presentment_count, trace_number,
};
use crate::marks::{Marks, merchant_number};
use crate::presented::cvv_pair;

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

    /// The treatment of steering characters in its texts.
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
    state: &DoorState,
    view: &View<'_>,
    asked: &Asked<'_>,
    fields: &mut Fields<'_>,
) -> Result<Planned, ApiError> {
    if asked.operation == Operation::Transfer {
        return plan_transfer(state, view, asked, fields);
    }
    // An authorization is about no earlier purchase.
    let transaction = match asked.operation {
        Operation::Authorization => None,
        _ => fields.nullable("transaction_id", fields::id).flatten().map(TransactionId),
    };
    let named = Named::read(state, view, transaction, fields)?;
    let supplied_at = fields.optional("time", fields::timestamp);
    let mut reader = Reader::new(state, &named, asked.operation, fields);
    let command = match asked.operation {
        Operation::Authorization => reader.authorization(),
        Operation::Advice => reader.advice(),
        Operation::Reversal => reader.reversal(),
        Operation::Presentment => reader.presentment(),
        Operation::Refund => reader.refund(),
        Operation::Increment => reader.increment(),
        Operation::Transfer => unreachable!("planned by itself"),
    };
    fields.refuse_unread();
    Ok(planned(state, asked, command, supplied_at, named.currency))
}

pub(super) fn planned(
    state: &DoorState,
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

/// Credentials as a body has them.
struct CredentialTexts<'c> {
    expiry: Option<ExpiryMonth>,
    cvv: Option<Cow<'c, str>>,
    pin: Option<Cow<'c, str>>,
    zip: Option<LineText>,
}

/// One body while it is read. Where a field is at fault a stand-in is returned, which is never
/// used.
struct Reader<'a, 'b, 'c> {
    secrets: &'a Secrets,
    named: &'a Named,
    /// The currency the merchant asks in, where the body says it.
    currency: Option<CurrencyCode>,
    steering: Steering,
    rrn: Option<LineText>,
    acquirer: Option<Cow<'c, str>>,
    fields: &'b mut Fields<'c>,
}

impl<'a, 'b, 'c> Reader<'a, 'b, 'c> {
    fn new(
        state: &'a DoorState,
        named: &'a Named,
        operation: Operation,
        fields: &'b mut Fields<'c>,
    ) -> Self {
        // What a reversal gives back is counted in the account's currency.
        let currency = match operation {
            Operation::Reversal => None,
            _ => fields.nullable("currency", currency).flatten(),
        };
        let steering = operation.steering();
        let rrn = fields.optional("rrn", |value| line(value, 12, steering));
        let acquirer = fields.optional("acquirer", |value| digits(value, 1, 11));
        Self { secrets: &state.secrets, named, currency, steering, rrn, acquirer, fields }
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
        let mcc = self.facts(amounts).merchant.mcc;
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
        let credentials = self.credentials();
        // An inquiry has no use for the rest, but a wrong value is a mistake all the same.
        let own = self.named.currency;
        let asked_in = self.currency.unwrap_or(own);
        self.fields.optional("amount", |value| amount(value, asked_in, Lowest::Zero));
        self.fields.nullable("billing_amount", |value| amount(value, own, Lowest::Zero));
        self.fields.optional("partial", fields::boolean);
        self.trace();
        self.merchant("");
        let card = self.named.card();
        NetworkCommand::InquireBalance(InquireBalance { card, credentials })
    }

    fn advice(&mut self) -> NetworkCommand {
        self.require_card();
        let amounts = self.required_amounts(Lowest::Zero);
        let is_approved = self.fields.optional("approved", fields::boolean).unwrap_or(true);
        self.read_credentials();
        NetworkCommand::Advise(Advise {
            facts: self.facts(amounts),
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
        self.read_credentials();
        self.trace();
        let kind = ReversalKind::Request;
        NetworkCommand::Reverse(Reverse { card: self.named.card, original, amount, kind })
    }

    fn presentment(&mut self) -> NetworkCommand {
        let original = self.original();
        if original.transaction.is_none() {
            self.require_card();
        }
        let names_money = ["amount", "currency", "billing_amount"];
        let has_money = names_money.into_iter().any(|name| self.fields.has(name));
        let amounts = if has_money || original.transaction.is_none() {
            Some(self.required_amounts(Lowest::AboveZero))
        } else {
            None
        };
        self.read_credentials();
        let known = match amounts {
            Some(amounts) => amounts,
            None => self.amounts_of(Minor::ZERO),
        };
        let facts = self.facts(known);
        NetworkCommand::Present(Present {
            facts: Some(facts).filter(|_| amounts.is_some() && self.named.card.is_some()),
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
        self.read_credentials();
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
        let card = self.named.card();
        let trace = self.trace();
        let merchant = self.merchant(&trace.acquirer);
        PurchaseFacts { card, amounts, merchant, trace }
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

    /// The credentials of the body, in the forms that the shard compares.
    fn credentials(&mut self) -> PresentedCredentials {
        let secrets = self.secrets;
        let CredentialTexts { expiry, cvv, pin, zip } = self.read_credentials();
        let has_secret = cvv.is_some() || pin.is_some();
        let pan = if has_secret { self.named.pan(secrets) } else { None };
        // A PIN of a card whose number is not known is nobody's, not one that is left out.
        let verifier = |pin: Cow<'_, str>| match &pan {
            Some(pan) => secrets.pin_verifier(pan, pin.as_bytes()),
            None => PinVerifier::default(),
        };
        let zip = zip.map(|zip| PackedZip::pack(&zip)).filter(|zip| !zip.is_absent());
        PresentedCredentials {
            expiry: expiry.map(Shown::new),
            cvv: cvv.map(|cvv| Shown::new(cvv_pair(secrets, pan.as_ref(), cvv.as_bytes()))),
            pin: pin.map(|pin| Shown::new(verifier(pin))),
            zip: zip.map(Shown::new),
        }
    }

    /// The credentials as they stand in the body; where nothing compares them, that is all.
    fn read_credentials(&mut self) -> CredentialTexts<'c> {
        let steering = self.steering;
        CredentialTexts {
            expiry: self.fields.optional("expiration", expiry_month),
            cvv: self.fields.optional("cvv", fields::borrowed_text),
            pin: self.fields.optional("pin", fields::borrowed_text),
            zip: self.fields.optional("zip", |value| line(value, 16, steering)),
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
            let merchant = Merchant {
                mid: merchant_number(acquirer, &sent),
                mcc: inner.nullable("mcc", category_code).flatten(),
                card_acceptor_id: sent,
                name: text(inner, "name", 64).unwrap_or_default(),
                city: text(inner, "city", 64).unwrap_or_default(),
                state: text(inner, "state", 16).unwrap_or_default(),
                country: text(inner, "country", 3).unwrap_or_default(),
                zip: text(inner, "zip", 16).unwrap_or_default(),
            };
            inner.refuse_unread();
            merchant
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
