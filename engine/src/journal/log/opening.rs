//! The opening of a journal: to lead, to follow, to leave a cluster, or to read only.
//!
//! An open looks first and touches nothing (`inspect`). Only when all agrees does it write, and the
//! first thing it writes is the barrier of a new epoch.

use std::path::Path;
use std::sync::Arc;

use super::head::JournalHead;
use super::index::LogIndex;
use super::inspect::{Claims, LogInspection, Proof, inspect};
use super::maker::SegmentMaker;
use super::reader::LogReader;
use super::segment::segment_name;
use super::{
    Expectation, LogJournal, LogRetention, NO_ROOM, NOTING, NextSegment, READING, ReadOnlyJournal,
    WRITING,
};
use crate::disk::{Disk, DiskAccess, RealDisk, Reservation};
use crate::journal::ack_mark::AckMark;
use crate::journal::chain::seal_barrier;
use crate::journal::limits::CHECK_READ_BYTES;
use crate::journal::{BatchNumber, ChainPosition, JournalError, JournalIdentity, JournalNote};

impl LogJournal {
    /// Opens the journal in the directory `path` for writing, making it if it was never there.
    /// Errors: everything that `JournalError` names about opening; nothing is written then.
    /// Cost: reads what follows the checkpoint.
    pub fn open(
        path: &Path,
        expected: &Expectation,
        retention: LogRetention,
    ) -> Result<Self, JournalError> {
        let disk = RealDisk::open(path).map_err(JournalError::io("cannot open the journal"))?;
        Self::open_on(Arc::new(disk), expected, retention)
    }

    /// Opens the journal on the given disk.
    /// Errors: as `open`.
    pub fn open_on(
        disk: Arc<dyn Disk>,
        expected: &Expectation,
        retention: LogRetention,
    ) -> Result<Self, JournalError> {
        Self::open_proven(disk, expected, retention, false)?.lead()
    }

    /// Opens the journal of a node that leaves its cluster. Its barrier voids the remains of broken
    /// batches beyond note and checkpoint. Other nodes may have these batches.
    /// Errors: as `open`.
    pub fn open_to_leave(
        disk: Arc<dyn Disk>,
        expected: &Expectation,
        retention: LogRetention,
    ) -> Result<Self, JournalError> {
        Self::open_proven(disk, expected, retention, true)?.lead()
    }

    /// Opens the journal on the given disk to append the batches of another one, barriers included:
    /// this open writes no barrier. Broken batches beyond note and checkpoint are cut, for the
    /// other one has them.
    /// Errors: as `open`.
    pub fn open_to_follow(
        disk: Arc<dyn Disk>,
        expected: &Expectation,
        retention: LogRetention,
    ) -> Result<Self, JournalError> {
        Self::open_proven(disk, expected, retention, true)
    }

    fn open_proven(
        disk: Arc<dyn Disk>,
        expected: &Expectation,
        retention: LogRetention,
        is_follower: bool,
    ) -> Result<Self, JournalError> {
        let Expectation { identity, checkpoint } = expected;
        let identity = Some(identity);
        let claims = Claims { identity, checkpoint: *checkpoint, proof: Proof::Tail, is_follower };
        let found = match inspect(&*disk, DiskAccess::Exclusive, &claims)? {
            Some(found) => found,
            None => LogInspection::new(JournalHead::create(&*disk, expected.identity)?),
        };
        let LogInspection { head, segments, unused, tip, notes } = found;
        let mark = AckMark::create(&*disk, expected.identity.directory_id)
            .map_err(JournalError::io("cannot make the acknowledgement note"))?;
        let acknowledged = mark.read().map_err(JournalError::io(READING))?;
        let mut opened = Self {
            mark,
            zeroed_until: segments.back().map_or(0, |newest| newest.end()),
            index: Arc::new(LogIndex::of(segments, tip.number)),
            maker: Arc::new(SegmentMaker::new(&disk, &head)),
            disk,
            head,
            retention,
            tip,
            recovered: tip,
            notes,
            next: NextSegment::NotOrdered,
            spare: None,
            has_failed: false,
        };
        opened.clear_away(&unused)?;
        opened.keep_tail(acknowledged)?;
        Ok(opened)
    }

    /// Removes the files that hold nothing any more, or nothing yet.
    fn clear_away(&mut self, unused: &[u64]) -> Result<(), JournalError> {
        if unused.is_empty() {
            return Ok(());
        }
        self.head.write_again()?;
        for ordinal in unused {
            self.disk.remove(&segment_name(*ordinal)).map_err(JournalError::io(WRITING))?;
        }
        self.disk.sync_names().map_err(JournalError::io(WRITING))
    }

    /// Makes durable what a killed process had written and never acknowledged, by writing it again: after a
    /// sync that failed, the system reads it, but holds it for written.
    fn keep_tail(&self, acknowledged: Option<BatchNumber>) -> Result<(), JournalError> {
        let Some(newest) = self.index.newest() else { return Ok(()) };
        let mut offset = match acknowledged.filter(|noted| *noted >= newest.first()) {
            Some(noted) if noted >= self.tip.number => newest.end(),
            Some(noted) => newest.offset_of(BatchNumber(noted.0 + 1))?,
            None => 0,
        };
        let mut bytes = Vec::new();
        while offset < newest.end() {
            let len = (newest.end() - offset).min(CHECK_READ_BYTES as u64);
            bytes.resize(usize::try_from(len).unwrap_or(CHECK_READ_BYTES), 0);
            newest.file.read(offset, &mut bytes).map_err(JournalError::io(READING))?;
            newest.file.write_durably(offset, &[&bytes]).map_err(JournalError::io(WRITING))?;
            offset += len;
        }
        Ok(())
    }

    fn lead(mut self) -> Result<Self, JournalError> {
        self.begin_epoch()?;
        self.check_reservation()?;
        Ok(self)
    }

    /// Writes the barrier before anything else.
    fn begin_epoch(&mut self) -> Result<(), JournalError> {
        let barrier = seal_barrier(self.partition(), &self.tip);
        self.write_group(&[barrier])?;
        self.mark.sync().map_err(JournalError::io(NOTING))
    }

    /// Notes if the file system does not reserve room; it is asked for room that the file has
    /// already.
    fn check_reservation(&mut self) -> Result<(), JournalError> {
        let newest = self.newest();
        let reserved = newest.file.reserve(newest.len).map_err(JournalError::io(NO_ROOM))?;
        if reserved == Reservation::Promised {
            self.notes.push(JournalNote::NotPreallocated);
        }
        Ok(())
    }
}

impl LogInspection {
    /// A journal that has just been made.
    fn new(head: JournalHead) -> Self {
        Self {
            head,
            segments: Default::default(),
            unused: Vec::new(),
            tip: ChainPosition::GENESIS,
            notes: Vec::new(),
        }
    }
}

/// Opens the journal in the directory `path` without changing a byte, even if its writer was killed.
/// Errors: as for writing; `NotAJournal` if there is none.
/// Cost: reads and proves all of it.
pub fn open_read_only(
    path: &Path,
    identity: Option<&JournalIdentity>,
    checkpoint: Option<ChainPosition>,
) -> Result<ReadOnlyJournal, JournalError> {
    let disk = RealDisk::read_only(path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotADirectory => {
            JournalError::NotAJournal { what: "it is no directory".to_owned() }
        }
        _ => JournalError::Io { doing: READING, source },
    })?;
    open_read_only_on(&disk, identity, checkpoint)
}

/// Opens the journal on the given disk without changing a byte of it.
/// Errors: as `open_read_only`.
pub fn open_read_only_on(
    disk: &dyn Disk,
    identity: Option<&JournalIdentity>,
    checkpoint: Option<ChainPosition>,
) -> Result<ReadOnlyJournal, JournalError> {
    let claims = Claims { identity, checkpoint, proof: Proof::Whole, is_follower: false };
    let found = inspect(disk, DiskAccess::Shared, &claims)?
        .ok_or_else(|| JournalError::NotAJournal { what: "it is empty".to_owned() })?;
    let (first, lock) = (found.first(), found.head.lock_keeper());
    let LogInspection { head, segments, tip, .. } = found;
    let index = Arc::new(LogIndex::of(segments, tip.number));
    let reader = LogReader::of(&index, Some(lock));
    Ok(ReadOnlyJournal { reader, identity: head.identity, first, tip })
}
