//! Plain files in a folder that somebody else may write to: opened without following a link, and
//! described while they are read, so that what is described is what was read. Also the files that settings name:
//! links to them are followed.
//!
//! INVARIANT: opening and reading waits for no other process, as that of a pipe would.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};
use sha2::{Digest as _, Sha256};

/// How much of a file is read at a time. Units: bytes.
const READ_BYTES: usize = 256 * 1024;
/// The refusal of what may stand in the place of a file in such a folder.
const NO_PLAIN: &str = "is a link, or no plain file";

/// The content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDigest {
    /// Its length. Units: bytes.
    pub bytes: u64,
    /// Its SHA-256.
    pub sha256: [u8; 32],
}

/// Opens a file for reading, following no link at its end.
/// Errors: `InvalidInput` where it is a link, or no plain file; the system refuses.
pub fn open_plain(path: &Path) -> io::Result<File> {
    open_in(CWD, path, LinkTreatment::Refused)
}

/// Opens a file that a setting names for reading.
/// Errors: `InvalidInput` where it is no plain file; the system refuses.
pub fn open_named(path: &Path) -> io::Result<File> {
    open_in(CWD, path, LinkTreatment::Followed)
}

/// Reads such a file.
/// Errors: those of `open_named`; the system refuses.
pub fn read_named(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    open_named(path)?.read_to_end(&mut content)?;
    Ok(content)
}

/// Copies what is left of `source` to `to`, and describes it.
/// Errors: one cannot be read, or the other written.
pub fn copy_described(source: &mut dyn Read, to: &mut dyn Write) -> io::Result<FileDigest> {
    let (mut hash, mut bytes, mut buffer) = (Sha256::new(), 0, vec![0; READ_BYTES]);
    loop {
        let count = match source.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if count == 0 {
            return Ok(FileDigest { bytes, sha256: hash.finalize().into() });
        }
        hash.update(&buffer[..count]);
        to.write_all(&buffer[..count])?;
        bytes += count as u64;
    }
}

/// A folder that stays the one that was opened, whatever is put at its path meanwhile.
#[derive(Debug)]
pub struct OpenFolder(OwnedFd);

impl OpenFolder {
    /// Opens it; `path` itself may be a link.
    /// Errors: it is no folder, or the system refuses.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(openat(CWD, path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?))
    }

    /// Opens a file below it for reading, following no link on the way.
    /// Errors: `InvalidInput` where something on the way is a link, or it is no plain file; the system
    /// refuses.
    pub fn open_plain(&self, name: &Path) -> io::Result<File> {
        let mut folder = self.0.try_clone()?;
        for part in name.parent().unwrap_or(Path::new("")) {
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            folder = openat(&folder, Path::new(part), flags, Mode::empty())
                .map_err(|error| of_no_plain(error, NO_PLAIN))?;
        }
        open_in(&folder, name.file_name().unwrap_or_default().as_ref(), LinkTreatment::Refused)
    }
}

/// Whether a link at the end of a path is followed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LinkTreatment {
    Followed,
    Refused,
}

fn open_in(folder: impl std::os::fd::AsFd, name: &Path, links: LinkTreatment) -> io::Result<File> {
    let (of_links, refused) = match links {
        LinkTreatment::Followed => (OFlags::empty(), "is no plain file"),
        LinkTreatment::Refused => (OFlags::NOFOLLOW, NO_PLAIN),
    };
    // Opening a pipe waits for nobody this way.
    let flags = OFlags::RDONLY | of_links | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = openat(folder, name, flags, Mode::empty());
    let file = File::from(opened.map_err(|error| of_no_plain(error, refused))?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(no_plain(refused)) }
}

/// The error for a link or a pipe in the place of a file, made of that of the system.
fn of_no_plain(error: rustix::io::Errno, refused: &'static str) -> io::Error {
    use rustix::io::Errno;
    match error {
        Errno::LOOP | Errno::NOTDIR | Errno::NXIO => no_plain(refused),
        error => error.into(),
    }
}

fn no_plain(refused: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, refused)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_link_is_followed_on_the_way_and_nothing_else_is_opened() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        fs::create_dir(at("folder")).unwrap();
        fs::write(at("folder/file"), "content").unwrap();
        symlink("folder", at("linked")).unwrap();
        symlink("file", at("folder/link")).unwrap();
        rustix::fs::mkfifoat(CWD, at("pipe"), Mode::RUSR | Mode::WUSR).unwrap();
        let folder = OpenFolder::open(home.path()).unwrap();
        for (name, refused) in [
            ("folder/file", None),
            ("linked/file", Some(io::ErrorKind::InvalidInput)),
            ("folder/link", Some(io::ErrorKind::InvalidInput)),
            ("folder/file/below", Some(io::ErrorKind::InvalidInput)),
            ("folder", Some(io::ErrorKind::InvalidInput)),
            ("pipe", Some(io::ErrorKind::InvalidInput)),
            ("gone", Some(io::ErrorKind::NotFound)),
        ] {
            let opened = folder.open_plain(Path::new(name)).map(drop);
            assert_eq!(opened.err().map(|error| error.kind()), refused, "{name}");
        }
        open_plain(&at("linked/file")).unwrap();
        assert!(open_plain(&at("folder/link")).is_err());
        // The folder that was opened, not what took its path.
        fs::rename(home.path(), home.path().with_extension("moved")).unwrap();
        folder.open_plain(Path::new("folder/file")).unwrap();
        fs::rename(home.path().with_extension("moved"), home.path()).unwrap();
    }

    /// Once, a certificate that was a pipe stopped the reading of certificates and the stop of the switch.
    #[test]
    fn a_setting_may_name_a_link_to_a_file_and_no_pipe() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        fs::write(at("file"), "content").unwrap();
        symlink("file", at("link")).unwrap();
        rustix::fs::mkfifoat(CWD, at("pipe"), Mode::RUSR | Mode::WUSR).unwrap();
        symlink("pipe", at("link_to_pipe")).unwrap();
        for name in ["file", "link"] {
            assert_eq!(read_named(&at(name)).unwrap(), b"content", "{name}");
        }
        for path in [at("pipe"), at("link_to_pipe"), home.path().into(), "/dev/zero".into()] {
            let refused = read_named(&path).unwrap_err().to_string();
            assert_eq!(refused, "is no plain file", "{}", path.display());
        }
    }

    #[test]
    fn what_is_copied_is_what_is_described() {
        let content = vec![7; READ_BYTES + 1];
        let mut copy = Vec::new();
        let described = copy_described(&mut content.as_slice(), &mut copy).unwrap();
        assert_eq!(copy, content);
        let sha256 = Sha256::digest(&content).into();
        assert_eq!(described, FileDigest { bytes: content.len() as u64, sha256 });
    }
}
