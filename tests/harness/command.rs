//! Runs one-shot `cardswitch` commands (`init`, `verify`, `feed`, ..) and reads what they print.

use std::env;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The output and the exit code of a finished `cardswitch` command.
#[derive(Debug)]
pub struct CommandOutput {
    /// The exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Everything on stdout.
    pub stdout: String,
    /// Everything on stderr.
    pub stderr: String,
}

impl CommandOutput {
    /// The exit code and the texts of a process that has ended.
    #[track_caller]
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("stdout is text"),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Asserts success and returns the JSON object on the last line of stdout.
    #[track_caller]
    pub fn expect_json(&self) -> Value {
        assert_eq!(self.code, Some(0), "the command failed: {self:#?}");
        last_json_line(&self.stdout)
    }

    /// Asserts success.
    #[track_caller]
    pub fn expect_done(&self) {
        assert_eq!(self.code, Some(0), "the command failed: {self:#?}");
    }

    /// Asserts a failure told in one line, and returns that line.
    ///
    /// Log lines (which begin with a time) may stand beside it; a panic or a back trace may not.
    #[track_caller]
    pub fn expect_one_line_error(&self) -> String {
        assert!(self.code.is_some_and(|code| code != 0), "a refusal was expected: {self:#?}");
        assert!(!self.stderr.contains("panicked"), "a panic is no error message: {self:#?}");
        let told: Vec<&str> = self.stderr.lines().filter(|line| !is_log_line(line)).collect();
        assert_eq!(told.len(), 1, "one line of error was expected: {self:#?}");
        told[0].to_owned()
    }
}

/// Runs `cardswitch` with these arguments to its end.
#[track_caller]
pub fn run_cardswitch(arguments: &[&str]) -> CommandOutput {
    run_cardswitch_with(arguments, &[])
}

/// Runs `cardswitch` with these arguments and environment variables to its end.
#[track_caller]
pub fn run_cardswitch_with(arguments: &[&str], variables: &[(&str, &str)]) -> CommandOutput {
    let output = cardswitch_command(arguments)
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .expect("cardswitch starts");
    CommandOutput::of(output)
}

/// Runs `cardswitch` with these arguments to its end, and lets it read `text`.
#[track_caller]
pub fn run_cardswitch_reading(arguments: &[&str], input: impl AsRef<[u8]>) -> CommandOutput {
    let mut command = cardswitch_command(arguments);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("cardswitch starts");
    let mut stdin = child.stdin.take().expect("a pipe was asked for");
    // A command with wrong arguments has ended before it read.
    drop(stdin.write_all(input.as_ref()));
    drop(stdin);
    let output = child.wait_with_output().expect("cardswitch ends");
    CommandOutput::of(output)
}

/// The JSON object on the last non-empty line of `text`.
#[track_caller]
pub fn last_json_line(text: &str) -> Value {
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    let line = line.expect("a command asked for JSON prints some");
    let value: Value = serde_json::from_str(line).expect("the last line is JSON");
    assert!(value.is_object(), "the last line is one JSON object, not `{line}`");
    value
}

pub(crate) fn cardswitch_command(arguments: &[&str]) -> Command {
    let mut command = Command::new(cardswitch_binary());
    // The environment of the suite may have settings of its own: they are no part of it.
    for (name, _) in env::vars().filter(|(name, _)| name.starts_with("CARDSWITCH_")) {
        command.env_remove(name);
    }
    command.args(arguments);
    command
}

/// `cardswitch` with these arguments, started by a shell that does `prelude` before, such as `umask 000`.
pub fn cardswitch_after(prelude: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{prelude}; exec \"$@\""), "sh"]);
    started_by(command, &cardswitch_command(arguments))
}

/// A program on a machine of a network, or on this one.
pub(crate) fn command_in(namespace: Option<&str>, command: Command) -> Command {
    let Some(namespace) = namespace else { return command };
    let mut starter = Command::new("ip");
    starter.args(["netns", "exec", namespace]);
    started_by(starter, &command)
}

/// The command that `starter` runs instead of itself, by the arguments behind its own.
fn started_by(mut starter: Command, command: &Command) -> Command {
    starter.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        assert!(value.is_none(), "variables are only taken away");
        starter.env_remove(name);
    }
    starter
}

/// The binary under test: `CARDSWITCH_BIN`, else the one in the target directory of this test.
pub fn cardswitch_binary() -> PathBuf {
    if let Some(given) = env::var_os("CARDSWITCH_BIN") {
        return PathBuf::from(given);
    }
    // TARGET/debug/deps/this_test, or a tool in TARGET/dist, wherever cargo was told to put TARGET.
    let this = env::current_exe().expect("a running program has a path");
    let mut beside = this.ancestors().skip(1).take(2).map(|place| place.join("cardswitch"));
    beside.find(|program| program.is_file()).expect("`cargo build` makes `cardswitch` beside this")
}

fn is_log_line(line: &str) -> bool {
    line.trim().is_empty() || line.starts_with(|first: char| first.is_ascii_digit() || first == '{')
}
