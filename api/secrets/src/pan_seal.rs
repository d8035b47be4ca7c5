//! Card numbers, sealed under generations of a key. The newest one seals; older ones open numbers
//! that are not sealed anew yet.
//!
//! | generation | key | form |
//! |---|---|---|
//! | 0 | `pan seal`, derived from the data key | format (1 byte, 1), nonce (12), ciphertext and tag; associated data: card id |
//! | others | random, kept wrapped: see `pan_keys` | format (1 byte, 2), generation (u32), nonce (12), ciphertext and tag; associated data: the first five bytes, card id |
//!
//! INVARIANT: sealing uses the newest generation, and that is durable before it is known here.

use std::collections::BTreeMap;
use std::sync::Arc;

use cardswitch_engine::domain::card::SealedPan;
use cardswitch_engine::domain::ids::CardId;
use cardswitch_engine::domain::pan_key::PanGeneration;
use chacha20poly1305::aead::{Aead, KeyInit as _, Payload};
use chacha20poly1305::{ChaCha20Poly1305, Nonce};
use parking_lot::RwLock;
use zeroize::Zeroizing;

use super::pan_keys::PanKeys;
use super::seal::{self, NONCE_BYTES, SealError};

/// Format and generation, which stand in clear.
const HEAD_BYTES: usize = 5;

/// The keys that open card numbers. Copies share them.
#[derive(Clone)]
pub(super) struct PanSeal {
    /// That of generation 0, which follows from the data key.
    first: ChaCha20Poly1305,
    ring: Arc<RwLock<Ring>>,
}

struct Ring {
    newest: PanGeneration,
    ciphers: BTreeMap<PanGeneration, ChaCha20Poly1305>,
}

impl PanSeal {
    /// With generation 0 alone.
    pub(super) fn new(first: ChaCha20Poly1305) -> Self {
        let newest = PanGeneration::default();
        let ciphers = BTreeMap::from([(newest, first.clone())]);
        Self { first, ring: Arc::new(RwLock::new(Ring { newest, ciphers })) }
    }

    /// Seals and opens with these from now on.
    pub(super) fn take(&self, keys: &PanKeys) {
        let cipher = |generation: PanGeneration| match keys.key(generation) {
            Some(key) => ChaCha20Poly1305::new(&(*key).into()),
            None => self.first.clone(),
        };
        let ciphers = keys.generations().map(|generation| (generation, cipher(generation)));
        *self.ring.write() = Ring { newest: keys.newest(), ciphers: ciphers.collect() };
    }

    /// The generation that seals.
    pub(super) fn newest(&self) -> PanGeneration {
        self.ring.read().newest
    }

    /// Errors: the cipher refuses.
    pub(super) fn seal(
        &self,
        nonce: [u8; NONCE_BYTES],
        digits: &[u8],
        card: CardId,
    ) -> Result<SealedPan, SealError> {
        let ring = self.ring.read();
        let generation = ring.newest;
        let cipher = ring.ciphers.get(&generation).ok_or(SealError::Cipher)?;
        if generation == PanGeneration::default() {
            return seal::seal(cipher, nonce, digits, card.0.as_bytes()).map(SealedPan);
        }
        let head = head_of(generation);
        let context = context_of(head, card);
        let payload = Payload { msg: digits, aad: &context };
        let sealed = cipher.encrypt(&Nonce::from(nonce), payload).map_err(|_| SealError::Cipher)?;
        Ok(SealedPan([head.as_slice(), &nonce, &sealed].concat()))
    }

    /// None where it was not sealed here for this card, or its generation is not kept.
    pub(super) fn open(&self, sealed: &SealedPan, card: CardId) -> Option<Zeroizing<Vec<u8>>> {
        let generation = sealed.generation();
        let ring = self.ring.read();
        let cipher = ring.ciphers.get(&generation)?;
        if generation == PanGeneration::default() {
            return seal::open(cipher, &sealed.0, card.0.as_bytes());
        }
        let (head, rest) = sealed.0.split_first_chunk::<HEAD_BYTES>()?;
        let (nonce, ciphertext) = rest.split_first_chunk::<NONCE_BYTES>()?;
        let context = context_of(*head, card);
        let payload = Payload { msg: ciphertext, aad: &context };
        cipher.decrypt(&Nonce::from(*nonce), payload).ok().map(Zeroizing::new)
    }
}

fn head_of(PanGeneration(generation): PanGeneration) -> [u8; HEAD_BYTES] {
    let [a, b, c, d] = generation.to_le_bytes();
    [SealedPan::FORM_WITH_GENERATION, a, b, c, d]
}

fn context_of(head: [u8; HEAD_BYTES], card: CardId) -> [u8; HEAD_BYTES + 16] {
    let mut context = [0; HEAD_BYTES + 16];
    context[..HEAD_BYTES].copy_from_slice(&head);
    context[HEAD_BYTES..].copy_from_slice(card.0.as_bytes());
    context
}

#[cfg(test)]
mod tests {
    use cardswitch_engine::domain::ids::Timestamp;
    use uuid::Uuid;

    use super::*;
    use crate::Secrets;
    use crate::pan::Pan;

    const CARD: CardId = CardId(Uuid::from_bytes([9; 16]));
    const OTHER_CARD: CardId = CardId(Uuid::from_bytes([8; 16]));

    fn pan() -> Pan {
        Pan::parse(b"4111111111111111").unwrap()
    }

    fn opens(secrets: &Secrets, sealed: &SealedPan) -> bool {
        let opened = secrets.open_pan(sealed, CARD);
        opened.is_some_and(|opened| opened.digits() == pan().digits())
    }

    /// Keys of generations 1 and 2, which are the same again for the same bytes.
    fn keys(bytes: [u8; 2]) -> PanKeys {
        let mut keys = PanKeys::default();
        for byte in bytes {
            keys = keys.with(Timestamp(0), Zeroizing::new([byte; 32])).unwrap();
        }
        keys
    }

    #[test]
    fn each_generation_opens_what_it_sealed_and_the_newest_seals() {
        let secrets = Secrets::from_root([3; 32]);
        let first = secrets.seal_pan(&pan(), CARD).unwrap();
        let [one, two] = [keys([5, 6]).without_newest(), keys([5, 6])];
        secrets.take_pan_keys(&one);
        let second = secrets.seal_pan(&pan(), CARD).unwrap();
        assert!(opens(&secrets, &first) && opens(&secrets, &second));
        let copy = secrets.clone();
        secrets.take_pan_keys(&two);
        let third = copy.seal_pan(&pan(), CARD).unwrap();
        let sealed = [&first, &second, &third];
        assert_eq!(sealed.map(|sealed| sealed.generation().0), [0, 1, 2], "copies share the keys");
        assert!(sealed.iter().all(|sealed| opens(&secrets, sealed)));
        secrets.take_pan_keys(&two.with_newest_alone());
        assert_eq!(sealed.map(|sealed| opens(&secrets, sealed)), [false, false, true]);
    }

    #[test]
    fn a_number_of_a_generation_opens_only_whole_and_for_its_card_and_key() {
        let secrets = Secrets::from_root([3; 32]);
        secrets.take_pan_keys(&keys([5, 6]));
        let sealed = secrets.seal_pan(&pan(), CARD).unwrap();
        assert_ne!(sealed, secrets.seal_pan(&pan(), CARD).unwrap(), "a nonce was used twice");
        assert!(opens(&secrets, &sealed));
        assert!(secrets.open_pan(&sealed, OTHER_CARD).is_none(), "another card's");
        secrets.take_pan_keys(&keys([5, 7]));
        assert!(!opens(&secrets, &sealed), "the same generation with another key");
        // The same key as another generation: the head is associated data.
        secrets.take_pan_keys(&keys([6, 6]));
        let mut moved = sealed.clone();
        moved.0[1] = 1;
        assert!(opens(&secrets, &sealed) && !opens(&secrets, &moved));
        for position in 0..sealed.0.len() {
            let mut changed = sealed.clone();
            changed.0[position] ^= 1;
            assert!(!opens(&secrets, &changed), "byte {position}");
            let cut = SealedPan(sealed.0[..position].to_vec());
            assert!(!opens(&secrets, &cut), "cut at {position}");
        }
    }

    /// The expected value was made with pyca/cryptography.
    #[test]
    fn the_form_with_a_generation_stays_the_same() {
        let secrets = Secrets::from_root([3; 32]);
        secrets.take_pan_keys(&keys([5, 6]));
        let sealed = secrets.seal_pan_with([7; 12], &pan(), CARD).unwrap();
        let hex: String = sealed.0.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, format!("0202000000{}{}", "07".repeat(12), EXPECTED));
    }

    const EXPECTED: &str = "334f68710940218690bd4ed480673d3743655d70e54ba2cbbb6a5d8a535f6ebd";
}
