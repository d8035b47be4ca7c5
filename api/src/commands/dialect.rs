//! `cardswitch dialect`: dialect files shown, checked, and made of the specifications of other tools.

use std::path::PathBuf;

use cardswitch_dialects::import::import;
use cardswitch_dialects::{SHIPPED, find, read_file, shipped};

use super::Failure;

/// The arguments of `dialect`.
#[derive(Debug, clap::Args)]
pub struct DialectCommandArgs {
    #[command(subcommand)]
    command: DialectCommand,
}

#[derive(Debug, clap::Subcommand)]
enum DialectCommand {
    /// List the shipped dialects
    List,
    /// Print the file of a shipped dialect; that of `default` explains every key
    Show {
        /// Name of the dialect
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Print the dialect file of a moov-io/iso8583 specification (JSON) or a jPOS packager (XML)
    Import {
        /// The specification
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Check a dialect file, and list fields that lead to no element
    Check {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

/// Carries out `dialect`; exits 1 where a file is no dialect.
pub fn run(args: &DialectCommandArgs) -> Result<(), Failure> {
    match &args.command {
        DialectCommand::List => {
            for (name, text) in SHIPPED {
                let first = text.lines().next().unwrap_or_default();
                println!("{name:<10} {}", first.trim_start_matches(['#', ' ']));
            }
            Ok(())
        }
        DialectCommand::Show { name } => match shipped(name) {
            Some(text) => {
                print!("{text}");
                Ok(())
            }
            None => Err(Failure::new(read_file(name).map_or_else(
                |error| error.to_string(),
                |_| format!("`{name}` is a file; only shipped dialects are shown"),
            ))),
        },
        DialectCommand::Import { file } => {
            let name = file.to_string_lossy();
            let text = read_file(&name)?;
            print!("{}", import(&name, &text)?);
            Ok(())
        }
        DialectCommand::Check { file } => {
            let dialect = find(&file.to_string_lossy())?;
            println!("right: messages behind `{}`", dialect.framing.length);
            if let Some(translation) = &dialect.translation {
                let unused: Vec<_> = translation.unused().map(|field| field.to_string()).collect();
                if !unused.is_empty() {
                    println!("read and left out: fields {}", unused.join(", "));
                }
            }
            Ok(())
        }
    }
}
