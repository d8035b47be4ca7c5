//! The request of a step, before a door gives it its form; and the answer, once the door has taken
//! its form off again.

use std::fmt;

use super::act::Act;
use super::file::StepFile;
use super::money::Money;
use crate::message::Identity;
use crate::portfolio::Card;

/// The request of a step.
pub struct StepRequest<'a> {
    /// The act.
    pub act: Act,
    /// The details beside its amount.
    pub details: &'a StepFile,
    /// Whether the message says that it was sent before.
    pub is_repeat: bool,
    /// The card.
    pub card: &'a Card,
    /// Its slot in the catalogue.
    pub merchant: u16,
    /// The message's own identity.
    pub identity: Identity,
    /// The transaction that it is about.
    pub original: Option<Original>,
}

/// An earlier transaction, or one that is still to come.
#[derive(Debug, Clone)]
pub struct Original {
    /// The act that opens it.
    pub act: Act,
    /// The identity of the message that opens it.
    pub identity: Identity,
    /// Its ids, once it has come.
    pub known: Option<TransactionIds>,
}

/// The ids of a transaction, as the answer told them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionIds {
    /// Source: ISO DE38.
    pub authorization_id: Option<[u8; 6]>,
    /// The id under `/v1`; over HTTP alone.
    pub transaction_id: Option<String>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepAnswer {
    /// The exact response code, or the status of an error.
    pub code: u16,
    /// The exact cause, or the error.
    pub reason: Option<String>,
    /// The approved amount, in the currency of the message.
    pub approved: Option<Money>,
    /// The allowance's balance.
    pub balance: Option<Money>,
    /// The ids of its transaction.
    pub known: TransactionIds,
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
