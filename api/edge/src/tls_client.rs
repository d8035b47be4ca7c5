//! TLS towards a door: the authorities that the door's certificate may be of, and what is shown to it.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::tls::{TlsFileError, certificates, refusing};

/// How long a door may take until TLS is agreed on.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The files behind the TLS of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTlsFiles {
    /// Authorities of the door's certificate.
    pub authorities: PathBuf,
    /// A certificate to show, and its private key.
    pub shown: Option<(PathBuf, PathBuf)>,
}

/// The TLS of a client, towards a door of one name.
pub struct TlsClient {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl fmt::Debug for TlsClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TlsClient").field("name", &self.name).finish_non_exhaustive()
    }
}

impl TlsClient {
    /// Reads the files; `name` is what the door's certificate has to be for, a name or an address.
    /// Errors: the first file that cannot be used, or no name.
    pub fn open(files: &ClientTlsFiles, name: &str) -> Result<Self, TlsFileError> {
        let path = &files.authorities;
        let mut roots = RootCertStore::empty();
        for authority in certificates("authorities", path)? {
            let added = roots.add(authority);
            added.map_err(|error| refusing("authorities", path)(error.to_string()))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| refusing("authorities", path)(error.to_string()))?;
        let trusting = versions.with_root_certificates(roots);
        let config = match &files.shown {
            None => trusting.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = certificates("certificate", certificate)?;
                let private = PrivateKeyDer::from_pem_file(key);
                let private = private.map_err(|error| refusing("key", key)(error.to_string()))?;
                let shown = trusting.with_client_auth_cert(chain, private);
                shown.map_err(|error| refusing("key", key)(error.to_string()))?
            }
        };
        let no_name = |_| refusing("authorities", path)(format!("`{name}` is no name of a door"));
        let name = ServerName::try_from(name.to_owned()).map_err(no_name)?;
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), name })
    }

    /// Agrees on TLS with the door at the other end.
    /// Errors: the door is not believed, does not believe, or is too slow.
    pub async fn agree<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
    ) -> io::Result<TlsStream<S>> {
        let agreed = timeout(HANDSHAKE_TIMEOUT, self.connector.connect(self.name.clone(), stream));
        agreed.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}
