//! The edges of cardswitch: everything that knows of sockets, JSON, decimals and secrets in clear.
//!
//! | room | what |
//! |---|---|
//! | `commands`, `config` | the command line |
//! | `server`, `opening`, `install` | a switch at work; a directory made ready |
//! | `http_server`, `http_connection`, `http_stream` | HTTP connections and their bounds |
//! | `request_head`, `request_body`, `unread_body` | what is taken of a request |
//! | `router`, `routes`, `auth`, `error`, `wire`, `idempotency` | `/v1` |
//! | `scim` | SCIM 2.0 |
//! | `oauth` | how apps come by access tokens |
//! | `openapi` | the published documents and the reference made from them |
//! | `receipts` | the files of receipts |
//! | `site`, `mail`, `invitation` | pages for people, and what is written to them |
//! | `webhooks` | events on their way to companies and apps |
//! | `telemetry`, `token_rate` | figures, health and log for operators; what a token may ask in a second |
//! | `descriptors`, `address_counts` | how connections share what the system grants; what one address has |
//! | `network` | the ISO 8583 door and the HTTP network door |
//! | `feed` | the simulated card network |
//! | `secrets`, `link_secrets`, `pan`, `pan_rotation`, `master_key`, `issuing`, `portfolio` | card numbers and keys |
//! | `manifest`, `staging`, `plain_file` | what a backup holds, the copy that a restore reads, files that follow no link |
//! | `private_file`, `process` | files of their owner, a process that shows its memory to nobody |
//! | `compat` | habits of older clients |

pub mod backup;
#[cfg(test)]
mod bench;
pub mod commands;
pub mod config;
pub mod control;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod http_server;
#[cfg(test)]
mod idempotency_tests;
pub mod install;
#[cfg(test)]
mod lasting_access_tests;
#[cfg(test)]
mod lasting_body_tests;
pub mod manifest;
#[cfg(test)]
mod network_tests;
#[cfg(test)]
mod oauth_tests;
pub mod openapi;
pub mod opening;
pub mod pan_rotation;
pub mod portfolio;
pub mod router;
#[cfg(test)]
mod routes_tests;
pub mod server;
pub mod staging;
#[cfg(test)]
mod site_tests;
#[cfg(test)]
mod statement_access_tests;
#[cfg(test)]
mod switch_tests;
pub mod telemetry;
#[cfg(test)]
mod test_world;
#[cfg(test)]
mod webhooks_tests;
