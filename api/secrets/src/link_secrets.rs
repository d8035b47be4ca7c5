//! The secrets of a shared link: the key in its address, and the passphrase fields that a viewer
//! has to know. In clear they exist here and in answers to administrators only.
//!
//! The key is 256 random bits, written as 64 hexadecimal digits. Passphrase fields are sealed as one
//! JSON array of `{name, value, type}`.

use cardswitch_engine::domain::ids::SharedLinkId;
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, Zeroizing};

use crate::hex::{array_from_hex, to_hex};
use crate::issuing::{IssueError, RandomSource};
use crate::{SealError, SealedSecret, Secrets};

/// The key in the address of a shared link.
pub struct LinkKey([u8; 32]);

cardswitch_engine::opaque!(LinkKey, PassphraseField);

impl Drop for LinkKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl LinkKey {
    /// A key that nobody can guess.
    /// Errors: no randomness.
    pub fn draw(random: &mut dyn RandomSource) -> Result<Self, IssueError> {
        let text = Zeroizing::new(random.token()?);
        // INVARIANT: a token is what an address has.
        Self::parse(&text).ok_or(IssueError::NoRandomness)
    }

    /// Reads the key in an address; none where the text cannot be one.
    pub fn parse(text: &str) -> Option<Self> {
        // An address is written in one way.
        let key = array_from_hex(text).filter(|_| !text.contains(char::is_uppercase))?;
        Some(Self(*key))
    }

    /// The key as it stands in an address.
    pub fn text(&self) -> String {
        to_hex(&self.0)
    }

    /// The hash by which its link is found.
    pub fn digest(&self, secrets: &Secrets) -> [u8; 16] {
        secrets.link_digest(&self.0)
    }

    /// Seals the key for keeping.
    /// Errors: no randomness.
    pub fn seal(&self, secrets: &Secrets, link: SharedLinkId) -> Result<Vec<u8>, SealError> {
        secrets.seal(SealedSecret::LinkKey(link), &self.0)
    }

    /// Opens a sealed key; none where it was not sealed here for this link.
    pub fn open(secrets: &Secrets, link: SharedLinkId, sealed: &[u8]) -> Option<Self> {
        let bytes = secrets.open(SealedSecret::LinkKey(link), sealed)?;
        bytes.as_slice().try_into().ok().map(Self)
    }
}

/// The kind of value that a viewer is asked for. Source: spec "Shared link", passphrase_fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PassphraseKind {
    /// Any text.
    #[default]
    Text,
    /// A date, `yyyy-mm-dd`.
    Date,
}

/// One security question.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PassphraseField {
    /// Question.
    pub name: String,
    /// Answer.
    pub value: String,
    /// Type of the answer.
    #[serde(rename = "type")]
    #[schema(value_type = cardswitch_wire::words::PassphraseType)]
    pub kind: PassphraseKind,
}

impl Drop for PassphraseField {
    fn drop(&mut self) {
        self.value.zeroize();
    }
}

/// Seals passphrase fields for keeping.
/// Errors: no randomness.
pub fn seal_passphrase(
    secrets: &Secrets,
    link: SharedLinkId,
    fields: &[PassphraseField],
) -> Result<Vec<u8>, SealError> {
    let plain = serde_json::to_vec(fields).map(Zeroizing::new).map_err(|_| SealError::Cipher)?;
    secrets.seal(SealedSecret::LinkPassphrase(link), &plain)
}

/// Opens sealed passphrase fields; none where they were not sealed here for this link.
pub fn open_passphrase(
    secrets: &Secrets,
    link: SharedLinkId,
    sealed: &[u8],
) -> Option<Vec<PassphraseField>> {
    let plain = secrets.open(SealedSecret::LinkPassphrase(link), sealed)?;
    serde_json::from_slice(&plain).ok()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::issuing::SystemRandom;

    const LINK: SharedLinkId = SharedLinkId(Uuid::from_bytes([5; 16]));
    const OTHER: SharedLinkId = SharedLinkId(Uuid::from_bytes([6; 16]));

    #[test]
    fn keys_are_64_digits_and_open_for_their_link_only() {
        let secrets = Secrets::from_root([3; 32]);
        let key = LinkKey::draw(&mut SystemRandom).unwrap();
        let other = LinkKey::draw(&mut SystemRandom).unwrap();
        assert_eq!(key.text().len(), 64);
        assert_ne!(key.text(), other.text());
        assert_eq!(LinkKey::parse(&key.text()).unwrap().text(), key.text());
        let shout = format!("{}A", &key.text()[1..]);
        for text in ["", "00", &key.text()[1..], &format!("{}0", key.text()), &shout] {
            assert!(LinkKey::parse(text).is_none(), "{text}");
        }
        assert!(LinkKey::parse(&"\u{e9}".repeat(32)).is_none());
        assert_ne!(key.digest(&secrets), other.digest(&secrets));
        let sealed = key.seal(&secrets, LINK).unwrap();
        assert_eq!(LinkKey::open(&secrets, LINK, &sealed).unwrap().text(), key.text());
        assert!(LinkKey::open(&secrets, OTHER, &sealed).is_none());
    }

    #[test]
    fn passphrases_are_kept_whole_and_hidden() {
        let secrets = Secrets::from_root([3; 32]);
        let field = |name: &str, value: &str, kind| PassphraseField {
            name: name.to_owned(),
            value: value.to_owned(),
            kind,
        };
        let fields = vec![
            field("Birthday", "1990-02-28", PassphraseKind::Date),
            field("Pet \u{1f415}", "Rex \"the\" dog", PassphraseKind::Text),
        ];
        let sealed = seal_passphrase(&secrets, LINK, &fields).unwrap();
        assert_eq!(open_passphrase(&secrets, LINK, &sealed), Some(fields.clone()));
        assert_eq!(open_passphrase(&secrets, OTHER, &sealed), None);
        assert_eq!(open_passphrase(&secrets, LINK, b"\x01"), None);
        let shown = format!("{fields:?} {:?}", LinkKey([1; 32]));
        assert!(!shown.contains("Rex") && !shown.contains("01"), "{shown}");
        assert!(!sealed.windows(3).any(|part| part == b"Rex"));
    }
}
