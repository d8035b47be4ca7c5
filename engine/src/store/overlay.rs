//! A storage backend that reads a file and keeps every write in memory.
//!
//! redb repairs a file that was not closed when it opens it, and writes when it closes one. Over
//! an overlay both happen in memory: a crashed directory can be checked, as it is, any number of
//! times.
//!
//! INVARIANT: nothing here writes to, resizes or syncs the base.

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::redb::{BackendError, StorageBackend};
use parking_lot::RwLock;

const PAGE_BYTES: u64 = 4096;
const PAGE_LEN: usize = 4096;

/// A backend with several owners, so that one file can be looked at before it is opened.
/// As any backend here it has no locks to wait for, which only redb's modes for several writing
/// processes ask for.
#[derive(Clone, Debug)]
pub struct SharedBackend(Arc<BackendShare<dyn StorageBackend>>);

#[derive(Debug)]
struct BackendShare<B: ?Sized> {
    is_sealed: AtomicBool,
    backend: B,
}

impl SharedBackend {
    /// Shares `backend`.
    pub fn new(backend: impl StorageBackend) -> Self {
        Self(Arc::new(BackendShare { is_sealed: AtomicBool::new(false), backend }))
    }

    /// Refuses every write from here on: what is durable stays as it is.
    pub(super) fn seal(&self) {
        self.0.is_sealed.store(true, Ordering::Release);
    }

    /// The backend, for a caller that changes it.
    /// Errors: it is sealed.
    fn writable(&self) -> io::Result<&dyn StorageBackend> {
        if self.0.is_sealed.load(Ordering::Acquire) {
            return Err(io::Error::other("nothing more is written here"));
        }
        Ok(&self.0.backend)
    }
}

impl StorageBackend for SharedBackend {
    fn len(&self) -> io::Result<u64> {
        self.0.backend.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.backend.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.writable()?.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.writable()?.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.writable()?.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.0.backend.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.backend.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.0.backend.try_lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.backend.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.backend.query_lock_range(start, end)
    }
}

/// Reads through to a base; writes stay here.
pub struct OverlayBackend {
    base: SharedBackend,
    locks: OverlayLocks,
    changes: RwLock<Changes>,
}

/// The party that keeps writers away while the overlay is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OverlayLocks {
    /// The overlay: it takes redb's locks on the base, shared only, so that a reader is refused
    /// while a writer has the file, and the other way round.
    Shared,
    /// Its owner: the base is locked through another backend on it, or nobody writes.
    Held,
}

/// The content that the overlay holds instead of the base.
struct Changes {
    len: u64,
    /// The length up to which the base still shows through.
    base_visible: u64,
    pages: BTreeMap<u64, Box<[u8; PAGE_LEN]>>,
}

impl OverlayBackend {
    /// Lays an empty overlay over `base`.
    pub fn over(base: SharedBackend, locks: OverlayLocks) -> io::Result<Self> {
        let len = base.len()?;
        let pages = BTreeMap::new();
        let changes = Changes { len, base_visible: len, pages };
        Ok(Self { base, locks, changes: RwLock::new(changes) })
    }

    fn lockable_base(&self) -> Result<&SharedBackend, BackendError> {
        match self.locks {
            OverlayLocks::Shared => Ok(&self.base),
            OverlayLocks::Held => Err(BackendError::Unsupported),
        }
    }
}

crate::opaque!(OverlayBackend);

impl StorageBackend for OverlayBackend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.changes.read().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let changes = self.changes.read();
        if end_of(offset, out)? > changes.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if changes.pages.is_empty() && end_of(offset, out)? <= changes.base_visible {
            return self.base.read(offset, out);
        }
        for span in spans(offset, out.len()) {
            let part = &mut out[span.at..span.at + span.len];
            match changes.pages.get(&span.page) {
                Some(page) => part.copy_from_slice(&page[span.start..span.start + span.len]),
                None => read_base(&self.base, changes.base_visible, span.offset(), part)?,
            }
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut changes = self.changes.write();
        if len < changes.len {
            changes.base_visible = changes.base_visible.min(len);
            changes.pages.retain(|page, _| page * PAGE_BYTES < len);
            if let Some(page) = changes.pages.get_mut(&(len / PAGE_BYTES)) {
                page[index_in_page(len)..].fill(0);
            }
        }
        changes.len = len;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut changes = self.changes.write();
        changes.len = changes.len.max(end_of(offset, data)?);
        for span in spans(offset, data.len()) {
            if !changes.pages.contains_key(&span.page) {
                let mut page = Box::new([0; PAGE_LEN]);
                let start = span.page * PAGE_BYTES;
                read_base(&self.base, changes.base_visible, start, page.as_mut_slice())?;
                changes.pages.insert(span.page, page);
            }
            if let Some(page) = changes.pages.get_mut(&span.page) {
                page[span.start..span.start + span.len]
                    .copy_from_slice(&data[span.at..span.at + span.len]);
            }
        }
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        if self.locks == OverlayLocks::Held { Ok(()) } else { self.base.close() }
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.lockable_base()?.try_lock_shared_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.lockable_base()?.try_lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.lockable_base()?.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.lockable_base()?.query_lock_range(start, end)
    }
}

/// A piece of a read or write that lies within one page.
struct Span {
    page: u64,
    start: usize,
    at: usize,
    len: usize,
}

impl Span {
    fn offset(&self) -> u64 {
        self.page * PAGE_BYTES + self.start as u64
    }
}

fn spans(offset: u64, len: usize) -> impl Iterator<Item = Span> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at == len {
            return None;
        }
        let position = offset + at as u64;
        let start = index_in_page(position);
        let span =
            Span { page: position / PAGE_BYTES, start, at, len: (PAGE_LEN - start).min(len - at) };
        at += span.len;
        Some(span)
    })
}

/// Reads what the base still shows and zeroes behind it.
fn read_base(base: &SharedBackend, visible: u64, offset: u64, out: &mut [u8]) -> io::Result<()> {
    let shown = visible.saturating_sub(offset).min(out.len() as u64);
    let shown = usize::try_from(shown).map_err(io::Error::other)?;
    let (from_base, beyond) = out.split_at_mut(shown);
    if !from_base.is_empty() {
        base.read(offset, from_base)?;
    }
    beyond.fill(0);
    Ok(())
}

fn end_of(offset: u64, bytes: &[u8]) -> io::Result<u64> {
    offset.checked_add(bytes.len() as u64).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

fn index_in_page(offset: u64) -> usize {
    (offset % PAGE_BYTES) as usize
}

#[cfg(test)]
#[path = "overlay_tests.rs"]
mod tests;
