//! An answer kept under an idempotency key, so that the same request changes nothing twice.

use serde::{Deserialize, Serialize};

use super::ids::Timestamp;

/// What was answered under a key. Source: spec "Authentication", idempotency.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyedAnswer {
    /// A keyed hash of company, caller and key; begins with a hash of the company alone.
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

/// How long a key is remembered. Units: microseconds. Source: spec "Limits".
pub const LIFETIME: i64 = Timestamp::DAY;
/// How much of a key's hash tells whose it is. Units: bytes.
pub const OWNER_BYTES: usize = 8;

/// The part of a key's hash that keys of one company have in common.
#[must_use]
pub const fn owner_of(key: &[u8; 32]) -> [u8; OWNER_BYTES] {
    let [a, b, c, d, e, f, g, h, ..] = *key;
    [a, b, c, d, e, f, g, h]
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

impl std::fmt::Debug for KeyedContent {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Object { path } => write!(formatter, "Object({path})"),
            Self::Body(sealed) => write!(formatter, "Body({} bytes)", sealed.len()),
        }
    }
}
