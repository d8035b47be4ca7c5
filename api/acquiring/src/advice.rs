//! Advice for operators on a peer that the door cannot read: the spelling that its bytes seem to
//! have, and the dialect that would read them. Nothing of a card is in it.

use std::fmt;

use cardswitch_iso8583::{Dialect, Framing, Spelling, Tpdu};

/// A clause behind a log line; empty where the bytes are of the door's own dialect, or of none.
pub struct Advice {
    /// The spelling that they seem to have, unless the door speaks so itself.
    spelling: Option<Spelling>,
}

impl Advice {
    /// On bytes of a stream, at a door with this dialect.
    pub fn on_stream(bytes: &[u8], dialect: &Dialect) -> Self {
        Self::unless_spoken(Spelling::of_stream(bytes), dialect)
    }

    /// On a message that was read as one, behind this TPDU, at a door with this dialect.
    pub fn on_message(message: &[u8], tpdu: Option<Tpdu>, dialect: &Dialect) -> Self {
        let tpdu = tpdu.map(Tpdu::bytes).unwrap_or_default();
        let frame = [if dialect.framing.tpdu { &tpdu[..] } else { &[] }, message].concat();
        Self::unless_spoken(Spelling::of_frame(&frame, dialect.framing.length), dialect)
    }

    fn unless_spoken(spelling: Option<Spelling>, dialect: &Dialect) -> Self {
        Self { spelling: spelling.filter(|spelling| !spelling.is_of(dialect)) }
    }

    /// The dialect that would read the bytes, for a metric; none where the door reads them itself
    /// or the spelling is unknown.
    pub fn foreign(&self) -> Option<ForeignDialect> {
        let spelling = self.spelling.as_ref()?;
        let dialect = spelling.dialect().map_or("none", |(name, _)| name);
        let length = spelling.length.map_or("none".to_owned(), |length| length.to_string());
        Some(ForeignDialect { dialect, length, tpdu: spelling.tpdu })
    }
}

/// The dialect that would read bytes which a door could not read: a bounded number of such there
/// are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ForeignDialect {
    /// A shipped dialect, or `none`.
    pub dialect: &'static str,
    /// The form of the length, or `none`.
    pub length: String,
    /// Whether there is a TPDU.
    pub tpdu: bool,
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(spelling) = &self.spelling else { return Ok(()) };
        write!(f, "; it seems to be {spelling}: ")?;
        match (spelling.dialect(), spelling.framing()) {
            (Some((name, "")), Some(framing)) => {
                write!(f, "start with --dialect {name}")?;
                write_framing(f, framing)
            }
            (Some((name, settings)), Some(framing)) => {
                write!(f, "start with --dialect FILE, a file with base = \"{name}\", {settings}")?;
                write_framing(f, framing)
            }
            _ => f.write_str("no dialect of this switch reads that"),
        }
    }
}

fn write_framing(f: &mut fmt::Formatter<'_>, framing: Framing) -> fmt::Result {
    let default = Framing::default();
    if framing.length != default.length {
        let length = framing.length.to_string();
        match length.contains(' ') {
            true => write!(f, " --length \"{length}\"")?,
            false => write!(f, " --length {length}")?,
        }
    }
    f.write_str(if framing.tpdu { " --tpdu" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dialect_that_reads_it_is_named() {
        let hex = b"0800822000000000000004000000000000000101000001000001301";
        let framed = |prefix: &str| [prefix.as_bytes(), hex].concat();
        let rows = [
            (framed("0055"), "start with --dialect ascii-hex --length ascii4"),
            (framed("0059"), "start with --dialect ascii-hex --length \"ascii4 inclusive\""),
            (framed("\0\x37"), "start with --dialect ascii-hex"),
            (hex.to_vec(), "no dialect of this switch reads that"),
        ];
        for (bytes, expected) in rows {
            let advice = Advice::on_stream(&bytes, &Dialect::default());
            assert_eq!(advice.foreign().unwrap().dialect, "ascii-hex");
            let advice = advice.to_string();
            assert!(advice.ends_with(&format!(": {expected}")), "{advice}");
        }
        let unknown = Advice::on_stream(b"hello", &Dialect::default());
        assert_eq!((unknown.to_string(), unknown.foreign()), (String::new(), None));
    }
}
