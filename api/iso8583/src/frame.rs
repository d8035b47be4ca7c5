//! Messages out of a byte stream and back into it.
//!
//! ```text
//! | length: 2 or 4 bytes big-endian, or 4 digits | TPDU: 5 bytes, if the dialect has it | message |
//!                                                 <------------- length counts these ------------->
//! ```
//! Nothing is kept between calls: the caller holds the buffer and takes `consumed` bytes off it. A frame that cannot be
//! a message does not cost a connection its other messages; a length that cannot be one does, because nobody knows where
//! the next message starts.
//!
//! INVARIANT: the start of an HTTP request or of a TLS hello is no length in any dialect, so whoever speaks another
//! protocol, such as a browser that a hostile page sends here, loses its connection at its first bytes.

use std::ops::Range;

use crate::dialect::{Dialect, FRAME_BYTES_MAX, LengthPrefix};
use crate::encode::EncodeError;
use crate::number::{parse_number, zero_padded};

/// The transport header before a message: an id, where it goes, where it came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tpdu([u8; 5]);

impl Tpdu {
    /// What a client sends that has no addresses of its own.
    pub const DEFAULT: Self = Self([0x60, 0, 0, 0, 0]);
    /// Bytes that it takes.
    pub const BYTES: usize = 5;

    /// From its five bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 5]) -> Self {
        Self(bytes)
    }

    /// Its five bytes.
    #[must_use]
    pub const fn bytes(self) -> [u8; 5] {
        self.0
    }

    /// The header of the answer: destination and source swapped.
    #[must_use]
    pub const fn swapped(self) -> Self {
        let [id, to_high, to_low, from_high, from_low] = self.0;
        Self([id, from_high, from_low, to_high, to_low])
    }
}

/// What stands at the start of a buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A whole message.
    Complete {
        /// The header before it, if the dialect has one.
        tpdu: Option<Tpdu>,
        /// Where the message lies in the buffer.
        body: Range<usize>,
        /// Bytes to take off the buffer afterwards.
        consumed: usize,
    },
    /// Not all of it is there yet.
    Incomplete {
        /// Bytes that the buffer must hold, counted from its start, before asking again makes sense.
        needed: usize,
    },
    /// A length of zero, which counterparts send to keep a connection open.
    ZeroLength {
        /// Bytes to take off the buffer.
        consumed: usize,
    },
    /// Too short to hold the TPDU, and there as a whole.
    Undersized {
        /// Bytes to take off the buffer.
        consumed: usize,
    },
    /// Not a length of a frame: nobody knows where the next message starts.
    Lost(FramingLoss),
}

/// Why framing is lost. The log says so, and the connection has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FramingLoss {
    /// The method of an HTTP request.
    HttpRequest,
    /// The header of a TLS record.
    TlsHello,
    /// A length above [`FRAME_BYTES_MAX`].
    Oversized,
    /// A length that is not a number.
    NoLength,
}

/// The methods of HTTP, and the preface of its second version.
const HTTP_METHODS: [&[u8]; 10] = [
    b"GET ",
    b"HEAD ",
    b"POST ",
    b"PUT ",
    b"DELETE ",
    b"CONNECT ",
    b"OPTIONS ",
    b"TRACE ",
    b"PATCH ",
    b"PRI ",
];
/// The first bytes of a TLS handshake record, whatever its version.
const TLS_HELLO: [u8; 2] = [0x16, 0x03];
/// The least byte that a method may begin with (RFC 9110, `tchar`).
const TOKEN_MIN: u8 = b'!';

// INVARIANT: read as a length of two bytes, and so of four, both are above the cap. Digits they are not.
const _: () = assert!(FRAME_BYTES_MAX < u16::from_be_bytes(TLS_HELLO) as usize);
const _: () = assert!(FRAME_BYTES_MAX < u16::from_be_bytes([TOKEN_MIN, 0]) as usize);

impl FramingLoss {
    /// The reason as the log writes it.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::HttpRequest => "an HTTP request",
            Self::TlsHello => "a TLS hello",
            Self::Oversized => "a length above that of any frame",
            Self::NoLength => "a length that is not a number",
        }
    }

    /// The protocol that `bytes` begin with, or `otherwise`. The first word may not be complete yet.
    fn of(bytes: &[u8], otherwise: Self) -> Self {
        let is_begun = |method: &&[u8]| bytes.starts_with(method) || method.starts_with(bytes);
        if bytes.starts_with(&TLS_HELLO) {
            Self::TlsHello
        } else if HTTP_METHODS.iter().any(is_begun) {
            Self::HttpRequest
        } else {
            otherwise
        }
    }
}

/// Looks at the start of a buffer.
#[must_use]
pub fn next_frame(buffer: &[u8], dialect: &Dialect) -> Frame {
    let prefix_bytes = dialect.length_prefix.bytes();
    let Some(prefix) = buffer.get(..prefix_bytes) else {
        return Frame::Incomplete { needed: prefix_bytes };
    };
    let announced = match read_prefix(prefix, dialect.length_prefix) {
        None => return Frame::Lost(FramingLoss::of(buffer, FramingLoss::NoLength)),
        Some(0) => return Frame::ZeroLength { consumed: prefix_bytes },
        Some(announced) if announced > FRAME_BYTES_MAX => {
            return Frame::Lost(FramingLoss::of(buffer, FramingLoss::Oversized));
        }
        Some(announced) => announced,
    };
    let end = prefix_bytes + announced;
    let Some(framed) = buffer.get(prefix_bytes..end) else {
        return Frame::Incomplete { needed: end };
    };
    if !dialect.tpdu {
        return Frame::Complete { tpdu: None, body: prefix_bytes..end, consumed: end };
    }
    let Some(tpdu) = framed.first_chunk().copied().map(Tpdu) else {
        return Frame::Undersized { consumed: end };
    };
    let body = prefix_bytes + Tpdu::BYTES..end;
    Frame::Complete { tpdu: Some(tpdu), body, consumed: end }
}

/// Appends one framed message: the prefix, the TPDU as it is given, and what `write_body` appends.
///
/// An answer carries the TPDU of its request [`swapped`](Tpdu::swapped). Without one, a dialect that has a TPDU gets
/// [`Tpdu::DEFAULT`]; a dialect that has none leaves it out.
///
/// Errors: those of `write_body`, and a frame above the cap; the output is then as before.
pub fn write_frame(
    out: &mut Vec<u8>,
    dialect: &Dialect,
    tpdu: Option<Tpdu>,
    write_body: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let start = out.len();
    let prefix_bytes = dialect.length_prefix.bytes();
    out.resize(start + prefix_bytes, 0);
    if dialect.tpdu {
        out.extend_from_slice(&tpdu.unwrap_or(Tpdu::DEFAULT).bytes());
    }
    let written = write_body(out).and_then(|()| {
        let announced = out.len() - start - prefix_bytes;
        let prefix = &mut out[start..start + prefix_bytes];
        write_prefix(announced, dialect.length_prefix, prefix).ok_or(EncodeError::FrameTooLong)
    });
    if written.is_err() {
        out.truncate(start);
    }
    written
}

/// The announced length, where there is a number.
fn read_prefix(prefix: &[u8], kind: LengthPrefix) -> Option<usize> {
    match kind {
        LengthPrefix::TwoBytes => Some(usize::from(u16::from_be_bytes(prefix.try_into().ok()?))),
        LengthPrefix::FourBytes => {
            usize::try_from(u32::from_be_bytes(prefix.try_into().ok()?)).ok()
        }
        LengthPrefix::FourDigits => usize::try_from(parse_number(prefix)?).ok(),
    }
}

/// None when the length is above the cap, which every prefix can say.
fn write_prefix(announced: usize, kind: LengthPrefix, place: &mut [u8]) -> Option<()> {
    const { assert!(FRAME_BYTES_MAX <= 9999) };
    if announced > FRAME_BYTES_MAX {
        return None;
    }
    match kind {
        LengthPrefix::TwoBytes => {
            place.copy_from_slice(&u16::try_from(announced).ok()?.to_be_bytes());
        }
        LengthPrefix::FourBytes => {
            place.copy_from_slice(&u32::try_from(announced).ok()?.to_be_bytes());
        }
        LengthPrefix::FourDigits => {
            place.copy_from_slice(&zero_padded::<4>(u64::try_from(announced).ok()?)?);
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BitmapEncoding;

    fn dialect(length_prefix: LengthPrefix, tpdu: bool) -> Dialect {
        Dialect { bitmap: BitmapEncoding::Binary, length_prefix, tpdu }
    }

    const PREFIXES: [LengthPrefix; 3] =
        [LengthPrefix::TwoBytes, LengthPrefix::FourBytes, LengthPrefix::FourDigits];

    fn framed(dialect: &Dialect, tpdu: Option<Tpdu>, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        write_frame(&mut out, dialect, tpdu, |out| {
            out.extend_from_slice(body);
            Ok(())
        })
        .unwrap();
        out
    }

    #[test]
    fn frames_come_out_as_they_went_in_whatever_the_dialect() {
        let header = Tpdu::new([0x60, 1, 2, 3, 4]);
        for length_prefix in PREFIXES {
            for has_tpdu in [false, true] {
                let dialect = dialect(length_prefix, has_tpdu);
                let mut buffer = framed(&dialect, Some(header), b"first");
                let first_len = buffer.len();
                for end in 0..first_len {
                    let Frame::Incomplete { needed } = next_frame(&buffer[..end], &dialect) else {
                        panic!("complete at {end} of {first_len}");
                    };
                    assert!(needed > end && needed <= first_len);
                }
                buffer.extend(framed(&dialect, None, b"second"));
                let Frame::Complete { tpdu, body, consumed } = next_frame(&buffer, &dialect) else {
                    panic!("not complete");
                };
                assert_eq!(&buffer[body], b"first");
                assert_eq!((consumed, tpdu), (first_len, has_tpdu.then_some(header)));
                let rest = &buffer[consumed..];
                let Frame::Complete { tpdu, body, .. } = next_frame(rest, &dialect) else {
                    panic!("second not complete");
                };
                assert_eq!(
                    (&rest[body], tpdu),
                    (&b"second"[..], has_tpdu.then_some(Tpdu::DEFAULT))
                );
            }
        }
    }

    #[test]
    fn prefixes_have_their_layouts() {
        for (length_prefix, bytes) in [
            (LengthPrefix::TwoBytes, &b"\x00\x03abc"[..]),
            (LengthPrefix::FourBytes, b"\0\0\x00\x03abc"),
            (LengthPrefix::FourDigits, b"0003abc"),
        ] {
            assert_eq!(framed(&dialect(length_prefix, false), None, b"abc"), bytes);
        }
        let with_tpdu = dialect(LengthPrefix::TwoBytes, true);
        let answer = framed(&with_tpdu, Some(Tpdu::new([0x60, 1, 2, 3, 4]).swapped()), b"abc");
        assert_eq!(answer, b"\x00\x08\x60\x03\x04\x01\x02abc");
    }

    #[test]
    fn lengths_that_are_no_message_are_told_apart() {
        let two = dialect(LengthPrefix::TwoBytes, false);
        let four = dialect(LengthPrefix::FourBytes, false);
        let digits = dialect(LengthPrefix::FourDigits, false);
        let tpdu = dialect(LengthPrefix::TwoBytes, true);
        for (buffer, dialect, frame) in [
            (&b"\0\0more"[..], two, Frame::ZeroLength { consumed: 2 }),
            (b"0000", digits, Frame::ZeroLength { consumed: 4 }),
            (b"\xff\xff", two, Frame::Lost(FramingLoss::Oversized)),
            (b"\x10\x01", two, Frame::Lost(FramingLoss::Oversized)),
            (b"\x10\x00", two, Frame::Incomplete { needed: 4_098 }),
            (b"\0\0\xff\xff", four, Frame::Lost(FramingLoss::Oversized)),
            (b"\0\x01\0\0", four, Frame::Lost(FramingLoss::Oversized)),
            (b"\xff\xff\xff\xff", four, Frame::Lost(FramingLoss::Oversized)),
            (b"4096", digits, Frame::Incomplete { needed: 4_100 }),
            (b"9999", digits, Frame::Lost(FramingLoss::Oversized)),
            (b"01x0", digits, Frame::Lost(FramingLoss::NoLength)),
            (b"\0\x04abc", tpdu, Frame::Incomplete { needed: 6 }),
            (b"\0\x04abcd", tpdu, Frame::Undersized { consumed: 6 }),
            (
                b"\0\x05\x60\0\0\0\0",
                tpdu,
                Frame::Complete { tpdu: Some(Tpdu::DEFAULT), body: 7..7, consumed: 7 },
            ),
        ] {
            assert_eq!(next_frame(buffer, &dialect), frame, "{buffer:?}");
        }
    }

    /// A page of any origin may have a browser send such bytes to any port. They were skipped once, as the frame
    /// that their length announced, and what the page had put behind them was carried out.
    #[test]
    fn the_first_bytes_of_other_protocols_are_a_frame_in_no_dialect() {
        let rows: [(&[u8], FramingLoss); 14] = [
            (b"GET / HTTP/1.1\r\n", FramingLoss::HttpRequest),
            (b"HEAD / HTTP/1.1\r\n", FramingLoss::HttpRequest),
            (b"POST /v1 HTTP/1.1\r\n", FramingLoss::HttpRequest),
            (b"PUT / HTTP/1.1\r\n", FramingLoss::HttpRequest),
            (b"PATCH / HTTP/1.1\r\n", FramingLoss::HttpRequest),
            (b"DELETE / HTTP/1.1\r\n", FramingLoss::HttpRequest),
            (b"OPTIONS * HTTP/1.1\r\n", FramingLoss::HttpRequest),
            (b"CONNECT a:1 HTTP/1.1\r\n", FramingLoss::HttpRequest),
            (b"TRACE / HTTP/1.1\r\n", FramingLoss::HttpRequest),
            (b"PRI * HTTP/2.0\r\n", FramingLoss::HttpRequest),
            (b"POST", FramingLoss::HttpRequest),
            (b"\x16\x03\x01\x02\x00\x01", FramingLoss::TlsHello),
            (b"\x16\x03\x03\x00\xff\x01", FramingLoss::TlsHello),
            (b"\x16\x03\x04\x00", FramingLoss::TlsHello),
        ];
        for length_prefix in PREFIXES {
            for has_tpdu in [false, true] {
                let dialect = dialect(length_prefix, has_tpdu);
                for (bytes, loss) in rows {
                    let found = next_frame(bytes, &dialect);
                    assert_eq!(found, Frame::Lost(loss), "{dialect:?} {bytes:?}");
                }
            }
        }
    }

    /// Whatever method an HTTP request has, its first letter is that of a token.
    #[test]
    fn no_word_of_letters_is_a_length() {
        for length_prefix in [LengthPrefix::TwoBytes, LengthPrefix::FourBytes] {
            for first in TOKEN_MIN..=b'~' {
                let found = next_frame(&[first, 0, 0, 0], &dialect(length_prefix, false));
                assert!(matches!(found, Frame::Lost(_)), "{first} {found:?}");
            }
        }
    }

    #[test]
    fn a_body_that_fails_or_is_too_long_leaves_the_output_alone() {
        let two = dialect(LengthPrefix::TwoBytes, false);
        let mut out = vec![1];
        let failed = write_frame(&mut out, &two, None, |out| {
            out.push(2);
            Err(EncodeError::WrongLength(3))
        });
        assert_eq!((failed, &out[..]), (Err(EncodeError::WrongLength(3)), &[1][..]));
        let too_long = write_frame(&mut out, &two, None, |out| {
            out.resize(FRAME_BYTES_MAX + 4, 0);
            Ok(())
        });
        assert_eq!((too_long, &out[..]), (Err(EncodeError::FrameTooLong), &[1][..]));
    }
}
