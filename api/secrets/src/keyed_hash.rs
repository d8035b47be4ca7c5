//! HMAC-SHA-256 with the key's own compressions done beforehand.

use hmac::{Hmac, KeyInit as _, Mac};
use sha2::Sha256;
use sha2::block_api::compress256;
use zeroize::Zeroize;

/// HMAC-SHA-256 under one key, of which the first 64 bits are used.
#[derive(Clone)]
pub struct KeyedHash {
    /// The states of the two hashes after the key's block, for messages of one block.
    inner: [u32; 8],
    outer: [u32; 8],
    /// For longer ones.
    mac: Hmac<Sha256>,
}

impl KeyedHash {
    const BLOCK_BYTES: usize = 64;
    /// Behind the message stand a one bit and the message's length.
    const MESSAGE_BYTES_MAX: usize = Self::BLOCK_BYTES - 1 - size_of::<u64>();
    /// Source: FIPS 180-4, 5.3.3.
    const INITIAL: [u32; 8] = [
        0x6a09_e667,
        0xbb67_ae85,
        0x3c6e_f372,
        0xa54f_f53a,
        0x510e_527f,
        0x9b05_688c,
        0x1f83_d9ab,
        0x5be0_cd19,
    ];

    pub(crate) fn new(key: &[u8; Self::BLOCK_BYTES]) -> Self {
        // Source: RFC 2104, 2.
        let state_of = |pad: u8| {
            let mut state = Self::INITIAL;
            compress256(&mut state, &[key.map(|byte| byte ^ pad)]);
            state
        };
        Self { inner: state_of(0x36), outer: state_of(0x5c), mac: Hmac::new(&(*key).into()) }
    }

    /// Cost: two compressions of SHA-256 for a short message; the key's own are done beforehand.
    pub fn number(&self, parts: &[&[u8]]) -> u64 {
        let tag = self.short_tag(parts).unwrap_or_else(|| self.long_tag(parts));
        let [first, second, ..] = tag;
        u64::from(first) << 32 | u64::from(second)
    }

    /// The first 128 bits of the tag.
    pub fn half_tag(&self, parts: &[&[u8]]) -> [u8; 16] {
        let tag = self.short_tag(parts).unwrap_or_else(|| self.long_tag(parts));
        let mut half = [0; 16];
        for (place, word) in half.chunks_exact_mut(4).zip(tag) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        half
    }

    /// The tag of a message that fits in one block; none for others.
    fn short_tag(&self, parts: &[&[u8]]) -> Option<[u32; 8]> {
        let (mut block, mut len) = ([0; Self::BLOCK_BYTES], 0);
        for part in parts {
            let end = len + part.len();
            block[..Self::MESSAGE_BYTES_MAX].get_mut(len..end)?.copy_from_slice(part);
            len = end;
        }
        let inner = last_block(self.inner, &mut block, len);
        for (place, word) in block.chunks_exact_mut(4).zip(inner) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        block[32..].fill(0);
        Some(last_block(self.outer, &mut block, 32))
    }

    pub(crate) fn long_tag(&self, parts: &[&[u8]]) -> [u32; 8] {
        let mut mac = self.mac.clone();
        parts.iter().for_each(|part| mac.update(part));
        let tag = mac.finalize().into_bytes();
        std::array::from_fn(|word| {
            tag[4 * word..][..4].iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
        })
    }
}

impl Drop for KeyedHash {
    fn drop(&mut self) {
        self.inner.zeroize();
        self.outer.zeroize();
    }
}

/// The hash of one block with `len` bytes of message, behind the block of the key. Zeros follow
/// the message.
fn last_block(
    mut state: [u32; 8],
    block: &mut [u8; KeyedHash::BLOCK_BYTES],
    len: usize,
) -> [u32; 8] {
    let bits = 8 * (KeyedHash::BLOCK_BYTES + len) as u64;
    block[len] = 0x80;
    block[KeyedHash::MESSAGE_BYTES_MAX + 1..].copy_from_slice(&bits.to_be_bytes());
    compress256(&mut state, std::slice::from_ref(block));
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keyed_hashes_are_hmac_whatever_the_length() {
        let hash = KeyedHash::new(&std::array::from_fn(|at| u8::try_from(at).unwrap() * 3));
        for len in 0..200 {
            let message: Vec<u8> = (0..len).collect();
            let (first, second) = message.split_at(usize::from(len) / 3);
            let short = hash.short_tag(&[first, second]);
            assert_eq!(short.is_some(), usize::from(len) <= KeyedHash::MESSAGE_BYTES_MAX);
            assert_eq!(
                short.unwrap_or_else(|| hash.long_tag(&[&message])),
                hash.long_tag(&[&message])
            );
        }
    }
}
