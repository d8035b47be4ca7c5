//! Sorted runs: the indexes that grow with history, written once a commit and merged by levels.
//!
//! An entry is two numbers, (major, minor): whose list or which key, and the sequence number found
//! there. Each commit appends one sorted run a kind. Neighbouring runs of one level are merged into
//! one of the next, a bounded piece of work a commit, so that there are few runs to ask however
//! long the history is.
//!
//! | table | key | value |
//! |---|---|---|
//! | run_lists | kind | CRC32C, format version, the runs of that kind, oldest first (`directory`) |
//! | run_chunks | kind, run, last major, last minor | sorted entries (`chunk`) |
//!
//! A chunk is keyed by its last entry: redb separates its leaves by the last key of each, so one
//! step down finds the chunk in which an entry would stand.
//!
//! INVARIANT: the minors of a kind rise: every minor in a run is above all those in older runs.
//! So one list is the concatenation of its parts in the runs, and a difference of positions inside
//! a run is an exact count.
//! Out of scope: the meaning of majors and minors.

mod chunk;
mod counts;
mod directory;
mod merge;
mod read;
mod seek;
mod sort;

#[cfg(test)]
mod tests;

use redb::{Table, TableDefinition, WriteTransaction};

use super::error::StoreError;
use crate::domain::enumeration::enumeration;
use chunk::ChunkBuilder;
use directory::{Run, RunDirectory};

pub(in crate::store) use counts::RunCounts;
pub(in crate::store) use read::{RunReader, RunTables};

/// Kind, run, and the last entry of a chunk.
pub(in crate::store) type ChunkKey = (u8, u64, u64, u64);

pub(in crate::store) const RUN_CHUNKS: TableDefinition<'_, ChunkKey, &[u8]> =
    TableDefinition::new("run_chunks");
/// The runs of each kind.
pub(in crate::store) const RUN_LISTS: TableDefinition<'_, u8, &[u8]> =
    TableDefinition::new("run_lists");

enumeration! {
    /// An index that runs hold. The numbers are part of the format.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    #[repr(u8)]
    pub(in crate::store) enum RunKind {
        /// Company slot, transaction.
        CompanyTransactions = 0,
        /// Card slot, transaction.
        CardTransactions = 1,
        /// Member slot, transaction.
        MemberTransactions = 2,
        /// Low half of the dimension's id, transaction; hits are checked against the row.
        FirstDimension = 3,
        /// The same for the second dimension.
        SecondDimension = 4,
        /// The same for the third dimension.
        ThirdDimension = 5,
        /// The same for the fourth dimension.
        FourthDimension = 6,
        /// Account slot, statement line.
        AccountLines = 7,
        /// A key of a message (`Fingerprint::index_keys`), transaction.
        TransactionMessages = 8,
        /// The same, the record of an answer that no transaction's row says.
        AnswerMessages = 9,
        /// Original key (`key_of_yielding` of one that yields its marks), undeclined transaction.
        OriginalKeys = 10,
        /// The same of its retrieval key (`key_of_declined` of one that was declined).
        RetrievalKeys = 11,
    }
}

impl RunKind {
    /// The lists of the four dimensions, in their order.
    pub(in crate::store) const DIMENSIONS: [Self; 4] =
        [Self::FirstDimension, Self::SecondDimension, Self::ThirdDimension, Self::FourthDimension];

    /// The number that stands in keys.
    pub(in crate::store) const fn number(self) -> u8 {
        self as u8
    }
}

/// An entry of a run: two numbers, sorted by the first, then the second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::store) struct Entry(u128);

impl Entry {
    /// Below or equal to every other.
    const FIRST: Self = Self(0);
    /// Above or equal to every other.
    const LAST: Self = Self(u128::MAX);

    /// An entry of these numbers.
    #[inline]
    pub(in crate::store) const fn new(major: u64, minor: u64) -> Self {
        Self(((major as u128) << 64) | minor as u128)
    }

    /// The owner of the list, or the key.
    #[inline]
    pub(in crate::store) const fn major(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// The sequence number found there.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is what is wanted")]
    pub(in crate::store) const fn minor(self) -> u64 {
        self.0 as u64
    }

    /// The one right behind, if there is one.
    const fn next(self) -> Option<Self> {
        match self.0.checked_add(1) {
            Some(next) => Some(Self(next)),
            None => None,
        }
    }
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.major(), self.minor())
    }
}

/// Writes the runs inside one write transaction.
pub(in crate::store) struct RunWriter<'txn> {
    chunks: Table<'txn, ChunkKey, &'static [u8]>,
    lists: Table<'txn, u8, &'static [u8]>,
    scratch: Vec<u8>,
}

impl<'txn> RunWriter<'txn> {
    /// Opens the tables.
    pub(in crate::store) fn open(write_txn: &'txn WriteTransaction) -> Result<Self, StoreError> {
        Ok(Self {
            chunks: write_txn.open_table(RUN_CHUNKS)?,
            lists: write_txn.open_table(RUN_LISTS)?,
            scratch: Vec::new(),
        })
    }

    /// Appends the entries of one commit as a run, and empties `entries`. Entries that the kind has
    /// already are not taken again.
    /// Errors: `Inconsistent` if an entry is older than the kind's newest and not among them.
    /// Cost: O(n log n), one chunk for every 8 KiB.
    pub(in crate::store) fn append(
        &mut self,
        kind: RunKind,
        entries: &mut Vec<Entry>,
    ) -> Result<(), StoreError> {
        sort::sort(entries);
        entries.dedup();
        let mut directory = RunDirectory::read(&self.lists, kind)?;
        self.leave_out_known(kind, &directory, entries)?;
        if entries.is_empty() {
            return Ok(());
        }
        let run = self.write_run(kind, directory.take_run_number(), entries)?;
        entries.clear();
        directory.append(run);
        directory.write(&mut self.lists, kind)
    }

    /// Lets entries below `minor` go: readers do not find them any more, merges leave them out.
    /// Only for kinds whose entries nobody counts.
    pub(in crate::store) fn set_floor(
        &mut self,
        kind: RunKind,
        minor: u64,
    ) -> Result<(), StoreError> {
        let mut directory = RunDirectory::read(&self.lists, kind)?;
        if minor <= directory.floor {
            return Ok(());
        }
        directory.raise_floor(minor);
        directory.write(&mut self.lists, kind)
    }

    /// The runs of a kind, with the entries that this transaction appended.
    #[cfg(test)]
    pub(in crate::store) fn reader(
        &self,
        kind: RunKind,
    ) -> Result<RunReader<'_, Table<'txn, ChunkKey, &'static [u8]>>, StoreError> {
        Ok(RunReader::new(&self.chunks, kind, &RunDirectory::read(&self.lists, kind)?))
    }

    fn leave_out_known(
        &self,
        kind: RunKind,
        directory: &RunDirectory,
        entries: &mut Vec<Entry>,
    ) -> Result<(), StoreError> {
        let Some(newest) = directory.newest else { return Ok(()) };
        if entries.iter().all(|entry| entry.minor() > newest) {
            return Ok(());
        }
        let reader = RunReader::new(&self.chunks, kind, directory);
        for entry in entries.iter().filter(|entry| entry.minor() <= newest) {
            let is_known =
                entry.minor() < directory.floor || reader.contains(entry.major(), entry.minor())?;
            if !is_known {
                let what = format!("an entry of runs {kind:?} arrives out of order: {entry:?}");
                return Err(StoreError::Inconsistent { what });
            }
        }
        entries.retain(|entry| entry.minor() > newest);
        Ok(())
    }

    fn write_run(&mut self, kind: RunKind, run: u64, entries: &[Entry]) -> Result<Run, StoreError> {
        let mut builder = ChunkBuilder::new(kind, run, 0);
        for entry in entries {
            if !builder.push(*entry) {
                self.write_chunk(&mut builder)?;
                let took = builder.push(*entry);
                assert!(took, "an empty chunk has room");
            }
        }
        self.write_chunk(&mut builder)?;
        let minors = entries.iter().map(|entry| entry.minor());
        let first_minor = minors.clone().min().unwrap_or_default();
        let last_minor = minors.max().unwrap_or_default();
        Ok(Run { run, level: 0, entries: entries.len() as u64, first_minor, last_minor })
    }

    /// Writes what the builder holds, and leaves it empty for the next chunk of its run.
    fn write_chunk(&mut self, builder: &mut ChunkBuilder) -> Result<(), StoreError> {
        let key = builder.key();
        builder.finish_into(&mut self.scratch);
        let before = self.chunks.insert(key, self.scratch.as_slice())?;
        assert!(before.is_none(), "a chunk is written once");
        Ok(())
    }
}

crate::opaque!(RunWriter<'_>);

/// The last entry of the chunk that stands at `key`.
const fn last_of(key: ChunkKey) -> Entry {
    Entry::new(key.2, key.3)
}

/// An error that names a chunk.
fn damaged_chunk(key: ChunkKey, why: &str) -> StoreError {
    let (kind, run, major, minor) = key;
    StoreError::Damaged {
        what: format!("table run_chunks, kind {kind}, run {run}, entry {major}/{minor}: {why}"),
    }
}
