//! The maker of segments: files that nothing is appended to yet, made and zeroed beside the committer,
//! and files of the past, removed beside it.
//!
//! Zeroing a segment takes a disk as long as filling it, and removing one takes as long as many
//! commits. Done between two groups it would hold them up; done to another file it does not.
//!
//! INVARIANT: the maker writes only to a file that the journal has not taken yet, and removes only segments
//! before the oldest one that the head names.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::super::JournalError;
use super::super::limits::ZERO_STEP_BYTES;
use super::head::JournalHead;
use super::segment::{BLOCK_BYTES, BLOCK_LEN, LogSegment, segment_name};
use super::{NO_ROOM, WRITING, ZEROES};
use crate::disk::{Disk, DiskFile};
use crate::steps::{StepOutcome, Steps};

/// A segment that the journal needs next.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentOrder {
    /// Its place among the segments.
    pub(super) ordinal: u64,
    /// Units: bytes.
    pub(super) len: u64,
    /// A segment of the past whose file is written again.
    pub(super) spare: Option<u64>,
}

/// A segment file without a head of its own.
#[derive(Debug)]
pub(super) struct PreparedSegment {
    pub(super) ordinal: u64,
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) len: u64,
    /// Up to where it was written at least once. Units: bytes.
    pub(super) zeroed_until: u64,
}

/// Makes one segment at a time.
#[derive(Debug)]
pub(super) struct SegmentMaker {
    disk: Arc<dyn Disk>,
    bench: Mutex<Bench>,
    /// Held while files are removed, so that nobody finds the disk full meanwhile.
    removal: Mutex<()>,
    bell: Condvar,
    /// Whether the last order could not be carried out.
    has_failed: AtomicBool,
    /// Keeps other processes away for as long as it may write.
    _lock: Arc<dyn DiskFile>,
}

/// Takes the steps of a maker, until its journal closes it.
#[derive(Debug)]
pub(super) struct MakerSteps(pub(super) Arc<SegmentMaker>);

#[derive(Debug, Default)]
struct Bench {
    job: Job,
    /// Segments whose files are to go.
    gone: Vec<Arc<LogSegment>>,
    is_closed: bool,
}

#[derive(Debug, Default)]
enum Job {
    #[default]
    None,
    Ordered(SegmentOrder),
    Made(PreparedSegment),
    Failed(JournalError),
}

impl SegmentMaker {
    pub(super) fn new(disk: &Arc<dyn Disk>, head: &JournalHead) -> Self {
        Self {
            disk: Arc::clone(disk),
            bench: Mutex::default(),
            removal: Mutex::default(),
            bell: Condvar::new(),
            has_failed: AtomicBool::new(false),
            _lock: head.lock_keeper(),
        }
    }

    /// Asks for the next segment.
    pub(super) fn order(&self, order: SegmentOrder) {
        let mut bench = self.bench.lock();
        assert!(matches!(bench.job, Job::None), "one segment is made at a time");
        bench.job = Job::Ordered(order);
        self.bell.notify_all();
    }

    /// Has the file of a segment before the oldest removed. Where that fails, the next open removes it.
    pub(super) fn remove(&self, segment: Arc<LogSegment>) {
        self.bench.lock().gone.push(segment);
        self.bell.notify_all();
    }

    /// Takes the segment that was ordered, zeroed as far as it is; makes it now where it is not begun.
    /// Cost: waits for the step that is under way.
    pub(super) fn take(&self) -> Result<PreparedSegment, JournalError> {
        let mut bench = self.bench.lock();
        self.has_failed.store(false, Ordering::Release);
        match std::mem::take(&mut bench.job) {
            Job::Ordered(order) => {
                self.remove_all(std::mem::take(&mut bench.gone), self.removal.lock());
                self.make(order)
            }
            Job::Made(segment) => Ok(segment),
            Job::Failed(error) => Err(error),
            Job::None => unreachable!("a segment was ordered"),
        }
    }

    /// Takes the error of the last order. Cost: one load where there is none.
    pub(super) fn take_failure(&self) -> Option<JournalError> {
        if !self.has_failed() {
            return None;
        }
        self.take().err()
    }

    /// Whether the last order could not be carried out. Cost: one load.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// Ends its steps: its segments are not taken any more.
    pub(super) fn close(&self) {
        self.bench.lock().is_closed = true;
        self.bell.notify_all();
    }

    /// Removes files, and closes them: the last handle to one frees its blocks.
    fn remove_all(&self, gone: Vec<Arc<LogSegment>>, _removal: MutexGuard<'_, ()>) {
        for segment in gone {
            drop(self.disk.remove(&segment_name(segment.ordinal)));
        }
    }

    /// Makes the file, out of a spare one where there is one.
    fn make(&self, order: SegmentOrder) -> Result<PreparedSegment, JournalError> {
        let SegmentOrder { ordinal, len, spare } = order;
        let name = segment_name(ordinal);
        let made = match spare {
            Some(spare) => self.disk.rename(&segment_name(spare), &name).and_then(|()| {
                let file = self.disk.open(&name)?;
                let written = file.len()?;
                Ok((file, written))
            }),
            None => self.disk.create(&name).map(|file| (file, 0)),
        };
        let (file, zeroed_until) = made.map_err(JournalError::io(WRITING))?;
        let len = len.max(zeroed_until);
        let reserved = file.reserve(len).map_err(JournalError::io(NO_ROOM));
        // Some file systems find out here that they are full.
        let synced = reserved.and_then(|_| {
            file.sync().and_then(|()| self.disk.sync_names()).map_err(JournalError::io(WRITING))
        });
        synced.map_err(|error| self.give_back(&name, error))?;
        Ok(PreparedSegment { ordinal, file, len, zeroed_until })
    }

    /// Zeroes one step.
    fn zero(&self, segment: PreparedSegment) -> Result<PreparedSegment, JournalError> {
        let PreparedSegment { ordinal, file, len, zeroed_until } = segment;
        let zeroed_until = zero(&*file, zeroed_until, len)
            .map_err(|error| self.give_back(&segment_name(ordinal), error))?;
        Ok(PreparedSegment { ordinal, file, len, zeroed_until })
    }

    /// Removes the file that there is no room for: the journal goes on in the segment that it has.
    fn give_back(&self, name: &str, error: JournalError) -> JournalError {
        if !error.is_no_room() {
            return error;
        }
        self.disk.remove(name).map_err(JournalError::io(WRITING)).err().unwrap_or(error)
    }
}

impl PreparedSegment {
    fn is_zeroed(&self) -> bool {
        self.zeroed_until == self.len
    }
}

impl Job {
    fn is_at_rest(&self) -> bool {
        match self {
            Self::None | Self::Failed(_) => true,
            Self::Ordered(_) => false,
            Self::Made(segment) => segment.is_zeroed(),
        }
    }
}

impl Steps for MakerSteps {
    /// Cost: about one sync, or the removal of files.
    fn step(&mut self) -> StepOutcome {
        let maker = &*self.0;
        let mut bench = maker.bench.lock();
        if bench.is_closed {
            return StepOutcome::Ended;
        }
        if !bench.gone.is_empty() {
            let (gone, removal) = (std::mem::take(&mut bench.gone), maker.removal.lock());
            drop(bench);
            maker.remove_all(gone, removal);
            return StepOutcome::Worked;
        }
        if bench.job.is_at_rest() {
            return StepOutcome::Idle;
        }
        let done = match std::mem::take(&mut bench.job) {
            Job::Ordered(order) => maker.make(order),
            Job::Made(segment) => maker.zero(segment),
            Job::None | Job::Failed(_) => unreachable!("there is something to do"),
        };
        maker.has_failed.store(done.is_err(), Ordering::Release);
        bench.job = done.map_or_else(Job::Failed, Job::Made);
        StepOutcome::Worked
    }

    fn wait(&mut self) {
        let mut bench = self.0.bench.lock();
        while bench.job.is_at_rest() && bench.gone.is_empty() && !bench.is_closed {
            self.0.bell.wait(&mut bench);
        }
    }
}

/// Writes zeroes from `from` on, one step; returns where they end. Units: bytes.
pub(super) fn zero(file: &dyn DiskFile, from: u64, len: u64) -> Result<u64, JournalError> {
    let bytes = (len - from).min(ZERO_STEP_BYTES as u64);
    debug_assert!(bytes.is_multiple_of(BLOCK_BYTES), "segments and steps are whole blocks");
    let blocks = usize::try_from(bytes).unwrap_or(0) / BLOCK_LEN;
    file.write_durably(from, &vec![ZEROES.as_slice(); blocks])
        .map_err(JournalError::io(WRITING))?;
    Ok(from + bytes)
}
