//! What a backup holds besides the engine's files: receipts, settings and the keys of card numbers, which
//! are wrapped. The master key is left out on purpose: a backup alone shows nobody a card number.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use cardswitch_engine::backup::{Copied, CopyError};
use cardswitch_engine::engine::Engine;
use serde::{Deserialize, Serialize};

use crate::config::CONFIG_FILE;
use crate::receipts::RECEIPTS_DIRECTORY;
use crate::secrets::PanKeys;
use crate::wire::time::render_time;

/// What a finished copy is, in words that programs read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyReport {
    /// The newest record.
    pub records: u64,
    /// When its command was accepted.
    pub as_of: String,
    /// What tables and journal take. Units: bytes.
    pub bytes: u64,
}

impl From<Copied> for CopyReport {
    fn from(copied: Copied) -> Self {
        let Copied { last_seq, last_at, bytes } = copied;
        Self { records: last_seq.0, as_of: render_time(last_at), bytes }
    }
}

/// Makes a backup of a running switch.
/// Errors: as the engine's.
pub fn back_up(engine: &Engine, to: &Path) -> Result<Copied, CopyError> {
    let data = engine.directory().path().to_path_buf();
    engine.back_up(to, &mut |copy| copy_beside(&data, copy))
}

/// Copies the files that the engine does not know of, those that are not there yet.
/// Errors: one cannot be read or written.
pub fn copy_beside(from: &Path, to: &Path) -> io::Result<()> {
    let settings = from.join(CONFIG_FILE);
    if settings.try_exists()? && !to.join(CONFIG_FILE).try_exists()? {
        fs::copy(&settings, to.join(CONFIG_FILE))?;
        File::open(to.join(CONFIG_FILE))?.sync_all()?;
    }
    copy_pan_keys(from, to)?;
    copy_receipts(from, to)?;
    File::open(to)?.sync_all()
}

/// Copies the file whole, as it stands: it is replaced, never changed. A copy that is there already may
/// lack a key that was made meanwhile.
fn copy_pan_keys(from: &Path, to: &Path) -> io::Result<()> {
    let copy = PanKeys::path(to);
    match fs::copy(PanKeys::path(from), &copy) {
        Ok(_) => File::open(copy)?.sync_all(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn copy_receipts(from: &Path, to: &Path) -> io::Result<()> {
    let receipts = from.join(RECEIPTS_DIRECTORY);
    if !receipts.try_exists()? {
        return Ok(());
    }
    let copies = to.join(RECEIPTS_DIRECTORY);
    DirBuilder::new().recursive(true).mode(0o700).create(&copies)?;
    for entry in fs::read_dir(&receipts)? {
        let name = entry?.file_name();
        if is_finished(&name) {
            copy_receipt(&receipts.join(&name), &copies.join(&name))?;
        }
    }
    File::open(&copies)?.sync_all()
}

/// Whether a file has its name for good: it never changes then.
fn is_finished(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| !name.contains('.'))
}

/// A receipt that is gone meanwhile was deleted: nothing names it.
fn copy_receipt(from: &Path, to: &Path) -> io::Result<()> {
    if to.try_exists()? {
        return Ok(());
    }
    match fs::hard_link(from, to) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        // Another file system, or one without links.
        Err(_) => {}
    }
    match fs::copy(from, to) {
        Ok(_) => File::open(to)?.sync_all(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
