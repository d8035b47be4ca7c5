//! The acquirers' own codes, PIN blocks and key blocks, beside the product's.

use aes::Aes128;
use cardswitch_zone::MacAlgorithm;
use cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use cmac::{Cmac, Mac};
use des::{Des, TdesEde2, TdesEde3};

/// The code of eight bytes over a message.
pub(super) fn code_of(algorithm: MacAlgorithm, key: &[u8], message: &[u8]) -> [u8; 8] {
    let mut padded = message.to_vec();
    match algorithm {
        MacAlgorithm::Cmac => {
            let mut code = Cmac::<Aes128>::new_from_slice(key).unwrap();
            code.update(message);
            return code.finalize().into_bytes()[..8].try_into().unwrap();
        }
        MacAlgorithm::Retail1 => {}
        MacAlgorithm::Retail2 => padded.push(0x80),
    }
    padded.resize(padded.len().next_multiple_of(8), 0);
    // Source: ISO 9797-1, algorithm 3: single DES throughout, triple DES for the last block.
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

fn mix(block: &mut [u8; 8], other: &[u8]) {
    block.iter_mut().zip(other).for_each(|(byte, other)| *byte ^= other);
}

/// A clear PIN block. Source: ISO 9564-1, format 0.
pub(super) fn clear_pin_block(pin: &str, pan: &str) -> [u8; 8] {
    let field = format!("0{}{pin:F<14}", pin.len());
    let digits = &pan[pan.len() - 13..pan.len() - 1];
    let [mut block, other] = [field, format!("0000{digits}")].map(|text| bytes_of_hex(&text));
    mix(&mut block, &other);
    block
}

fn bytes_of_hex(text: &str) -> [u8; 8] {
    u64::from_str_radix(text, 16).unwrap().to_be_bytes()
}

/// A block under a PIN key.
pub(super) fn enciphered_block(key: &[u8], mut block: [u8; 8]) -> [u8; 8] {
    TdesEde2::new_from_slice(key).unwrap().encrypt_block((&mut block).into());
    block
}

/// A key block under a master key of three parts. Source: ANSI X9.143 (TR-31), version B.
pub(super) fn key_block(usage: &str, key: &[u8], master: &[u8], filling: u8) -> String {
    let (algorithm, mode, longest) = match usage {
        "M6" => ('A', 'C', 32_usize),
        "P0" => ('T', 'B', 24),
        _ => ('T', 'C', 24),
    };
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

    /// The product's own agree, which are held against programs of others.
    #[test]
    fn both_ends_of_a_line_agree() {
        let hex = |text: &str| from_hex(text).unwrap();
        let master = hex("0123456789abcdeffedcba98765432101122334455667788");
        let key = hex("1111111111111111aaaaaaaaaaaaaaaa");
        let of = |algorithm, key: &[u8]| ZoneKey::new(algorithm, key.to_vec().into()).unwrap();
        let algorithms = [
            (MacAlgorithm::Retail1, Algorithm::Tdes),
            (MacAlgorithm::Retail2, Algorithm::Tdes),
            (MacAlgorithm::Cmac, Algorithm::Aes),
        ];
        for (mac, algorithm) in algorithms {
            let theirs = MacKey::new(mac, &of(algorithm, &key)).unwrap();
            for message in [b"a message".as_slice(), b"of eight"] {
                assert_eq!(code_of(mac, &key, message), theirs.code(message), "{mac:?}");
            }
        }
        let pan = "4537110000000019";
        let block = enciphered_block(&key, clear_pin_block("1234", pan));
        let opened = PinKey::new(of(Algorithm::Tdes, &key)).open(&block, pan.as_bytes());
        assert_eq!(opened.unwrap().digits(), b"1234");
        let uses = [
            ("P0", KeyUsage::Pin, Algorithm::Tdes),
            ("M3", KeyUsage::RetailMac, Algorithm::Tdes),
            ("M6", KeyUsage::Cmac, Algorithm::Aes),
        ];
        for (name, usage, algorithm) in uses {
            let block = key_block(name, &key, &master, 7);
            let opened = unwrap(&block, &of(Algorithm::Tdes, &master)).unwrap();
            assert_eq!(opened, (usage, of(algorithm, &key)));
        }
    }
}
