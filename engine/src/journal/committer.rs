//! The committer: one thread that makes records durable in groups and lets the replies go.
//!
//! It takes everything that is queued, writes it with one durable commit, publishes the newest
//! durable record, releases the replies in the order in which they came and hands the batches to
//! the follower in memory. While it commits, the next group gathers in its inbox: there is no
//! timer, and it sleeps when there is nothing.
//!
//! While nothing is under way, a caller commits a small request on its own thread (`CommitDesk`).
//! That spares two threads a wake-up, which takes a quarter as long as a commit.
//!
//! INVARIANT: requests are committed in the order in which they were handed over, on either thread;
//! a reply is released as durable only when its own commit and all before it are certain. After one
//! failure nothing is written any more, and everything is released as failed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use crossbeam_channel::{Sender, TryRecvError};
use parking_lot::Mutex;

use super::chain::{BatchBuilder, SealedBatch};
use super::error::last_words;
use super::limits::{BATCH_BYTES_MAX, COMMIT_BYTES_TARGET, COMMIT_REQUESTS_MAX, CommitLimits};
use super::{
    BatchFeed, ChainPosition, DurablePosition, Journal, JournalError, JournalHealth, Trail,
    TrimControl,
};
use crate::clock::Stopwatch;
use crate::inbox::{Inbox, InboxSender};
use crate::meters::Meters;
use crate::steps::{StepOutcome, Steps, spawn};

/// The outcome of a commit for the records that a reply speaks of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommitOutcome {
    /// They are durable, and so is everything before them.
    Durable,
    /// They may or may not be durable; only reopening the journal tells.
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

/// One batch of the shard, handed over to be committed.
#[derive(Debug)]
pub struct CommitRequest<R> {
    /// The last record; equal to that of the request before if there are none.
    pub last_seq: u64,
    /// The encoded records, in the buffer that is written.
    pub records: BatchBuilder,
    /// The replies that leave with them, in order.
    pub releases: Vec<R>,
    /// Whether somebody is going to read what these records change.
    pub is_awaited: bool,
}

/// The committer's connections.
#[derive(Debug)]
pub struct CommitterWiring<R> {
    /// The queue of requests; the committer ends when all senders are gone.
    pub inbox: Inbox<CommitRequest<R>>,
    /// The published position of the newest durable record.
    pub position: Arc<DurablePosition>,
    /// The health to which a failure is reported.
    pub health: Arc<JournalHealth>,
    /// The requests to drop old batches.
    pub trim: Arc<TrimControl>,
    /// The destination of durable batches.
    pub feed: Arc<BatchFeed>,
    /// The destination of buffers for further records, if any; a full one drops them.
    pub spent_buffers: Option<Sender<Vec<u8>>>,
    /// How much goes into a batch, and past the thread.
    pub limits: CommitLimits,
    /// The meters of how long each commit takes.
    pub meters: Arc<Meters>,
}

/// The committer of one partition, as steps.
pub struct CommitterSteps<R> {
    committer: Arc<Mutex<Committer<R>>>,
    inbox: Inbox<CommitRequest<R>>,
    /// There where the journal's log is written behind it.
    trail: Option<Arc<Trail>>,
}

impl<R: Release> CommitterSteps<R> {
    /// Wires the committer of `journal`; returns the way past its thread, too.
    pub fn new(
        journal: impl Journal + 'static,
        partition: u16,
        wiring: CommitterWiring<R>,
    ) -> (Self, DirectCommit<R>) {
        let CommitterWiring { inbox, position, health, trim, feed, spent_buffers, limits, meters } =
            wiring;
        let released = Arc::new(AtomicU64::new(0));
        let trail = journal.trail().map(Arc::clone);
        let committer = Arc::new(Mutex::new(Committer {
            tip: journal.tip(),
            journal: Box::new(journal),
            partition,
            position,
            health,
            trim,
            feed,
            spent_buffers,
            meters,
            batch_bytes: limits.batch_bytes,
            released: Arc::clone(&released),
            gathered: Vec::new(),
            batches: Vec::new(),
            spare_buffers: Vec::new(),
        }));
        let in_place = DirectCommit {
            committer: Arc::clone(&committer),
            released,
            bytes_max: limits.in_place_bytes,
        };
        (Self { committer, inbox, trail }, in_place)
    }
}

impl<R: Release> Steps for CommitterSteps<R> {
    /// Commits the queued requests, or does a step of the journal's upkeep.
    fn step(&mut self) -> StepOutcome {
        if self.trail.as_ref().is_some_and(|trail| !trail.has_room()) {
            // The log rings.
            return StepOutcome::Idle;
        }
        match self.inbox.try_take() {
            Ok(request) => {
                let mut committer = self.committer.lock();
                committer.take(request, Some(&self.inbox));
                // Every time: under load there is no idle moment.
                committer.keep_up();
                StepOutcome::Worked
            }
            Err(TryRecvError::Empty) => StepOutcome::of(self.committer.lock().keep_up()),
            Err(TryRecvError::Disconnected) => StepOutcome::Ended,
        }
    }

    fn wait(&mut self) {
        self.inbox.wait(None);
    }
}

/// Starts the committer of one partition on a thread of its own.
/// Errors: the system starts no more threads.
pub fn spawn_committer<R: Release + 'static>(
    journal: impl Journal + 'static,
    partition: u16,
    wiring: CommitterWiring<R>,
) -> std::io::Result<RunningCommitter<R>> {
    let (steps, in_place) = CommitterSteps::new(journal, partition, wiring);
    let thread = spawn(format!("journal-{partition}"), steps)?;
    Ok(RunningCommitter { thread, in_place })
}

/// A committer at work.
pub struct RunningCommitter<R> {
    /// Ends when all senders of its inbox are gone.
    pub thread: JoinHandle<()>,
    /// The way past its thread.
    pub in_place: DirectCommit<R>,
}

/// The way to a committer past its thread.
pub struct DirectCommit<R> {
    committer: Arc<Mutex<Committer<R>>>,
    /// How many requests have been released since the start.
    released: Arc<AtomicU64>,
    /// Payload bytes of a request that may go this way.
    bytes_max: usize,
}

/// The one place from which requests reach a committer.
pub struct CommitDesk<R> {
    requests: InboxSender<CommitRequest<R>>,
    in_place: Option<DirectCommit<R>>,
    handed_over: u64,
}

impl<R: Release> CommitDesk<R> {
    /// The desk before a committer that has no other source of requests.
    pub const fn new(requests: InboxSender<CommitRequest<R>>, in_place: DirectCommit<R>) -> Self {
        Self { requests, in_place: Some(in_place), handed_over: 0 }
    }

    /// A desk that always passes on.
    pub const fn passing_on(requests: InboxSender<CommitRequest<R>>) -> Self {
        Self { requests, in_place: None, handed_over: 0 }
    }

    /// Hands a request to the committer's thread; waits while its queue is full. Returns whether
    /// the committer is still there.
    pub fn pass_on(&mut self, request: CommitRequest<R>) -> bool {
        self.handed_over += 1;
        self.requests.send(request).is_ok()
    }

    /// Whether nothing is under way that could have been committed on this thread.
    pub fn is_at_rest(&self) -> bool {
        let released = self.in_place.as_ref().map(|way| way.released.load(Ordering::Acquire));
        released == Some(self.handed_over)
    }

    /// As `pass_on`, but commits on this thread if the request is small and nothing is under way.
    pub fn commit_or_pass_on(&mut self, request: CommitRequest<R>) -> bool {
        if let Some(in_place) = &self.in_place
            && request.records.records().len() <= in_place.bytes_max
            && self.is_at_rest()
            // Its thread may be at the journal's upkeep.
            && let Some(mut committer) = in_place.committer.try_lock()
            && committer.journal.trail().is_none_or(|trail| trail.has_room())
        {
            self.handed_over += 1;
            committer.take(request, None);
            committer.ring_for_upkeep();
            return true;
        }
        self.pass_on(request)
    }
}

crate::opaque!(for<R> CommitDesk<R>);

struct Committer<R> {
    journal: Box<dyn Journal>,
    partition: u16,
    position: Arc<DurablePosition>,
    health: Arc<JournalHealth>,
    trim: Arc<TrimControl>,
    feed: Arc<BatchFeed>,
    spent_buffers: Option<Sender<Vec<u8>>>,
    meters: Arc<Meters>,
    batch_bytes: usize,
    /// The last batch sealed; ahead of the journal's own only during a commit.
    tip: ChainPosition,
    released: Arc<AtomicU64>,
    gathered: Vec<CommitRequest<R>>,
    batches: Vec<SealedBatch>,
    spare_buffers: Vec<Vec<u8>>,
}

impl<R: Release> Committer<R> {
    /// Commits a request, with those queued behind it, and lets the replies go.
    fn take(&mut self, request: CommitRequest<R>, queued: Option<&Inbox<CommitRequest<R>>>) {
        self.gather(request, queued);
        let done = if self.health.is_failed() {
            Ok(CommitOutcome::Failed)
        } else {
            self.commit_gathered().map(|()| CommitOutcome::Durable)
        };
        let outcome = done.unwrap_or_else(|error| self.fail(&error));
        let count = self.gathered.len() as u64;
        self.release_gathered(outcome);
        self.released.fetch_add(count, Ordering::Release);
        if outcome == CommitOutcome::Failed {
            return;
        }
        let (batches, spare_buffers) = (&mut self.batches, &mut self.spare_buffers);
        match self.journal.trail() {
            Some(trail) => trail.offer(batches, spare_buffers),
            None => self.feed.offer(batches, spare_buffers),
        }
    }

    /// Takes the queued requests, as many as one commit may hold.
    fn gather(&mut self, first: CommitRequest<R>, queued: Option<&Inbox<CommitRequest<R>>>) {
        assert!(self.gathered.is_empty(), "the last group was released");
        let mut bytes = first.records.len();
        self.gathered.push(first);
        let Some(queued) = queued else { return };
        while bytes < COMMIT_BYTES_TARGET && self.gathered.len() < COMMIT_REQUESTS_MAX {
            let Ok(request) = queued.try_take() else { break };
            bytes += request.records.len();
            self.gathered.push(request);
        }
    }

    fn commit_gathered(&mut self) -> Result<(), JournalError> {
        self.seal_gathered()?;
        if self.batches.is_empty() {
            let journal = &mut self.journal;
            return guard(|| journal.confirm());
        }
        let (journal, batches) = (&mut self.journal, &self.batches);
        // Under load it would keep the follower from gathering; behind a trail it waits for the log.
        if let ([request], [batch]) = (&self.gathered[..], &batches[..])
            && request.is_awaited
            && journal.trail().is_none()
        {
            self.feed.announce(batch);
        }
        let since = Stopwatch::start();
        let appended = guard(|| journal.append(batches));
        self.meters.commit.record(since.elapsed());
        appended?;
        assert_eq!(self.journal.tip(), self.tip, "all that was sealed is written");
        self.position.publish(self.tip.last_seq);
        Ok(())
    }

    /// Makes batches that continue the chain of the requests' records, each in the buffer of its first
    /// request, which gets another one.
    fn seal_gathered(&mut self) -> Result<(), JournalError> {
        assert!(self.batches.is_empty(), "the last group was written");
        let mut open: Option<BatchBuilder> = None;
        let mut newest_seq = self.tip.last_seq;
        for at in 0..self.gathered.len() {
            let CommitRequest { last_seq, records, .. } = &mut self.gathered[at];
            check_continues(*last_seq, records, newest_seq)?;
            newest_seq = *last_seq;
            if records.is_empty() {
                continue;
            }
            match &mut open {
                Some(batch) if batch.len() + records.records().len() <= self.batch_bytes => {
                    batch.append(records);
                }
                _ => {
                    let spare = BatchBuilder::start(self.spare_buffers.pop().unwrap_or_default());
                    if let Some(full) = open.replace(std::mem::replace(records, spare)) {
                        self.seal(full);
                    }
                }
            }
        }
        if let Some(last) = open {
            self.seal(last);
        }
        assert_eq!(self.tip.last_seq, newest_seq, "each record is in a batch");
        Ok(())
    }

    fn seal(&mut self, builder: BatchBuilder) {
        let group_place = u32::try_from(self.batches.len()).unwrap_or(u32::MAX);
        let batch = builder.seal_in_group(self.partition, &self.tip, group_place);
        self.tip = batch.position();
        self.batches.push(batch);
    }

    fn release_gathered(&mut self, outcome: CommitOutcome) {
        let spent = self.spent_buffers.as_ref();
        let releases = self.gathered.drain(..).flat_map(|request| {
            if let Some(spent) = spent {
                // A buffer is dropped when there is no room for it.
                let _ = spent.try_send(request.records.into_buffer());
            }
            request.releases
        });
        R::release_all(releases, outcome);
    }

    /// Does one step of the journal's upkeep; returns whether there was one.
    fn keep_up(&mut self) -> bool {
        let (journal, before) = (&mut self.journal, self.trim.requested());
        let is_due = !self.health.is_failed() && journal.needs_upkeep(before);
        if is_due && let Err(error) = guard(|| journal.keep_up(before)) {
            self.fail(&error);
        }
        is_due
    }

    /// Leaves the journal's upkeep to the committer's thread.
    fn ring_for_upkeep(&self) {
        if self.journal.needs_upkeep(self.trim.requested()) {
            self.trim.ring();
        }
    }

    /// Reports that nothing is written any more.
    fn fail(&mut self, error: &JournalError) -> CommitOutcome {
        self.health.fail(error.to_string());
        CommitOutcome::Failed
    }
}

/// Records are numbered without holes, across requests too.
fn check_continues(
    last_seq: u64,
    records: &BatchBuilder,
    newest_seq: u64,
) -> Result<(), JournalError> {
    let expected = newest_seq + u64::from(records.record_count());
    if expected != last_seq {
        return Err(JournalError::OutOfOrder { expected, found: last_seq });
    }
    if records.len() > BATCH_BYTES_MAX {
        return Err(JournalError::BatchTooLarge { bytes: records.len() });
    }
    Ok(())
}

/// A panic of the storage code must not take the waiting replies with it.
pub(super) fn guard(write: impl FnOnce() -> Result<(), JournalError>) -> Result<(), JournalError> {
    catch_unwind(AssertUnwindSafe(write))
        .unwrap_or_else(|panic| Err(JournalError::Panicked { what: last_words(panic.as_ref()) }))
}

#[cfg(test)]
#[path = "committer_tests.rs"]
mod tests;
