//! The likely spelling of ISO 8583 in a stream, by its first bytes: for the log, and for the choice of a dialect.
//!
//! Every spelling of length, header, text and bitmap in use is tried, and the one that explains most is
//! taken. Only the length, the type and the bitmap are looked at, so nothing of a card is.

use std::fmt;

use crate::alphabet::Alphabet;
use crate::bitmap::BitmapEncoding;
use crate::dialect::{DEFAULT, Dialect, FRAME_BYTES_MAX, Framing};
use crate::field_form::Coding;
use crate::frame::Tpdu;
use crate::length_prefix::{LengthDigits, LengthForm, LengthPrefix};

/// How type and texts are spelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextSpelling {
    /// As ASCII.
    Ascii,
    /// As EBCDIC.
    Ebcdic,
    /// The type as two bytes of packed digits.
    Packed,
}

/// The likely spelling of a first frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spelling {
    /// The length before it, if there is one.
    pub length: Option<LengthPrefix>,
    /// Whether five bytes of TPDU stand behind the length.
    pub tpdu: bool,
    /// Type and texts.
    pub text: TextSpelling,
    /// The digits of the message type.
    pub mti: [u8; 4],
    /// The bitmap.
    pub bitmap: BitmapEncoding,
}

const fn length(digits: LengthDigits, bytes: usize, is_inclusive: bool) -> Option<LengthPrefix> {
    Some(LengthPrefix::Length(LengthForm { digits, bytes, is_inclusive }))
}

const ASCII: LengthDigits = LengthDigits::Text(Alphabet::Ascii);
const EBCDIC: LengthDigits = LengthDigits::Text(Alphabet::Ebcdic037);
const LENGTHS: [Option<LengthPrefix>; 11] = [
    length(LengthDigits::Binary, 2, false),
    length(LengthDigits::Binary, 4, false),
    length(ASCII, 4, false),
    length(EBCDIC, 4, false),
    length(LengthDigits::Packed, 2, false),
    length(LengthDigits::Binary, 2, true),
    length(LengthDigits::Binary, 4, true),
    length(ASCII, 4, true),
    length(ASCII, 2, false),
    length(ASCII, 2, true),
    None,
];
const TEXTS: [TextSpelling; 3] = [TextSpelling::Ascii, TextSpelling::Ebcdic, TextSpelling::Packed];
/// Below it, what was found may be chance.
const SCORE_MIN: u32 = 5;

impl Spelling {
    /// The likely spelling of a stream; none where it does not look like ISO 8583.
    pub fn of_stream(bytes: &[u8]) -> Option<Self> {
        best(LENGTHS.into_iter().flat_map(|length| framed(bytes, length)))
    }

    /// The likely spelling of a frame behind a length of this form, a TPDU included.
    pub fn of_frame(bytes: &[u8], length: LengthPrefix) -> Option<Self> {
        best(behind_length(bytes, Some(length), LENGTH_EXACT))
    }

    /// How it is framed, where that is known.
    pub fn framing(&self) -> Option<Framing> {
        self.length.map(|length| Framing { length, tpdu: self.tpdu })
    }

    /// Whether this dialect writes so.
    pub fn is_of(&self, dialect: &Dialect) -> bool {
        let (text, bitmap, version) = match &dialect.translation {
            None => (TextSpelling::Ascii, BitmapEncoding::Binary, b'0'),
            Some(translation) => {
                let text = match translation.types.coding {
                    Coding::Packed(_) => TextSpelling::Packed,
                    Coding::Text(Alphabet::Ascii) => TextSpelling::Ascii,
                    _ => TextSpelling::Ebcdic,
                };
                (text, translation.bitmap.0, translation.types.version)
            }
        };
        self.framing() == Some(dialect.framing)
            && (self.text, self.bitmap, self.mti[0]) == (text, bitmap, version)
    }

    /// The shipped dialect that reads it, and what a file based on it has to say besides; none for 2003.
    pub const fn dialect(&self) -> Option<(&'static str, &'static str)> {
        use BitmapEncoding::{Binary, HexText};
        use TextSpelling::{Ascii, Ebcdic, Packed};
        Some(match (self.mti[0], self.text, self.bitmap) {
            (b'0', Ascii, Binary) => (DEFAULT, ""),
            (b'0', Ascii, HexText) => ("ascii-hex", ""),
            (b'0', Ebcdic, Binary) => ("ebcdic", ""),
            (b'0', Ebcdic, HexText) => ("ebcdic", "bitmap = \"hex\""),
            (b'0', Packed, Binary) => ("bcd", ""),
            (b'0', Packed, HexText) => ("bcd", "bitmap = \"hex\""),
            (b'1', Ascii, Binary) => ("1993", ""),
            (b'1', Ascii, HexText) => ("1993", "bitmap = \"hex\", bytes = \"hex\""),
            (b'1', Ebcdic, _) => ("1993", "text = \"ebcdic\""),
            (b'1', Packed, _) => ("1993", "mti = \"bcd\", digits = \"bcd\", prefix = \"bcd\""),
            _ => return None,
        })
    }

    /// The year of the standard. Source: ISO 8583, first digit of the type.
    pub const fn year(&self) -> u16 {
        match self.mti[0] {
            b'0' => 1987,
            b'1' => 1993,
            _ => 2003,
        }
    }
}

impl fmt::Display for Spelling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.length {
            None => f.write_str("no length")?,
            Some(LengthPrefix::Delimiter(_)) => f.write_str("a delimiter")?,
            Some(LengthPrefix::Length(form)) => {
                let LengthForm { digits, bytes, is_inclusive } = form;
                match digits {
                    LengthDigits::Binary => write!(f, "a length of {bytes} bytes")?,
                    ASCII => write!(f, "a length of {bytes} ASCII digits")?,
                    LengthDigits::Text(_) => write!(f, "a length of {bytes} EBCDIC digits")?,
                    LengthDigits::Packed => write!(f, "a length of {} packed digits", 2 * bytes)?,
                }
                f.write_str(if is_inclusive { " that counts itself" } else { "" })?;
            }
        }
        let tpdu = if self.tpdu { ", a TPDU" } else { "" };
        let text = match self.text {
            TextSpelling::Ascii => "ASCII",
            TextSpelling::Ebcdic => "EBCDIC",
            TextSpelling::Packed => "packed digits",
        };
        let bitmap = match self.bitmap {
            BitmapEncoding::Binary => "binary",
            BitmapEncoding::HexText => "hex",
        };
        let (year, mti) = (self.year(), self.mti.escape_ascii());
        write!(f, "{tpdu}, ISO 8583:{year} in {text}, type {mti}, {bitmap} bitmap")
    }
}

type ScoredSpelling = (u32, Spelling);

/// A length that ends where the bytes do.
const LENGTH_EXACT: u32 = 4;

/// The spelling that explains most; of several the first.
fn best(found: impl Iterator<Item = ScoredSpelling>) -> Option<Spelling> {
    let enough = found.filter(|(score, _)| *score >= SCORE_MIN);
    enough.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|found| found.1)
}

/// The candidates for the bytes behind this length.
fn framed(bytes: &[u8], length: Option<LengthPrefix>) -> impl Iterator<Item = ScoredSpelling> {
    let framing = frame_of(bytes, length);
    framing.into_iter().flat_map(move |(score, frame)| behind_length(frame, length, score))
}

/// The candidates for a frame, with a TPDU and without.
fn behind_length(
    frame: &[u8],
    length: Option<LengthPrefix>,
    score: u32,
) -> impl Iterator<Item = ScoredSpelling> {
    [false, true].into_iter().flat_map(move |tpdu| {
        let behind = if tpdu { frame.get(Tpdu::BYTES..) } else { Some(frame) };
        messages(behind.unwrap_or_default(), length, tpdu, score)
    })
}

/// The message behind a length, and how well that length explains the bytes.
fn frame_of(bytes: &[u8], length: Option<LengthPrefix>) -> Option<(u32, &[u8])> {
    let Some(LengthPrefix::Length(form)) = length else { return Some((1, bytes)) };
    let (prefix_bytes, announced) = (form.bytes, form.read(bytes.get(..form.bytes)?)?);
    if announced == 0 || announced > FRAME_BYTES_MAX {
        return None;
    }
    let rest = &bytes[prefix_bytes..];
    match rest.get(..announced) {
        Some(message) if rest.len() == announced => Some((LENGTH_EXACT, message)),
        // The bytes behind it have to begin with a frame of the same kind.
        Some(message) => {
            let (_, next) = frame_of(&rest[announced..], length)?;
            let behind_tpdu = next.get(Tpdu::BYTES..).unwrap_or_default();
            let has_type =
                |next: &[u8]| TEXTS.into_iter().any(|text| type_of(next, text).is_some());
            (has_type(next) || has_type(behind_tpdu)).then_some((3, message))
        }
        // Not all of it has come.
        None => Some((1, rest)),
    }
}

/// The candidates for a message, by its type and its first bitmap.
fn messages(
    message: &[u8],
    length: Option<LengthPrefix>,
    tpdu: bool,
    score: u32,
) -> impl Iterator<Item = ScoredSpelling> {
    TEXTS.into_iter().flat_map(move |text| {
        let found = type_of(message, text);
        found.into_iter().flat_map(move |(mti, behind)| {
            [BitmapEncoding::HexText, BitmapEncoding::Binary].into_iter().filter_map(
                move |bitmap| {
                    let bits = bits_of(behind, text, bitmap)?;
                    let spelling = Spelling { length, tpdu, text, mti, bitmap };
                    Some((score + score_of(bits, bitmap), spelling))
                },
            )
        })
    })
}

/// The type, if it is one, and what is behind it.
fn type_of(message: &[u8], text: TextSpelling) -> Option<([u8; 4], &[u8])> {
    let (digits, behind) = match text {
        TextSpelling::Ascii | TextSpelling::Ebcdic => {
            let (digits, behind) = message.split_first_chunk::<4>()?;
            let zero = if text == TextSpelling::Ascii { b'0' } else { 0xF0 };
            (digits.map(|digit| digit.wrapping_sub(zero)), behind)
        }
        TextSpelling::Packed => {
            let (packed, behind) = message.split_first_chunk::<2>()?;
            (nibbles(packed), behind)
        }
    };
    let [version, class, function, origin] = digits;
    let is_type = version <= 2 && (1..=8).contains(&class) && function <= 9 && origin <= 5;
    is_type.then(|| (digits.map(|digit| digit + b'0'), behind))
}

/// The first bitmap.
fn bits_of(bytes: &[u8], text: TextSpelling, bitmap: BitmapEncoding) -> Option<u64> {
    match bitmap {
        BitmapEncoding::Binary => bytes.first_chunk().map(|bytes| u64::from_be_bytes(*bytes)),
        BitmapEncoding::HexText => bytes.first_chunk::<16>()?.iter().try_fold(0, |bits, byte| {
            let digit = match text {
                TextSpelling::Ebcdic => match byte {
                    0xF0..=0xF9 => byte - 0xF0,
                    0xC1..=0xC6 => byte - 0xC1 + 10,
                    _ => return None,
                },
                _ => u8::try_from(char::from(*byte).to_digit(16)?).ok()?,
            };
            Some(bits << 4 | u64::from(digit))
        }),
    }
}

/// How likely it is that these bits announce the elements of a message: nearly each has a trace number
/// (DE11), and most a processing code (DE3) or a time (DE7).
fn score_of(bits: u64, bitmap: BitmapEncoding) -> u32 {
    let has = |de: u32| u32::from(bits >> (64 - de) & 1 == 1);
    let is_usual = u32::from((2..=48).contains(&bits.count_ones()));
    let is_hex = if bitmap == BitmapEncoding::HexText { 2 } else { 0 };
    is_hex + is_usual + 2 * has(11) + has(3) + has(7)
}

fn nibbles(bytes: &[u8]) -> [u8; 4] {
    let byte = |at: usize| bytes.get(at).copied().unwrap_or(u8::MAX);
    [byte(0) >> 4, byte(0) & 15, byte(1) >> 4, byte(1) & 15]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DE2, 3, 4, 7, 11 and 42: a usual authorization.
    const BITS: u64 = 0x7220_0000_0040_0000;

    fn ebcdic(text: &str) -> Vec<u8> {
        let spell = |byte: u8| match byte {
            b'0'..=b'9' => byte - b'0' + 0xF0,
            _ => byte - b'A' + 0xC1,
        };
        text.bytes().map(spell).collect()
    }

    /// A message of this spelling, with as many digits behind its bitmap.
    fn message(text: TextSpelling, bitmap: BitmapEncoding, mti: &str) -> Vec<u8> {
        let hex = format!("{BITS:016X}");
        let (mut message, body) = match text {
            TextSpelling::Ascii => (mti.as_bytes().to_vec(), vec![b'4'; 70]),
            TextSpelling::Ebcdic => (ebcdic(mti), vec![0xF4; 70]),
            TextSpelling::Packed => (vec![0x01, 0x00], vec![0x45; 40]),
        };
        match (bitmap, text) {
            (BitmapEncoding::Binary, _) => message.extend(BITS.to_be_bytes()),
            (BitmapEncoding::HexText, TextSpelling::Ebcdic) => message.extend(ebcdic(&hex)),
            (BitmapEncoding::HexText, _) => message.extend(hex.as_bytes()),
        }
        message.extend(body);
        message
    }

    fn with_length(length: Option<LengthPrefix>, message: &[u8]) -> Vec<u8> {
        let Some(LengthPrefix::Length(form)) = length else { return message.to_vec() };
        let mut bytes = vec![0; form.bytes];
        form.write(message.len(), &mut bytes).unwrap();
        bytes.extend(message);
        bytes
    }

    #[test]
    fn every_spelling_in_use_is_told_by_its_first_frame() {
        for text in TEXTS {
            for bitmap in [BitmapEncoding::Binary, BitmapEncoding::HexText] {
                for length in LENGTHS {
                    for tpdu in [false, true] {
                        let mti = if text == TextSpelling::Packed { "0100" } else { "0800" };
                        let tpdu_bytes = if tpdu { &[0x60, 0, 1, 0, 2][..] } else { &[] };
                        let whole = [tpdu_bytes, &message(text, bitmap, mti)].concat();
                        let bytes = with_length(length, &whole);
                        let found = Spelling::of_stream(&bytes).unwrap();
                        let expected = Spelling {
                            length,
                            tpdu,
                            text,
                            mti: mti.as_bytes().try_into().unwrap(),
                            bitmap,
                        };
                        assert_eq!(found, expected, "{expected}");
                        // Two messages in one read, and half of one, say the same.
                        if let Some(LengthPrefix::Length(form)) = length {
                            let twice = [&bytes[..], &bytes].concat();
                            assert_eq!(Spelling::of_stream(&twice), Some(expected), "{expected}");
                            // Half of a frame leaves open whether a length counts itself, and which
                            // number two bytes are.
                            if form.is_inclusive
                                || form.digits != LengthDigits::Binary && form.bytes == 2
                            {
                                continue;
                            }
                            let half = Spelling::of_stream(&bytes[..bytes.len() - 8]);
                            assert_eq!(half, Some(expected), "half of {expected}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_no_message_has_no_spelling() {
        let rows: [&[u8]; 6] = [
            b"",
            b"\x00",
            b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n",
            &[0xA7; 64],
        ];
        for bytes in rows {
            assert_eq!(Spelling::of_stream(bytes), None, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn a_dialect_is_named_where_there_is_one() {
        let spelling = Spelling {
            length: length(ASCII, 4, false),
            tpdu: true,
            text: TextSpelling::Ascii,
            mti: *b"0100",
            bitmap: BitmapEncoding::Binary,
        };
        let framing = Framing { length: "ascii4".parse().unwrap(), tpdu: true };
        assert_eq!(spelling.framing(), Some(framing));
        assert!(spelling.is_of(&Dialect::framed(framing)));
        assert!(!spelling.is_of(&Dialect::default()));
        assert_eq!(
            spelling.to_string(),
            "a length of 4 ASCII digits, a TPDU, ISO 8583:1987 in ASCII, type 0100, binary bitmap"
        );
        for (other, dialect) in [
            (spelling, Some(("default", ""))),
            (Spelling { bitmap: BitmapEncoding::HexText, ..spelling }, Some(("ascii-hex", ""))),
            (Spelling { text: TextSpelling::Ebcdic, ..spelling }, Some(("ebcdic", ""))),
            (Spelling { mti: *b"1100", ..spelling }, Some(("1993", ""))),
            (Spelling { mti: *b"2100", ..spelling }, None),
        ] {
            assert_eq!(other.dialect(), dialect, "{other}");
        }
    }
}
