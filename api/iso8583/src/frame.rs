//! Messages out of a byte stream and back into it.
//!
//! ```text
//! | length, unless a delimiter ends the message | TPDU: 5 bytes, if the dialect has it | message |
//!                                                <------------- length counts these ------------->
//! ```
//! Nothing is kept between calls: the caller holds the buffer and takes `consumed` bytes off it. A frame that cannot be
//! a message does not cost a connection its other messages; a length that cannot be one does, because nobody knows where
//! the next message starts.
//!
//! INVARIANT: the start of an HTTP request or of a TLS hello is no frame in any dialect. So a client of another
//! protocol, such as a browser that a hostile page sends here, loses its connection at its first bytes.

use std::ops::Range;

use crate::dialect::{FRAME_BYTES_MAX, Framing};
use crate::encode::EncodeError;
use crate::length_prefix::{Delimiter, LengthDigits, LengthForm, LengthPrefix};

/// The transport header before a message: an id, where it goes, where it came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tpdu([u8; 5]);

impl Tpdu {
    /// The header of a client that has no addresses of its own.
    pub const DEFAULT: Self = Self([0x60, 0, 0, 0, 0]);
    /// Bytes that it takes.
    pub const BYTES: usize = 5;

    /// From its five bytes.
    pub const fn new(bytes: [u8; 5]) -> Self {
        Self(bytes)
    }

    /// Its five bytes.
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

/// The beginning of a buffer, judged as a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A whole message.
    Complete {
        /// The header before it, if the dialect has one.
        tpdu: Option<Tpdu>,
        /// The place of the message in the buffer.
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
    /// No delimiter within the bytes of any frame.
    NoDelimiter,
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
/// The record's head, and of the hello what tells its length. Units: bytes.
const TLS_HELLO_HEAD_BYTES: usize = 9;
/// The first bytes of it, read as packed digits.
const TLS_HELLO_PACKED: usize = 1603;
/// The least byte that a method may begin with (RFC 9110, `tchar`).
const TOKEN_MIN: u8 = b'!';

// INVARIANT: read as a length of two bytes, and so of four, both are above the cap. Digits they are not.
const _: () = assert!(FRAME_BYTES_MAX < u16::from_be_bytes(TLS_HELLO) as usize);
const _: () = assert!(FRAME_BYTES_MAX < u16::from_be_bytes([TOKEN_MIN, 0]) as usize);

impl FramingLoss {
    /// The reason as the log writes it.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::HttpRequest => "an HTTP request",
            Self::TlsHello => "a TLS hello",
            Self::Oversized => "a length above that of any frame",
            Self::NoLength => "a length that is not a number",
            Self::NoDelimiter => "no delimiter where any frame ends",
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
pub fn next_frame(buffer: &[u8], framing: &Framing) -> Frame {
    let (start, end, consumed) = match framing.length {
        LengthPrefix::Delimiter(delimiter) => match until(buffer, delimiter) {
            Ok(end) => (0, end, end + delimiter.bytes().len()),
            Err(frame) => return frame,
        },
        LengthPrefix::Length(form) => match announced_by(buffer, form) {
            Ok(announced) => {
                let end = form.bytes + announced;
                (form.bytes, end, end)
            }
            Err(frame) => return frame,
        },
    };
    let Some(framed) = buffer.get(start..end) else {
        return Frame::Incomplete { needed: end };
    };
    if framed.is_empty() {
        return Frame::ZeroLength { consumed };
    }
    if !framing.tpdu {
        return Frame::Complete { tpdu: None, body: start..end, consumed };
    }
    let Some(tpdu) = framed.first_chunk().copied().map(Tpdu) else {
        return Frame::Undersized { consumed };
    };
    Frame::Complete { tpdu: Some(tpdu), body: start + Tpdu::BYTES..end, consumed }
}

/// The bytes that the length at the start announces; else what stands there.
fn announced_by(buffer: &[u8], form: LengthForm) -> Result<usize, Frame> {
    let Some(prefix) = buffer.get(..form.bytes) else {
        return Err(Frame::Incomplete { needed: form.bytes });
    };
    match form.read(prefix) {
        None => Err(Frame::Lost(FramingLoss::of(buffer, FramingLoss::NoLength))),
        Some(announced) if announced > FRAME_BYTES_MAX => {
            Err(Frame::Lost(FramingLoss::of(buffer, FramingLoss::Oversized)))
        }
        // As packed digits, a TLS record begins with a length that a frame may have.
        Some(_) if form.digits == LengthDigits::Packed && buffer.starts_with(&TLS_HELLO) => {
            match buffer.get(..TLS_HELLO_HEAD_BYTES) {
                None => Err(Frame::Incomplete { needed: TLS_HELLO_HEAD_BYTES }),
                Some(head) if is_client_hello(head) => Err(Frame::Lost(FramingLoss::TlsHello)),
                Some(_) => Ok(TLS_HELLO_PACKED),
            }
        }
        Some(announced) => Ok(announced),
    }
}

/// The place of the delimiter; without one, the verdict on the buffer.
fn until(buffer: &[u8], delimiter: Delimiter) -> Result<usize, Frame> {
    let begins = |start: &[u8]| buffer.starts_with(start);
    let has_begun = |start: &[u8]| start.starts_with(buffer);
    if begins(&TLS_HELLO) || HTTP_METHODS.into_iter().any(begins) {
        return Err(Frame::Lost(FramingLoss::of(buffer, FramingLoss::NoDelimiter)));
    }
    if has_begun(&TLS_HELLO) || HTTP_METHODS.into_iter().any(has_begun) {
        return Err(Frame::Incomplete { needed: buffer.len() + 1 });
    }
    let mark = delimiter.bytes();
    let found = buffer.windows(mark.len()).take(FRAME_BYTES_MAX + 1).position(|at| at == mark);
    match found {
        Some(end) => Ok(end),
        None if buffer.len() > FRAME_BYTES_MAX + mark.len() => {
            Err(Frame::Lost(FramingLoss::NoDelimiter))
        }
        None => Err(Frame::Incomplete { needed: buffer.len() + 1 }),
    }
}

/// Whether these are the heads of a TLS record and of the hello of a client in it, of the same length.
/// Source: RFC 8446, sections 4 and 5.1.
fn is_client_hello(head: &[u8]) -> bool {
    let [_, _, _, record_high, record_low, 1, 0, hello_high, hello_low] = head else {
        return false;
    };
    let record = u16::from_be_bytes([*record_high, *record_low]);
    let hello = u16::from_be_bytes([*hello_high, *hello_low]);
    hello.checked_add(4) == Some(record)
}

/// Appends one framed message: the prefix, the TPDU as it is given, and what `write_body` appends.
///
/// An answer carries the TPDU of its request [`swapped`](Tpdu::swapped). Without one, a dialect that has a TPDU gets
/// [`Tpdu::DEFAULT`]; a dialect that has none leaves it out.
///
/// Errors: those of `write_body`, and a frame above the cap; the output is then as before.
pub fn write_frame(
    out: &mut Vec<u8>,
    framing: &Framing,
    tpdu: Option<Tpdu>,
    write_body: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let start = out.len();
    let prefix_bytes = match framing.length {
        LengthPrefix::Length(form) => form.bytes,
        LengthPrefix::Delimiter(_) => 0,
    };
    out.resize(start + prefix_bytes, 0);
    if framing.tpdu {
        out.extend_from_slice(&tpdu.unwrap_or(Tpdu::DEFAULT).bytes());
    }
    let written = write_body(out).and_then(|()| {
        let announced = out.len() - start - prefix_bytes;
        match framing.length {
            LengthPrefix::Length(form) => {
                let prefix = &mut out[start..start + prefix_bytes];
                form.write(announced, prefix).ok_or(EncodeError::FrameTooLong)
            }
            LengthPrefix::Delimiter(delimiter) if announced <= FRAME_BYTES_MAX => {
                out.extend_from_slice(delimiter.bytes());
                Ok(())
            }
            LengthPrefix::Delimiter(_) => Err(EncodeError::FrameTooLong),
        }
    });
    if written.is_err() {
        out.truncate(start);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framing(length: &str, tpdu: bool) -> Framing {
        Framing { length: length.parse().unwrap(), tpdu }
    }

    const LENGTHS: [&str; 9] = [
        "binary2",
        "binary4",
        "ascii4",
        "ascii2 inclusive",
        "ebcdic4",
        "bcd4",
        "binary2 inclusive",
        "delimiter 03",
        "delimiter 0D0A",
    ];

    fn framed(framing: &Framing, tpdu: Option<Tpdu>, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        write_frame(&mut out, framing, tpdu, |out| {
            out.extend_from_slice(body);
            Ok(())
        })
        .unwrap();
        out
    }

    #[test]
    fn frames_come_out_as_they_went_in_whatever_the_dialect() {
        let header = Tpdu::new([0x60, 1, 2, 3, 4]);
        for length in LENGTHS {
            for has_tpdu in [false, true] {
                let framing = framing(length, has_tpdu);
                // A TPDU may hold the delimiter.
                if has_tpdu && matches!(framing.length, LengthPrefix::Delimiter(_)) {
                    continue;
                }
                let mut buffer = framed(&framing, Some(header), b"first");
                let first_len = buffer.len();
                for end in 0..first_len {
                    let Frame::Incomplete { needed } = next_frame(&buffer[..end], &framing) else {
                        panic!("complete at {end} of {first_len}");
                    };
                    assert!(needed > end && needed <= first_len, "{length}");
                }
                buffer.extend(framed(&framing, None, b"second"));
                let Frame::Complete { tpdu, body, consumed } = next_frame(&buffer, &framing) else {
                    panic!("not complete");
                };
                assert_eq!(&buffer[body], b"first");
                assert_eq!((consumed, tpdu), (first_len, has_tpdu.then_some(header)));
                let rest = &buffer[consumed..];
                let Frame::Complete { tpdu, body, .. } = next_frame(rest, &framing) else {
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
        for (length, bytes) in [
            ("binary2", &b"\x00\x03abc"[..]),
            ("binary4", b"\0\0\x00\x03abc"),
            ("ascii4", b"0003abc"),
            ("bcd4 inclusive", b"\x00\x05abc"),
            ("delimiter 0D0A", b"abc\r\n"),
        ] {
            assert_eq!(framed(&framing(length, false), None, b"abc"), bytes);
        }
        let with_tpdu = framing("binary2", true);
        let answer = framed(&with_tpdu, Some(Tpdu::new([0x60, 1, 2, 3, 4]).swapped()), b"abc");
        assert_eq!(answer, b"\x00\x08\x60\x03\x04\x01\x02abc");
    }

    #[test]
    fn lengths_that_are_no_message_are_told_apart() {
        let two = framing("binary2", false);
        let four = framing("binary4", false);
        let digits = framing("ascii4", false);
        let tpdu = framing("binary2", true);
        let end = framing("delimiter 03", false);
        for (buffer, framing, frame) in [
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
            (b"\x03ab\x03", end, Frame::ZeroLength { consumed: 1 }),
            (&[b'0'; FRAME_BYTES_MAX + 2], end, Frame::Lost(FramingLoss::NoDelimiter)),
            (b"\0\x04abc", tpdu, Frame::Incomplete { needed: 6 }),
            (b"\0\x04abcd", tpdu, Frame::Undersized { consumed: 6 }),
            (
                b"\0\x05\x60\0\0\0\0",
                tpdu,
                Frame::Complete { tpdu: Some(Tpdu::DEFAULT), body: 7..7, consumed: 7 },
            ),
        ] {
            assert_eq!(next_frame(buffer, &framing), frame, "{buffer:?}");
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
            (b"POST /x ", FramingLoss::HttpRequest),
            (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", FramingLoss::TlsHello),
            (b"\x16\x03\x03\x00\xff\x01\x00\x00\xfb", FramingLoss::TlsHello),
            (b"\x16\x03\x04\x01\x04\x01\x00\x01\x00", FramingLoss::TlsHello),
        ];
        for length in LENGTHS {
            for has_tpdu in [false, true] {
                let framing = framing(length, has_tpdu);
                for (bytes, loss) in rows {
                    let found = next_frame(bytes, &framing);
                    assert_eq!(found, Frame::Lost(loss), "{framing:?} {bytes:?}");
                }
            }
        }
    }

    /// The first letter of any HTTP method is that of a token.
    #[test]
    fn no_word_of_letters_is_a_length() {
        for length in ["binary2", "binary4"] {
            for first in TOKEN_MIN..=b'~' {
                let found = next_frame(&[first, 0, 0, 0], &framing(length, false));
                assert!(matches!(found, Frame::Lost(_)), "{first} {found:?}");
            }
        }
    }

    /// A frame of 1,603 bytes begins as a TLS record does where lengths are packed digits.
    #[test]
    fn a_frame_as_long_as_a_hello_looks_is_a_frame() {
        let framing = framing("bcd4", false);
        let frame = framed(&framing, None, &[1; 1_603]);
        assert_eq!(frame[..2], TLS_HELLO);
        assert_eq!(next_frame(&frame[..5], &framing), Frame::Incomplete { needed: 9 });
        let whole = Frame::Complete { tpdu: None, body: 2..1_605, consumed: 1_605 };
        assert_eq!(next_frame(&frame, &framing), whole);
    }

    #[test]
    fn a_body_that_fails_or_is_too_long_leaves_the_output_alone() {
        let two = framing("binary2", false);
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
