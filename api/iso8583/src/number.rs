//! Numbers in ASCII digits.

/// The number that the digits spell; none when there are no digits, other characters, or more than a u64 holds.
pub fn parse_number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, digit| {
        let value = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(value)
    })
}

/// The number in exactly `WIDTH` digits, zeros in front; none when it needs more.
pub fn zero_padded<const WIDTH: usize>(number: u64) -> Option<[u8; WIDTH]> {
    let mut digits = [b'0'; WIDTH];
    write_zero_padded(number, &mut digits).then_some(digits)
}

/// Fills the place with the digits of the number, zeros in front; false when it needs more of them.
pub(crate) fn write_zero_padded(number: u64, place: &mut [u8]) -> bool {
    let mut rest = number;
    for digit in place.iter_mut().rev() {
        // INVARIANT: a remainder of ten is a digit.
        *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
    }
    rest == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_become_numbers_up_to_the_greatest() {
        for (digits, number) in [
            (&b"0"[..], Some(0)),
            (b"000000012345", Some(12_345)),
            (b"18446744073709551615", Some(u64::MAX)),
            (b"18446744073709551616", None),
            (b"99999999999999999999999", None),
            (b"", None),
            (b"12 ", None),
            (b"+1", None),
        ] {
            assert_eq!(parse_number(digits), number, "{digits:?}");
        }
    }

    #[test]
    fn numbers_are_padded_and_never_cut() {
        assert_eq!(zero_padded::<12>(12_345), Some(*b"000000012345"));
        assert_eq!(zero_padded::<3>(999), Some(*b"999"));
        assert_eq!(zero_padded::<3>(1000), None);
        assert_eq!(zero_padded::<0>(0), Some([]));
        assert_eq!(zero_padded::<20>(u64::MAX), Some(*b"18446744073709551615"));
    }
}
