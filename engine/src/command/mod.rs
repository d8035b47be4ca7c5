//! What was asked of the shard, what it answered, and what changed because of it.

pub mod admin;
pub(crate) mod audited;
pub mod effect;
pub mod keyed;
mod moment;
pub mod network;
mod new_transaction;
pub mod record;
pub mod reply;
pub(crate) mod resource;

pub use audited::{Audited, AuditedObject, AuditedPlace};
pub use moment::Moment;
pub use new_transaction::{NewTransaction, NewTransactionView};

use crate::domain::audit::AuditNote;
use crate::domain::ids::Timestamp;
use admin::AdminCommand;
use keyed::KeyedCommand;
use network::NetworkRequest;

/// One request to the shard.
#[derive(Clone, Debug)]
pub enum Command {
    /// From the card network.
    Network(Box<NetworkRequest>),
    /// From an API client or an operator, and nobody is told who.
    Admin(Box<AdminCommand>),
    /// The same under an idempotency key.
    Keyed(Box<KeyedCommand>),
    /// The same with a note of who asks: what it changes is audited.
    Noted(Box<NotedCommand>),
    /// Nothing but the time: runs what is due.
    Tick,
}

/// A change with a note of who asks for it.
#[derive(Clone, Debug)]
pub struct NotedCommand {
    /// Who asks.
    pub note: AuditNote,
    /// What they ask.
    pub change: AdminCommand,
}

/// A command with the time it claims, which only a shard on a manual clock honours.
#[derive(Clone, Debug)]
pub struct TimedCommand {
    /// What is asked.
    pub command: Command,
    /// The time a simulation supplies.
    pub supplied_at: Option<Timestamp>,
}

impl From<Command> for TimedCommand {
    fn from(command: Command) -> Self {
        Self { command, supplied_at: None }
    }
}
