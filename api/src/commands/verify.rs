//! `cardswitch verify`.

use std::path::PathBuf;

use cardswitch_engine::verify::{Figure, Verification, verify};
use serde_json::json;

use super::Failure;

/// What `verify` takes.
#[derive(Debug, clap::Args)]
pub struct VerifyArgs {
    /// Data directory, not in use by a running switch
    #[arg(long, env = "CARDSWITCH_DATA", value_name = "DIR")]
    data: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Carries out `verify`: exits 1 on any difference, naming it.
pub fn run(args: &VerifyArgs) -> Result<(), Failure> {
    let verification = match verify(&args.data) {
        Ok(verification) => verification,
        Err(error) => {
            if args.json {
                println!("{}", json!({"ok": false, "error": error.to_string()}));
            }
            return Err(Failure::new(error));
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

/// What scripts read.
fn render_json(verification: &Verification) -> serde_json::Value {
    let render = |figure: &Figure| {
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
            println!("WRONG  {}: expected {}, found {}", figure.name, figure.expected, figure.found);
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
