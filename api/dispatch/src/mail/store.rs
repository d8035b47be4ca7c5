//! The place where files of mail are kept: a directory of this machine, or the notes of the node that leads a
//! cluster (`NotedMail`).

use std::io;
use std::sync::Arc;

use cardswitch_engine::disk::Disk;

use super::limits::FILE_BYTES_MAX;

/// Whole files, which outlive the process.
pub trait MailStore: std::fmt::Debug + Send + Sync {
    /// The names of all files, in no order; others may be among them, which mail did not make.
    fn names(&self) -> io::Result<Vec<String>>;

    /// A file's content; none where there is no such file.
    /// Errors: `FileTooLarge` beyond `FILE_BYTES_MAX`; it cannot be read.
    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>>;

    /// Writes a file whole and durable. A file of its name is replaced.
    /// Errors: the file is not there, or as it was, or whole and perhaps not durable.
    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Removes a file. Returns whether it was there.
    fn remove(&self, name: &str) -> io::Result<bool>;
}

/// Files in a directory.
#[derive(Debug)]
pub struct MailDirectory(Arc<dyn Disk>);

impl MailDirectory {
    /// The files of a directory, without those that a crash cut short: no caller learned of them.
    /// Errors: the directory cannot be read or tidied.
    pub fn open(disk: Arc<dyn Disk>) -> io::Result<Self> {
        for name in disk.names()?.into_iter().filter(|name| is_unfinished(name)) {
            disk.remove(&name)?;
        }
        Ok(Self(disk))
    }
}

impl MailStore for MailDirectory {
    fn names(&self) -> io::Result<Vec<String>> {
        self.0.names()
    }

    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let file = match self.0.open(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let len = file.len()?;
        if len > FILE_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
        file.read(0, &mut bytes)?;
        Ok(Some(bytes))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        write_whole(&*self.0, name, bytes)
    }

    fn remove(&self, name: &str) -> io::Result<bool> {
        match self.0.remove(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            removed => removed.map(|()| true),
        }
    }
}

/// Writes a file whole and durable, under another name until then. A file of its name is replaced,
/// and an unfinished one that a crash left.
/// Errors: the file is not there, or as it was, or whole and perhaps not durable.
pub fn write_whole(disk: &dyn Disk, name: &str, bytes: &[u8]) -> io::Result<()> {
    let unfinished = &format!(".{name}.part");
    let write = || {
        match disk.remove(unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = disk.create(unfinished)?;
        file.write(0, bytes)?;
        file.sync()?;
        disk.rename(unfinished, name)
    };
    write().inspect_err(|_| drop(disk.remove(unfinished)))?;
    disk.sync_names()
}

fn is_unfinished(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(".part")
}
