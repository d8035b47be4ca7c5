//! Requests with an idempotency key: the key travels with the change it protects.
//!
//! The claim goes into the record of the change, so neither of them ever exists without the other.
//! The reply itself is known only later: it follows in a record of its own.

use super::admin::AdminCommand;
use crate::domain::audit::AuditNote;
use crate::domain::keyed_answer::KeyedContent;

/// A change under an idempotency key, or only the reply under it.
#[derive(Clone, Debug)]
pub struct KeyedCommand {
    /// The key, with the content to remember under it.
    pub claim: KeyClaim,
    /// The change; none if only the reply is to be remembered.
    pub change: Option<AdminCommand>,
    /// The author of the change, if it is audited.
    pub note: Option<AuditNote>,
}

/// The claim of an idempotency key by a request.
#[derive(Clone, Debug)]
pub struct KeyClaim {
    /// A keyed hash of company, caller and key; begins with a hash of the company alone.
    pub key: [u8; 32],
    /// A hash of method, path and body, compared with that of a repeat.
    pub request: [u8; 32],
    /// The HTTP status of the reply.
    pub status: u16,
    /// The body of the reply, or its path after the change is made.
    pub content: KeyedContent,
}
