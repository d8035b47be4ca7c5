//! The single writer: executes commands one after the other against the hot state.
//!
//! `execute*` reads the state and says what changes; only `apply` changes it, live and in replay
//! alike. `run` is the loop around both. No async, no locks, no I/O but the batch it hands on.

mod account_money;
mod apply;
mod audit_values;
mod card_money;
pub mod cards;
mod chunks;
pub(crate) mod desk;
mod duplicates;
mod early_reversals;
mod execute;
mod execute_audit;
mod execute_authorization;
mod execute_card;
mod execute_increment;
mod execute_keyed_command;
mod execute_network;
mod execute_presentment;
mod execute_reversal;
mod execute_tick;
mod execute_transfer;
mod held_cards;
pub mod index;
mod keyed_answers;
mod line;
mod memory;
mod open_transaction;
mod prefetch;
mod questions;
mod recall;
mod recent_changes;
mod replay;
pub mod run;
mod shard_change;
mod state;
mod state_hash;
mod texts;
mod timers;
mod transactions;

pub use duplicates::{AnswerPlace, MessageKeys};
pub use execute::execute;
pub use open_transaction::OpenTransaction;
pub use prefetch::look_ahead;
pub use recall::{LoadedRows, LoadedTransaction, RecallRequest};
pub use replay::ReplayedRecord;
pub use state::ShardState;
pub use state_hash::{PartHash, StateHash};
pub use timers::Timer;
pub use transactions::{CacheLimits, PurchaseKey, TransactionRoom};

pub use crate::command::Moment;
pub use crate::domain::authorization_id::authorization_id_of;
