//! Commands to the shard, its replies, and the effects of each command.

pub mod admin;
pub(crate) mod audit_line;
pub mod effect;
pub mod keyed_command;
mod moment;
pub mod network;
mod new_transaction;
pub mod record;
pub mod reply;
pub(crate) mod resource;
pub mod seen_object;

pub(crate) use audit_line::kind_of_action;
pub use audit_line::{AuditLine, AuditTarget, AuditedPlace};
pub use moment::Moment;
pub(crate) use new_transaction::bank_record;
pub use new_transaction::{NewTransaction, NewTransactionView};

use crate::domain::audit::AuditNote;
use crate::domain::ids::Timestamp;
use admin::AdminCommand;
use keyed_command::KeyedCommand;
use network::NetworkRequest;

/// One request to the shard.
#[derive(Clone, Debug)]
pub enum Command {
    /// A message of the card network.
    Network(Box<NetworkRequest>),
    /// A change by an API client or an operator, without an author.
    Admin(Box<AdminCommand>),
    /// A change under an idempotency key.
    Keyed(Box<KeyedCommand>),
    /// A change with its author, which is audited.
    Noted(Box<NotedCommand>),
    /// A tick of the clock: runs timers that are due.
    Tick,
}

impl Command {
    /// Whether it is a change by a client or an operator, who may read it back.
    pub const fn is_change(&self) -> bool {
        matches!(self, Self::Admin(_) | Self::Keyed(_) | Self::Noted(_))
    }
}

/// A change with a note of its author.
#[derive(Clone, Debug)]
pub struct NotedCommand {
    /// The author.
    pub note: AuditNote,
    /// The change.
    pub change: AdminCommand,
}

/// A command with its claimed time, which only a shard on a manual clock honours.
#[derive(Clone, Debug)]
pub struct TimedCommand {
    /// The command.
    pub command: Command,
    /// The time a simulation supplies.
    pub supplied_at: Option<Timestamp>,
}

impl From<Command> for TimedCommand {
    fn from(command: Command) -> Self {
        Self { command, supplied_at: None }
    }
}
