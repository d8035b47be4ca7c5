//! Takes letters from the queue to the mail server, one at a time.
//!
//! A server that is not reached is waited for; meanwhile letters wait in their order. A letter that
//! the server does not take waits by itself, longer each time, and others go before it. Nothing else
//! in the switch ever waits for any of it. The log names letters by their ids, never their readers.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lettre::Address;
use lettre::address::Envelope;
use tokio::sync::watch;
use tokio::time::sleep;
use uuid::Uuid;

use super::limits::{
    AGE_MAX, IDLE_WAIT, REFUSALS_MAX, RETRY_WAIT_MAX, SERVER_WAIT_MAX, SERVER_WAIT_MIN, STOP_WAIT,
};
use super::outbox::{MailError, Outbox};
use super::queue::{Next, Parcel, Tries, age};
use super::smtp::{MailOutcome, Route, SmtpServer};

/// Sends letters until the switch stops.
pub(super) async fn run(
    outbox: Arc<Outbox>,
    server: Arc<SmtpServer>,
    mut stopped: watch::Receiver<bool>,
) {
    let route = Route::new(&server);
    let retry_wait = server.address.retry_wait;
    let mut sender = MailSender { outbox, route, retry_wait, pause: None };
    while let Some((id, tries)) = sender.next(&mut stopped).await {
        tokio::select! {
            () = sender.send(id, tries) => {}
            // A letter that is on its way may still arrive; otherwise it is sent after the next
            // start.
            () = stop(&mut stopped) => break,
        }
    }
    sender.route.close().await;
}

/// Resolves a little after the switch is stopped.
async fn stop(stopped: &mut watch::Receiver<bool>) {
    wait_until_stopped(stopped).await;
    sleep(STOP_WAIT).await;
}

async fn wait_until_stopped(stopped: &mut watch::Receiver<bool>) {
    // The sender of the signal may be gone: that is a stop, too.
    let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
}

/// A server that was not reached is left alone for a while.
#[derive(Clone, Copy)]
struct Pause {
    until: Instant,
    wait: Duration,
}

struct MailSender<'a> {
    outbox: Arc<Outbox>,
    route: Route<'a>,
    retry_wait: Duration,
    pause: Option<Pause>,
}

impl MailSender<'_> {
    /// Waits for the next letter that is due; none once the switch stops.
    async fn next(&mut self, stopped: &mut watch::Receiver<bool>) -> Option<(Uuid, Tries)> {
        loop {
            let now = Instant::now();
            let paused_until = self.pause.map(|pause| pause.until).filter(|until| *until > now);
            let is_paused = paused_until.is_some();
            let due = match paused_until {
                Some(until) => Some(until),
                None => match self.outbox.queue().next(now) {
                    Next::Letter(id, tries) => return Some((id, tries)),
                    Next::Wait(at) => Some(at),
                    Next::Nothing => None,
                },
            };
            let idle_end = self.route.is_open().then(|| now + IDLE_WAIT);
            let wake = [due, idle_end].into_iter().flatten().min();
            tokio::select! {
                () = wait_until_stopped(stopped) => return None,
                () = self.outbox.queue().came.notified(), if !is_paused => {}
                () = sleep_until(wake) => {
                    if wake == idle_end {
                        self.route.close().await;
                    }
                }
            }
        }
    }

    /// Tries to send a letter.
    /// INVARIANT: the letter is gone from the disk, or waits again.
    async fn send(&mut self, id: Uuid, tries: Tries) {
        let parcel = match self.blocking(move |outbox| outbox.queue().read_letter(id)).await {
            Some(Ok(parcel)) => parcel,
            Some(Err(error)) => return self.leave_letter_alone(id, tries, &error),
            None => return,
        };
        let outcome = match self.envelope(&parcel) {
            Ok(envelope) => self.route.send(&envelope, parcel.message.as_bytes()).await,
            Err(_) => MailOutcome::Refused(0),
        };
        self.settle(id, tries, outcome).await;
    }

    /// Puts a letter back that cannot be read now, unless it never will be.
    fn leave_letter_alone(&self, id: Uuid, tries: Tries, error: &MailError) {
        if may_pass(error) {
            tracing::error!(letter = %id, %error, "a letter is read again later");
            self.outbox.queue().again(id, tries, self.retry_wait);
        } else {
            // The file stays in its place, for an operator who has its key.
            tracing::error!(letter = %id, %error, "a letter is left alone");
        }
    }

    fn envelope(&self, parcel: &Parcel) -> Result<Envelope, MailError> {
        let to: Address = parcel.to.parse().map_err(MailError::Address)?;
        let from = self.outbox.letterhead().from().email.clone();
        Envelope::new(Some(from), vec![to]).map_err(MailError::Message)
    }

    async fn settle(&mut self, id: Uuid, tries: Tries, outcome: MailOutcome) {
        match outcome {
            MailOutcome::Unreached(reason) => self.leave_server_alone(reason),
            MailOutcome::Taken | MailOutcome::PutOff(_) | MailOutcome::Refused(_) => {
                self.server_is_there()
            }
        }
        match after(outcome, tries, age(id), self.retry_wait) {
            Then::Finished => {
                tracing::debug!(letter = %id, "a letter was sent");
                self.finish(id).await;
            }
            Then::GivenUp => {
                tracing::error!(letter = %id, ?outcome, "a letter was given up");
                self.finish(id).await;
            }
            Then::Again(tries, wait) => {
                if outcome_is_of_letter(outcome) {
                    let wait_s = wait.as_secs();
                    tracing::warn!(letter = %id, ?outcome, wait_s, "a letter was put off");
                }
                self.outbox.queue().again(id, tries, wait);
            }
        }
    }

    async fn finish(&self, id: Uuid) {
        self.blocking(move |outbox| outbox.queue().finish(id)).await;
    }

    fn leave_server_alone(&mut self, reason: &'static str) {
        let wait = match self.pause {
            Some(pause) => (pause.wait * 2).min(SERVER_WAIT_MAX),
            None => {
                let waiting = self.outbox.waiting();
                tracing::warn!(reason, waiting, "letters wait for the mail server");
                SERVER_WAIT_MIN
            }
        };
        self.pause = Some(Pause { until: Instant::now() + wait, wait });
    }

    fn server_is_there(&mut self) {
        if self.pause.take().is_some() {
            let waiting = self.outbox.waiting();
            tracing::info!(waiting, "the mail server takes letters again");
        }
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Outbox) -> T + Send + 'static,
    ) -> Option<T> {
        let outbox = Arc::clone(&self.outbox);
        tokio::task::spawn_blocking(move || work(&outbox)).await.ok()
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// Whether a letter that could not be read may be readable later.
fn may_pass(error: &MailError) -> bool {
    match error {
        MailError::Foreign => false,
        // The file was taken away.
        MailError::Read(error) => error.kind() != io::ErrorKind::NotFound,
        _ => true,
    }
}

const fn outcome_is_of_letter(outcome: MailOutcome) -> bool {
    matches!(outcome, MailOutcome::PutOff(_) | MailOutcome::Refused(_))
}

/// The next step of a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Finished,
    GivenUp,
    Again(Tries, Duration),
}

/// The next step of a letter of that age after it was tried so often before.
fn after(outcome: MailOutcome, before: Tries, age: Duration, first_wait: Duration) -> Then {
    let mut tries = before;
    let wait = match outcome {
        MailOutcome::Taken => return Then::Finished,
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
    if is_over { Then::GivenUp } else { Then::Again(tries, wait) }
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
            (MailError::Foreign, false),
            (MailError::Read(io::ErrorKind::NotFound.into()), false),
            (MailError::Read(io::Error::from_raw_os_error(24)), true),
        ];
        for (error, expected) in rows {
            assert_eq!(may_pass(&error), expected, "{error}");
        }
    }

    #[test]
    fn letters_wait_longer_each_time_and_not_for_ever() {
        use MailOutcome::{PutOff, Refused, Taken, Unreached};
        let young = Duration::from_secs(5);
        let rows = [
            (Taken, tries(7, 2), young, Then::Finished),
            (Taken, tries(0, 0), 2 * AGE_MAX, Then::Finished),
            (PutOff(450), tries(0, 0), young, Then::Again(tries(1, 0), MINUTE)),
            (PutOff(450), tries(3, 1), young, Then::Again(tries(4, 1), 8 * MINUTE)),
            (PutOff(450), tries(9, 0), young, Then::Again(tries(10, 0), RETRY_WAIT_MAX)),
            (PutOff(450), tries(99, 0), young, Then::Again(tries(100, 0), RETRY_WAIT_MAX)),
            (PutOff(450), tries(1, 0), AGE_MAX, Then::GivenUp),
            (Refused(550), tries(0, 0), young, Then::Again(tries(1, 1), MINUTE)),
            (Refused(550), tries(5, 2), young, Then::GivenUp),
            (Unreached("x"), tries(5, 2), young, Then::Again(tries(5, 2), Duration::ZERO)),
            (Unreached("x"), tries(0, 0), AGE_MAX, Then::GivenUp),
        ];
        for (outcome, before, age, expected) in rows {
            let then = after(outcome, before, age, MINUTE);
            assert_eq!(then, expected, "{outcome:?} {before:?} {age:?}");
        }
    }
}
