//! The common base of the switch's edges: the way into the engine, HTTP connections and their
//! bounds, extractors of requests, and answers to failures.
//!
//! No resource and no person is known here: a client is an address, its request a path.

pub mod bearer;
pub mod client_address;
pub mod company_turns;
pub mod descriptors;
pub mod door_stream;
pub mod error;
mod followed_files;
pub mod hop_by_hop;
pub mod http_connection;
mod http_stream;
pub mod idempotency_header;
pub mod input;
pub mod json;
pub mod kept_connections;
pub mod lasting_access;
pub mod lasting_file;
pub mod lingering;
pub mod min_seq;
pub mod network_facts;
pub mod operation;
pub mod peers;
pub mod placed_body;
mod plain_http;
pub mod request_body;
mod request_head;
pub mod request_id;
pub mod required_access;
pub mod switch;
pub mod tls;
pub mod tls_client;
pub mod token_rate;
pub mod unread_body;
pub mod write_error;
