//! The ISO 8583 doors of a switch, as settings and as options of their listeners.
//!
//! One door always stands at `iso8583`. Each `[[iso8583_doors]]` of the settings file adds another, with its
//! own dialect and peers. All doors lead to one engine and share the bounds of the process.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use cardswitch_acquiring::zone::{Zone, ZoneSettings};
use cardswitch_dialects::DialectError;
use cardswitch_edge::descriptors::DescriptorShares;
use cardswitch_edge::peers::{Admission, AdmissionError, PeerNetwork};
use cardswitch_edge::tls::{TlsDoor, TlsFiles, TlsProtocol};
use cardswitch_iso8583::dialect::DEFAULT;
use cardswitch_iso8583::{Dialect, LengthPrefix};
use cardswitch_network::listener::{DOOR_NAME_DEFAULT, ListenerOptions};
use cardswitch_network::zone_clock::ZoneClock;
use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, Settings};

/// One more door.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DoorSettings {
    /// Its name in logs.
    pub name: String,
    /// The address at which it listens.
    pub address: SocketAddr,
    /// How its peers spell their messages: a shipped dialect, or a dialect file.
    #[serde(default = "default_dialect")]
    pub dialect: String,
    /// How these stand on the stream, where not as the dialect says.
    pub length: Option<LengthSetting>,
    /// Whether a TPDU stands before each, where not as the dialect says.
    pub tpdu: Option<bool>,
    /// Its TLS; none where absent.
    pub tls: Option<TlsFiles>,
    /// The security of its messages; none where absent.
    pub zone: Option<ZoneSettings>,
    /// Peers that may connect; those of the first door where absent.
    pub peers: Option<Vec<String>>,
    /// How many connections a peer may have; as at the first door where absent.
    pub connections_per_peer: Option<NonZeroUsize>,
    /// After so long without a byte a connection is closed; as at the first door where absent. Units: seconds.
    pub idle_timeout_s: Option<u64>,
}

fn default_dialect() -> String {
    DEFAULT.to_owned()
}

/// How messages stand on a stream, as the setting has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LengthSetting(pub LengthPrefix);

impl std::str::FromStr for LengthSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self)
    }
}

impl TryFrom<String> for LengthSetting {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<LengthSetting> for String {
    fn from(setting: LengthSetting) -> Self {
        setting.0.to_string()
    }
}

/// The dialect of that name or file, in the framing that is set.
/// Errors: a file that is no dialect; a delimiter that its messages may hold.
pub fn dialect_of(
    name: &str,
    length: Option<LengthSetting>,
    tpdu: Option<bool>,
) -> Result<Dialect, DialectError> {
    let mut dialect = cardswitch_dialects::find(name)?;
    dialect.framing.length = length.map_or(dialect.framing.length, |setting| setting.0);
    dialect.framing.tpdu = tpdu.unwrap_or(dialect.framing.tpdu);
    cardswitch_dialects::check_framing(&dialect)?;
    Ok(dialect)
}

/// The options of every door, the first one first.
/// Errors: a name twice; what a setting cannot be.
pub fn listener_options(
    settings: &Settings,
    shares: &DescriptorShares,
) -> Result<Vec<ListenerOptions>, ConfigError> {
    let first = ListenerOptions {
        dialect: dialect_of(&settings.dialect, settings.length, settings.tpdu)?,
        tls: open_tls((DOOR_NAME_DEFAULT, TlsProtocol::Iso8583), settings.iso8583_tls.as_ref())?,
        zone: open_zone(DOOR_NAME_DEFAULT, settings.iso8583_zone.as_ref())?,
        peers: peers_of_first(settings)?,
        idle_limit: Duration::from_secs(settings.iso8583_idle_timeout_s),
        connections_per_peer: shares.iso8583.per_address_max,
        ..ListenerOptions::at(settings.iso8583)
    };
    let peers = &settings.iso8583_peers;
    let others = settings.iso8583_doors.iter().map(|door| options_of(door, &first, peers));
    let others = others.collect::<Result<Vec<_>, _>>()?;
    let mut names = BTreeSet::from([DOOR_NAME_DEFAULT]);
    for door in &settings.iso8583_doors {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if door.name.is_empty() || !door.name.bytes().all(is_word) || !names.insert(&door.name) {
            let what = "iso8583_doors.name (letters, digits, - _, each once, not `iso8583`)";
            return Err(ConfigError::Value(what, door.name.clone()));
        }
    }
    Ok(std::iter::once(first).chain(others).collect())
}

/// The peers that the first door admits.
/// Errors: an entry is no peer, or the door admits the whole world without a word that says so.
fn peers_of_first(settings: &Settings) -> Result<Vec<PeerNetwork>, ConfigError> {
    admitted(FIRST, (DOOR_NAME_DEFAULT, settings.iso8583), &settings.iso8583_peers)
}

fn options_of(
    door: &DoorSettings,
    first: &ListenerOptions,
    peers: &[String],
) -> Result<ListenerOptions, ConfigError> {
    let peers = door.peers.as_deref().unwrap_or(peers);
    Ok(ListenerOptions {
        name: door.name.clone(),
        address: door.address,
        dialect: dialect_of(&door.dialect, door.length, door.tpdu)?,
        tls: open_tls((&door.name, TlsProtocol::Iso8583), door.tls.as_ref())?,
        zone: open_zone(&door.name, door.zone.as_ref())?,
        peers: admitted(OTHER, (&door.name, door.address), peers)?,
        idle_limit: door.idle_timeout_s.map_or(first.idle_limit, Duration::from_secs),
        connections_per_peer: door
            .connections_per_peer
            .map_or(first.connections_per_peer, NonZeroUsize::get),
    })
}

/// The peers that a door admits; a line in the log where it listens to others in vain.
/// Errors: an entry is no peer, or the door admits the whole world without a word that says so.
fn admitted(
    setting: PeerSetting,
    (door, address): (&str, SocketAddr),
    peers: &[String],
) -> Result<Vec<PeerNetwork>, ConfigError> {
    let Admission { peers, is_shut } = admission(setting, address, peers)?;
    if is_shut {
        tracing::warn!(door, %address, "the ISO 8583 door takes this machine's connections alone: its peers name others");
    }
    Ok(peers)
}

/// The setting that names the peers of a door, as errors have it.
#[derive(Clone, Copy, Debug)]
pub struct PeerSetting {
    name: &'static str,
    /// The same with the word that admits the whole world.
    name_and_word: &'static str,
}

/// The setting of the first door.
pub const FIRST: PeerSetting = PeerSetting {
    name: "iso8583_peers",
    name_and_word: "iso8583_peers (beyond loopback, `any` admits the whole world)",
};

const OTHER: PeerSetting = PeerSetting {
    name: "iso8583_doors.peers",
    name_and_word: "iso8583_doors.peers (beyond loopback, `any` admits the whole world)",
};

/// The peers that an ISO 8583 door admits.
/// Errors: an entry is no peer, or the door admits the whole world without a word that says so.
pub fn admission(
    setting: PeerSetting,
    address: SocketAddr,
    peers: &[String],
) -> Result<Admission, ConfigError> {
    Admission::at(address, peers).map_err(|error| match error {
        AdmissionError::NoNetwork(text) => ConfigError::Value(setting.name, text),
        AdmissionError::World(text) => ConfigError::Value(setting.name_and_word, text),
    })
}

/// The TLS of a door, where it has any.
/// Errors: a file that cannot be used.
pub fn open_tls(
    (door, spoken): (&str, TlsProtocol),
    files: Option<&TlsFiles>,
) -> Result<Option<Arc<TlsDoor>>, ConfigError> {
    let opened = files.map(|files| TlsDoor::open(spoken, files.clone()).map(Arc::new));
    opened.transpose().map_err(|error| ConfigError::Tls(door.to_owned(), error))
}

fn open_zone(
    door: &str,
    settings: Option<&ZoneSettings>,
) -> Result<Option<Arc<Zone>>, ConfigError> {
    let open = |settings| Zone::open(door, settings, Arc::new(ZoneClock::start())).map(Arc::new);
    settings.map(open).transpose().map_err(|error| ConfigError::Zone(door.to_owned(), error))
}

/// Addresses and networks, as the setting `name` has them.
pub fn parse_networks(
    name: &'static str,
    texts: &[String],
) -> Result<Vec<PeerNetwork>, ConfigError> {
    let parse = |text: &String| text.parse().map_err(|_| ConfigError::Value(name, text.clone()));
    texts.iter().map(parse).collect()
}
