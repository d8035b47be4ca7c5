//! The reasons why a switch cannot be started.

use std::io;
use std::net::SocketAddr;

use cardswitch_notify::mail::MailError;
use cardswitch_notify::webhooks::deliveries::DeliveriesError;

use crate::config::ConfigError;
use crate::opening::OpeningError;
use crate::pan_rotation::PanRotationError;

/// Why a switch cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting is out of range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The data directory.
    #[error(transparent)]
    Opening(OpeningError),
    /// The query tables cannot follow the journal.
    #[error("{0}")]
    Tables(String),
    /// The keys of card numbers.
    #[error(transparent)]
    PanKeys(PanRotationError),
    /// The engine has failed since it was open.
    #[error("{0}")]
    Engine(String),
    /// The keys that doors were given.
    #[error("the exchanged zone keys: {0}")]
    ZoneKeys(String),
    /// The directory of receipts.
    #[error("the receipts: {0}")]
    Receipts(io::Error),
    /// The directories of mail, or the mail server.
    #[error("the mail: {0}")]
    Outbox(MailError),
    /// The stored progress of deliveries.
    #[error(transparent)]
    Deliveries(DeliveriesError),
    /// An address cannot be listened at.
    #[error("{}", not_listening(.0, .1, .2))]
    Listen(&'static str, SocketAddr, io::Error),
    /// The system starts no more threads.
    #[error("cannot start threads: {0}")]
    Threads(io::Error),
}

fn not_listening(what: &str, address: &SocketAddr, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => format!("{what} address {address} is in use"),
        _ => format!("cannot listen for {what} at {address}: {error}"),
    }
}

impl StartError {
    /// Whether an address is taken by another process.
    pub(super) fn is_in_use(&self) -> bool {
        matches!(self, Self::Listen(.., error) if error.kind() == io::ErrorKind::AddrInUse)
    }
}
