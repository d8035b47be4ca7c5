//! How a stream seems to spell ISO 8583, by its first bytes: for the log and for who must set a dialect.
//!
//! Every spelling of length, header, text and bitmap in use is tried, and the one that explains most is
//! taken. Only the length, the type and the bitmap are looked at, so nothing of a card is.

use std::fmt;

use crate::dialect::{BitmapEncoding, Dialect, FRAME_BYTES_MAX, LengthPrefix};
use crate::frame::Tpdu;

/// How the length stands before a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LengthSpelling {
    /// There is none.
    Absent,
    /// Big-endian, of what follows.
    Bytes(usize),
    /// Big-endian, and it counts itself.
    InclusiveBytes(usize),
    /// Four ASCII digits.
    AsciiDigits,
    /// Four EBCDIC digits.
    EbcdicDigits,
    /// Two bytes of packed digits.
    PackedDigits,
}

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

/// What a first frame seems to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spelling {
    /// The length before it.
    pub length: LengthSpelling,
    /// Whether five bytes of TPDU stand behind the length.
    pub tpdu: bool,
    /// Type and texts.
    pub text: TextSpelling,
    /// The digits of the message type.
    pub mti: [u8; 4],
    /// The bitmap.
    pub bitmap: BitmapEncoding,
}

const LENGTHS: [LengthSpelling; 8] = [
    LengthSpelling::Bytes(2),
    LengthSpelling::Bytes(4),
    LengthSpelling::AsciiDigits,
    LengthSpelling::EbcdicDigits,
    LengthSpelling::PackedDigits,
    LengthSpelling::InclusiveBytes(2),
    LengthSpelling::InclusiveBytes(4),
    LengthSpelling::Absent,
];
const TEXTS: [TextSpelling; 3] = [TextSpelling::Ascii, TextSpelling::Ebcdic, TextSpelling::Packed];
/// Below it, what was found may be chance.
const SCORE_MIN: u32 = 5;

impl Spelling {
    /// What a stream begins with, if it seems to be ISO 8583 at all.
    #[must_use]
    pub fn of_stream(bytes: &[u8]) -> Option<Self> {
        best(LENGTHS.into_iter().flat_map(|length| framed(bytes, length)))
    }

    /// The same of a message without its length, which `length` has told.
    #[must_use]
    pub fn of_message(bytes: &[u8], length: LengthPrefix, tpdu: bool) -> Option<Self> {
        let length = match length {
            LengthPrefix::TwoBytes => LengthSpelling::Bytes(2),
            LengthPrefix::FourBytes => LengthSpelling::Bytes(4),
            LengthPrefix::FourDigits => LengthSpelling::AsciiDigits,
        };
        best(messages(bytes, length, tpdu, LENGTH_EXACT))
    }

    /// The dialect that reads it, where there is one.
    #[must_use]
    pub fn dialect(&self) -> Option<Dialect> {
        let length_prefix = match self.length {
            LengthSpelling::Bytes(2) => LengthPrefix::TwoBytes,
            LengthSpelling::Bytes(_) => LengthPrefix::FourBytes,
            LengthSpelling::AsciiDigits => LengthPrefix::FourDigits,
            _ => return None,
        };
        let is_read = self.text == TextSpelling::Ascii && self.mti[0] == b'0';
        is_read.then_some(Dialect { bitmap: self.bitmap, length_prefix, tpdu: self.tpdu })
    }

    /// The year of the standard. Source: ISO 8583, first digit of the type.
    #[must_use]
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
            LengthSpelling::Absent => f.write_str("no length")?,
            LengthSpelling::Bytes(bytes) => write!(f, "a length of {bytes} bytes")?,
            LengthSpelling::InclusiveBytes(bytes) => {
                write!(f, "a length of {bytes} bytes that counts itself")?;
            }
            LengthSpelling::AsciiDigits => f.write_str("a length of 4 ASCII digits")?,
            LengthSpelling::EbcdicDigits => f.write_str("a length of 4 EBCDIC digits")?,
            LengthSpelling::PackedDigits => f.write_str("a length of 4 packed digits")?,
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

type Scored = (u32, Spelling);

/// A length that ends where the bytes do.
const LENGTH_EXACT: u32 = 4;

/// The spelling that explains most; of several the first.
fn best(found: impl Iterator<Item = Scored>) -> Option<Spelling> {
    let enough = found.filter(|(score, _)| *score >= SCORE_MIN);
    enough.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|found| found.1)
}

/// What may stand behind this length.
fn framed(bytes: &[u8], length: LengthSpelling) -> impl Iterator<Item = Scored> {
    let framing = frame_of(bytes, length);
    framing.into_iter().flat_map(move |(score, message)| {
        [false, true].into_iter().flat_map(move |tpdu| {
            let behind = if tpdu { message.get(Tpdu::BYTES..) } else { Some(message) };
            messages(behind.unwrap_or_default(), length, tpdu, score)
        })
    })
}

/// The message behind a length, and how well that length explains the bytes.
fn frame_of(bytes: &[u8], length: LengthSpelling) -> Option<(u32, &[u8])> {
    let (prefix_bytes, announced) = match length {
        LengthSpelling::Absent => return Some((1, bytes)),
        LengthSpelling::Bytes(count) => (count, big_endian(bytes.get(..count)?)),
        LengthSpelling::InclusiveBytes(count) => {
            (count, big_endian(bytes.get(..count)?).checked_sub(count)?)
        }
        LengthSpelling::AsciiDigits => {
            (4, decimal(bytes.get(..4)?, |byte| byte.wrapping_sub(b'0'))?)
        }
        LengthSpelling::EbcdicDigits => {
            (4, decimal(bytes.get(..4)?, |byte| byte.wrapping_sub(0xF0))?)
        }
        LengthSpelling::PackedDigits => (2, decimal(&nibbles(bytes.get(..2)?), |digit| digit)?),
    };
    if announced == 0 || announced > FRAME_BYTES_MAX {
        return None;
    }
    let rest = &bytes[prefix_bytes..];
    match rest.get(..announced) {
        Some(message) if rest.len() == announced => Some((LENGTH_EXACT, message)),
        // What follows has to begin alike.
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

/// What a message may be, by its type and its first bitmap.
fn messages(
    message: &[u8],
    length: LengthSpelling,
    tpdu: bool,
    score: u32,
) -> impl Iterator<Item = Scored> {
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

fn big_endian(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

fn decimal(bytes: &[u8], digit: impl Fn(u8) -> u8) -> Option<usize> {
    bytes.iter().try_fold(0, |number, byte| {
        let digit = digit(*byte);
        (digit <= 9).then(|| number * 10 + usize::from(digit))
    })
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

    fn behind_length(length: LengthSpelling, message: &[u8]) -> Vec<u8> {
        let len = message.len();
        let mut bytes = match length {
            LengthSpelling::Absent => Vec::new(),
            LengthSpelling::Bytes(count) => len.to_be_bytes()[8 - count..].to_vec(),
            LengthSpelling::InclusiveBytes(count) => {
                (len + count).to_be_bytes()[8 - count..].to_vec()
            }
            LengthSpelling::AsciiDigits => format!("{len:04}").into_bytes(),
            LengthSpelling::EbcdicDigits => ebcdic(&format!("{len:04}")),
            LengthSpelling::PackedDigits => {
                let digits = format!("{len:04}").into_bytes();
                digits.chunks(2).map(|two| (two[0] - b'0') << 4 | (two[1] - b'0')).collect()
            }
        };
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
                        let bytes = behind_length(length, &whole);
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
                        if length != LengthSpelling::Absent {
                            let twice = [&bytes[..], &bytes].concat();
                            assert_eq!(Spelling::of_stream(&twice), Some(expected), "{expected}");
                            // Half of a frame leaves open whether a length counts itself, and which
                            // number two bytes are.
                            if matches!(
                                length,
                                LengthSpelling::PackedDigits | LengthSpelling::InclusiveBytes(_)
                            ) {
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
            length: LengthSpelling::AsciiDigits,
            tpdu: true,
            text: TextSpelling::Ascii,
            mti: *b"0100",
            bitmap: BitmapEncoding::HexText,
        };
        let dialect = Dialect {
            bitmap: BitmapEncoding::HexText,
            length_prefix: LengthPrefix::FourDigits,
            tpdu: true,
        };
        assert_eq!(spelling.dialect(), Some(dialect));
        assert_eq!(
            spelling.to_string(),
            "a length of 4 ASCII digits, a TPDU, ISO 8583:1987 in ASCII, type 0100, hex bitmap"
        );
        let others = [
            Spelling { text: TextSpelling::Ebcdic, ..spelling },
            Spelling { mti: *b"1100", ..spelling },
            Spelling { length: LengthSpelling::Absent, ..spelling },
        ];
        assert!(others.iter().all(|other| other.dialect().is_none()));
    }
}
