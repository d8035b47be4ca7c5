//! ISO 8583 dialects as files: read, checked, shipped, and imported from the files of other tools.
//!
//! | file | what |
//! |---|---|
//! | `file` | what a dialect file may say, in TOML |
//! | `layers` | a file over the one it is based on, down to the default dialect |
//! | `resolve` | from what files say to the tables of the codec |
//! | `import`, `moov`, `jpos` | from the specifications of other tools to our files |
//!
//! The tables and what becomes of messages are those of `iso8583`. INVARIANT: a wrong file is refused with its name, line
//! and field; a shipped one is right.

mod file;
pub mod import;
mod jpos;
mod layers;
mod moov;
mod resolve;

use std::fmt;
use std::path::Path;

use cardswitch_iso8583::{Dialect, Translation};

/// The dialects that are shipped, with their files. The default one is the switch's own spelling.
pub const SHIPPED: [(&str, &str); 5] = [
    ("default", include_str!("../shipped/default.toml")),
    ("ascii-hex", include_str!("../shipped/ascii-hex.toml")),
    ("ebcdic", include_str!("../shipped/ebcdic.toml")),
    ("bcd", include_str!("../shipped/bcd.toml")),
    ("1993", include_str!("../shipped/1993.toml")),
];

/// Why a dialect cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialectError {
    /// The file, or the name of a shipped dialect.
    pub file: String,
    /// The line in it, from 1.
    pub line: Option<usize>,
    /// The fault, with its field where it has one.
    pub reason: String,
}

impl fmt::Display for DialectError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, reason } = self;
        match line {
            Some(line) => write!(formatter, "`{file}`, line {line}: {reason}"),
            None => write!(formatter, "`{file}`: {reason}"),
        }
    }
}

impl std::error::Error for DialectError {}

/// The text of a shipped dialect's file.
pub fn shipped(name: &str) -> Option<&'static str> {
    SHIPPED.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// The dialect of that name, or of the file at that path.
/// Errors: a file that cannot be read or is no dialect.
pub fn find(name: &str) -> Result<Dialect, DialectError> {
    match shipped(name) {
        Some(text) => parse(name, text),
        None => parse(name, &read_file(name)?),
    }
}

/// The text of a file.
/// Errors: it cannot be read.
pub fn read_file(path: &str) -> Result<String, DialectError> {
    let refuse = |reason| DialectError { file: path.to_owned(), line: None, reason };
    if !Path::new(path).exists() {
        let names: Vec<_> = SHIPPED.iter().map(|(name, _)| *name).collect();
        let shipped = names.join(", ");
        return Err(refuse(format!("neither a file nor a shipped dialect ({shipped})")));
    }
    std::fs::read_to_string(path).map_err(|error| refuse(error.to_string()))
}

/// The dialect that a text describes; `file` is what errors call it.
/// Errors: the first thing that is wrong.
pub fn parse(file: &str, text: &str) -> Result<Dialect, DialectError> {
    resolve::dialect_of(file, text)
}

/// Whether the messages of a dialect can be cut out of a stream that is framed as it says.
/// Errors: a delimiter that a message may hold.
pub fn check_framing(dialect: &Dialect) -> Result<(), DialectError> {
    let checked = match &dialect.translation {
        Some(translation) => translation.check_framing(&dialect.framing),
        None => Translation::check_default_framing(&dialect.framing),
    };
    checked.map_err(|error| DialectError {
        file: dialect.name.to_string(),
        line: None,
        reason: error.to_string(),
    })
}
