//! The claim of a request's key on its way beside the command that makes the request's change.
//!
//! A request with a key carries it to `Call`, whose state has it for the handler's commands. A refused
//! command leaves it to the next one; once a change is made it is used. The claim of a form is there
//! before the form is read, and only then gets its name.
//! INVARIANT: a handler makes its change by one command, so a claim covers all of it or nothing.

use std::sync::OnceLock;

use axum::extract::Request;
use axum::http::Method;
use cardswitch_engine::command::Command;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::keyed_command::{KeyClaim, KeyedCommand};
use cardswitch_engine::command::reply::{Rejection, Reply};
use cardswitch_engine::domain::audit::AuditNote;
use cardswitch_engine::domain::keyed_answer::KeyedContent;
use parking_lot::Mutex;

use super::KeyedRequest;
use super::answer_source::shown_at;
use super::form_key::{FORM_STATUS, FormKey};

/// The fate of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimFate {
    /// No change was made under it.
    Waiting,
    /// The record of a change holds it.
    Made,
    /// The shard knows the key.
    Taken,
    /// The shard takes no more keys.
    Refused,
    /// The journal failed under it.
    Unknown,
}

/// The claim of one request.
#[derive(Debug)]
pub struct Claim {
    /// None before a form is read.
    asked: OnceLock<KeyedRequest>,
    /// Method and path of a request; none of a form, whose answer is not shown again.
    target: Option<(Method, String)>,
    fate: Mutex<ClaimFate>,
}

impl Claim {
    /// The claim of a request under this name, whose hash is `hash`.
    pub fn new(key: [u8; 32], hash: [u8; 32], request: &Request) -> Self {
        Self {
            asked: OnceLock::from(KeyedRequest { key, request: hash }),
            target: Some((request.method().clone(), request.uri().path().to_owned())),
            fate: Mutex::new(ClaimFate::Waiting),
        }
    }

    /// The claim of a form that is still to be read.
    pub fn of_form() -> Self {
        Self { asked: OnceLock::new(), target: None, fate: Mutex::new(ClaimFate::Waiting) }
    }

    /// Names the form, once it is read.
    pub fn name(&self, form: FormKey) {
        self.asked.get_or_init(|| form.0);
    }

    /// The request that the next command is to carry; none where there is no name yet, or a change was
    /// made.
    pub(crate) fn open_for(&self) -> Option<KeyedRequest> {
        self.asked.get().copied().filter(|_| self.fate() != ClaimFate::Made)
    }

    /// The command with the claim beside it, and a note of the caller.
    pub(crate) fn beside(
        &self,
        asked: KeyedRequest,
        command: AdminCommand,
        note: AuditNote,
    ) -> Command {
        let (status, path) = match &self.target {
            Some((method, path)) => shown_at(method, path, &command),
            None => (FORM_STATUS, String::new()),
        };
        let claim = KeyClaim {
            key: asked.key,
            request: asked.request,
            status: status.as_u16(),
            content: KeyedContent::Object { path },
        };
        Command::Keyed(Box::new(KeyedCommand { claim, change: Some(command), note: Some(note) }))
    }

    /// Notes the outcome of a command that the claim was beside.
    pub fn note(&self, reply: &Reply) {
        *self.fate.lock() = match reply {
            Reply::Done(_) => ClaimFate::Made,
            Reply::Rejected(Rejection::KeyTaken) => ClaimFate::Taken,
            Reply::Rejected(Rejection::TooManyKeys) => ClaimFate::Refused,
            Reply::Rejected(_) => ClaimFate::Waiting,
            Reply::OutcomeUnknown | Reply::Network(_) | Reply::Ticked => ClaimFate::Unknown,
        };
    }

    /// The fate of the change, as far as it is known.
    pub fn fate(&self) -> ClaimFate {
        *self.fate.lock()
    }
}
