//! What a backup holds besides the engine's files: receipts, settings, the keys of card numbers, which
//! are wrapped, and the manifest, which has the wrapped data key. The master key is left out on purpose:
//! a backup alone shows nobody a card number.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use cardswitch_engine::backup::{Copied, CopyError, CopyStage};
use cardswitch_engine::engine::Engine;
use serde::{Deserialize, Serialize};

use crate::config::CONFIG_FILE;
use crate::manifest::write_manifest;
use crate::master_key::data_key::check_file;
use crate::private_file::{self, copy_private};
use crate::receipts::{RECEIPTS_DIRECTORY, receipt_digest};
use crate::secrets::{PanKeys, Secrets};
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
pub fn back_up(engine: &Engine, secrets: &Secrets, to: &Path) -> Result<Copied, CopyError> {
    let data = engine.directory().path().to_path_buf();
    engine.back_up(to, &mut |copy, stage| add_to_backup((&data, secrets), copy, stage))
}

/// Adds what the engine does not know of to a backup of the directory `data`.
/// Errors: a file cannot be read or written.
pub fn add_to_backup(
    (data, secrets): (&Path, &Secrets),
    backup: &Path,
    stage: CopyStage,
) -> io::Result<()> {
    match stage {
        CopyStage::Underway => {
            copy_settings(data, backup)?;
            copy_pan_keys(data, backup)?;
            copy_receipts(data, backup)
        }
        CopyStage::Whole => {
            // Read now: the master key may have been replaced meanwhile.
            let wrapped = check_file(data, secrets).map_err(io::Error::other)?;
            write_manifest(backup, &wrapped, secrets).map_err(io::Error::other)
        }
    }
}

/// Copies the settings, unless they are there.
/// Errors: they cannot be read or written.
pub fn copy_settings(from: &Path, to: &Path) -> io::Result<()> {
    let copy = to.join(CONFIG_FILE);
    if !copy.try_exists()? {
        copy_private(&from.join(CONFIG_FILE), &copy)?;
    }
    File::open(to)?.sync_all()
}

/// Copies the file whole, as it stands: it is replaced, never changed. A copy that is there already may
/// lack a key that was made meanwhile.
fn copy_pan_keys(from: &Path, to: &Path) -> io::Result<()> {
    match fs::read(PanKeys::path(from)) {
        Ok(content) => private_file::replace(&PanKeys::path(to), &content),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Copies the receipts that are not there yet, and nothing else that stands beside them.
/// Errors: one cannot be read or written.
pub fn copy_receipts(from: &Path, to: &Path) -> io::Result<()> {
    let receipts = from.join(RECEIPTS_DIRECTORY);
    if !receipts.try_exists()? {
        return Ok(());
    }
    let copies = to.join(RECEIPTS_DIRECTORY);
    DirBuilder::new().recursive(true).mode(0o700).create(&copies)?;
    for entry in fs::read_dir(&receipts)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_finished = name.to_str().is_some_and(is_receipt_name);
        if is_finished && entry.file_type()?.is_file() {
            copy_receipt(&receipts.join(&name), &copies.join(&name))?;
        }
    }
    File::open(&copies)?.sync_all()
}

/// Whether a file has its name for good: it never changes then.
fn is_receipt_name(name: &str) -> bool {
    receipt_digest(&format!("{RECEIPTS_DIRECTORY}/{name}")).is_some()
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
    copy_private(from, to).map(drop)
}
