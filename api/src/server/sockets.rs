//! The sockets of a switch, and how the process's descriptors are shared out among them.

use std::net::SocketAddr;

use cardswitch_edge::descriptors::{self, AddressLimits, DescriptorShares};
use tokio::net::TcpListener;

use super::StartError;
use crate::config::Settings;
use crate::telemetry::listener;

/// Binds the address of the figures, `told` or the default, for a process that serves HTTP at
/// `http`.
/// Errors: the address was chosen and is in use.
pub(crate) async fn bind_for_operators(
    told: Option<SocketAddr>,
    http: SocketAddr,
) -> Result<(TcpListener, SocketAddr), StartError> {
    let address = listener::address_for(told, http);
    match bind("metrics", address).await {
        // The operator did not choose it, so it is no reason not to authorize.
        Err(error) if error.is_in_use() && told.is_none() => {
            tracing::warn!(%address, "in use, so figures are told at another port");
            bind("metrics", SocketAddr::new(address.ip(), 0)).await
        }
        bound => bound,
    }
}

/// Takes an address.
/// Errors: it is in use.
pub(crate) async fn bind(
    what: &'static str,
    address: SocketAddr,
) -> Result<(TcpListener, SocketAddr), StartError> {
    let refused = |error| StartError::Listen(what, address, error);
    let socket = TcpListener::bind(address).await.map_err(refused)?;
    let address = socket.local_addr().map_err(refused)?;
    Ok((socket, address))
}

/// How the process's descriptors are shared out.
pub(crate) fn shares_of(settings: &Settings) -> DescriptorShares {
    let per_address = AddressLimits {
        http: settings.http_connections_per_address,
        iso8583: settings.iso8583_connections_per_peer,
    };
    DescriptorShares::of(descriptors::raise_limit(), per_address)
}
