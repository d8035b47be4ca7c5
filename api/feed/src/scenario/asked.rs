//! What a step asks of the switch, before a door gives it its form; and what is answered, once the
//! door has taken its form off again.

use std::fmt;

use super::money::Money;
use super::script::{Act, Details};
use crate::message::Identity;
use crate::portfolio::Card;

/// What a step asks.
pub(super) struct Asked<'a> {
    pub(super) act: Act,
    pub(super) details: &'a Details,
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
    /// What is known of it once it has come.
    pub(super) known: Option<Known>,
}

/// What the answer told of a transaction.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) authorization_id: Option<[u8; 6]>,
    /// Over HTTP alone.
    pub(super) transaction_id: Option<String>,
}

/// An answer.
#[derive(Debug, Clone)]
pub(super) struct Answered {
    pub(super) code: u16,
    pub(super) reason: Option<String>,
    /// What was approved, in the currency of the message.
    pub(super) approved: Option<Money>,
    /// The allowance's balance.
    pub(super) balance: Option<Money>,
    pub(super) known: Known,
}

/// As the table of steps shows it.
impl fmt::Display for Answered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            Some(reason) => write!(f, "{} {reason}", self.code),
            None => write!(f, "{}", self.code),
        }
    }
}
