//! The committer: one thread that makes records durable in groups and lets the replies go.
//!
//! It takes everything that is queued, writes it with one durable commit, publishes the newest
//! durable record, releases the replies in the order in which they came and hands the batches to
//! who follows from memory. While it commits, the next group gathers in its inbox: there is no
//! timer, and it sleeps when there is nothing.
//!
//! INVARIANT: a reply is released as durable only when its own commit and all before it are
//! certain. After one failure nothing is written any more, and everything is released as failed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, select};

use super::chain::{BATCH_HEADER_BYTES, BatchBuilder, SealedBatch};
use super::error::last_words;
use super::limits::{
    BATCH_BYTES_MAX, BATCH_BYTES_TARGET, COMMIT_BYTES_TARGET, COMMIT_REQUESTS_MAX,
};
use super::{
    BatchFeed, ChainPosition, DurablePosition, Journal, JournalError, JournalHealth, TrimControl,
};

/// What became of the records that a reply speaks of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommitOutcome {
    /// They are durable, and so is everything before them.
    Durable,
    /// They may or may not be: nobody can tell before the journal is opened again.
    Failed,
}

/// A reply that waits for the journal.
pub trait Release: Send {
    /// Lets the reply go. Called on the committer's thread: it must be quick and never wait.
    fn release(self, outcome: CommitOutcome);

    /// Lets the replies of one commit go, in order, so that those to one place can go together.
    fn release_all(replies: impl Iterator<Item = Self>, outcome: CommitOutcome)
    where
        Self: Sized,
    {
        replies.for_each(|reply| reply.release(outcome));
    }
}

/// What the shard hands over for one of its batches.
#[derive(Debug)]
pub struct CommitRequest<R> {
    /// The first record; without meaning if there are none.
    pub first_seq: u64,
    /// The last record; equal to that of the request before if there are none.
    pub last_seq: u64,
    /// How many records there are.
    pub record_count: u32,
    /// The encoded records.
    pub payload: Vec<u8>,
    /// The replies that leave with them, in order.
    pub releases: Vec<R>,
}

/// What the committer is connected to.
#[derive(Debug)]
pub struct CommitterWiring<R> {
    /// Where requests come in; the committer ends when all senders are gone.
    pub inbox: Receiver<CommitRequest<R>>,
    /// Where the newest durable record is published.
    pub position: Arc<DurablePosition>,
    /// Where a failure is reported.
    pub health: Arc<JournalHealth>,
    /// Where it is asked to let go of old batches.
    pub trim: Arc<TrimControl>,
    /// Where durable batches go.
    pub feed: Arc<BatchFeed>,
    /// Where payload buffers go back to, if anywhere; full means that they are dropped.
    pub spent_payloads: Option<Sender<Vec<u8>>>,
}

/// Starts the committer of one partition on a thread of its own.
/// Errors: the system starts no more threads.
pub fn spawn_committer<R: Release + 'static>(
    journal: impl Journal + 'static,
    partition: u16,
    wiring: CommitterWiring<R>,
) -> std::io::Result<JoinHandle<()>> {
    let tip = journal.tip();
    let committer = Committer {
        journal,
        partition,
        wiring,
        tip,
        gathered: Vec::new(),
        batches: Vec::new(),
        spare_buffers: Vec::new(),
    };
    std::thread::Builder::new().name(format!("journal-{partition}")).spawn(move || committer.run())
}

struct Committer<J, R> {
    journal: J,
    partition: u16,
    wiring: CommitterWiring<R>,
    /// The last batch sealed; ahead of the journal's own only during a commit.
    tip: ChainPosition,
    gathered: Vec<CommitRequest<R>>,
    batches: Vec<SealedBatch>,
    spare_buffers: Vec<Vec<u8>>,
}

enum Work<R> {
    Requests(CommitRequest<R>),
    Trim,
    Closed,
}

impl<J: Journal, R: Release> Committer<J, R> {
    fn run(mut self) {
        loop {
            let done = match self.next_work() {
                Work::Closed => break,
                Work::Trim => self.trim_when_idle(),
                Work::Requests(request) => {
                    self.gather(request);
                    self.commit_gathered()
                }
            };
            match done {
                Ok(()) => {
                    self.release_gathered(CommitOutcome::Durable);
                    self.wiring.feed.offer(&mut self.batches, &mut self.spare_buffers);
                }
                Err(error) => return self.fail_everything(&error),
            }
        }
        self.wiring.position.close();
    }

    fn next_work(&self) -> Work<R> {
        let inbox = &self.wiring.inbox;
        if let Ok(request) = inbox.try_recv() {
            return Work::Requests(request);
        }
        if self.trim_is_due() {
            return Work::Trim;
        }
        select! {
            recv(inbox) -> request => request.map_or(Work::Closed, Work::Requests),
            recv(self.wiring.trim.woken()) -> _ => Work::Trim,
        }
    }

    /// Takes what is queued, up to what one commit may hold.
    fn gather(&mut self, first: CommitRequest<R>) {
        assert!(self.gathered.is_empty(), "the last group was released");
        let mut bytes = first.payload.len();
        self.gathered.push(first);
        while bytes < COMMIT_BYTES_TARGET && self.gathered.len() < COMMIT_REQUESTS_MAX {
            let Ok(request) = self.wiring.inbox.try_recv() else { break };
            bytes += request.payload.len();
            self.gathered.push(request);
        }
    }

    fn commit_gathered(&mut self) -> Result<(), JournalError> {
        self.seal_gathered()?;
        if self.batches.is_empty() {
            return Ok(());
        }
        let trim_before = self.wiring.trim.requested();
        let (journal, batches) = (&mut self.journal, &self.batches);
        guard(|| journal.append(batches, trim_before))?;
        assert_eq!(self.journal.tip(), self.tip, "all that was sealed is written");
        self.wiring.position.publish(self.tip.last_seq);
        Ok(())
    }

    /// Merges the requests' records into batches that continue the chain.
    fn seal_gathered(&mut self) -> Result<(), JournalError> {
        assert!(self.batches.is_empty(), "the last group was written");
        let mut builder = BatchBuilder::start(self.spare_buffers.pop().unwrap_or_default());
        let mut newest_seq = self.tip.last_seq;
        for at in 0..self.gathered.len() {
            let request = &self.gathered[at];
            check_continues(request, newest_seq)?;
            if request.record_count == 0 {
                continue;
            }
            newest_seq = request.last_seq;
            let len = builder.len() + request.payload.len();
            if !builder.is_empty() && len > BATCH_BYTES_TARGET {
                self.seal(builder);
                builder = BatchBuilder::start(self.spare_buffers.pop().unwrap_or_default());
            }
            let request = &self.gathered[at];
            builder.push(request.record_count, &request.payload);
        }
        if builder.is_empty() {
            return Ok(());
        }
        self.seal(builder);
        assert_eq!(self.tip.last_seq, newest_seq, "each record is in a batch");
        Ok(())
    }

    fn seal(&mut self, builder: BatchBuilder) {
        let batch = builder.seal(self.partition, &self.tip);
        self.tip = batch.position();
        self.batches.push(batch);
    }

    fn release_gathered(&mut self, outcome: CommitOutcome) {
        let spent = self.wiring.spent_payloads.as_ref();
        let releases = self.gathered.drain(..).flat_map(|request| {
            if let Some(spent) = spent {
                // Nobody waits for a buffer: if there is no room for it, it is let go of.
                let _ = spent.try_send(request.payload);
            }
            request.releases
        });
        R::release_all(releases, outcome);
    }

    fn trim_is_due(&self) -> bool {
        self.journal.can_trim(self.wiring.trim.requested())
    }

    fn trim_when_idle(&mut self) -> Result<(), JournalError> {
        let (journal, before) = (&mut self.journal, self.wiring.trim.requested());
        guard(|| journal.trim(before))
    }

    /// Tells everybody, and goes on telling those who still come.
    fn fail_everything(mut self, error: &JournalError) {
        self.wiring.health.fail(error.to_string());
        self.wiring.position.close();
        self.release_gathered(CommitOutcome::Failed);
        for request in &self.wiring.inbox {
            R::release_all(request.releases.into_iter(), CommitOutcome::Failed);
        }
    }
}

/// Records are numbered without holes, across requests too.
fn check_continues<R>(request: &CommitRequest<R>, newest_seq: u64) -> Result<(), JournalError> {
    let (expected, found) = if request.record_count == 0 {
        (newest_seq, request.last_seq)
    } else {
        (newest_seq + u64::from(request.record_count), request.last_seq)
    };
    if expected != found {
        return Err(JournalError::OutOfOrder { expected, found });
    }
    if request.record_count > 0 && request.first_seq != newest_seq + 1 {
        let (expected, found) = (newest_seq + 1, request.first_seq);
        return Err(JournalError::OutOfOrder { expected, found });
    }
    let bytes = BATCH_HEADER_BYTES + request.payload.len();
    if bytes > BATCH_BYTES_MAX {
        return Err(JournalError::BatchTooLarge { bytes });
    }
    Ok(())
}

/// A panic of the storage code must not take the waiting replies with it.
fn guard(write: impl FnOnce() -> Result<(), JournalError>) -> Result<(), JournalError> {
    catch_unwind(AssertUnwindSafe(write))
        .unwrap_or_else(|panic| Err(JournalError::Panicked { what: last_words(panic.as_ref()) }))
}

#[cfg(test)]
#[path = "committer_tests.rs"]
mod tests;
