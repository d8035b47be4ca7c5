//! The authorization engine.
