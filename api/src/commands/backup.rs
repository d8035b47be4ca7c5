//! `cardswitch backup` and `cardswitch restore`.

use std::io;
use std::path::{Path, PathBuf};

use cardswitch_cluster::ClusterAddress;
use cardswitch_engine::backup::{
    CopyBeside, CopyError, CopyStage, RestoreRequest, copy_at_rest, restore as restore_engine,
};
use cardswitch_engine::data_directory::{DataDirectory, DirectoryError};
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::inspection::Inspection;
use cardswitch_engine::store::Store;
use cardswitch_secrets::master_key::data_key::{
    DATA_KEY_FILE, DataKey, DataKeyError, WrappedKey, check_file, open_keys, read_wrapped,
    write_wrapped,
};
use cardswitch_secrets::master_key::source::{MasterKeyArgs, MasterKeySource};
use cardswitch_secrets::master_key::{MASTER_KEY_FILE, MasterKey};
use cardswitch_secrets::{PanKeys, PanKeysError, Secrets};
use cardswitch_wire::time::parse_time;
use serde::Serialize;

use super::Failure;
use super::running::ask_running;
use crate::backup::{
    CopyReport, DamagedReceipts, add_to_backup, copy_receipts, copy_settings, receipts_bytes,
};
use crate::control::ControlRequest;
use crate::manifest::{Manifest, ManifestError, is_backup};
use crate::node_mark::mark;
use crate::staging::Staging;

/// The arguments of `backup`.
#[derive(Debug, clap::Args)]
pub struct BackupArgs {
    /// Data directory, in use by a running switch or at rest
    #[arg(long, env = "CARDSWITCH_DATA", value_name = "DIR")]
    data: PathBuf,
    /// Directory to make; a running switch makes it itself and needs the right to
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    #[command(flatten)]
    master_key: MasterKeyArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The arguments of `restore`.
#[derive(Debug, clap::Args)]
pub struct RestoreArgs {
    /// The backup
    #[arg(long, value_name = "DIR")]
    from: PathBuf,
    /// Data directory to make
    #[arg(long, env = "CARDSWITCH_DATA", value_name = "DIR")]
    data: PathBuf,
    #[command(flatten)]
    master_key: MasterKeyArgs,
    /// Do not copy the master key from its file into the new directory
    #[arg(long)]
    no_key_copy: bool,
    /// Go on with the journal of this directory, where the backup's ends: the lost one, or a later
    /// backup
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
    /// Leave out records that were accepted after this time (RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = parse_until)]
    until: Option<Timestamp>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// The cluster whose node the directory is from the moment on when it stands at its place
    #[arg(skip)]
    cluster: Option<ClusterAddress>,
}

impl RestoreArgs {
    /// The directory of a node at `data`, out of all of the backup `from`.
    pub fn for_node(
        from: PathBuf,
        data: PathBuf,
        master_key: MasterKeyArgs,
        no_key_copy: bool,
        cluster: ClusterAddress,
    ) -> Self {
        let (journal, until, json, cluster) = (None, None, false, Some(cluster));
        Self { from, data, master_key, no_key_copy, journal, until, json, cluster }
    }
}

fn parse_until(text: &str) -> Result<Timestamp, String> {
    parse_time(text).ok_or_else(|| "write a time such as 2026-03-04T12:00:00Z".to_owned())
}

/// Carries out `backup`.
/// Errors: something is there already, or a file cannot be read or written; or it was made, and lacks
/// receipts that are damaged.
pub async fn back_up(args: BackupArgs) -> Result<(), Failure> {
    let to = std::path::absolute(&args.to)?;
    refuse_inside(&to, &args.data)?;
    let report = match at_rest(&args, &to) {
        Err(AtRestError::InUse) => ask_running(&args.data, &ControlRequest::BackUp { to }).await?,
        Err(AtRestError::Failed(failure)) => return Err(failure),
        Ok(report) => report,
    };
    if args.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        println!("made backup {}: {}", args.to.display(), in_words(&report));
        println!(
            "The master key is not in it: keep {MASTER_KEY_FILE} apart, `restore` and `verify` ask for it."
        );
    }
    whole(&report, &args.to)
}

/// Errors: the backup would lie in the directory that it is to outlive.
fn refuse_inside(to: &Path, data: &Path) -> Result<(), Failure> {
    let Ok(data) = data.canonicalize() else { return Ok(()) };
    let above = to.ancestors().find_map(|above| above.canonicalize().ok());
    if above.is_some_and(|above| above.starts_with(&data)) {
        let what = "lies in the data directory, with which it would be lost";
        return Err(Failure::usage(format!("`{}` {what}", to.display())));
    }
    Ok(())
}

/// Tells of receipts that are not in a copy that was made.
fn whole(report: &CopyReport, copy: &Path) -> Result<(), Failure> {
    let damaged = &report.damaged_receipts;
    let Some(first) = damaged.first() else { return Ok(()) };
    Err(Failure::new(format!(
        "`{}` is made, without {} of the receipts: what is in the file is not what its name says, as \
         of `{first}`; put back such a file from an earlier backup, or have the receipt uploaded again",
        copy.display(),
        damaged.len(),
    )))
}

/// Why a directory at rest was not copied.
enum AtRestError {
    /// It is not at rest.
    InUse,
    Failed(Failure),
}

fn at_rest(args: &BackupArgs, to: &Path) -> Result<CopyReport, AtRestError> {
    let failed = |error: &dyn std::fmt::Display| AtRestError::Failed(Failure::new(error));
    // Nobody replaces a key meanwhile.
    let _lock = match DataDirectory::open_read_only(&args.data) {
        Err(DirectoryError::InUse(_)) => return Err(AtRestError::InUse),
        opened => opened.map_err(|error| failed(&error))?,
    };
    if is_backup(&args.data) {
        let what = "is a backup already: copy it with any program for files";
        return Err(failed(&format!("`{}` {what}", args.data.display())));
    }
    let keys = open_keys(&args.data, &args.master_key.source());
    let secrets = keys.map_err(|error| failed(&error))?.secrets;
    // Without a key that is in use the backup would be one that nobody can serve.
    require_pan_keys(&args.data, &secrets).map_err(AtRestError::Failed)?;
    let data = (args.data.as_path(), &secrets);
    let mut damaged = DamagedReceipts::new();
    let mut add = |copy: &Path, stage| add_to_backup(data, copy, stage, &mut damaged);
    let bytes = receipts_bytes(data.0).map_err(|error| failed(&error))?;
    let copied = copy_at_rest(data.0, to, CopyBeside::new(bytes, &mut add));
    copied.map(|copied| CopyReport::new(copied, damaged)).map_err(|error| failed(&error))
}

/// Errors: a key of card numbers that is in use is missing or damaged.
/// Cost: projects what the tables have not yet.
fn require_pan_keys(data: &Path, secrets: &Secrets) -> Result<(), Failure> {
    let kept = secrets.read_pan_keys(data)?;
    let needed = Inspection::open(data)?.store().needed_pan_generations()?;
    kept.require(needed, data).map_err(Failure::new)
}

/// Errors: the tables of a restored directory need a key that was forgotten since.
fn require_forgotten(kept: &PanKeys, tables: &Store) -> Result<(), String> {
    let needed = tables.needed_pan_generations().map_err(|error| error.to_string())?;
    match kept.lacking(needed) {
        Some(missing) => Err(format!(
            "as of then generation {} of the key of card numbers is in use, which neither the backup nor the \
             journal's directory has: it was forgotten since. Restore to another moment, or from a backup of \
             that time",
            missing.0
        )),
        None => Ok(()),
    }
}

/// Carries out `restore`.
/// Errors: the key is another one, something is there already, the backup or a journal is damaged,
/// they do not meet, or a key that is needed as of then was forgotten.
pub fn restore(args: &RestoreArgs) -> Result<(), Failure> {
    let source = args.master_key.source();
    let manifest = Manifest::read(&args.from)?;
    let master = source.read_apart(&args.from)?;
    let (secrets, data_key) = keys_of(&manifest, args, &master)?;
    let staging = Staging::make(&args.data)?;
    let proven = ProvenSources::copy(args, (&manifest, &secrets), &staging)?;
    let pan_keys = pan_keys_of(&secrets, &proven)?;
    let directory = manifest.wrapped.directory;
    let wrapped = WrappedKey::wrap(&data_key, &master, directory)?;
    let is_copied = matches!(source, MasterKeySource::File(_)) && !args.no_key_copy;
    let check = |tables: &Store| require_forgotten(&pan_keys, tables);
    let wanted = RestoreRequest {
        further_journal: proven.journal.as_deref(),
        until: args.until,
        check: Some(&check),
    };
    let mut damaged = DamagedReceipts::new();
    let mut beside = |copy: &Path, stage: CopyStage| {
        if stage == CopyStage::Underway {
            copy_settings(&proven.backup, copy)?;
            copy_receipts(&proven.backup, copy, &mut damaged)?;
            // Receipts that came after the backup stand with the journal that tells of them.
            let journals = &mut proven.journal.iter();
            return journals.try_for_each(|journal| copy_receipts(journal, copy, &mut damaged));
        }
        if let Some(cluster) = &args.cluster {
            mark(copy, cluster, None).map_err(io::Error::other)?;
        }
        if pan_keys != PanKeys::default() {
            secrets.write_pan_keys(copy, &pan_keys).map_err(io::Error::other)?;
        }
        if is_copied {
            master.write_new(&copy.join(MASTER_KEY_FILE)).map_err(io::Error::other)?;
        }
        write_wrapped(copy, &wrapped, &secrets).map_err(io::Error::other)
    };
    let beside = CopyBeside::new(receipts_bytes(&proven.backup)?, &mut beside);
    let copied = restore_engine(&proven.backup, &args.data, &wanted, beside);
    let copied = copied.map_err(|error| Failure::new(of_backup(error, args)))?;
    let is_outdated = args.cluster.is_none() && (args.journal.is_none() || copied.is_cut);
    let copy = CopyReport::new(copied, damaged);
    let revived_access = is_outdated.then(|| revived_after(&copy.as_of));
    if args.json {
        let report = RestoreReport { copy: &copy, revived_access };
        println!("{}", serde_json::to_string(&report)?);
    } else {
        println!("restored {}: {}", args.data.display(), in_words(&copy));
        let key = if is_copied { String::new() } else { flag_of(&source) };
        revived_access.iter().for_each(|told| println!("{told}"));
        println!("Next: cardswitch verify --data {}{key}", args.data.display());
    }
    whole(&copy, &args.data)
}

/// The report on a restored directory, for programs to read.
#[derive(Debug, Serialize)]
struct RestoreReport<'a> {
    #[serde(flatten)]
    copy: &'a CopyReport,
    /// The access that has to be revoked anew, in words; null where the directory has the newest record.
    revived_access: Option<String>,
}

fn revived_after(as_of: &str) -> String {
    format!(
        "Access that was revoked after {as_of} is valid again: revoke tokens, passwords, sessions, second \
         factors, webhook secrets, the network key and exchanged zone keys anew."
    )
}

/// The flag that names the source of a master key once more, quoted for a shell.
fn flag_of(source: &MasterKeySource) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    match source {
        MasterKeySource::InDirectory => String::new(),
        MasterKeySource::File(path) | MasterKeySource::Credential(path) => {
            format!(" --master-key {}", quoted(&path.display().to_string()))
        }
        MasterKeySource::Command(command) => {
            format!(" --master-key-command {}", quoted(command))
        }
    }
}

/// Names the backup, not the copy of it that is gone when this is read.
fn of_backup(error: CopyError, args: &RestoreArgs) -> CopyError {
    match error {
        CopyError::Directory(DirectoryError::OtherLayouts(_)) => {
            DirectoryError::OtherLayouts(args.from.clone()).into()
        }
        error => error,
    }
}

/// The keys of a backup. If the master key was replaced between it and the further journal, either
/// key will do: the journal's directory has the data key, too.
/// Errors: the master key is another one.
fn keys_of(
    manifest: &Manifest,
    args: &RestoreArgs,
    master: &MasterKey,
) -> Result<(Secrets, DataKey), ManifestError> {
    let later = |journal: &PathBuf| {
        wrapped_of(journal).ok().filter(|later| later.directory == manifest.wrapped.directory)
    };
    let later = args.journal.as_ref().and_then(later);
    let data_key = match manifest.wrapped.open_with(master, &manifest.path()) {
        Ok(data_key) => data_key,
        Err(error) => {
            later.and_then(|later| later.open(master)).ok_or(ManifestError::Keys(error))?
        }
    };
    Ok((Secrets::from_root(*data_key), data_key))
}

/// The sources of a directory, in a place where no other process writes.
struct ProvenSources {
    backup: PathBuf,
    /// A copy as well, where it is a later backup; else the lost directory, which has the same keys
    /// and is taken as it lies: no manifest tells what it was.
    journal: Option<PathBuf>,
}

impl ProvenSources {
    /// Copies backups to where only this process writes, and proves the copies.
    /// Errors: a file was changed, or they are of two directories.
    fn copy(
        args: &RestoreArgs,
        (manifest, secrets): (&Manifest, &Secrets),
        staging: &Staging,
    ) -> Result<Self, ManifestError> {
        let lost = args.journal.as_ref().filter(|journal| !is_backup(journal));
        if let Some(lost) = lost {
            // Before anything is copied.
            let found = read_wrapped(lost).map_err(ManifestError::Keys)?;
            if found.directory != manifest.wrapped.directory {
                let other = DataKeyError::OtherDirectory(lost.join(DATA_KEY_FILE));
                return Err(ManifestError::Keys(other));
            }
            check_file(lost, secrets).map_err(ManifestError::Keys)?;
        }
        let backup = staging.take(manifest, secrets, "backup")?;
        let journal = match &args.journal {
            Some(journal) if lost.is_none() => {
                Some(staging.take(&Manifest::read(journal)?, secrets, "journal")?)
            }
            lost => lost.clone(),
        };
        Ok(Self { backup, journal })
    }
}

/// The keys of card numbers of the backup, and those that the further journal tells of.
/// Errors: a file is damaged, or they belong to two histories.
fn pan_keys_of(secrets: &Secrets, proven: &ProvenSources) -> Result<PanKeys, PanKeysError> {
    let keys = secrets.read_pan_keys(&proven.backup)?;
    let Some(journal) = &proven.journal else { return Ok(keys) };
    keys.merged(&secrets.read_pan_keys(journal)?, &PanKeys::path(journal))
}

/// The wrapped data key of a backup or of a data directory.
fn wrapped_of(directory: &Path) -> Result<WrappedKey, ManifestError> {
    if is_backup(directory) {
        return Ok(Manifest::read(directory)?.wrapped);
    }
    read_wrapped(directory).map_err(ManifestError::Keys)
}

fn in_words(report: &CopyReport) -> String {
    let CopyReport { records, as_of, bytes, .. } = report;
    format!("{records} records, as of {as_of}, {bytes} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_key_is_told_as_a_shell_takes_it() {
        let command = "echo 'k'".to_owned();
        for (source, told) in [
            (MasterKeySource::InDirectory, ""),
            (MasterKeySource::File("/a b/key".into()), " --master-key '/a b/key'"),
            (MasterKeySource::Credential("/run/key".into()), " --master-key '/run/key'"),
            (MasterKeySource::Command(command), r" --master-key-command 'echo '\''k'\'''"),
        ] {
            assert_eq!(flag_of(&source), told);
        }
    }
}
