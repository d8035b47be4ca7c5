//! The outcomes of attempts, in words for people.

use hyper::StatusCode;

use super::attempt::{Attempt, AttemptFailure, AttemptResult};

/// The outcome of an attempt, as a sentence of a page.
pub fn sentence(attempt: &Attempt) -> String {
    let failure = match &attempt.result {
        AttemptResult::Answered(status @ 200..=299) => return format!("Delivered ({status})"),
        AttemptResult::Answered(status) => return format!("Failed ({})", status_words(*status)),
        AttemptResult::Unanswered(failure) => failure,
    };
    let text = match failure {
        AttemptFailure::NoSuchHost => "The host has no address",
        AttemptFailure::NotPublic => "The host leads to a network that webhooks are not sent to",
        AttemptFailure::NotReachable => "The host cannot be reached",
        AttemptFailure::Tls => "No secure connection: check the certificate",
        AttemptFailure::Broken => "The connection broke before there was an answer",
        AttemptFailure::TooSlow => "No answer within 15 seconds",
        AttemptFailure::NotSent => "It could not be sent",
        AttemptFailure::NothingToTell => {
            "Not sent: its events are no longer available to this endpoint"
        }
    };
    text.to_owned()
}

/// A status with its name, and its effect on the switch.
fn status_words(status: u16) -> String {
    let name = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    let named = name.map_or_else(|| status.to_string(), |name| format!("{status} {name}"));
    match status {
        300..=399 => format!("{named}; redirects are not followed"),
        410 => format!("{named}; the receiver wants no more events"),
        _ => named,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_named() {
        let rows = [
            (503, "503 Service Unavailable"),
            (302, "302 Found; redirects are not followed"),
            (410, "410 Gone; the receiver wants no more events"),
            (599, "599"),
        ];
        for (status, expected) in rows {
            assert_eq!(status_words(status), expected);
        }
    }
}
