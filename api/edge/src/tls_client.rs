//! TLS towards a door: the authorities that the door's certificate may be of, and the certificate that is
//! shown to it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
pub use tokio_rustls::client::TlsStream;

use crate::followed_files::{FileStamps, follow, read_again, replace};
use crate::tls::{TlsFileError, authorities, certificate_and_key, refusing};

/// How long a door may take until TLS is agreed on.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The files behind the TLS of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientTlsFiles {
    /// Authorities of the door's certificate; those that the system trusts where absent.
    pub authorities: Option<PathBuf>,
    /// A certificate to show, and its private key.
    pub shown: Option<(PathBuf, PathBuf)>,
}

impl ClientTlsFiles {
    fn paths(&self) -> impl Iterator<Item = &Path> {
        let Self { authorities, shown } = self;
        let shown = shown.iter().flat_map(|(certificate, key)| [certificate, key]);
        authorities.iter().chain(shown).map(PathBuf::as_path)
    }
}

/// The TLS of a client, towards doors of any name.
pub struct ClientTls {
    files: ClientTlsFiles,
    protocol: Option<&'static str>,
    /// The stamps of the files that were read first, or by `read_changes`.
    stamps: Mutex<FileStamps>,
    config: Mutex<Arc<ClientConfig>>,
}

/// The TLS of a client, towards a door of one name.
#[derive(Clone, Debug)]
pub struct TlsClient {
    tls: Arc<ClientTls>,
    name: ServerName<'static>,
}

/// A certificate cannot be for such a door.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no name of a door: write a host name or an address")]
pub struct NoDoorNameError(String);

cardswitch_engine::opaque!(ClientTls);

impl ClientTls {
    /// Reads the files.
    /// Errors: the first file that cannot be used, or whose certificates are all invalid now.
    pub fn open(files: ClientTlsFiles) -> Result<Arc<Self>, TlsFileError> {
        Self::open_for(None, files)
    }

    /// The same for doors that ask for the name of the protocol, such as `h2`.
    /// Errors: as of `open`.
    pub fn open_for(
        protocol: Option<&'static str>,
        files: ClientTlsFiles,
    ) -> Result<Arc<Self>, TlsFileError> {
        let stamps = Mutex::new(FileStamps::of(files.paths()));
        let config = Mutex::new(Arc::new(config_of(&files, protocol)?));
        Ok(Arc::new(Self { files, protocol, stamps, config }))
    }

    /// Trusts what the system trusts, and shows no certificate.
    pub fn of_system() -> Arc<Self> {
        Self::open(ClientTlsFiles::default()).expect("without files none can be refused")
    }

    /// The same towards the door at `host`, which is what its certificate has to be for: a name or an address.
    /// Errors: a certificate cannot be for it.
    pub fn towards(self: &Arc<Self>, host: &str) -> Result<TlsClient, NoDoorNameError> {
        let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let name = ServerName::try_from(address.unwrap_or(host).to_owned());
        let name = name.map_err(|_| NoDoorNameError(host.to_owned()))?;
        Ok(TlsClient { tls: Arc::clone(self), name })
    }

    /// Reads the files again whenever they change or SIGHUP comes, until `stop` turns true. Connections that are
    /// made from then on use what was read.
    pub async fn follow_files(self: Arc<Self>, stop: watch::Receiver<bool>) {
        let first = self.stamps.lock().clone();
        follow(self.files.paths(), &first, stop, || Arc::clone(&self).reload()).await;
    }

    async fn reload(self: Arc<Self>) {
        let (files, protocol) = (self.files.clone(), self.protocol);
        read_again(&self.config, move || config_of(&files, protocol), &"client").await;
    }

    /// Reads the files again if they have changed, for a client that blocks and asks before it connects.
    pub fn read_changes(&self) {
        let now = FileStamps::of(self.files.paths());
        if *self.stamps.lock() != now {
            *self.stamps.lock() = now;
            replace(&self.config, config_of(&self.files, self.protocol), &"client");
        }
    }
}

impl TlsClient {
    /// Agrees on TLS with the door at the other end.
    /// Errors: the door is not believed, does not believe, or is too slow.
    pub async fn agree<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
    ) -> io::Result<TlsStream<S>> {
        let agreed = timeout(HANDSHAKE_TIMEOUT, self.agree_patiently(stream));
        agreed.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// The same for a caller with a time limit of its own.
    /// Errors: the door is not believed, or does not believe.
    pub async fn agree_patiently<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
    ) -> io::Result<TlsStream<S>> {
        let connector = TlsConnector::from(Arc::clone(&self.tls.config.lock()));
        connector.connect(self.name.clone(), stream).await
    }
}

fn config_of(files: &ClientTlsFiles, protocol: Option<&str>) -> Result<ClientConfig, TlsFileError> {
    let roots = match &files.authorities {
        Some(path) => authorities("authorities", path)?,
        None => system_roots(),
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has the default versions of TLS");
    let trusting = versions.with_root_certificates(roots);
    let mut config = match &files.shown {
        None => trusting.with_no_client_auth(),
        Some((certificate, key)) => {
            let (chain, private) = certificate_and_key(certificate, key)?;
            let shown = trusting.with_client_auth_cert(chain, private);
            shown.map_err(|error| refusing("key", key)(error.to_string()))?
        }
    };
    config.alpn_protocols = protocol.iter().map(|name| name.as_bytes().to_vec()).collect();
    Ok(config)
}

/// The authorities that the system trusts. Entries that are no certificates are left out.
fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    let (taken, _) = roots.add_parsable_certificates(found.certs);
    if taken == 0 {
        tracing::warn!("the system trusts no certificate: TLS towards others will fail");
    }
    roots
}

/// Whether a connection broke because the door refused the certificate that was shown, or that none was: then it
/// has read nothing. TLS 1.3 tells a client only once it reads.
pub fn is_refusal(error: &io::Error) -> bool {
    use rustls::AlertDescription::{
        AccessDenied, BadCertificate, CertificateExpired, CertificateRequired, CertificateRevoked,
        CertificateUnknown, DecryptError, UnknownCA, UnsupportedCertificate,
    };
    let error = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
    matches!(
        error,
        Some(rustls::Error::AlertReceived(
            AccessDenied
                | BadCertificate
                | CertificateExpired
                | CertificateRequired
                | CertificateRevoked
                | CertificateUnknown
                | DecryptError
                | UnknownCA
                | UnsupportedCertificate
        ))
    )
}
