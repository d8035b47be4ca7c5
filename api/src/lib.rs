//! The edges of cardswitch.
