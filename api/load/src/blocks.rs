//! The least cost of anything durable: blocks written into a file that was made ready for them.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The least that a disk writes at once. Units: bytes.
pub const BLOCK_BYTES: usize = 4096;
/// Units: bytes.
const PREALLOCATED_BYTES: u64 = 64 << 20;

/// A file whose blocks were written before, and that is written over again from its start.
#[derive(Debug)]
pub struct PreallocatedFile {
    file: File,
    offset: u64,
    block: Vec<u8>,
}

impl PreallocatedFile {
    /// A new file in `directory`, zeroed and durable, that goes with its last handle.
    /// Errors: those of the disk.
    pub fn create(directory: &Path) -> io::Result<Self> {
        let path = directory.join(format!("blocks-{}", std::process::id()));
        let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        std::fs::remove_file(&path)?;
        let zeroes = vec![0; 1 << 20];
        for _ in 0..PREALLOCATED_BYTES >> 20 {
            file.write_all(&zeroes)?;
        }
        file.sync_all()?;
        Ok(Self { file, offset: 0, block: Vec::new() })
    }

    /// Writes `bytes` in whole blocks; they are durable when it returns.
    /// Errors: those of the disk.
    pub fn write_durably(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.block.clear();
        self.block.extend_from_slice(bytes);
        self.block.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
        let len = self.block.len() as u64;
        if self.offset + len > PREALLOCATED_BYTES {
            self.offset = 0;
        }
        self.file.write_all_at(&self.block, self.offset)?;
        self.file.sync_data()?;
        self.offset += len;
        Ok(())
    }
}
