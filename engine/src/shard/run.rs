//! The loop of the shard: the only one that touches the hot state, on its own thread or on that of a
//! caller (`desk`).
//!
//! For each batch: (1) take what is queued, (2) per command, strictly in order, ask for the memory
//! that those behind it will touch, stamp its time, run what is due before it, execute, apply,
//! encode; (3) hand records and replies to the committer and go on. Memory is ahead of the disk only
//! between (2) and the commit, and nobody is told. Many records, as when a flood of timers is due,
//! are handed over piece by piece before that.
//!
//! A command that needs what only the tables have is put aside while they are read, and executed
//! when they have answered (`questions.rs`); those behind it go ahead. On a manual clock the order
//! of commands is part of the outcome, so the shard waits instead.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, TryRecvError};

use super::execute::execute;
use super::prefetch::look_ahead;
use super::questions::Questions;
pub use super::questions::RecallWiring;
use super::recall::LoadedRows;
use super::state::ShardState;
use crate::clock::{Clock, Stopwatch};
use crate::command::Moment;
use crate::command::TimedCommand;
use crate::command::effect::Effect;
use crate::command::record::append_record;
use crate::command::reply::Reply;
use crate::domain::ids::Timestamp;
use crate::domain::public_id::IdMint;
use crate::inbox::{Doorbell, Inbox};
use crate::journal::chain::BatchBuilder;
use crate::journal::limits::BATCH_BYTES_MAX;
use crate::journal::{CommitDesk, CommitOutcome, CommitRequest, Release};
use crate::limits;
use crate::loader::{Loader, LoaderAnswer, LoaderQuestion, RecallError};
use crate::meters::{Meters, Tally};
use crate::steps::{StepOutcome, Steps, spawn};
use crate::submission::{Envelope, ReplyPort, Submission};

const _: () = assert!(limits::HAND_OVER_BYTES + limits::RECORD_BYTES_MAX < BATCH_BYTES_MAX / 2);

/// The shard's connections.
#[derive(Debug)]
pub struct ShardWiring {
    /// The inbox of commands; the shard ends when all senders are gone.
    pub inbox: Inbox<Submission>,
    /// The number of commands that wait in it.
    pub queued: Arc<AtomicUsize>,
    /// The destination of records and replies.
    pub committer: CommitDesk<ReplyBatch>,
    /// Buffers for further records.
    pub spent_buffers: Receiver<Vec<u8>>,
    /// The time.
    pub clock: Arc<Clock>,
    /// Mints public ids.
    pub ids: IdMint,
    /// The tables, for a state that does not keep everything in memory.
    pub recall: Option<RecallWiring>,
    /// The meters of durations.
    pub meters: Arc<Meters>,
}

/// Starts the shard on a thread of its own; it ends when all senders of commands are gone.
/// Errors: the system starts no more threads.
pub fn spawn_shard(state: ShardState, wiring: ShardWiring) -> std::io::Result<JoinHandle<()>> {
    spawn("shard-0".to_owned(), Shard::new(state, wiring))
}

/// The replies of one shard batch.
#[derive(Default)]
pub struct ReplyBatch {
    replies: Vec<(Arc<dyn ReplyPort>, u64, Reply)>,
    /// The instant when they were handed over, and the meters of the time from there.
    handed_over: Option<(Stopwatch, Arc<Meters>)>,
}

impl ReplyBatch {
    fn with_capacity(len: usize) -> Self {
        Self { replies: Vec::with_capacity(len), handed_over: None }
    }

    /// Adds the reply to a command; none where it was not executed.
    fn add(&mut self, port: Arc<dyn ReplyPort>, tag: u64, reply: Option<Reply>) {
        self.replies.push((port, tag, reply.unwrap_or(Reply::OutcomeUnknown)));
    }
}

impl Release for ReplyBatch {
    fn release(self, outcome: CommitOutcome) {
        Self::release_all(std::iter::once(self), outcome);
    }

    /// Delivers each run of answers to the same port by one call and one wake-up.
    fn release_all(batches: impl Iterator<Item = Self>, outcome: CommitOutcome) {
        let mut run: Vec<(u64, Reply)> = Vec::new();
        let mut previous: Option<Arc<dyn ReplyPort>> = None;
        let (mut tally, mut meters) = (Tally::default(), None);
        let replies = batches.flat_map(|batch| {
            if let Some((since, noted_in)) = batch.handed_over {
                noted_in.journal.record_many(since.elapsed(), batch.replies.len() as u64);
                meters = Some(noted_in);
            }
            batch.replies
        });
        for (port, tag, reply) in replies {
            if let Some(previous) = previous.take_if(|previous| !Arc::ptr_eq(previous, &port)) {
                previous.deliver_all(&mut run);
                assert!(run.is_empty(), "a port takes all of its answers");
            }
            let reply = match outcome {
                CommitOutcome::Durable => reply,
                CommitOutcome::Failed => Reply::OutcomeUnknown,
            };
            tally.note(&reply);
            run.push((tag, reply));
            previous.get_or_insert(port);
        }
        if let Some(last) = previous {
            last.deliver_all(&mut run);
        }
        if let Some(meters) = meters {
            tally.add_to(&meters);
        }
    }
}

/// The shard, as steps. It ends when all who submit are gone and everybody is answered.
pub struct Shard {
    state: ShardState,
    wiring: ShardWiring,
    questions: Questions,
    /// The commands of the step at hand.
    batch: Vec<Envelope>,
    witness: Option<Box<dyn Witness>>,
    /// The last time given to a command; also commands that change nothing have their own.
    last_accepted: Timestamp,
    effects: Vec<Effect>,
    /// The records not yet handed over.
    records: BatchBuilder,
    /// Whether a change is among them, which its client reads back.
    is_awaited: bool,
    /// The instant when the batch at hand was taken.
    taken: Stopwatch,
}

/// A witness of the shard's executions, in order, before anybody is told: for proofs.
pub trait Witness: Send {
    /// The command under `tag` was executed with the time `at`, which led to this state.
    fn executed(&mut self, tag: u64, at: Timestamp, state: &ShardState);
}

/// The outcome of taking a command.
enum CommandOutcome {
    /// Executed; or not, where the tables cannot be read.
    Done(Option<Reply>),
    /// Put aside until the tables have answered.
    Aside,
}

impl Shard {
    /// Wires the shard of a recovered state.
    pub fn new(mut state: ShardState, mut wiring: ShardWiring) -> Self {
        state.go_live();
        if let Some(recall) = wiring.recall.as_ref().filter(|recall| !recall.ends_holds_late) {
            state.expect_few_late_holds(recall.late_holds.since());
        }
        let last_accepted = state.last_at();
        wiring.meters.newest_instant.store(last_accepted.0, Ordering::Relaxed);
        let questions = Questions::new(wiring.recall.take());
        Self {
            state,
            wiring,
            questions,
            batch: Vec::with_capacity(limits::SHARD_BATCH_LEN_MAX),
            witness: None,
            last_accepted,
            effects: Vec::new(),
            records: BatchBuilder::start(Vec::new()),
            is_awaited: false,
            taken: Stopwatch::start(),
        }
    }

    /// Shows each command that is executed to `witness`.
    pub fn set_witness(&mut self, witness: impl Witness + 'static) {
        self.witness = Some(Box::new(witness));
    }

    /// Gives the loader out, for a thread of its own.
    pub fn give_out_loader(&mut self) -> Option<Loader> {
        self.questions.give_out_loader()
    }

    /// Takes a step of the loader, where it was not given out.
    pub fn step_loader(&mut self) -> StepOutcome {
        self.questions.step_loader()
    }

    /// The hot state.
    pub const fn state(&self) -> &ShardState {
        &self.state
    }

    /// The instant at which the shard has something to do without a command; `MAX` where it has not.
    pub(super) fn wakes_at(&self) -> Timestamp {
        // A manual clock only moves by commands, so there is nothing due between them.
        if self.wiring.clock.is_manual() {
            return Timestamp::MAX;
        }
        let due = self.state.next_due().unwrap_or(Timestamp::MAX);
        due.min(self.questions.ask_by(&self.state))
    }

    /// The time until the shard has something to do without a command; none where it has not.
    pub fn time_until_due(&self) -> Option<Duration> {
        let due = self.wakes_at();
        let wait_micros = due.0.saturating_sub(self.wiring.clock.now().0).max(0);
        let wait = || Duration::from_micros(u64::try_from(wait_micros).unwrap_or(0));
        (due != Timestamp::MAX).then(wait)
    }

    /// Whether nothing is under way behind the shard.
    pub(super) fn is_at_rest(&self) -> bool {
        self.wiring.committer.is_at_rest()
    }

    /// The bell that wakes the shard's thread.
    pub(super) fn bell(&self) -> Arc<Doorbell> {
        Arc::clone(&self.wiring.inbox.bell)
    }

    /// (2) Carries out a batch, strictly in order but for what is put aside.
    fn take_batch(&mut self, now: Timestamp, batch: &mut Vec<Envelope>, replies: &mut ReplyBatch) {
        let mut taken = Vec::with_capacity(batch.len());
        for position in 0..batch.len() {
            look_ahead(
                &self.state,
                |position| batch.get(position).map(|envelope| &envelope.command.command),
                position,
            );
            let Envelope { command, tag, .. } = &batch[position];
            let one = self.take(now, command);
            if let CommandOutcome::Done(Some(_)) = one {
                self.show(*tag);
            }
            taken.push(one);
        }
        for (envelope, taken) in batch.drain(..).zip(taken) {
            match taken {
                CommandOutcome::Done(reply) => replies.add(envelope.port, envelope.tag, reply),
                CommandOutcome::Aside => self.questions.put_aside(envelope),
            }
        }
    }

    /// Carries out the commands that the tables have answered for.
    fn take_answered(&mut self, now: Timestamp, replies: &mut ReplyBatch) {
        while let Some(supplied_at) = self.questions.first_answered().map(|first| first.supplied_at)
        {
            let at = self.stamp(now, supplied_at);
            // These timers may read rows of their own. Until the answer is taken, what it lacks stays in memory.
            self.run_due_timers(at);
            let Some((envelope, answer)) = self.questions.take_answered() else { return };
            let Envelope { command, tag, port } = envelope;
            let reply = self.execute_with(at, &command, answer);
            if reply.is_some() {
                self.show(tag);
            }
            replies.add(port, tag, reply);
        }
    }

    fn show(&mut self, tag: u64) {
        if let Some(witness) = &mut self.witness {
            witness.executed(tag, self.last_accepted, &self.state);
        }
    }

    /// (3) Hands what was recorded to the committer, with the replies that wait for it or for what
    /// went before. Returns whether the committer is still there.
    fn hand_over(&mut self, mut replies: ReplyBatch) -> bool {
        let meters = Arc::clone(&self.wiring.meters);
        let handed_over = Stopwatch::start();
        meters.decide.record_many(self.taken.until(handed_over), replies.replies.len() as u64);
        replies.handed_over = Some((handed_over, meters));
        let spent = self.wiring.spent_buffers.try_recv().unwrap_or_default();
        let request = CommitRequest {
            last_seq: self.state.last_seq().0,
            records: std::mem::replace(&mut self.records, BatchBuilder::start(spent)),
            releases: vec![replies],
            is_awaited: std::mem::take(&mut self.is_awaited),
        };
        // Further commands that wait already are executed while this one is written.
        let committer = &mut self.wiring.committer;
        if self.wiring.queued.load(Ordering::Acquire) == 0 {
            committer.commit_or_pass_on(request)
        } else {
            committer.pass_on(request)
        }
    }

    /// (1) Takes the commands that are there. `Worked` where there is something to do.
    fn gather(&mut self, batch: &mut Vec<Envelope>) -> StepOutcome {
        let has_answers = self.questions.take_answers();
        self.taken = Stopwatch::start();
        if self.questions.are_too_many() {
            return StepOutcome::of(has_answers);
        }
        while batch.len() < limits::SHARD_BATCH_LEN_MAX {
            match self.wiring.inbox.try_take() {
                Ok(submission) => self.add(submission, batch),
                Err(TryRecvError::Empty) => break,
                // Commands put aside are still answered.
                Err(TryRecvError::Disconnected)
                    if batch.is_empty() && !self.questions.is_any_aside() =>
                {
                    return StepOutcome::Ended;
                }
                Err(TryRecvError::Disconnected) => break,
            }
        }
        self.wiring.queued.fetch_sub(batch.len(), Ordering::AcqRel);
        let is_due = || self.time_until_due().is_some_and(|wait| wait.is_zero());
        StepOutcome::of(!batch.is_empty() || has_answers || is_due())
    }

    /// Adds what was handed over together to the batch.
    fn add(&self, submission: Submission, batch: &mut Vec<Envelope>) {
        let Submission { envelopes, since } = submission;
        let waited = since.until(self.taken);
        self.wiring.meters.queue.record_many(waited, envelopes.len() as u64);
        batch.extend(envelopes);
    }

    /// (2) Carries out one command at a time of its own.
    fn take(&mut self, now: Timestamp, command: &TimedCommand) -> CommandOutcome {
        let at = self.stamp(now, command.supplied_at);
        self.run_due_timers(at);
        let Some(wanted) = self.state.wanting(&self.wiring.ids, &command.command) else {
            return CommandOutcome::Done(Some(self.execute(at, command)));
        };
        if !self.wiring.clock.is_manual() {
            self.questions.ask_for_command(wanted);
            return CommandOutcome::Aside;
        }
        let answer = self.questions.ask_and_wait(LoaderQuestion::Command(wanted));
        CommandOutcome::Done(self.execute_with(at, command, answer.map(LoaderAnswer::into_loaded)))
    }

    /// Executes a command for which the tables were asked. If they cannot be read, nothing is done, and
    /// there is no reply.
    fn execute_with(
        &mut self,
        at: Timestamp,
        command: &TimedCommand,
        answer: Result<LoadedRows, RecallError>,
    ) -> Option<Reply> {
        self.state.admit(answer.ok()?);
        let reply = self.execute(at, command);
        self.state.dismiss();
        Some(reply)
    }

    fn execute(&mut self, at: Timestamp, command: &TimedCommand) -> Reply {
        let moment = Moment { at, ids: &self.wiring.ids };
        self.is_awaited |= command.command.is_change();
        let reply = execute(&self.state, &moment, &command.command, &mut self.effects);
        self.record(at);
        reply
    }

    /// Gives a command its time: strictly after every command before it, whatever the clock does.
    fn stamp(&mut self, now: Timestamp, supplied_at: Option<Timestamp>) -> Timestamp {
        let clock = &self.wiring.clock;
        // An absurd time would leave a manual clock, which never goes back, where no calendar is.
        let is_honoured = |at: &Timestamp| clock.is_manual() && *at <= Timestamp::CALENDAR_MAX;
        let claimed = match supplied_at.filter(is_honoured) {
            Some(supplied_at) => clock.advance_to(supplied_at),
            None => now,
        };
        // A timer that ran since may stand later than the last command, and the clock may have gone
        // back behind it.
        let at = claimed.max(self.last_accepted.max(self.state.last_at()).plus(1));
        self.last_accepted = at;
        at
    }

    fn run_due_timers(&mut self, at: Timestamp) {
        loop {
            let reach = at.min(self.state.timers_known_until());
            self.run_known_timers(reach, at);
            if reach == at {
                return self.questions.note_timers_run(&self.state);
            }
            if !self.questions.learn_timers(&mut self.state, at) {
                return self.run_known_timers(at, at);
            }
        }
    }

    /// Runs the timers in memory that are due by `reach`, on the way to the instant `at`.
    fn run_known_timers(&mut self, reach: Timestamp, at: Timestamp) {
        while let Some((timer, due)) = self.state.due_timer(reach) {
            if self.questions.load_for_timer(&mut self.state, timer, at) {
                let moment = Moment { at: due, ids: &self.wiring.ids };
                self.state.execute_timer(&moment, timer, &mut self.effects);
                self.record(due);
            }
            let next = self.state.due_timer(reach);
            assert!(next.is_none_or(|next| next.0 != timer), "what has run is not due again");
        }
    }

    /// Encodes and applies what was changed, if anything was.
    fn record(&mut self, at: Timestamp) {
        if self.effects.is_empty() {
            return;
        }
        let seq = self.state.last_seq().next();
        // INVARIANT: edges bound every text, so that the effects of one command fit a record.
        #[expect(clippy::expect_used, reason = "a record beyond its bound must stop the shard")]
        self.records
            .encode(|buffer| append_record(buffer, seq, at, &self.effects))
            .expect("the effects of one command fit a record");
        self.state.apply_record(seq, at, &self.effects);
        self.effects.clear();
        if self.records.len() >= limits::HAND_OVER_BYTES {
            // A committer that is gone shows when the replies are handed over.
            self.hand_over(ReplyBatch::default());
        }
    }
}

impl Steps for Shard {
    fn step(&mut self) -> StepOutcome {
        let mut batch = std::mem::take(&mut self.batch);
        let found = self.gather(&mut batch);
        if found != StepOutcome::Worked {
            self.batch = batch;
            return found;
        }
        let mut replies = ReplyBatch::with_capacity(batch.len());
        let now = self.wiring.clock.now();
        self.take_answered(now, &mut replies);
        self.take_batch(now, &mut batch, &mut replies);
        self.batch = batch;
        let reached = now.max(self.last_accepted);
        self.run_due_timers(reached);
        self.questions.keep_timers_ahead(&mut self.state, reached);
        self.state.evict(self.questions.evictable_until());
        let newest = self.last_accepted.max(self.state.last_at());
        self.wiring.meters.newest_instant.store(newest.0, Ordering::Relaxed);
        if self.hand_over(replies) { StepOutcome::Worked } else { StepOutcome::Ended }
    }

    fn wait(&mut self) {
        self.wiring.inbox.wait(self.time_until_due());
    }
}

crate::opaque!(Shard);

#[cfg(test)]
#[path = "run_tests/mod.rs"]
mod tests;
