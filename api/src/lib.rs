//! The edges of cardswitch.

pub mod auth;
pub mod error;
pub mod issuing;
pub mod network;
pub mod pan;
pub mod request_id;
pub mod router;
pub mod routes;
pub mod secrets;
pub mod state;
pub mod switch;
pub mod wire;
