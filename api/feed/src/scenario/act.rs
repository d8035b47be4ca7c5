//! The act of a step: its verb, the options beside it, and its kind.

#![expect(missing_docs, reason = "names are verbs of a file, which its page explains")]

use super::file::TimeSpan;
use super::money::Money;

/// The act of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Act {
    Authorize(Money),
    Purchase(Money),
    Cash(Money),
    Advise(Money),
    Verify,
    Inquire,
    Increment(Money),
    Present(Money),
    Refund(Money),
    Reverse,
    Transfer(Money),
    Settle,
    Return,
    Suspend,
    Activate,
    Terminate,
    Change,
    Look,
    Again,
    Advance(TimeSpan),
}

impl Act {
    /// The key that asks for it.
    pub(super) const fn verb(self) -> &'static str {
        match self {
            Self::Authorize(_) => "authorize",
            Self::Purchase(_) => "purchase",
            Self::Cash(_) => "cash",
            Self::Advise(_) => "advise",
            Self::Verify => "verify",
            Self::Inquire => "inquire",
            Self::Increment(_) => "increment",
            Self::Present(_) => "present",
            Self::Refund(_) => "refund",
            Self::Reverse => "reverse",
            Self::Transfer(_) => "transfer",
            Self::Settle => "settle",
            Self::Return => "return",
            Self::Suspend => "suspend",
            Self::Activate => "activate",
            Self::Terminate => "terminate",
            Self::Change => "change",
            Self::Look => "look",
            Self::Again => "again",
            Self::Advance(_) => "advance",
        }
    }

    /// The options that mean something beside it.
    pub(super) const fn options(self) -> &'static [&'static str] {
        match self {
            Self::Authorize(_) | Self::Purchase(_) => {
                &["as", "card", "mcc", "billing", "partial", "wrong", "repeat", "approved"]
            }
            Self::Cash(_) => &["as", "card", "mcc", "billing", "wrong", "repeat"],
            Self::Advise(_) => &["as", "of", "by", "card", "mcc", "billing", "declined", "repeat"],
            Self::Verify => &["as", "mcc", "wrong", "repeat"],
            Self::Inquire => &["as", "of", "wrong", "repeat"],
            Self::Increment(_) => &["as", "of", "billing", "repeat"],
            Self::Present(_) => &["as", "of", "by", "card", "mcc", "billing", "number", "repeat"],
            Self::Refund(_) => &["as", "of", "by", "card", "mcc", "billing", "repeat"],
            Self::Reverse => &["as", "by", "keep", "billing", "advice", "repeat"],
            Self::Again => &["repeat"],
            Self::Transfer(_) => &["as", "settled"],
            Self::Settle | Self::Return => &[],
            Self::Look => &["card"],
            Self::Suspend | Self::Activate | Self::Terminate => &["of"],
            Self::Change => &["of", "to"],
            Self::Advance(_) => &["of", "card"],
        }
    }

    /// The amount of its message.
    pub const fn amount(self) -> Option<Money> {
        match self {
            Self::Authorize(amount)
            | Self::Purchase(amount)
            | Self::Cash(amount)
            | Self::Advise(amount)
            | Self::Increment(amount)
            | Self::Present(amount)
            | Self::Refund(amount)
            | Self::Transfer(amount) => Some(amount),
            _ => None,
        }
    }

    /// Whether it makes a transaction: an act that names an earlier one does not, refunds apart.
    pub const fn opens(self, names_earlier: bool) -> bool {
        match self {
            Self::Authorize(_)
            | Self::Purchase(_)
            | Self::Cash(_)
            | Self::Verify
            | Self::Refund(_)
            | Self::Transfer(_) => true,
            Self::Advise(_) | Self::Present(_) => !names_earlier,
            _ => false,
        }
    }

    pub(super) const fn needs_original(self) -> bool {
        matches!(self, Self::Increment(_))
    }

    /// Whether the cardholder is there, with the credentials of the card.
    pub const fn is_card_use(self) -> bool {
        matches!(
            self,
            Self::Authorize(_) | Self::Purchase(_) | Self::Cash(_) | Self::Verify | Self::Inquire
        )
    }

    /// Whether a card is different after it, or at least was used.
    pub(super) const fn is_of_card(self) -> bool {
        !self.is_of_bank() && !matches!(self, Self::Advance(_) | Self::Look)
    }

    /// Whether it is about the company's bank and not about a card.
    pub(super) const fn is_of_bank(self) -> bool {
        matches!(self, Self::Transfer(_) | Self::Settle | Self::Return)
    }

    /// Whether it is a message of the card network, which may be sent again.
    pub(super) const fn is_message(self) -> bool {
        self.is_answered() && !self.is_of_bank() && !matches!(self, Self::Again)
    }

    /// Whether the switch answers it with a code.
    pub(super) const fn is_answered(self) -> bool {
        !matches!(
            self,
            Self::Suspend
                | Self::Activate
                | Self::Terminate
                | Self::Change
                | Self::Look
                | Self::Advance(_)
        )
    }
}
