//! The file of the tables, whose pages go to the disk while they are written.
//!
//! redb keeps what is visible but not durable in memory, and writes all of it at a checkpoint. Left
//! to the sync at its end, it would reach the disk as one burst of some tens of megabytes, behind
//! which the journal's syncs, and so all answers, would wait. Here the system is asked to begin
//! after each piece: a sync of the journal waits for a piece at most.
//!
//! INVARIANT: nothing is promised here. redb syncs all that must be durable, as ever.

#![expect(unsafe_code, reason = "the call that starts writing has no safe form")]

use std::fs::File;
use std::io;
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};

use redb::backends::FileBackend;
use redb::{BackendError, DatabaseError, StorageBackend};

use crate::limits;

/// A file that redb writes.
#[derive(Debug)]
pub(super) struct WriteBackFile {
    inner: FileBackend,
    file: File,
    /// Written since the system was last asked to begin. Units: bytes.
    waiting: AtomicUsize,
}

impl WriteBackFile {
    pub(super) fn new(file: File) -> Result<Self, DatabaseError> {
        let again = file.try_clone().map_err(redb::StorageError::Io)?;
        Ok(Self { inner: FileBackend::new(file)?, file: again, waiting: AtomicUsize::new(0) })
    }

    /// Has the system begin to write what it holds of the file; waits for nothing.
    fn begin_writing(&self) {
        #[cfg(target_os = "linux")]
        {
            use std::os::fd::AsRawFd;
            // SAFETY: takes no memory; the descriptor is open as long as `self`. A refusal changes
            // nothing: the sync at the end writes all the same, and reports what fails.
            unsafe {
                libc::sync_file_range(self.file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE)
            };
        }
    }
}

impl StorageBackend for WriteBackFile {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.inner.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.waiting.store(0, Ordering::Relaxed);
        self.inner.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.inner.write(offset, data)?;
        let waiting = self.waiting.fetch_add(data.len(), Ordering::Relaxed) + data.len();
        if waiting >= limits::WRITE_BACK_BYTES {
            self.waiting.store(0, Ordering::Relaxed);
            self.begin_writing();
        }
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.inner.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.inner.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.inner.try_lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.inner.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.inner.query_lock_range(start, end)
    }
}
