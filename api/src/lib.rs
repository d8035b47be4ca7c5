//! The edges of cardswitch.

pub mod pan;
pub mod secrets;
