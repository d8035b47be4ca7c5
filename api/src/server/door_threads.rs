//! The threads of the ISO 8583 doors, and the addresses of the doors.

use std::io;
use std::net::SocketAddr;

use cardswitch_network::listener::{Listener, ListenerOptions, SwitchShare};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::StartError;

/// Threads of their own for the ISO 8583 doors: authorizations find a thread under any load of the
/// API.
#[derive(Debug)]
pub(super) struct DoorThreads(Option<Runtime>);

impl DoorThreads {
    pub(super) fn start() -> Result<Self, StartError> {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.thread_name("iso8583").enable_all().build();
        runtime.map(|runtime| Self(Some(runtime))).map_err(StartError::Threads)
    }

    /// Takes the addresses of all doors.
    pub(super) async fn bind_all(
        &self,
        options: Vec<ListenerOptions>,
        all: &SwitchShare,
    ) -> Result<(Vec<Listener>, Vec<DoorAddress>), StartError> {
        let (mut listeners, mut addresses) = (Vec::new(), Vec::new());
        for options in options {
            let (listener, address) = self.bind(options, all.clone()).await?;
            addresses.push(DoorAddress { name: listener.name().to_owned(), address });
            listeners.push(listener);
        }
        Ok((listeners, addresses))
    }

    /// Takes the address of a door, on its threads.
    async fn bind(
        &self,
        options: ListenerOptions,
        all: SwitchShare,
    ) -> Result<(Listener, SocketAddr), StartError> {
        let address = options.address;
        let refused = |error| StartError::Listen("ISO 8583", address, error);
        let Some(runtime) = &self.0 else {
            return Err(refused(io::ErrorKind::NotConnected.into()));
        };
        let bound = runtime.spawn(async move { Listener::bind(options, &all).await }).await;
        let listener = bound.map_err(|error| refused(error.into()))?.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        Ok((listener, address))
    }

    /// Serves the doors on its threads.
    pub(super) fn run(
        &self,
        listeners: Vec<Listener>,
        stopped: &watch::Receiver<bool>,
        doors: &mut JoinSet<()>,
    ) {
        let Some(runtime) = &self.0 else { return };
        for listener in listeners {
            doors.spawn_on(listener.run(stopped.clone()), runtime.handle());
        }
    }
}

impl Drop for DoorThreads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // Its tasks have ended, or are not waited for; a runtime must not be waited for
            // here.
            runtime.shutdown_background();
        }
    }
}

/// An ISO 8583 door that listens.
#[derive(Clone, Debug)]
pub struct DoorAddress {
    /// Its name in logs.
    pub name: String,
    /// The address at which it listens.
    pub address: SocketAddr,
}

/// `http=ADDR iso8583=ADDR metrics=ADDR`, then `iso8583.NAME=ADDR` of each further door.
pub(crate) fn address_line(
    http: SocketAddr,
    iso8583: &[DoorAddress],
    metrics: SocketAddr,
) -> String {
    // INVARIANT: the door of the setting `iso8583` always stands, as the first one.
    let first = iso8583.first().map_or(http, |door| door.address);
    let line = format!("http={http} iso8583={first} metrics={metrics}");
    iso8583.iter().skip(1).fold(line, |line, DoorAddress { name, address }| {
        format!("{line} iso8583.{name}={address}")
    })
}
