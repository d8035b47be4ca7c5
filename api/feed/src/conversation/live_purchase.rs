//! A purchase with something still to come: its messages, their answers, and the content of later
//! messages.

use cardswitch_iso8583::PresentmentSequence;

use crate::books::{EntryId, Outcome};
use crate::message::later_message::{LaterKind, LaterMessage};
use crate::message::{AnswerFields, Identity};
use crate::plan::{Clearing, Fate, Plan, PurchaseReference};

/// Amounts below this come in one parcel. Units: minor units.
const TRIFLE_MINOR: u64 = 1000;

/// A purchase with something still to come.
pub(super) struct LivePurchase {
    pub(super) plan: Plan,
    pub(super) pan: String,
    pub(super) identity: Identity,
    pub(super) entry: Option<EntryId>,
    pub(super) bytes: Vec<u8>,
    pub(super) authorization_id: Option<[u8; 6]>,
    pub(super) first_answer: Option<FirstAnswer>,
    pub(super) verdict: Option<Verdict>,
    /// Held, in the account's currency.
    pub(super) held_minor: u64,
    /// Held, in the transaction's currency.
    pub(super) amount_minor: u64,
    pub(super) later: Vec<SentMessage>,
    /// Presentments sent; after the first, the held amounts above are those still to be presented.
    pub(super) presented: u8,
    /// The number of presentments, once there is one.
    pub(super) parcels: u8,
    /// The posted amount, in both currencies.
    pub(super) posted: (u64, u64),
    /// The refund for it, once one was sent.
    pub(super) refund: Option<Identity>,
    /// Actions in the queue and answers awaited.
    pub(super) pending: u32,
    pub(super) tries: u8,
}

pub(super) struct SentMessage {
    pub(super) message: LaterMessage,
    pub(super) entry: Option<EntryId>,
    pub(super) first_answer: Option<FirstAnswer>,
    pub(super) verdict: Option<Verdict>,
    pub(super) tries: u8,
}

/// The meaning of the first answer that settled a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) outcome: Outcome,
    /// The exact response code.
    pub(super) code: u16,
}

/// The parts of the first answer that the answer to a duplicate has to repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FirstAnswer {
    pub(super) response: [u8; 2],
    pub(super) authorization_id: Option<[u8; 6]>,
}

impl std::fmt::Display for FirstAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", String::from_utf8_lossy(&self.response))?;
        match &self.authorization_id {
            Some(id) => write!(f, " with DE38 {}", String::from_utf8_lossy(id)),
            None => f.write_str(" without DE38"),
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct AwaitedAnswer {
    pub(super) purchase: u64,
    pub(super) due_us: u64,
    pub(super) later: Option<usize>,
    pub(super) sequence: u64,
}

impl LivePurchase {
    pub(super) fn new(
        plan: Plan,
        pan: String,
        identity: Identity,
        entry: Option<EntryId>,
        bytes: Vec<u8>,
    ) -> Self {
        Self {
            held_minor: plan.price.billing_minor,
            amount_minor: plan.price.amount_minor,
            plan,
            pan,
            identity,
            entry,
            bytes,
            authorization_id: None,
            first_answer: None,
            verdict: None,
            later: Vec::new(),
            presented: 0,
            parcels: 1,
            posted: (0, 0),
            refund: None,
            pending: 0,
            tries: 1,
        }
    }

    /// A message that names this purchase, with what it is to be about.
    pub(super) fn later_message(&self, kind: LaterKind, identity: Identity) -> LaterMessage {
        let reference = match (self.plan.reference, self.authorization_id) {
            // The acquirer that saw no answer knows no authorization id.
            (PurchaseReference::AuthorizationId, None) => PurchaseReference::OriginalData,
            // Nothing else makes it an increment.
            _ if kind == LaterKind::Increment => PurchaseReference::AuthorizationId,
            (PurchaseReference::AuthorizationId, _) if kind == LaterKind::TimeOutReversal => {
                PurchaseReference::OriginalData
            }
            // The reference number of a refund is its own, and its reversal names it by its data.
            _ if kind == LaterKind::RefundReversal => PurchaseReference::OriginalData,
            (PurchaseReference::Rrn, _) if kind == LaterKind::Refund => {
                PurchaseReference::OriginalData
            }
            (reference, _) => reference,
        };
        let (amount_minor, held_minor) = match (kind, self.plan.fate) {
            (LaterKind::Increment, Fate::Incremented { add_percent, .. }) => {
                self.share(add_percent)
            }
            (LaterKind::Completion, Fate::Completed { percent, .. }) => {
                let of = |minor: u64| (minor * percent / 100).max(1);
                (of(self.amount_minor), of(self.held_minor))
            }
            (LaterKind::Presentment, _) => self.next_parcel(),
            (LaterKind::Refund | LaterKind::RefundReversal, _) => self.given_back(),
            _ => (self.amount_minor, self.held_minor),
        };
        let (keep_amount_minor, keep_held_minor) = match (kind, self.plan.fate) {
            (LaterKind::PartialReversal, Fate::PartlyReversed { keep_percent, .. }) => {
                self.share(keep_percent)
            }
            _ => (0, 0),
        };
        LaterMessage {
            kind,
            identity,
            original: self
                .refund
                .filter(|_| kind == LaterKind::RefundReversal)
                .unwrap_or(self.identity),
            reference,
            authorization_id: self.authorization_id,
            amount_minor,
            held_minor,
            number: (kind == LaterKind::Presentment).then(|| self.parcel_number()).flatten(),
            keep_amount_minor,
            keep_held_minor,
        }
    }

    /// A share of the purchase: in the transaction's currency, and what the switch holds of the
    /// account's where that much stays after a partial reversal. Source: spec of the field
    /// profile, DE95.
    pub(super) fn share(&self, percent: u64) -> (u64, u64) {
        let share = (self.amount_minor * percent / 100).max(1).min(self.amount_minor);
        let held = (self.held_minor * share).div_ceil(self.amount_minor.max(1));
        (share, held)
    }

    /// An approved increment is presented with the rest.
    pub(super) fn add(&mut self, increment: &LaterMessage) {
        self.amount_minor += increment.amount_minor;
        self.held_minor += increment.held_minor;
    }

    /// The amount that a refund gives back, in both currencies.
    fn given_back(&self) -> (u64, u64) {
        let percent = self.plan.refund.map_or(100, |refund| refund.percent);
        let share = |minor: u64| (minor * percent / 100).max(1);
        (share(self.posted.0), share(self.posted.1))
    }

    /// Whether the outcome of every sent message is known.
    pub(super) fn is_certain(&self) -> bool {
        let is_final =
            |answer: Option<FirstAnswer>| answer.is_some_and(|first| is_final(first.response));
        is_final(self.first_answer) && self.later.iter().all(|sent| is_final(sent.first_answer))
    }

    /// A presentment that was taken.
    pub(super) fn post(&mut self, presentment: &LaterMessage) {
        self.posted.0 += presentment.amount_minor;
        self.posted.1 += presentment.held_minor;
    }

    /// The amount to be presented altogether: with a tip or less than was held, at the rate of the
    /// day.
    fn cleared(&self) -> (u64, u64) {
        let Clearing { percent, rate_per_mille, .. } = self.plan.clearing;
        if self.presented > 0 {
            return (self.amount_minor, self.held_minor);
        }
        let amount = (self.amount_minor * percent / 100).max(1);
        let billing = self.held_minor * percent / 100 * rate_per_mille / 1000;
        (amount, billing.max(1))
    }

    /// The next part of it: the last is what is left.
    fn next_parcel(&self) -> (u64, u64) {
        let (amount, billing) = self.cleared();
        let left = u64::from(self.parcels() - self.presented).max(1);
        (amount / left, billing / left)
    }

    /// The number of presentments to come; a trifle is not split, and a late one comes at once.
    fn parcels(&self) -> u8 {
        let is_trifle = self.amount_minor.min(self.held_minor) < TRIFLE_MINOR;
        let is_late = matches!(self.plan.fate, Fate::Settles { late: true, .. });
        match self.presented {
            0 if is_trifle || is_late => 1,
            0 => self.plan.clearing.parcels,
            _ => self.parcels,
        }
    }

    fn parcel_number(&self) -> Option<PresentmentSequence> {
        let count = self.parcels();
        (count > 1).then_some(PresentmentSequence { number: self.presented + 1, count })
    }

    /// Whether more is to be presented.
    pub(super) fn has_parcels_left(&self) -> bool {
        self.presented > 0 && self.presented < self.parcels()
    }

    /// After a partial reversal the rest is what will be presented, and after one parcel the others.
    pub(super) fn take_effect(&mut self, message: &LaterMessage) {
        if message.kind == LaterKind::Presentment {
            let (amount, billing) = self.cleared();
            self.parcels = self.parcels();
            self.amount_minor = amount - message.amount_minor;
            self.held_minor = billing - message.held_minor;
            self.presented += 1;
        }
        if message.kind == LaterKind::Refund {
            self.refund = Some(message.identity);
        }
        if message.kind == LaterKind::Completion {
            (self.amount_minor, self.held_minor) = (message.amount_minor, message.held_minor);
        }
        if message.kind == LaterKind::PartialReversal {
            self.amount_minor = message.keep_amount_minor;
            self.held_minor = message.keep_held_minor;
        }
    }
}

impl Verdict {
    /// The meaning of an answer; none where it leaves the message open.
    pub(super) fn of(answer: &AnswerFields, outcome: Outcome) -> Option<Self> {
        is_final(answer.response).then(|| Self { outcome, code: answer.exact_code() })
    }
}

pub(super) fn is_approval(response: [u8; 2]) -> bool {
    matches!(&response, b"00" | b"10")
}

/// Whether a response settles the message: 96 and 91 leave it open. A 91 of an overloaded switch was not decided,
/// that of a route or of fault injection may have been.
pub(super) fn is_final(response: [u8; 2]) -> bool {
    !matches!(&response, b"96" | b"91")
}
