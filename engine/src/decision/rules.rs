//! The rules of authorization in their order of precedence, and the code each one gives.
//!
//! The order of the table is the order of precedence: this list is the one place to change it.

use serde::{Deserialize, Serialize};

use crate::domain::enumeration::enumeration;
use crate::domain::response_code::{ResponseCode, SubReason};

/// Declares the rules: each with its name on the wire, the code of its decline, and the exact cause
/// for codes with more than one.
macro_rules! rules {
    ($(
        $(#[$about:meta])* $rule:ident $name:literal => $code:ident $(, $reason:ident)?;
    )+) => {
        enumeration! {
            /// A rule of authorization. Source: spec "Response codes".
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
            #[repr(u8)]
            pub enum Rule {
                $($(#[$about])* $rule,)+
            }
        }

        impl Rule {
            /// The response code of a decline by this rule.
            pub const fn response_code(self) -> ResponseCode {
                match self { $(Self::$rule => ResponseCode::$code,)+ }
            }

            /// The exact cause behind the code, for codes with more than one.
            pub const fn sub_reason(self) -> SubReason {
                match self {
                    $($(Self::$rule => SubReason::$reason,)?)+
                    _ => SubReason::None,
                }
            }

            /// The rule's name on the wire.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$rule => $name,)+ }
            }
        }
    };
}

rules! {
    /// The card is terminated.
    CardTerminated "card_terminated" => Declined, CardTerminated;
    /// The company is not in business, or the holder of the card is inactive.
    CompanyClosed "company_closed" => Declined, CompanyClosed;
    /// A reversal of this purchase came before it.
    ReversedBefore "reversed_before" => Declined, ReversedBefore;
    /// The amount, or a balance after it, is beyond the ledger's range.
    OutOfBounds "out_of_bounds" => Declined, OutOfBounds;
    /// The card was never activated.
    CardUnactivated "card_unactivated" => CardUnactivated;
    /// The card is suspended.
    CardSuspended "card_suspended" => CardSuspended;
    /// The card is past its expiration.
    CardExpired "card_expired" => CardExpired;
    /// The message carries credentials, and too many wrong ones in an hour have locked the card's.
    CredentialsLocked "credentials_locked" => Risk;
    /// The expiry in the message is not the card's.
    ExpirationDiffers "expiration_differs" => InvalidExpiration;
    /// The PIN is wrong, not set, or locked.
    PinWrong "pin_wrong" => InvalidPin;
    /// The CVV is wrong.
    CvvWrong "cvv_wrong" => InvalidCvv;
    /// The ZIP is not the card's.
    ZipDiffers "zip_differs" => InvalidZip;
    /// The purchase is a cash withdrawal.
    CashWithdrawal "cash_withdrawal" => CashDenied;
    /// Too many attempts in a minute.
    VelocityPerMinute "velocity_per_minute" => Risk;
    /// Too many attempts in an hour.
    VelocityPerHour "velocity_per_hour" => Risk;
    /// The allowance has not started.
    BeforeStart "before_start_time" => AllowanceConstraints;
    /// The allowance has ended.
    AfterEnd "after_end_time" => AllowanceConstraints;
    /// The merchant's category is outside the scope.
    OutOfScope "out_of_scope" => AllowanceConstraints;
    /// The amount is over the transaction limit.
    TransactionLimit "transaction_limit" => TransactionLimitExceeded;
    /// The amount is over the rest of the daily limit.
    DailyLimit "daily_limit" => AllowanceExceeded;
    /// The amount is over the allowance's balance.
    AllowanceBalance "allowance_balance" => AllowanceExceeded;
    /// The amount is over the account's available credit.
    AvailableCredit "available_credit" => InsufficientFunds;
}

impl Rule {
    const fn bit(self) -> u32 {
        1 << self as u8
    }
}

/// A set of rules; iterates in order of precedence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleSet(u32);

impl RuleSet {
    /// A set of one rule.
    pub const fn of(rule: Rule) -> Self {
        Self(rule.bit())
    }

    /// Adds the rule if the condition holds; compiles without a branch.
    pub const fn insert_if(&mut self, rule: Rule, condition: bool) {
        self.0 |= rule.bit() * condition as u32;
    }

    /// The stored form of the set: one bit for each rule, in the order of the rules.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The set with these bits.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// No rule.
    pub const EMPTY: Self = Self(0);

    /// The rules in both sets.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The rules on the card itself and its holder's credentials, without any amount.
    /// A balance inquiry is judged by these alone.
    pub const CARD_AND_CREDENTIALS: Self = Self(
        Rule::CardTerminated.bit()
            | Rule::CompanyClosed.bit()
            | Rule::CardUnactivated.bit()
            | Rule::CardSuspended.bit()
            | Rule::CardExpired.bit()
            | Rule::CredentialsLocked.bit()
            | Self::CREDENTIALS.0,
    );

    /// The rules that a smaller amount could pass.
    pub const AMOUNTS: Self = Self(
        Rule::TransactionLimit.bit()
            | Rule::DailyLimit.bit()
            | Rule::AllowanceBalance.bit()
            | Rule::AvailableCredit.bit(),
    );

    /// The rules that overrule the network's decision.
    pub const VETOES: Self = Self(Rule::ReversedBefore.bit() | Rule::OutOfBounds.bit());

    /// Every rule.
    pub const ALL: Self = Self(u32::MAX);

    /// The set without one rule.
    #[must_use]
    pub const fn without(self, rule: Rule) -> Self {
        Self(self.0 & !rule.bit())
    }

    /// The rules on the cardholder's credentials.
    pub const CREDENTIALS: Self = Self(
        Rule::ExpirationDiffers.bit()
            | Rule::PinWrong.bit()
            | Rule::CvvWrong.bit()
            | Rule::ZipDiffers.bit(),
    );

    /// Whether no rule failed.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the rule is in the set.
    pub const fn contains(self, rule: Rule) -> bool {
        self.0 & rule.bit() != 0
    }

    /// The rules in the set, the deciding one first.
    pub fn iter(self) -> impl Iterator<Item = Rule> {
        Rule::ALL.into_iter().filter(move |rule| self.contains(*rule))
    }

    /// The rule that decides; none in an empty set.
    pub fn first(self) -> Option<Rule> {
        Rule::ALL.get(self.0.trailing_zeros() as usize).copied()
    }

    /// The response code this set of failures gives; an empty one approves.
    pub fn response_code(self) -> ResponseCode {
        self.first().map_or(ResponseCode::Approved, Rule::response_code)
    }

    /// The exact cause behind the code.
    pub fn sub_reason(self) -> SubReason {
        self.first().map_or(SubReason::None, Rule::sub_reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_in_the_order_of_the_bits() {
        for (place, rule) in Rule::ALL.into_iter().enumerate() {
            assert_eq!(rule as usize, place);
        }
    }

    #[test]
    fn the_first_failed_rule_gives_the_code() {
        let mut failed = RuleSet::default();
        assert_eq!(failed.response_code(), ResponseCode::Approved);
        failed.insert_if(Rule::AvailableCredit, true);
        failed.insert_if(Rule::CvvWrong, false);
        assert_eq!(failed.response_code(), ResponseCode::InsufficientFunds);
        failed.insert_if(Rule::CardSuspended, true);
        assert_eq!(failed.response_code(), ResponseCode::CardSuspended);
        assert_eq!(failed.iter().collect::<Vec<_>>(), [Rule::CardSuspended, Rule::AvailableCredit]);
    }
}
