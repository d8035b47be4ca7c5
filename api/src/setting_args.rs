//! The flags and variables of all settings, made of their declarations in `config.rs` and beside them.
//! The table of settings in `configuration.md` is made of the same.

use clap::{Arg, ArgMatches, Args as _, FromArgMatches};

use crate::config::{ConfigError, SettingFlags, Settings};

/// The text before a default in the help of a flag.
const DEFAULT: &str = "[default: ";

/// The flags and variables of all settings, as a command takes them: each flag has a variable,
/// `CARDSWITCH_` and the flag in capitals, and tells its default.
#[derive(Clone, Debug, Default)]
pub struct SettingArgs(SettingFlags);

impl SettingArgs {
    /// The variables alone, for a command that takes none of the flags.
    /// Errors: one has no value of its setting.
    pub fn of_environment() -> Result<Self, clap::Error> {
        let command = Self::augment_args(clap::Command::new("settings"));
        Self::from_arg_matches(&command.try_get_matches_from(["settings"])?)
    }

    /// As `over`, for a command that needs few of the settings: none is checked.
    pub fn over_unchecked(self, file: Settings) -> Settings {
        self.0.over(file)
    }

    /// The settings of a file, overridden by these.
    /// Errors: a value is out of range.
    pub fn over(self, file: Settings) -> Result<Settings, ConfigError> {
        self.0.over(file).checked()
    }
}

fn completed(flag: Arg, defaults: &toml::Table) -> Arg {
    let name = flag.get_long().unwrap_or_default().replace('-', "_").to_uppercase();
    // Clap keeps the names of variables for as long as the process runs.
    let variable: &'static str = Box::leak(format!("CARDSWITCH_{name}").into_boxed_str());
    let flag = flag.env(variable);
    let mut keys = flag.get_id().as_str().split('.');
    let first = keys.next().and_then(|key| defaults.get(key));
    let default = keys.fold(first, |value, key| value?.get(key));
    let Some(default) = default else { return flag };
    let help = flag.get_help().cloned().unwrap_or_default();
    flag.help(format!("{help} {DEFAULT}{}]", shown(default)))
}

/// A value as a flag takes it.
fn shown(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Array(values) if values.is_empty() => "none".to_owned(),
        toml::Value::Array(values) => values.iter().map(shown).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

impl FromArgMatches for SettingArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        SettingFlags::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl clap::Args for SettingArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        let defaults = toml::Table::try_from(Settings::default()).unwrap_or_default();
        let declared = SettingFlags::augment_args(clap::Command::new("settings"));
        let is_setting =
            |flag: &Arg| declared.get_arguments().any(|own| own.get_id() == flag.get_id());
        SettingFlags::augment_args(command)
            .mut_args(|flag| if is_setting(&flag) { completed(flag, &defaults) } else { flag })
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/configuration.md");
    const HEAD: &str = "| key | default | meaning |\n|---|---|---|\n";

    #[derive(Parser)]
    struct SettingsParser {
        #[command(flatten)]
        settings: SettingArgs,
    }

    fn over(file: &str, flags: &[&str]) -> Result<Settings, String> {
        let flags = SettingsParser::try_parse_from([&["serve"], flags].concat());
        let flags = flags.map_err(|error| error.to_string())?;
        let file = toml::from_str(file).map_err(|error| error.to_string())?;
        flags.settings.over(file).map_err(|error| error.to_string())
    }

    /// Each flag, with its variable and its default.
    fn flags() -> Vec<Arg> {
        let command = SettingArgs::augment_args(clap::Command::new("settings"));
        command.get_arguments().cloned().collect()
    }

    /// The row of a setting; it names a flag that does not follow from the key.
    fn row(flag: &Arg) -> String {
        let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
        let (meaning, default) = help.split_once(DEFAULT).expect("each setting tells its default");
        let default = default.trim_end_matches(']');
        let (key, long) = (flag.get_id().as_str(), flag.get_long().expect("a flag of the setting"));
        let is_alike = key.replace(['_', '.'], "-") == long;
        let flag = if is_alike { String::new() } else { format!(", `--{long}`") };
        format!("| `{key}`{flag} | {default} | {} |\n", meaning.trim_end())
    }

    #[test]
    fn the_page_tells_each_setting_as_it_is_declared() {
        let page = std::fs::read_to_string(PAGE).unwrap();
        let (before, rest) = page.split_once(HEAD).expect("a table of settings");
        let (told, after) = rest.split_once("\n\n").expect("text after the table");
        let declared: String = flags().iter().map(row).collect();
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(PAGE, format!("{before}{HEAD}{declared}\n{after}")).unwrap();
        } else {
            assert_eq!(format!("{told}\n"), declared, "UPDATE_GOLDEN=1 writes the table again");
        }
    }

    #[test]
    fn flags_come_before_the_file_and_the_file_before_defaults() {
        let file =
            "network = \"mastercard\"\niso8583_idle_timeout_s = 5\ndialect = \"ascii-hex\"\n";
        let settings = over(file, &["--iso8583-idle-timeout-s", "7", "--tpdu=true"]).unwrap();
        assert_eq!((settings.network.as_str(), settings.iso8583_idle_timeout_s), ("mastercard", 7));
        assert_eq!((settings.dialect.as_str(), settings.tpdu), ("ascii-hex", Some(true)));
        let peers = over(file, &["--iso8583-peers", "10.0.0.0/8,::1"]).unwrap().iso8583_peers;
        assert_eq!(peers, ["10.0.0.0/8", "::1"]);
        for wrong in [
            ["--iso8583-peers", "10.0.0.0/64"],
            ["--length", "octal"],
            ["--iso8583-connections-per-peer", "0"],
            ["--mail-retry-after-s", "0"],
        ] {
            assert!(over(file, &wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn each_setting_of_a_file_has_a_flag() {
        fn keys(section: &toml::Table, prefix: &str, found: &mut Vec<String>) {
            for (key, value) in section {
                match value {
                    toml::Value::Table(part) => keys(part, &format!("{prefix}{key}."), found),
                    _ => found.push(format!("{prefix}{key}")),
                }
            }
        }
        let (defaults, mut found) =
            (toml::Table::try_from(Settings::default()).unwrap(), Vec::new());
        keys(&defaults, "", &mut found);
        let flags: Vec<_> = flags().iter().map(|flag| flag.get_id().to_string()).collect();
        assert!(found.iter().all(|key| flags.contains(key)), "{found:?} {flags:?}");
    }
}
