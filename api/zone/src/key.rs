//! A key that both ends of a line have: TDES of two or three parts, or AES.

use std::fmt;

use aes::{Aes128, Aes192, Aes256};
use cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use cmac::{Cmac, Mac};
use des::{TdesEde2, TdesEde3};
use zeroize::Zeroizing;

/// The cipher that a key is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Triple DES; keys of 16 or 24 bytes, whose parity bits are ignored.
    Tdes,
    /// AES; keys of 16, 24 or 32 bytes.
    Aes,
}

impl Algorithm {
    /// The length of a block. Units: bytes.
    pub const fn block_bytes(self) -> usize {
        match self {
            Self::Tdes => 8,
            Self::Aes => 16,
        }
    }
}

/// Why bytes are no such key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    /// The key has another length.
    #[error("has {bytes} bytes; a key of {} has {}", name(.algorithm), lengths(.algorithm))]
    Length {
        /// How many there are.
        bytes: usize,
        /// The cipher of the key.
        algorithm: Algorithm,
    },
    /// The key is of the other cipher, or not of two parts.
    #[error("is not {0}")]
    Kind(&'static str),
}

const fn name(algorithm: &Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Tdes => "TDES",
        Algorithm::Aes => "AES",
    }
}

const fn lengths(algorithm: &Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Tdes => "16 or 24",
        Algorithm::Aes => "16, 24 or 32",
    }
}

/// A cipher with its key.
trait BlockCode: Send + Sync {
    fn encrypt(&self, block: &mut [u8]);
    fn decrypt(&self, block: &mut [u8]);
}

impl<C: BlockCipherEncrypt + BlockCipherDecrypt + Send + Sync> BlockCode for C {
    fn encrypt(&self, block: &mut [u8]) {
        self.encrypt_block(block.try_into().expect("callers bring whole blocks"));
    }

    fn decrypt(&self, block: &mut [u8]) {
        self.decrypt_block(block.try_into().expect("callers bring whole blocks"));
    }
}

/// A message authentication code that is complete but for its message.
pub(crate) type Tagging = Box<dyn Fn(&[&[u8]]) -> Vec<u8> + Send + Sync>;

/// A key, ready to use. Its `Debug` shows its algorithm.
pub struct ZoneKey {
    /// The cipher of the key.
    pub algorithm: Algorithm,
    /// The key itself.
    pub(crate) bytes: Zeroizing<Vec<u8>>,
    code: Box<dyn BlockCode>,
}

impl ZoneKey {
    /// Takes the bytes of a key.
    /// Errors: they are too few, too many, or of a length between.
    pub fn new(algorithm: Algorithm, bytes: Zeroizing<Vec<u8>>) -> Result<Self, KeyFault> {
        let code = match (algorithm, bytes.len()) {
            (Algorithm::Tdes, 16) => coded::<TdesEde2>(&bytes),
            (Algorithm::Tdes, 24) => coded::<TdesEde3>(&bytes),
            (Algorithm::Aes, 16) => coded::<Aes128>(&bytes),
            (Algorithm::Aes, 24) => coded::<Aes192>(&bytes),
            (Algorithm::Aes, 32) => coded::<Aes256>(&bytes),
            _ => None,
        };
        let fault = KeyFault::Length { bytes: bytes.len(), algorithm };
        code.map(|code| Self { algorithm, bytes, code }).ok_or(fault)
    }

    /// The key with its cipher, to be kept sealed.
    pub fn to_secret(&self) -> Zeroizing<Vec<u8>> {
        let mut secret = Zeroizing::new(Vec::with_capacity(1 + self.bytes.len()));
        secret.push(match self.algorithm {
            Algorithm::Tdes => b'T',
            Algorithm::Aes => b'A',
        });
        secret.extend_from_slice(&self.bytes);
        secret
    }

    /// The key that `to_secret` has written; none of any other bytes.
    pub fn from_secret(secret: &[u8]) -> Option<Self> {
        let (letter, bytes) = secret.split_first()?;
        let algorithm = match letter {
            b'T' => Algorithm::Tdes,
            b'A' => Algorithm::Aes,
            _ => return None,
        };
        Self::new(algorithm, Zeroizing::new(bytes.to_vec())).ok()
    }

    /// Three bytes by which two ends compare a key without showing it: the first of a block of zeros
    /// enciphered (TDES), of the CMAC of such a block (AES). Source: ANSI X9.24-1, annex A.
    pub fn check_value(&self) -> [u8; 3] {
        let mut zeros = vec![0; self.algorithm.block_bytes()];
        match self.algorithm {
            Algorithm::Tdes => self.encrypt(&mut zeros),
            Algorithm::Aes => zeros = self.cmac()(&[&zeros]),
        }
        std::array::from_fn(|place| zeros[place])
    }

    /// Enciphers one block.
    pub(crate) fn encrypt(&self, block: &mut [u8]) {
        self.code.encrypt(block);
    }

    /// Deciphers one block.
    pub(crate) fn decrypt(&self, block: &mut [u8]) {
        self.code.decrypt(block);
    }

    /// Enciphers whole blocks, each mixed with the one before it.
    pub(crate) fn encrypt_chained(&self, first: &[u8], blocks: &mut [u8]) {
        let mut before = first.to_vec();
        for block in blocks.chunks_exact_mut(self.algorithm.block_bytes()) {
            mix(block, &before);
            self.encrypt(block);
            before.copy_from_slice(block);
        }
    }

    /// Deciphers what `encrypt_chained` made.
    pub(crate) fn decrypt_chained(&self, first: &[u8], blocks: &mut [u8]) {
        let mut before = first.to_vec();
        for block in blocks.chunks_exact_mut(self.algorithm.block_bytes()) {
            let enciphered = block.to_vec();
            self.decrypt(block);
            mix(block, &before);
            before = enciphered;
        }
    }

    /// The CMAC under this key, as long as a block.
    pub(crate) fn cmac(&self) -> Tagging {
        match (self.algorithm, self.bytes.len()) {
            (Algorithm::Tdes, 16) => tagging::<Cmac<TdesEde2>>(&self.bytes),
            (Algorithm::Tdes, _) => tagging::<Cmac<TdesEde3>>(&self.bytes),
            (Algorithm::Aes, 16) => tagging::<Cmac<Aes128>>(&self.bytes),
            (Algorithm::Aes, 24) => tagging::<Cmac<Aes192>>(&self.bytes),
            (Algorithm::Aes, _) => tagging::<Cmac<Aes256>>(&self.bytes),
        }
    }
}

impl Clone for ZoneKey {
    fn clone(&self) -> Self {
        Self::new(self.algorithm, self.bytes.clone()).expect("the length was checked")
    }
}

impl PartialEq for ZoneKey {
    fn eq(&self, other: &Self) -> bool {
        use subtle::ConstantTimeEq;
        self.algorithm == other.algorithm && bool::from(self.bytes.ct_eq(&other.bytes))
    }
}

impl fmt::Debug for ZoneKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ZoneKey")
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}

fn coded<C: KeyInit + BlockCode + 'static>(bytes: &[u8]) -> Option<Box<dyn BlockCode>> {
    C::new_from_slice(bytes).ok().map(|code| Box::new(code) as Box<dyn BlockCode>)
}

fn tagging<M: Mac + KeyInit + Clone + Send + Sync + 'static>(bytes: &[u8]) -> Tagging {
    let keyed = <M as KeyInit>::new_from_slice(bytes).expect("the length was checked");
    Box::new(move |parts| {
        let mut tag = keyed.clone();
        parts.iter().for_each(|part| tag.update(part));
        tag.finalize().into_bytes().to_vec()
    })
}

/// Adds `other` to `block`, bit by bit.
pub(crate) fn mix(block: &mut [u8], other: &[u8]) {
    block.iter_mut().zip(other).for_each(|(byte, other)| *byte ^= other);
}

#[cfg(test)]
pub(crate) mod tests {
    use cardswitch_secrets::hex::{from_hex, to_hex};

    use super::*;

    pub(crate) fn key(algorithm: Algorithm, hex: &str) -> ZoneKey {
        ZoneKey::new(algorithm, from_hex(hex).unwrap()).unwrap()
    }

    /// TDES: a value that manuals of security modules print. AES: the CMAC of PyPI `cryptography`.
    #[test]
    fn keys_have_the_check_values_that_others_print() {
        let tdes = key(Algorithm::Tdes, "0123456789ABCDEFFEDCBA9876543210");
        assert_eq!(to_hex(&tdes.check_value()), "08d7b4");
        let tripled = key(Algorithm::Tdes, "0123456789ABCDEFFEDCBA98765432100123456789ABCDEF");
        assert_eq!(tripled.check_value(), tdes.check_value());
        let aes = key(Algorithm::Aes, "00112233445566778899aabbccddeeff");
        assert_eq!(to_hex(&aes.check_value()), "53e107");
    }

    /// Source: NIST SP 800-38B, examples of AES-128, AES-256 and two-key TDEA.
    #[test]
    fn cmacs_are_those_of_the_standard() {
        let message = "6bc1bee22e409f96e93d7e117393172aae2d8a57";
        let rows = [
            (
                Algorithm::Aes,
                "2b7e151628aed2a6abf7158809cf4f3c",
                "",
                "bb1d6929e95937287fa37d129b756746",
            ),
            (
                Algorithm::Aes,
                "2b7e151628aed2a6abf7158809cf4f3c",
                &message[..32],
                "070a16b46b4d4144f79bdd9dd04a287c",
            ),
            (
                Algorithm::Aes,
                "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
                "",
                "028962f61b7bf89efc6b551f4667d983",
            ),
            (Algorithm::Tdes, "4cf15134a2850dd58a3d10ba80570d38", "", "bd2ebf9a3ba00361"),
            (
                Algorithm::Tdes,
                "4cf15134a2850dd58a3d10ba80570d38",
                &message[..16],
                "4ff2ab813c53ce83",
            ),
            (Algorithm::Tdes, "4cf15134a2850dd58a3d10ba80570d38", message, "62dd1b471902bd4e"),
        ];
        for (algorithm, bytes, data, expected) in rows {
            let tag = key(algorithm, bytes).cmac()(&[&from_hex(data).unwrap()]);
            assert_eq!(to_hex(&tag), expected, "{bytes} {data}");
        }
    }

    #[test]
    fn keys_of_another_length_are_none_and_keys_are_not_shown() {
        for (algorithm, bytes) in
            [(Algorithm::Tdes, 8), (Algorithm::Tdes, 32), (Algorithm::Aes, 8), (Algorithm::Aes, 0)]
        {
            let fault = ZoneKey::new(algorithm, Zeroizing::new(vec![1; bytes])).unwrap_err();
            assert_eq!(fault, KeyFault::Length { bytes, algorithm });
        }
        let fault = ZoneKey::new(Algorithm::Tdes, Zeroizing::new(vec![1; 15])).unwrap_err();
        assert_eq!(fault.to_string(), "has 15 bytes; a key of TDES has 16 or 24");
        let shown = format!("{:?}", key(Algorithm::Aes, &"ab".repeat(16)));
        assert_eq!(shown, "ZoneKey { algorithm: Aes, .. }");
    }

    #[test]
    fn secrets_come_back_and_others_are_none() {
        for key in [key(Algorithm::Tdes, &"1f".repeat(24)), key(Algorithm::Aes, &"1f".repeat(24))] {
            let secret = key.to_secret();
            assert_eq!(ZoneKey::from_secret(&secret), Some(key.clone()));
            assert_eq!(ZoneKey::from_secret(&secret[..20]), None);
        }
        assert_eq!(ZoneKey::from_secret(b""), None);
        assert_eq!(ZoneKey::from_secret(b"X0123456789abcdef"), None);
    }

    #[test]
    fn chains_come_back() {
        for key in [key(Algorithm::Tdes, &"1f".repeat(24)), key(Algorithm::Aes, &"1f".repeat(24))] {
            let first = vec![7; key.algorithm.block_bytes()];
            let mut blocks: Vec<u8> = (0..48).collect();
            key.encrypt_chained(&first, &mut blocks);
            assert!(!blocks.ends_with(&[46, 47]));
            key.decrypt_chained(&first, &mut blocks);
            assert_eq!(blocks, (0..48).collect::<Vec<u8>>());
        }
    }
}
