//! DE 48, private use: sub-elements of two-digit tag, two-digit length, value. A content of any other form is opaque.
//!
//! | tag | value |
//! |---|---|
//! | 11 | presentment number and count: "0102" is the first of two |
//! | 52 | PIN block of 16 bytes, in hex |
//! | 61 | "1": the terminal takes partial approvals |
//! | 80 | billing ZIP |
//! | 92 | CVV |
//! | 99 | virtual microseconds since 1970, for a manual clock |

use std::fmt;

use crate::number::parse_number;

/// Tag of the presentment number.
pub const PRESENTMENT: u8 = 11;
/// Tag of a PIN block that DE52 has no room for.
pub const PIN_BLOCK: u8 = 52;
/// Tag of the terminal's ability to take partial approvals.
pub const PARTIAL_CAPABLE: u8 = 61;
/// Tag of the billing ZIP.
pub const ZIP: u8 = 80;
/// Tag of the CVV.
pub const CVV: u8 = 92;
/// Tag of the virtual time.
pub const VIRTUAL_MICROS: u8 = 99;

/// The place of a presentment among several of one authorization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PresentmentSequence {
    /// 1 to `count`.
    pub number: u8,
    /// How many there are to be, 1 to 99.
    pub count: u8,
}

/// The sub-elements of a DE 48. Its `Debug` shows no values.
#[derive(Clone, Copy)]
pub struct PrivateUse<'a> {
    /// INVARIANT: nothing but whole sub-elements.
    content: &'a [u8],
}

impl<'a> PrivateUse<'a> {
    /// Takes the content if all of it has the form of sub-elements; none when it is opaque.
    pub fn parse(content: &'a [u8]) -> Option<Self> {
        let mut rest = content;
        while !rest.is_empty() {
            (_, _, rest) = split_first(rest)?;
        }
        Some(Self { content })
    }

    /// Tag and value of each sub-element, in order.
    pub fn elements(&self) -> impl Iterator<Item = (u8, &'a [u8])> {
        let mut rest = self.content;
        std::iter::from_fn(move || {
            let (tag, value, behind) = split_first(rest)?;
            rest = behind;
            Some((tag, value))
        })
    }

    /// The value of the first sub-element with the tag.
    pub fn find(&self, tag: u8) -> Option<&'a [u8]> {
        self.elements().find(|(other, _)| *other == tag).map(|(_, value)| value)
    }

    /// The CVV, three or four digits.
    pub fn cvv(&self) -> Option<&'a str> {
        let digits = self.find(CVV)?;
        let right = matches!(digits.len(), 3 | 4) && digits.iter().all(u8::is_ascii_digit);
        if right { std::str::from_utf8(digits).ok() } else { None }
    }

    /// The billing ZIP as given.
    pub fn zip(&self) -> Option<&'a str> {
        std::str::from_utf8(self.find(ZIP)?).ok()
    }

    /// The presentment number and count. None when absent, not four digits, or not a number of 1 to count.
    pub fn presentment(&self) -> Option<PresentmentSequence> {
        let [a, b, c, d] = <[u8; 4]>::try_from(self.find(PRESENTMENT)?).ok()?;
        let (number, count) = (two_digits(a, b)?, two_digits(c, d)?);
        (1 <= number && number <= count).then_some(PresentmentSequence { number, count })
    }

    /// Whether the terminal says that it takes partial approvals.
    pub fn is_partial_capable(&self) -> bool {
        self.find(PARTIAL_CAPABLE) == Some(b"1")
    }

    /// The virtual time. Units: microseconds since 1970.
    pub fn virtual_micros(&self) -> Option<u64> {
        parse_number(self.find(VIRTUAL_MICROS)?)
    }
}

impl fmt::Debug for PrivateUse<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateUse ")?;
        f.debug_list().entries(self.elements().map(|(tag, _)| tag)).finish()
    }
}

/// Builds a DE 48. Its `Debug` shows no values.
#[derive(Clone, Default)]
pub struct PrivateUseWriter {
    content: Vec<u8>,
}

impl PrivateUseWriter {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a sub-element; one with a tag above 99 or a value of more than 99 bytes cannot be said and is left out.
    #[must_use]
    pub fn add(mut self, tag: u8, value: &[u8]) -> Self {
        let len = u8::try_from(value.len()).unwrap_or(u8::MAX);
        if tag <= 99 && len <= 99 {
            for number in [tag, len] {
                self.content.extend_from_slice(&[b'0' + number / 10, b'0' + number % 10]);
            }
            self.content.extend_from_slice(value);
        }
        self
    }

    /// Appends the CVV.
    #[must_use]
    pub fn cvv(self, cvv: &str) -> Self {
        self.add(CVV, cvv.as_bytes())
    }

    /// Appends the billing ZIP.
    #[must_use]
    pub fn zip(self, zip: &str) -> Self {
        self.add(ZIP, zip.as_bytes())
    }

    /// Appends the presentment number and count; numbers above 99 cannot be said and are left out.
    #[must_use]
    pub fn presentment(self, presentment: PresentmentSequence) -> Self {
        let PresentmentSequence { number, count } = presentment;
        if number > 99 || count > 99 {
            return self;
        }
        let digits = [number / 10, number % 10, count / 10, count % 10].map(|digit| b'0' + digit);
        self.add(PRESENTMENT, &digits)
    }

    /// Appends that the terminal takes partial approvals.
    #[must_use]
    pub fn partial_capable(self) -> Self {
        self.add(PARTIAL_CAPABLE, b"1")
    }

    /// Appends the virtual time. Units: microseconds since 1970.
    #[must_use]
    pub fn virtual_micros(self, micros: u64) -> Self {
        self.add(VIRTUAL_MICROS, micros.to_string().as_bytes())
    }

    /// Whether nothing was appended; DE 48 is then left out of a message.
    pub fn is_empty(&self) -> bool {
        self.content.is_empty()
    }

    /// The content of DE 48.
    pub fn as_bytes(&self) -> &[u8] {
        &self.content
    }
}

impl fmt::Debug for PrivateUseWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateUseWriter({} bytes)", self.content.len())
    }
}

/// Tag, value and what follows the first sub-element.
fn split_first(content: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let ([tag_1, tag_2, len_1, len_2], rest) = content.split_first_chunk()?;
    let (tag, len) = (two_digits(*tag_1, *tag_2)?, two_digits(*len_1, *len_2)?);
    let (value, rest) = rest.split_at_checked(usize::from(len))?;
    Some((tag, value, rest))
}

fn two_digits(tens: u8, ones: u8) -> Option<u8> {
    let both = tens.is_ascii_digit() && ones.is_ascii_digit();
    both.then(|| (tens - b'0') * 10 + (ones - b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let writer = PrivateUseWriter::new()
            .cvv("123")
            .zip("94107")
            .presentment(PresentmentSequence { number: 1, count: 12 })
            .partial_capable()
            .virtual_micros(1_700_000_000_000_000);
        assert_eq!(writer.as_bytes(), b"9203123800594107110401126101199161700000000000000");
        let read = PrivateUse::parse(writer.as_bytes()).unwrap();
        assert_eq!((read.cvv(), read.zip()), (Some("123"), Some("94107")));
        assert_eq!(read.presentment(), Some(PresentmentSequence { number: 1, count: 12 }));
        assert!(read.is_partial_capable());
        assert_eq!(read.virtual_micros(), Some(1_700_000_000_000_000));
        assert_eq!(read.elements().map(|(tag, _)| tag).collect::<Vec<_>>(), [92, 80, 11, 61, 99]);
    }

    #[test]
    fn any_other_form_is_opaque() {
        for content in
            [&b"9"[..], b"92031", b"920312", b"9a03123", b"92 3123", b"hello", b"9203123x"]
        {
            assert!(PrivateUse::parse(content).is_none(), "{content:?}");
        }
        assert_eq!(PrivateUse::parse(b"").unwrap().elements().count(), 0);
        assert_eq!(PrivateUse::parse(b"9200").unwrap().find(92), Some(&b""[..]));
    }

    #[test]
    fn values_that_make_no_sense_are_not_there() {
        let read = |content| PrivateUse::parse(content).unwrap();
        for content in [&b"92051234 "[..], b"9200", b"92021a", b"920212"] {
            if let Some(read) = PrivateUse::parse(content) {
                assert_eq!(read.cvv(), None);
            }
        }
        for content in [&b"11040201"[..], b"11040001", b"11040000", b"1103012", b"110401x1"] {
            assert_eq!(read(content).presentment(), None, "{content:?}");
        }
        assert!(!read(b"61010").is_partial_capable() && !read(b"").is_partial_capable());
        assert_eq!(read(b"9902x1").virtual_micros(), None);
    }

    #[test]
    fn what_cannot_be_said_is_left_out_and_debug_shows_no_values() {
        let writer = PrivateUseWriter::new()
            .add(100, b"1")
            .add(1, &[b'x'; 100])
            .presentment(PresentmentSequence { number: 1, count: 100 });
        assert!(writer.is_empty());
        let writer = writer.cvv("737");
        assert_eq!(format!("{writer:?}"), "PrivateUseWriter(7 bytes)");
        let read = PrivateUse::parse(writer.as_bytes()).unwrap();
        assert_eq!(format!("{read:?}"), "PrivateUse [92]");
    }
}
