//! Keys on their way, wrapped under a key that both ends have: key blocks of TR-31, versions B (under TDES)
//! and D (under AES).
//!
//! ```text
//! header      version | length (4) | usage (2) | algorithm | mode | version number (2) | export | blocks (2) | 00
//! optional    each: id (2) | length (2 hex digits, ff at most) | content
//! key         length in bits (2 bytes) | key | filling, enciphered; in hex
//! code        CMAC of header, optional blocks and the clear key, also the chain's first block; in hex
//! ```
//! Both keys for that are derived from the wrapping one. Optional blocks are authenticated and not read.
//! Source: ASC X9 TR-31 2018, ANSI X9.143.

use std::fmt;

use cardswitch_secrets::hex::{from_hex, to_hex};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::key::{Algorithm, KeyFault, ZoneKey};

/// The header without optional blocks. Units: characters.
const HEADER_LEN: usize = 16;
/// The most that a block has: beyond, it is no key. Units: characters.
const BLOCK_LEN_MAX: usize = 512;

/// The use of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyUsage {
    /// It enciphers PINs: `P0`.
    Pin,
    /// It authenticates messages by ISO 9797-1 algorithm 3: `M3`.
    RetailMac,
    /// It authenticates messages by CMAC: `M6`.
    Cmac,
    /// The keys of chip cards derive from it: `E0`.
    ChipMaster,
    /// It wraps other keys: `K0`, of any kind, or `K1`, of key blocks.
    Wrapping,
}

impl KeyUsage {
    const ALL: [Self; 5] =
        [Self::Pin, Self::RetailMac, Self::Cmac, Self::ChipMaster, Self::Wrapping];

    /// Its codes in a header, the one that is written first, and the modes that this end needs; `N` restricts
    /// nothing.
    const fn codes(self) -> (&'static [&'static str], &'static [u8]) {
        match self {
            Self::Pin => (&["P0"], b"BDN"),
            Self::RetailMac => (&["M3"], b"CN"),
            Self::Cmac => (&["M6"], b"CN"),
            Self::ChipMaster => (&["E0"], b"XN"),
            Self::Wrapping => (&["K0", "K1"], b"BDN"),
        }
    }
}

impl fmt::Display for KeyUsage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.codes().0[0])
    }
}

/// Two characters of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderText([u8; 2]);

impl fmt::Display for HeaderText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{}", char::from(*byte)))
    }
}

/// Why a block gives no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyBlockFault {
    /// It is no block of a version that is known, or cut.
    #[error("is no key block of version B or D: {0}")]
    Form(&'static str),
    /// The block is under a key of the other cipher.
    #[error("of version {0} is under a key of the other cipher")]
    Cipher(char),
    /// It was changed, or wrapped under another key.
    #[error("was changed, or wrapped under another key")]
    Code,
    /// Nothing here uses such a key.
    #[error("is of a key for `{usage}`, mode `{mode}`, which has no use here")]
    Use {
        /// As in the header.
        usage: HeaderText,
        /// As in the header.
        mode: char,
    },
    /// The wrapped bytes are no key.
    #[error("wraps what {0}")]
    Key(KeyFault),
    /// No randomness for the filling.
    #[error("cannot be filled: the system gives no random bytes")]
    Random,
}

/// Opens a block.
/// Errors: the first fault, its code checked before anything is believed.
pub fn unwrap(block: &str, wrapping: &ZoneKey) -> Result<(KeyUsage, ZoneKey), KeyBlockFault> {
    let version = BlockVersion::of(block.as_bytes())?;
    if version.algorithm() != wrapping.algorithm {
        return Err(KeyBlockFault::Cipher(version.letter()));
    }
    let BlockParts { header, enciphered, code } = parts_of(block, version)?;
    let keys = version.derive(wrapping);
    let mut clear = enciphered;
    keys.enciphering.decrypt_chained(&code, &mut clear);
    let expected = keys.authenticating.cmac()(&[header.as_bytes(), &clear]);
    if !bool::from(expected.ct_eq(&code)) {
        return Err(KeyBlockFault::Code);
    }
    let (usage, algorithm) = uses_of(header)?;
    let bits = usize::from(u16::from_be_bytes([clear[0], clear[1]]));
    let bytes = clear.get(2..2 + bits / 8).filter(|_| bits.is_multiple_of(8));
    let bytes = bytes.ok_or(KeyBlockFault::Form("the key is longer than its place"))?;
    let key = ZoneKey::new(algorithm, Zeroizing::new(bytes.to_vec()));
    key.map(|key| (usage, key)).map_err(KeyBlockFault::Key)
}

/// Wraps a key for another end; it may not be passed on.
/// Errors: no randomness.
pub fn wrap(usage: KeyUsage, key: &ZoneKey, wrapping: &ZoneKey) -> Result<String, KeyBlockFault> {
    let version = match wrapping.algorithm {
        Algorithm::Tdes => BlockVersion::B,
        Algorithm::Aes => BlockVersion::D,
    };
    let block_bytes = wrapping.algorithm.block_bytes();
    let mut clear = Zeroizing::new(Vec::new());
    clear.extend(u16::try_from(8 * key.bytes.len()).unwrap_or(0).to_be_bytes());
    clear.extend(key.bytes.iter());
    // Keys of each length take the same room, so that a block does not tell it.
    let filled = (2 + longest(key.algorithm)).next_multiple_of(block_bytes);
    let key_end = clear.len();
    clear.resize(filled, 0);
    getrandom::fill(&mut clear[key_end..]).map_err(|_| KeyBlockFault::Random)?;
    let len = HEADER_LEN + 2 * (filled + block_bytes);
    let (usages, modes) = usage.codes();
    let algorithm = match key.algorithm {
        Algorithm::Tdes => 'T',
        Algorithm::Aes => 'A',
    };
    let (letter, mode) = (version.letter(), char::from(modes[0]));
    let header = format!("{letter}{len:04}{}{algorithm}{mode}00N0000", usages[0]);
    let keys = version.derive(wrapping);
    let code = keys.authenticating.cmac()(&[header.as_bytes(), &clear]);
    keys.enciphering.encrypt_chained(&code, &mut clear);
    Ok(header + &to_hex(&clear).to_uppercase() + &to_hex(&code).to_uppercase())
}

const fn longest(algorithm: Algorithm) -> usize {
    match algorithm {
        Algorithm::Tdes => 24,
        Algorithm::Aes => 32,
    }
}

/// How a block is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockVersion {
    B,
    D,
}

/// The two keys that a block is protected with.
struct BlockKeys {
    enciphering: ZoneKey,
    authenticating: ZoneKey,
}

impl BlockVersion {
    fn of(block: &[u8]) -> Result<Self, KeyBlockFault> {
        match block.first() {
            Some(b'B') => Ok(Self::B),
            Some(b'D') => Ok(Self::D),
            _ => Err(KeyBlockFault::Form("it begins with another letter")),
        }
    }

    const fn letter(self) -> char {
        match self {
            Self::B => 'B',
            Self::D => 'D',
        }
    }

    const fn algorithm(self) -> Algorithm {
        match self {
            Self::B => Algorithm::Tdes,
            Self::D => Algorithm::Aes,
        }
    }

    fn derive(self, wrapping: &ZoneKey) -> BlockKeys {
        BlockKeys {
            enciphering: derived(wrapping, [0, 0]),
            authenticating: derived(wrapping, [0, 1]),
        }
    }
}

/// A key as long as the wrapping one: CMACs under that of a count, the purpose, and what is derived.
fn derived(wrapping: &ZoneKey, purpose: [u8; 2]) -> ZoneKey {
    let (algorithm, len) = (wrapping.algorithm, wrapping.bytes.len());
    let kind: u8 = match (algorithm, len) {
        (Algorithm::Tdes, 16) => 0,
        (Algorithm::Tdes, _) => 1,
        (Algorithm::Aes, 16) => 2,
        (Algorithm::Aes, 24) => 3,
        (Algorithm::Aes, _) => 4,
    };
    let bits = u16::try_from(8 * len).unwrap_or(0).to_be_bytes();
    let cmac = wrapping.cmac();
    let mut bytes = Zeroizing::new(Vec::new());
    for count in 1_u8.. {
        if bytes.len() >= len {
            break;
        }
        bytes.extend(cmac(&[&[count, purpose[0], purpose[1], 0, 0, kind, bits[0], bits[1]]]));
    }
    bytes.truncate(len);
    ZoneKey::new(algorithm, bytes).expect("as long as a key of this cipher")
}

struct BlockParts<'a> {
    /// With the optional blocks.
    header: &'a str,
    enciphered: Zeroizing<Vec<u8>>,
    code: Zeroizing<Vec<u8>>,
}

fn parts_of(block: &str, version: BlockVersion) -> Result<BlockParts<'_>, KeyBlockFault> {
    let cut = KeyBlockFault::Form("it is cut");
    if !block.is_ascii() || block.len() > BLOCK_LEN_MAX {
        return Err(KeyBlockFault::Form("it is too long, or not of ASCII characters"));
    }
    let said = block.get(1..5).and_then(|digits| digits.parse::<usize>().ok());
    if said != Some(block.len()) {
        return Err(KeyBlockFault::Form("it has another length than it says"));
    }
    let header_len = header_len(block).ok_or(KeyBlockFault::Form("its header is cut"))?;
    let block_bytes = version.algorithm().block_bytes();
    let code_at = block.len().checked_sub(2 * block_bytes).ok_or(cut)?;
    let key = block.get(header_len..code_at).ok_or(cut)?;
    let no_hex = KeyBlockFault::Form("it has others than hex digits");
    let enciphered = from_hex(key).ok_or(no_hex)?;
    let code = from_hex(&block[code_at..]).ok_or(no_hex)?;
    if enciphered.is_empty() || !enciphered.len().is_multiple_of(block_bytes) {
        return Err(cut);
    }
    Ok(BlockParts { header: &block[..header_len], enciphered, code })
}

/// How far the header goes with its optional blocks.
fn header_len(block: &str) -> Option<usize> {
    let count: usize = block.get(12..14)?.parse().ok()?;
    let mut end = HEADER_LEN;
    for _ in 0..count {
        let len = usize::from_str_radix(block.get(end + 2..end + 4)?, 16).ok()?;
        // Longer ones say 00 here; no key that is taken needs such a block.
        end += Some(len).filter(|len| *len >= 4)?;
    }
    (end <= block.len()).then_some(end)
}

fn uses_of(header: &str) -> Result<(KeyUsage, Algorithm), KeyBlockFault> {
    let mode = header.as_bytes()[8];
    let is_meant = |usage: &KeyUsage| {
        let (codes, modes) = usage.codes();
        codes.contains(&&header[5..7]) && modes.contains(&mode)
    };
    let code = HeaderText([header.as_bytes()[5], header.as_bytes()[6]]);
    let no_use = || KeyBlockFault::Use { usage: code, mode: char::from(mode) };
    let usage = KeyUsage::ALL.into_iter().find(is_meant).ok_or_else(no_use)?;
    match header.as_bytes()[7] {
        b'T' => Ok((usage, Algorithm::Tdes)),
        b'A' => Ok((usage, Algorithm::Aes)),
        _ => Err(KeyBlockFault::Form("its key is of neither TDES nor AES")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::tests::key;

    /// Blocks that PyPI `psec` 1.3.0 made, their wrapping keys, what they wrap.
    const MADE: [(&str, Algorithm, &str, KeyUsage, &str); 3] = [
        (
            "B0096M3TC00N000067BA62DADFC0DDD26E15A75C39D8F229906B859AE03F94B935087A322FE8AA5D2B3A2D44BD69F2DC",
            Algorithm::Tdes,
            "0123456789ABCDEFFEDCBA98765432101122334455667788",
            KeyUsage::RetailMac,
            "0123456789ABCDEFFEDCBA9876543210",
        ),
        (
            "D0144P0AB00E00001EC87B94E9B8E3D7FDD493BDAEAA255DF0233BBFF3E0BD3992CE80B0EE67FFDB8186B57BD3EF619CA0355786A13A1605D1AA877533BD3D8059F336DBCC9E0BCC",
            Algorithm::Aes,
            "00112233445566778899AABBCCDDEEFF",
            KeyUsage::Pin,
            "FFEEDDCCBBAA99887766554433221100",
        ),
        (
            "D0176M6AC00E0200KS1800604B120F9292800000PB0800005B91EED8EB4E7243F90B8CE1291DDF35A30DB3C03F5D2FEEFF9D2FB0C8EBEFA9A6BD6317A01E28B75B1A49D2B7DEA6FBD007F3FB7838AC1F48408F2319FA41E2",
            Algorithm::Aes,
            "00112233445566778899AABBCCDDEEFF0011223344556677",
            KeyUsage::Cmac,
            "FFEEDDCCBBAA99887766554433221100FFEEDDCCBBAA99887766554433221100",
        ),
    ];

    #[test]
    fn blocks_of_others_open_and_ours_too() {
        for (block, algorithm, wrapping, usage, wrapped) in MADE {
            let wrapping = key(algorithm, wrapping);
            let (found, opened) = unwrap(block, &wrapping).unwrap();
            assert_eq!(
                (found, opened.bytes.as_slice()),
                (usage, from_hex(wrapped).unwrap().as_slice())
            );
            let ours = wrap(usage, &opened, &wrapping).unwrap();
            let (found, again) = unwrap(&ours, &wrapping).unwrap();
            assert!(found == usage && again == opened, "{ours}");
        }
    }

    #[test]
    fn a_block_that_differs_in_any_character_gives_no_key() {
        for (block, algorithm, wrapping, ..) in MADE {
            let wrapping = key(algorithm, wrapping);
            for place in 0..block.len() {
                let other = if &block[place..=place] == "1" { "2" } else { "1" };
                let changed = format!("{}{other}{}", &block[..place], &block[place + 1..]);
                assert!(unwrap(&changed, &wrapping).is_err(), "{changed}");
                assert!(unwrap(&block[..place], &wrapping).is_err(), "{place}");
            }
            let other = key(algorithm, &"77".repeat(wrapping.bytes.len()));
            assert_eq!(unwrap(block, &other).unwrap_err(), KeyBlockFault::Code);
        }
    }

    #[test]
    fn faults_are_named() {
        let (block, algorithm, wrapping, ..) = MADE[0];
        let wrapping = key(algorithm, wrapping);
        let aes = key(Algorithm::Aes, &"1f".repeat(16));
        let rows = [
            (unwrap("", &wrapping), "begins with another letter"),
            (unwrap("A0088M3TC00N0000", &wrapping), "begins with another letter"),
            (unwrap("B9999M3TC00N0000", &wrapping), "another length than it says"),
            (unwrap("B0016M3TC00N0000", &wrapping), "it is cut"),
            (unwrap("B0018M3TC00N0100KS", &wrapping), "its header is cut"),
            (unwrap(block, &aes), "of version B is under a key of the other cipher"),
            (unwrap(&block.replace("67BA", "67BX"), &wrapping), "others than hex digits"),
            (unwrap(&format!("B0004{}", "é".repeat(9)), &wrapping), "not of ASCII"),
        ];
        for (refused, words) in rows {
            let fault = refused.unwrap_err().to_string();
            assert!(fault.contains(words), "{fault}");
        }
        // Its use counts only once its code is right.
        let verifying = wrap_as("V2", 'V', &wrapping);
        let fault = unwrap(&verifying, &wrapping).unwrap_err();
        assert_eq!(fault, KeyBlockFault::Use { usage: HeaderText(*b"V2"), mode: 'V' });
    }

    /// A block for another use.
    fn wrap_as(usage: &str, mode: char, wrapping: &ZoneKey) -> String {
        let keys = BlockVersion::B.derive(wrapping);
        let mut clear = [&[0, 128][..], &[7; 16], &[9; 6]].concat();
        let header = format!("B0080{usage}T{mode}00N0000");
        let code = keys.authenticating.cmac()(&[header.as_bytes(), &clear]);
        keys.enciphering.encrypt_chained(&code, &mut clear);
        header + &to_hex(&clear) + &to_hex(&code)
    }
}
