//! A reply kept under an idempotency key, so that the same request changes nothing twice.

use serde::{Deserialize, Serialize};

use super::ids::Timestamp;

/// The reply kept under a key. Source: spec "Authentication", idempotency.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyedAnswer {
    /// A keyed hash of company, caller and key; begins with one of company and share alone.
    pub key: [u8; 32],
    /// A hash of method, path and body, compared with that of a repeat.
    pub request: [u8; 32],
    /// The time of the request.
    pub made_at: Timestamp,
    /// The time at which the key is forgotten.
    pub expires_at: Timestamp,
    /// The HTTP status of the reply.
    pub status: u16,
    /// The content of the reply.
    pub content: KeyedContent,
}

/// The time for which a key is remembered. Units: microseconds. Source: spec "Limits".
pub const LIFETIME: i64 = Timestamp::DAY;
/// The length of the part of a key's hash that identifies company and share. Units: bytes.
pub const OWNER_BYTES: usize = 8;

/// The part of a key's hash that keys of one company and share have in common.
pub const fn owner_of(key: &[u8; 32]) -> [u8; OWNER_BYTES] {
    let [a, b, c, d, e, f, g, h, ..] = *key;
    [a, b, c, d, e, f, g, h]
}

/// The body of a reply, as far as it is known.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyedContent {
    /// A change that was made; GET of this path shows the body of its reply.
    Object {
        /// A path of the API; empty for a reply without content.
        path: String,
    },
    /// The body of the reply, sealed by the edge.
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
