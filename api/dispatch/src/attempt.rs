//! A try to deliver a message, as its endpoint's owner sees it.

use cardswitch_engine::domain::event::EventNumber;
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::enumeration;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// How much is kept of each body of an attempt. Units: bytes.
pub const BODY_KEPT_MAX: usize = 1_000;

enumeration! {
    /// Why something was sent.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub enum AttemptKind {
        /// It happened, or is tried again.
        Event => "event",
        /// The owner wanted to see an example.
        Example => "example",
        /// The owner wanted it once more.
        Resent => "resent",
    }
}

/// How a try ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AttemptResult {
    /// The receiver answered with this status.
    Answered(u16),
    /// There was no answer, and why.
    Unanswered(AttemptFailure),
}

enumeration! {
    /// Why there was no answer.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub enum AttemptFailure {
        /// The host's name leads nowhere.
        NoSuchHost => "no_such_host",
        /// It leads where webhooks may not go.
        NotPublic => "not_public",
        /// No process listens there, or it cannot be reached.
        NotReachable => "not_reachable",
        /// TLS failed: most often a certificate that is not trusted.
        Tls => "tls_failed",
        /// The connection broke, or the bytes that came were no answer.
        Broken => "connection_broken",
        /// There was no whole answer in time.
        TooSlow => "timed_out",
        /// The switch could not make the request.
        NotSent => "not_sent",
        /// There was nothing to send: the events are no more, or must not be sent to it any more.
        NothingToTell => "nothing_to_tell",
    }
}

/// The bodies of a try, the beginning of either.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bodies {
    /// The array of events; blank where nothing was sent.
    pub request: String,
    /// The body of the receiver's answer.
    pub answer: String,
}

impl Bodies {
    /// Neither.
    pub const NONE: Self = Self { request: String::new(), answer: String::new() };

    /// The text of a body, as much of it as is kept.
    pub fn text_of(body: &[u8]) -> String {
        let kept = String::from_utf8_lossy(&body[..body.len().min(BODY_KEPT_MAX)]);
        kept.chars().filter(|c| !c.is_control() || *c == '\n').collect()
    }
}

/// A try that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Its own id.
    pub id: Uuid,
    /// The message's.
    pub message: Uuid,
    /// Why it was sent.
    pub kind: AttemptKind,
    /// The number of this try of the message, from 1.
    pub tries: u8,
    /// The instant at which it began.
    pub at: Timestamp,
    /// How long it took. Units: milliseconds.
    pub duration_ms: u32,
    /// How it ended.
    pub result: AttemptResult,
    /// The instant of the next try of the message; none where there is none.
    pub again_at: Option<Timestamp>,
    /// Whether it was the last of its message, and in vain.
    pub is_last: bool,
    /// The events of the message.
    pub events: Vec<EventNumber>,
    /// The bodies.
    pub bodies: Bodies,
}

impl Attempt {
    /// Whether the message arrived.
    pub const fn is_delivered(&self) -> bool {
        matches!(self.result, AttemptResult::Answered(200..=299))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_body_the_beginning_is_kept_without_control_characters() {
        assert_eq!(Bodies::text_of(b"<b>\x1b[31mred\n\xff"), "<b>[31mred\n\u{fffd}");
        assert_eq!(Bodies::text_of(&[b'x'; 5_000]).len(), BODY_KEPT_MAX);
    }
}
