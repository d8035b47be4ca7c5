//! DE 52, the PIN block of ISO 9564-1, formats 0 and 3.
//!
//! ```text
//! PIN field   0 | length | PIN digits, then F to sixteen nibbles; format 3: 3, and random A to F
//! PAN field   0 0 0 0 | the twelve digits of the card number before its check digit
//! block       PIN field XOR PAN field
//! ```
//! This is the clear block; `zone` opens those under a key.

use std::fmt;

/// A clear PIN of 4 to 12 digits. Its `Debug` shows none of them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Pin {
    digits: [u8; PIN_DIGITS_MAX],
    len: usize,
}

const PIN_DIGITS_MIN: usize = 4;
const PIN_DIGITS_MAX: usize = 12;

impl Pin {
    /// Takes 4 to 12 ASCII digits; anything else is none.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let in_range = (PIN_DIGITS_MIN..=PIN_DIGITS_MAX).contains(&text.len());
        if !in_range || !text.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let mut digits = [b'0'; PIN_DIGITS_MAX];
        digits.get_mut(..text.len())?.copy_from_slice(text);
        Some(Self { digits, len: text.len() })
    }

    /// The ASCII digits.
    pub fn digits(&self) -> &[u8] {
        // INVARIANT: the length is one of 4 to 12.
        self.digits.get(..self.len).unwrap_or_default()
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pin(..)")
    }
}

/// The clear block of a PIN for a card number; none when the card number is not 13 digits or more.
pub fn encode_pin_block(pin: &Pin, pan: &[u8]) -> Option<[u8; 8]> {
    let mut nibbles = [0xf; 16];
    nibbles[0] = 0;
    nibbles[1] = u8::try_from(pin.len).ok()?;
    for (nibble, digit) in nibbles.iter_mut().skip(2).zip(pin.digits()) {
        *nibble = digit - b'0';
    }
    Some(xor(pack(nibbles), pan_field(pan)?))
}

/// The PIN of a clear block for a card number; none when the block is of neither format or was made for another number.
pub fn decode_pin_block(block: [u8; 8], pan: &[u8]) -> Option<Pin> {
    let nibbles = unpack(xor(block, pan_field(pan)?));
    let (&[format, len], rest) = nibbles.split_first_chunk()?;
    let len = usize::from(len);
    let filling = match format {
        0 => 0xf..=0xf,
        3 => 0xa..=0xf,
        _ => return None,
    };
    if !(PIN_DIGITS_MIN..=PIN_DIGITS_MAX).contains(&len) {
        return None;
    }
    let (digits, filler) = rest.split_at_checked(len)?;
    if digits.iter().any(|digit| *digit > 9)
        || !filler.iter().all(|nibble| filling.contains(nibble))
    {
        return None;
    }
    let mut pin = Pin { digits: [b'0'; PIN_DIGITS_MAX], len };
    for (place, digit) in pin.digits.iter_mut().zip(digits) {
        *place = b'0' + digit;
    }
    Some(pin)
}

fn pan_field(pan: &[u8]) -> Option<[u8; 8]> {
    let (_check_digit, before) = pan.split_last()?;
    let twelve: &[u8; 12] = before.last_chunk()?;
    if !pan.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let mut nibbles = [0; 16];
    for (nibble, digit) in nibbles.iter_mut().skip(4).zip(twelve) {
        *nibble = digit - b'0';
    }
    Some(pack(nibbles))
}

fn pack(nibbles: [u8; 16]) -> [u8; 8] {
    std::array::from_fn(|at| nibbles[2 * at] << 4 | nibbles[2 * at + 1])
}

fn unpack(bytes: [u8; 8]) -> [u8; 16] {
    std::array::from_fn(|at| if at % 2 == 0 { bytes[at / 2] >> 4 } else { bytes[at / 2] & 15 })
}

fn xor(left: [u8; 8], right: [u8; 8]) -> [u8; 8] {
    std::array::from_fn(|at| left[at] ^ right[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAN: &[u8] = b"43219876543210987";

    /// PIN 1234 and PAN 43219876543210987 are an example that many published descriptions of the format work out.
    #[test]
    fn the_published_example_comes_out() {
        let pin = Pin::parse(b"1234").unwrap();
        let block = encode_pin_block(&pin, PAN).unwrap();
        assert_eq!(block, [0x04, 0x12, 0xac, 0x89, 0xab, 0xcd, 0xef, 0x67]);
        assert_eq!(decode_pin_block(block, PAN), Some(pin));
    }

    #[test]
    fn pins_of_each_length_go_both_ways() {
        for len in 4..=12 {
            let pin = Pin::parse(&b"987650123498"[..len]).unwrap();
            let block = encode_pin_block(&pin, PAN).unwrap();
            assert_eq!(decode_pin_block(block, PAN).unwrap().digits(), &b"987650123498"[..len]);
        }
    }

    #[test]
    fn a_block_for_another_card_or_of_another_format_is_none() {
        let block = encode_pin_block(&Pin::parse(b"1234").unwrap(), PAN).unwrap();
        assert_eq!(decode_pin_block(block, b"4111111111111111"), None);
        let mut format_1 = block;
        format_1[0] |= 0x10;
        assert_eq!(decode_pin_block(format_1, PAN), None);
        let mut too_short = block;
        too_short[0] = 0x03;
        assert_eq!(decode_pin_block(too_short, PAN), None);
        let mut too_long = block;
        too_long[0] = 0x0d;
        assert_eq!(decode_pin_block(too_long, PAN), None);
    }

    /// A block of PyPI `psec`'s documents.
    #[test]
    fn a_block_of_format_3_has_random_filling() {
        let block = [0x34, 0x12, 0x77, 0xee, 0xef, 0xcc, 0xb4, 0x3c];
        assert_eq!(decode_pin_block(block, b"5544332211009966"), Pin::parse(b"1234"));
        // 5 is no filling.
        let mut filled = block;
        filled[7] = 0xc6;
        assert_eq!(decode_pin_block(filled, b"5544332211009966"), None);
    }

    #[test]
    fn pins_and_card_numbers_must_be_digits_and_long_enough() {
        for text in [&b"123"[..], b"1234567890123", b"12a4", b""] {
            assert_eq!(Pin::parse(text), None);
        }
        let pin = Pin::parse(b"1234").unwrap();
        for pan in [&b"411111111111"[..], b"411111111111x111", b""] {
            assert_eq!(encode_pin_block(&pin, pan), None);
        }
        assert_eq!(format!("{pin:?}"), "Pin(..)");
    }
}
