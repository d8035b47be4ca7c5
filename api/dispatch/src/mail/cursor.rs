//! The file `mail/cursor`: the transaction up to which letters about declines were written, as a
//! `TransactionPlace` of the engine's codec.
//!
//! A directory that came out of a backup gives numbers out again: the instant tells two
//! transactions apart.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use cardswitch_engine::codec::{decode, encode};
use cardswitch_engine::domain::ids::{Timestamp, TransactionSeq};
use serde::{Deserialize, Serialize};

use super::limits::CURSOR_INTERVAL;
use super::store::MailStore;

/// A transaction, by its number and by when it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TransactionPlace {
    /// Its number; 0 before the first one.
    pub(super) seq: TransactionSeq,
    /// The instant at which it was made; none before the first one.
    pub(super) at: Option<Timestamp>,
}

pub(super) const NAME: &str = "cursor";

/// The file of the last transaction that was read.
#[derive(Debug)]
pub(super) struct Cursor {
    store: Arc<dyn MailStore>,
    written_at: Duration,
}

impl Cursor {
    /// The cursor beside the letters, at the time `now`.
    pub(super) const fn at(store: Arc<dyn MailStore>, now: Duration) -> Self {
        Self { store, written_at: now }
    }

    /// Whether it was written long ago.
    pub(super) fn is_old(&self, now: Duration) -> bool {
        now.saturating_sub(self.written_at) >= CURSOR_INTERVAL
    }

    /// The place in the file; none where the file is missing.
    /// Errors: it cannot be read, or is not understood.
    pub(super) fn read(&self) -> io::Result<Option<TransactionPlace>> {
        let Some(bytes) = self.store.read(NAME)? else { return Ok(None) };
        decode(&bytes).map(Some).map_err(|error| {
            io::Error::new(io::ErrorKind::InvalidData, format!("`mail/cursor`: {error}"))
        })
    }

    /// Cost: blocks for two syncs.
    pub(super) fn write(&mut self, place: TransactionPlace, now: Duration) -> io::Result<()> {
        self.store.write(NAME, &encode(&place).map_err(io::Error::other)?)?;
        self.written_at = now;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use cardswitch_engine::disk::Disk;
    use cardswitch_engine::journal::testing::FaultyDisk;

    use super::*;
    use crate::mail::store::MailDirectory;

    fn place(seq: u64, at: Option<i64>) -> TransactionPlace {
        TransactionPlace { seq: TransactionSeq(seq), at: at.map(Timestamp) }
    }

    #[test]
    fn the_cursor_is_read_as_it_was_written() {
        let disk = Arc::new(FaultyDisk::default());
        disk.create(".cursor.part").unwrap();
        let store = MailDirectory::open(disk).unwrap();
        let mut cursor = Cursor::at(Arc::new(store), Duration::ZERO);
        assert_eq!(cursor.read().unwrap(), None);
        for written in [place(0, None), place(7, Some(-3)), place(u64::MAX, Some(i64::MAX))] {
            cursor.write(written, Duration::ZERO).unwrap();
            assert_eq!(cursor.read().unwrap(), Some(written));
        }
    }

    #[test]
    fn another_content_is_refused() {
        for content in ["", "many", "12 soon"] {
            let store = MailDirectory::open(Arc::new(FaultyDisk::default())).unwrap();
            store.write(NAME, content.as_bytes()).unwrap();
            let error = Cursor::at(Arc::new(store), Duration::ZERO).read().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{content:?}: {error}");
        }
    }
}
