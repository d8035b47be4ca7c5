//! A copy of the tables as one view of them stands: a store of its own, durable when it is made.
//!
//! Rows are copied one by one, not pages: the copy has no trace of what was there before, and none of
//! what others write meanwhile.

use std::fs::OpenOptions;
use std::path::Path;

use super::checkpoint::Checkpoint;
use super::error::StoreError;
use super::tables::{self, META_NUMBERS};
use super::write_back::WriteBackFile;
use super::{Store, builder, io_failure, write_number};

impl Store {
    /// Copies the tables into a new file. Returns how far they have come.
    /// Errors: there is a file, or it cannot be written, or the tables cannot be read.
    /// Cost: reads everything and writes it once. While it goes on, the file of the tables grows.
    pub fn copy_to(&self, path: &Path) -> Result<Checkpoint, StoreError> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path);
        let file = file.map_err(io_failure)?;
        let copy = builder().create_with_backend(WriteBackFile::new(file)?)?;
        let view = self.read()?;
        let (read_txn, numbers) = view.parts();
        tables::copy_all(read_txn, &copy)?;
        let checkpoint = view.checkpoint()?;
        // The copy is a checkpoint: it includes the changes that wait in memory for the next one.
        let mut write_txn = copy.begin_write()?;
        write_txn.set_quick_repair(true);
        numbers.write(&write_txn)?;
        write_number(&write_txn, META_NUMBERS, checkpoint.applied_seq.0)?;
        self.late_holds.add_to(&write_txn)?;
        write_txn.commit()?;
        Ok(checkpoint)
    }
}
