//! The claim of a request's key on its way beside the command that makes the request's change.
//!
//! A request with a key carries it to `Call`, whose state has it for the handler's commands. A refused
//! command leaves it to the next one; once a change is made it is used.
//! INVARIANT: a handler makes its change by one command, so a claim covers all of it or nothing.

use axum::extract::Request;
use axum::http::Method;
use cardswitch_engine::command::Command;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::keyed_command::{KeyClaim, KeyedCommand};
use cardswitch_engine::command::reply::{Rejection, Reply};
use cardswitch_engine::domain::audit::AuditNote;
use cardswitch_engine::domain::keyed_answer::KeyedContent;
use parking_lot::Mutex;

use super::answer_source::shown_at;

/// The fate of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimFate {
    /// No change was made under it.
    Waiting,
    /// The record of a change holds it.
    Made,
    /// The shard knows the key, or takes no more of them.
    Refused,
    /// The journal failed under it.
    Unknown,
}

/// The claim of one request.
#[derive(Debug)]
pub struct Claim {
    key: [u8; 32],
    request: [u8; 32],
    method: Method,
    path: String,
    fate: Mutex<ClaimFate>,
}

impl Claim {
    /// The claim of a request under this name, whose hash is `hash`.
    pub fn new(key: [u8; 32], hash: [u8; 32], request: &Request) -> Self {
        Self {
            key,
            request: hash,
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            fate: Mutex::new(ClaimFate::Waiting),
        }
    }

    /// The command with the claim beside it, and a note of the caller.
    pub fn beside(&self, command: AdminCommand, note: AuditNote) -> Command {
        let (status, path) = shown_at(&self.method, &self.path, &command);
        let claim = KeyClaim {
            key: self.key,
            request: self.request,
            status: status.as_u16(),
            content: KeyedContent::Object { path },
        };
        Command::Keyed(Box::new(KeyedCommand { claim, change: Some(command), note: Some(note) }))
    }

    /// Notes the outcome of a command that the claim was beside.
    pub fn note(&self, reply: &Reply) {
        *self.fate.lock() = match reply {
            Reply::Done(_) => ClaimFate::Made,
            Reply::Rejected(Rejection::KeyTaken | Rejection::TooManyKeys) => ClaimFate::Refused,
            Reply::Rejected(_) => ClaimFate::Waiting,
            Reply::OutcomeUnknown | Reply::Network(_) | Reply::Ticked => ClaimFate::Unknown,
        };
    }

    /// The fate of the change, as far as it is known.
    pub fn fate(&self) -> ClaimFate {
        *self.fate.lock()
    }
}
