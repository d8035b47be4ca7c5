//! The acquirers' own codes, PIN blocks and key blocks, beside the product's.

use aes::{Aes128, Aes192, Aes256};
use cardswitch_zone::MacAlgorithm;
use cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use cmac::{Cmac, Mac};
use des::{Des, TdesEde2, TdesEde3};

/// The cipher of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cipher {
    Tdes,
    Aes,
}

impl Cipher {
    /// The name of the cipher in a file of keys.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Tdes => "tdes",
            Self::Aes => "aes",
        }
    }

    /// The letter of the cipher in front of a key that the product keeps, and in a key block.
    pub(super) const fn letter(self) -> char {
        match self {
            Self::Tdes => 'T',
            Self::Aes => 'A',
        }
    }
}

/// The code of eight bytes over a message.
pub(super) fn code_of(
    algorithm: MacAlgorithm,
    (cipher, key): (Cipher, &[u8]),
    message: &[u8],
) -> [u8; 8] {
    match (algorithm, cipher, key.len()) {
        (MacAlgorithm::Retail1, ..) => retail_code(key, message.to_vec()),
        (MacAlgorithm::Retail2, ..) => retail_code(key, [message, &[0x80]].concat()),
        (MacAlgorithm::Cmac, Cipher::Tdes, 16) => cmac::<Cmac<TdesEde2>>(key, message),
        (MacAlgorithm::Cmac, Cipher::Tdes, _) => cmac::<Cmac<TdesEde3>>(key, message),
        (MacAlgorithm::Cmac, Cipher::Aes, 16) => cmac::<Cmac<Aes128>>(key, message),
        (MacAlgorithm::Cmac, Cipher::Aes, 24) => cmac::<Cmac<Aes192>>(key, message),
        (MacAlgorithm::Cmac, Cipher::Aes, _) => cmac::<Cmac<Aes256>>(key, message),
    }
}

fn cmac<C: Mac + KeyInit>(key: &[u8], message: &[u8]) -> [u8; 8] {
    let mut code = <C as KeyInit>::new_from_slice(key).unwrap();
    code.update(message);
    code.finalize().into_bytes()[..8].try_into().unwrap()
}

/// Source: ISO 9797-1, algorithm 3: single DES throughout, triple DES for the last block.
pub(super) fn retail_code(key: &[u8], mut padded: Vec<u8>) -> [u8; 8] {
    padded.resize(padded.len().next_multiple_of(8), 0);
    let chain = Des::new_from_slice(&key[..8]).unwrap();
    let last = Des::new_from_slice(&key[8..16]).unwrap();
    let mut block = [0; 8];
    for part in padded.chunks(8) {
        mix(&mut block, part);
        chain.encrypt_block((&mut block).into());
    }
    last.decrypt_block((&mut block).into());
    chain.encrypt_block((&mut block).into());
    block
}

pub(super) fn mix(block: &mut [u8], other: &[u8]) {
    block.iter_mut().zip(other).for_each(|(byte, other)| *byte ^= other);
}

/// A PIN as a terminal puts it into a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PinEntry {
    pub(super) digits: &'static str,
    /// The random part of blocks that have one.
    pub(super) filling: u64,
    /// Whether its block of eight bytes is of format 3, not 0.
    pub(super) is_filled: bool,
    /// Whether it is sent in clear where the door has a key for it, or in a block of another cipher.
    pub(super) is_misplaced: bool,
}

impl PinEntry {
    /// The clear block of eight bytes. Source: ISO 9564-1, formats 0 and 3.
    pub(super) fn clear_block(&self, pan: &str) -> [u8; 8] {
        let (format, letters) = if self.is_filled { (3, 6) } else { (0, 1) };
        let mut field = format!("{format}{}{}", self.digits.len(), self.digits);
        for place in field.len()..16 {
            let letter = 15 - (self.filling >> place & 7) % letters;
            field += &format!("{letter:X}");
        }
        let other = format!("0000{}", &pan[pan.len() - 13..pan.len() - 1]);
        let mut block = bytes_of_hex::<8>(&field);
        mix(&mut block, &bytes_of_hex::<8>(&other));
        block
    }

    /// The block of sixteen bytes under a key of AES. Source: ISO 9564-1, format 4.
    pub(super) fn block_of_format_4(&self, key: &[u8], pan: &str) -> [u8; 16] {
        let field = format!("4{}{:A<14}{:016X}", self.digits.len(), self.digits, self.filling);
        let other = format!("{:0<32}", format!("{}{pan}", pan.len() - 12));
        let mut block = bytes_of_hex::<16>(&field);
        encipher_with_aes(key, &mut block);
        mix(&mut block, &bytes_of_hex::<16>(&other));
        encipher_with_aes(key, &mut block);
        block
    }
}

fn bytes_of_hex<const N: usize>(text: &str) -> [u8; N] {
    u128::from_str_radix(text, 16).unwrap().to_be_bytes()[16 - N..].try_into().unwrap()
}

fn encipher_with_aes(key: &[u8], block: &mut [u8; 16]) {
    match key.len() {
        16 => Aes128::new_from_slice(key).unwrap().encrypt_block(block.into()),
        24 => Aes192::new_from_slice(key).unwrap().encrypt_block(block.into()),
        _ => Aes256::new_from_slice(key).unwrap().encrypt_block(block.into()),
    }
}

/// A block under a key of TDES.
pub(super) fn enciphered_block(key: &[u8], mut block: [u8; 8]) -> [u8; 8] {
    match key.len() {
        16 => TdesEde2::new_from_slice(key).unwrap().encrypt_block((&mut block).into()),
        _ => TdesEde3::new_from_slice(key).unwrap().encrypt_block((&mut block).into()),
    }
    block
}

/// A key block under a master key of three parts. Source: ANSI X9.143 (TR-31), version B.
pub(super) fn key_block(
    usage: &str,
    (algorithm, key): (Cipher, &[u8]),
    master: &[u8],
    filling: u8,
) -> String {
    let mode = if usage == "P0" { 'B' } else { 'C' };
    let longest = if algorithm == Cipher::Aes { 32_usize } else { 24 };
    let algorithm = algorithm.letter();
    let mut clear = (8 * key.len() as u16).to_be_bytes().to_vec();
    clear.extend(key);
    clear.resize((2 + longest).next_multiple_of(8), filling);
    let len = 16 + 2 * (clear.len() + 8);
    let header = format!("B{len:04}{usage}{algorithm}{mode}00N0000");
    let mut code = Cmac::<TdesEde3>::new_from_slice(&derived(master, 1)).unwrap();
    code.update(header.as_bytes());
    code.update(&clear);
    let code: [u8; 8] = code.finalize().into_bytes().into();
    let cipher = TdesEde3::new_from_slice(&derived(master, 0)).unwrap();
    let (mut block, mut text) = (code, header);
    for part in clear.chunks(8) {
        mix(&mut block, part);
        cipher.encrypt_block((&mut block).into());
        block.iter().for_each(|byte| text += &format!("{byte:02X}"));
    }
    code.iter().for_each(|byte| text += &format!("{byte:02X}"));
    text
}

/// The key for a purpose of a block: 0 enciphers, 1 authenticates.
fn derived(master: &[u8], purpose: u8) -> Vec<u8> {
    let part = |count: u8| {
        let mut code = Cmac::<TdesEde3>::new_from_slice(master).unwrap();
        code.update(&[count, 0, purpose, 0, 0, 1, 0, 192]);
        code.finalize().into_bytes().to_vec()
    };
    [1, 2, 3].map(part).concat()
}

#[cfg(test)]
mod tests {
    use cardswitch_secrets::hex::from_hex;
    use cardswitch_zone::key_block::unwrap;
    use cardswitch_zone::{Algorithm, KeyUsage, MacKey, PinKey, ZoneKey};

    use super::*;

    const ENTRY: PinEntry = PinEntry {
        digits: "1234",
        filling: 0x0123_4567_89ab_cdef,
        is_filled: false,
        is_misplaced: false,
    };

    /// The product's own agree, which are held against programs of others.
    #[test]
    fn both_ends_of_a_line_agree() {
        let hex = |text: &str| from_hex(text).unwrap();
        let master = hex("0123456789abcdeffedcba98765432101122334455667788");
        let key = hex("1111111111111111aaaaaaaaaaaaaaaa");
        let of = |cipher, key: &[u8]| {
            let algorithm = match cipher {
                Cipher::Tdes => Algorithm::Tdes,
                Cipher::Aes => Algorithm::Aes,
            };
            ZoneKey::new(algorithm, key.to_vec().into()).unwrap()
        };
        let keys = [16, 24, 32].map(|len| [key.as_slice(), &master].concat()[..len].to_vec());
        let algorithms = [
            (MacAlgorithm::Retail1, Cipher::Tdes, &keys[0]),
            (MacAlgorithm::Retail2, Cipher::Tdes, &keys[0]),
            (MacAlgorithm::Cmac, Cipher::Tdes, &keys[0]),
            (MacAlgorithm::Cmac, Cipher::Tdes, &keys[1]),
            (MacAlgorithm::Cmac, Cipher::Aes, &keys[0]),
            (MacAlgorithm::Cmac, Cipher::Aes, &keys[1]),
            (MacAlgorithm::Cmac, Cipher::Aes, &keys[2]),
        ];
        for (mac, cipher, key) in algorithms {
            let theirs = MacKey::new(mac, &of(cipher, key)).unwrap();
            for message in [b"a message".as_slice(), b"of eight"] {
                assert_eq!(code_of(mac, (cipher, key), message), theirs.code(message), "{mac:?}");
            }
        }
        let uses = [
            ("P0", KeyUsage::Pin, Cipher::Tdes),
            ("P0", KeyUsage::Pin, Cipher::Aes),
            ("M3", KeyUsage::RetailMac, Cipher::Tdes),
            ("M6", KeyUsage::Cmac, Cipher::Tdes),
            ("M6", KeyUsage::Cmac, Cipher::Aes),
        ];
        for (name, usage, cipher) in uses {
            let block = key_block(name, (cipher, &keys[1]), &master, 7);
            let opened = unwrap(&block, &of(Cipher::Tdes, &master)).unwrap();
            assert_eq!(opened, (usage, of(cipher, &keys[1])));
        }
        let pan = "4537110000000019";
        for (is_filled, key) in [(false, &keys[0]), (true, &keys[1])] {
            let entry = PinEntry { is_filled, ..ENTRY };
            let block = enciphered_block(key, entry.clear_block(pan));
            let opened = PinKey::new(of(Cipher::Tdes, key)).open(&block, pan.as_bytes());
            assert_eq!(opened.unwrap().digits(), b"1234");
        }
        for key in &keys {
            let block = ENTRY.block_of_format_4(key, pan);
            let opened = PinKey::new(of(Cipher::Aes, key)).open(&block, pan.as_bytes());
            assert_eq!(opened.unwrap().digits(), b"1234");
        }
    }
}
