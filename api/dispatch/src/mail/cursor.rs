//! The file `mail/cursor`: the transaction up to which letters about declines were written. One
//! line of text:
//!
//! | text | is |
//! |---|---|
//! | `SEQ AT` | the transaction, and when it was made (microseconds since 1970; `-` before the first one) |
//!
//! A directory that came out of a backup gives numbers out again: the instant tells two
//! transactions apart.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use cardswitch_engine::domain::ids::{Timestamp, TransactionSeq};

use super::limits::CURSOR_INTERVAL;
use super::store::MailStore;

/// A transaction, by its number and by when it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
        parse(&String::from_utf8_lossy(&bytes)).map(Some).map_err(|why| {
            io::Error::new(io::ErrorKind::InvalidData, format!("`mail/cursor` {why}"))
        })
    }

    /// Cost: blocks for two syncs.
    pub(super) fn write(&mut self, place: TransactionPlace, now: Duration) -> io::Result<()> {
        self.store.write(NAME, render(place).as_bytes())?;
        self.written_at = now;
        Ok(())
    }
}

fn render(TransactionPlace { seq, at }: TransactionPlace) -> String {
    let at = at.map_or_else(|| "-".to_owned(), |at| at.0.to_string());
    format!("{} {at}", seq.0)
}

/// Errors: why it is not understood.
fn parse(text: &str) -> Result<TransactionPlace, String> {
    let not_understood = || format!("is not understood: `{}`", text.trim());
    let (seq, at) = text.split_once(' ').ok_or_else(not_understood)?;
    let seq = seq.parse().map(TransactionSeq).map_err(|_| not_understood())?;
    let at = match at {
        "-" => None,
        at => Some(at.parse().map(Timestamp).map_err(|_| not_understood())?),
    };
    Ok(TransactionPlace { seq, at })
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
    fn another_text_is_refused() {
        for text in ["", "many", "12", "12 soon", "many 3", "1 2 3", "-1 3", "12  -"] {
            assert!(parse(text).unwrap_err().contains("not understood"), "{text:?}");
        }
    }
}
