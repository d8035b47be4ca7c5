//! The parts of a backup besides the engine's files: receipts, settings, the wrapped keys of card
//! numbers, the places of webhooks, and the manifest, which has the wrapped data key. The master key is
//! left out on purpose: a backup alone shows no card number.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use cardswitch_engine::backup::{CopyBeside, CopyError, CopyStage, CopySummary};
use cardswitch_engine::engine::Engine;
use cardswitch_identity::receipts::{RECEIPTS_DIRECTORY, receipt_digest};
use cardswitch_notify::webhooks::places_file;
use cardswitch_secrets::master_key::data_key::check_file;
use cardswitch_secrets::plain_file::{copy_described, open_plain};
use cardswitch_secrets::private_file::{self, copy_private, create_private};
use cardswitch_secrets::{PanKeys, Secrets};
use cardswitch_wire::time::render_time;
use serde::{Deserialize, Serialize};

use crate::config::CONFIG_FILE;
use crate::manifest::write_manifest;

/// The report on a finished copy, for programs to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyReport {
    /// The newest record.
    pub records: u64,
    /// When its command was accepted.
    pub as_of: String,
    /// The size of tables and journal. Units: bytes.
    pub bytes: u64,
    /// Files of receipts whose content does not match their names. They were left out.
    pub damaged_receipts: DamagedReceipts,
}

/// The names of damaged receipts, below the data directory.
pub type DamagedReceipts = BTreeSet<String>;

impl CopyReport {
    /// The report on a finished copy.
    pub fn new(copied: CopySummary, damaged_receipts: DamagedReceipts) -> Self {
        let CopySummary { last_seq, last_at, bytes, .. } = copied;
        Self { records: last_seq.0, as_of: render_time(last_at), bytes, damaged_receipts }
    }
}

/// Makes a backup of a running switch.
/// Errors: as the engine's.
pub fn back_up(engine: &Engine, secrets: &Secrets, to: &Path) -> Result<CopyReport, CopyError> {
    let data = engine.directory.path().to_path_buf();
    let mut damaged = DamagedReceipts::new();
    let mut add = |copy: &Path, stage| add_to_backup((&data, secrets), copy, stage, &mut damaged);
    let copied = engine.back_up(to, CopyBeside::new(receipts_bytes(&data)?, &mut add))?;
    Ok(CopyReport::new(copied, damaged))
}

/// The size of the receipts of a data directory. Units: bytes.
/// Errors: the system refuses.
pub fn receipts_bytes(data: &Path) -> Result<u64, CopyError> {
    let receipts = data.join(RECEIPTS_DIRECTORY);
    let files = match fs::read_dir(&receipts) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        files => files,
    };
    let len_of = |entry: io::Result<fs::DirEntry>| match entry?.metadata() {
        // A receipt was deleted meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        found => found.map(|found| found.len()),
    };
    let bytes = files.and_then(|mut files| files.try_fold(0, |sum, file| Ok(sum + len_of(file)?)));
    bytes.map_err(|error| CopyError::Io(receipts, error))
}

/// Adds the files that the engine does not know to a backup of the directory `data`.
/// Errors: a file cannot be read or written.
pub fn add_to_backup(
    (data, secrets): (&Path, &Secrets),
    backup: &Path,
    stage: CopyStage,
    damaged: &mut DamagedReceipts,
) -> io::Result<()> {
    match stage {
        CopyStage::Underway => {
            copy_settings(data, backup)?;
            copy_pan_keys(data, backup)?;
            places_file::copy(data, backup)?;
            copy_receipts(data, backup, damaged)
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

/// Copies the receipts that are not there yet, and nothing else that stands beside them. A receipt whose
/// content does not match its name is left out and added to `damaged`: it would not be served, and a
/// backup with it would be refused.
/// Errors: one cannot be read or written.
pub fn copy_receipts(from: &Path, to: &Path, damaged: &mut DamagedReceipts) -> io::Result<()> {
    let receipts = from.join(RECEIPTS_DIRECTORY);
    if !receipts.try_exists()? {
        return Ok(());
    }
    let copies = to.join(RECEIPTS_DIRECTORY);
    DirBuilder::new().recursive(true).mode(0o700).create(&copies)?;
    for entry in fs::read_dir(&receipts)? {
        let entry = entry?;
        let name = format!("{RECEIPTS_DIRECTORY}/{}", entry.file_name().display());
        // Without its digest it is not finished, or no receipt.
        let Some(digest) = receipt_digest(&name) else { continue };
        if entry.file_type()?.is_file() && !to.join(&name).try_exists()? {
            // Meanwhile it may have been uploaded again, or be whole in another directory.
            if copy_receipt(&from.join(&name), &to.join(&name), &digest)? {
                damaged.insert(name);
            } else {
                damaged.remove(&name);
            }
        }
    }
    File::open(&copies)?.sync_all()
}

/// Copies a receipt, always: a file with two names would change in both places. Returns whether it is
/// damaged; a receipt that is gone meanwhile was deleted, and no record names it.
fn copy_receipt(from: &Path, to: &Path, digest: &[u8; 32]) -> io::Result<bool> {
    let mut source = match open_plain(from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        source => source?,
    };
    let mut copy = create_private(to)?;
    if copy_described(&mut source, &mut copy)?.sha256 == *digest {
        copy.sync_all()?;
        return Ok(false);
    }
    fs::remove_file(to)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use cardswitch_secrets::hex::to_hex;
    use sha2::{Digest as _, Sha256};

    use super::*;

    fn name_of(content: &[u8]) -> String {
        format!("{RECEIPTS_DIRECTORY}/{}", to_hex(&Sha256::digest(content)))
    }

    #[test]
    fn receipts_are_copied_private_and_proven_and_nothing_beside_them() {
        let home = tempfile::tempdir().unwrap();
        let [data, copy] = ["data", "copy"].map(|name| home.path().join(name));
        fs::create_dir_all(data.join(RECEIPTS_DIRECTORY)).unwrap();
        let [whole, rotten, linked] = [&b"whole"[..], b"rotten", b"elsewhere"].map(name_of);
        fs::write(data.join(&whole), "whole").unwrap();
        fs::set_permissions(data.join(&whole), fs::Permissions::from_mode(0o644)).unwrap();
        fs::write(data.join(&rotten), "gotten").unwrap();
        fs::write(home.path().join("elsewhere"), "elsewhere").unwrap();
        symlink(home.path().join("elsewhere"), data.join(&linked)).unwrap();
        fs::write(data.join(format!("{whole}.1.part")), "who").unwrap();
        fs::write(data.join("receipts/letter"), "").unwrap();
        let bytes =
            [&b"whole"[..], b"gotten", b"who"].map(<[u8]>::len).iter().sum::<usize>() as u64;
        assert!(receipts_bytes(&data).unwrap() >= bytes);
        assert_eq!(receipts_bytes(&copy).unwrap(), 0);
        let mut damaged = DamagedReceipts::new();
        for _ in 0..2 {
            copy_receipts(&data, &copy, &mut damaged).unwrap();
            assert_eq!(damaged, DamagedReceipts::from([rotten.clone()]));
            let names = fs::read_dir(copy.join(RECEIPTS_DIRECTORY)).unwrap();
            let names: Vec<_> = names.map(|entry| entry.unwrap().path()).collect();
            assert_eq!(names, [copy.join(&whole)]);
        }
        let [first, second] = [&data, &copy].map(|at| fs::metadata(at.join(&whole)).unwrap());
        assert_ne!(first.ino(), second.ino(), "one file with two names");
        assert_eq!(second.permissions().mode() & 0o777, 0o600);
        fs::write(data.join(&rotten), "rotten").unwrap();
        copy_receipts(&data, &copy, &mut damaged).unwrap();
        assert!(damaged.is_empty() && copy.join(&rotten).exists(), "it was uploaded again");
    }
}
