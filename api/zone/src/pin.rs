//! PIN blocks under a zone key. Source: ISO 9564-1.
//!
//! | format | key | block |
//! |---|---|---|
//! | 0, 3 | TDES | the clear block of 8 bytes (`iso8583::pin_block`), enciphered |
//! | 4 | AES | PIN field, enciphered, mixed with the PAN field, enciphered; 16 bytes each |

use cardswitch_iso8583::{Pin, decode_pin_block};

use crate::key::{Algorithm, ZoneKey, mix};

/// A key that PINs come under.
#[derive(Debug)]
pub struct PinKey(ZoneKey);

impl PinKey {
    /// Takes a key of either cipher.
    pub const fn new(key: ZoneKey) -> Self {
        Self(key)
    }

    /// The bytes of a block under this key.
    pub const fn block_bytes(&self) -> usize {
        self.0.algorithm.block_bytes()
    }

    /// A clear block of format 0 or 3 under this key; none under a key of AES, whose blocks are longer.
    pub fn seal(&self, clear: &[u8]) -> Option<[u8; 8]> {
        let mut block: [u8; 8] = clear.try_into().ok()?;
        (self.0.algorithm == Algorithm::Tdes).then(|| {
            self.0.encrypt(&mut block);
            block
        })
    }

    /// The PIN of a block for a card number in ASCII digits; none where the block is of another length, under
    /// another key, for another number, or of another format.
    pub fn open(&self, block: &[u8], pan: &[u8]) -> Option<Pin> {
        match self.0.algorithm {
            Algorithm::Tdes => {
                let mut block: [u8; 8] = block.try_into().ok()?;
                self.0.decrypt(&mut block);
                decode_pin_block(block, pan)
            }
            Algorithm::Aes => {
                let mut block: [u8; 16] = block.try_into().ok()?;
                self.0.decrypt(&mut block);
                mix(&mut block, &pan_field(pan)?);
                self.0.decrypt(&mut block);
                pin_of_field(block)
            }
        }
    }
}

/// Format 4: how far the number is longer than 12 digits, its digits, zeros.
fn pan_field(pan: &[u8]) -> Option<[u8; 16]> {
    if pan.len() > 19 || !pan.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let beyond = u8::try_from(pan.len().checked_sub(12)?).ok()?;
    let mut nibbles = [0; 32];
    nibbles[0] = beyond;
    nibbles.iter_mut().skip(1).zip(pan).for_each(|(nibble, digit)| *nibble = digit - b'0');
    Some(std::array::from_fn(|at| nibbles[2 * at] << 4 | nibbles[2 * at + 1]))
}

/// Format 4: 4, the count of digits, the digits, A up to 16 nibbles, then random ones.
fn pin_of_field(field: [u8; 16]) -> Option<Pin> {
    let nibble =
        |at: usize| if at.is_multiple_of(2) { field[at / 2] >> 4 } else { field[at / 2] & 15 };
    let len = usize::from(nibble(1));
    if nibble(0) != 4 || !(4..=12).contains(&len) {
        return None;
    }
    let is_filled = (2 + len..16).all(|at| nibble(at) == 0xa);
    let digits: Vec<u8> = (2..2 + len).map(|at| b'0' + nibble(at)).collect();
    is_filled.then(|| Pin::parse(&digits)).flatten()
}

#[cfg(test)]
mod tests {
    use cardswitch_secrets::hex::from_hex;

    use super::*;
    use crate::key::tests::key;

    const PAN: &[u8] = b"5544332211009966";

    fn opened(key: &PinKey, hex: &str, pan: &[u8]) -> Option<Vec<u8>> {
        key.open(&from_hex(hex).unwrap(), pan).map(|pin| pin.digits().to_vec())
    }

    /// Blocks of PyPI `psec` 1.3.0, that of format 4 from its documents.
    #[test]
    fn blocks_of_each_format_open_for_their_card_alone() {
        let tdes = PinKey::new(key(Algorithm::Tdes, "0123456789ABCDEFFEDCBA9876543210"));
        let aes = PinKey::new(key(Algorithm::Aes, "00112233445566778899AABBCCDDEEFF"));
        let rows = [
            (&tdes, "24b5254f5321bbc2", PAN),
            (&tdes, "54a99c2312352d67", PAN),
            (&aes, "E4BE5B623AF7E006AC319E5B93544564", b"1234567890123456"),
        ];
        for (key, block, pan) in rows {
            assert_eq!(opened(key, block, pan), Some(b"1234".to_vec()), "{block}");
            assert_eq!(opened(key, block, b"4111111111111111"), None, "{block}");
            assert_eq!(opened(key, &block[2..], pan), None, "{block}");
            assert_eq!(opened(key, &"00".repeat(block.len() / 2), pan), None, "{block}");
        }
        // A clear block is none under a key.
        assert_eq!(opened(&tdes, "041277cddeeff669", PAN), None);
        assert_eq!(opened(&aes, "E4BE5B623AF7E006AC319E5B93544564", b"12345678901"), None);
    }
}
