//! An answer kept under an idempotency key, so that the same request changes nothing twice.

use serde::{Deserialize, Serialize};

use super::ids::Timestamp;

/// What was answered under a key. Source: spec "Authentication", idempotency.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyedAnswer {
    /// A keyed hash of company, caller and key.
    pub key: [u8; 32],
    /// A hash of method, path and body: what a repeat is compared with.
    pub request: [u8; 32],
    /// When the request came.
    pub made_at: Timestamp,
    /// Until when a repeat finds it.
    pub expires_at: Timestamp,
    /// The HTTP status of the answer.
    pub status: u16,
    /// The answer itself.
    pub content: KeyedContent,
}

/// The body of an answer, as far as it is known.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyedContent {
    /// The change is made; its answer is what GET of this path shows.
    Object {
        /// A path of the API; empty for an answer without content.
        path: String,
    },
    /// What was answered, sealed by the edge.
    Body(Vec<u8>),
}

impl std::fmt::Debug for KeyedAnswer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (status, expires_at) = (self.status, self.expires_at.0);
        write!(formatter, "KeyedAnswer(status {status}, until {expires_at})")
    }
}
