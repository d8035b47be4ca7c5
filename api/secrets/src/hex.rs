//! Bytes as hex digits, as files of keys and manifests have them.

use zeroize::Zeroizing;

/// Two lower-case digits a byte.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of hex digits; none where there are others, or half a byte.
pub fn from_hex(digits: &str) -> Option<Zeroizing<Vec<u8>>> {
    if !digits.len().is_multiple_of(2) || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let pairs = digits.as_bytes().chunks_exact(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(byte).collect::<Option<Vec<u8>>>().map(Zeroizing::new)
}

/// As `from_hex`, so many bytes exactly.
pub fn array_from_hex<const N: usize>(digits: &str) -> Option<Zeroizing<[u8; N]>> {
    let bytes = from_hex(digits)?;
    let mut array = Zeroizing::new([0; N]);
    (bytes.len() == N).then(|| array.copy_from_slice(&bytes))?;
    Some(array)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_and_nothing_else_passes() {
        assert_eq!(to_hex(&[0, 0xa5, 0xff]), "00a5ff");
        assert_eq!(from_hex("00a5FF").unwrap().as_slice(), [0, 0xa5, 0xff]);
        assert_eq!(array_from_hex::<2>("a5ff").unwrap().as_slice(), [0xa5, 0xff]);
        for text in ["a", "0g", "+1", "é"] {
            assert!(from_hex(text).is_none(), "{text}");
        }
        for text in ["", "a5", "a5ffff"] {
            assert!(array_from_hex::<2>(text).is_none(), "{text}");
        }
    }
}
