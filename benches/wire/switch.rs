//! The counterpart of the clients: a whole switch, or the ISO 8583 door alone.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use cardswitch_acquiring::submit::Submit;
use cardswitch_api::config::Settings;
use cardswitch_api::server::Server;
use cardswitch_network::listener::{Listener, ListenerOptions, SwitchShare};
use cardswitch_secrets::Secrets;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The threads that serve, as many as there are cores.
pub fn runtime() -> Runtime {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("start the threads that serve")
}

/// A whole switch on a data directory.
#[derive(Debug)]
pub struct BenchSwitch(Server);

impl BenchSwitch {
    /// Starts it; when this returns it answers.
    pub async fn start(data: &Path) -> Self {
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        let settings = Settings {
            http: any_port,
            iso8583: any_port,
            token_requests_per_s: 0,
            ..Settings::default()
        };
        Self(Server::start(data, &settings).await.expect("start a switch"))
    }

    /// The address of the HTTP door.
    pub const fn http(&self) -> SocketAddr {
        self.0.http
    }

    /// The address of the ISO 8583 door.
    pub fn iso8583(&self) -> SocketAddr {
        self.0.iso8583()
    }

    /// Stops it.
    pub async fn stop(self) {
        assert_eq!(self.0.failure(), None);
        self.0.close().await;
    }
}

/// A running ISO 8583 door with something else than an engine behind it.
#[derive(Debug)]
pub struct EnginelessDoor {
    /// The address at which it listens.
    pub address: SocketAddr,
    stop: watch::Sender<bool>,
    running: JoinHandle<()>,
}

impl EnginelessDoor {
    /// Opens it.
    pub async fn open(behind: Arc<dyn Submit>, secrets: &Arc<Secrets>) -> Self {
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        let options = ListenerOptions::at(any_port);
        let all = SwitchShare::new(behind, Arc::clone(secrets));
        let listener = Listener::bind(options, &all).await;
        let listener = listener.expect("bind a port of the loopback");
        let address = listener.local_addr().expect("read the address");
        let (stop, stopping) = watch::channel(false);
        Self { address, stop, running: tokio::spawn(listener.run(stopping)) }
    }

    /// Closes it.
    pub async fn close(self) {
        self.stop.send_replace(true);
        // A door that panicked has printed why.
        drop(self.running.await);
    }
}
