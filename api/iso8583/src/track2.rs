//! DE 35, track 2: card number, separator (`=` or `D`), expiry YYMM, service code, what the issuer likes.

use std::fmt;

/// The parts of a track 2. Its `Debug` shows nothing of them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Track2<'a> {
    /// The card number, 1 to 19 digits.
    pub pan: &'a str,
    /// Expiry as YYMM.
    pub expiry: [u8; 4],
    /// Three digits, if they follow.
    pub service_code: Option<[u8; 3]>,
}

impl<'a> Track2<'a> {
    /// Reads the content of DE 35; none when it lacks a number, a separator or an expiry of digits.
    pub fn parse(content: &'a [u8]) -> Option<Self> {
        const PAN_DIGITS_MAX: usize = 19;
        // Readers that pass on the start sentinel are common.
        let content = content.strip_prefix(b";").unwrap_or(content);
        let pan_len = content.iter().position(|byte| !byte.is_ascii_digit())?;
        let (pan, rest) = content.split_at(pan_len);
        let ([b'=' | b'D', expiry @ ..], rest) = rest.split_first_chunk::<5>()? else {
            return None;
        };
        let in_range = (1..=PAN_DIGITS_MAX).contains(&pan.len());
        if !in_range || !expiry.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let service_code = rest.first_chunk().copied();
        Some(Self {
            pan: std::str::from_utf8(pan).ok()?,
            expiry: *expiry,
            service_code: service_code.filter(|code: &[u8; 3]| code.iter().all(u8::is_ascii_digit)),
        })
    }
}

impl fmt::Debug for Track2<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Track2").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_separators_and_the_sentinel_are_read() {
        for content in [
            &b"4111111111111111=29122010000"[..],
            b"4111111111111111D2912201",
            b";4111111111111111=2912201?",
        ] {
            let track = Track2::parse(content).unwrap();
            assert_eq!((track.pan, &track.expiry), ("4111111111111111", b"2912"));
            assert_eq!(track.service_code, Some(*b"201"));
            assert_eq!(format!("{track:?}"), "Track2 { .. }");
        }
        assert_eq!(Track2::parse(b"4111111111111111=2912").unwrap().service_code, None);
    }

    #[test]
    fn what_lacks_a_part_is_no_track() {
        for content in [
            &b""[..],
            b"=2912",
            b"4111111111111111",
            b"4111111111111111=",
            b"4111111111111111=291",
            b"4111111111111111=29?2",
            b"4111111111111111:2912",
            b"41111111111111111111=2912",
        ] {
            assert!(Track2::parse(content).is_none(), "{content:?}");
        }
    }
}
