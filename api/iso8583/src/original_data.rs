//! DE 90, original data elements: which message a reversal or presentment is about.
//!
//! Layout: MTI 4, STAN 6, transmission time 10, acquirer 11, forwarder 11; all digits, zeros in front.

use crate::mti::Mti;
use crate::number::{parse_number, write_zero_padded};

/// The message that another one refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OriginalData {
    /// Its type.
    pub mti: Mti,
    /// Its DE 11.
    pub stan: u32,
    /// Its DE 7, MMDDhhmmss.
    pub transmitted: [u8; 10],
    /// Its DE 32 as a number, 0 where it had none.
    pub acquirer: u64,
    /// Its DE 33 as a number, 0 where it had none.
    pub forwarder: u64,
}

/// The length of the element.
pub const ORIGINAL_DATA_LEN: usize = 42;

impl OriginalData {
    /// Splits the content of DE 90; none when it is not 42 digits.
    pub fn parse(content: &[u8]) -> Option<Self> {
        if content.len() != ORIGINAL_DATA_LEN || !content.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let (mti, rest) = content.split_at_checked(4)?;
        let (stan, rest) = rest.split_at_checked(6)?;
        let (transmitted, rest) = rest.split_first_chunk()?;
        let (acquirer, forwarder) = rest.split_at_checked(11)?;
        Some(Self {
            mti: Mti::parse(mti)?,
            stan: u32::try_from(parse_number(stan)?).ok()?,
            transmitted: *transmitted,
            acquirer: parse_number(acquirer)?,
            forwarder: parse_number(forwarder)?,
        })
    }

    /// The content of DE 90; none when a number has more digits than its place.
    pub fn to_content(&self) -> Option<[u8; ORIGINAL_DATA_LEN]> {
        let mut content = [b'0'; ORIGINAL_DATA_LEN];
        let (mti, rest) = content.split_at_mut_checked(4)?;
        let (stan, rest) = rest.split_at_mut_checked(6)?;
        let (transmitted, rest) = rest.split_at_mut_checked(10)?;
        let (acquirer, forwarder) = rest.split_at_mut_checked(11)?;
        mti.copy_from_slice(&self.mti.bytes());
        transmitted.copy_from_slice(&self.transmitted);
        let fits = write_zero_padded(u64::from(self.stan), stan)
            && write_zero_padded(self.acquirer, acquirer)
            && write_zero_padded(self.forwarder, forwarder);
        fits.then_some(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: OriginalData = OriginalData {
        mti: Mti::AUTHORIZATION_REQUEST,
        stan: 123,
        transmitted: *b"1231235959",
        acquirer: 12_345_678_901,
        forwarder: 0,
    };

    #[test]
    fn what_is_written_is_read() {
        let content = DATA.to_content().unwrap();
        assert_eq!(&content, b"010000012312312359591234567890100000000000");
        assert_eq!(OriginalData::parse(&content), Some(DATA));
    }

    #[test]
    fn what_does_not_fit_or_is_not_digits_is_none() {
        assert_eq!(OriginalData { stan: 1_000_000, ..DATA }.to_content(), None);
        assert_eq!(OriginalData { acquirer: 100_000_000_000, ..DATA }.to_content(), None);
        assert_eq!(OriginalData::parse(&[b'0'; 41]), None);
        assert_eq!(OriginalData::parse(&[b' '; 42]), None);
    }
}
