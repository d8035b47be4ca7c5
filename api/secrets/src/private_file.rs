//! Files that only their owner can read, made and replaced so that a crash leaves the old content or the
//! new one, never a part.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Makes a file that only its owner can read; refuses one that exists.
pub fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// The rights of a file of keys, if more than its owner may read or change it. A file of root may be read by its
/// group: systemd hands over credentials so. Source: systemd.exec(5), `LoadCredential=`.
/// Errors: the system refuses.
pub fn exposing_mode(file: &File) -> io::Result<Option<u32>> {
    let found = file.metadata()?;
    let mode = found.mode() & 0o777;
    let others = if found.uid() == 0 { 0o037 } else { 0o077 };
    Ok((mode & others != 0).then_some(mode))
}

/// The path beside `path` with this ending behind its name.
pub fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(ending);
    path.with_file_name(name)
}

/// Removes a folder and everything in it, if it is there.
/// Errors: the system refuses.
pub fn remove_folder(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The path at which a file is written before it is renamed into its place.
pub fn unfinished(path: &Path) -> PathBuf {
    beside(path, ".new")
}

/// Writes a file beside its place, durably. It replaces a file that a crash left there.
/// Errors: the system refuses.
pub fn write_unfinished(path: &Path, content: &[u8]) -> io::Result<()> {
    let beside = unfinished(path);
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = create_private(&beside)?;
    file.write_all(content)?;
    file.sync_all()?;
    sync_directory_of(path)
}

/// Puts a file that was written beside its place there.
/// Errors: the system refuses; then the file that was there is there.
pub fn finish(path: &Path) -> io::Result<()> {
    fs::rename(unfinished(path), path)?;
    sync_directory_of(path)
}

/// Makes or replaces a file.
/// Errors: the system refuses; then the file that was there is there.
/// Cost: three syncs.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    write_unfinished(path, content)?;
    finish(path)
}

/// Copies a file, whatever the rights of the first one. Returns none where there is no such file.
/// Errors: there is a copy already, or the system refuses.
pub fn copy_private(from: &Path, to: &Path) -> io::Result<Option<u64>> {
    let mut source = match File::open(from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        source => source?,
    };
    let mut copy = create_private(to)?;
    let bytes = io::copy(&mut source, &mut copy)?;
    copy.sync_all()?;
    Ok(Some(bytes))
}

/// Makes a file durable that somebody else wrote, and its name.
/// Errors: the system refuses.
pub fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()?;
    sync_directory_of(path)
}

/// Makes names durable: those in the directory that a file stands in.
pub fn sync_directory_of(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or_else(|| Path::new(".")))?.sync_all()
}
