//! Sealing: ChaCha20-Poly1305 under one key, with the secret's owner as associated data.
//!
//! A sealed value is: format (1 byte, 1), nonce (12), ciphertext and tag. Card numbers have a form
//! of their own besides: see `pan_seal`.

use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{ChaCha20Poly1305, Nonce};
use uuid::Uuid;
use zeroize::Zeroizing;

pub(super) const SEAL_FORMAT: u8 = 1;
pub(super) const NONCE_BYTES: usize = 12;

/// A secret could not be sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The system gave no random bytes.
    #[error("the system gave no random bytes")]
    NoRandomness,
    /// The cipher refused.
    #[error("the cipher refused a secret")]
    Cipher,
}

pub(crate) fn fresh_nonce() -> Result<[u8; NONCE_BYTES], SealError> {
    let mut nonce = [0; NONCE_BYTES];
    getrandom::fill(&mut nonce).map_err(|_| SealError::NoRandomness)?;
    Ok(nonce)
}

pub(crate) fn seal(
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

pub(crate) fn open(
    cipher: &ChaCha20Poly1305,
    sealed: &[u8],
    context: &[u8],
) -> Option<Zeroizing<Vec<u8>>> {
    let (&SEAL_FORMAT, rest) = sealed.split_first()? else { return None };
    let (nonce, ciphertext) = rest.split_first_chunk::<NONCE_BYTES>()?;
    let payload = Payload { msg: ciphertext, aad: context };
    cipher.decrypt(&Nonce::from(*nonce), payload).ok().map(Zeroizing::new)
}

/// The associated data of a secret: its kind and an id.
pub(super) fn context_of(kind: u8, id: Uuid) -> [u8; 17] {
    let mut context = [kind; 17];
    context[1..].copy_from_slice(id.as_bytes());
    context
}
