//! The flags of TLS and keys at the ISO 8583 address; further doors have theirs in the file.

use std::path::PathBuf;

use cardswitch_acquiring::zone::ZoneSettings;
use cardswitch_zone::MacAlgorithm;

use super::line_args::parse_algorithm;
use super::tls_args::DoorTlsArgs;
use crate::config::Settings;

/// TLS and keys of the ISO 8583 address.
#[derive(Debug, clap::Args)]
pub(super) struct DoorSecurityArgs {
    #[command(flatten)]
    tls: DoorTlsArgs,
    /// File of the zone's keys
    #[arg(long, env = "CARDSWITCH_ISO8583_ZONE_KEYS", hide_env_values = true, value_name = "FILE")]
    iso8583_zone_keys: Option<PathBuf>,
    /// Algorithm of message authentication codes: retail_1, retail_2 or cmac [default: none]
    #[arg(long, env = "CARDSWITCH_ISO8583_ZONE_MAC", value_name = "ALGORITHM", requires = "iso8583_zone_keys", value_parser = parse_algorithm)]
    iso8583_zone_mac: Option<MacAlgorithm>,
}

impl DoorSecurityArgs {
    /// Puts what is given in the place of what the file says.
    pub(super) fn over(self, file: &mut Settings) {
        if let Some(files) = self.tls.files() {
            file.iso8583_tls = Some(files);
        }
        if let Some(keys) = self.iso8583_zone_keys {
            file.iso8583_zone = Some(ZoneSettings { keys, mac: self.iso8583_zone_mac });
        }
    }
}
