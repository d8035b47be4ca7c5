//! Looks at a journal before anybody trusts it, and changes nothing.
//!
//! Order of the checks: is it a journal at all; whose; the chain, which names key and offset of
//! damage; then whether the end is where the tables and the acknowledgements say it must be.
//! A start proves the chain from the checkpoint's batch on: what recovery reads, and so its cost
//! does not grow with history. A reader (`verify`, tools) proves all of it, and redb's own
//! checksums, which see what lies around the batches.
//! redb may panic on pages that no checksum has looked at yet: here that is damage, too.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};

use ::redb::{Database, StorageBackend};

use super::super::ack_mark::AckMark;
use super::super::chain::{
    Accepted, BATCH_HEADER_BYTES, BATCH_MAGIC, BatchHeader, ChainCursor, decode_header,
    peek_header_prefix,
};
use super::super::error::Damage;
use super::super::follower::check_key;
use super::super::limits::{BATCH_BYTES_MAX, CHECK_READ_BYTES};
use super::super::overlay::{OverlayBackend, OverlayLocks, SharedBackend};
use super::super::{BatchNumber, ChainPosition, JournalError, JournalIdentity, JournalReader};
use super::{READING, RedbReader, builder, meta};

/// The first bytes of any redb file.
const REDB_MAGIC: [u8; 9] = *b"redb\x1A\x0A\xA9\x0D\x0A";

/// A journal that was proven.
#[derive(Debug)]
pub(super) struct JournalInspection {
    pub(super) identity: JournalIdentity,
    pub(super) first: BatchNumber,
    pub(super) tip: ChainPosition,
    /// What is in the file, repaired in memory.
    pub(super) db: Arc<Database>,
    /// What `db` stands on.
    pub(super) overlay: Arc<OverlayBackend>,
}

/// How much of a journal is proven.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Proof {
    /// The chain from the checkpoint's batch on; from the oldest one where no checkpoint is known.
    Tail,
    /// The chain from end to end, and every page of the file.
    Whole,
}

impl Proof {
    /// A start proves what it goes on with, a reader only looks.
    const fn locks(self) -> OverlayLocks {
        match self {
            Self::Tail => OverlayLocks::Own,
            Self::Whole => OverlayLocks::Shared,
        }
    }
}

/// Proves the journal on `base`; `None` if nothing was ever committed to it.
pub(super) fn inspect(
    base: &SharedBackend,
    mark: &AckMark,
    identity: Option<&JournalIdentity>,
    checkpoint: Option<ChainPosition>,
    proof: Proof,
) -> Result<Option<JournalInspection>, JournalError> {
    let found =
        guard(|| prove(base, identity, checkpoint, proof)).map_err(|error| match error {
            JournalError::CorruptFile { what, damage: None } => {
                JournalError::CorruptFile { what, damage: find_damage(base, BatchNumber(0)) }
            }
            other => other,
        })?;
    let last = found.as_ref().map(|found| found.tip.number);
    let reached = last.unwrap_or(BatchNumber(0));
    let acknowledged =
        mark.read().map_err(JournalError::io("cannot read what was acknowledged"))?;
    if let Some(acknowledged) = acknowledged.filter(|acknowledged| *acknowledged > reached) {
        let damage = find_damage(base, reached);
        return Err(JournalError::EndsBeforeAcknowledged { acknowledged, last, damage });
    }
    match checkpoint {
        Some(checkpoint) if checkpoint.number > reached => {
            Err(JournalError::EndsBeforeCheckpoint { checkpoint: checkpoint.number, last })
        }
        _ => Ok(found),
    }
}

/// Reads whose journal it is, for tools that do not know.
pub(super) fn identity_of(base: &SharedBackend) -> Result<JournalIdentity, JournalError> {
    let identity = guard(|| match open_overlay(base, OverlayLocks::Shared)? {
        Some(opened) => RedbReader::new(Arc::new(opened.db)).identity(),
        None => Ok(None),
    })?;
    identity.ok_or_else(|| JournalError::NotAJournal { what: "it is empty".to_owned() })
}

fn prove(
    base: &SharedBackend,
    identity: Option<&JournalIdentity>,
    checkpoint: Option<ChainPosition>,
    proof: Proof,
) -> Result<Option<JournalInspection>, JournalError> {
    let Some(opened) = open_overlay(base, proof.locks())? else { return Ok(None) };
    let OpenedOverlay { db, overlay, repaired } = opened;
    let db = Arc::new(db);
    let reader = RedbReader::new(Arc::clone(&db));
    let Some(found) = reader.identity()? else { return Ok(None) };
    if let Some(expected) = identity {
        meta::check(&found, expected)?;
    }
    let (first, tip) = walk(&reader, found.partition, checkpoint, proof)?;
    if proof == Proof::Whole && !repaired {
        check_pages(base)?;
    }
    Ok(Some(JournalInspection { identity: found, first, tip, db, overlay }))
}

struct OpenedOverlay {
    db: Database,
    overlay: Arc<OverlayBackend>,
    /// A file that was not closed: redb has verified its checksums while opening it.
    repaired: bool,
}

/// Opens an overlay over `base`; `None` if the file was never finished being made.
fn open_overlay(
    base: &SharedBackend,
    locks: OverlayLocks,
) -> Result<Option<OpenedOverlay>, JournalError> {
    let len = base.len().map_err(JournalError::io(READING))?;
    if len == 0 {
        return Ok(None);
    }
    let mut magic = [0; REDB_MAGIC.len()];
    if len >= magic.len() as u64 {
        base.read(0, &mut magic).map_err(JournalError::io(READING))?;
    }
    if magic == [0; REDB_MAGIC.len()] && len >= magic.len() as u64 {
        return Ok(None);
    }
    if magic != REDB_MAGIC {
        return Err(JournalError::NotAJournal { what: "it starts like something else".to_owned() });
    }
    let repaired = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&repaired);
    let overlay = OverlayBackend::over(base.clone(), locks).map_err(JournalError::io(READING))?;
    let overlay = Arc::new(overlay);
    let db = builder()
        .set_repair_callback(move |_| seen.store(true, Ordering::Relaxed))
        .create_with_backend(SharedBackend::of(&overlay))?;
    Ok(Some(OpenedOverlay { db, overlay, repaired: repaired.load(Ordering::Relaxed) }))
}

/// Follows the chain to the newest batch, past the checkpoint.
fn walk(
    reader: &RedbReader,
    partition: u16,
    checkpoint: Option<ChainPosition>,
    proof: Proof,
) -> Result<(BatchNumber, ChainPosition), JournalError> {
    let (first, last) = (reader.first()?, reader.last()?);
    if let Some(checkpoint) = checkpoint
        && first.0 > checkpoint.number.0.saturating_add(1)
    {
        let checkpoint = checkpoint.number;
        return Err(JournalError::StartsAfterCheckpoint { checkpoint, first });
    }
    let start = match (proof, checkpoint) {
        // A checkpoint beyond the end is told by what calls this: the end is proven for it.
        (Proof::Tail, Some(checkpoint)) => checkpoint.number.min(last).max(first),
        _ => first,
    };
    let mut cursor = ChainCursor::anchored_at_first(partition);
    reader.each_from(start, |key, bytes| {
        let accepted = cursor.accept(bytes).map_err(|fault| JournalError::corrupt(key, &fault))?;
        let (Accepted::Batch(view) | Accepted::Barrier(view)) = accepted else { return Ok(()) };
        check_key(key, view.header.number)?;
        check_against(checkpoint, &view.header, &view.position())
    })?;
    match cursor.tip() {
        Some(tip) if tip.number == last => Ok((first, tip)),
        _ => Err(JournalError::Corrupt {
            key: last.0,
            offset: 0,
            what: "the last batch is of a superseded epoch".to_owned(),
        }),
    }
}

fn check_against(
    checkpoint: Option<ChainPosition>,
    header: &BatchHeader,
    position: &ChainPosition,
) -> Result<(), JournalError> {
    let Some(checkpoint) = checkpoint else { return Ok(()) };
    let is_same = if header.number == checkpoint.number {
        *position == checkpoint
    } else if header.number.0 == checkpoint.number.0.saturating_add(1) {
        header.previous == checkpoint.hash
    } else {
        true
    };
    if is_same {
        Ok(())
    } else {
        Err(JournalError::DiffersFromCheckpoint { checkpoint: checkpoint.number })
    }
}

/// Verifies redb's checksums over an overlay of its own: the check repairs what it can, which
/// must happen neither in the file nor under the reader.
fn check_pages(base: &SharedBackend) -> Result<(), JournalError> {
    let Some(mut opened) = open_overlay(base, OverlayLocks::Held)? else { return Ok(()) };
    if opened.db.check_integrity()? {
        return Ok(());
    }
    Err(JournalError::CorruptFile { what: "its page checksums differ".to_owned(), damage: None })
}

thread_local! {
    /// Whether a panic of this thread becomes an error, so that printing it only frightens.
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Turns a panic of the storage code into damage, told once, by the error.
pub(super) fn guard<T>(look: impl FnOnce() -> Result<T, JournalError>) -> Result<T, JournalError> {
    static HUSH: Once = Once::new();
    HUSH.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |panic| {
            if !IS_GUARDED.get() {
                usual(panic);
            }
        }));
    });
    IS_GUARDED.set(true);
    let looked = catch_unwind(AssertUnwindSafe(look));
    IS_GUARDED.set(false);
    looked.unwrap_or_else(|panic| {
        let what = super::super::error::last_words(panic.as_ref());
        Err(JournalError::CorruptFile { what, damage: None })
    })
}

/// Searches the file itself for a batch after `after` that fails its checksum. A help for the
/// reader of the message, not a proof: pages that were freed may hold remains of batches.
fn find_damage(base: &SharedBackend, after: BatchNumber) -> Option<Damage> {
    let len = base.len().ok()?;
    let mut window = vec![0; CHECK_READ_BYTES];
    let mut start = 0;
    while start < len {
        let size = usize::try_from(len - start).unwrap_or(usize::MAX).min(window.len());
        base.read(start, &mut window[..size]).ok()?;
        for at in find_magics(&window[..size]) {
            let damage = damage_at(base, start + at as u64, len);
            if let Some(damage) = damage.filter(|damage| damage.number > after) {
                return Some(damage);
            }
        }
        let overlap = if start + size as u64 == len { 0 } else { BATCH_MAGIC.len() - 1 };
        start += (size - overlap) as u64;
    }
    None
}

fn find_magics(window: &[u8]) -> impl Iterator<Item = usize> {
    window
        .windows(BATCH_MAGIC.len())
        .enumerate()
        .filter(|(_, bytes)| *bytes == BATCH_MAGIC)
        .map(|(at, _)| at)
}

fn damage_at(base: &SharedBackend, file_offset: u64, len: u64) -> Option<Damage> {
    let mut head = [0; BATCH_HEADER_BYTES];
    if file_offset + head.len() as u64 > len {
        return None;
    }
    base.read(file_offset, &mut head).ok()?;
    let header = peek_header_prefix(&head).ok()?;
    let size = BATCH_HEADER_BYTES + header.payload_len as usize;
    if size > BATCH_BYTES_MAX || file_offset + size as u64 > len {
        return None;
    }
    let mut batch = vec![0; size];
    base.read(file_offset, &mut batch).ok()?;
    let is_damaged = decode_header(&batch).is_err();
    is_damaged.then_some(Damage { number: header.number, file_offset })
}
