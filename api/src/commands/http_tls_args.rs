//! The flags of TLS towards the HTTP address of a switch, the same for all commands that ask it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use cardswitch_edge::tls_client::{ClientTls, ClientTlsFiles, TlsClient};
use url::Url;

use super::Failure;

/// TLS towards the HTTP address of a switch.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct HttpTlsArgs {
    /// Authorities that the certificate of the HTTP address may be of (PEM) [default: those that the system
    /// trusts]
    #[arg(long, value_name = "FILE")]
    http_ca: Option<PathBuf>,
    /// Certificate to show to the HTTP address (PEM)
    #[arg(long, value_name = "FILE", requires = "http_key")]
    http_certificate: Option<PathBuf>,
    /// Private key of that certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "http_certificate")]
    http_key: Option<PathBuf>,
}

/// The TLS of a command towards addresses of a switch.
#[derive(Clone, Debug, Default)]
pub(super) struct HttpTls(Option<Arc<ClientTls>>);

impl HttpTlsArgs {
    /// Reads the files, if one of these addresses needs TLS.
    /// Errors: a file that cannot be used, or one that no address needs.
    pub(super) fn open<'a>(
        &self,
        urls: impl IntoIterator<Item = &'a Url>,
    ) -> Result<HttpTls, Failure> {
        let Self { http_ca, http_certificate, http_key } = self.clone();
        if urls.into_iter().any(|url| url.scheme() == "https") {
            let shown = http_certificate.zip(http_key);
            let tls = ClientTls::open(ClientTlsFiles { authorities: http_ca, shown })?;
            return Ok(HttpTls(Some(tls)));
        }
        // Keys would travel in clear where the user asked for TLS.
        match http_ca.or(http_certificate) {
            Some(_) => Err(Failure::usage("TLS is for an HTTP address that begins with https")),
            None => Ok(HttpTls::default()),
        }
    }
}

impl HttpTls {
    /// The TLS towards the host of an address; none where that is of plain HTTP.
    /// Errors: the address is of TLS, and was not when the files were read; no certificate can be for its host.
    pub(super) fn towards(&self, url: &Url) -> io::Result<Option<TlsClient>> {
        if url.scheme() != "https" {
            return Ok(None);
        }
        let refused = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, why.to_owned());
        let tls = self.0.as_ref().ok_or_else(|| refused("no TLS was prepared"))?;
        let named = tls.towards(url.host_str().unwrap_or_default());
        named.map(Some).map_err(|error| refused(&error.to_string()))
    }
}
