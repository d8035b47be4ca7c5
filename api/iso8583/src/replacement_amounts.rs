//! DE 95, replacement amounts: the amount that stays after a partial reversal.
//!
//! Layout: transaction amount 12, settlement amount 12, transaction fee 9, settlement fee 9. Only the first is used.

use crate::number::{parse_number, write_zero_padded};

/// The length of the element.
pub const REPLACEMENT_AMOUNTS_LEN: usize = 42;
const AMOUNT_DIGITS: usize = 12;

/// The amount that stays. None when the element does not start with twelve digits.
///
/// Units: minor units of the transaction's currency.
pub fn parse_replacement_amount(content: &[u8]) -> Option<u64> {
    parse_number(content.get(..AMOUNT_DIGITS)?)
}

/// The content of DE 95 for the amount that stays, the other amounts zero; none when it has more than twelve digits.
///
/// Units: minor units of the transaction's currency.
pub fn replacement_amounts(amount_minor: u64) -> Option<[u8; REPLACEMENT_AMOUNTS_LEN]> {
    let mut content = *b"000000000000000000000000C00000000C00000000";
    write_zero_padded(amount_minor, &mut content[..AMOUNT_DIGITS]).then_some(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_twelve_digits_are_the_amount() {
        let content = replacement_amounts(3_050).unwrap();
        assert_eq!(&content, b"000000003050000000000000C00000000C00000000");
        assert_eq!(parse_replacement_amount(&content), Some(3_050));
        assert_eq!(parse_replacement_amount(&[b'0'; 42]), Some(0));
    }

    #[test]
    fn too_large_and_not_digits_are_none() {
        assert_eq!(replacement_amounts(1_000_000_000_000), None);
        assert_eq!(parse_replacement_amount(b"00000000305"), None);
        assert_eq!(parse_replacement_amount(&[b' '; 42]), None);
    }
}
