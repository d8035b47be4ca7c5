//! Wires every thread of the engine, on one page.
//!
//! ```text
//! edges --(1) submit--> shard --(2) records, replies--> committer --(3) replies--> edges
//!                                                          |(4) durable position
//!                                                          v
//!                           journal, memory --(5) batches--> projector --(6) watermark--> readers
//!                                       ^-------(7) trim---------|
//! ```
//! If a window holds the durable batches, (5) goes through the trail, which writes the node's own
//! log.
//!
//! Recovery is the same fold: the tables' rows, then the journal after their checkpoint.

use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::bounded;
use parking_lot::{Mutex, RwLock};

use super::{Engine, EngineOptions, OpenError, PARTITION, journal_identity};
use crate::domain::public_id::IdMint;
use crate::inbox::{Doorbell, Inbox, InboxSender, inbox};
use crate::journal::limits::CommitLimits;
use crate::journal::log::Expectation;
use crate::journal::window::{ChainWindow, WindowTip};
use crate::journal::{
    BatchFeed, BatchNumber, CommitDesk, CommitRequest, CommitterSteps, CommitterWiring,
    DurablePosition, Journal, JournalError, JournalReader, LogJournal, ReplicatedJournal, Trail,
    TrailSteps, TrailWiring, TrimControl,
};
use crate::limits;
use crate::loader::{Loader, RecallSource};
use crate::recovery::recover;
use crate::recovery_progress::RecoveryProgress;
use crate::shard::ShardState;
use crate::shard::desk::{ShardDesk, ShardDriver, ShardSeat};
use crate::shard::run::{RecallWiring, ReplyBatch, Shard, ShardWiring};
use crate::steps::{Steps, spawn};
use crate::store::{
    Checkpoint, Projector, ProjectorOptions, ProjectorSteps, Store, Watermark, spawn_projector,
};

/// The parts of an engine, before anything drives them.
#[derive(Debug)]
pub struct EngineParts {
    /// The parts that decide and write.
    pub deciding: DecidingParts,
    /// The parts that follow the writes.
    pub following: FollowingParts,
}

/// The parts that decide and write.
pub struct DecidingParts {
    /// Decides. It has its loader with it.
    pub shard: Shard,
    /// Makes durable and answers.
    pub committer: CommitterSteps<ReplyBatch>,
    /// Writes the log behind the committer, where that commits to a window.
    pub trail: Option<TrailSteps>,
}

/// The parts that follow the writes, whether this node or another decided them.
pub struct FollowingParts {
    /// Makes the segments of the journal.
    pub segments: Box<dyn Steps + Send>,
    /// Keeps the tables in step.
    pub projector: ProjectorSteps,
}

impl DecidingParts {
    /// Gives each part a thread. Returns the seat of the shard, too.
    fn spawn(self) -> std::io::Result<(DecidingThreads, Arc<ShardSeat>)> {
        let Self { mut shard, committer, trail } = self;
        let loader = shard.give_out_loader();
        let (shard, seat) = ShardDriver::new(shard);
        let threads = DecidingThreads {
            trail: trail.map(|trail| spawn(format!("trail-{PARTITION}"), trail)).transpose()?,
            committer: spawn(format!("journal-{PARTITION}"), committer)?,
            loader: loader
                .map(|loader| spawn(format!("loader-{PARTITION}"), loader))
                .transpose()?,
            shard: spawn(format!("shard-{PARTITION}"), shard)?,
        };
        Ok((threads, seat))
    }
}

impl FollowingParts {
    /// Gives each part a thread.
    fn spawn(self) -> std::io::Result<Threads> {
        let Self { segments, projector } = self;
        Ok(Threads {
            projector: spawn_projector(projector)?,
            segments: spawn(format!("segments-{PARTITION}"), segments)?,
            deciding: None,
        })
    }
}

crate::opaque!(DecidingParts, FollowingParts);

#[derive(Debug)]
pub(super) struct Threads {
    /// None in an engine that follows.
    pub(super) deciding: Option<DecidingThreads>,
    pub(super) segments: JoinHandle<()>,
    pub(super) projector: Projector,
}

#[derive(Debug)]
pub(super) struct DecidingThreads {
    pub(super) shard: JoinHandle<()>,
    pub(super) loader: Option<JoinHandle<()>>,
    pub(super) committer: JoinHandle<()>,
    pub(super) trail: Option<JoinHandle<()>>,
}

/// An engine whose state is that of its journal, and that does not decide yet. It can be read.
pub(super) struct RecoveredEngine {
    pub(super) state: ShardState,
    /// Before the engine, which waits for the threads that end with it when it is dropped.
    pub(super) log: LogJournal,
    pub(super) engine: Engine,
    to_committer: InboxSender<CommitRequest<ReplyBatch>>,
    from_shard: Inbox<CommitRequest<ReplyBatch>>,
    commit_limits: CommitLimits,
}

impl RecoveredEngine {
    pub(super) fn open(
        options: EngineOptions,
        store: Store,
        open_journal: impl FnOnce(&Expectation) -> Result<LogJournal, JournalError>,
        progress: &RecoveryProgress,
    ) -> Result<(Self, FollowingParts), OpenError> {
        let EngineOptions { directory, id_key, clock, pacing, caches, commits, .. } = options;
        let store = Arc::new(store);
        let checkpoint = store.checkpoint()?;
        let position = checkpoint.position();
        let expected =
            Expectation { identity: journal_identity(&directory), checkpoint: Some(position) };
        let (log, state) = recover(&store, caches, position, || open_journal(&expected), progress)?;

        let (from_file, journal_notes) = (log.reader(), log.notes.to_vec());
        let reader: Arc<dyn JournalReader> = Arc::new(from_file.clone());
        let feed = Arc::new(BatchFeed::after(log.tip().number, state.last_seq().0));
        let bell = Arc::clone(&feed);
        let watermark = Watermark::ringing(checkpoint.applied_seq, move || bell.ring());
        let watermark = Arc::new(watermark);
        // (2) shard -> committer.
        let (to_committer, from_shard) = inbox(limits::COMMIT_QUEUE_LEN_MAX);
        let trim = Arc::new(TrimControl::ringing(&from_shard.bell));
        // (5), (6), (7) the projector follows the journal.
        let on_checkpoint = trim_after_checkpoint(Arc::clone(&trim));
        let following = ProjectorOptions { partition: PARTITION, pacing, on_checkpoint };
        let (tables, marks) = (Arc::clone(&store), Arc::clone(&watermark));
        let projector = ProjectorSteps::new(tables, reader, Arc::clone(&feed), marks, following)?;
        let engine = Engine {
            desk: RwLock::new(None),
            queued: Arc::default(),
            threads: Mutex::new(None),
            health: Arc::default(),
            durable: Arc::new(DurablePosition::new(state.last_seq().0)),
            watermark,
            projection: Arc::clone(&projector.health),
            feed,
            meters: Arc::default(),
            journal_notes,
            journal: Mutex::new(Some(from_file)),
            trim,
            trail: None,
            store,
            clock: Arc::new(clock),
            ids: IdMint::new(id_key, 0).in_cell(directory.cell()),
            directory: Arc::new(directory),
            is_replicated: false,
            decides_after: state.last_at(),
        };
        let parts = FollowingParts { segments: log.segment_steps(), projector };
        Ok((Self { engine, state, log, to_committer, from_shard, commit_limits: commits }, parts))
    }

    /// Wires the deciding parts, which commit to the log.
    pub(super) fn lead(self) -> (Engine, DecidingParts) {
        self.lead_on(|log, _, _| (log, None))
    }

    /// Wires the deciding parts, which commit to a window. Its tip is of this node and in its log.
    pub(super) fn lead_in(
        self,
        window: Box<dyn ChainWindow>,
        tip: WindowTip,
    ) -> (Engine, DecidingParts) {
        assert_eq!(self.log.tip(), tip.position, "the log has the barrier");
        self.lead_on(|log, engine, committer| {
            engine.is_replicated = true;
            let trail = Arc::new(Trail::behind(committer));
            engine.trail = Some(Arc::clone(&trail));
            let wiring = TrailWiring {
                health: Arc::clone(&engine.health),
                trim: Arc::clone(&engine.trim),
                feed: Arc::clone(&engine.feed),
            };
            let steps = TrailSteps::new(Arc::clone(&trail), log, wiring);
            (ReplicatedJournal::new(window, tip, trail), Some(steps))
        })
    }

    /// `journal` makes of the log the journal to commit to, and the trail behind it, with the
    /// committer's bell.
    fn lead_on<J: Journal + 'static>(
        self,
        journal: impl FnOnce(LogJournal, &mut Engine, &Arc<Doorbell>) -> (J, Option<TrailSteps>),
    ) -> (Engine, DecidingParts) {
        let Self { mut engine, state, log, to_committer, from_shard, commit_limits } = self;
        engine.decides_after = state.last_at();
        engine.clock.advance_to(engine.decides_after);
        // (1) edges -> shard. Commands are counted, so the channel itself is never the bound.
        let (to_shard, from_edges) = inbox(limits::QUEUED_COMMANDS_MAX);
        // The buffers of (2) back.
        let (spent, spent_buffers) = bounded(limits::COMMIT_QUEUE_LEN_MAX);
        // (3), (4) the committer makes durable, publishes, releases.
        let (journal, trail) = journal(log, &mut engine, &from_shard.bell);
        let wiring = CommitterWiring {
            inbox: from_shard,
            position: Arc::clone(&engine.durable),
            health: Arc::clone(&engine.health),
            trim: Arc::clone(&engine.trim),
            feed: Arc::clone(&engine.feed),
            spent_buffers: Some(spent),
            limits: commit_limits,
            meters: Arc::clone(&engine.meters),
        };
        let (committer, in_place) = CommitterSteps::new(journal, PARTITION, wiring);
        // The loader reads for the shard what the shard does not keep in memory.
        let tables = Arc::clone(&engine.store) as Arc<dyn RecallSource>;
        let loader = Loader::new(tables, &from_edges.bell);
        let wiring = ShardWiring {
            inbox: from_edges,
            queued: Arc::clone(&engine.queued),
            committer: CommitDesk::new(to_committer, in_place),
            spent_buffers,
            clock: Arc::clone(&engine.clock),
            ids: engine.ids.clone(),
            recall: Some(RecallWiring {
                loader,
                watermark: Arc::clone(&engine.watermark),
                late_holds: Arc::clone(&engine.store.late_holds),
                ends_holds_late: !engine.is_replicated,
            }),
            meters: Arc::clone(&engine.meters),
        };
        if !engine.is_replicated {
            // Before the projector forgets anything.
            state.expect_holds_in(&engine.store.late_holds);
        }
        let shard = Shard::new(state, wiring);
        *engine.desk.get_mut() = Some(ShardDesk::passing_on(to_shard));
        (engine, DecidingParts { shard, committer, trail })
    }
}

impl Engine {
    /// Errors: the system starts no more threads.
    pub(super) fn start_following(&self, parts: FollowingParts) -> Result<(), OpenError> {
        let threads = parts.spawn().map_err(OpenError::Thread)?;
        *self.threads.lock() = Some(threads);
        Ok(())
    }

    /// Errors: the system starts no more threads.
    pub(super) fn start_deciding(&self, parts: DecidingParts) -> Result<(), OpenError> {
        let commits_to_log = parts.trail.is_none();
        let (started, seat) = parts.spawn().map_err(OpenError::Thread)?;
        // A window answers by the network, which no caller waits for on its own thread.
        if commits_to_log && let Some(desk) = self.desk.write().as_mut() {
            desk.share(seat);
        }
        if let Some(threads) = self.threads.lock().as_mut() {
            threads.deciding = Some(started);
        }
        Ok(())
    }
}

/// (7) What recovery does not need any more may go, as far as the retention does not keep it.
fn trim_after_checkpoint(trim: Arc<TrimControl>) -> Box<dyn FnMut(Checkpoint) + Send> {
    Box::new(move |checkpoint| trim.trim_before(BatchNumber(checkpoint.batch)))
}
