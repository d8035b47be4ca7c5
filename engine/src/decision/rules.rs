//! The rules of authorization in their order of precedence, and the code each one gives.
//!
//! The order of the table is the order of precedence: this list is the one place to change it.

use serde::{Deserialize, Serialize};

use crate::domain::enumeration::enumeration;
use crate::domain::response_code::{ResponseCode, SubReason};

/// Declares the rules: each with its class, its name on the wire, the code of its decline, and the
/// exact cause for codes with more than one.
macro_rules! rules {
    ($(
        $(#[$about:meta])*
        $rule:ident: $class:ident $name:literal => $code:ident $(, $reason:ident)?;
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
            /// The rule's class.
            pub const fn class(self) -> RuleClass {
                match self { $(Self::$rule => RuleClass::$class,)+ }
            }

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

/// A class of rules: which messages they are asked for, and who can do something about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleClass {
    /// The card, its company and its holder. A balance inquiry is judged by it.
    Card,
    /// What overrules the network's decision, too.
    Veto,
    /// A credential in the message. A balance inquiry is judged by it.
    Credential,
    /// The manner and number of purchases.
    Risk,
    /// The allowance's window and scope, which administrators change.
    Constraint,
    /// An amount of the allowance, which administrators change. A smaller purchase may pass.
    Budget,
    /// An amount of the account, not told to those who do not see it. A smaller purchase may pass.
    Funds,
}

rules! {
    /// The card is terminated.
    CardTerminated: Card "card_terminated" => Declined, CardTerminated;
    /// The company is not in business, or the holder of the card is inactive.
    CompanyClosed: Card "company_closed" => Declined, CompanyClosed;
    /// A reversal of this purchase came before it.
    ReversedBefore: Veto "reversed_before" => Declined, ReversedBefore;
    /// The amount, or a balance after it, is beyond the ledger's range.
    OutOfBounds: Veto "out_of_bounds" => Declined, OutOfBounds;
    /// The card was never activated.
    CardUnactivated: Card "card_unactivated" => CardUnactivated;
    /// The card is suspended.
    CardSuspended: Card "card_suspended" => CardSuspended;
    /// The card is past its expiration.
    CardExpired: Card "card_expired" => CardExpired;
    /// The message carries credentials, and too many wrong ones in an hour have locked the card's.
    CredentialsLocked: Card "credentials_locked" => Risk;
    /// The expiry in the message is not the card's.
    ExpirationDiffers: Credential "expiration_differs" => InvalidExpiration;
    /// The PIN is wrong, not set, or locked.
    PinWrong: Credential "pin_wrong" => InvalidPin;
    /// The CVV is wrong.
    CvvWrong: Credential "cvv_wrong" => InvalidCvv;
    /// The ZIP is not the card's.
    ZipDiffers: Credential "zip_differs" => InvalidZip;
    /// The purchase is a cash withdrawal.
    CashWithdrawal: Risk "cash_withdrawal" => CashDenied;
    /// Too many attempts in a minute.
    VelocityPerMinute: Risk "velocity_per_minute" => Risk;
    /// Too many attempts in an hour.
    VelocityPerHour: Risk "velocity_per_hour" => Risk;
    /// The allowance has not started.
    BeforeStart: Constraint "before_start_time" => AllowanceConstraints;
    /// The allowance has ended.
    AfterEnd: Constraint "after_end_time" => AllowanceConstraints;
    /// The merchant's category is outside the scope.
    OutOfScope: Constraint "out_of_scope" => AllowanceConstraints;
    /// The amount is over the transaction limit.
    TransactionLimit: Budget "transaction_limit" => TransactionLimitExceeded;
    /// The amount is over the rest of the daily limit.
    DailyLimit: Budget "daily_limit" => AllowanceExceeded;
    /// The amount is over the allowance's balance.
    AllowanceBalance: Budget "allowance_balance" => AllowanceExceeded;
    /// The amount is over the account's available credit.
    AvailableCredit: Funds "available_credit" => InsufficientFunds;
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

    const fn of_class(class: RuleClass) -> Self {
        let mut set = Self::EMPTY;
        let mut place = 0;
        while place < Rule::ALL.len() {
            let rule = Rule::ALL[place];
            set.insert_if(rule, rule.class() as u8 == class as u8);
            place += 1;
        }
        set
    }

    /// No rule.
    pub const EMPTY: Self = Self(0);

    /// The rules in both sets.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The rules on the cardholder's credentials.
    pub const CREDENTIALS: Self = Self::of_class(RuleClass::Credential);

    /// The rules on the card itself and its holder's credentials, without any amount.
    /// A balance inquiry is judged by these alone.
    pub const CARD_AND_CREDENTIALS: Self =
        Self(Self::of_class(RuleClass::Card).0 | Self::CREDENTIALS.0);

    /// The rules that a smaller amount could pass.
    pub const AMOUNTS: Self =
        Self(Self::of_class(RuleClass::Budget).0 | Self::of_class(RuleClass::Funds).0);

    /// The rules that overrule the network's decision.
    pub const VETOES: Self = Self::of_class(RuleClass::Veto);

    /// Every rule.
    pub const ALL: Self = Self(u32::MAX);

    /// The set without one rule.
    #[must_use]
    pub const fn without(self, rule: Rule) -> Self {
        Self(self.0 & !rule.bit())
    }

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
