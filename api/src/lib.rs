//! The edges of cardswitch.

pub mod network;
pub mod pan;
pub mod secrets;
pub mod switch;
