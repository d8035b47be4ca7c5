//! Takes letters from the queue to the mail server, one at a time: the task that drives
//! `cardswitch_dispatch::mail::sending`. Nothing else in the switch ever waits for it.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use cardswitch_dispatch::mail::queue::{NextLetter, Tries, age};
use cardswitch_dispatch::mail::sending::{LetterFate, LetterTry, MailOutcome, MailSending};
use lettre::Address;
use lettre::address::Envelope;
use tokio::sync::watch;
use tokio::time::sleep;
use uuid::Uuid;

use super::limits::{IDLE_WAIT, STOP_WAIT};
use super::outbox::{MailError, Outbox};
use super::sealed_queue::Parcel;
use super::smtp::{Route, SmtpServer};

/// Sends letters until the switch stops.
pub(super) async fn run(
    outbox: Arc<Outbox>,
    server: Arc<SmtpServer>,
    mut stopped: watch::Receiver<bool>,
) {
    let sending = MailSending::new(server.address.retry_wait);
    let mut sender = MailSender { outbox, route: Route::new(&server), sending };
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

struct MailSender<'a> {
    outbox: Arc<Outbox>,
    route: Route<'a>,
    sending: MailSending,
}

impl MailSender<'_> {
    /// Waits for the next letter that is due; none once the switch stops.
    async fn next(&mut self, stopped: &mut watch::Receiver<bool>) -> Option<(Uuid, Tries)> {
        loop {
            let queue = &self.outbox.queue;
            let now = queue.now();
            let due_in = match self.sending.next(&queue.queue, now) {
                NextLetter::Due(id, tries) => return Some((id, tries)),
                NextLetter::At(at) => Some(at - now),
                NextLetter::None => None,
            };
            let idle_in = self.route.is_open().then_some(IDLE_WAIT);
            let wait = [due_in, idle_in].into_iter().flatten().min();
            tokio::select! {
                () = wait_until_stopped(stopped) => return None,
                () = queue.came.notified() => {}
                () = sleep_if(wait) => {
                    if wait == idle_in {
                        self.route.close().await;
                    }
                }
            }
        }
    }

    /// Tries to send a letter.
    /// INVARIANT: the letter is gone from the disk, or waits again.
    async fn send(&mut self, id: Uuid, tries: Tries) {
        let parcel = match self.blocking(move |outbox| outbox.queue.read_letter(id)).await {
            Some(Ok(parcel)) => parcel,
            Some(Err(error)) => {
                let queue = &self.outbox.queue;
                return self.sending.leave_unread(&queue.queue, (id, tries), &error, queue.now());
            }
            None => return,
        };
        let outcome = match self.envelope(&parcel) {
            Ok(envelope) => self.route.send(&envelope, parcel.message.as_bytes()).await,
            Err(_) => MailOutcome::Refused(0),
        };
        let letter =
            LetterTry { id, tries, age: age(id, UNIX_EPOCH.elapsed().unwrap_or_default()) };
        let queue = &self.outbox.queue;
        if self.sending.settle(&queue.queue, letter, outcome, queue.now()) == LetterFate::Over {
            self.blocking(move |outbox| outbox.queue.queue.finish(id)).await;
        }
    }

    fn envelope(&self, parcel: &Parcel) -> Result<Envelope, MailError> {
        let to: Address = parcel.to.parse().map_err(MailError::Address)?;
        let from = self.outbox.letterhead.from.email.clone();
        Envelope::new(Some(from), vec![to]).map_err(MailError::Message)
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Outbox) -> T + Send + 'static,
    ) -> Option<T> {
        let outbox = Arc::clone(&self.outbox);
        tokio::task::spawn_blocking(move || work(&outbox)).await.ok()
    }
}

async fn sleep_if(wait: Option<Duration>) {
    match wait {
        Some(wait) => sleep(wait).await,
        None => std::future::pending().await,
    }
}
