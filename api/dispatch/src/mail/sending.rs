//! The next letter for the mail server, one at a time, and the consequences of its outcome.
//!
//! A server that is not reached is waited for; meanwhile letters wait in their order. A letter that
//! the server does not take waits by itself, longer each time, and others go before it. The log names
//! letters by their ids, never their readers.

use std::io;
use std::time::Duration;

use uuid::Uuid;

use super::limits::{AGE_MAX, REFUSALS_MAX, RETRY_WAIT_MAX, SERVER_WAIT_MAX, SERVER_WAIT_MIN};
use super::queue::{MailQueue, NextLetter, QueueError, Tries};

/// The outcome of a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailOutcome {
    /// The server has taken it.
    Taken,
    /// The server may take it later.
    PutOff(u16),
    /// The server will not take it.
    Refused(u16),
    /// The server was not reached, or broke off, or took too long: it says nothing of the letter.
    Unreached(&'static str),
}

/// A letter that was tried.
#[derive(Clone, Copy, Debug)]
pub struct LetterTry {
    /// The letter.
    pub id: Uuid,
    /// How often it was tried before.
    pub tries: Tries,
    /// How long ago it was handed in.
    pub age: Duration,
}

/// The future of a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LetterFate {
    /// It waits again.
    Waits,
    /// It is done with: the driver calls `MailQueue::finish`.
    Over,
}

/// A server that was not reached is left alone for a while.
#[derive(Clone, Copy, Debug)]
struct Pause {
    until: Duration,
    wait: Duration,
}

/// Sends letters of a queue.
#[derive(Debug)]
pub struct MailSending {
    /// How long a letter waits that was put off once.
    retry_wait: Duration,
    pause: Option<Pause>,
}

impl MailSending {
    /// `retry_wait` is how long a letter waits that was put off once.
    pub const fn new(retry_wait: Duration) -> Self {
        Self { retry_wait, pause: None }
    }

    /// Takes the next letter, if one is due at `now` and the server is not left alone.
    pub fn next(&self, queue: &MailQueue, now: Duration) -> NextLetter {
        match self.pause {
            Some(pause) if pause.until > now => NextLetter::At(pause.until),
            _ => queue.next(now),
        }
    }

    /// Notes the outcome of a letter.
    pub fn settle(
        &mut self,
        queue: &MailQueue,
        letter: LetterTry,
        outcome: MailOutcome,
        now: Duration,
    ) -> LetterFate {
        let LetterTry { id, tries, age } = letter;
        match outcome {
            MailOutcome::Unreached(reason) => self.leave_server_alone(queue, reason, now),
            MailOutcome::Taken | MailOutcome::PutOff(_) | MailOutcome::Refused(_) => {
                self.note_server_reached(queue);
            }
        }
        match after(outcome, tries, age, self.retry_wait) {
            LetterStep::Finished => {
                tracing::debug!(email = %id, "an email was sent");
                LetterFate::Over
            }
            LetterStep::GivenUp => {
                tracing::error!(email = %id, ?outcome, "an email was given up");
                LetterFate::Over
            }
            LetterStep::Again(tries, wait) => {
                if matches!(outcome, MailOutcome::PutOff(_) | MailOutcome::Refused(_)) {
                    let wait_s = wait.as_secs();
                    tracing::warn!(email = %id, ?outcome, wait_s, "an email was put off");
                }
                queue.put_back(id, tries, now + wait);
                LetterFate::Waits
            }
        }
    }

    /// Puts a letter back that could not be read, unless it never will be: then its file stays in its
    /// place, for an operator who has its key.
    pub fn leave_unread(
        &self,
        queue: &MailQueue,
        (id, tries): (Uuid, Tries),
        error: &QueueError,
        now: Duration,
    ) {
        if may_be_read_later(error) {
            tracing::error!(email = %id, %error, "an email is read again later");
            queue.put_back(id, tries, now + self.retry_wait);
        } else {
            tracing::error!(email = %id, %error, "an email is left alone");
        }
    }

    fn leave_server_alone(&mut self, queue: &MailQueue, reason: &str, now: Duration) {
        let wait = match self.pause {
            Some(pause) => (pause.wait * 2).min(SERVER_WAIT_MAX),
            None => {
                let waiting = queue.len();
                tracing::warn!(reason, waiting, "emails wait for the mail server");
                SERVER_WAIT_MIN
            }
        };
        self.pause = Some(Pause { until: now + wait, wait });
    }

    fn note_server_reached(&mut self, queue: &MailQueue) {
        if self.pause.take().is_some() {
            let waiting = queue.len();
            tracing::info!(waiting, "the mail server takes emails again");
        }
    }
}

fn may_be_read_later(error: &QueueError) -> bool {
    match error {
        QueueError::Foreign => false,
        // The file was taken away.
        QueueError::Read(error) => error.kind() != io::ErrorKind::NotFound,
        QueueError::Write(_) | QueueError::Full => true,
    }
}

/// The next step of a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LetterStep {
    Finished,
    GivenUp,
    Again(Tries, Duration),
}

/// The next step of a letter of that age after it was tried so often before.
fn after(outcome: MailOutcome, before: Tries, age: Duration, first_wait: Duration) -> LetterStep {
    let mut tries = before;
    let wait = match outcome {
        MailOutcome::Taken => return LetterStep::Finished,
        // The server is waited for; the letter is none the later for it.
        MailOutcome::Unreached(_) => Duration::ZERO,
        MailOutcome::PutOff(_) | MailOutcome::Refused(_) => {
            let doublings = 1_u32.checked_shl(before.all).unwrap_or(u32::MAX);
            tries.all = before.all.saturating_add(1);
            first_wait.saturating_mul(doublings).min(RETRY_WAIT_MAX)
        }
    };
    if matches!(outcome, MailOutcome::Refused(_)) {
        tries.refusals = before.refusals.saturating_add(1);
    }
    let is_over = age >= AGE_MAX || tries.refusals >= REFUSALS_MAX;
    if is_over { LetterStep::GivenUp } else { LetterStep::Again(tries, wait) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn tries(all: u32, refusals: u32) -> Tries {
        Tries { all, refusals }
    }

    #[test]
    fn only_what_may_be_read_later_is_read_again() {
        let rows = [
            (QueueError::Foreign, false),
            (QueueError::Read(io::ErrorKind::NotFound.into()), false),
            (QueueError::Read(io::Error::from_raw_os_error(24)), true),
        ];
        for (error, expected) in rows {
            assert_eq!(may_be_read_later(&error), expected, "{error}");
        }
    }

    #[test]
    fn letters_wait_longer_each_time_and_not_for_ever() {
        use MailOutcome::{PutOff, Refused, Taken, Unreached};
        let young = Duration::from_secs(5);
        let rows = [
            (Taken, tries(7, 2), young, LetterStep::Finished),
            (Taken, tries(0, 0), 2 * AGE_MAX, LetterStep::Finished),
            (PutOff(450), tries(0, 0), young, LetterStep::Again(tries(1, 0), MINUTE)),
            (PutOff(450), tries(3, 1), young, LetterStep::Again(tries(4, 1), 8 * MINUTE)),
            (PutOff(450), tries(9, 0), young, LetterStep::Again(tries(10, 0), RETRY_WAIT_MAX)),
            (PutOff(450), tries(99, 0), young, LetterStep::Again(tries(100, 0), RETRY_WAIT_MAX)),
            (PutOff(450), tries(1, 0), AGE_MAX, LetterStep::GivenUp),
            (Refused(550), tries(0, 0), young, LetterStep::Again(tries(1, 1), MINUTE)),
            (Refused(550), tries(5, 2), young, LetterStep::GivenUp),
            (Unreached("x"), tries(5, 2), young, LetterStep::Again(tries(5, 2), Duration::ZERO)),
            (Unreached("x"), tries(0, 0), AGE_MAX, LetterStep::GivenUp),
        ];
        for (outcome, before, age, expected) in rows {
            let then = after(outcome, before, age, MINUTE);
            assert_eq!(then, expected, "{outcome:?} {before:?} {age:?}");
        }
    }
}
