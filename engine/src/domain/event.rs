//! Events: that a transaction was made or changed, numbered over the whole switch in the order of
//! the journal. Source: spec "Events".
//!
//! A record leaves at most one event for each transaction that it makes or changes. What changed is
//! not said: whoever wants to know reads the transaction.

pub use super::ids::EventNumber;
use super::ids::{CompanySlot, Timestamp, TransactionId, TransactionSeq};

/// What happened to a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    /// It was made.
    Created,
    /// It was changed.
    Updated,
}

/// A place in the log: behind an event. It is known by the number of that event and by when it
/// happened, since a directory that came out of a backup gives numbers out again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventPlace {
    /// The number; 0 before the first event.
    pub number: EventNumber,
    /// When that happened; none before the first event, and where only the number was kept.
    pub at: Option<Timestamp>,
}

/// That something happened to a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its place among all events.
    pub number: EventNumber,
    /// When its record was accepted. It rises strictly from one event of a transaction to the next: it
    /// is their sequence number, too. Events of different transactions may share an instant.
    pub at: Timestamp,
    /// What happened.
    pub kind: EventKind,
    /// To which transaction.
    pub transaction: TransactionSeq,
    /// The same by its public id.
    pub transaction_id: TransactionId,
    /// Whose that is.
    pub company: CompanySlot,
}
