//! The fingerprint of every layout that a data directory has: records, rows, indexes, blocks, runs.
//!
//! It stands in the directory's identity file. A directory with another fingerprint was made by a build
//! with other layouts and is refused. Compatibility begins with the first released version: until then
//! a change of layout is a new fingerprint and nothing more.

/// The first 16 hex digits of the SHA-256 over a fixed journal and the tables made of it.
/// `store::tests::layouts` says what it is to be.
pub const FINGERPRINT: &str = "3ee198d747754d3a";
