//! A journal that is made of another's batches, for backups.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::redb::Database;

use super::super::ack_mark::AckMark;
use super::super::{BatchNumber, JournalError, JournalIdentity};
use super::{BATCHES, META, NOTING, make_file, mark_path, meta, open_file, sync_directory_of};

/// A journal file that batches are copied into; a journal once `finish` has returned.
#[derive(Debug)]
pub struct JournalCopy {
    db: Arc<Database>,
    path: PathBuf,
    identity: JournalIdentity,
    next: Option<BatchNumber>,
}

impl JournalCopy {
    /// Makes the file at `path`, where there is none.
    pub fn create(path: &Path, identity: JournalIdentity) -> Result<Self, JournalError> {
        let db = make_file(open_file(path)?, 0)?;
        let write_txn = db.begin_write()?;
        write_txn.open_table(META)?.insert(meta::KEY, meta::render(&identity).as_slice())?;
        write_txn.open_table(BATCHES)?;
        write_txn.commit()?;
        Ok(Self { db, path: path.to_path_buf(), identity, next: None })
    }

    /// Adds batches, proven by the caller, each the one after the one before.
    /// Cost: one sync.
    pub fn append<'a>(
        &mut self,
        batches: impl IntoIterator<Item = (BatchNumber, &'a [u8])>,
    ) -> Result<(), JournalError> {
        let write_txn = self.db.begin_write()?;
        {
            let mut table = write_txn.open_table(BATCHES)?;
            for (number, bytes) in batches {
                assert!(self.next.is_none_or(|next| next == number), "keys have no holes");
                table.insert(number.0, bytes)?;
                self.next = Some(BatchNumber(number.0 + 1));
            }
        }
        write_txn.commit()?;
        Ok(())
    }

    /// Notes the last batch as acknowledged: whoever opens the copy must find it.
    pub fn finish(self) -> Result<(), JournalError> {
        let last = self.next.map_or(0, |next| next.0 - 1);
        let mark = AckMark::new(open_file(&mark_path(&self.path))?, self.identity.directory_id);
        let noted = mark.prepare().and_then(|()| mark.write(BatchNumber(last)));
        noted.and_then(|()| mark.sync()).map_err(JournalError::io(NOTING))?;
        sync_directory_of(&self.path)
    }
}
