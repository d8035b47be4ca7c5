//! The source of the master key: a file, a command that prints it, a credential of systemd, or the
//! data directory itself.
//!
//! `cardswitch.toml` does not name it: write access to a data directory must not choose the command
//! that is executed, nor the key.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, FromArgMatches};

use super::{MASTER_KEY_FILE, MasterKey, MasterKeyError, read_text};

/// The variable that names the directory of systemd's credentials. Source: systemd.exec(5), `LoadCredential=`.
const CREDENTIALS: &str = "CREDENTIALS_DIRECTORY";

/// The arguments that name the master key: flags come before variables.
#[derive(Clone, Debug, Default)]
pub struct MasterKeyArgs {
    given: Option<MasterKeySource>,
    is_flag: bool,
}

impl MasterKeyArgs {
    /// The arguments that choose this place.
    pub const fn of(source: MasterKeySource) -> Self {
        Self { given: Some(source), is_flag: true }
    }

    /// Whether a flag chose the place, not a variable.
    pub const fn is_flag(&self) -> bool {
        self.is_flag
    }

    /// The place that was chosen.
    pub fn source(&self) -> MasterKeySource {
        let credential = || {
            let path = PathBuf::from(std::env::var_os(CREDENTIALS)?).join(MASTER_KEY_FILE);
            path.exists().then_some(MasterKeySource::Credential(path))
        };
        self.given.clone().or_else(credential).unwrap_or_default()
    }
}

/// The arguments as the command line has them. Clap's own conflict would tell no flag from a variable.
#[derive(clap::Args)]
struct GivenPlaces {
    /// File with the master key [default: the credential `master.key` of systemd, else `master.key` in
    /// the data directory]
    #[arg(long, env = "CARDSWITCH_MASTER_KEY", value_name = "FILE")]
    master_key: Option<PathBuf>,
    /// Command that prints the master key, for a shell
    #[arg(long, env = "CARDSWITCH_MASTER_KEY_COMMAND", value_name = "COMMAND")]
    master_key_command: Option<String>,
}

impl FromArgMatches for MasterKeyArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let places = GivenPlaces::from_arg_matches(matches)?;
        let file = places.master_key.map(MasterKeySource::File);
        let command = places.master_key_command.map(MasterKeySource::Command);
        let is_flag = |name| matches.value_source(name) == Some(ValueSource::CommandLine);
        let given = match (is_flag("master_key"), is_flag("master_key_command")) {
            (true, false) => file,
            (false, true) => command,
            _ if file.is_some() && command.is_some() => {
                let what = "a file and a command are given for the master key: give one of them\n";
                return Err(clap::Error::raw(ErrorKind::ArgumentConflict, what));
            }
            _ => file.or(command),
        };
        Ok(Self { given, is_flag: is_flag("master_key") || is_flag("master_key_command") })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for MasterKeyArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        GivenPlaces::augment_args(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        GivenPlaces::augment_args_for_update(command)
    }
}

/// The place of the master key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MasterKeySource {
    /// In the data directory, as `init` leaves it.
    #[default]
    InDirectory,
    /// In a file.
    File(PathBuf),
    /// In a file that systemd made, which only systemd replaces.
    Credential(PathBuf),
    /// On the standard output of a command.
    Command(String),
}

impl MasterKeySource {
    /// Its file; none where there is a command instead.
    pub fn path(&self, data: &Path) -> Option<PathBuf> {
        match self {
            Self::InDirectory => Some(data.join(MASTER_KEY_FILE)),
            Self::File(path) | Self::Credential(path) => Some(path.clone()),
            Self::Command(_) => None,
        }
    }

    /// The file that a new key may be written to; none where somebody else keeps it.
    pub fn own_path(&self, data: &Path) -> Option<PathBuf> {
        match self {
            Self::InDirectory | Self::File(_) => self.path(data),
            Self::Credential(_) | Self::Command(_) => None,
        }
    }

    /// Reads the key.
    /// Errors: it is not there, or what is there is no key.
    pub fn read(&self, data: &Path) -> Result<MasterKey, MasterKeyError> {
        match self {
            Self::InDirectory => MasterKey::read(&data.join(MASTER_KEY_FILE)),
            Self::File(path) | Self::Credential(path) => MasterKey::read(path),
            Self::Command(command) => key_printed_by(command),
        }
    }

    /// Reads the key of a backup, which never lies in it: an intruder who planted one there could
    /// have made all of the backup.
    /// Errors: those of `read`; no place was given.
    pub fn read_apart(&self, backup: &Path) -> Result<MasterKey, MasterKeyError> {
        match self {
            Self::InDirectory => Err(MasterKeyError::Missing(backup.join(MASTER_KEY_FILE))),
            _ => self.read(backup),
        }
    }
}

fn key_printed_by(command: &str) -> Result<MasterKey, MasterKeyError> {
    let failed = |why: String| MasterKeyError::Command(why);
    let child = Command::new("sh").args(["-c", command]).stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| failed(format!("does not start: {error}")))?;
    let text = child.stdout.take().map(read_text);
    let status = child.wait().map_err(|error| failed(error.to_string()))?;
    if !status.success() {
        return Err(failed(format!("failed: {status}")));
    }
    let key = text.and_then(Result::ok).and_then(|text| MasterKey::parse(&text));
    key.ok_or_else(|| failed("did not print one: 64 hex digits".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_prints_the_key_or_is_told_of() {
        let digits = "a5".repeat(32);
        let read =
            |command: &str| MasterKeySource::Command(command.to_owned()).read(Path::new("."));
        assert_eq!(read(&format!("echo {digits}")).unwrap(), MasterKey::new([0xa5; 32]));
        for (command, told) in [
            ("exit 3", "failed: exit status: 3"),
            ("echo a5", "did not print one"),
            ("printf '\\377'", "did not print one"),
            (&format!("echo {digits}; false"), "failed"),
        ] {
            let error = read(command).unwrap_err().to_string();
            assert!(error.contains(told) && !error.contains(&digits), "{command}: {error}");
        }
    }
}
