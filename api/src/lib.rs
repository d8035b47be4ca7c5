//! The edges of cardswitch.

pub mod feed;
