//! TLS of a door: its certificate and key, and the authorities that its peers' certificates are of.
//!
//! All three are PEM files. They are read again on SIGHUP and when one of them changes; connections
//! made from then on use what was read. Files that cannot be used are logged and change nothing.
//!
//! INVARIANT: with `client_ca` no peer speaks that has not shown a valid certificate of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use cardswitch_secrets::plain_file::read_named;
use parking_lot::Mutex;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{CertificateError, RootCertStore, ServerConfig};
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use x509_cert::Certificate;
use x509_cert::der::Decode;

use crate::followed_files::{FileStamps, follow, read_again};
use crate::plain_http::{refuse_plain, speaks_plain};

/// How long a peer may take until TLS is agreed on.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How much of an answer waits encrypted for a slow peer, beside what the door itself keeps. Units: bytes.
const UNSENT_BYTES_MAX: usize = 16 * 1024;

/// The files behind a door's TLS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// The door's certificate, and those between it and its authority.
    pub certificate: PathBuf,
    /// The private key of that certificate.
    pub key: PathBuf,
    /// Authorities. If this is set, peers must show a certificate of one of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_ca: Option<PathBuf>,
}

impl TlsFiles {
    fn paths(&self) -> impl Iterator<Item = &Path> {
        let Self { certificate, key, client_ca } = self;
        [certificate, key].into_iter().chain(client_ca).map(PathBuf::as_path)
    }
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{setting} `{}`: {reason}", .path.display())]
pub struct TlsFileError {
    /// The setting that names it.
    setting: &'static str,
    path: PathBuf,
    reason: String,
}

/// Why a peer is not spoken with.
#[derive(Debug)]
pub struct TlsRefusal {
    /// The reason, one of a few.
    pub reason: &'static str,
    /// The library's message.
    pub detail: String,
}

/// The protocol over TLS, as a door agrees on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsProtocol {
    /// HTTP/1.1.
    Http,
    /// ISO 8583, which has no name that could be agreed on.
    Iso8583,
}

/// A door's TLS.
pub struct TlsDoor {
    protocol: TlsProtocol,
    files: TlsFiles,
    first_stamps: FileStamps,
    config: Mutex<Arc<ServerConfig>>,
}

cardswitch_engine::opaque!(TlsDoor);

impl TlsDoor {
    /// Reads the files.
    /// Errors: the first file that cannot be used.
    pub fn open(protocol: TlsProtocol, files: TlsFiles) -> Result<Self, TlsFileError> {
        let first_stamps = FileStamps::of(files.paths());
        let config = Mutex::new(Arc::new(config_of(&files, protocol)?));
        Ok(Self { protocol, files, first_stamps, config })
    }

    /// Agrees on TLS with a peer that has connected. A peer that speaks plain HTTP gets a refusal
    /// in HTTP.
    /// Errors: the peer speaks no TLS, has no certificate that is valid here, or is too slow.
    pub async fn accept(&self, stream: TcpStream) -> Result<TlsStream<TcpStream>, TlsRefusal> {
        if self.protocol == TlsProtocol::Http && speaks_plain(&stream).await {
            refuse_plain(stream).await;
            return Err(TlsRefusal { reason: "speaks HTTP without TLS", detail: String::new() });
        }
        let acceptor = TlsAcceptor::from(Arc::clone(&self.config.lock()));
        let bounded = |connection: &mut rustls::ServerConnection| {
            connection.set_buffer_limit(Some(UNSENT_BYTES_MAX));
        };
        match timeout(HANDSHAKE_TIMEOUT, acceptor.accept_with(stream, bounded)).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => {
                Err(TlsRefusal { reason: reason_of(&error), detail: error.to_string() })
            }
            Err(_) => {
                Err(TlsRefusal { reason: "is too slow to agree on TLS", detail: String::new() })
            }
        }
    }

    /// Reads the files again whenever they change or SIGHUP comes, until `stop` turns true.
    pub async fn follow_files(self: Arc<Self>, stop: watch::Receiver<bool>) {
        follow(self.files.paths(), &self.first_stamps, stop, || Arc::clone(&self).reload()).await;
    }

    async fn reload(self: Arc<Self>) {
        let (files, protocol) = (self.files.clone(), self.protocol);
        read_again(&self.config, move || config_of(&files, protocol), &protocol).await;
    }
}

/// The name that a peer's certificate gives it; none where it has shown none.
pub fn peer_name(stream: &TlsStream<TcpStream>) -> Option<String> {
    let (_, connection) = stream.get_ref();
    let shown = connection.peer_certificates()?.first()?;
    let certificate = Certificate::from_der(shown).ok()?;
    let name = certificate.tbs_certificate().subject().to_string();
    // An authority may have signed anything.
    Some(name.chars().map(|char| if char.is_control() { ' ' } else { char }).collect())
}

fn config_of(files: &TlsFiles, protocol: TlsProtocol) -> Result<ServerConfig, TlsFileError> {
    let (chain, key) = certificate_and_key(&files.certificate, &files.key)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| refusing("key", &files.key)(error.to_string()))?;
    let unproven = match &files.client_ca {
        None => versions.with_no_client_auth(),
        Some(path) => {
            let roots = authorities("client_ca", path)?;
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
            let verifier = verifier.build();
            versions.with_client_cert_verifier(
                verifier.map_err(|error| refusing("client_ca", path)(error.to_string()))?,
            )
        }
    };
    let mut config = unproven
        .with_single_cert(chain, key)
        .map_err(|error| refusing("key", &files.key)(error.to_string()))?;
    if protocol == TlsProtocol::Http {
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
    }
    Ok(config)
}

/// A chain whose certificate is valid now, and its private key.
pub(crate) fn certificate_and_key(
    certificate: &Path,
    key: &Path,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsFileError> {
    let chain = certificates("certificate", certificate)?;
    check_dates(&chain[0]).map_err(refusing("certificate", certificate))?;
    Ok((chain, parsed("key", key, PrivateKeyDer::from_pem_slice)?))
}

/// At least one certificate.
pub(crate) fn certificates(
    setting: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    let found: Vec<_> =
        parsed(setting, path, |content| CertificateDer::pem_slice_iter(content).collect())?;
    match found.is_empty() {
        true => Err(refusing(setting, path)("has no certificate in PEM form".to_owned())),
        false => Ok(found),
    }
}

/// The content of a PEM file.
fn parsed<T>(
    setting: &'static str,
    path: &Path,
    parse: impl FnOnce(&[u8]) -> Result<T, pem::Error>,
) -> Result<T, TlsFileError> {
    let content = read_named(path).map_err(|error| refusing(setting, path)(error.to_string()))?;
    parse(&content).map_err(|error| refusing(setting, path)(error.to_string()))
}

/// The authorities of a file that are valid now: handshakes do not look at their dates.
/// Errors: none is.
pub(crate) fn authorities(
    setting: &'static str,
    path: &Path,
) -> Result<RootCertStore, TlsFileError> {
    let (mut roots, mut invalid) = (RootCertStore::empty(), None);
    for authority in certificates(setting, path)? {
        match check_dates(&authority) {
            Ok(()) => {
                let added = roots.add(authority);
                added.map_err(|error| refusing(setting, path)(error.to_string()))?;
            }
            Err(reason) => {
                tracing::warn!(setting, file = %path.display(), "an authority {reason}");
                invalid = Some(reason);
            }
        }
    }
    match invalid.filter(|_| roots.is_empty()) {
        Some(reason) => Err(refusing(setting, path)(reason)),
        None => Ok(roots),
    }
}

/// Refuses a certificate that is not valid now when its file is read, instead of at each handshake.
fn check_dates(certificate: &CertificateDer<'_>) -> Result<(), String> {
    let certificate = Certificate::from_der(certificate);
    let certificate = certificate.map_err(|error| format!("is no certificate: {error}"))?;
    let validity = certificate.tbs_certificate().validity();
    let (begin, end, now) = (validity.not_before, validity.not_after, SystemTime::now());
    if end.to_system_time() < now {
        return Err(format!("has expired on {end}"));
    }
    if now < begin.to_system_time() {
        return Err(format!("is not valid before {begin}"));
    }
    Ok(())
}

pub(crate) fn refusing(setting: &'static str, path: &Path) -> impl FnOnce(String) -> TlsFileError {
    move |reason| TlsFileError { setting, path: path.to_owned(), reason }
}

/// The fault of the peer in a failed handshake.
fn reason_of(error: &std::io::Error) -> &'static str {
    use rustls::Error;
    let error = error.get_ref().and_then(|error| error.downcast_ref::<Error>());
    match error {
        Some(Error::NoCertificatesPresented) => "shows no certificate",
        Some(Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        )) => "shows a certificate that has expired",
        Some(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            "shows a certificate of an unknown authority"
        }
        Some(Error::InvalidCertificate(_)) => "shows a certificate that is not valid here",
        Some(Error::InvalidMessage(_)) => "speaks no TLS",
        _ => "did not agree on TLS",
    }
}
