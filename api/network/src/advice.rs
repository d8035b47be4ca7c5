//! What whoever runs the door should know of a peer that it cannot read: what its bytes seem to be, and
//! which dialect would read them. Nothing of a card is in it.

use std::fmt;

use cardswitch_iso8583::{BitmapEncoding, Dialect, LengthPrefix, Spelling};

/// A clause behind a log line; empty where the bytes are of the door's own dialect, or of none.
pub struct Advice {
    spelling: Option<Spelling>,
    dialect: Dialect,
}

impl Advice {
    /// On bytes of a stream that begin with a length, at a door with this dialect.
    #[must_use]
    pub fn on_stream(bytes: &[u8], dialect: &Dialect) -> Self {
        Self { spelling: Spelling::of_stream(bytes), dialect: *dialect }
    }

    /// On the message of a frame, at a door with this dialect.
    #[must_use]
    pub fn on_message(message: &[u8], dialect: &Dialect) -> Self {
        let spelling = Spelling::of_message(message, dialect.length_prefix, dialect.tpdu);
        Self { spelling, dialect: *dialect }
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(spelling) = &self.spelling else { return Ok(()) };
        let dialect = spelling.dialect();
        if dialect == Some(self.dialect) {
            return Ok(());
        }
        write!(f, "; it seems to be {spelling}: ")?;
        match dialect {
            Some(dialect) => write_settings(f, &dialect, &self.dialect),
            None => f.write_str("no dialect of this switch reads that"),
        }
    }
}

/// The settings of `wanted` that differ from those of the door, as the configuration file has them.
fn write_settings(f: &mut fmt::Formatter<'_>, wanted: &Dialect, door: &Dialect) -> fmt::Result {
    f.write_str("set")?;
    if wanted.length_prefix != door.length_prefix {
        let name = match wanted.length_prefix {
            LengthPrefix::TwoBytes => "two_bytes",
            LengthPrefix::FourBytes => "four_bytes",
            LengthPrefix::FourDigits => "four_digits",
        };
        write!(f, " dialect.length_prefix = \"{name}\"")?;
    }
    if wanted.bitmap != door.bitmap {
        let name = match wanted.bitmap {
            BitmapEncoding::Binary => "binary",
            BitmapEncoding::HexText => "hex",
        };
        write!(f, " dialect.bitmap = \"{name}\"")?;
    }
    if wanted.tpdu != door.tpdu {
        write!(f, " dialect.tpdu = {}", wanted.tpdu)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_that_differ_are_named() {
        let hex = b"0800822000000000000004000000000000000101000001000001301";
        let framed = |prefix: &str| [prefix.as_bytes(), hex].concat();
        let rows = [
            (
                framed("0055"),
                "set dialect.length_prefix = \"four_digits\" dialect.bitmap = \"hex\"",
            ),
            (framed("\0\x37"), "set dialect.bitmap = \"hex\""),
            (hex.to_vec(), "no dialect of this switch reads that"),
        ];
        for (bytes, expected) in rows {
            let advice = Advice::on_stream(&bytes, &Dialect::default()).to_string();
            assert!(advice.ends_with(&format!(": {expected}")), "{advice}");
        }
        assert_eq!(Advice::on_stream(b"hello", &Dialect::default()).to_string(), "");
    }
}
