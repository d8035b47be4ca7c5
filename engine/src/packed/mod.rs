//! Packed rows: one layout for the journal, the tables and the loader.
//!
//! Little endian, written by hand, without a general serializer: an authorization is packed once,
//! by the shard, and copied from there on. Fields that are read often stand at fixed places, so
//! that a reader decodes nothing else.
//!
//! INVARIANT: every packed value unpacks to an equal value. Other bytes are refused with a
//! `CodecError`, never with a panic. `packed_tests.rs` tests both.

mod answer;
mod append;
mod card;
mod cursor;
mod event_log;
mod facts;
mod images;
mod increment;
mod profile;
mod progress;
mod statement_line;
mod transaction;

pub use answer::{AnsweredTransaction, RowAnswer};
pub use append::{append_row, append_row_with_progress};
pub use card::{PackedCard, append_card, parse_card};
pub use event_log::{EventBlock, EventEntries, LoggedEvents};
pub use images::{
    BALANCES_BYTES, POSTING_BYTES, USAGE_BYTES, pack_balances, pack_posting, pack_usage,
    parse_balances, parse_posting, parse_usage,
};
pub use increment::{append_increment, parse_increment};
pub use profile::{PackedProfile, ProfileTexts};
pub use progress::{append_progress, parse_progress};
pub use statement_line::{append_line, parse_line};
pub use transaction::{TransactionView, response_code_of};

#[cfg(test)]
pub(crate) mod packed_tests;
#[cfg(test)]
pub(crate) mod strategies;
