//! The resources of `/v1`: one line an operation, one file a resource; the same members over SCIM 2.0;
//! habits of older clients.
//!
//! Handlers parse, ask or read, and render; the engine decides which changes are allowed.

pub mod compat;
pub mod operations;
pub mod routes;
pub mod scim;
pub mod words;
