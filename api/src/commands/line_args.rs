//! The flags by which commands that speak ISO 8583 choose the line: its dialect, its TLS, its codes.

use std::path::PathBuf;
use std::sync::Arc;

use cardswitch_edge::tls_client::{ClientTls, ClientTlsFiles, TlsClient};
use cardswitch_feed::{Carrier, DoorAddresses, Line};
use cardswitch_iso8583::Dialect;
use cardswitch_zone::MacAlgorithm;

use super::Failure;
use super::secured_line::{Codes, SecuredLine};
use crate::doors::{LengthSetting, dialect_of};

/// A dialect, as `serve` takes it.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct DialectArgs {
    /// Dialect of the messages: default, ascii-hex, ebcdic, bcd, 1993, or a dialect file
    #[arg(long, value_name = "NAME|FILE", default_value = "default")]
    dialect: String,
    /// Length before each message, such as binary4 or ascii4 [default: that of the dialect]
    #[arg(long, value_name = "FORM")]
    length: Option<LengthSetting>,
    /// A TPDU precedes each message
    #[arg(long)]
    tpdu: bool,
}

impl DialectArgs {
    /// The dialect.
    /// Errors: a file that is none.
    pub(super) fn dialect(&self) -> Result<Dialect, Failure> {
        let Self { dialect, length, tpdu } = self;
        Ok(dialect_of(dialect, *length, tpdu.then_some(true))?)
    }
}

/// A line to a door, as the door's settings describe it.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct LineArgs {
    #[command(flatten)]
    dialect: DialectArgs,
    /// Speak TLS; the door's certificate is of an authority in this file (PEM)
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Certificate to show to the door (PEM)
    #[arg(long, value_name = "FILE", requires_all = ["tls_ca", "tls_key"])]
    tls_certificate: Option<PathBuf>,
    /// Private key of that certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Name that the door's certificate is for [default: its first address]
    #[arg(long, value_name = "NAME", requires = "tls_ca")]
    tls_name: Option<String>,
    /// File of the zone's keys, as the setting `keys` of a door names it: PINs go under `pin`, a TDES key, and codes
    /// are made and checked with `mac`
    #[arg(long, value_name = "FILE")]
    zone_keys: Option<PathBuf>,
    /// Algorithm of the codes: retail_1, retail_2 or cmac
    #[arg(long, value_name = "ALGORITHM", requires = "zone_keys", value_parser = parse_algorithm)]
    mac: Option<MacAlgorithm>,
}

/// An algorithm, as settings name it.
/// Errors: there is none of that name.
pub(super) fn parse_algorithm(text: &str) -> Result<MacAlgorithm, String> {
    let word = toml::Value::String(text.to_owned());
    word.try_into().map_err(|_| "write retail_1, retail_2 or cmac".to_owned())
}

impl LineArgs {
    /// The line to the door at these addresses.
    /// Errors: a file that cannot be used.
    pub(super) fn line(&self, door: impl Into<DoorAddresses>) -> Result<Line, Failure> {
        let door = door.into();
        let dialect = self.dialect.dialect()?;
        let tls = self.tls(&door)?;
        let codes = self.zone_keys.as_ref();
        let codes = codes.map(|file| Codes::read(file, self.mac, dialect.clone())).transpose()?;
        // The maker of codes gets the messages before they are spelled.
        let spelled = if codes.is_some() { Dialect::default() } else { dialect };
        let is_plain = tls.is_none() && codes.is_none();
        let secured = || Arc::new(SecuredLine::new(tls, codes)) as Arc<dyn Carrier>;
        let carrier = (!is_plain).then(secured);
        Ok(Line { door, dialect: spelled, carrier })
    }

    fn tls(&self, door: &DoorAddresses) -> Result<Option<TlsClient>, Failure> {
        let Some(authorities) = self.tls_ca.clone() else { return Ok(None) };
        let shown = self.tls_certificate.clone().zip(self.tls_key.clone());
        let name = self.tls_name.clone().unwrap_or_else(|| {
            door.first().map(|address| address.ip().to_string()).unwrap_or_default()
        });
        let tls = ClientTls::open(ClientTlsFiles { authorities: Some(authorities), shown })?;
        Ok(Some(tls.towards(&name)?))
    }
}
