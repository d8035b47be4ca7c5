//! An engine that follows the chain of another node and can lead it from one moment to the next.
//!
//! It reads the window, proves each link, appends to its own log, folds the records into the hot
//! state and leaves the tables to the projector, as the leader does. To take over it continues the
//! tip of the window with the barrier of a new epoch: the former leader finds the tip changed and
//! sends no more answers.
//!
//! INVARIANT: the log is a prefix of the chain in the window, and the hot state is that of the log.

use std::sync::Arc;

use super::wiring::{DecidingParts, FollowingParts, RecoveredEngine};
use super::{
    Engine, EngineOptions, EngineStorage, OpenError, PARTITION, Retention, journal_identity,
    open_store,
};
use crate::data_directory::DataDirectory;
use crate::disk::{Disk, RealDisk};
use crate::domain::ids::RecordSeq;
use crate::journal::chain::{ChainLink, seal_barrier};
use crate::journal::log::Expectation;
use crate::journal::window::{ChainWindow, WindowError, WindowTip, append_certainly};
use crate::journal::{
    BatchNumber, ChainCursor, ChainFault, ChainFaultKind, ChainPosition, Journal, JournalError,
    LogJournal, SealedBatch, StoredBatch,
};
use crate::limits;
use crate::recovery::decode_batch;
use crate::recovery_progress::RecoveryProgress;
use crate::shard::ReplayedRecord;
use crate::store::Store;

/// An engine that follows.
pub struct Standby {
    recovered: RecoveredEngine,
    cursor: ChainCursor,
    records: Vec<ReplayedRecord>,
    spare_buffers: Vec<Vec<u8>>,
}

/// Makes the journal of a node that leaves its cluster one of its own: the barrier of a new epoch voids a
/// torn end, which other nodes may have. Returns its newest record.
/// Errors: as for an engine.
pub fn leave_chain(directory: &DataDirectory) -> Result<RecordSeq, OpenError> {
    let checkpoint = open_store(directory)?.checkpoint()?.position();
    let identity = journal_identity(directory);
    let expected = Expectation { identity, checkpoint: Some(checkpoint) };
    let disk = RealDisk::open(&directory.journal_path())
        .map_err(JournalError::io("cannot open the journal"))?;
    let retention = Retention::default().of_log();
    let journal = LogJournal::open_to_leave(Arc::new(disk), &expected, retention)?;
    Ok(RecordSeq(journal.tip().last_seq))
}

/// The outcome of an attempt to lead.
#[derive(Debug)]
pub enum TakeOver<L> {
    /// This node leads.
    Leads(L),
    /// Another node was quicker.
    Follows(Box<Standby>),
}

impl Standby {
    /// Opens the engine of a data directory to follow, with threads for the tables and the log.
    /// Errors: as for an engine; the directory has no journal.
    pub fn open(options: EngineOptions, progress: &RecoveryProgress) -> Result<Self, OpenError> {
        let store = open_store(&options.directory)?;
        let path = options.directory.journal_path();
        let disk = RealDisk::open(&path).map_err(JournalError::io("cannot open the journal"))?;
        let (standby, parts) = Self::assemble(options, store, Arc::new(disk), progress)?;
        standby.recovered.engine.start_following(parts)?;
        Ok(standby)
    }

    /// As `open`, on other storage and without threads: the caller drives the parts.
    /// Errors: as `open`.
    pub fn open_parts(
        options: EngineOptions,
        storage: EngineStorage,
    ) -> Result<(Self, FollowingParts), OpenError> {
        let EngineStorage { store, cache_bytes, journal } = storage;
        let store = Store::open_with_cache(store, options.directory.id(), cache_bytes)?;
        Self::assemble(options, store, journal, &RecoveryProgress::default())
    }

    fn assemble(
        options: EngineOptions,
        store: Store,
        disk: Arc<dyn Disk>,
        progress: &RecoveryProgress,
    ) -> Result<(Self, FollowingParts), OpenError> {
        let retention = options.retention.of_log();
        let (recovered, parts) = RecoveredEngine::open(
            options,
            store,
            |expected| LogJournal::open_to_follow(disk, expected, retention),
            progress,
        )?;
        let tip = recovered.log.tip();
        if tip == ChainPosition::GENESIS {
            let what = "it is empty, so it follows no chain".to_owned();
            return Err(JournalError::NotAJournal { what }.into());
        }
        let cursor = ChainCursor::after(PARTITION, tip);
        let standby = Self { recovered, cursor, records: Vec::new(), spare_buffers: Vec::new() };
        Ok((standby, parts))
    }

    /// The engine, for reading.
    pub const fn engine(&self) -> &Engine {
        &self.recovered.engine
    }

    /// The newest batch that this node has.
    pub fn tip(&self) -> ChainPosition {
        self.recovered.log.tip()
    }

    /// Takes in the batches of the window that this node lacks, up to a tip that the window had a moment ago: a
    /// window under load is always ahead of its reader.
    /// Errors: `Window` where the window lacks the next batch, is closed, or has parted from this node's
    /// chain; `Corrupt`; the node's own files; `Tables` where the tables stand still: who has none must not
    /// lead. The node is to be opened again then, but not after `Unavailable`.
    pub fn catch_up_to(
        &mut self,
        tip: &WindowTip,
        window: &mut dyn ChainWindow,
    ) -> Result<(), OpenError> {
        if let Some(why) = self.engine().projection_failure() {
            return Err(OpenError::Tables(why));
        }
        while !self.has_reached(&tip.position)? {
            let next = BatchNumber(self.tip().number.0 + 1);
            let read = window.read_from(next, limits::PROJECTION_BYTES_MAX);
            let mut read = read.map_err(JournalError::Window)?;
            read.retain(|batch| batch.number <= tip.position.number);
            if read.is_empty() {
                // A cluster that was made of another node's journal begins behind its end.
                let first = BatchNumber(tip.position.number.0 + 1);
                return Err(
                    JournalError::Window(WindowError::Trimmed { wanted: next, first }).into()
                );
            }
            self.take_in(read)?;
        }
        Ok(())
    }

    /// Errors: the chain of the window does not continue this node's.
    fn has_reached(&self, tip: &ChainPosition) -> Result<bool, JournalError> {
        let own = self.tip();
        if own.number < tip.number {
            return Ok(false);
        }
        if own == *tip {
            return Ok(true);
        }
        Err(JournalError::Window(WindowError::Parted(format!(
            "this node's journal ends with batch {} of epoch {}, and the window with batch {} of epoch {}",
            own.number.0, own.epoch.0, tip.number.0, tip.epoch.0
        ))))
    }

    /// Takes batches in, with one sync.
    fn take_in(&mut self, stored: Vec<StoredBatch>) -> Result<(), OpenError> {
        let mut batches: Vec<SealedBatch> = Vec::with_capacity(stored.len());
        for StoredBatch { number, bytes } in stored {
            let (header, hash) = match self.cursor.accept(&bytes) {
                Ok(ChainLink::Batch(view) | ChainLink::Barrier(view)) => (view.header, view.hash),
                Ok(ChainLink::Void(_)) => return Err(parted(number).into()),
                Err(fault) if is_of_another_chain(&fault) => {
                    return Err(parted(number).into());
                }
                Err(fault) => return Err(JournalError::corrupt(number.0, &fault).into()),
            };
            batches.push(SealedBatch { header, hash, bytes });
        }
        let RecoveredEngine { engine, state, log, .. } = &mut self.recovered;
        log.append(&batches)?;
        for batch in &batches {
            decode_batch(batch.header.number, batch.payload(), &mut self.records)?;
            state.replay(&mut self.records);
        }
        engine.durable.publish(log.tip().last_seq);
        engine.feed.offer(&mut batches, &mut self.spare_buffers);
        state.evict(engine.watermark.applied());
        let trim_before = engine.trim.requested();
        while log.needs_upkeep(trim_before) {
            log.keep_up(trim_before)?;
        }
        Ok(())
    }

    /// Continues `tip`, which `catch_up_to` has reached, with the barrier of a new epoch, and leads with
    /// threads from there on. Another node may have been quicker.
    /// Errors: as for `catch_up_to`.
    pub fn take_over(
        self,
        window: Box<dyn ChainWindow>,
        tip: &WindowTip,
    ) -> Result<TakeOver<Engine>, OpenError> {
        Ok(match self.take_over_parts(window, tip)? {
            TakeOver::Leads((engine, parts)) => {
                engine.start_deciding(parts)?;
                TakeOver::Leads(engine)
            }
            TakeOver::Follows(standby) => TakeOver::Follows(standby),
        })
    }

    /// As `take_over`, without threads.
    /// Errors: as `take_over`.
    pub fn take_over_parts(
        mut self,
        mut window: Box<dyn ChainWindow>,
        tip: &WindowTip,
    ) -> Result<TakeOver<(Engine, DecidingParts)>, OpenError> {
        assert_eq!(self.tip(), tip.position, "who takes over has caught up");
        let barrier = seal_barrier(PARTITION, &tip.position);
        let led = match append_certainly(&mut *window, tip, std::slice::from_ref(&barrier)) {
            Ok(led) => led,
            Err(JournalError::Fenced { .. }) => return Ok(TakeOver::Follows(Box::new(self))),
            Err(error) => return Err(error.into()),
        };
        let number = barrier.header.number;
        self.take_in(vec![StoredBatch { number, bytes: barrier.bytes }])?;
        Ok(TakeOver::Leads(self.recovered.lead_in(window, led)))
    }
}

const fn is_of_another_chain(fault: &ChainFault) -> bool {
    matches!(
        fault.what,
        ChainFaultKind::BrokenLink
            | ChainFaultKind::EpochWithoutBarrier
            | ChainFaultKind::BarrierWithoutEpoch
    )
}

fn parted(number: BatchNumber) -> JournalError {
    JournalError::Window(WindowError::Parted(format!(
        "batch {} of the window does not continue this node's journal",
        number.0
    )))
}

crate::opaque!(Standby);
