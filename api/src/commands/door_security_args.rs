//! The flags of TLS and keys at the ISO 8583 address; further doors have theirs in the file.

use std::path::PathBuf;

use cardswitch_edge::tls::TlsFiles;
use cardswitch_network::zone::ZoneSettings;
use cardswitch_zone::MacAlgorithm;

use super::line_args::parse_algorithm;
use crate::config::Settings;

/// TLS and keys of the ISO 8583 address.
#[derive(Debug, clap::Args)]
pub(super) struct DoorSecurityArgs {
    /// Certificate chain of the ISO 8583 address, in PEM form: it speaks TLS
    #[arg(
        long,
        env = "CARDSWITCH_ISO8583_TLS_CERTIFICATE",
        value_name = "FILE",
        requires = "iso8583_tls_key"
    )]
    iso8583_tls_certificate: Option<PathBuf>,
    /// Private key of that certificate
    #[arg(
        long,
        env = "CARDSWITCH_ISO8583_TLS_KEY",
        hide_env_values = true,
        value_name = "FILE",
        requires = "iso8583_tls_certificate"
    )]
    iso8583_tls_key: Option<PathBuf>,
    /// Authorities in PEM form: peers must show a certificate of one of them
    #[arg(
        long,
        env = "CARDSWITCH_ISO8583_TLS_CLIENT_CA",
        value_name = "FILE",
        requires = "iso8583_tls_key"
    )]
    iso8583_tls_client_ca: Option<PathBuf>,
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
        if let Some((certificate, key)) = self.iso8583_tls_certificate.zip(self.iso8583_tls_key) {
            let client_ca = self.iso8583_tls_client_ca;
            file.iso8583_tls = Some(TlsFiles { certificate, key, client_ca });
        }
        if let Some(keys) = self.iso8583_zone_keys {
            file.iso8583_zone = Some(ZoneSettings { keys, mac: self.iso8583_zone_mac });
        }
    }
}
