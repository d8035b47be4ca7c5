//! The place of a message's code on the wire: its last bytes, in the spelling of the peer.

use crate::mac::MAC_BYTES;

/// How the code at the end of a message is spelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MacPlace {
    /// Eight bytes.
    Bytes,
    /// Sixteen hex digits in ASCII.
    Ascii,
    /// Sixteen hex digits in EBCDIC.
    Ebcdic,
}

impl MacPlace {
    /// Finds `code` at the end of a message; none where it does not stand there.
    pub fn of(message: &[u8], code: &[u8; MAC_BYTES]) -> Option<Self> {
        if message.ends_with(code) {
            return Some(Self::Bytes);
        }
        let digits = message.last_chunk::<{ 2 * MAC_BYTES }>()?;
        [Self::Ascii, Self::Ebcdic].into_iter().find(|place| {
            let nibbles = digits.map(|digit| place.nibble(digit));
            let said = code.iter().flat_map(|byte| [byte >> 4, byte & 15]);
            said.zip(nibbles).all(|(said, nibble)| Some(said) == nibble)
        })
    }

    const fn len(self) -> usize {
        match self {
            Self::Bytes => MAC_BYTES,
            Self::Ascii | Self::Ebcdic => 2 * MAC_BYTES,
        }
    }

    /// The part of a message under the code.
    pub fn covered(self, message: &[u8]) -> &[u8] {
        &message[..message.len() - self.len()]
    }

    /// Writes a code at the end of a message, which has room for it.
    pub fn put(self, message: &mut [u8], code: &[u8; MAC_BYTES]) {
        let start = message.len() - self.len();
        match self {
            Self::Bytes => message[start..].copy_from_slice(code),
            Self::Ascii | Self::Ebcdic => {
                let nibbles = code.iter().flat_map(|byte| [byte >> 4, byte & 15]);
                for (place, nibble) in message[start..].iter_mut().zip(nibbles) {
                    *place = self.digit(nibble);
                }
            }
        }
    }

    const fn digit(self, nibble: u8) -> u8 {
        match (self, nibble) {
            (Self::Ebcdic, 0..=9) => 0xf0 + nibble,
            (Self::Ebcdic, _) => 0xc1 + nibble - 10,
            (_, 0..=9) => b'0' + nibble,
            _ => b'A' + nibble - 10,
        }
    }

    const fn nibble(self, digit: u8) -> Option<u8> {
        match (self, digit) {
            (Self::Ascii, b'0'..=b'9') => Some(digit - b'0'),
            (Self::Ascii, b'A'..=b'F') => Some(digit - b'A' + 10),
            (Self::Ascii, b'a'..=b'f') => Some(digit - b'a' + 10),
            (Self::Ebcdic, 0xf0..=0xf9) => Some(digit - 0xf0),
            (Self::Ebcdic, 0xc1..=0xc6) => Some(digit - 0xc1 + 10),
            (Self::Ebcdic, 0x81..=0x86) => Some(digit - 0x81 + 10),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_found_and_written_in_each_spelling() {
        let code = [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef];
        let ebcdic: Vec<u8> = [0xf0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9]
            .into_iter()
            .chain(0xc1..=0xc6)
            .collect();
        let rows = [
            (MacPlace::Bytes, code.to_vec(), vec![0; 8]),
            (MacPlace::Ascii, b"0123456789ABCDEF".to_vec(), vec![b'0'; 16]),
            (MacPlace::Ebcdic, ebcdic, vec![0xf0; 16]),
        ];
        for (place, spelled, zeros) in rows {
            let message = [b"0800 and so on".as_slice(), &spelled].concat();
            assert_eq!(MacPlace::of(&message, &code), Some(place));
            assert_eq!(place.covered(&message), b"0800 and so on");
            let mut blank = [b"0800 and so on".as_slice(), &zeros].concat();
            assert_eq!(MacPlace::of(&blank, &[0; 8]), Some(place));
            place.put(&mut blank, &code);
            assert_eq!(blank, message);
            assert_eq!(MacPlace::of(&message[..message.len() - 1], &code), None);
        }
        assert_eq!(MacPlace::of(b"0800", &code), None);
    }
}
