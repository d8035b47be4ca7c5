//! The handlers of `/v1`, one file a resource: parse, check access, ask or read, render.
//!
//! No business rule lives here: the engine decides which changes are allowed.

pub mod access_tokens;
pub mod accounts;
pub mod allowances;
pub mod audit_events;
pub mod card_secrets;
pub mod card_texts;
pub mod cards;
pub mod cards_at_once;
pub mod company;
pub mod decision;
pub mod dimensions;
pub mod entity_tag;
pub mod events;
mod issuing;
pub mod members;
pub mod merchant_categories;
pub mod no_store;
pub mod receipts;
pub mod requisitions;
pub mod shared_links;
pub mod shipping_addresses;
pub mod statement_lines;
pub mod statements;
pub mod transaction_tags;
pub mod transactions;
pub mod view;
pub mod webhook_attempts;
pub mod webhook_endpoints;
