//! A request that came with an idempotency key: the key rides with the change it protects.
//!
//! The claim goes into the record of the change, so there is no instant at which one of them is
//! there without the other. The answer itself is known only later: it follows in a record of its own.

use super::admin::AdminCommand;
use crate::domain::audit::AuditNote;
use crate::domain::keyed_answer::KeyedContent;

/// A change under an idempotency key, or only what was answered under it.
#[derive(Clone, Debug)]
pub struct KeyedCommand {
    /// The key, and what is to be remembered under it.
    pub claim: KeyClaim,
    /// The change; none where the answer is all there is to remember.
    pub change: Option<AdminCommand>,
    /// Who asks for the change, where that is audited.
    pub note: Option<AuditNote>,
}

/// What an idempotency key is used for.
#[derive(Clone, Debug)]
pub struct KeyClaim {
    /// A keyed hash of company, caller and key; begins with a hash of the company alone.
    pub key: [u8; 32],
    /// A hash of method, path and body: what a repeat is compared with.
    pub request: [u8; 32],
    /// The HTTP status of the answer.
    pub status: u16,
    /// The answer, or where it is found once the change is made.
    pub content: KeyedContent,
}
