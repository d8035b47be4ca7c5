//! The fingerprint of the engine's layouts in a data directory: batches of the journal, records,
//! rows, indexes, blocks, runs. Other files have a format number of their own, which is checked
//! when they are read: the journal's head, its segments' heads and its note, and the files of the
//! edge.
//!
//! The fingerprint stands in the directory's identity file. A directory with another fingerprint
//! was made by a build with other layouts and is refused. Compatibility begins with the first
//! released version: until then a change of layout is a new fingerprint and nothing more.

/// The first 16 hex digits of the SHA-256 over a fixed journal, sealed, the tables made of it, and
/// effects with whatever their types can hold; `store::tests::layouts` computes it. Renamed fields and
/// variants change it, too.
pub const FINGERPRINT: &str = "18bcbf3e9bed82eb";
