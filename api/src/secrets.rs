//! Everything that is done with a secret key: card numbers sealed and looked up, CVVs and PINs
//! verified, messages fingerprinted, shared links sealed and looked up, tokens digested.
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
//! | `idempotency ..` | | see `idempotency/keys` |
//! | `link seal` | 32 | ChaCha20-Poly1305 over what opens shared links, kind and link id as associated data |
//! | `site forms` | 64 | HMAC-SHA-256 of what a form of the site is bound to, first 128 bits |
//! | `link lookup` | 64 | HMAC-SHA-256 of the keys in shared links, first 128 bits |
//! | `webhook seal` | 32 | ChaCha20-Poly1305 over secrets of webhook endpoints and places in the event log, kind and id as associated data |
//! | `event place` | 64 | HMAC-SHA-256 of places in the event log, first 96 bits: the nonce they are sealed under |
//! | `mail seal` | 32 | ChaCha20-Poly1305 over letters that wait, kind and id of their file as associated data |
//! | `totp seal` | 32 | ChaCha20-Poly1305 over seeds of one-time codes, user id as associated data |
//!
//! What is sealed is: format (1 byte, 1), nonce (12), ciphertext and tag.

use std::fmt;
use std::hash::Hasher;

use cardswitch_engine::domain::card::{PanHash, SealedPan};
use cardswitch_engine::domain::credential::PinVerifier;
use cardswitch_engine::domain::ids::{CardId, CompanyId, SharedLinkId, UserId, WebhookEndpointId};
use chacha20poly1305::aead::{Aead, KeyInit as _, Payload};
use chacha20poly1305::{ChaCha20Poly1305, Nonce};
use hkdf::Hkdf;
use hmac::{Hmac, Mac};
use sha2::block_api::compress256;
use sha2::{Digest, Sha256};
use siphasher::sip128::{Hasher128, SipHasher13};
use subtle::ConstantTimeEq;
use uuid::Uuid;
use zeroize::Zeroizing;

use crate::idempotency::IdempotencyKeys;
use crate::pan::Pan;
use crate::webhooks::signature::WebhookSecret;

const KEY_SALT: &[u8] = b"cardswitch keys 1";
const SEAL_FORMAT: u8 = 1;
const NONCE_BYTES: usize = 12;

/// The keys of one switch, ready to use.
#[derive(Clone)]
pub struct Secrets {
    seal: ChaCha20Poly1305,
    pan_lookup: KeyedHash,
    cvv: KeyedHash,
    pin: KeyedHash,
    id_key: [u8; 16],
    fingerprint_key: [u8; 16],
    idempotency: IdempotencyKeys,
    link_seal: ChaCha20Poly1305,
    link_lookup: KeyedHash,
    totp_seal: ChaCha20Poly1305,
    mail_seal: ChaCha20Poly1305,
    site_forms: KeyedHash,
    webhook_seal: ChaCha20Poly1305,
    event_place: KeyedHash,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secrets(..)")
    }
}

/// What of a shared link is sealed; one is never taken for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LinkSecret {
    /// The key in its address.
    Key = 1,
    /// What has to be known to see the card.
    Passphrase = 2,
}

/// What waits in a file of the mail queue; one is never taken for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MailFile {
    /// News of a change whose outcome is not known yet.
    Held = 1,
    /// A letter.
    Due = 2,
    /// A letter that goes before others.
    First = 3,
}

/// What a form of the site is bound to; one is never taken for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FormBond {
    /// A session.
    Session = 1,
    /// A visitor who has none.
    Visitor = 2,
    /// A shared link whose passphrase its viewer knows.
    SharedLink = 3,
}

/// A secret could not be sealed.
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
            Self::Cipher => "the cipher refused a secret",
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
            pan_lookup: KeyedHash::new(&derived(&source, b"pan lookup")),
            cvv: KeyedHash::new(&derived(&source, b"cvv")),
            pin: KeyedHash::new(&derived(&source, b"pin")),
            id_key: *derived(&source, b"id permutation"),
            fingerprint_key: *derived(&source, b"message fingerprint"),
            idempotency: IdempotencyKeys::derive(&source),
            link_seal: ChaCha20Poly1305::new(&(*derived::<32>(&source, b"link seal")).into()),
            link_lookup: KeyedHash::new(&derived(&source, b"link lookup")),
            totp_seal: ChaCha20Poly1305::new(&(*derived::<32>(&source, b"totp seal")).into()),
            mail_seal: ChaCha20Poly1305::new(&(*derived::<32>(&source, b"mail seal")).into()),
            site_forms: KeyedHash::new(&derived(&source, b"site forms")),
            webhook_seal: ChaCha20Poly1305::new(&(*derived::<32>(&source, b"webhook seal")).into()),
            event_place: KeyedHash::new(&derived(&source, b"event place")),
        }
    }

    /// The hash by which the engine finds a card.
    /// Cost: two compressions of SHA-256; the key's own are done beforehand.
    #[must_use]
    pub fn pan_hash(&self, pan: &Pan) -> PanHash {
        PanHash(self.pan_lookup.number(&[pan.digits()]))
    }

    /// Seals a card number for keeping, under a nonce of its own.
    /// Errors: no randomness.
    pub fn seal_pan(&self, pan: &Pan, card: CardId) -> Result<SealedPan, SealError> {
        self.seal_pan_with(fresh_nonce()?, pan, card)
    }

    fn seal_pan_with(
        &self,
        nonce: [u8; NONCE_BYTES],
        pan: &Pan,
        card: CardId,
    ) -> Result<SealedPan, SealError> {
        seal(&self.seal, nonce, pan.digits(), card.0.as_bytes()).map(SealedPan)
    }

    /// Opens a sealed card number; none where it was not sealed here for this card.
    #[must_use]
    pub fn open_pan(&self, sealed: &SealedPan, card: CardId) -> Option<Pan> {
        Pan::parse(&open(&self.seal, &sealed.0, card.0.as_bytes())?)
    }

    /// Seals what opens a shared link, under a nonce of its own.
    /// Errors: no randomness.
    pub fn seal_link(
        &self,
        kind: LinkSecret,
        secret: &[u8],
        link: SharedLinkId,
    ) -> Result<Vec<u8>, SealError> {
        seal(&self.link_seal, fresh_nonce()?, secret, &link_context(kind, link))
    }

    /// Opens what opens a shared link; none where it was not sealed here as that of this link.
    #[must_use]
    pub fn open_link(
        &self,
        kind: LinkSecret,
        sealed: &[u8],
        link: SharedLinkId,
    ) -> Option<Zeroizing<Vec<u8>>> {
        open(&self.link_seal, sealed, &link_context(kind, link))
    }

    /// The hash by which a shared link is found.
    #[must_use]
    pub fn link_digest(&self, key: &[u8; 32]) -> [u8; 16] {
        self.link_lookup.half_tag(&[key])
    }

    /// Seals the seed of a user's one-time codes, under a nonce of its own.
    /// Errors: no randomness.
    pub fn seal_totp(&self, seed: &[u8], user: UserId) -> Result<Vec<u8>, SealError> {
        seal(&self.totp_seal, fresh_nonce()?, seed, user.0.as_bytes())
    }

    /// Opens the seed of a user's one-time codes; none where it was not sealed here for this user.
    #[must_use]
    pub fn open_totp(&self, sealed: &[u8], user: UserId) -> Option<Zeroizing<Vec<u8>>> {
        open(&self.totp_seal, sealed, user.0.as_bytes())
    }

    /// Seals what the webhooks of an endpoint are signed with, under a nonce of its own.
    /// Errors: no randomness.
    pub fn seal_webhook_secret(
        &self,
        secret: &WebhookSecret,
        endpoint: WebhookEndpointId,
    ) -> Result<Vec<u8>, SealError> {
        let context = webhook_context(WebhookSeal::Secret, endpoint.0);
        seal(&self.webhook_seal, fresh_nonce()?, secret.bytes(), &context)
    }

    /// Opens what webhooks are signed with; none where it was not sealed here for this endpoint.
    #[must_use]
    pub fn open_webhook_secret(
        &self,
        sealed: &[u8],
        endpoint: WebhookEndpointId,
    ) -> Option<WebhookSecret> {
        let context = webhook_context(WebhookSeal::Secret, endpoint.0);
        open(&self.webhook_seal, sealed, &context).map(WebhookSecret::from_bytes)
    }

    /// Seals a place in the event log for a company: the same place always as the same bytes, so
    /// that clients can compare them.
    /// Errors: the cipher refuses.
    pub fn seal_event_place(&self, place: &[u8], company: CompanyId) -> Result<Vec<u8>, SealError> {
        let context = webhook_context(WebhookSeal::Place, company.0);
        let tag = self.event_place.half_tag(&[&context, place]);
        let nonce = std::array::from_fn(|index| tag[index]);
        seal(&self.webhook_seal, nonce, place, &context)
    }

    /// Opens a place in the event log; none where it was not sealed here for this company.
    #[must_use]
    pub fn open_event_place(
        &self,
        sealed: &[u8],
        company: CompanyId,
    ) -> Option<Zeroizing<Vec<u8>>> {
        open(&self.webhook_seal, sealed, &webhook_context(WebhookSeal::Place, company.0))
    }

    /// Seals what waits in a file of the mail queue, under a nonce of its own.
    /// Errors: no randomness.
    pub fn seal_mail(&self, kind: MailFile, plain: &[u8], id: Uuid) -> Result<Vec<u8>, SealError> {
        seal(&self.mail_seal, fresh_nonce()?, plain, &context_of(kind as u8, id))
    }

    /// Opens what waits in a file of the mail queue; none where it was not sealed here under this
    /// name.
    #[must_use]
    pub fn open_mail(&self, kind: MailFile, sealed: &[u8], id: Uuid) -> Option<Zeroizing<Vec<u8>>> {
        open(&self.mail_seal, sealed, &context_of(kind as u8, id))
    }

    /// What a form of the site carries to show whose it is, as text.
    #[must_use]
    pub fn form_tag(&self, bond: FormBond, bound_to: &[u8]) -> String {
        let tag = self.site_forms.half_tag(&[&[bond as u8], bound_to]);
        tag.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The card verification value of a card number: three ASCII digits, nowhere stored.
    #[must_use]
    pub fn cvv(&self, pan: &Pan) -> [u8; 3] {
        let number = self.cvv.number(&[pan.digits()]);
        [number / 100 % 10, number / 10 % 10, number % 10].map(ascii_digit)
    }

    /// The value by which the engine compares PINs of this card; never that of "no PIN".
    #[must_use]
    pub fn pin_verifier(&self, pan: &Pan, pin: &[u8]) -> PinVerifier {
        let pan_len = [u8::try_from(pan.digits().len()).unwrap_or(u8::MAX)];
        PinVerifier(self.pin.number(&[&pan_len, pan.digits(), pin]).max(1))
    }

    /// The key of the public ids.
    #[must_use]
    pub const fn id_key(&self) -> [u8; 16] {
        self.id_key
    }

    /// The keys behind idempotency keys.
    #[must_use]
    pub const fn idempotency(&self) -> &IdempotencyKeys {
        &self.idempotency
    }

    /// A keyed hash over the parts of a message; hashes of different purposes never meet.
    #[must_use]
    pub fn message_hasher(&self, purpose: HashPurpose) -> MessageHasher {
        let sip = SipHasher13::new_with_key(&self.fingerprint_key);
        let mut hasher = MessageHasher { sip, waiting: [0; WAITING_BYTES_MAX], waiting_bytes: 0 };
        hasher.write([purpose as u8], b"");
        hasher
    }
}

fn fresh_nonce() -> Result<[u8; NONCE_BYTES], SealError> {
    let mut nonce = [0; NONCE_BYTES];
    getrandom::fill(&mut nonce).map_err(|_| SealError::NoRandomness)?;
    Ok(nonce)
}

fn seal(
    cipher: &ChaCha20Poly1305,
    nonce: [u8; NONCE_BYTES],
    secret: &[u8],
    context: &[u8],
) -> Result<Vec<u8>, SealError> {
    let payload = Payload { msg: secret, aad: context };
    let sealed = cipher.encrypt(&Nonce::from(nonce), payload).map_err(|_| SealError::Cipher)?;
    let mut kept = Vec::with_capacity(1 + NONCE_BYTES + sealed.len());
    kept.push(SEAL_FORMAT);
    kept.extend_from_slice(&nonce);
    kept.extend_from_slice(&sealed);
    Ok(kept)
}

fn open(cipher: &ChaCha20Poly1305, sealed: &[u8], context: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (&SEAL_FORMAT, rest) = sealed.split_first()? else { return None };
    let (nonce, ciphertext) = rest.split_first_chunk::<NONCE_BYTES>()?;
    let payload = Payload { msg: ciphertext, aad: context };
    cipher.decrypt(&Nonce::from(*nonce), payload).ok().map(Zeroizing::new)
}

fn link_context(kind: LinkSecret, link: SharedLinkId) -> [u8; 17] {
    context_of(kind as u8, link.0)
}

fn context_of(kind: u8, id: Uuid) -> [u8; 17] {
    let mut context = [kind; 17];
    context[1..].copy_from_slice(id.as_bytes());
    context
}

/// What is sealed for webhooks; one is never taken for the other.
#[derive(Clone, Copy)]
#[repr(u8)]
enum WebhookSeal {
    Secret = 1,
    Place = 2,
}

fn webhook_context(kind: WebhookSeal, id: Uuid) -> [u8; 17] {
    let mut context = [kind as u8; 17];
    context[1..].copy_from_slice(id.as_bytes());
    context
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

/// What a hash gathers before it takes it: all of any ISO 8583 message. Units: bytes.
const WAITING_BYTES_MAX: usize = 256;

/// A keyed hash in the making. Parts are delimited, and absent is not empty.
#[derive(Clone, Debug)]
pub struct MessageHasher {
    sip: SipHasher13,
    /// Parts not yet taken: many short ones are taken together.
    waiting: [u8; WAITING_BYTES_MAX],
    waiting_bytes: usize,
}

impl MessageHasher {
    /// Takes the next part.
    #[inline]
    pub fn part(&mut self, part: Option<&[u8]>) -> &mut Self {
        match part {
            None => self.write([0], b""),
            Some(bytes) => {
                let [a, b, c, d, e, f, g, h] = (bytes.len() as u64).to_le_bytes();
                self.write([1, a, b, c, d, e, f, g, h], bytes);
            }
        }
        self
    }

    /// Takes a number as the next part.
    #[inline]
    pub fn number(&mut self, number: u64) -> &mut Self {
        self.part(Some(&number.to_le_bytes()))
    }

    /// The hash in 128 bits.
    #[must_use]
    pub fn finish128(&mut self) -> u128 {
        self.flush();
        self.sip.finish128().as_u128()
    }

    /// The hash in 64 bits.
    #[must_use]
    pub fn finish64(&mut self) -> u64 {
        self.flush();
        self.sip.finish128().as_u64().0
    }

    #[inline]
    fn write<const N: usize>(&mut self, head: [u8; N], bytes: &[u8]) {
        if N + bytes.len() > WAITING_BYTES_MAX - self.waiting_bytes {
            self.flush();
        }
        let end = self.waiting_bytes + N + bytes.len();
        let place = self.waiting.get_mut(self.waiting_bytes..end);
        if let Some((head_place, place)) = place.and_then(<[u8]>::split_first_chunk_mut) {
            *head_place = head;
            copy_short(bytes, place);
            self.waiting_bytes = end;
        } else {
            self.sip.write(&head);
            self.sip.write(bytes);
        }
    }

    fn flush(&mut self) {
        self.sip.write(&self.waiting[..self.waiting_bytes]);
        self.waiting_bytes = 0;
    }
}

/// Copies bytes to a place as long as they are, without a call where there are few of them.
#[inline]
fn copy_short(bytes: &[u8], place: &mut [u8]) {
    // Two copies of a fixed length, which overlap, are cheaper than one of any length.
    if let (1..=16, Some(first), Some(last)) =
        (bytes.len(), bytes.first_chunk::<8>(), bytes.last_chunk::<8>())
    {
        let start = bytes.len() - 8;
        place[..8].copy_from_slice(first);
        place[start..].copy_from_slice(last);
    } else if bytes.len() < 8 {
        place.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
    } else {
        place.copy_from_slice(bytes);
    }
}

/// HMAC-SHA-256 under one key, of which the first 64 bits are used.
#[derive(Clone)]
struct KeyedHash {
    /// What the key makes of the two hashes, for messages of one block.
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

    fn new(key: &[u8; Self::BLOCK_BYTES]) -> Self {
        // Source: RFC 2104, 2.
        let state_of = |pad: u8| {
            let mut state = Self::INITIAL;
            compress256(&mut state, &[key.map(|byte| byte ^ pad)]);
            state
        };
        Self { inner: state_of(0x36), outer: state_of(0x5c), mac: Hmac::new(&(*key).into()) }
    }

    /// Cost: two compressions of SHA-256 for a short message; the key's own are done beforehand.
    fn number(&self, parts: &[&[u8]]) -> u64 {
        let tag = self.short_tag(parts).unwrap_or_else(|| self.long_tag(parts));
        let [first, second, ..] = tag;
        u64::from(first) << 32 | u64::from(second)
    }

    /// The first 128 bits of the tag.
    fn half_tag(&self, parts: &[&[u8]]) -> [u8; 16] {
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

    fn long_tag(&self, parts: &[&[u8]]) -> [u32; 8] {
        let mut mac = self.mac.clone();
        parts.iter().for_each(|part| mac.update(part));
        let tag = mac.finalize().into_bytes();
        std::array::from_fn(|word| {
            tag[4 * word..][..4].iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
        })
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

/// One key of the master's. Panics: never, keys are shorter than HKDF's limit.
pub(crate) fn derived<const N: usize>(source: &Hkdf<Sha256>, label: &[u8]) -> Zeroizing<[u8; N]> {
    let mut key = Zeroizing::new([0; N]);
    source.expand(label, key.as_mut_slice()).expect("keys are shorter than HKDF's limit");
    key
}

fn ascii_digit(value: u64) -> u8 {
    b'0' + u8::try_from(value % 10).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn what_opens_a_link_is_bound_to_its_link_and_its_use() {
        use LinkSecret::{Key, Passphrase};
        let (secrets, link) = (secrets(), SharedLinkId(Uuid::from_bytes([9; 16])));
        let other = SharedLinkId(Uuid::from_bytes([8; 16]));
        let sealed = secrets.seal_link(Key, b"secret", link).unwrap();
        assert_eq!(secrets.open_link(Key, &sealed, link).unwrap().as_slice(), b"secret");
        assert!(secrets.open_link(Key, &sealed, other).is_none());
        assert!(secrets.open_link(Passphrase, &sealed, link).is_none());
        assert!(Secrets::from_master([1; 32]).open_link(Key, &sealed, link).is_none());
        assert!(secrets.open_link(Key, &sealed[..sealed.len() - 1], link).is_none());
        assert!(secrets.open_link(Key, &[], link).is_none());
        let sealed = SealedPan(sealed);
        assert!(secrets.open_pan(&sealed, CardId(link.0)).is_none(), "one key for two uses");
    }

    #[test]
    fn links_are_found_by_half_an_hmac() {
        let secrets = secrets();
        let (key, mut other) = ([7; 32], [7; 32]);
        other[31] = 8;
        let digest = secrets.link_digest(&key);
        assert_eq!(digest, secrets.link_digest(&key));
        assert_ne!(digest, secrets.link_digest(&other));
        let whole = secrets.link_lookup.long_tag(&[&key]);
        let bytes: Vec<u8> = whole.iter().flat_map(|word| word.to_be_bytes()).collect();
        assert_eq!(digest, bytes[..16]);
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
            let mut hasher = secrets.message_hasher(purpose);
            parts.iter().for_each(|part| {
                hasher.part(*part);
            });
            hasher.finish128()
        };
        use HashPurpose::{Duplicate, Trace};
        let base = hash(Duplicate, &[Some(b"ab"), Some(b"c")]);
        assert_eq!(base, hash(Duplicate, &[Some(b"ab"), Some(b"c")]));
        assert_ne!(base, hash(Duplicate, &[Some(b"a"), Some(b"bc")]));
        assert_ne!(base, hash(Trace, &[Some(b"ab"), Some(b"c")]));
        assert_ne!(hash(Duplicate, &[None]), hash(Duplicate, &[Some(b"")]));
    }

    #[test]
    fn message_hashes_are_siphash_of_the_delimited_parts_however_long() {
        let secrets = secrets();
        for lens in [&[0][..], &[3, 5], &[236, 1], &[237, 1], &[250, 300, 7], &[1_000], &[40; 30]] {
            let mut plain = SipHasher13::new_with_key(&secrets.fingerprint_key);
            let mut gathered = secrets.message_hasher(HashPurpose::Content);
            plain.write(&[HashPurpose::Content as u8]);
            for (at, len) in lens.iter().enumerate() {
                let part = vec![u8::try_from(at).unwrap(); *len];
                gathered.part(Some(&part)).part(None);
                plain.write(&[1]);
                plain.write(&(part.len() as u64).to_le_bytes());
                plain.write(&part);
                plain.write(&[0]);
            }
            assert_eq!(gathered.finish128(), plain.finish128().as_u128(), "{lens:?}");
            assert_eq!(gathered.finish64(), plain.finish128().as_u64().0, "{lens:?}");
        }
    }

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
