//! The loop of the shard: the only thread that touches the hot state.
//!
//! For each batch: (1) take what is queued, (2) per command, strictly in order, stamp its time, run
//! what is due before it, execute, apply, encode; (3) hand records and replies to the committer and
//! go on. Memory is ahead of the disk only between (2) and the commit, and nobody is told.
//! Many records, as when a flood of timers is due, are handed over piece by piece before that.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};

use super::execute::{Moment, execute};
use super::state::ShardState;
use crate::clock::Clock;
use crate::command::TimedCommand;
use crate::command::effect::Effect;
use crate::command::record::append_record;
use crate::command::reply::Reply;
use crate::domain::ids::Timestamp;
use crate::domain::public_id::IdMint;
use crate::journal::limits::BATCH_BYTES_MAX;
use crate::journal::{CommitOutcome, CommitRequest, Release};
use crate::limits;
use crate::submission::{Envelope, ReplyPort};

const _: () = assert!(limits::HAND_OVER_BYTES + limits::RECORD_BYTES_MAX < BATCH_BYTES_MAX / 2);

/// What the shard is connected to.
#[derive(Debug)]
pub struct ShardWiring {
    /// Where commands come in; the shard ends when all senders are gone.
    pub inbox: Receiver<Vec<Envelope>>,
    /// How many commands wait in it.
    pub queued: Arc<AtomicUsize>,
    /// Where records and replies go.
    pub committer: Sender<CommitRequest<ReplyBatch>>,
    /// Payload buffers that the committer is done with.
    pub spent_payloads: Receiver<Vec<u8>>,
    /// The time.
    pub clock: Arc<Clock>,
    /// Mints public ids.
    pub ids: IdMint,
}

/// Starts the shard on a thread of its own; it returns its state when it ends.
/// Errors: the system starts no more threads.
pub fn spawn_shard(
    state: ShardState,
    wiring: ShardWiring,
) -> std::io::Result<JoinHandle<ShardState>> {
    let shard = Shard::new(state, wiring);
    std::thread::Builder::new().name("shard-0".to_owned()).spawn(move || shard.run())
}

/// The replies of one shard batch.
#[derive(Default)]
pub struct ReplyBatch(Vec<(Arc<dyn ReplyPort>, u64, Reply)>);

impl Release for ReplyBatch {
    fn release(self, outcome: CommitOutcome) {
        Self::release_all(std::iter::once(self), outcome);
    }

    /// One call and one wake-up for each run of answers to the same port.
    fn release_all(batches: impl Iterator<Item = Self>, outcome: CommitOutcome) {
        let mut run: Vec<(u64, Reply)> = Vec::new();
        let mut previous: Option<Arc<dyn ReplyPort>> = None;
        for (port, tag, reply) in batches.flat_map(|batch| batch.0) {
            if let Some(previous) = previous.take_if(|previous| !Arc::ptr_eq(previous, &port)) {
                previous.deliver_all(&mut run);
                assert!(run.is_empty(), "a port takes all of its answers");
            }
            run.push(match outcome {
                CommitOutcome::Durable => (tag, reply),
                CommitOutcome::Failed => (tag, Reply::OutcomeUnknown),
            });
            previous.get_or_insert(port);
        }
        if let Some(last) = previous {
            last.deliver_all(&mut run);
        }
    }
}

struct Shard {
    state: ShardState,
    wiring: ShardWiring,
    /// The last time given to a command; also commands that change nothing have their own.
    last_accepted: Timestamp,
    effects: Vec<Effect>,
    /// The records not yet handed over.
    payload: Vec<u8>,
    record_count: u32,
}

impl Shard {
    fn new(state: ShardState, wiring: ShardWiring) -> Self {
        let last_accepted = state.last_at();
        let (effects, payload) = (Vec::new(), Vec::new());
        Self { state, wiring, last_accepted, effects, payload, record_count: 0 }
    }

    fn run(mut self) -> ShardState {
        let mut batch = Vec::with_capacity(limits::SHARD_BATCH_LEN_MAX);
        while self.gather(&mut batch) {
            let mut replies = ReplyBatch(Vec::with_capacity(batch.len()));
            let now = self.wiring.clock.now();
            for Envelope { command, tag, port } in batch.drain(..) {
                let reply = self.take(now, &command);
                replies.0.push((port, tag, reply));
            }
            self.run_due_timers(now.max(self.last_accepted));
            if !self.hand_over(replies) {
                break;
            }
        }
        self.state
    }

    /// (3) Hands what was recorded to the committer, with the replies that wait for it or for what
    /// went before. Returns whether the committer is still there.
    fn hand_over(&mut self, replies: ReplyBatch) -> bool {
        let record_count = std::mem::take(&mut self.record_count);
        let last_seq = self.state.last_seq().0;
        let request = CommitRequest {
            first_seq: last_seq + 1 - u64::from(record_count),
            last_seq,
            record_count,
            payload: std::mem::take(&mut self.payload),
            releases: vec![replies],
        };
        let is_taken = self.wiring.committer.send(request).is_ok();
        self.payload = self.wiring.spent_payloads.try_recv().unwrap_or_default();
        self.payload.clear();
        is_taken
    }

    /// (1) Waits for commands or for the next timer, then takes what is there.
    /// Returns whether the shard goes on.
    fn gather(&mut self, batch: &mut Vec<Envelope>) -> bool {
        match self.wait_for_first() {
            Ok(envelopes) => batch.extend(envelopes),
            Err(RecvTimeoutError::Timeout) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
        }
        while batch.len() < limits::SHARD_BATCH_LEN_MAX
            && let Ok(envelopes) = self.wiring.inbox.try_recv()
        {
            batch.extend(envelopes);
        }
        self.wiring.queued.fetch_sub(batch.len(), Ordering::AcqRel);
        true
    }

    fn wait_for_first(&self) -> Result<Vec<Envelope>, RecvTimeoutError> {
        // A manual clock only moves by commands, so there is nothing to wait for beside them.
        match self.state.next_due().filter(|_| !self.wiring.clock.is_manual()) {
            None => self.wiring.inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(due) => {
                let wait_micros = due.0.saturating_sub(self.wiring.clock.now().0).max(0);
                let wait = Duration::from_micros(u64::try_from(wait_micros).unwrap_or(0));
                self.wiring.inbox.recv_timeout(wait)
            }
        }
    }

    /// (2) Carries out one command at a time of its own.
    fn take(&mut self, now: Timestamp, command: &TimedCommand) -> Reply {
        let at = self.stamp(now, command.supplied_at);
        self.run_due_timers(at);
        let ids = self.wiring.ids.clone();
        let moment = Moment { at, ids: &ids };
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
        while let Some((timer, due)) = self.state.due_timer(at) {
            let ids = self.wiring.ids.clone();
            let moment = Moment { at: due, ids: &ids };
            self.state.execute_timer(&moment, timer, &mut self.effects);
            self.record(due);
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
        append_record(&mut self.payload, seq, at, &self.effects)
            .expect("the effects of one command fit a record");
        self.state.apply_record(seq, at, &self.effects);
        self.record_count += 1;
        self.effects.clear();
        if self.payload.len() >= limits::HAND_OVER_BYTES {
            // A committer that is gone shows when the replies are handed over.
            self.hand_over(ReplyBatch::default());
        }
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
