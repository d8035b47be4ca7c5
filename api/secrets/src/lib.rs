//! Every use of a secret key: card numbers sealed and looked up, CVVs and PINs verified, messages
//! fingerprinted, shared links sealed and looked up, tokens digested.
//!
//! Each use has a key of its own, derived with HKDF-SHA-256 from the 32-byte data key of the directory,
//! which the master key wraps (see `master_key/data_key`):
//!
//! | label | bytes | use |
//! |---|---|---|
//! | `pan seal` | 32 | ChaCha20-Poly1305 over card numbers, card id as associated data: generation 0, see `pan_seal` |
//! | `pan key wrap` | 32 | ChaCha20-Poly1305 over later generations of that key, see `pan_keys` |
//! | `pan keys sum` | 64 | HMAC-SHA-256 of the file that keeps them, first 128 bits |
//! | `data key sum` | 64 | HMAC-SHA-256 of the file that keeps the data key, first 128 bits |
//! | `backup manifest` | 64 | HMAC-SHA-256 of the manifest of a backup, first 128 bits |
//! | `pan lookup` | 64 | HMAC-SHA-256 of card numbers, first 64 bits |
//! | `cvv` | 64 | HMAC-SHA-256 of card numbers, reduced to three digits |
//! | `pin` | 64 | HMAC-SHA-256 of card number and PIN, first 64 bits, never zero |
//! | `id permutation` | 16 | public ids |
//! | `message fingerprint` | 16 | SipHash-128 of network messages |
//! | `idempotency ..` | | see `idempotency_keys` |
//! | `link seal` | 32 | ChaCha20-Poly1305 over keys and passphrases of shared links, kind and link
//! id as associated data |
//! | `site forms` | 64 | HMAC-SHA-256 of the bond of a form of the site, first 128 bits |
//! | `link lookup` | 64 | HMAC-SHA-256 of the keys in shared links, first 128 bits |
//! | `webhook seal` | 32 | ChaCha20-Poly1305 over secrets of webhook endpoints and places in the event log, kind and id as associated data |
//! | `event place` | 64 | HMAC-SHA-256 of places in the event log, first 96 bits: the nonce they are sealed under |
//! | `mail seal` | 32 | ChaCha20-Poly1305 over letters that wait, kind and id of their file as associated data |
//! | `node calls` | 64 | HMAC-SHA-256 of what nodes of a cluster ask each other, first 128 bits |
//! | `node settings` | 64 | HMAC-SHA-256 of settings that nodes compare, first 128 bits |
//! | `zone seal` | 32 | ChaCha20-Poly1305 over exchanged zone keys, id as associated data |
//! | `totp seal` | 32 | ChaCha20-Poly1305 over seeds of one-time codes, user id as associated data |
//!
//! A sealed value is: format (1 byte, 1), nonce (12), ciphertext and tag. A card number under a
//! later generation has a form of its own. Only the key of card numbers and the master key are ever
//! replaced.

pub mod hex;
pub mod idempotency_keys;
pub mod issuing;
mod keyed_hash;
pub mod link_secrets;
pub mod master_key;
mod message_hash;
pub mod pan;
mod pan_keys;
mod pan_seal;
pub mod plain_file;
pub mod private_file;
pub mod process;
mod seal;
pub mod summed_text;
pub mod webhook_signature;

use cardswitch_engine::domain::card::{PanHash, SealedPan};
use cardswitch_engine::domain::credential::PinVerifier;
use cardswitch_engine::domain::ids::{
    CardId, CompanyId, ExchangedKeyId, SharedLinkId, UserId, WebhookEndpointId,
};
use cardswitch_engine::domain::pan_key::PanGeneration;
use chacha20poly1305::ChaCha20Poly1305;
use chacha20poly1305::aead::KeyInit as _;
use hkdf::Hkdf;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use uuid::Uuid;
use zeroize::Zeroizing;

pub use self::message_hash::{HashPurpose, MessageHasher};
pub use self::pan_keys::{PanKey, PanKeys, PanKeysError};
pub use self::seal::SealError;

pub use self::keyed_hash::KeyedHash;
use self::pan_seal::PanSeal;
use self::seal::{NONCE_BYTES, context_of};
pub(crate) use self::seal::{fresh_nonce, open, seal};
use crate::hex::to_hex;
use crate::idempotency_keys::IdempotencyKeys;
use crate::issuing::{IssueError, RandomSource};
use crate::master_key::MasterKey;
use crate::pan::Pan;

const KEY_SALT: &[u8] = b"cardswitch keys 1";

/// The keys of one switch, ready to use.
#[derive(Clone)]
pub struct Secrets {
    pan_seal: PanSeal,
    pan_key_wrap: ChaCha20Poly1305,
    pan_keys_tag: KeyedHash,
    /// The key of the data key file's sum.
    pub data_key_sum: KeyedHash,
    /// The key of a backup manifest's sum.
    pub manifest_sum: KeyedHash,
    pan_lookup: KeyedHash,
    cvv: KeyedHash,
    pin: KeyedHash,
    id_key: Zeroizing<[u8; 16]>,
    fingerprint_key: Zeroizing<[u8; 16]>,
    /// The keys behind idempotency keys.
    pub idempotency: IdempotencyKeys,
    link_seal: ChaCha20Poly1305,
    link_lookup: KeyedHash,
    totp_seal: ChaCha20Poly1305,
    mail_seal: ChaCha20Poly1305,
    site_forms: KeyedHash,
    webhook_seal: ChaCha20Poly1305,
    event_place: KeyedHash,
    node_calls: KeyedHash,
    node_settings: KeyedHash,
    zone_seal: ChaCha20Poly1305,
}

cardswitch_engine::opaque!(Secrets);

/// A key under which nodes of a cluster sign what they say to each other.
pub trait NodeCallKey {
    /// The tag of a request or of an answer, in parts.
    fn node_call_tag(&self, parts: &[&[u8]]) -> [u8; 16];

    /// Whether a tag was made with this key.
    fn is_node_call(&self, parts: &[&[u8]], tag: &[u8]) -> bool {
        self.node_call_tag(parts).ct_eq(tag).into()
    }
}

/// The key of nodes that have the data directory.
impl NodeCallKey for Secrets {
    fn node_call_tag(&self, parts: &[&[u8]]) -> [u8; 16] {
        self.node_calls.half_tag(parts)
    }
}

/// The key of a joining node, which has the master key alone.
impl NodeCallKey for MasterKey {
    fn node_call_tag(&self, parts: &[&[u8]]) -> [u8; 16] {
        self.join_calls().half_tag(parts)
    }
}

/// The secrets that are kept sealed, each with its owner; one is never taken for another.
#[derive(Clone, Copy, Debug)]
pub enum SealedSecret {
    /// The key in the address of a shared link.
    LinkKey(SharedLinkId),
    /// The passphrase fields that a viewer of a shared link has to know.
    LinkPassphrase(SharedLinkId),
    /// The seed of a user's one-time codes.
    Totp(UserId),
    /// The secret that signs the webhooks of an endpoint.
    Webhook(WebhookEndpointId),
    /// A place in the event log, for a company.
    EventPlace(CompanyId),
    /// An email, or news of one, in a file of the mail queue.
    Mail(MailFile, Uuid),
    /// A zone key that a door was given.
    ZoneKey(ExchangedKeyId),
}

/// The kinds of files in the mail queue; one is never taken for the other.
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

/// The kinds of bonds of a form of the site; one is never taken for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FormBond {
    /// A session.
    Session = 1,
    /// A visitor who has none.
    Visitor = 2,
    /// A shared link whose passphrase its viewer knows.
    SharedLink = 3,
    /// A browser that a user signed in with.
    Device = 4,
    /// A session, while it acts for a company.
    Company = 5,
}

impl Secrets {
    /// Derives every key from the data key.
    pub fn from_root(data_key: [u8; 32]) -> Self {
        let data_key = Zeroizing::new(data_key);
        let source = Hkdf::<Sha256>::new(Some(KEY_SALT), data_key.as_slice());
        Self {
            pan_seal: PanSeal::new(cipher(&source, b"pan seal")),
            pan_key_wrap: cipher(&source, b"pan key wrap"),
            pan_keys_tag: KeyedHash::new(&derived(&source, b"pan keys sum")),
            data_key_sum: KeyedHash::new(&derived(&source, b"data key sum")),
            manifest_sum: KeyedHash::new(&derived(&source, b"backup manifest")),
            pan_lookup: KeyedHash::new(&derived(&source, b"pan lookup")),
            cvv: KeyedHash::new(&derived(&source, b"cvv")),
            pin: KeyedHash::new(&derived(&source, b"pin")),
            id_key: derived(&source, b"id permutation"),
            fingerprint_key: derived(&source, b"message fingerprint"),
            idempotency: IdempotencyKeys::derive(&source),
            link_seal: cipher(&source, b"link seal"),
            link_lookup: KeyedHash::new(&derived(&source, b"link lookup")),
            totp_seal: cipher(&source, b"totp seal"),
            mail_seal: cipher(&source, b"mail seal"),
            site_forms: KeyedHash::new(&derived(&source, b"site forms")),
            webhook_seal: cipher(&source, b"webhook seal"),
            event_place: KeyedHash::new(&derived(&source, b"event place")),
            node_calls: KeyedHash::new(&derived(&source, b"node calls")),
            node_settings: KeyedHash::new(&derived(&source, b"node settings")),
            zone_seal: cipher(&source, b"zone seal"),
        }
    }

    /// The digest by which the nodes of a cluster compare a setting. Nobody else learns the value by it.
    pub fn setting_digest(&self, name: &str, value: &str) -> [u8; 16] {
        self.node_settings.half_tag(&[name.as_bytes(), b"=", value.as_bytes()])
    }

    /// The hash by which the engine finds a card.
    /// Cost: two compressions of SHA-256; the key's own are done beforehand.
    pub fn pan_hash(&self, pan: &Pan) -> PanHash {
        PanHash(self.pan_lookup.number(&[pan.digits()]))
    }

    /// Seals a card number for keeping, under the newest generation of the key and a nonce of its own.
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
        self.pan_seal.seal(nonce, pan.digits(), card)
    }

    /// Opens a sealed card number; none where it was not sealed here for this card, or under a
    /// generation of the key that is not kept.
    pub fn open_pan(&self, sealed: &SealedPan, card: CardId) -> Option<Pan> {
        Pan::parse(&self.pan_seal.open(sealed, card)?)
    }

    /// Seals and opens card numbers with these generations from now on; so do all copies.
    pub fn take_pan_keys(&self, keys: &PanKeys) {
        self.pan_seal.take(keys);
    }

    /// The generation of the key that card numbers are sealed under.
    pub fn pan_generation(&self) -> PanGeneration {
        self.pan_seal.newest()
    }

    /// Seals a secret for keeping, under a nonce of its own.
    /// Errors: no randomness.
    pub fn seal(&self, of: SealedSecret, plain: &[u8]) -> Result<Vec<u8>, SealError> {
        let (cipher, context) = self.seal_of(of);
        seal(cipher, fresh_nonce()?, plain, &context)
    }

    /// Opens a sealed secret; none where it was not sealed here as this one.
    pub fn open(&self, of: SealedSecret, sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (cipher, context) = self.seal_of(of);
        open(cipher, sealed, &context)
    }

    /// The cipher of a secret, and the associated data.
    fn seal_of(&self, of: SealedSecret) -> (&ChaCha20Poly1305, Vec<u8>) {
        let context = |kind, id| context_of(kind, id).to_vec();
        match of {
            SealedSecret::LinkKey(id) => (&self.link_seal, context(1, id.0)),
            SealedSecret::LinkPassphrase(id) => (&self.link_seal, context(2, id.0)),
            SealedSecret::Totp(id) => (&self.totp_seal, id.0.as_bytes().to_vec()),
            SealedSecret::Webhook(id) => (&self.webhook_seal, context(1, id.0)),
            SealedSecret::EventPlace(id) => (&self.webhook_seal, context(2, id.0)),
            SealedSecret::Mail(file, id) => (&self.mail_seal, context(file as u8, id)),
            SealedSecret::ZoneKey(id) => (&self.zone_seal, id.0.as_bytes().to_vec()),
        }
    }

    /// The hash by which a shared link is found.
    pub fn link_digest(&self, key: &[u8; 32]) -> [u8; 16] {
        self.link_lookup.half_tag(&[key])
    }

    /// Seals a zone key that a door was given, under a nonce of its own.
    /// Errors: no randomness.
    pub fn seal_zone_key(
        &self,
        key: &[u8],
        of: ExchangedKeyId,
        random: &mut dyn RandomSource,
    ) -> Result<Vec<u8>, IssueError> {
        let mut nonce = [0; NONCE_BYTES];
        random.fill(&mut nonce)?;
        let (cipher, context) = self.seal_of(SealedSecret::ZoneKey(of));
        seal(cipher, nonce, key, &context).map_err(IssueError::Seal)
    }

    /// Seals a place in the event log for a company: the same place always as the same bytes, so
    /// that clients can compare them.
    /// Errors: the cipher refuses.
    pub fn seal_event_place(&self, place: &[u8], company: CompanyId) -> Result<Vec<u8>, SealError> {
        let (cipher, context) = self.seal_of(SealedSecret::EventPlace(company));
        let tag = self.event_place.half_tag(&[&context, place]);
        let nonce = std::array::from_fn(|index| tag[index]);
        seal(cipher, nonce, place, &context)
    }

    /// The tag of a form of the site, which shows its bond, as text.
    pub fn form_tag(&self, bond: FormBond, bound_to: &[u8]) -> String {
        to_hex(&self.site_forms.half_tag(&[&[bond as u8], bound_to]))
    }

    /// The card verification value of a card number: three ASCII digits, nowhere stored.
    pub fn cvv(&self, pan: &Pan) -> [u8; 3] {
        let number = self.cvv.number(&[pan.digits()]);
        [number / 100 % 10, number / 10 % 10, number % 10].map(ascii_digit)
    }

    /// The value by which the engine compares PINs of this card; never that of "no PIN".
    pub fn pin_verifier(&self, pan: &Pan, pin: &[u8]) -> PinVerifier {
        let pan_len = [u8::try_from(pan.digits().len()).unwrap_or(u8::MAX)];
        PinVerifier(self.pin.number(&[&pan_len, pan.digits(), pin]).max(1))
    }

    /// The key of the public ids.
    pub fn id_key(&self) -> [u8; 16] {
        *self.id_key
    }

    /// A keyed hash over the parts of a message; hashes of different purposes never meet.
    pub fn message_hasher(&self, purpose: HashPurpose) -> MessageHasher {
        MessageHasher::new(&self.fingerprint_key, purpose)
    }
}

/// The digest under which a token or key is kept. Tokens are 256 random bits, so a plain hash
/// gives nothing away.
pub fn token_digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// Compares two digests in constant time.
pub fn digests_equal(left: &[u8; 32], right: &[u8; 32]) -> bool {
    left.ct_eq(right).into()
}

/// Compares two short secrets in constant time.
pub fn codes_equal(left: &[u8], right: &[u8]) -> bool {
    left.ct_eq(right).into()
}

/// One of the keys that follow from another. Panics: never, keys are shorter than HKDF's limit.
pub fn derived<const N: usize>(source: &Hkdf<Sha256>, label: &[u8]) -> Zeroizing<[u8; N]> {
    let mut key = Zeroizing::new([0; N]);
    source.expand(label, key.as_mut_slice()).expect("keys are shorter than HKDF's limit");
    key
}

fn cipher(source: &Hkdf<Sha256>, label: &[u8]) -> ChaCha20Poly1305 {
    ChaCha20Poly1305::new(&(*derived::<32>(source, label)).into())
}

fn ascii_digit(value: u64) -> u8 {
    b'0' + u8::try_from(value % 10).unwrap_or(0)
}

#[cfg(test)]
#[path = "secrets_tests.rs"]
mod tests;
