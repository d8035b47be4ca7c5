//! Everything that is done with a secret key: card numbers sealed and looked up, CVVs and PINs
//! verified, messages fingerprinted, tokens digested.
//!
//! Each use has a key of its own, derived with HKDF-SHA-256 from one 32-byte master:
//!
//! | label | bytes | use |
//! |---|---|---|
//! | `pan seal` | 32 | ChaCha20-Poly1305 over card numbers, card id as associated data |
//! | `pan lookup` | 64 | HMAC-SHA-256 of card numbers, first 64 bits |
//! | `cvv` | 64 | HMAC-SHA-256 of card numbers, reduced to three digits |
//! | `pin` | 64 | HMAC-SHA-256 of card number and PIN, first 64 bits, never zero |
//! | `id permutation` | 16 | public ids |
//! | `message fingerprint` | 16 | SipHash-128 of network messages |
//!
//! A sealed card number is: format (1 byte, 1), nonce (12), ciphertext and tag.

use std::fmt;
use std::hash::Hasher;

use cardswitch_engine::domain::card::{PanHash, SealedPan};
use cardswitch_engine::domain::credential::PinVerifier;
use cardswitch_engine::domain::ids::CardId;
use chacha20poly1305::aead::{Aead, KeyInit as _, Payload};
use chacha20poly1305::{ChaCha20Poly1305, Nonce};
use hkdf::Hkdf;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use siphasher::sip128::{Hasher128, SipHasher13};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::pan::Pan;

const KEY_SALT: &[u8] = b"cardswitch keys 1";
const SEAL_FORMAT: u8 = 1;
const NONCE_BYTES: usize = 12;

/// The keys of one switch, ready to use.
#[derive(Clone)]
pub struct Secrets {
    seal: ChaCha20Poly1305,
    pan_lookup: Hmac<Sha256>,
    cvv: Hmac<Sha256>,
    pin: Hmac<Sha256>,
    id_key: [u8; 16],
    fingerprint_key: [u8; 16],
}

impl fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secrets(..)")
    }
}

/// A card number could not be sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealError {
    /// The system gave no random bytes.
    NoRandomness,
    /// The cipher refused.
    Cipher,
}

impl fmt::Display for SealError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NoRandomness => "the system gave no random bytes",
            Self::Cipher => "the cipher refused a card number",
        })
    }
}

impl std::error::Error for SealError {}

impl Secrets {
    /// Derives every key from the master.
    #[must_use]
    pub fn from_master(master: [u8; 32]) -> Self {
        let master = Zeroizing::new(master);
        let source = Hkdf::<Sha256>::new(Some(KEY_SALT), master.as_slice());
        Self {
            seal: ChaCha20Poly1305::new(&(*derived::<32>(&source, b"pan seal")).into()),
            pan_lookup: mac_state(&source, b"pan lookup"),
            cvv: mac_state(&source, b"cvv"),
            pin: mac_state(&source, b"pin"),
            id_key: *derived(&source, b"id permutation"),
            fingerprint_key: *derived(&source, b"message fingerprint"),
        }
    }

    /// The hash by which the engine finds a card.
    /// Cost: two compressions of SHA-256; the key's own are done beforehand.
    #[must_use]
    pub fn pan_hash(&self, pan: &Pan) -> PanHash {
        PanHash(mac_number(&self.pan_lookup, &[pan.digits()]))
    }

    /// Seals a card number for keeping, under a nonce of its own.
    /// Errors: no randomness.
    pub fn seal_pan(&self, pan: &Pan, card: CardId) -> Result<SealedPan, SealError> {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(|_| SealError::NoRandomness)?;
        self.seal_pan_with(nonce, pan, card)
    }

    fn seal_pan_with(
        &self,
        nonce: [u8; NONCE_BYTES],
        pan: &Pan,
        card: CardId,
    ) -> Result<SealedPan, SealError> {
        let payload = Payload { msg: pan.digits(), aad: card.0.as_bytes() };
        let sealed =
            self.seal.encrypt(&Nonce::from(nonce), payload).map_err(|_| SealError::Cipher)?;
        let mut kept = Vec::with_capacity(1 + NONCE_BYTES + sealed.len());
        kept.push(SEAL_FORMAT);
        kept.extend_from_slice(&nonce);
        kept.extend_from_slice(&sealed);
        Ok(SealedPan(kept))
    }

    /// Opens a sealed card number; none where it was not sealed here for this card.
    #[must_use]
    pub fn open_pan(&self, sealed: &SealedPan, card: CardId) -> Option<Pan> {
        let (&SEAL_FORMAT, rest) = sealed.0.split_first()? else { return None };
        let (nonce, ciphertext) = rest.split_first_chunk::<NONCE_BYTES>()?;
        let payload = Payload { msg: ciphertext, aad: card.0.as_bytes() };
        let digits = Zeroizing::new(self.seal.decrypt(&Nonce::from(*nonce), payload).ok()?);
        Pan::parse(&digits)
    }

    /// The card verification value of a card number: three ASCII digits, nowhere stored.
    #[must_use]
    pub fn cvv(&self, pan: &Pan) -> [u8; 3] {
        let number = mac_number(&self.cvv, &[pan.digits()]);
        [number / 100 % 10, number / 10 % 10, number % 10].map(ascii_digit)
    }

    /// The value by which the engine compares PINs of this card; never that of "no PIN".
    #[must_use]
    pub fn pin_verifier(&self, pan: &Pan, pin: &[u8]) -> PinVerifier {
        let pan_len = [u8::try_from(pan.digits().len()).unwrap_or(u8::MAX)];
        PinVerifier(mac_number(&self.pin, &[&pan_len, pan.digits(), pin]).max(1))
    }

    /// The key of the public ids.
    #[must_use]
    pub const fn id_key(&self) -> [u8; 16] {
        self.id_key
    }

    /// A keyed hash over the parts of a message; hashes of different purposes never meet.
    #[must_use]
    pub fn message_hasher(&self, purpose: HashPurpose) -> MessageHasher {
        let mut sip = SipHasher13::new_with_key(&self.fingerprint_key);
        sip.write(&[purpose as u8]);
        MessageHasher { sip }
    }
}

/// What a message hash is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum HashPurpose {
    /// Identifies a message among its repeats.
    Duplicate = 1,
    /// Identifies a trace.
    Trace = 2,
    /// What must not differ under one trace or idempotency key.
    Content = 3,
    /// Names an original by STAN, transmission time, acquirer and card.
    Original = 4,
    /// Names an original by retrieval reference, acquirer and card.
    Retrieval = 5,
    /// Identifies an HTTP request by its idempotency key.
    Idempotency = 6,
}

/// A keyed hash in the making. Parts are delimited, and absent is not empty.
#[derive(Clone, Debug)]
pub struct MessageHasher {
    sip: SipHasher13,
}

impl MessageHasher {
    /// Takes the next part.
    #[must_use]
    pub fn part(mut self, part: Option<&[u8]>) -> Self {
        match part {
            None => self.sip.write(&[0]),
            Some(bytes) => {
                self.sip.write(&[1]);
                self.sip.write(&(bytes.len() as u64).to_le_bytes());
                self.sip.write(bytes);
            }
        }
        self
    }

    /// Takes a number as the next part.
    #[must_use]
    pub fn number(self, number: u64) -> Self {
        self.part(Some(&number.to_le_bytes()))
    }

    /// The hash in 128 bits.
    #[must_use]
    pub fn finish128(&self) -> u128 {
        self.sip.finish128().as_u128()
    }

    /// The hash in 64 bits.
    #[must_use]
    pub fn finish64(&self) -> u64 {
        self.sip.finish128().as_u64().0
    }
}

/// The digest under which a token or key is kept. Tokens are 256 random bits, so a plain hash
/// gives nothing away.
#[must_use]
pub fn token_digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// Compares two digests in constant time.
#[must_use]
pub fn digests_equal(left: &[u8; 32], right: &[u8; 32]) -> bool {
    left.ct_eq(right).into()
}

/// Compares two short secrets, such as CVVs, in constant time.
#[must_use]
pub fn codes_equal(left: &[u8], right: &[u8]) -> bool {
    left.ct_eq(right).into()
}

fn derived<const N: usize>(source: &Hkdf<Sha256>, label: &[u8]) -> Zeroizing<[u8; N]> {
    let mut key = Zeroizing::new([0; N]);
    source.expand(label, key.as_mut_slice()).expect("keys are shorter than HKDF's limit");
    key
}

fn mac_state(source: &Hkdf<Sha256>, label: &[u8]) -> Hmac<Sha256> {
    Hmac::new(&(*derived::<64>(source, label)).into())
}

fn mac_number(state: &Hmac<Sha256>, parts: &[&[u8]]) -> u64 {
    let mut mac = state.clone();
    for part in parts {
        mac.update(part);
    }
    let tag = mac.finalize().into_bytes();
    tag.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn ascii_digit(value: u64) -> u8 {
    b'0' + u8::try_from(value % 10).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn secrets() -> Secrets {
        Secrets::from_master(std::array::from_fn(|index| u8::try_from(index).unwrap()))
    }

    fn pan() -> Pan {
        Pan::parse(b"4111111111111111").unwrap()
    }

    const CARD: CardId = CardId(Uuid::from_bytes([9; 16]));
    const OTHER_CARD: CardId = CardId(Uuid::from_bytes([8; 16]));

    /// The expected values were made with Python's hmac and hashlib and pyca/cryptography.
    #[test]
    fn known_answers_stay_the_same() {
        let secrets = secrets();
        assert_eq!(secrets.pan_hash(&pan()), PanHash(0x22b1_0e8c_7a05_9a94));
        assert_eq!(&secrets.cvv(&pan()), b"268");
        assert_eq!(secrets.pin_verifier(&pan(), b"1234"), PinVerifier(0x32bc_75ce_51d1_b9e4));
        assert_eq!(hex(&secrets.id_key()), "ffdefc051ad4599572570b137f24fa52");
        let sealed = secrets.seal_pan_with([7; 12], &pan(), CARD).unwrap();
        let expected = "667281be93bdb935283f4fd698ed892ab935d5d97a8278c4c0341b99797fe746";
        assert_eq!(hex(&sealed.0), format!("01{}{expected}", "07".repeat(12)));
    }

    #[test]
    fn a_sealed_number_opens_only_whole_and_for_its_card_and_key() {
        let secrets = secrets();
        let sealed = secrets.seal_pan(&pan(), CARD).unwrap();
        assert_ne!(sealed, secrets.seal_pan(&pan(), CARD).unwrap(), "a nonce was used twice");
        let opened = secrets.open_pan(&sealed, CARD).unwrap();
        assert_eq!(opened.digits(), pan().digits());
        assert!(secrets.open_pan(&sealed, OTHER_CARD).is_none());
        assert!(Secrets::from_master([1; 32]).open_pan(&sealed, CARD).is_none());
        for position in 0..sealed.0.len() {
            let mut changed = sealed.clone();
            changed.0[position] ^= 1;
            assert!(secrets.open_pan(&changed, CARD).is_none(), "byte {position}");
            let cut = SealedPan(sealed.0[..position].to_vec());
            assert!(secrets.open_pan(&cut, CARD).is_none(), "cut at {position}");
        }
    }

    #[test]
    fn pins_are_bound_to_their_card() {
        let secrets = secrets();
        let other = Pan::parse(b"5500000000000004").unwrap();
        let verifier = secrets.pin_verifier(&pan(), b"1234");
        assert_eq!(verifier, secrets.pin_verifier(&pan(), b"1234"));
        assert_ne!(verifier, secrets.pin_verifier(&pan(), b"1235"));
        assert_ne!(verifier, secrets.pin_verifier(&other, b"1234"));
        assert_ne!(verifier, PinVerifier::default());
    }

    #[test]
    fn message_hashes_tell_absent_from_empty_and_parts_and_purposes_apart() {
        let secrets = secrets();
        let hash = |purpose, parts: &[Option<&[u8]>]| {
            parts
                .iter()
                .fold(secrets.message_hasher(purpose), |hasher, part| hasher.part(*part))
                .finish128()
        };
        use HashPurpose::{Duplicate, Trace};
        let base = hash(Duplicate, &[Some(b"ab"), Some(b"c")]);
        assert_eq!(base, hash(Duplicate, &[Some(b"ab"), Some(b"c")]));
        assert_ne!(base, hash(Duplicate, &[Some(b"a"), Some(b"bc")]));
        assert_ne!(base, hash(Trace, &[Some(b"ab"), Some(b"c")]));
        assert_ne!(hash(Duplicate, &[None]), hash(Duplicate, &[Some(b"")]));
    }

    #[test]
    fn no_secret_is_printed() {
        assert_eq!(format!("{:?}", secrets()), "Secrets(..)");
        assert!(!format!("{:?}", secrets().seal_pan(&pan(), CARD).unwrap()).contains("4111"));
    }

    #[test]
    fn token_digests_are_sha_256() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hex(&token_digest("abc")), expected);
        assert!(digests_equal(&token_digest("abc"), &token_digest("abc")));
        assert!(!digests_equal(&token_digest("abc"), &token_digest("abd")));
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
