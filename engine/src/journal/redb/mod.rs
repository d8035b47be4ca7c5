//! The embedded journal: one redb file per partition, one value per batch.
//!
//! | table | key | value |
//! |---|---|---|
//! | `batches` | batch number, u64, without holes | one sealed batch, layout in `chain` |
//! | `meta` | `identity` | format version u32, partition u16, directory id 16 bytes, CRC32C u32 |
//!
//! Beside `journal.redb` stands `journal.ack`, see `ack_mark`.
//!
//! An open for writing looks first and touches nothing (`inspect`): identity, the checkpoint of
//! the tables, the chain from there on and the last acknowledged batch. Only when all agree does
//! it write, and the first thing it writes is the barrier of a new epoch.
//! In this implementation the keys have no holes, so a void batch cannot occur in it: a batch of
//! a superseded epoch is corruption here.
//!
//! INVARIANT: batches are appended and trimmed, never changed; the last one is never trimmed.

mod copy;
mod inspect;
mod kept;
mod meta;
mod reader;
#[cfg(test)]
mod tests;

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::redb::backends::FileBackend;
use ::redb::{Database, ReadableTable, StorageBackend, TableDefinition};

pub use self::copy::JournalCopy;
use self::inspect::{JournalInspection, Proof, inspect};
use self::kept::KeptBatches;
pub use self::reader::RedbReader;
use super::ack_mark::AckMark;
use super::chain::{BATCH_HEADER_BYTES, BatchHeader, SealedBatch, peek_header, seal_barrier};
use super::limits::{BATCH_BYTES_MAX, PAGE_CACHE_BYTES};
use super::overlay::SharedBackend;
use super::{BatchNumber, ChainPosition, Journal, JournalError, JournalIdentity};

const BATCHES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("batches");
const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");

/// The writing side of a journal file. Opening it has written the barrier of its epoch.
#[derive(Debug)]
pub struct RedbJournal {
    db: Arc<Database>,
    mark: AckMark,
    partition: u16,
    kept: KeptBatches,
    tip: ChainPosition,
    recovered: ChainPosition,
}

/// What a journal must agree with before anything is read from it or written to it.
#[derive(Clone, Copy, Debug)]
pub struct Expectation {
    /// Whose journal it has to be.
    pub identity: JournalIdentity,
    /// The checkpoint of the tables: `GENESIS` if they hold nothing yet, `None` if unknown,
    /// which is for tools that read a journal by itself.
    pub checkpoint: Option<ChainPosition>,
}

/// A journal opened for reading only: proven, and not changed by a single byte.
#[derive(Clone, Debug)]
pub struct ReadOnlyJournal {
    /// Reads its batches.
    pub reader: RedbReader,
    /// Whose journal it is.
    pub identity: JournalIdentity,
    /// The oldest batch kept.
    pub first: BatchNumber,
    /// The newest batch.
    pub tip: ChainPosition,
}

impl RedbJournal {
    /// Opens the journal at `path` for writing, making it if it was never there.
    /// Errors: everything that `JournalError` names about opening; nothing is written then.
    /// Cost: reads what follows the checkpoint, and after a crash what redb's repair reads, which
    /// is the file; two syncs.
    pub fn open(path: &Path, expected: &Expectation) -> Result<Self, JournalError> {
        let journal = open_file(path)?;
        let mark = open_file(&mark_path(path))?;
        sync_directory_of(path)?;
        Self::open_on(journal, mark, expected)
    }

    /// Opens the journal on the given storage: `journal` for the batches, `mark` for the note of
    /// the last acknowledged one.
    pub fn open_on(
        journal: SharedBackend,
        mark: SharedBackend,
        expected: &Expectation,
    ) -> Result<Self, JournalError> {
        let mark = AckMark::new(mark, expected.identity.directory_id);
        let Expectation { identity, checkpoint } = expected;
        let found = inspect(&journal, &mark, Some(identity), *checkpoint, Proof::Tail)?;
        let file_bytes = journal.len().map_err(JournalError::io(READING))?;
        // Pages that no proof has looked at can still be damaged, which redb may meet with a panic.
        inspect::guard(|| {
            let (db, first, recovered) = match found {
                Some(JournalInspection { db, overlay, first, tip, .. }) => {
                    overlay.let_through().map_err(JournalError::io("cannot repair the journal"))?;
                    (db, first, tip)
                }
                None => (make_file(journal, file_bytes)?, BatchNumber(1), ChainPosition::GENESIS),
            };
            let mut opened = Self {
                db,
                mark,
                partition: identity.partition,
                kept: KeptBatches::found(first, BatchNumber(recovered.number.0 + 1), file_bytes),
                tip: recovered,
                recovered,
            };
            opened.begin_epoch(identity)?;
            Ok(opened)
        })
    }

    /// Keeps batches that could go as long as they take `bytes` of the file; the largest number
    /// keeps all, and at first none is kept. The file is at most twice as large, and a little for
    /// the commits under way: redb doubles one that is too small.
    pub fn keep_bytes(&mut self, bytes: u64) {
        self.kept.set_keep_bytes(bytes);
    }

    /// Opens a side for reading, to be used from any thread.
    pub fn reader(&self) -> RedbReader {
        RedbReader::new(Arc::clone(&self.db))
    }

    /// Returns the last batch before this open, up to which recovery has to read.
    pub fn recovered(&self) -> ChainPosition {
        self.recovered
    }

    /// Shows each batch after `position` that this open has found, oldest first. The open has just
    /// proven them, where `position` is its checkpoint: they are read in place and not proven again.
    pub fn visit_recovered<E: From<JournalError>>(
        &self,
        position: ChainPosition,
        mut visit: impl FnMut(&BatchHeader, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let batches = self.reader().batches()?;
        let mut next = position.number.0 + 1;
        let found = batches.range(next..=self.recovered.number.0).map_err(JournalError::from)?;
        for entry in found {
            let (key, value) = entry.map_err(JournalError::from)?;
            let key = key.value();
            let header =
                peek_header(value.value()).map_err(|fault| JournalError::corrupt(key, &fault))?;
            assert_eq!((key, header.number.0), (next, next), "the open has seen every batch");
            visit(&header, &value.value()[BATCH_HEADER_BYTES..])?;
            next += 1;
        }
        assert!(next > self.recovered.number.0, "nothing that was proven is left out");
        Ok(())
    }

    /// Returns the partition whose batches it holds.
    pub fn partition(&self) -> u16 {
        self.partition
    }

    /// Writes the barrier, and in a new file whose it is, before anything else.
    fn begin_epoch(&mut self, identity: &JournalIdentity) -> Result<(), JournalError> {
        self.mark.prepare().map_err(JournalError::io("cannot make the acknowledgement note"))?;
        let barrier = seal_barrier(self.partition, &self.tip);
        let write_txn = self.db.begin_write()?;
        {
            let mut batches = write_txn.open_table(BATCHES)?;
            let last = batches.last()?.map_or(0, |(key, _)| key.value());
            if last != self.tip.number.0 {
                // Another process wrote between the inspection and the lock.
                return Err(JournalError::InUse);
            }
            if last == 0 {
                write_txn.open_table(META)?.insert(meta::KEY, meta::render(identity).as_slice())?;
            }
            batches.insert(barrier.header.number.0, barrier.bytes.as_slice())?;
        }
        write_txn.commit()?;
        self.tip = barrier.position();
        self.kept.change(self.kept.first(), &[barrier.bytes.len() as u64]);
        self.note_acknowledged()?;
        self.mark.sync().map_err(JournalError::io(NOTING))
    }

    fn note_acknowledged(&self) -> Result<(), JournalError> {
        self.mark.write(self.tip.number).map_err(JournalError::io(NOTING))
    }

    /// One step of trimming; the last batch is always kept.
    fn trim_until(&self, before: BatchNumber, appended: &[u64]) -> BatchNumber {
        self.kept.next_first(before.min(self.tip.number), appended)
    }
}

const READING: &str = "cannot read the journal";
const NOTING: &str = "cannot note what was acknowledged";

impl Journal for RedbJournal {
    fn tip(&self) -> ChainPosition {
        self.tip
    }

    fn first(&self) -> BatchNumber {
        self.kept.first()
    }

    fn append(
        &mut self,
        batches: &[SealedBatch],
        trim_before: BatchNumber,
    ) -> Result<(), JournalError> {
        let mut tip = self.tip;
        let appended: Vec<_> = batches.iter().map(|batch| batch.bytes.len() as u64).collect();
        let kept_from = self.trim_until(trim_before, &appended);
        let write_txn = self.db.begin_write()?;
        {
            let mut table = write_txn.open_table(BATCHES)?;
            for batch in batches {
                assert_continues(batch, &tip);
                if batch.bytes.len() > BATCH_BYTES_MAX {
                    return Err(JournalError::BatchTooLarge { bytes: batch.bytes.len() });
                }
                table.insert(batch.header.number.0, batch.bytes.as_slice())?;
                tip = batch.position();
            }
            for number in self.first().0..kept_from.0 {
                let removed = table.remove(number)?.is_some();
                assert!(removed, "the keys of a journal have no holes");
            }
        }
        write_txn.commit()?;
        self.tip = tip;
        self.kept.change(kept_from, &appended);
        if batches.is_empty() { Ok(()) } else { self.note_acknowledged() }
    }

    fn can_trim(&self, before: BatchNumber) -> bool {
        self.trim_until(before, &[]) > self.first()
    }

    fn trim(&mut self, before: BatchNumber) -> Result<(), JournalError> {
        if self.can_trim(before) { self.append(&[], before) } else { Ok(()) }
    }
}

impl Drop for RedbJournal {
    /// An orderly close makes the note durable; if it cannot, the note is only older.
    fn drop(&mut self) {
        drop(self.mark.sync());
    }
}

/// Opens the journal at `path` without changing a byte, even if its writer was killed.
/// Errors: as for writing; `NotAJournal` if there is none.
/// Cost: reads and proves the whole file; memory for the pages that a repair changes.
pub fn open_read_only(
    path: &Path,
    identity: Option<&JournalIdentity>,
    checkpoint: Option<ChainPosition>,
) -> Result<ReadOnlyJournal, JournalError> {
    let journal = read_file(path)?;
    let mark = match read_file(&mark_path(path)) {
        Ok(mark) => mark,
        // Without the note the open is less strict, as after a power failure.
        Err(JournalError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            SharedBackend::new(::redb::backends::InMemoryBackend::new())
        }
        Err(error) => return Err(error),
    };
    open_read_only_on(&journal, mark, identity, checkpoint)
}

/// Opens the journal on the given storage without changing a byte of it.
pub fn open_read_only_on(
    journal: &SharedBackend,
    mark: SharedBackend,
    identity: Option<&JournalIdentity>,
    checkpoint: Option<ChainPosition>,
) -> Result<ReadOnlyJournal, JournalError> {
    let directory_id = match identity {
        Some(identity) => identity.directory_id,
        None => inspect::identity_of(journal)?.directory_id,
    };
    let mark = AckMark::new(mark, directory_id);
    let found = inspect(journal, &mark, identity, checkpoint, Proof::Whole)?
        .ok_or_else(|| JournalError::NotAJournal { what: "it is empty".to_owned() })?;
    let JournalInspection { identity, first, tip, db, .. } = found;
    Ok(ReadOnlyJournal { reader: RedbReader::new(db), identity, first, tip })
}

/// Makes a journal where nothing was ever committed.
fn make_file(journal: SharedBackend, file_bytes: u64) -> Result<Arc<Database>, JournalError> {
    if file_bytes > 0 {
        // A first start was cut off before the file had any content.
        journal.set_len(0).map_err(JournalError::io("cannot empty the unfinished journal"))?;
    }
    Ok(Arc::new(builder().create_with_backend(journal)?))
}

fn builder() -> ::redb::Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(PAGE_CACHE_BYTES);
    builder
}

fn mark_path(journal: &Path) -> PathBuf {
    journal.with_extension("ack")
}

fn open_file(path: &Path) -> Result<SharedBackend, JournalError> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(JournalError::io("cannot open the journal for writing"))?;
    Ok(SharedBackend::new(FileBackend::new(file)?))
}

fn read_file(path: &Path) -> Result<SharedBackend, JournalError> {
    let file = File::open(path).map_err(JournalError::io(READING))?;
    Ok(SharedBackend::new(FileBackend::new(file)?))
}

/// A new file survives a power failure only when its directory is durable too.
fn sync_directory_of(path: &Path) -> Result<(), JournalError> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or_else(|| Path::new(".")))
        .and_then(|directory| directory.sync_all())
        .map_err(JournalError::io("cannot sync the data directory"))
}

/// The pair of the checks that `ChainCursor` makes after reading.
fn assert_continues(batch: &SealedBatch, tip: &ChainPosition) {
    assert_eq!(batch.header.number.0, tip.number.0 + 1, "a batch has the next number");
    assert_eq!(batch.header.epoch, tip.epoch, "a batch is of the open epoch");
    assert_eq!(batch.header.previous, tip.hash, "a batch carries the hash of the one before");
    assert_eq!(batch.header.first_seq, tip.last_seq + 1, "records follow without a hole");
}
