//! The primitives of packed rows: fixed integers, short integers, short texts.
//!
//! Short integers take seven bits a byte, the lowest first, the high bit set in all but the last;
//! signed ones alternate 0, -1, 1, -2, .. first. A text has one length byte, or 255 and four.

use crate::codec::CodecError;

/// The mark in place of a text's length: the length follows in four bytes.
const LONG_TEXT: u8 = 255;
const SHORT_INTEGER_BYTES_MAX: u32 = 10;

/// Reads packed bytes from the front.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl<'a> Cursor<'a> {
    pub(super) fn slice(&mut self, len: usize) -> Result<&'a [u8], CodecError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(CodecError::Cut)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], CodecError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(CodecError::Cut)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8, CodecError> {
        self.array().map(u8::from_le_bytes)
    }

    pub(super) fn u16(&mut self) -> Result<u16, CodecError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, CodecError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn i32(&mut self) -> Result<i32, CodecError> {
        self.array().map(i32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, CodecError> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn i64(&mut self) -> Result<i64, CodecError> {
        self.array().map(i64::from_le_bytes)
    }

    pub(super) fn short_u64(&mut self) -> Result<u64, CodecError> {
        let mut value = 0;
        for index in 0..SHORT_INTEGER_BYTES_MAX {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            let shifted = bits << (7 * index);
            if shifted >> (7 * index) != bits {
                return Err(malformed("a short integer is beyond 64 bits"));
            }
            value |= shifted;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(malformed("a short integer does not end"))
    }

    pub(super) fn short_i64(&mut self) -> Result<i64, CodecError> {
        let value = self.short_u64()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    pub(super) fn short_u32(&mut self) -> Result<u32, CodecError> {
        u32::try_from(self.short_u64()?).map_err(|_| malformed("a number is beyond 32 bits"))
    }

    pub(super) fn short_i32(&mut self) -> Result<i32, CodecError> {
        i32::try_from(self.short_i64()?).map_err(|_| malformed("a number is beyond 32 bits"))
    }

    /// A count of items of at least one byte each, so it is never above the number of bytes left.
    pub(super) fn count(&mut self) -> Result<usize, CodecError> {
        let count = self.short_u64()?;
        usize::try_from(count).ok().filter(|count| *count <= self.0.len()).ok_or(CodecError::Cut)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, CodecError> {
        let len = match self.u8()? {
            LONG_TEXT => self.u32()? as usize,
            len => usize::from(len),
        };
        std::str::from_utf8(self.slice(len)?).map_err(|_| malformed("a text is not UTF-8"))
    }

    /// Errors: `Malformed` if bytes are left over.
    pub(super) fn end(&self) -> Result<(), CodecError> {
        if self.0.is_empty() { Ok(()) } else { Err(malformed("bytes are left over")) }
    }

    /// The number in `N` bytes as a text of `len` digits.
    pub(super) fn digits<const N: usize>(&mut self, len: usize) -> Result<Digits, CodecError> {
        let mut wide = [0; 8];
        wide[..N].copy_from_slice(&self.array::<N>()?);
        Digits::render(u64::from_le_bytes(wide), len)
    }
}

/// A text of digits, read from a number.
pub(super) struct Digits {
    symbols: [u8; Self::LEN_MAX],
    len: usize,
}

impl Digits {
    pub(super) const LEN_MAX: usize = 12;

    fn render(mut value: u64, len: usize) -> Result<Self, CodecError> {
        let mut symbols = [0; Self::LEN_MAX];
        let places = symbols.get_mut(..len).ok_or_else(|| malformed("too many digits"))?;
        for symbol in places.iter_mut().rev() {
            *symbol = b'0' + (value % 10) as u8;
            value /= 10;
        }
        if value == 0 { Ok(Self { symbols, len }) } else { Err(malformed("too large a number")) }
    }

    pub(super) fn as_str(&self) -> Result<&str, CodecError> {
        let symbols = self.symbols.get(..self.len).unwrap_or_default();
        std::str::from_utf8(symbols).map_err(|_| malformed("a digit is none"))
    }
}

/// The number that a text of digits shows, if it is one, is not too long and is below `limit`.
pub(super) fn digits_value(text: &str, limit: u64) -> Option<u64> {
    if text.len() > Digits::LEN_MAX {
        return None;
    }
    let mut value = 0;
    for symbol in text.bytes() {
        if !symbol.is_ascii_digit() {
            return None;
        }
        value = value * 10 + u64::from(symbol - b'0');
    }
    (value < limit).then_some(value)
}

pub(super) fn push_short_u64(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push((value & 0x7f) as u8);
}

pub(super) fn push_short_i64(bytes: &mut Vec<u8>, value: i64) {
    push_short_u64(bytes, ((value << 1) ^ (value >> 63)).cast_unsigned());
}

pub(super) fn push_text(bytes: &mut Vec<u8>, text: &str) {
    match u8::try_from(text.len()) {
        Ok(len) if len != LONG_TEXT => bytes.push(len),
        _ => {
            // INVARIANT: requests are far below 4 GiB, and so is every text in them.
            let len = u32::try_from(text.len()).expect("a text is shorter than 4 GiB");
            bytes.push(LONG_TEXT);
            bytes.extend_from_slice(&len.to_le_bytes());
        }
    }
    bytes.extend_from_slice(text.as_bytes());
}

pub(super) fn malformed(what: &str) -> CodecError {
    CodecError::Malformed { what: what.to_owned() }
}
