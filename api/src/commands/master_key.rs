//! `cardswitch rotate-master-key`: by a running switch, else on a directory at rest.

use std::path::PathBuf;

use cardswitch_engine::data_directory::{DataDirectory, DirectoryError};
use cardswitch_secrets::master_key::rotation::{MasterKeyReport, rotate_master_key};
use cardswitch_secrets::master_key::source::MasterKeyArgs;

use super::Failure;
use super::running::ask_running;
use crate::control::ControlRequest;
use crate::opening::require_no_backup;

/// The arguments of `rotate-master-key`.
#[derive(Debug, clap::Args)]
pub struct RotateMasterKeyArgs {
    /// Data directory, in use by a running switch or at rest
    #[arg(long, env = "CARDSWITCH_DATA", value_name = "DIR")]
    data: PathBuf,
    /// File with the new master key, made where there is none; a running switch reads or makes it
    /// [default: a new key at the place of the old]
    #[arg(long, value_name = "FILE")]
    new_master_key: Option<PathBuf>,
    #[command(flatten)]
    master_key: MasterKeyArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Carries out `rotate-master-key`.
/// Errors: a key cannot be read or written, or the switch does not answer.
pub async fn run(args: RotateMasterKeyArgs) -> Result<(), Failure> {
    let place = args.new_master_key.as_ref().map(std::path::absolute).transpose()?;
    let report = match DataDirectory::open(&args.data) {
        Err(DirectoryError::InUse(_)) => {
            refuse_flag(&args.master_key)?;
            ask_running(&args.data, &ControlRequest::RotateMasterKey { place }).await?
        }
        opened => {
            let _lock = opened?;
            at_rest(&args, place)?
        }
    };
    if args.json {
        println!("{}", serde_json::to_string(&report)?);
        return Ok(());
    }
    let MasterKeyReport { master_key_id, place, old_place } = report;
    println!("the master key in {} opens the directory now, id {master_key_id}", place.display());
    if let Some(old_place) = old_place {
        println!("The old one is kept in {}.", old_place.display());
    } else {
        println!("From the next start on the switch needs this one: see `serve --master-key`.");
    }
    println!("The old one opens nothing here any more, but the backups made until now.");
    Ok(())
}

/// Errors: a flag says where the key is, which would count for nothing.
fn refuse_flag(given: &MasterKeyArgs) -> Result<(), Failure> {
    if given.is_flag() {
        let what = "a running switch knows where its master key is: leave out --master-key and \
                    --master-key-command, and name the new one's place with --new-master-key";
        return Err(Failure::usage(what));
    }
    Ok(())
}

fn at_rest(args: &RotateMasterKeyArgs, place: Option<PathBuf>) -> Result<MasterKeyReport, Failure> {
    // A backup stays opened by the master key of its time.
    require_no_backup(&args.data)?;
    rotate_master_key(&args.data, &args.master_key.source(), place.as_deref()).map_err(Failure::new)
}
