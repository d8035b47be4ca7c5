//! Files below the journal: the seam under which a disk is real or simulated.
//!
//! A `Disk` is one directory of files. Written bytes are durable only after `write_durably` or
//! `sync`; a new, renamed or removed name is durable only after `sync_names`.
//! The formats of the files must not live here.

use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The access for which a file or a directory is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskAccess {
    /// Reading beside other readers.
    Shared,
    /// Writing, alone.
    Exclusive,
}

/// Whether blocks are allocated for the future content of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reservation {
    /// A write in it finds room on the disk.
    Allocated,
    /// The file system cannot promise room: a write may still find the disk full.
    Promised,
}

/// A directory of files.
pub trait Disk: fmt::Debug + Send + Sync {
    /// Returns the names of all files, in no order.
    fn names(&self) -> io::Result<Vec<String>>;

    /// Opens an existing file.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Makes an empty file under a new name.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Gives a file another name, which no other file has.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file; open handles go on reading it.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes all names durable. Cost: one sync.
    fn sync_names(&self) -> io::Result<()>;
}

/// An open file, usable from any thread.
pub trait DiskFile: fmt::Debug + Send + Sync {
    /// Returns the length. Units: bytes.
    fn len(&self) -> io::Result<u64>;

    /// Tells whether it has no content.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Fills `out` from `offset` on.
    /// Errors: `UnexpectedEof` behind the end.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    /// Writes bytes, which survive a kill but may not survive a power failure.
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Writes `parts` one behind the other, durable when it returns.
    /// Errors: any part of it may be on the disk then, in any order. Cost: one sync.
    fn write_durably(&self, offset: u64, parts: &[&[u8]]) -> io::Result<()>;

    /// Makes the file at least `len` bytes long, with zeroes behind its content.
    fn reserve(&self, len: u64) -> io::Result<Reservation>;

    /// Makes all written bytes durable.
    fn sync(&self) -> io::Result<()>;

    /// Locks the file for as long as it is open; `false` if other locks are in the way.
    fn try_lock(&self, access: DiskAccess) -> io::Result<bool>;
}

/// Adds the path to an error of the system.
pub(crate) fn at_path(path: &Path) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("`{}`: {error}", path.display()))
}

/// A directory of the file system.
#[derive(Debug)]
pub struct RealDisk {
    path: PathBuf,
    access: DiskAccess,
}

impl RealDisk {
    /// Opens the directory at `path` for writing; makes it, with access for its owner only, if
    /// there is none.
    /// Cost: one sync.
    pub fn open(path: &Path) -> io::Result<Self> {
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let above = path.parent().filter(|above| !above.as_os_str().is_empty());
        File::open(above.unwrap_or_else(|| Path::new(".")))?.sync_all()?;
        Ok(Self { path: path.to_path_buf(), access: DiskAccess::Exclusive })
    }

    /// Opens the directory at `path` for reading only.
    /// Errors: `NotFound`, `NotADirectory`.
    pub fn read_only(path: &Path) -> io::Result<Self> {
        if !std::fs::metadata(path)?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self { path: path.to_path_buf(), access: DiskAccess::Shared })
    }

    fn options(&self) -> OpenOptions {
        let mut options = OpenOptions::new();
        options.read(true).write(self.access == DiskAccess::Exclusive).mode(0o600);
        options
    }

    fn opened(&self, name: &str, options: &OpenOptions) -> io::Result<Arc<dyn DiskFile>> {
        let path = self.path.join(name);
        Ok(Arc::new(RealFile { file: options.open(&path).map_err(at_path(&path))? }))
    }
}

impl Disk for RealDisk {
    fn names(&self) -> io::Result<Vec<String>> {
        let name = |entry: io::Result<std::fs::DirEntry>| {
            entry.map(|entry| entry.file_name().to_string_lossy().into_owned())
        };
        std::fs::read_dir(&self.path)?.map(name).collect()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.opened(name, &self.options())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.opened(name, self.options().create_new(true))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

#[derive(Debug)]
struct RealFile {
    file: File,
}

impl DiskFile for RealFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn write_durably(&self, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        write_and_sync(&self.file, offset, parts)
    }

    fn reserve(&self, len: u64) -> io::Result<Reservation> {
        let flags = rustix::fs::FallocateFlags::empty();
        match rustix::fs::fallocate(&self.file, flags, 0, len) {
            Ok(()) => Ok(Reservation::Allocated),
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
                if self.len()? < len {
                    self.file.set_len(len)?;
                }
                Ok(Reservation::Promised)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn try_lock(&self, access: DiskAccess) -> io::Result<bool> {
        let locked = match access {
            DiskAccess::Shared => self.file.try_lock_shared(),
            DiskAccess::Exclusive => self.file.try_lock(),
        };
        match locked {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// Writes with one call of the system that returns when the bytes are durable: a third quicker than
/// a write and a sync, and with a shorter tail (`benches/journal.rs` measures both).
#[cfg(target_os = "linux")]
fn write_and_sync(file: &File, mut offset: u64, parts: &[&[u8]]) -> io::Result<()> {
    use rustix::io::{Errno, ReadWriteFlags, pwritev2};

    let mut slices: Vec<_> = parts.iter().map(|part| io::IoSlice::new(part)).collect();
    let mut slices = slices.as_mut_slice();
    while !slices.is_empty() {
        let together = slices.len().min(WRITTEN_TOGETHER_MAX);
        match pwritev2(file, &slices[..together], offset, ReadWriteFlags::DSYNC) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                offset += written as u64;
                io::IoSlice::advance_slices(&mut slices, written);
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Parts that one call of the system takes: `IOV_MAX`.
#[cfg(target_os = "linux")]
const WRITTEN_TOGETHER_MAX: usize = 1024;

#[cfg(not(target_os = "linux"))]
fn write_and_sync(file: &File, mut offset: u64, parts: &[&[u8]]) -> io::Result<()> {
    for part in parts {
        file.write_all_at(part, offset)?;
        offset += part.len() as u64;
    }
    file.sync_data()
}
