//! Response codes, and the finer reasons behind them.

use serde::{Deserialize, Serialize};

use super::enumeration::enumeration;

enumeration! {
    /// The outcome of an authorization, numbered by the specification.
    /// Source: spec "Response codes".
    #[derive(
        Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
    )]
    #[repr(u16)]
    pub enum ResponseCode {
        /// Transaction approved.
        #[default]
        Approved = 0,
        /// Declined, reason unavailable.
        Declined = 1000,
        /// Insufficient funds in business account.
        InsufficientFunds = 1101,
        /// Card unactivated.
        CardUnactivated = 1201,
        /// Card suspended.
        CardSuspended = 1202,
        /// Card expired.
        CardExpired = 1203,
        /// Invalid expiration date.
        InvalidExpiration = 1301,
        /// Invalid PIN.
        InvalidPin = 1302,
        /// Invalid CVV.
        InvalidCvv = 1303,
        /// Invalid ZIP code.
        InvalidZip = 1304,
        /// Unfulfilled allowance constraints.
        AllowanceConstraints = 1501,
        /// Allowance amount exceeded.
        AllowanceExceeded = 1502,
        /// Allowance transaction limit exceeded.
        TransactionLimitExceeded = 1503,
        /// Risk monitoring decline.
        Risk = 1701,
        /// Cash withdrawal denied.
        CashDenied = 1702,
    }
}

impl ResponseCode {
    /// The number on the wire.
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// Whether the purchase may go ahead.
    pub const fn is_approved(self) -> bool {
        matches!(self, Self::Approved)
    }
}

enumeration! {
    /// The exact cause, for response codes with more than one; shown to operators, not buyers.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub enum SubReason {
        /// No further cause.
        #[default]
        None,
        /// No card has this number.
        UnknownCard,
        /// The card is terminated.
        CardTerminated,
        /// The company is closed.
        CompanyClosed,
        /// A reversal of this purchase came before it.
        ReversedBefore,
        /// The amount, or a balance after it, is out of bounds.
        OutOfBounds,
        /// The purchase is in another currency and no billing amount in the account's was given.
        BillingAmountMissing,
        /// Declined by the network on the issuer's behalf.
        DeclinedByNetwork,
        /// No part of the purchase is held any more, so a reversal has no effect.
        NothingHeld,
        /// The purchase to be increased is not pending.
        NotPending,
        /// The increase of a pending purchase was declined.
        IncrementDeclined,
        /// The purchase is in the account's currency, and another amount was billed.
        BillingConflict,
    }
}

impl SubReason {
    /// The reason as one word, or none. Source: ISO DE44.
    pub const fn text(self) -> Option<&'static str> {
        Some(match self {
            Self::None => return None,
            Self::UnknownCard => "unknown_card",
            Self::CardTerminated => "card_terminated",
            Self::CompanyClosed => "company_closed",
            Self::ReversedBefore => "reversed_before",
            Self::OutOfBounds => "out_of_bounds",
            Self::BillingAmountMissing => "no_billing_amount",
            Self::DeclinedByNetwork => "network_declined",
            Self::NothingHeld => "nothing_held",
            Self::NotPending => "not_pending",
            Self::IncrementDeclined => "increment_declined",
            Self::BillingConflict => "billing_conflict",
        })
    }
}
