//! Identifiers, dense slots, sequence numbers and instants: one type each, so that the compiler
//! keeps them apart.
//!
//! A *slot* is a position in one of the engine's dense arrays and never leaves the process by
//! itself; an *id* is the UUID the outside world sees.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! public_id {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
        )]
        pub struct $name(pub Uuid);

        impl From<$name> for Uuid {
            fn from(id: $name) -> Self {
                id.0
            }
        }
    )*};
}

macro_rules! number {
    ($($(#[$doc:meta])* $name:ident($inner:ty)),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
        )]
        pub struct $name(pub $inner);
    )*};
}

public_id! {
    /// The public id of a card's allowance.
    AllowanceId,
    /// The public id of a transaction; carries its sequence number, see `public_id`.
    TransactionId,
    /// The public id of a statement line; carries its sequence number, see `public_id`.
    StatementLineId,
    /// The public id of an access token's record (not the token).
    AccessTokenId,
    /// The public id of a receipt.
    ReceiptId,
    /// The public id of a ticket's record (not of its secret).
    TicketId,
}

number! {
    /// Sequence number of a journal record within a partition; the first is 1.
    RecordSeq(u64),
    /// Sequence number of a transaction within a partition; the first is 1.
    TransactionSeq(u64),
    /// Sequence number of a statement line within a partition; the first is 1.
    LineSeq(u64),
    /// Number of an event within a partition; the first is 1, and 0 stands before it.
    EventNumber(u64),
    /// An instant. Units: microseconds since 1970-01-01T00:00:00Z.
    Timestamp(i64),
}

/// A position in a dense array of the shard.
pub trait Slot: Copy {
    /// The slot as a number.
    fn number(self) -> u32;

    /// The slot of a number.
    fn of_number(number: u32) -> Self;

    /// The slot behind an array of `len` entries, or none when slots are exhausted.
    fn next_after(len: usize) -> Option<Self> {
        u32::try_from(len).ok().filter(|slot| *slot != u32::MAX).map(Self::of_number)
    }
}

/// Declares identifiers of resources with a public id and a position in the shard.
macro_rules! placed {
    ($($what:literal: $id:ident, $slot:ident;)+) => {
        public_id! { $(#[doc = concat!("The public id of ", $what, ".")] $id,)+ }
        number! { $(#[doc = concat!("Position of ", $what, " in the shard.")] $slot(u32),)+ }

        $(impl $slot {
            /// The slot as an array index.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl Slot for $slot {
            fn number(self) -> u32 {
                self.0
            }

            fn of_number(number: u32) -> Self {
                Self(number)
            }
        })+
    };
}

placed! {
    "a company": CompanyId, CompanySlot;
    "a company's account": AccountId, AccountSlot;
    "a card": CardId, CardSlot;
    "a member": MemberId, MemberSlot;
    "a category, department, label or location": DimensionId, DimensionSlot;
    "a shared link's record (not the key in the link)": SharedLinkId, SharedLinkSlot;
    "a requisition": RequisitionId, RequisitionSlot;
    "a user": UserId, UserSlot;
    "an app": AppId, AppSlot;
    "a webhook endpoint": WebhookEndpointId, WebhookEndpointSlot;
    "a key that a door was given": ExchangedKeyId, ExchangedKeySlot;
}

impl TransactionSeq {
    /// The sequence number after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl RecordSeq {
    /// The sequence number after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl LineSeq {
    /// The sequence number after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl EventNumber {
    /// The number after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl Timestamp {
    /// Earlier than every instant that occurs.
    pub const MIN: Self = Self(i64::MIN);
    /// Later than every instant that occurs.
    pub const MAX: Self = Self(i64::MAX);
    /// The end of the year 9999, the last in RFC 3339: later times are mistakes.
    pub const CALENDAR_MAX: Self = Self(253_402_300_799_999_999);
    /// One second. Units: microseconds.
    pub const SECOND: i64 = 1_000_000;
    /// One minute. Units: microseconds.
    pub const MINUTE: i64 = 60 * Self::SECOND;
    /// One hour. Units: microseconds.
    pub const HOUR: i64 = 60 * Self::MINUTE;
    /// One day of 24 hours. Units: microseconds.
    pub const DAY: i64 = 24 * Self::HOUR;

    /// The instant `micros` later, held within the representable range.
    #[must_use]
    pub const fn plus(self, micros: i64) -> Self {
        Self(self.0.saturating_add(micros))
    }

    /// Whole milliseconds since 1970-01-01T00:00:00Z; instants before that count as 0.
    pub fn unix_ms(self) -> u64 {
        u64::try_from(self.0 / 1_000).unwrap_or(0)
    }
}
