//! The program: the command line, a switch at work, and what is put together of all rooms.
//!
//! | crate | what lives there |
//! |---|---|
//! | `iso8583`, `dialects` | the codec of ISO 8583 messages; files of their dialects |
//! | `wire` | bodies, queries, amounts, times and words as they travel |
//! | `secrets` | keys and what they protect |
//! | `edge` | the way into the engine; HTTP connections, requests and failures |
//! | `network` | the card network's doors: ISO 8583 and JSON |
//! | `statements` | statement files |
//! | `notify` | webhooks and mail |
//! | `identity` | callers, users, OAuth, idempotency; the state of handlers |
//! | `v1` | the resources of `/v1`, SCIM |
//! | `site` | pages |
//! | `route` | messages and requests handed to the cell that they name |
//! | `feed`, `load` | the simulated card network, which knows nothing of the switch; a load, measured |
//!
//! Each crate knows those above it in the table only; this one knows all.
//!
//! | room | what |
//! |---|---|
//! | `commands`, `config`, `doors` | the command line, settings; those of ISO 8583 doors |
//! | `server`, `opening`, `install` | a switch at work; a directory made ready |
//! | `http_server`, `router` | HTTP connections; all routes together |
//! | `openapi` | the published documents and the reference made from them |
//! | `telemetry` | figures, health and log for operators |
//! | `backup`, `manifest`, `staging`, `control` | backups and restores; the socket of a running switch |
//! | `pan_rotation`, `portfolio` | replacement of the key of card numbers; test cards |

pub mod backup;
#[cfg(test)]
mod bench;
#[cfg(test)]
mod card_routes_tests;
pub mod commands;
pub mod config;
pub mod control;
pub mod doors;
pub mod faults;
pub mod forwarding;
pub mod handed_backup;
mod handler_state;
pub mod http_server;
#[cfg(test)]
mod idempotency_tests;
pub mod install;
#[cfg(test)]
mod keyed_upload_tests;
#[cfg(test)]
mod lasting_access_tests;
#[cfg(test)]
mod lasting_body_tests;
pub mod manifest;
#[cfg(test)]
mod network_tests;
pub mod node;
pub mod node_call;
pub mod node_clocks;
pub mod node_door;
mod node_image;
pub mod node_mark;
pub mod node_pan_keys;
pub mod node_peers;
pub mod node_renewal;
mod node_settings;
#[cfg(test)]
mod oauth_tests;
pub mod openapi;
pub mod opened_files;
pub mod opening;
pub mod pan_rotation;
pub mod portfolio;
pub mod router;
#[cfg(test)]
mod routes_tests;
pub mod server;
pub mod setting_args;
#[cfg(test)]
mod site_tests;
pub mod staging;
pub mod standby_doors;
pub mod standby_reads;
#[cfg(test)]
mod switch_tests;
pub mod telemetry;
#[cfg(test)]
mod test_world;
#[cfg(test)]
mod webhooks_tests;
