//! The credentials of a client of etcd and its trusted authorities: TLS by files, and a user of
//! etcd.
//!
//! INVARIANT: new files that cannot be used are logged and change nothing.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use cardswitch_edge::tls_client::system_roots;
use cardswitch_secrets::plain_file::read_named;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::address::EtcdAccess;
use crate::etcd::EtcdError;
use crate::proto::AuthenticateRequest;

/// gRPC speaks HTTP/2 alone.
const PROTOCOL: &[u8] = b"h2";

/// Credentials towards members of etcd: the client's own and those that prove the members.
pub(crate) struct EtcdCredentials {
    access: EtcdAccess,
    pub(crate) tls: Option<TlsConnector>,
    /// The files' stamps when they were read last.
    stamps: FileStamps,
}

/// Signs that one of the files of TLS was replaced.
type FileStamps = Vec<Option<(SystemTime, u64)>>;

impl EtcdCredentials {
    /// Reads the files of TLS.
    /// Errors: one cannot be read, or has no usable content.
    pub(crate) fn read(access: &EtcdAccess) -> Result<Self, EtcdError> {
        let (access, stamps) = (access.clone(), stamps_of(access));
        let tls = access.is_tls.then(|| read_connector(&access)).transpose()?;
        Ok(Self { access, tls, stamps })
    }

    /// Reads the files of TLS again if they were replaced: certificates end while a node runs.
    pub(crate) fn follow_files(&mut self) {
        let stamps = stamps_of(&self.access);
        if self.tls.is_none() || stamps == self.stamps {
            return;
        }
        self.stamps = stamps;
        match read_connector(&self.access) {
            Ok(connector) => {
                self.tls = Some(connector);
                tracing::info!("new certificates are used towards etcd");
            }
            Err(error) => tracing::error!(%error, "the certificates before stay in use"),
        }
    }

    /// The request for a token, where there is a user. The password is read each time.
    /// Errors: it cannot be read.
    pub(crate) fn sign_in(&self) -> Result<Option<AuthenticateRequest>, EtcdError> {
        let Some((name, file)) = &self.access.user else { return Ok(None) };
        let password = String::from_utf8(read(file)?).map_err(|error| unusable(file, &error))?;
        let password = password.trim_end_matches(['\r', '\n']).to_owned();
        Ok(Some(AuthenticateRequest { name: name.clone(), password }))
    }
}

cardswitch_engine::opaque!(EtcdCredentials);

/// Speaks TLS with the member at `host`, a name with a port.
/// Errors: the member is not believed, or does not believe.
pub(crate) async fn secure<S: AsyncRead + AsyncWrite + Unpin>(
    connector: &TlsConnector,
    host: &str,
    stream: S,
) -> Result<TlsStream<S>, EtcdError> {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let name = name.trim_start_matches('[').trim_end_matches(']').to_owned();
    let name = ServerName::try_from(name)
        .map_err(|_| EtcdError::Tls(format!("`{host}` is no name of a host")))?;
    connector.connect(name, stream).await.map_err(|error| {
        let why = format!("`{host}`: {error}");
        // Anything else is the network's, and passes.
        if error.kind() == ErrorKind::InvalidData {
            EtcdError::Tls(why)
        } else {
            EtcdError::Unavailable(why)
        }
    })
}

fn stamps_of(access: &EtcdAccess) -> FileStamps {
    let shown = access.certificate.iter().flat_map(|(certificate, key)| [certificate, key]);
    let stamp = |file| {
        let metadata = fs::metadata(file).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    access.ca.iter().chain(shown).map(stamp).collect()
}

fn read_connector(access: &EtcdAccess) -> Result<TlsConnector, EtcdError> {
    Ok(TlsConnector::from(Arc::new(client_config(access)?)))
}

fn client_config(access: &EtcdAccess) -> Result<ClientConfig, EtcdError> {
    let roots = match &access.ca {
        Some(file) => read_roots(file)?,
        None => system_roots(),
    };
    let trusting = versions()?.with_root_certificates(roots);
    let mut config = match &access.certificate {
        None => trusting.with_no_client_auth(),
        Some((certificate, key_file)) => {
            let chain = read_certificates(certificate)?;
            let key = PrivateKeyDer::from_pem_slice(&read(key_file)?)
                .map_err(|error| unusable(key_file, &error))?;
            let shown = trusting.with_client_auth_cert(chain, key);
            shown.map_err(|error| unusable(certificate, &error))?
        }
    };
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(config)
}

fn versions() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, EtcdError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let versions = builder.with_safe_default_protocol_versions();
    versions.map_err(|error| EtcdError::Tls(error.to_string()))
}

fn read_roots(file: &Path) -> Result<RootCertStore, EtcdError> {
    let mut roots = RootCertStore::empty();
    for certificate in read_certificates(file)? {
        roots.add(certificate).map_err(|error| unusable(file, &error))?;
    }
    Ok(roots)
}

fn read_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, EtcdError> {
    let content = read(file)?;
    let found = CertificateDer::pem_slice_iter(&content).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(|error| unusable(file, &error))?;
    if found.is_empty() {
        return Err(unusable(file, &"it has no certificate"));
    }
    Ok(found)
}

fn read(file: &Path) -> Result<Vec<u8>, EtcdError> {
    read_named(file).map_err(|error| unusable(file, &error))
}

fn unusable(file: &Path, error: &dyn std::fmt::Display) -> EtcdError {
    EtcdError::Tls(format!("`{}`: {error}", file.display()))
}
