//! From a JSON body to a command for the engine. Faults are collected in the body's `Fields`; the
//! caller refuses a body with faults.
//!
//! Each operation reads every field that it has, also those that it has no use for: this reading is
//! also what the published document is made of. An unread field is unknown, and refused. A request
//! must not spend by a misunderstanding.

use std::borrow::Cow;

use cardswitch_edge::error::ApiError;
use cardswitch_edge::switch::LazySnapshot;
use cardswitch_engine::command::network::{
    AdviceOutcome, Advise, AuthorizationKind, Authorize, Increment, InquireBalance, MessageAmounts,
    NetworkCommand, NetworkRequest, OriginalRef, PartialApproval, Present, PresentmentNumber,
    PurchaseFacts, Refund, ReversalAmount, ReversalKind, Reverse,
};
use cardswitch_engine::command::{Command, TimedCommand};
use cardswitch_engine::domain::card::PanHash;
use cardswitch_engine::domain::credential::{
    PackedZip, PinVerifier, PresentedCredentials, PresentedValue,
};
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::domain::merchant::Merchant;
use cardswitch_engine::domain::money::{CurrencyAmount, CurrencyCode, Minor};
use cardswitch_engine::domain::network_key::{DuplicateKey, DuplicateWindow, Fingerprint};
use cardswitch_secrets::{HashPurpose, Secrets};
use cardswitch_wire::bodies;
use cardswitch_wire::body::{budget, flag, limit};
use cardswitch_wire::fault::Flaw;
use cardswitch_wire::fields::Fields;

use super::shared_fields::{
    CardTexts, ForeignGiven, MerchantGiven, SharedFields, read_billing, read_merchant,
};
use super::state::DoorState;
use super::subject::RequestSubject;
use super::transfers::plan_transfer;
use super::values::{CardUse, Steering, card_use, presentment_count};
use cardswitch_acquiring::marks::Marks;
use cardswitch_acquiring::presented_card::cvv_pair;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DoorOperation {
    Authorization,
    Advice,
    Reversal,
    Presentment,
    Refund,
    Increment,
    Transfer,
}

impl DoorOperation {
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
    pub(super) const fn steering(self) -> Steering {
        match self {
            Self::Authorization | Self::Increment | Self::Transfer => Steering::Refused,
            Self::Advice | Self::Reversal | Self::Presentment | Self::Refund => Steering::Spaced,
        }
    }
}

/// The mark of a request that a client may repeat.
#[derive(Clone, Copy)]
pub(super) struct Repetition<'a> {
    pub(super) key: &'a [u8],
    /// Its place in a batch.
    pub(super) place: u64,
}

/// A request as it came in.
#[derive(Clone, Copy)]
pub(super) struct IncomingRequest<'a> {
    pub(super) operation: DoorOperation,
    /// The body the fields are of.
    pub(super) body: &'a [u8],
    pub(super) repetition: Option<Repetition<'a>>,
}

/// A command, and what its answer needs.
#[derive(Debug)]
pub(super) struct PlannedCommand {
    pub(super) command: TimedCommand,
    pub(super) currency: CurrencyCode,
    /// Of the card, where it is known.
    pub(super) last_four: Option<[u8; 4]>,
}

/// Reads a body. The result counts only if `fields` has no faults afterwards.
/// Errors: the body names a transaction that is not there; the tables cannot be read.
pub(super) fn plan_request(
    state: &DoorState,
    view: &LazySnapshot<'_>,
    asked: &IncomingRequest<'_>,
    fields: &mut Fields<'_>,
) -> Result<PlannedCommand, ApiError> {
    if asked.operation == DoorOperation::Transfer {
        return plan_transfer(state, view, asked, fields);
    }
    let shared = SharedFields::read(asked.operation, fields);
    let supplied_at = shared.trace.supplied_at;
    let subject = RequestSubject::find(state, view, &shared)?;
    let secrets = Some(&*state.secrets);
    let command =
        BodyReader { secrets, subject: &subject, shared, fields }.command(asked.operation);
    fields.refuse_unread();
    let last_four = subject.last_four();
    Ok(PlannedCommand {
        last_four,
        ..planned(state, asked, command, supplied_at, subject.currency)
    })
}

/// Asks for the fields of an operation, as `plan_request` does.
fn ask(operation: DoorOperation, fields: &mut Fields<'_>) {
    let (shared, subject) = (SharedFields::read(operation, fields), &RequestSubject::default());
    BodyReader { secrets: None, subject, shared, fields }.command(operation);
}

bodies! {
    /// An authorization: may this purchase be made?
    AuthorizationRequest "AuthorizationRequest" |fields| ask(DoorOperation::Authorization, fields);
    /// A decision on the issuer's behalf, or the completion of a purchase that holds something.
    AdviceRequest "AdviceRequest" |fields| ask(DoorOperation::Advice, fields);
    /// Gives back what a purchase holds.
    ReversalRequest "ReversalRequest" |fields| ask(DoorOperation::Reversal, fields);
    /// Posts a purchase.
    PresentmentRequest "PresentmentRequest" |fields| ask(DoorOperation::Presentment, fields);
    /// Gives money back for a purchase, or for none.
    RefundRequest "RefundRequest" |fields| ask(DoorOperation::Refund, fields);
    /// Adds to a purchase that holds something.
    IncrementRequest "IncrementRequest" |fields| ask(DoorOperation::Increment, fields);
}

pub(super) fn planned(
    state: &DoorState,
    asked: &IncomingRequest<'_>,
    command: NetworkCommand,
    supplied_at: Option<Timestamp>,
    currency: CurrencyCode,
) -> PlannedCommand {
    let fingerprint = fingerprint_of(&state.secrets, asked);
    let command = Command::Network(Box::new(NetworkRequest { command, fingerprint }));
    PlannedCommand { command: TimedCommand { command, supplied_at }, currency, last_four: None }
}

/// The identity of a request that its client marked; without a mark none is a repeat.
fn fingerprint_of(secrets: &Secrets, asked: &IncomingRequest<'_>) -> Option<Fingerprint> {
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

const SELLER_ABOUT: &str = "Merchant.";
const ABOVE_ZERO: &str = "must be above zero";

/// A body while it is read. A field at fault gives a stand-in, which is never used.
struct BodyReader<'a, 'b, 'c> {
    /// None where the fields are only asked for.
    secrets: Option<&'a Secrets>,
    subject: &'a RequestSubject,
    shared: SharedFields<'c>,
    fields: &'b mut Fields<'c>,
}

impl<'a, 'c> BodyReader<'a, '_, 'c> {
    fn command(&mut self, operation: DoorOperation) -> NetworkCommand {
        match operation {
            DoorOperation::Authorization => self.authorization(),
            DoorOperation::Advice => self.advice(),
            DoorOperation::Reversal => self.reversal(),
            DoorOperation::Presentment => self.presentment(),
            DoorOperation::Refund => self.refund(),
            DoorOperation::Increment => self.increment(),
            DoorOperation::Transfer => unreachable!("planned by itself"),
        }
    }

    fn authorization(&mut self) -> NetworkCommand {
        self.require_card();
        let card_use = self.fields.may("kind", "Kind of the purchase.", card_use());
        let amount = self.fields.may("amount", "Requested amount.", budget(self.currency()));
        let about = "Whether the terminal can take a part.";
        let takes_partial = self.fields.may("partial", about, flag()).unwrap_or(false);
        let credentials = self.credentials();
        let kind = match card_use {
            Some(CardUse::InquireBalance) => {
                // An inquiry has no use for the rest, but a wrong value is a mistake all the same.
                self.billing();
                self.merchant(SELLER_ABOUT);
                let card = self.subject.card();
                return NetworkCommand::InquireBalance(InquireBalance { card, credentials });
            }
            Some(CardUse::Authorize(kind)) => Some(kind),
            None => None,
        };
        if amount.is_none() && kind != Some(AuthorizationKind::Verification) {
            self.require("amount");
        }
        let amounts = self.amounts(amount.unwrap_or_default());
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
        let partial =
            if takes_partial { PartialApproval::Taken } else { PartialApproval::NotTaken };
        let facts = self.facts(amounts, SELLER_ABOUT);
        NetworkCommand::Authorize(Authorize { facts, kind, credentials, partial })
    }

    fn increment(&mut self) -> NetworkCommand {
        let original = self.original();
        self.require_original(&original);
        let amount = limit(self.currency(), ABOVE_ZERO);
        let amount = self.fields.must("amount", "Added amount.", amount);
        let amounts = self.amounts(amount);
        let credentials = self.credentials();
        let mcc = self.merchant(SELLER_ABOUT).mcc;
        let card = self.subject.card;
        let marks = self.shared.trace.marks();
        NetworkCommand::Increment(Increment {
            card,
            amounts,
            mcc,
            credentials,
            original,
            own_key: self.keys().and_then(|(secrets, hash)| marks.original_key(secrets, hash)),
            otherwise: None,
        })
    }

    fn advice(&mut self) -> NetworkCommand {
        let original = self.original();
        self.require_own_card(&original);
        let amount = self.fields.must("amount", "What it is for.", budget(self.currency()));
        let amounts = self.amounts(amount);
        let about = "Whether it was approved; true where it is absent.";
        let is_approved = self.fields.may("approved", about, flag()).unwrap_or(true);
        NetworkCommand::Advise(Advise {
            facts: self.facts(amounts, SELLER_ABOUT),
            is_cash: false,
            outcome: if is_approved { AdviceOutcome::Approved } else { AdviceOutcome::Declined },
            original,
            request: None,
        })
    }

    fn reversal(&mut self) -> NetworkCommand {
        let original = self.original();
        self.require_original(&original);
        let named = &self.shared.original;
        if named.transmission_time.is_some() && named.stan.is_none() {
            self.require("original_stan");
        }
        let own = self.subject.currency;
        let about =
            "Amount to return, in the account's currency; all if this and `remaining` are absent.";
        let given_back = self.fields.may("amount", about, limit(own, ABOVE_ZERO));
        let remaining =
            self.fields.may("remaining", "Amount that stays, with what is posted.", budget(own));
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
        NetworkCommand::Reverse(Reverse { card: self.subject.card, original, amount, kind })
    }

    fn presentment(&mut self) -> NetworkCommand {
        let original = self.original();
        self.require_own_card(&original);
        let names_money = ["amount", "currency", "billing_amount"];
        let has_money = names_money.into_iter().any(|name| self.fields.has(name));
        let is_told = has_money || original.transaction.is_none();
        let about = "Posted amount; by default the held amount of the named transaction, \
            and required where nothing is held.";
        let amount = self.fields.may("amount", about, limit(self.currency(), ABOVE_ZERO));
        if amount.is_none() && is_told {
            self.require("amount");
        }
        let amounts = self.amounts(amount.unwrap_or_default());
        let facts = self.facts(amounts, SELLER_ABOUT);
        NetworkCommand::Present(Present {
            facts: Some(facts).filter(|_| self.subject.has_card()),
            amounts: Some(amounts).filter(|_| is_told),
            original,
            number: self.presentment_number(),
        })
    }

    fn refund(&mut self) -> NetworkCommand {
        let original = self.original();
        self.require_own_card(&original);
        let amount = limit(self.currency(), ABOVE_ZERO);
        let amount = self.fields.must("amount", "Returned amount.", amount);
        let amounts = self.amounts(amount);
        let about = "Merchant; by default that of the named purchase.";
        let mut facts = self.facts(amounts, about);
        if let Some((_, row)) = &self.subject.transaction
            && !self.fields.has("merchant")
            && let Some(merchant) = &row.record.merchant
        {
            facts.merchant = merchant.clone();
        }
        NetworkCommand::Refund(Refund { facts, original })
    }

    /// The field must be there.
    fn require(&mut self, name: &str) {
        if !self.fields.is_faulty(name) {
            self.fields.fault(name, Flaw::required());
        }
    }

    /// A card must be named, or a transaction that has one.
    fn require_card(&mut self) {
        let is_at_fault = self.fields.has("card_number") || self.fields.has("card_id");
        if self.subject.card.is_none() && !is_at_fault {
            let message = "is required, or `card_id` instead";
            self.fields.fault("card_number", Flaw::new("required", message));
        }
    }

    /// A card or a transaction must be named; both only if they belong together.
    fn require_own_card(&mut self, original: &OriginalRef) {
        if original.transaction.is_none() {
            self.require_card();
        } else if self.subject.is_of_another_card {
            let message = "is of another card";
            self.fields.fault("transaction_id", Flaw::new("conflicting", message));
        }
    }

    fn require_original(&mut self, original: &OriginalRef) {
        self.require_own_card(original);
        let is_named = original.transaction.is_some()
            || original.authorization_id.is_some()
            || original.original_key.is_some()
            || original.retrieval_key.is_some();
        let names = ["transaction_id", "authorization_id", "rrn", "original_stan"];
        if !is_named && !names.iter().any(|name| self.fields.has(name)) {
            let message =
                "is required, or `authorization_id`, `rrn` or `original_stan` with a card";
            self.fields.fault("transaction_id", Flaw::new("required", message));
        }
    }

    fn facts(&mut self, amounts: MessageAmounts, merchant_about: &str) -> PurchaseFacts {
        PurchaseFacts {
            card: self.subject.card(),
            amounts,
            merchant: self.merchant(merchant_about),
            trace: self.shared.trace.marks().trace(self.keys()),
        }
    }

    /// The currency of `amount`.
    fn currency(&self) -> CurrencyCode {
        self.shared.currency.unwrap_or(self.subject.currency)
    }

    fn amounts(&mut self, amount: Minor) -> MessageAmounts {
        let (own, currency) = (self.subject.currency, self.shared.currency);
        let is_foreign = currency.is_some_and(|currency| currency != own);
        let billing = self.billing();
        if is_foreign && billing.is_none() {
            self.require("billing_amount");
        }
        // Nobody pays two amounts of one currency.
        let is_other = !is_foreign && billing.is_some_and(|billing| billing != amount);
        if is_other && !self.fields.is_faulty("amount") {
            let message = "must be `amount`, unless `currency` is another than the account's";
            self.fields.fault("billing_amount", Flaw::new("conflicting", message));
        }
        let billing = billing.filter(|_| is_foreign);
        let billing = billing.map(|amount| CurrencyAmount { amount, currency: own });
        MessageAmounts { amount, currency, billing }
    }

    fn billing(&mut self) -> Option<Minor> {
        let own = self.subject.currency;
        self.fields.including::<ForeignGiven, _>(|fields| read_billing(fields, own))
    }

    /// The secrets and the card's hash, of which the keys of its messages are made.
    fn keys(&self) -> Option<(&'a Secrets, PanHash)> {
        self.secrets.zip(self.subject.hash)
    }

    /// The credentials of the body, in the forms that the shard compares.
    fn credentials(&self) -> PresentedCredentials {
        let CardTexts { expiry, cvv, pin, zip, .. } = &self.shared.card;
        let secret = self.secrets.filter(|_| self.shared.card.needs_number());
        let pan = secret.and_then(|secrets| self.subject.pan(secrets));
        // A PIN of a card whose number is not known is nobody's, not one that is left out.
        let verifier = |(pin, secrets): (&Cow<'_, str>, &Secrets)| match &pan {
            Some(pan) => secrets.pin_verifier(pan, pin.as_bytes()),
            None => PinVerifier::default(),
        };
        let pair = |(cvv, secrets): (&Cow<'_, str>, &Secrets)| {
            cvv_pair(secrets, pan.as_ref(), cvv.as_bytes())
        };
        let zip = zip.as_ref().map(|zip| PackedZip::pack(zip)).filter(|zip| !zip.is_absent());
        PresentedCredentials {
            expiry: expiry.map(PresentedValue::new),
            cvv: cvv.as_ref().zip(secret).map(pair).map(PresentedValue::new),
            pin: pin.as_ref().zip(secret).map(verifier).map(PresentedValue::new),
            zip: zip.map(PresentedValue::new),
        }
    }

    fn merchant(&mut self, about: &str) -> Merchant {
        let steering = self.shared.steering;
        let acquirer = self.shared.trace.acquirer.as_deref().unwrap_or_default();
        let read = |fields: &mut Fields<'_>| read_merchant(fields, acquirer, steering);
        let merchant = self.fields.patch_object::<MerchantGiven, _>("merchant", about, read);
        merchant.flatten().unwrap_or_default()
    }

    /// The earlier purchase that the body is about.
    fn original(&self) -> OriginalRef {
        let original = &self.shared.original;
        let marks = Marks {
            stan: original.stan.as_deref(),
            transmission_time: original.transmission_time.as_deref(),
            terminal: None,
            ..self.shared.trace.marks()
        };
        let keys = self.keys();
        OriginalRef {
            transaction: self.subject.transaction.as_ref().map(|(id, _)| *id),
            authorization_id: original.authorization_id,
            original_key: keys.and_then(|(secrets, hash)| marks.original_key(secrets, hash)),
            class: None,
            retrieval_key: keys.and_then(|(secrets, hash)| marks.retrieval_key(secrets, hash)),
        }
    }

    fn presentment_number(&mut self) -> PresentmentNumber {
        let number = self.fields.may(
            "presentment_number",
            "Which of several; with `presentment_count`.",
            presentment_count(),
        );
        let count = self.fields.may(
            "presentment_count",
            "How many there are; with `presentment_number`.",
            presentment_count(),
        );
        match (number, count) {
            (Some(_), None) => self.require("presentment_count"),
            (None, Some(_)) => self.require("presentment_number"),
            _ => {}
        }
        let (number, count) = (number.unwrap_or(1), count.unwrap_or(1));
        if number > count && self.fields.has("presentment_count") {
            let message = "must not be above `presentment_count`";
            self.fields.fault("presentment_number", Flaw::new("out_of_range", message));
        }
        PresentmentNumber { number, count }
    }
}
