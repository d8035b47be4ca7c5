//! The settings of a command on a directory at rest: the file, under the environment.

use std::path::{Path, PathBuf};

use super::Failure;
use crate::config::{Settings, read_settings};
use crate::setting_args::SettingArgs;

/// The file of settings.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct ConfigArgs {
    /// Configuration file [default: cardswitch.toml in the data directory]
    #[arg(long, env = "CARDSWITCH_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ConfigArgs {
    /// The settings of a switch that has the same variables and the same file.
    /// Errors: the file or a variable cannot be used.
    pub(super) fn read(&self, data: &Path) -> Result<Settings, Failure> {
        let file = read_settings(self.config.as_deref(), Some(data))?;
        let variables = SettingArgs::of_environment();
        let variables = variables.map_err(|error| Failure::usage(in_one_line(&error)))?;
        Ok(variables.over_unchecked(file))
    }
}

fn in_one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
}
