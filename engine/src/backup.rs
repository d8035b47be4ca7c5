//! Backups: a data directory made of one view of the tables and the journal after it, while the switch
//! goes on; and how a directory comes out of one again, as of any moment the journal reaches.
//!
//! A backup is a data directory itself: `verify` proves it like any other. Files that the engine
//! does not know of (keys, receipts, settings) are the edge's.
//!
//! INVARIANT: the tables of a backup are those of one commit, and its journal continues them in the
//! same chain. It stands at its place only when it is whole and durable.

mod error;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::command::record::record_views;
use crate::data_directory::{DataDirectory, DirectoryError};
use crate::domain::ids::{RecordSeq, Timestamp};
use crate::engine::{PARTITION, journal_identity};
use crate::inspection::followed_tables;
use crate::journal::chain::BatchBuilder;
use crate::journal::limits::SEGMENT_BYTES_MAX;
use crate::journal::log::{LogCopy, open_read_only};
use crate::journal::{
    BatchNumber, ChainPosition, JournalError, JournalFollower, JournalReader, ProvenBatch,
};
use crate::limits;
use crate::store::{Checkpoint, Store};
use crate::verify::open_store_overlaid;

pub use error::CopyError;

/// The content of a backup or of a restored directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopySummary {
    /// The newest record.
    pub last_seq: RecordSeq,
    /// The instant when its command was accepted.
    pub last_at: Timestamp,
    /// Whether the journals that were read have later records, which were left out.
    pub is_cut: bool,
    /// The size of tables and journal on the disk. Units: bytes.
    pub bytes: u64,
}

/// The room that a copy takes beyond its original: the least size of its files. Units: bytes.
const SPARE_BYTES: u64 = 16 << 20;

/// The room that a directory in use keeps on its file system, beside a twentieth of its tables: segments of its
/// journal are made while a copy is. Units: bytes.
const RESERVE_BYTES: u64 = 4 * SEGMENT_BYTES_MAX;
const RESERVE_SHARE: u64 = 20;

/// The files of a directory that the engine does not know of.
pub struct CopyBeside<'a> {
    /// Their size, about. Units: bytes.
    bytes: u64,
    /// Adds them to the directory it is given.
    add: &'a mut dyn FnMut(&Path, CopyStage) -> io::Result<()>,
}

crate::opaque!(CopyBeside<'_>);

impl<'a> CopyBeside<'a> {
    /// Files of so many bytes, which `add` adds to the directory it is given.
    pub fn new(bytes: u64, add: &'a mut dyn FnMut(&Path, CopyStage) -> io::Result<()>) -> Self {
        Self { bytes, add }
    }
}

/// The stage of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyStage {
    /// Before the tables are copied, and once more after: files that they name may come and go in
    /// between.
    Underway,
    /// Every file of the engine is there for good. An addition now can describe all of them.
    Whole,
}

/// Makes a backup at `to` of tables and journal that go on being written. The caller keeps the
/// journal from being trimmed from before it took the view until this returns.
/// Errors: something is at `to`, or cannot be read or written; nothing is left at `to` then.
/// Cost: reads and writes everything once.
pub(crate) fn copy_running(
    directory: &DataDirectory,
    tables: &Store,
    journal: &dyn JournalReader,
    to: &Path,
    mut beside: CopyBeside<'_>,
) -> Result<CopySummary, CopyError> {
    let needed = running_bytes(directory, tables, journal)?.saturating_add(beside.bytes);
    let reserve = reserve_bytes(directory, to)?;
    let copy = NewDirectory::make(to, directory, needed.saturating_add(reserve))?;
    copy.add(&mut beside, CopyStage::Underway)?;
    let checkpoint = tables.copy_to(&copy.directory.store_path())?;
    let mut tail = Tail::begin(&copy, &checkpoint)?;
    // Later batches are left out: they would have no end.
    let last = journal.last()?;
    tail.copy(journal, &CopyEnd { batch: Some(last), time: None })?;
    copy.add(&mut beside, CopyStage::Underway)?;
    copy.finish(tail, &mut beside, None)
}

/// Makes sure that a backup at `to` fits, of tables and journal that go on being written and of `beside` bytes
/// besides. Returns the size of the backup, about. Units: bytes.
/// Errors: it does not fit, or files cannot be looked at.
pub(crate) fn check_room_for_running(
    directory: &DataDirectory,
    tables: &Store,
    journal: &dyn JournalReader,
    to: &Path,
    beside: u64,
) -> Result<u64, CopyError> {
    let needed = running_bytes(directory, tables, journal)?.saturating_add(beside);
    check_room(to, needed.saturating_add(reserve_bytes(directory, to)?))?;
    Ok(needed)
}

/// Makes a backup at `to` of a directory that nobody writes to, also after kill -9.
/// Errors: as for a running one; the directory is in use.
pub fn copy_at_rest(
    from: &Path,
    to: &Path,
    beside: CopyBeside<'_>,
) -> Result<CopySummary, CopyError> {
    restore(from, to, &RestoreRequest::default(), beside)
}

/// Wanted parts of a restored directory beyond the tables of a backup.
#[derive(Clone, Copy, Default)]
pub struct RestoreRequest<'a> {
    /// A directory whose journal goes on where the backup's ends: the one that the backup was made
    /// of, or a later backup.
    pub further_journal: Option<&'a Path>,
    /// Records of commands that were accepted later are left out.
    pub until: Option<Timestamp>,
    /// Looks at the tables as of the last record, before the directory gets its name.
    pub check: Option<TablesCheck<'a>>,
}

/// A look at tables; in words why they are not to be used.
pub type TablesCheck<'a> = &'a dyn Fn(&Store) -> Result<(), String>;

crate::opaque!(RestoreRequest<'_>);

/// Makes the directory `to` out of the backup `from`.
/// Errors: something is at `to`, a file is damaged or foreign, the journals do not meet, the
/// backup is of a later moment than the one wanted, or the check refuses the tables; nothing is left at `to` then.
pub fn restore(
    from: &Path,
    to: &Path,
    wanted: &RestoreRequest<'_>,
    mut beside: CopyBeside<'_>,
) -> Result<CopySummary, CopyError> {
    let source = DataDirectory::open_read_only(from)?;
    let tables = open_store_overlaid(&source)?;
    let checkpoint = tables.checkpoint()?;
    if wanted.until.is_some_and(|until| until < checkpoint.applied_at) {
        return Err(CopyError::TooLate { tables_at: checkpoint.applied_at });
    }
    let identity = journal_identity(&source);
    let position = checkpoint.position();
    let own = open_read_only(&source.journal_path(), Some(&identity), Some(position))?;
    let needed = tables_bytes(&source)? + journal_bytes(&source, &own.reader, position.number)?;
    let copy = NewDirectory::make(to, &source, needed.saturating_add(beside.bytes))?;
    tables.copy_to(&copy.directory.store_path())?;
    let until = CopyEnd { batch: None, time: wanted.until };
    let mut tail = Tail::begin(&copy, &checkpoint)?;
    tail.copy(&own.reader, &until)?;
    if let Some(further) = wanted.further_journal {
        go_on_with(further, &copy, &mut tail, &until)?;
    }
    copy.add(&mut beside, CopyStage::Underway)?;
    copy.finish(tail, &mut beside, wanted.check)
}

/// Adds the batches that the journal of another directory has beyond the end so far.
/// Errors: it has nothing, or does not follow.
fn go_on_with(
    further: &Path,
    copy: &NewDirectory,
    tail: &mut Tail,
    until: &CopyEnd,
) -> Result<(), CopyError> {
    if tail.is_cut {
        // The copy holds all that was asked for.
        return Ok(());
    }
    let (further, known) = (DataDirectory::open_read_only(further)?, tail.position);
    let identity = journal_identity(&copy.directory);
    let journal = open_read_only(&further.journal_path(), Some(&identity), Some(known));
    let journal = journal.map_err(|error| not_following(error, known))?;
    check_room(&copy.unfinished, journal_bytes(&further, &journal.reader, known.number)?)?;
    tail.copy(&journal.reader, until)?;
    if tail.position == known && !tail.is_cut {
        let last = Some(journal.reader.last()?.0);
        return Err(CopyError::NothingFurther { last, known: known.number.0 });
    }
    Ok(())
}

/// The reason why a journal does not go on from a place, if that is why it could not be opened.
fn not_following(error: JournalError, known: ChainPosition) -> CopyError {
    match error {
        JournalError::EndsBeforeCheckpoint { last, .. } => {
            CopyError::NothingFurther { last: last.map(|last| last.0), known: known.number.0 }
        }
        JournalError::StartsAfterCheckpoint { first, .. } => {
            CopyError::Gap { needed: known.number.0 + 1, first: first.0 }
        }
        JournalError::DiffersFromCheckpoint { checkpoint } => {
            CopyError::OtherHistory { batch: checkpoint.0 }
        }
        error => error.into(),
    }
}

/// The room for a copy of tables and journal that go on being written. Units: bytes.
fn running_bytes(
    directory: &DataDirectory,
    tables: &Store,
    journal: &dyn JournalReader,
) -> Result<u64, CopyError> {
    let known = tables.checkpoint()?.position().number;
    Ok(tables_bytes(directory)? + journal_bytes(directory, journal, known)?)
}

/// The room that a copy at `to` leaves to a directory in use: none on another file system. A full disk would end
/// the switch, not only the copy. Units: bytes.
fn reserve_bytes(directory: &DataDirectory, to: &Path) -> Result<u64, CopyError> {
    let device = |path: &Path| match fs::metadata(path) {
        Ok(found) => Ok(found.dev()),
        Err(error) => Err(CopyError::Io(path.to_path_buf(), error)),
    };
    if device(directory.path())? != device(existing(to))? {
        return Ok(0);
    }
    Ok(RESERVE_BYTES + file_bytes(directory.store_path())? / RESERVE_SHARE)
}

/// The room for a copy of a directory's tables, rounded up. Units: bytes.
fn tables_bytes(directory: &DataDirectory) -> Result<u64, CopyError> {
    Ok(file_bytes(directory.store_path())? + SPARE_BYTES)
}

/// The room that the batches after `known` take, about: their share of the files. Units: bytes.
fn journal_bytes(
    directory: &DataDirectory,
    journal: &dyn JournalReader,
    known: BatchNumber,
) -> Result<u64, CopyError> {
    let (first, last) = (journal.first()?.0, journal.last()?.0);
    let kept = u128::from((last + 1).saturating_sub(first)).max(1);
    let wanted = u128::from(last.saturating_sub(known.0)).min(kept);
    let share = u128::from(journal_files_bytes(directory)?) * wanted / kept;
    Ok(u64::try_from(share).unwrap_or(u64::MAX))
}

fn journal_files_bytes(directory: &DataDirectory) -> Result<u64, CopyError> {
    let path = directory.journal_path();
    let files = fs::read_dir(&path).map_err(|error| CopyError::Io(path.clone(), error))?;
    let bytes = |entry: io::Result<fs::DirEntry>| entry?.metadata().map(|found| found.len());
    files.map(bytes).sum::<io::Result<u64>>().map_err(|error| CopyError::Io(path, error))
}

fn file_bytes(path: PathBuf) -> Result<u64, CopyError> {
    match fs::metadata(&path) {
        Ok(found) => Ok(found.len()),
        Err(error) => Err(CopyError::Io(path, error)),
    }
}

/// Makes sure that so much fits where `place` is or will be. Units: bytes.
/// Errors: the file system has less room than that.
pub fn check_room(place: &Path, needed: u64) -> Result<(), CopyError> {
    let there = existing(place);
    let found = rustix::fs::statvfs(there)
        .map_err(|error| CopyError::Io(there.to_path_buf(), error.into()))?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    if needed > free {
        return Err(CopyError::NoRoom { place: place.to_path_buf(), needed, free });
    }
    Ok(())
}

/// The folder in which a place is or will be.
fn existing(place: &Path) -> &Path {
    let is_there = |path: &&Path| !path.as_os_str().is_empty() && path.exists();
    place.ancestors().find(is_there).unwrap_or_else(|| Path::new("."))
}

/// A directory on its way: beside its place until it is whole.
struct NewDirectory {
    directory: DataDirectory,
    unfinished: PathBuf,
    place: PathBuf,
}

impl NewDirectory {
    /// Makes it, of the same identity as `of`, if there is room for `needed`. Units: bytes.
    fn make(place: &Path, of: &DataDirectory, needed: u64) -> Result<Self, CopyError> {
        if fs::symlink_metadata(place).is_ok() {
            return Err(CopyError::Exists(place.to_path_buf()));
        }
        let mut name = place.file_name().unwrap_or_default().to_owned();
        name.push(".unfinished");
        let unfinished = place.with_file_name(name);
        make_room(&unfinished)?;
        check_room(place, needed)?;
        let directory = DataDirectory::create_in_cell(&unfinished, of.id(), of.cell())?;
        Ok(Self { directory, unfinished, place: place.to_path_buf() })
    }

    /// Has the files copied that stand beside the engine's.
    fn add(&self, beside: &mut CopyBeside<'_>, stage: CopyStage) -> Result<(), CopyError> {
        (beside.add)(&self.unfinished, stage)
            .map_err(|error| CopyError::Io(self.unfinished.clone(), error))
    }

    /// Puts it at its place.
    fn finish(
        self,
        tail: Tail,
        beside: &mut CopyBeside<'_>,
        check: Option<TablesCheck<'_>>,
    ) -> Result<CopySummary, CopyError> {
        let (last_seq, last_at) = (RecordSeq(tail.position.last_seq), tail.last_at);
        let is_cut = tail.is_cut;
        tail.journal.finish()?;
        if let Some(check) = check {
            check(&followed_tables(&self.directory)?).map_err(CopyError::Unfit)?;
        }
        self.add(beside, CopyStage::Whole)?;
        let bytes =
            file_bytes(self.directory.store_path())? + journal_files_bytes(&self.directory)?;
        let placed = fs::rename(&self.unfinished, &self.place).and_then(|()| {
            let above = self.place.parent().filter(|above| !above.as_os_str().is_empty());
            File::open(above.unwrap_or_else(|| Path::new(".")))?.sync_all()
        });
        placed.map_err(|error| CopyError::Io(self.place.clone(), error))?;
        Ok(CopySummary { last_seq, last_at, is_cut, bytes })
    }
}

impl Drop for NewDirectory {
    fn drop(&mut self) {
        // Gone already where it was finished; else half a copy is of no use to anybody.
        drop(fs::remove_dir_all(&self.unfinished));
    }
}

/// Removes a copy that was cut short, which is of no use, and nothing else.
fn make_room(unfinished: &Path) -> Result<(), CopyError> {
    let in_the_way = || CopyError::InTheWay(unfinished.to_path_buf());
    let failed = |error| CopyError::Io(unfinished.to_path_buf(), error);
    match fs::symlink_metadata(unfinished) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Err(in_the_way()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    }
    // The locks are held until it is gone: one that somebody is at work on is not removed.
    let _locks = match DataDirectory::open(unfinished) {
        Ok(leftover) => (Some(leftover), None),
        // Locked a moment ago: no process of another build is at work on it.
        Err(DirectoryError::OtherLayouts(_)) => (None, None),
        Err(DirectoryError::NotFound(_) | DirectoryError::Foreign(_)) => {
            (None, Some(DataDirectory::lock_begun(unfinished)?.ok_or_else(in_the_way)?))
        }
        Err(error) => return Err(error.into()),
    };
    fs::remove_dir_all(unfinished).map_err(failed)
}

/// The end of copying; by default that of the journal.
struct CopyEnd {
    batch: Option<BatchNumber>,
    time: Option<Timestamp>,
}

/// The journal of a copy on its way.
struct Tail {
    journal: LogCopy,
    position: ChainPosition,
    last_at: Timestamp,
    is_cut: bool,
}

impl Tail {
    /// Begins behind the end of the tables, by which the chain is recognized.
    fn begin(copy: &NewDirectory, checkpoint: &Checkpoint) -> Result<Self, CopyError> {
        let identity = journal_identity(&copy.directory);
        let position = checkpoint.position();
        let journal = LogCopy::create(&copy.directory.journal_path(), identity, position)?;
        Ok(Self { journal, position, last_at: checkpoint.applied_at, is_cut: false })
    }

    /// Goes on with what `reader` has beyond the end so far.
    fn copy(&mut self, reader: &dyn JournalReader, until: &CopyEnd) -> Result<(), CopyError> {
        let needed = self.position.number.0 + 1;
        let (first, last) = (reader.first()?.0, reader.last()?.0);
        if self.is_cut || last < needed {
            return Ok(());
        }
        if first > needed {
            return Err(CopyError::Gap { needed, first });
        }
        let mut follower = JournalFollower::after(reader, PARTITION, self.position);
        loop {
            let mut batches = follower.read_next(limits::PROJECTION_BYTES_MAX)?;
            if let Some(last) = until.batch {
                batches.retain(|batch| batch.header.number <= last);
            }
            if batches.is_empty() || self.is_cut {
                return Ok(());
            }
            self.append(&batches, until.time)?;
        }
    }

    fn append(
        &mut self,
        batches: &[ProvenBatch],
        until: Option<Timestamp>,
    ) -> Result<(), CopyError> {
        let mut whole = 0;
        let mut cut = None;
        for batch in batches {
            let kept = kept_until(batch, until)?;
            self.last_at = kept.last_at.unwrap_or(self.last_at);
            if kept.bytes < batch.payload().len() {
                self.is_cut = true;
                cut = (kept.records > 0).then_some((batch, kept));
                break;
            }
            whole += 1;
            self.position = batch.position();
        }
        batches[..whole].iter().try_for_each(|batch| self.journal.append(&batch.bytes))?;
        if let Some((batch, kept)) = cut {
            // Part of a batch is another batch: its own sum, its own hash.
            let mut part = BatchBuilder::start(Vec::new());
            part.push(kept.records, &batch.payload()[..kept.bytes]);
            let part = part.seal(PARTITION, &self.position);
            self.position = part.position();
            self.journal.append(&part.bytes)?;
        }
        Ok(())
    }
}

/// The part of a batch that is kept.
struct BatchPart {
    records: u32,
    bytes: usize,
    last_at: Option<Timestamp>,
}

/// The records of commands that were accepted by then: records come in the order of time.
fn kept_until(batch: &ProvenBatch, until: Option<Timestamp>) -> Result<BatchPart, CopyError> {
    let mut views = record_views(batch.payload());
    let mut kept = BatchPart { records: 0, bytes: 0, last_at: None };
    while let Some(view) = views.next() {
        let seq = batch.header.first_seq + u64::from(kept.records);
        let at = view.map_err(|error| CopyError::Record(seq, error))?.at;
        if until.is_some_and(|until| at > until) {
            break;
        }
        kept.records += 1;
        kept.bytes = batch.payload().len() - views.rest.len();
        kept.last_at = Some(at);
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_does_not_fit_is_not_begun() {
        let [origin, parent] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let cell = "07".parse().ok();
        let origin = DataDirectory::create_in_cell(origin.path(), [7; 16], cell).unwrap();
        let place = parent.path().join("not").join("yet").join("there");
        let refused = NewDirectory::make(&place, &origin, u64::MAX).err().unwrap();
        assert!(matches!(refused, CopyError::NoRoom { needed: u64::MAX, .. }), "{refused}");
        assert!(refused.to_string().contains("MiB are free there"), "{refused}");
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0, "nothing is left behind");
        check_room(Path::new("relative"), 0).unwrap();
        // A place on the file system of a directory in use leaves room to it.
        fs::write(origin.store_path(), vec![0; 1 << 20]).unwrap();
        let reserve = reserve_bytes(&origin, &place).unwrap();
        assert_eq!(reserve, RESERVE_BYTES + (1 << 20) / RESERVE_SHARE);
        assert_eq!(reserve_bytes(&origin, Path::new("/proc/none")).unwrap(), 0);
        let made = NewDirectory::make(&place, &origin, 1).unwrap();
        assert_eq!((made.directory.id(), made.directory.cell()), ([7; 16], cell));
    }
}
