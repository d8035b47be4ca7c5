//! The vocabulary of the field: values and small state machines, common to all card systems.
//!
//! No clock, no randomness, no I/O, no floating point: everything here is a value or a pure
//! function, so that a replay computes what the live run computed.

pub mod account;
pub mod allowance;
pub mod audit;
pub mod authorization_id;
pub mod business_date;
pub mod card;
pub mod cell;
pub(crate) mod changes;
pub mod company;
pub mod credential;
pub mod email;
pub(crate) mod enumeration;
pub mod event;
pub mod hold;
pub mod hold_table;
pub mod ids;
pub mod keyed_answer;
pub mod later_message;
pub mod merchant;
pub mod merchant_category;
pub mod money;
mod named_texts;
pub mod network_key;
pub mod pan_key;
pub mod posting;
pub mod public_id;
pub mod response_code;
pub mod search_key;
pub mod text;
pub mod transaction;
pub mod transaction_tags;
