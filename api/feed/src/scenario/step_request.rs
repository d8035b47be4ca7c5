//! The request of a step, before a door gives it its form; and the answer, once the door has taken
//! its form off again.

use std::fmt;

use super::act::Act;
use super::money::Money;
use super::script::Details;
use crate::message::Identity;
use crate::portfolio::Card;

/// The request of a step.
pub(super) struct StepRequest<'a> {
    pub(super) act: Act,
    pub(super) details: &'a Details,
    /// Whether the message says that it was sent before.
    pub(super) is_repeat: bool,
    pub(super) card: &'a Card,
    /// Its slot in the catalogue.
    pub(super) merchant: u16,
    pub(super) identity: Identity,
    /// The transaction that it is about.
    pub(super) original: Option<Original>,
}

/// An earlier transaction, or one that is still to come.
#[derive(Debug, Clone)]
pub(super) struct Original {
    /// The act that opens it.
    pub(super) act: Act,
    pub(super) identity: Identity,
    /// Its ids, once it has come.
    pub(super) known: Option<TransactionIds>,
}

/// The ids of a transaction, as the answer told them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TransactionIds {
    pub(super) authorization_id: Option<[u8; 6]>,
    /// The id under `/v1`; over HTTP alone.
    pub(super) transaction_id: Option<String>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StepAnswer {
    pub(super) code: u16,
    pub(super) reason: Option<String>,
    /// The approved amount, in the currency of the message.
    pub(super) approved: Option<Money>,
    /// The allowance's balance.
    pub(super) balance: Option<Money>,
    pub(super) known: TransactionIds,
}

/// The form in the table of steps.
impl fmt::Display for StepAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            Some(reason) => write!(f, "{} {reason}", self.code),
            None => write!(f, "{}", self.code),
        }
    }
}
