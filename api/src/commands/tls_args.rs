//! The flags of TLS at the HTTP and the ISO 8583 address: the same for a switch and for a router.

use std::path::PathBuf;

use cardswitch_edge::tls::TlsFiles;

/// TLS of the HTTP address.
#[derive(Debug, clap::Args)]
pub(super) struct TlsArgs {
    /// Certificate chain of the HTTP address, in PEM form: HTTP is served over TLS
    #[arg(long, env = "CARDSWITCH_TLS_CERTIFICATE", value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// Private key of that certificate
    #[arg(
        long,
        env = "CARDSWITCH_TLS_KEY",
        hide_env_values = true,
        value_name = "FILE",
        requires = "tls_certificate"
    )]
    tls_key: Option<PathBuf>,
    /// Authorities in PEM form: clients over HTTP must show a certificate of one of them
    #[arg(long, env = "CARDSWITCH_TLS_CLIENT_CA", value_name = "FILE", requires = "tls_key")]
    tls_client_ca: Option<PathBuf>,
}

impl TlsArgs {
    /// The files; none without TLS.
    pub(super) fn files(self) -> Option<TlsFiles> {
        let (certificate, key) = self.tls_certificate.zip(self.tls_key)?;
        Some(TlsFiles { certificate, key, client_ca: self.tls_client_ca })
    }
}

/// TLS of the ISO 8583 address.
#[derive(Debug, clap::Args)]
pub(super) struct DoorTlsArgs {
    /// Certificate chain of the ISO 8583 address, in PEM form: ISO 8583 is served over TLS
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
    /// Authorities in PEM form: peers over ISO 8583 must show a certificate of one of them
    #[arg(
        long,
        env = "CARDSWITCH_ISO8583_TLS_CLIENT_CA",
        value_name = "FILE",
        requires = "iso8583_tls_key"
    )]
    iso8583_tls_client_ca: Option<PathBuf>,
}

impl DoorTlsArgs {
    /// The files; none without TLS.
    pub(super) fn files(self) -> Option<TlsFiles> {
        let (certificate, key) = self.iso8583_tls_certificate.zip(self.iso8583_tls_key)?;
        Some(TlsFiles { certificate, key, client_ca: self.iso8583_tls_client_ca })
    }
}
