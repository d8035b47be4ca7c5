//! A shared link: a card shown to whoever holds the link.

use serde::{Deserialize, Serialize};

use super::ids::{CardSlot, CompanySlot, SharedLinkId, SharedLinkSlot, Timestamp};
use super::text::LineText;

/// Who was sent a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recipient {
    /// The name it was sent to.
    pub name: LineText,
    /// The address it was sent to.
    pub email: String,
}

/// A shared link. Source: spec "Shared link". What opens it is sealed by the edge and unreadable
/// here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedLink {
    /// Where it stands.
    pub slot: SharedLinkSlot,
    /// Its public id.
    pub id: SharedLinkId,
    /// Whose it is.
    pub company: CompanySlot,
    /// What it shows.
    pub card: CardSlot,
    /// The keyed hash it is found by.
    pub key_digest: [u8; 16],
    /// The key in the link.
    pub sealed_key: Vec<u8>,
    /// Who was sent it.
    pub recipient: Option<Recipient>,
    /// What has to be known to see the card, as the edge writes it.
    pub sealed_passphrase: Option<Vec<u8>>,
    /// Whether balance and budget stay hidden.
    pub hide_balance: bool,
    /// When somebody last looked.
    pub last_viewed_at: Option<Timestamp>,
    /// Gone from lists; the link opens nothing any more.
    pub is_deleted: bool,
    /// When it was made.
    pub created_at: Timestamp,
}
