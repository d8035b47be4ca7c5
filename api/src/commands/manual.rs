//! `cardswitch completions` and `cardswitch man`: what shells and readers of manuals need, made from
//! the definitions of the commands, so that it cannot differ from them.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, Failure};

/// What `completions` takes.
#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    /// For which shell
    shell: Shell,
}

/// What `man` takes.
#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// Write the pages of all commands there; without it the first page is printed
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Prints a script that completes commands and flags.
/// Errors: the output is closed.
pub fn print_completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "cardswitch", &mut script);
    print_bytes(&script)
}

/// Prints the manual's first page, or writes all of them.
/// Errors: the output is closed, or the directory cannot be written.
pub fn print_manual(args: &ManArgs) -> Result<(), Failure> {
    match &args.dir {
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut page).map_err(Failure::new)?;
            print_bytes(&page)
        }
        Some(dir) => write_pages(dir)
            .map_err(|error| Failure::new(format!("cannot write to {}: {error}", dir.display()))),
    }
}

fn write_pages(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    clap_mangen::generate_to(Cli::command(), dir)
}

fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    match io::stdout().write_all(bytes) {
        // Whoever reads has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(Failure::new),
    }
}

#[cfg(test)]
mod tests {
    use clap::{Parser, ValueEnum};

    use super::*;

    #[test]
    fn every_command_has_a_page_and_can_be_completed() {
        let dir = tempfile::tempdir().unwrap();
        write_pages(dir.path()).unwrap();
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            let page = fs::read_to_string(dir.path().join(format!("cardswitch-{name}.1"))).unwrap();
            assert!(page.contains(".SH SYNOPSIS"), "{name}");
            for shell in Shell::value_variants() {
                let mut script = Vec::new();
                clap_complete::generate(*shell, &mut Cli::command(), "cardswitch", &mut script);
                assert!(String::from_utf8(script).unwrap().contains(name), "{shell}: {name}");
            }
        }
    }

    #[test]
    fn the_service_of_systemd_starts_the_switch_as_it_takes_it() {
        let unit = include_str!("../../../tools/packaging/cardswitch.service");
        let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
        let parsed = Cli::try_parse_from(start.split(' ')).map_err(|error| error.to_string());
        let is_serve = parsed.map(|cli| matches!(cli.command, super::super::Command::Serve(_)));
        assert_eq!(is_serve, Ok(true), "{start}");
    }
}
