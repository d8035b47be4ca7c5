//! `cardswitch completions` and `cardswitch man`: what shells and readers of manuals need, made from
//! the definitions of the commands, so that it cannot differ from them.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use clap::{Command, CommandFactory};
use clap_complete::Shell;

use super::manual_page::{page_file, render_page, shown_commands};
use super::{Cli, Failure};

/// The arguments of `completions`.
#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    /// Shell
    shell: Shell,
}

/// The arguments of `man`.
#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// Directory for the pages of all commands; without it the first page is printed
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
        None => print_bytes(render_page(&commands(), None, &today()).as_bytes()),
        Some(dir) => write_pages(dir)
            .map_err(|error| Failure::new(format!("cannot write to {}: {error}", dir.display()))),
    }
}

fn write_pages(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let (root, date) = (commands(), today());
    let mut waiting = vec![(&root, None)];
    while let Some((command, parent)) = waiting.pop() {
        fs::write(dir.join(page_file(command)), render_page(command, parent, &date))?;
        waiting.extend(shown_commands(command).map(|inner| (inner, Some(command))));
    }
    Ok(())
}

/// The command line with every command named in full. Help is a flag of each, not a command.
fn commands() -> Command {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    root
}

/// The day that pages are of: `SOURCE_DATE_EPOCH` where a build is to be repeatable, else today.
fn today() -> String {
    let epoch = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse().ok());
    let at =
        epoch.and_then(|seconds| DateTime::from_timestamp(seconds, 0)).unwrap_or_else(Utc::now);
    at.format("%Y-%m-%d").to_string()
}

fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    match io::stdout().write_all(bytes) {
        // The reader has seen enough.
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

    /// Every command, with its own before it.
    fn all_commands(root: &Command) -> Vec<&Command> {
        let (mut all, mut waiting) = (Vec::new(), vec![root]);
        while let Some(command) = waiting.pop() {
            all.push(command);
            waiting.extend(command.get_subcommands());
        }
        all
    }

    #[test]
    fn pages_say_of_each_argument_what_help_says() {
        let root = commands();
        for command in all_commands(&root) {
            let page = render_page(command, None, "2026-03-01").replace("\\-", "-");
            for argument in command.get_arguments() {
                let name = format!("{} {argument}", command.get_name());
                assert!(page.contains(&format!("{argument}")), "{name}");
                let environment = argument.get_env().and_then(|name| name.to_str());
                let values = argument.get_possible_values();
                let is_asked = argument.get_action().takes_values();
                let facts = environment
                    .map(str::to_owned)
                    .into_iter()
                    .chain(values.iter().map(|value| value.get_name().to_owned()))
                    .chain(
                        argument
                            .get_default_values()
                            .iter()
                            .map(|value| value.to_str().unwrap().to_owned()),
                    );
                for fact in facts.filter(|fact| is_asked && !fact.is_empty()) {
                    assert!(page.contains(&format!("\\fB{fact}\\fR")), "{name}: {fact}\n{page}");
                }
            }
        }
    }

    #[test]
    fn what_is_secret_in_the_environment_is_not_shown_by_help() {
        for command in all_commands(&commands()) {
            for argument in command.get_arguments() {
                let Some(name) = argument.get_env().and_then(|name| name.to_str()) else {
                    continue;
                };
                let is_secret = ["KEY", "TOKEN", "URL", "PASSWORD", "SECRET"]
                    .iter()
                    .any(|word| name.ends_with(word));
                // An address or a path is no secret.
                let is_plain = [
                    "CARDSWITCH_BASE_URL",
                    "CARDSWITCH_APP_URL",
                    "CARDSWITCH_URL",
                    "CARDSWITCH_MASTER_KEY",
                ];
                let is_hidden = argument.is_hide_env_values_set();
                assert!(is_hidden || !is_secret || is_plain.contains(&name), "{name}");
            }
        }
    }

    #[test]
    fn the_service_of_systemd_starts_the_switch_as_it_takes_it() {
        let unit = include_str!("../../../tools/packaging/cardswitch.service");
        let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
        let parsed = Cli::try_parse_from(start.split(' ')).map_err(|error| error.to_string());
        let is_serve = parsed.map(|cli| matches!(cli.command, super::super::CliCommand::Serve(_)));
        assert_eq!(is_serve, Ok(true), "{start}");
    }
}
