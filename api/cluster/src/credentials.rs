//! The credentials of a client of etcd and its trusted authorities: TLS by files, and a user of
//! etcd.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cardswitch_edge::tls_client::{ClientTls, ClientTlsFiles, TlsStream};
use cardswitch_secrets::plain_file::read_named;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::address::EtcdAccess;
use crate::etcd::EtcdError;
use crate::proto::AuthenticateRequest;

/// gRPC speaks HTTP/2 alone.
const PROTOCOL: &str = "h2";

/// Credentials towards members of etcd: the client's own and those that prove the members.
pub(crate) struct EtcdCredentials {
    user: Option<(String, PathBuf)>,
    pub(crate) tls: Option<Arc<ClientTls>>,
}

impl EtcdCredentials {
    /// Reads the files of TLS.
    /// Errors: one cannot be read, or has no usable content.
    pub(crate) fn read(access: &EtcdAccess) -> Result<Self, EtcdError> {
        let EtcdAccess { is_tls, ca, certificate, user } = access.clone();
        let files = ClientTlsFiles { authorities: ca, shown: certificate };
        let tls = is_tls.then(|| ClientTls::open_for(Some(PROTOCOL), files)).transpose();
        Ok(Self { user, tls: tls.map_err(|error| EtcdError::Tls(error.to_string()))? })
    }

    /// The request for a token, where there is a user. The password is read each time.
    /// Errors: it cannot be read.
    pub(crate) fn sign_in(&self) -> Result<Option<AuthenticateRequest>, EtcdError> {
        let Some((name, file)) = &self.user else { return Ok(None) };
        let password = String::from_utf8(read(file)?).map_err(|error| unusable(file, &error))?;
        let password = password.trim_end_matches(['\r', '\n']).to_owned();
        Ok(Some(AuthenticateRequest { name: name.clone(), password }))
    }
}

cardswitch_engine::opaque!(EtcdCredentials);

/// Speaks TLS with the member at `host`, a name with a port.
/// Errors: the member is not believed, or does not believe.
pub(crate) async fn secure<S: AsyncRead + AsyncWrite + Unpin>(
    tls: &Arc<ClientTls>,
    host: &str,
    stream: S,
) -> Result<TlsStream<S>, EtcdError> {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let tls = tls.towards(name).map_err(|error| EtcdError::Tls(error.to_string()))?;
    tls.agree(stream).await.map_err(|error| {
        let why = format!("`{host}`: {error}");
        // Anything else is the network's, and passes.
        if error.kind() == ErrorKind::InvalidData {
            EtcdError::Tls(why)
        } else {
            EtcdError::Unavailable(why)
        }
    })
}

fn read(file: &Path) -> Result<Vec<u8>, EtcdError> {
    read_named(file).map_err(|error| unusable(file, &error))
}

fn unusable(file: &Path, error: &dyn std::fmt::Display) -> EtcdError {
    EtcdError::Tls(format!("`{}`: {error}", file.display()))
}
