//! The listener for operators: it shows figures and health while the switch recovers, and after the
//! doors have closed.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::StartError;
use super::sockets::{bind_for_operators, shares_of};
use crate::config::Settings;
use crate::faults::NOTE;
use crate::telemetry::watchers::Watchers;
use crate::telemetry::{Telemetry, listener};

/// The listener for operators, which is there before the doors and outlives them.
#[derive(Debug)]
pub struct OperatorListener {
    /// The figures and the health that it shows.
    pub telemetry: Arc<Telemetry>,
    /// The address for operators.
    pub address: SocketAddr,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl OperatorListener {
    /// Opens the address for operators, and tells there that the switch recovers.
    /// Errors: the address was chosen and is in use.
    pub async fn start(settings: &Settings) -> Result<Self, StartError> {
        let telemetry = Arc::<Telemetry>::default();
        let (socket, address) = bind_for_operators(settings.metrics, settings.http).await?;
        if settings.faults.is_some() {
            telemetry.health_notes.add(NOTE, || true);
        }
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        let watchers = Watchers::new(shares_of(settings).operators_max);
        tasks.spawn(listener::serve(socket, Arc::clone(&telemetry), watchers, stopped));
        Ok(Self { telemetry, address, stop, tasks })
    }

    /// Closes the address.
    pub(super) async fn close(mut self) {
        self.stop.send_replace(true);
        while self.tasks.join_next().await.is_some() {}
    }
}
