//! Codes that authenticate messages: ISO 9797-1 algorithm 3, known as the retail MAC, and CMAC.

use cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use des::Des;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use crate::key::{Algorithm, KeyFault, Tagging, ZoneKey, mix};
use crate::key_block::KeyUsage;

/// How long a code is in DE64 and DE128; of longer ones the first bytes count. Units: bytes.
pub const MAC_BYTES: usize = 8;

/// How a code is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MacAlgorithm {
    /// ISO 9797-1 algorithm 3, padding method 1 (zeros), with two parts of a TDES key.
    #[serde(rename = "retail_1")]
    Retail1,
    /// The same, padding method 2 (a bit, then zeros).
    #[serde(rename = "retail_2")]
    Retail2,
    /// CMAC, with TDES or AES. Source: NIST SP 800-38B.
    Cmac,
}

impl MacAlgorithm {
    /// The use of such a key in a key block.
    pub const fn usage(self) -> KeyUsage {
        match self {
            Self::Retail1 | Self::Retail2 => KeyUsage::RetailMac,
            Self::Cmac => KeyUsage::Cmac,
        }
    }
}

/// A key that authenticates messages.
pub struct MacKey(Tagging);

impl std::fmt::Debug for MacKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("MacKey(..)")
    }
}

impl MacKey {
    /// Makes codes by `algorithm` with `key`.
    /// Errors: the algorithm takes no such key.
    pub fn new(algorithm: MacAlgorithm, key: &ZoneKey) -> Result<Self, KeyFault> {
        Ok(Self(match algorithm {
            MacAlgorithm::Cmac => key.cmac(),
            MacAlgorithm::Retail1 => retail(key, Padding::Zeros)?,
            MacAlgorithm::Retail2 => retail(key, Padding::BitAndZeros)?,
        }))
    }

    /// The code of a message.
    pub fn code(&self, message: &[u8]) -> [u8; MAC_BYTES] {
        let code = (self.0)(&[message]);
        std::array::from_fn(|place| code[place])
    }

    /// Whether this is the code of a message, compared in constant time.
    pub fn is_code_of(&self, message: &[u8], code: &[u8; MAC_BYTES]) -> bool {
        self.code(message).ct_eq(code).into()
    }
}

/// How a message is filled up to whole blocks. Source: ISO 9797-1, methods 1 and 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Padding {
    Zeros,
    BitAndZeros,
}

/// ISO 9797-1 algorithm 3: a chain under the first half of the key; its last block is deciphered with the second
/// half and enciphered with the first.
pub(crate) fn retail(key: &ZoneKey, padding: Padding) -> Result<Tagging, KeyFault> {
    let no_key = KeyFault::Kind("a TDES key of 16 bytes, as the retail MAC takes it");
    if key.algorithm != Algorithm::Tdes || key.bytes.len() != 16 {
        return Err(no_key);
    }
    let (first, second) = key.bytes.split_at(8);
    let des = |half| Des::new_from_slice(half).map_err(|_| no_key);
    let (first, second) = (des(first)?, des(second)?);
    Ok(Box::new(move |parts| {
        let mut message = parts.concat();
        if padding == Padding::BitAndZeros {
            message.push(0x80);
        }
        let whole = message.len().max(1).next_multiple_of(8);
        message.resize(whole, 0);
        let mut block = [0; 8];
        for next in message.chunks_exact(8) {
            mix(&mut block, next);
            first.encrypt_block((&mut block).into());
        }
        second.decrypt_block((&mut block).into());
        first.encrypt_block((&mut block).into());
        block.to_vec()
    }))
}

#[cfg(test)]
mod tests {
    use cardswitch_secrets::hex::{from_hex, to_hex};

    use super::*;
    use crate::key::tests::key;

    fn code(algorithm: MacAlgorithm, key: &ZoneKey, hex: &str) -> String {
        to_hex(&MacKey::new(algorithm, key).unwrap().code(&from_hex(hex).unwrap()))
    }

    /// Source: ISO 9797-1, annex B, the two strings of its examples for algorithm 3 with K =
    /// 0123456789ABCDEF and K' = FEDCBA9876543210.
    #[test]
    fn retail_macs_are_those_of_the_standard() {
        let key = key(Algorithm::Tdes, "0123456789ABCDEFFEDCBA9876543210");
        let (now, it) = (to_hex(b"Now is the time for all "), to_hex(b"Now is the time for it"));
        assert_eq!(code(MacAlgorithm::Retail1, &key, &now), "a1c72e74ea3fa9b6");
        assert_eq!(code(MacAlgorithm::Retail2, &key, &now), "e9086230ca3be796");
        assert_eq!(code(MacAlgorithm::Retail1, &key, &it), "2e2b1428cc78254f");
        assert_eq!(code(MacAlgorithm::Retail2, &key, &it), "5a692ce64f404145");
    }

    #[test]
    fn a_code_belongs_to_its_message_and_its_key() {
        let tdes = key(Algorithm::Tdes, "0123456789ABCDEFFEDCBA9876543210");
        let aes = key(Algorithm::Aes, "0123456789ABCDEFFEDCBA9876543210");
        let rows = [
            (MacAlgorithm::Retail1, &tdes),
            (MacAlgorithm::Retail2, &tdes),
            (MacAlgorithm::Cmac, &tdes),
            (MacAlgorithm::Cmac, &aes),
        ];
        let codes: Vec<_> = rows
            .map(|(algorithm, key)| {
                let key = MacKey::new(algorithm, key).unwrap();
                let code = key.code(b"0800 and so on");
                assert!(key.is_code_of(b"0800 and so on", &code));
                assert!(!key.is_code_of(b"0801 and so on", &code));
                code
            })
            .into();
        for (place, code) in codes.iter().enumerate() {
            assert!(!codes[place + 1..].contains(code));
        }
    }

    #[test]
    fn a_retail_mac_takes_two_parts_of_tdes_and_nothing_else() {
        for key in [key(Algorithm::Aes, &"1f".repeat(16)), key(Algorithm::Tdes, &"1f".repeat(24))] {
            let fault = MacKey::new(MacAlgorithm::Retail1, &key).unwrap_err();
            assert!(matches!(fault, KeyFault::Kind(_)), "{fault}");
        }
    }
}
