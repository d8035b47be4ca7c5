//! Callers and their access: access tokens, passwords, second factors, OAuth; requests that are
//! carried out once; and the state that every handler behind them works with.
//!
//! Resources of `/v1` and pages stand above; nothing here renders either.

pub mod actor_state;
pub mod auth;
pub mod idempotency;
pub mod invitation;
pub mod oauth;
pub mod receipts;
pub mod scope_words;
pub mod state;
pub mod webhook_endpoints;
