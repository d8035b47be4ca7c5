//! How the switch is configured: flags over environment over a TOML file over defaults.
//!
//! clap merges flags and environment; other settings are taken from the file (`--config FILE`, else
//! `cardswitch.toml` in the data directory), then from `Settings::default`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use url::Url;

use cardswitch_acquiring::fault_plan::FaultRuleError;
use cardswitch_acquiring::zone::ZoneSettings;
use cardswitch_cluster::ClusterAddress;
use cardswitch_dialects::DialectError;
use cardswitch_edge::tls::{TlsFileError, TlsFiles};
use cardswitch_iso8583::line_of;
use cardswitch_notify::mail::settings::{MailFlags, MailSettings, SettingError};
use cardswitch_secrets::issuing::CardNumbers;
use cardswitch_zone::KeyFileError;

use crate::commands::{parse_address, parse_count};
use crate::doors::{DoorSettings, FIRST, LengthSetting, admission, parse_networks};

/// The name of the configuration file inside a data directory.
pub const CONFIG_FILE: &str = "cardswitch.toml";

cardswitch_wire::settings! {
    /// Everything that can be configured.
    "" Settings, SettingFlags {
        /// Address for HTTP; port 0 takes a free one
        #[arg(value_name = "ADDR", value_parser = parse_address)]
        http: SocketAddr = SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
        /// Address for ISO 8583; port 0 takes a free one
        #[arg(value_name = "ADDR", value_parser = parse_address)]
        iso8583: SocketAddr = SocketAddr::from((Ipv4Addr::LOCALHOST, 8583)),
        /// Address for /metrics, /healthz and /readyz [default: 127.0.0.1:9464, or a free port if that
        /// is in use or --http takes one]
        #[arg(value_name = "ADDR", value_parser = parse_address)]
        metrics: SocketAddr,
        /// Address that clients see, for the links in answers [default: that of --http]
        #[arg(value_name = "URL")]
        base_url: String,
        /// Address of the site, where shared links lead [default: that of --base-url]
        #[arg(value_name = "URL")]
        app_url: String,
        /// Proxies whose X-Forwarded-For is believed: addresses or networks, with commas between them
        #[arg(value_name = "NETWORKS", value_delimiter = ',')]
        trusted_proxies: Vec<String> = Vec::new(),
        /// HTTP connections of one address, except trusted proxies [default: half of all]
        #[arg(value_name = "N", value_parser = parse_count)]
        http_connections_per_address: NonZeroUsize,
        /// Peers that may connect to the ISO 8583 door: addresses or networks, with commas between
        /// them; `any` admits the whole world
        #[arg(value_name = "NETWORKS", value_delimiter = ',')]
        iso8583_peers: Vec<String> = vec!["127.0.0.0/8".to_owned(), "::1".to_owned()],
        /// ISO 8583 connections of one peer [default: half of all]
        #[arg(value_name = "N", value_parser = parse_count)]
        iso8583_connections_per_peer: NonZeroUsize,
        /// Seconds without a byte before an ISO 8583 connection is closed, at least 1
        #[arg(value_name = "SECONDS")]
        iso8583_idle_timeout_s: u64 = 900,
        /// Older clients of such an API whose habits are followed, too [default: none]
        #[arg(value_name = "CLIENT")]
        compat: Compat,
        /// Clock: the system's, or one that simulations move
        #[arg(value_name = "CLOCK")]
        clock: ClockSetting = ClockSetting::System,
        /// Size of the journal to keep, such as 256MiB; `recovery` keeps what recovery needs, `forever`
        /// all
        #[arg(value_name = "HOW")]
        retention: RetentionSetting = RetentionSetting::default(),
        /// Log format, on stderr; RUST_LOG sets the level
        #[arg(value_name = "FORMAT")]
        log: LogFormat = LogFormat::Human,
        /// Let webhooks go to this machine and to private networks, too: for a switch that is tried out
        #[arg(value_name = "ALLOW", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
        allow_local_webhooks: bool = false,
        /// Misbehave towards clients under test: a file of rules for late, double, false and lost answers
        /// and webhooks, or a seed that draws some of each [default: none]
        #[arg(value_name = "FILE|SEED")]
        faults: String,
        /// Requests a second that an access token may make, 0 for any number
        #[arg(value_name = "N")]
        token_requests_per_s: u32 = 500,
        /// Seconds of normal work after /readyz first answers `stopping`, at most 600
        #[arg(value_name = "SECONDS")]
        stop_delay_s: u64 = 0,
        /// First 6 to 8 digits of new card numbers
        #[arg(long = "card-bin", value_name = "DIGITS")]
        bin: String = "45371100".to_owned(),
        /// Card network of those numbers
        #[arg(value_name = "NAME")]
        network: String = "visa".to_owned(),
        /// Card network that requisitions are accepted for [default: that of --network]
        #[arg(value_name = "NAME")]
        requisition_network: String,
        /// ISO 8583 dialect: default, ascii-hex, ebcdic, bcd, 1993, or a dialect file
        #[arg(value_name = "NAME|FILE")]
        dialect: String = cardswitch_iso8583::dialect::DEFAULT.to_owned(),
        /// Length before each ISO 8583 message, such as binary4, ascii4 or `bcd4 inclusive` [default:
        /// that of the dialect]
        #[arg(value_name = "FORM")]
        length: LengthSetting,
        /// Whether a TPDU precedes each ISO 8583 message [default: as the dialect says]
        #[arg(value_name = "TPDU", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
        tpdu: bool,
        file {
            /// TLS of the HTTP address; none where absent.
            tls: Option<TlsFiles>,
            /// TLS of the ISO 8583 address; none where absent.
            iso8583_tls: Option<TlsFiles>,
            /// The security of ISO 8583 messages; none where absent.
            iso8583_zone: Option<ZoneSettings>,
            /// Further ISO 8583 doors.
            #[serde(skip_serializing_if = "Vec::is_empty")]
            iso8583_doors: Vec<DoorSettings>,
        }
        sections {
            /// How mail is sent.
            mail: MailSettings, MailFlags,
            /// The cluster that the switch is a node of.
            cluster: ClusterSettings, ClusterFlags,
        }
    }
}

cardswitch_wire::settings! {
    /// The setting that makes a switch a node of a cluster. Without a journal elsewhere it is no node.
    "cluster." ClusterSettings, ClusterFlags {
        /// Cluster to be a node of, such as etcd://10.0.0.1:2379,10.0.0.2:2379/prod [default: none]
        #[arg(value_name = "URL")]
        journal: ClusterAddress,
        /// Name of this node in its cluster [default: none]
        #[arg(value_name = "NAME")]
        node: String,
        /// Address at which other nodes reach the doors of this one [default: that of the doors]
        #[arg(value_name = "ADDR")]
        peer: IpAddr,
        /// Port of the door for other nodes; 0 takes a free one
        #[arg(long = "node-port", value_name = "PORT")]
        port: u16 = 0,
        /// Milliseconds without a sign of life after which another node takes the lead, at least 300
        #[arg(value_name = "MS")]
        leader_silence_ms: u64 = 700,
    }
}

/// Three signs of life: a shorter silence says nothing. Units: milliseconds.
const LEADER_SILENCE_MS_MIN: u64 = 300;
/// A minute, in which an operator would have stepped in. Units: milliseconds.
const LEADER_SILENCE_MS_MAX: u64 = 60_000;
/// Ten minutes, in which any load balancer has heard of it.
const STOP_DELAY_S_MAX: u64 = 600;

impl ClusterSettings {
    /// Checks what types alone do not.
    fn check(&self, clock: ClockSetting) -> Result<(), ConfigError> {
        let silence = self.leader_silence_ms;
        if !(LEADER_SILENCE_MS_MIN..=LEADER_SILENCE_MS_MAX).contains(&silence) {
            let what = "cluster.leader_silence_ms (300 to 60000)";
            return Err(ConfigError::Value(what, silence.to_string()));
        }
        if self.journal.is_none() {
            let lone = |name| ConfigError::Value("cluster.node (without cluster.journal)", name);
            return self.node.clone().map_or(Ok(()), |name| Err(lone(name)));
        }
        let is_symbol = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let name = self.node.clone().ok_or(ConfigError::NodeUnnamed)?;
        if name.is_empty() || name.len() > 64 || !name.bytes().all(is_symbol) {
            return Err(ConfigError::Value("cluster.node (letters, digits, - _ .)", name));
        }
        if clock == ClockSetting::Manual {
            return Err(ConfigError::Value("clock in a cluster", "manual".to_owned()));
        }
        Ok(())
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
    /// As much as keeps the file within about so many bytes, and never less than recovery needs.
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
        /// The line in the file, from 1.
        line: usize,
        /// The parser's error.
        source: Box<toml::de::Error>,
    },
    /// A certificate of a door, its key or its authorities.
    #[error("TLS of {0}: {1}")]
    Tls(String, TlsFileError),
    /// The keys of a door.
    #[error("zone of {0}: {1}")]
    Zone(String, KeyFileError),
    /// A value is out of range.
    #[error("`{1}` is no value for {0}")]
    Value(&'static str, String),
    /// A node of a cluster has no name.
    #[error("a node of a cluster needs a name: `--node NAME`, or `node` of `[cluster]`")]
    NodeUnnamed,
    /// A dialect cannot be used.
    #[error(transparent)]
    Dialect(#[from] DialectError),
    /// A file of faults cannot be used.
    #[error("`{0}`, {1}")]
    Faults(String, FaultRuleError),
}

impl From<SettingError> for ConfigError {
    fn from(SettingError(name, value): SettingError) -> Self {
        Self::Value(name, value)
    }
}

/// Parses the text of a TOML file.
/// Errors: it is none; the error names file and line.
pub(crate) fn parse_file<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, ConfigError> {
    toml::from_str(text).map_err(|error: toml::de::Error| ConfigError::Parse {
        path: path.to_owned(),
        line: line_of(text, error.span().map_or(0, |span| span.start)),
        source: Box::new(error),
    })
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
        Ok(text) => parse_file(&path, &text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !must_exist => {
            Ok(Settings::default())
        }
        Err(error) => Err(ConfigError::Read(path, error)),
    }
}

/// Errors: no address of a site, which begins with http or https and names a host.
fn check_site(name: &'static str, url: &str) -> Result<(), ConfigError> {
    let parsed = Url::parse(url).ok();
    let is_site = parsed.is_some_and(|url| ["http", "https"].contains(&url.scheme()));
    is_site.then_some(()).ok_or_else(|| ConfigError::Value(name, url.to_owned()))
}

impl Settings {
    /// Checks what types alone do not.
    pub fn checked(self) -> Result<Self, ConfigError> {
        if CardNumbers::new(&self.bin).is_none() {
            return Err(ConfigError::Value("bin (6 to 8 digits)", self.bin));
        }
        let urls = [("base_url", &self.base_url), ("app_url", &self.app_url)];
        for (name, url) in urls {
            url.as_deref().map_or(Ok(()), |url| check_site(name, url))?;
        }
        let of_doors = self.iso8583_doors.iter().filter_map(|door| door.idle_timeout_s);
        if [self.iso8583_idle_timeout_s].into_iter().chain(of_doors).any(|limit_s| limit_s == 0) {
            return Err(ConfigError::Value("an idle timeout (at least 1 s)", "0".to_owned()));
        }
        if self.stop_delay_s > STOP_DELAY_S_MAX {
            let shown = self.stop_delay_s.to_string();
            return Err(ConfigError::Value("stop_delay_s (0 to 600)", shown));
        }
        self.mail.check()?;
        self.cluster.check(self.clock)?;
        parse_networks("trusted_proxies", &self.trusted_proxies)?;
        admission(FIRST, self.iso8583, &self.iso8583_peers)?;
        Ok(self)
    }

    /// The card network that requisitions can be made for.
    pub fn requisition_network(&self) -> &str {
        self.requisition_network.as_deref().unwrap_or(&self.network)
    }

    /// The address clients see, when the switch listens at `http`.
    pub fn base_url_for(&self, http: SocketAddr) -> String {
        match &self.base_url {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None if self.tls.is_some() => format!("https://{http}"),
            None => format!("http://{http}"),
        }
    }

    /// The address of the site, when the switch listens at `http`.
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
    fn a_leader_may_be_silent_for_three_beats_and_no_longer_than_a_minute() {
        for (ms, is_taken) in [(299, false), (300, true), (60_000, true), (60_001, false)] {
            let journal = "etcd://127.0.0.1:2379/test";
            let text = format!(
                "[cluster]\njournal = \"{journal}\"\nnode = \"a\"\nleader_silence_ms = {ms}\n"
            );
            let settings: Settings = toml::from_str(&text).unwrap();
            let checked = settings.checked().map_err(|error| error.to_string());
            assert_eq!(checked.is_ok(), is_taken, "{ms}: {checked:?}");
        }
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
