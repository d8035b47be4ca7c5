//! The elements of DE55: tag, length, value, as EMV writes them. Source: EMV 4.3 book 3, annex B.

use std::fmt;

/// The name of an element: one byte, or two.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Tag(pub u16);

impl fmt::Display for Tag {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:02X}", self.0)
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// Why bytes are no such elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlvFault {
    /// They end within a tag or a length.
    #[error("ends within an element")]
    Cut,
    /// An element says that it is longer than what is left.
    #[error("element {0} is longer than what is left")]
    TooLong(Tag),
    /// A tag of more than two bytes, or a length of more than two.
    #[error("has an element whose tag or length is too long")]
    Form,
}

/// The elements in their order, by tag; padding between them is left out.
/// Errors: the first fault.
pub fn elements(mut bytes: &[u8]) -> Result<Vec<(Tag, &[u8])>, TlvFault> {
    let mut found = Vec::new();
    while let Some((first, rest)) = bytes.split_first() {
        if matches!(first, 0x00 | 0xff) {
            bytes = rest;
            continue;
        }
        let (tag, rest) = tag_of(*first, rest)?;
        let (len, rest) = length_of(rest)?;
        let (value, rest) = rest.split_at_checked(len).ok_or(TlvFault::TooLong(tag))?;
        found.push((tag, value));
        bytes = rest;
    }
    Ok(found)
}

fn tag_of(first: u8, rest: &[u8]) -> Result<(Tag, &[u8]), TlvFault> {
    if first & 0x1f != 0x1f {
        return Ok((Tag(u16::from(first)), rest));
    }
    match rest.split_first() {
        None => Err(TlvFault::Cut),
        Some((second, _)) if second & 0x80 != 0 => Err(TlvFault::Form),
        Some((second, rest)) => Ok((Tag(u16::from_be_bytes([first, *second])), rest)),
    }
}

fn length_of(bytes: &[u8]) -> Result<(usize, &[u8]), TlvFault> {
    let (first, rest) = bytes.split_first().ok_or(TlvFault::Cut)?;
    match first {
        0..=0x7f => Ok((usize::from(*first), rest)),
        0x81 => {
            rest.split_first().map(|(len, rest)| (usize::from(*len), rest)).ok_or(TlvFault::Cut)
        }
        0x82 => {
            let (len, rest) = rest.split_first_chunk().ok_or(TlvFault::Cut)?;
            Ok((usize::from(u16::from_be_bytes(*len)), rest))
        }
        _ => Err(TlvFault::Form),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_come_in_their_order_and_padding_is_left_out() {
        let long = [&[0x5a, 0x81, 0x80][..], &[7; 128]].concat();
        let bytes = [&[0x9f, 0x26, 2, 1, 2, 0x00, 0x82, 0, 0xff][..], &long].concat();
        let found = elements(&bytes).unwrap();
        let expected =
            [(Tag(0x9f26), &[1, 2][..]), (Tag(0x82), &[][..]), (Tag(0x5a), &[7; 128][..])];
        assert_eq!(found, expected);
        assert_eq!(elements(&[0x95, 0x82, 0, 1, 9]), Ok(vec![(Tag(0x95), &[9][..])]));
        assert_eq!(elements(&[]), Ok(vec![]));
    }

    #[test]
    fn whatever_is_cut_or_too_long_is_named() {
        let whole = [0x9f, 0x26, 3, 1, 2, 3];
        for end in 1..whole.len() {
            assert!(elements(&whole[..end]).is_err(), "{end}");
        }
        assert_eq!(elements(&whole[..5]), Err(TlvFault::TooLong(Tag(0x9f26))));
        for bytes in [&[0x9f, 0x80][..], &[0x95, 0x83, 0, 0, 1, 7], &[0x95, 0x80]] {
            assert_eq!(elements(bytes), Err(TlvFault::Form));
        }
        for bytes in [&[0x9f][..], &[0x95], &[0x95, 0x81], &[0x95, 0x82, 0]] {
            assert_eq!(elements(bytes), Err(TlvFault::Cut));
        }
    }
}
