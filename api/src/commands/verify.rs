//! `cardswitch verify`.

use std::path::PathBuf;

use cardswitch_engine::data_directory::DataDirectory;
use cardswitch_engine::store::AuditFigure;
use cardswitch_engine::verify::{Verification, verify};
use cardswitch_secrets::Secrets;
use cardswitch_secrets::master_key::data_key::open_keys;
use cardswitch_secrets::master_key::source::MasterKeyArgs;
use serde_json::json;

use super::Failure;
use crate::manifest::{Manifest, is_backup};

/// The arguments of `verify`.
#[derive(Debug, clap::Args)]
pub struct VerifyArgs {
    /// Data directory, not in use by a running switch, or a backup
    #[arg(long, env = "CARDSWITCH_DATA", value_name = "DIR")]
    data: PathBuf,
    #[command(flatten)]
    master_key: MasterKeyArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Carries out `verify`: exits 1 on any difference, naming it.
pub fn run(args: &VerifyArgs) -> Result<(), Failure> {
    let verification = match proven(args) {
        Ok(verification) => verification,
        Err(failure) => {
            if args.json {
                println!("{}", json!({"ok": false, "error": failure.message}));
            }
            return Err(failure);
        }
    };
    if args.json {
        println!("{}", render_json(&verification));
    } else {
        print_figures(&verification);
    }
    match verification.figures.iter().find(|figure| !figure.is_right()) {
        None => Ok(()),
        Some(wrong) => Err(Failure::new(format!(
            "{}: expected {}, found {}",
            wrong.name, wrong.expected, wrong.found
        ))),
    }
}

/// Proves the keys first, and the files of a backup: a directory that an attacker rewrote may be
/// sound in itself.
fn proven(args: &VerifyArgs) -> Result<Verification, Failure> {
    let secrets = proven_keys(args)?;
    let pan_keys = secrets.read_pan_keys(&args.data)?;
    let verification = verify(&args.data)?;
    let kept = pan_keys.require(verification.pan_generations.iter().copied(), &args.data);
    kept.map(|()| verification).map_err(Failure::new)
}

fn proven_keys(args: &VerifyArgs) -> Result<Secrets, Failure> {
    let source = args.master_key.source();
    if is_backup(&args.data) {
        // Nothing else in it is looked at before.
        let manifest = Manifest::read(&args.data)?;
        let master = source.read_apart(&args.data)?;
        let secrets = manifest.open(&master)?;
        manifest.check(&secrets)?;
        return Ok(secrets);
    }
    // In words where it is in use, or none.
    let _lock = DataDirectory::open_read_only(&args.data)?;
    open_keys(&args.data, &source).map(|keys| keys.secrets).map_err(Failure::new)
}

/// The report for scripts.
fn render_json(verification: &Verification) -> serde_json::Value {
    let render = |figure: &AuditFigure| {
        json!({
            "name": figure.name,
            "expected": figure.expected,
            "found": figure.found,
            "ok": figure.is_right(),
        })
    };
    json!({
        "ok": verification.is_ok(),
        "state_hash": verification.state_hash.to_string(),
        "records": verification.records,
        "replayed": verification.replayed,
        "figures": verification.figures.iter().map(render).collect::<Vec<_>>(),
    })
}

fn print_figures(verification: &Verification) {
    for figure in &verification.figures {
        if figure.is_right() {
            println!("ok     {}: {}", figure.name, figure.found);
        } else {
            println!(
                "WRONG  {}: expected {}, found {}",
                figure.name, figure.expected, figure.found
            );
        }
    }
    println!("state hash {}", verification.state_hash);
    let wrong = verification.figures.iter().filter(|figure| !figure.is_right()).count();
    println!(
        "{} records, {} replayed, {} figures compared, {wrong} wrong",
        verification.records,
        verification.replayed,
        verification.figures.len(),
    );
}
