//! Events: notices that a transaction was made or changed, numbered over the whole switch in the
//! order of the journal. Source: spec "Events".
//!
//! A record leaves at most one event for each transaction that it makes or changes. An event does
//! not hold the change: subscribers read the transaction.

use super::enumeration::enumeration;
pub use super::ids::EventNumber;
use super::ids::{CompanySlot, Timestamp, TransactionId, TransactionSeq};

enumeration! {
    /// The kind of an event of a transaction.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum EventKind {
        /// The transaction was made.
        Created,
        /// The transaction was changed.
        Updated,
    }
}

/// A place in the log: behind an event. It is identified by number and time of that event, since a
/// directory restored from a backup gives numbers out again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventPlace {
    /// The number; 0 before the first event.
    pub number: EventNumber,
    /// The time of that event; none before the first event, and where only the number was kept.
    pub at: Option<Timestamp>,
}

/// A transaction's event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its place among all events.
    pub number: EventNumber,
    /// The time of its record's acceptance. It rises strictly from one event of a transaction to
    /// the next, so it is their sequence number, too. Events of different transactions may share an
    /// instant.
    pub at: Timestamp,
    /// The kind.
    pub kind: EventKind,
    /// The transaction.
    pub transaction: TransactionSeq,
    /// The transaction's public id.
    pub transaction_id: TransactionId,
    /// The transaction's company.
    pub company: CompanySlot,
}
