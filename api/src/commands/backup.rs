//! `cardswitch backup` and `cardswitch restore`.

use std::io;
use std::path::{Path, PathBuf};

use cardswitch_engine::backup::{CopyError, Wanted, copy_at_rest, restore as restore_engine};
use cardswitch_engine::directory::DirectoryError;
use cardswitch_engine::domain::ids::{CardSlot, Timestamp};
use cardswitch_engine::inspection::Inspection;

use super::Failure;
use crate::backup::{CopyReport, copy_beside};
use crate::control::{self, Answer, Request};
use crate::master_key::{MASTER_KEY_FILE, read_key_file, write_master_key};
use crate::secrets::{PanKeys, PanKeysError, Secrets};
use crate::wire::time::parse_time;

/// What `backup` takes.
#[derive(Debug, clap::Args)]
pub struct BackupArgs {
    /// Data directory, in use by a running switch or at rest
    #[arg(long, env = "CARDSWITCH_DATA", value_name = "DIR")]
    data: PathBuf,
    /// Directory to make; a running switch makes it, so it has to be allowed to
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What `restore` takes.
#[derive(Debug, clap::Args)]
pub struct RestoreArgs {
    /// The backup
    #[arg(long, value_name = "DIR")]
    from: PathBuf,
    /// Data directory to make
    #[arg(long, env = "CARDSWITCH_DATA", value_name = "DIR")]
    data: PathBuf,
    /// The master key of the directory that the backup was made of; it is not in the backup
    #[arg(long, value_name = "FILE")]
    master_key: PathBuf,
    /// Go on with the journal of this directory, where the backup's ends: the lost one, or a later
    /// backup
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
    /// Leave out what was accepted after this time (RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = parse_until)]
    until: Option<Timestamp>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn parse_until(text: &str) -> Result<Timestamp, String> {
    parse_time(text).ok_or_else(|| "write a time such as 2026-03-04T12:00:00Z".to_owned())
}

/// Carries out `backup`.
/// Errors: something is there already, or a file cannot be read or written.
pub async fn back_up(args: BackupArgs) -> Result<(), Failure> {
    let to = std::path::absolute(&args.to).map_err(Failure::new)?;
    let report = match at_rest(&args.data, &to) {
        Err(CopyError::Directory(DirectoryError::InUse(_))) => running(&args.data, to).await?,
        copied => copied.map_err(Failure::new)?.into(),
    };
    if args.json {
        println!("{}", serde_json::to_string(&report).map_err(Failure::new)?);
        return Ok(());
    }
    println!("made backup {}: {}", args.to.display(), in_words(&report));
    println!("The master key is not in it: keep {MASTER_KEY_FILE} apart, `restore` asks for it.");
    Ok(())
}

fn at_rest(data: &Path, to: &Path) -> Result<cardswitch_engine::backup::Copied, CopyError> {
    copy_at_rest(data, to, &mut |copy| copy_beside(data, copy))
}

async fn running(data: &Path, to: PathBuf) -> Result<CopyReport, Failure> {
    match control::ask(data, &Request::BackUp { to }).await {
        Ok(Answer::BackedUp(report)) => Ok(report),
        Ok(Answer::Failed(why)) => Err(Failure::new(why)),
        Ok(_) => Err(Failure::new("the switch answered something else: is it another version?")),
        Err(error) => {
            let what = "the directory is in use, but its user does not answer";
            Err(Failure::new(format!("{what}: {error}")))
        }
    }
}

/// Carries out `restore`.
/// Errors: the key is another one, something is there already, the backup or a journal is damaged,
/// or they do not meet.
pub fn restore(args: &RestoreArgs) -> Result<(), Failure> {
    let key = read_key_file(&args.master_key).map_err(Failure::new)?;
    let secrets = Secrets::from_master(key);
    let pan_keys = pan_keys_of(&secrets, args).map_err(Failure::new)?;
    secrets.take_pan_keys(&pan_keys);
    check_key(&args.from, &secrets)?;
    let wanted = Wanted { further_journal: args.journal.as_deref(), until: args.until };
    let mut beside = |copy: &Path| {
        copy_beside(&args.from, copy)?;
        // Receipts that came after the backup stand with the journal that tells of them.
        args.journal.iter().try_for_each(|journal| copy_beside(journal, copy))?;
        if pan_keys != PanKeys::default() {
            secrets.write_pan_keys(copy, &pan_keys).map_err(io::Error::other)?;
        }
        write_master_key(copy, &key).map_err(io::Error::other)
    };
    let copied = restore_engine(&args.from, &args.data, &wanted, &mut beside);
    let report = CopyReport::from(copied.map_err(Failure::new)?);
    if args.json {
        println!("{}", serde_json::to_string(&report).map_err(Failure::new)?);
        return Ok(());
    }
    println!("restored {}: {}", args.data.display(), in_words(&report));
    println!("Next: cardswitch verify --data {}", args.data.display());
    Ok(())
}

/// The keys of card numbers of the backup, and those that the further journal tells of.
/// Errors: a file is damaged, or they belong to two histories.
fn pan_keys_of(secrets: &Secrets, args: &RestoreArgs) -> Result<PanKeys, PanKeysError> {
    let keys = secrets.read_pan_keys(&args.from)?;
    let Some(journal) = &args.journal else { return Ok(keys) };
    keys.merged(&secrets.read_pan_keys(journal)?, &PanKeys::path(journal))
}

/// Errors: the key does not open the backup's card numbers.
fn check_key(backup: &Path, secrets: &Secrets) -> Result<(), Failure> {
    let inspection = Inspection::open(backup).map_err(Failure::new)?;
    let first = inspection.read().and_then(|tables| tables.card(CardSlot::default()));
    let opens = first
        .map_err(Failure::new)?
        .is_none_or(|card| secrets.open_pan(&card.sealed_pan, card.profile.id).is_some());
    if opens { Ok(()) } else { Err(Failure::new("the master key is not the one of this backup")) }
}

fn in_words(report: &CopyReport) -> String {
    let CopyReport { records, as_of, bytes } = report;
    format!("{records} records, as of {as_of}, {bytes} bytes")
}
