//! The HTTP door of a real switch: `/v1`, `/scim/v2`, webhooks, the site, and what operators see and do.
//! Each module is one subject; `secret_acts` is what `no_secrets` does.

mod access;
mod administration;
mod allowances;
mod audit;
mod card_secrets;
mod cards;
mod cards_at_once;
mod collection;
mod commands;
mod company;
mod compat;
mod decision;
mod dimensions;
mod directories;
mod idempotency;
mod immediate;
mod members;
mod no_secrets;
mod oauth;
mod observability;
mod overload;
mod receipts;
mod requisitions;
mod route_figures;
mod scim;
mod secret_acts;
mod settings;
mod shared_links;
mod site;
mod statements;
mod tags;
mod transactions;
mod webhooks;
