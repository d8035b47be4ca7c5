//! How the switch is configured: flags over environment over a TOML file over defaults.
//!
//! clap merges flags and environment; what neither says is taken from the file
//! (`--config FILE`, else `cardswitch.toml` in the data directory), then from `Settings::default`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use cardswitch_cluster::ClusterAddress;
use cardswitch_notify::mail::settings::{MailSettings, SettingError};

/// The name of the configuration file inside a data directory.
pub const CONFIG_FILE: &str = "cardswitch.toml";

/// Everything that can be configured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Where HTTP is served: `/v1` and `/network/v1`.
    pub http: SocketAddr,
    /// Where ISO 8583 is served.
    pub iso8583: SocketAddr,
    /// The address clients see, without a trailing slash; derived from `http` where absent.
    pub base_url: Option<String>,
    /// The address of the site, where shared links lead; the one clients see where absent.
    pub app_url: Option<String>,
    /// Proxies before the switch, whose `X-Forwarded-For` is believed: addresses, or networks.
    pub trusted_proxies: Vec<String>,
    /// Whose habits `/v1` follows besides its own: `legacy-client`, or nobody's where absent.
    pub compat: Option<Compat>,
    /// The clock: `system`, or `manual` for simulations that supply the time.
    pub clock: ClockSetting,
    /// How much of the journal is kept: a size such as `256MiB`, `recovery` or `forever`.
    pub retention: RetentionSetting,
    /// The first digits of new card numbers, 6 to 8 of them.
    pub bin: String,
    /// The card network that such numbers belong to.
    pub network: String,
    /// The card network that requisitions can be made for; `network` where absent.
    pub requisition_network: Option<String>,
    /// Peers that may connect to the ISO 8583 door: addresses, or networks such as `10.0.0.0/8`.
    pub iso8583_peers: Vec<String>,
    /// How many connections a peer of the ISO 8583 door may have; half of all where absent.
    pub iso8583_connections_per_peer: Option<NonZeroUsize>,
    /// How many HTTP connections an address may have, but for `trusted_proxies`; half of all where absent.
    pub http_connections_per_address: Option<NonZeroUsize>,
    /// How ISO 8583 messages are spelled.
    pub dialect: DialectSettings,
    /// After so long without a byte an ISO 8583 connection is closed. Units: seconds.
    pub iso8583_idle_timeout_s: u64,
    /// The log: `human` or `json`, on stderr.
    pub log: LogFormat,
    /// Where `/metrics`, `/healthz` and `/readyz` are served; port 9464 of the loopback where absent.
    pub metrics: Option<SocketAddr>,
    /// Whether webhooks may go to this machine and to private networks.
    pub allow_local_webhooks: bool,
    /// How many requests an access token may make on average; 0 for any number. Units: a second.
    pub token_requests_per_s: u32,
    /// How long the switch goes on taking requests once it has said that it stops. Units: seconds.
    pub stop_delay_s: u64,
    /// How mail is sent.
    pub mail: MailSettings,
    /// The cluster that the switch is a node of.
    pub cluster: ClusterSettings,
}

/// What makes a switch a node of a cluster. Without a journal elsewhere it is no node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClusterSettings {
    /// Where the window of the cluster's journal is: `etcd://HOST:PORT,HOST:PORT/NAME`.
    pub journal: Option<ClusterAddress>,
    /// The node's name, of its own in the cluster.
    pub node: Option<String>,
    /// The address at which other nodes reach this one's doors; that of the doors without one.
    pub peer: Option<IpAddr>,
    /// The port of the door for other nodes; any that is free without one.
    pub port: u16,
}

impl ClusterSettings {
    /// Checks what types alone do not.
    fn check(&self, clock: ClockSetting) -> Result<(), ConfigError> {
        if self.journal.is_none() {
            return Ok(());
        }
        let is_symbol = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let name = self.node.clone().unwrap_or_default();
        if name.is_empty() || name.len() > 64 || !name.bytes().all(is_symbol) {
            return Err(ConfigError::Value("cluster.node (letters, digits, - _ .)", name));
        }
        if clock == ClockSetting::Manual {
            return Err(ConfigError::Value("clock in a cluster", "manual".to_owned()));
        }
        Ok(())
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            http: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            iso8583: SocketAddr::from((Ipv4Addr::LOCALHOST, 8583)),
            base_url: None,
            app_url: None,
            trusted_proxies: Vec::new(),
            compat: None,
            clock: ClockSetting::System,
            retention: RetentionSetting::default(),
            bin: "45371100".to_owned(),
            network: "visa".to_owned(),
            requisition_network: None,
            iso8583_peers: vec!["127.0.0.0/8".to_owned(), "::1".to_owned()],
            iso8583_connections_per_peer: None,
            http_connections_per_address: None,
            dialect: DialectSettings::default(),
            iso8583_idle_timeout_s: 900,
            log: LogFormat::Human,
            metrics: None,
            allow_local_webhooks: false,
            token_requests_per_s: 500,
            stop_delay_s: 0,
            mail: MailSettings::default(),
            cluster: ClusterSettings::default(),
        }
    }
}

/// Clients of earlier interfaces, whose habits can be followed. See `compat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Compat {
    /// Those written for the interface that this one takes after.
    LegacyClient,
}

/// The clock the switch runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ClockSetting {
    /// The system's.
    System,
    /// One that moves only when it is told to.
    Manual,
}

/// How much of the journal is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum RetentionSetting {
    /// Everything: the whole history can be proven again.
    Forever,
    /// Only what recovery needs.
    Recovery,
    /// What keeps the file within about so many bytes, and never less than recovery needs.
    Bytes(u64),
}

/// The units a size may have, the largest first. Units: bytes.
const SIZE_UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
/// The least size a journal is held to. Units: bytes.
const RETENTION_BYTES_MIN: u64 = 1 << 20;

impl Default for RetentionSetting {
    fn default() -> Self {
        Self::Bytes(cardswitch_engine::limits::JOURNAL_BYTES_DEFAULT)
    }
}

impl std::str::FromStr for RetentionSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "forever" => return Ok(Self::Forever),
            "recovery" => return Ok(Self::Recovery),
            _ => {}
        }
        let bytes = SIZE_UNITS.iter().find_map(|(unit, unit_bytes)| {
            let count: u64 = text.strip_suffix(unit)?.trim_end().parse().ok()?;
            count.checked_mul(*unit_bytes).filter(|bytes| *bytes >= RETENTION_BYTES_MIN)
        });
        let refusal = "is none of forever, recovery or a size of at least 1MiB, such as 256MiB";
        bytes.map(Self::Bytes).ok_or_else(|| format!("`{text}` {refusal}"))
    }
}

impl std::fmt::Display for RetentionSetting {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Forever => formatter.write_str("forever"),
            Self::Recovery => formatter.write_str("recovery"),
            Self::Bytes(bytes) => {
                let whole = |(_, unit_bytes): &&(&str, u64)| bytes % unit_bytes == 0;
                let (unit, unit_bytes) = SIZE_UNITS.iter().find(whole).unwrap_or(&("B", 1));
                write!(formatter, "{}{unit}", bytes / unit_bytes)
            }
        }
    }
}

impl TryFrom<String> for RetentionSetting {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<RetentionSetting> for String {
    fn from(setting: RetentionSetting) -> Self {
        setting.to_string()
    }
}

/// How the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}

/// How ISO 8583 messages are spelled on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DialectSettings {
    /// Bitmaps: `binary` or `hex`.
    pub bitmap: BitmapSetting,
    /// Length before each message: `two_bytes`, `four_bytes` or `four_digits`.
    pub length_prefix: LengthPrefixSetting,
    /// Whether a 5-byte TPDU comes before each message.
    pub tpdu: bool,
}

/// How bitmaps are spelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BitmapSetting {
    /// Eight bytes.
    #[default]
    Binary,
    /// Sixteen hexadecimal digits.
    Hex,
}

/// What comes before each message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LengthPrefixSetting {
    /// Two bytes, big endian.
    #[default]
    TwoBytes,
    /// Four bytes, big endian.
    FourBytes,
    /// Four decimal digits.
    FourDigits,
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("`{0}`: {1}")]
    Read(PathBuf, std::io::Error),
    /// The file is not a configuration.
    #[error("`{path}`, line {line}: {}", .source.message())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Where in it, from 1.
        line: usize,
        /// What the parser says.
        source: Box<toml::de::Error>,
    },
    /// A value is out of range.
    #[error("`{1}` is no value for {0}")]
    Value(&'static str, String),
}

impl From<SettingError> for ConfigError {
    fn from(SettingError(name, value): SettingError) -> Self {
        Self::Value(name, value)
    }
}

/// Reads the configuration file: the one named, which must exist, or the one in the data
/// directory, which may.
pub fn read_settings(named: Option<&Path>, data: Option<&Path>) -> Result<Settings, ConfigError> {
    let (path, must_exist) = match (named, data) {
        (Some(path), _) => (path.to_owned(), true),
        (None, Some(data)) => (data.join(CONFIG_FILE), false),
        (None, None) => return Ok(Settings::default()),
    };
    match std::fs::read_to_string(&path) {
        Ok(text) => toml::from_str(&text).map_err(|error: toml::de::Error| {
            let start = error.span().map_or(0, |span| span.start);
            let before = text.bytes().take(start);
            let line = 1 + before.filter(|byte| *byte == b'\n').count();
            ConfigError::Parse { path, line, source: Box::new(error) }
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !must_exist => {
            Ok(Settings::default())
        }
        Err(error) => Err(ConfigError::Read(path, error)),
    }
}

impl Settings {
    /// Checks what types alone do not.
    pub fn checked(self) -> Result<Self, ConfigError> {
        let is_bin =
            (6..=8).contains(&self.bin.len()) && self.bin.bytes().all(|byte| byte.is_ascii_digit());
        if !is_bin {
            return Err(ConfigError::Value("bin (6 to 8 digits)", self.bin));
        }
        self.mail.check()?;
        self.cluster.check(self.clock)?;
        Ok(self)
    }

    /// The card network that requisitions can be made for.
    #[must_use]
    pub fn requisition_network(&self) -> &str {
        self.requisition_network.as_deref().unwrap_or(&self.network)
    }

    /// The address clients see, when the switch listens at `http`.
    #[must_use]
    pub fn base_url_for(&self, http: SocketAddr) -> String {
        match &self.base_url {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None => format!("http://{http}"),
        }
    }

    /// The address of the site, when the switch listens at `http`.
    #[must_use]
    pub fn app_url_for(&self, http: SocketAddr) -> String {
        match &self.app_url {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None => self.base_url_for(http),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_sets_what_it_names_and_unknown_keys_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(CONFIG_FILE);
        assert_eq!(read_settings(None, Some(directory.path())).unwrap(), Settings::default());
        assert!(read_settings(Some(&path), None).is_err());
        std::fs::write(&path, "bin = \"411111\"\nclock = \"manual\"\n").unwrap();
        let settings = read_settings(None, Some(directory.path())).unwrap();
        assert_eq!((settings.bin.as_str(), settings.clock), ("411111", ClockSetting::Manual));
        std::fs::write(&path, "bim = \"411111\"\n").unwrap();
        let error = read_settings(Some(&path), None).unwrap_err().to_string();
        assert!(error.contains("line 1: unknown field `bim`"), "{error}");
    }

    #[test]
    fn settings_survive_printing() {
        let text = toml::to_string(&Settings::default()).unwrap();
        assert_eq!(toml::from_str::<Settings>(&text).unwrap(), Settings::default());
        let kept = Settings { retention: RetentionSetting::Recovery, ..Settings::default() };
        let text = toml::to_string(&kept).unwrap();
        assert!(text.contains("retention = \"recovery\""), "{text}");
        assert_eq!(toml::from_str::<Settings>(&text).unwrap(), kept);
        let short = Settings { bin: "123".to_owned(), ..Settings::default() };
        assert!(short.checked().is_err());
    }

    #[test]
    fn the_site_is_where_clients_are_unless_told_otherwise() {
        let http = SocketAddr::from((Ipv4Addr::LOCALHOST, 8080));
        let url = |url: &str| Some(url.to_owned());
        let rows = [
            (None, None, "http://127.0.0.1:8080"),
            (url("https://api.example.com/"), None, "https://api.example.com"),
            (url("https://api.example.com"), url("https://example.com/"), "https://example.com"),
        ];
        for (base_url, app_url, expected) in rows {
            let settings = Settings { base_url, app_url, ..Settings::default() };
            assert_eq!(settings.app_url_for(http), expected);
        }
        let text = "compat = \"legacy-client\"";
        let settings: Settings = toml::from_str(text).unwrap();
        assert_eq!(settings.compat, Some(Compat::LegacyClient));
        assert!(toml::to_string(&settings).unwrap().contains(text));
    }

    #[test]
    fn a_retention_is_a_word_or_a_size() {
        let rows = [
            ("forever", Some(RetentionSetting::Forever)),
            ("recovery", Some(RetentionSetting::Recovery)),
            ("256MiB", Some(RetentionSetting::Bytes(256 << 20))),
            ("2 GiB", Some(RetentionSetting::Bytes(2 << 30))),
            ("1536KiB", Some(RetentionSetting::Bytes(1536 << 10))),
            ("1KiB", None),
            ("256", None),
            ("-1MiB", None),
            ("99999999999999GiB", None),
            ("Forever", None),
            ("", None),
        ];
        for (text, expected) in rows {
            let parsed = text.parse::<RetentionSetting>();
            assert_eq!(parsed.clone().ok(), expected, "{text}: {parsed:?}");
        }
        assert_eq!(RetentionSetting::Bytes(256 << 20).to_string(), "256MiB");
        assert_eq!(RetentionSetting::Bytes(1536 << 10).to_string(), "1536KiB");
    }
}
