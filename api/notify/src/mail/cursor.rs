//! The file `mail/cursor`: the transaction up to which letters about declines were written. One
//! line of text:
//!
//! | text | is |
//! |---|---|
//! | `SEQ AT` | the transaction, and when it was made (microseconds since 1970; `-` before the first one) |
//!
//! A directory that came out of a backup gives numbers out again: the instant tells two
//! transactions apart.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use cardswitch_engine::domain::ids::{Timestamp, TransactionSeq};

use super::limits::CURSOR_INTERVAL;

/// A transaction, by its number and by when it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TransactionPlace {
    /// Its number; 0 before the first one.
    pub(super) seq: TransactionSeq,
    /// The instant at which it was made; none before the first one.
    pub(super) at: Option<Timestamp>,
}

/// The file of the last transaction that was read.
pub(super) struct Cursor {
    path: PathBuf,
    written_at: Instant,
}

impl Cursor {
    /// The cursor of a directory.
    pub(super) fn at(directory: &Path) -> Self {
        Self { path: directory.join("cursor"), written_at: Instant::now() }
    }

    /// Whether it was written long ago.
    pub(super) fn is_old(&self) -> bool {
        self.written_at.elapsed() >= CURSOR_INTERVAL
    }

    /// The place in the file; none where the file is missing.
    /// Errors: it cannot be read, or is not understood.
    pub(super) fn read(&self) -> io::Result<Option<TransactionPlace>> {
        match fs::read_to_string(&self.path) {
            Ok(text) => parse(&text).map(Some).map_err(|why| {
                io::Error::new(io::ErrorKind::InvalidData, format!("`mail/cursor` {why}"))
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Cost: blocks for two syncs.
    pub(super) fn write(&mut self, place: TransactionPlace) -> io::Result<()> {
        let unfinished = self.path.with_extension("part");
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&unfinished)?;
        file.write_all(render(place).as_bytes())?;
        file.sync_data()?;
        fs::rename(&unfinished, &self.path)?;
        self.written_at = Instant::now();
        self.path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
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
    use super::*;

    fn place(seq: u64, at: Option<i64>) -> TransactionPlace {
        TransactionPlace { seq: TransactionSeq(seq), at: at.map(Timestamp) }
    }

    #[test]
    fn the_cursor_is_read_as_it_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let mut cursor = Cursor::at(directory.path());
        assert_eq!(cursor.read().unwrap(), None);
        for written in [place(0, None), place(7, Some(-3)), place(u64::MAX, Some(i64::MAX))] {
            cursor.write(written).unwrap();
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
