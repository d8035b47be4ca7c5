//! Exchanged keys: keys that doors of the card network received by exchange, in place of those in
//! their own files. The newest key of each door and use is stored. The edge seals keys and checks
//! the messages that bring them; the engine never sees a key in the clear.
//!
//! INVARIANT: the time of the newest message only rises. So no message brings a key twice, across
//! restarts, restores and takeovers.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Builder;

use super::change::StateChange;
use super::entry::Entries;
use super::row::IndexedRow;
use crate::command::audit_line::{AuditLine, AuditTarget, AuditedPlace};
use crate::command::reply::Rejection;
use crate::command::resource::commands;
use crate::domain::ids::{ExchangedKeyId, ExchangedKeySlot, Timestamp};

/// The newest exchanged key of a door for a use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExchangedKey {
    /// The row's slot.
    pub slot: ExchangedKeySlot,
    /// Its public id, which follows from door and use.
    pub id: ExchangedKeyId,
    /// The key, with the data of its message.
    pub key: NewExchangedKey,
    /// The exchanged key before it, sealed; none if the key before it was that of the door's file.
    pub sealed_before: Option<Vec<u8>>,
    /// Whether the door's file had another key since. Then this one counts no more, and is not stored.
    pub is_void: bool,
    /// The time of the first accepted exchange of this door and use.
    pub created_at: Timestamp,
}

/// A key that a message brought.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewExchangedKey {
    /// The name of the door.
    pub door: String,
    /// The use of the key, such as `M3`. Source: ANSI X9.143, key usage.
    pub usage: String,
    /// The key, as the edge sealed it for this door and use.
    pub sealed: Vec<u8>,
    /// The check value, by which both ends compare the key.
    pub check_value: [u8; 3],
    /// The check value of the key in the door's own file; a file with another key replaces this
    /// one.
    pub base: [u8; 3],
    /// The time in its message. Source: ISO DE7.
    pub sent_at: Timestamp,
    /// The end of the time in which the key before is valid too, by the clock of the edge: that of
    /// the engine may be virtual.
    pub overlap_until: Timestamp,
}

impl ExchangedKeyId {
    /// The id of the newest key of a door for a use.
    pub fn of(door: &str, usage: &str) -> Self {
        // The separator is unambiguous, since no door's name has a space in it.
        let digest: [u8; 32] = Sha256::digest(format!("{door} {usage}")).into();
        Self(Builder::from_custom_bytes(std::array::from_fn(|place| digest[place])).into_uuid())
    }
}

impl NewExchangedKey {
    fn id(&self) -> ExchangedKeyId {
        ExchangedKeyId::of(&self.door, &self.usage)
    }
}

/// An exchanged key has no index but that by id.
impl IndexedRow for ExchangedKey {
    const CHANGES_ACCESS: bool = false;

    fn is_found(&self) -> bool {
        true
    }

    fn index(&self, _: &mut Entries) {}
}

commands! {
    /// The commands on exchanged keys.
    #[derive(Clone, Debug)]
    pub enum ExchangedKeyCommand(change) {
        /// Replaces the current key by a new one.
        Exchange(new: NewExchangedKey) =>
            AuditLine::new(AuditedPlace::Switch, "zone_key.exchanged", AuditTarget::One(new.id().0)),
            exchange(change, new);
        /// Makes a key void for good: the door's file has another key, of this check value.
        Void(id: ExchangedKeyId, base: [u8; 3]) =>
            AuditLine::new(AuditedPlace::Switch, "zone_key.voided", AuditTarget::One(id.0)),
            void(change, *id, *base);
    }
}

/// Stores a new key. The key before it stays as long as both follow the same key of the door's
/// file.
/// Errors: an earlier message with this time or a later one brought a key.
fn exchange(change: &mut StateChange<'_>, new: &NewExchangedKey) -> Result<(), Rejection> {
    let (keys, id) = (&change.state.directory().exchanged_keys, new.id());
    let known = keys.find(id.0);
    if known.is_some_and(|known| new.sent_at <= known.key.sent_at) {
        return Err(Rejection::ZoneKeyRepeated);
    }
    let before = known.filter(|known| known.key.base == new.base && !known.is_void);
    let row = ExchangedKey {
        slot: known.map_or_else(|| keys.slot_for(id.0), |known| Ok(known.slot))?,
        id,
        key: new.clone(),
        sealed_before: before.map(|known| known.key.sealed.clone()),
        is_void: false,
        created_at: known.map_or(change.moment.at, |known| known.created_at),
    };
    change.put(row);
    Ok(())
}

/// Lets go of a key, but for the time of its message: that one gives no key again.
fn void(change: &mut StateChange<'_>, id: ExchangedKeyId, base: [u8; 3]) -> Result<(), Rejection> {
    let known = change.state.directory().exchanged_keys.find(id.0);
    let known = known.filter(|known| !known.is_void && known.key.base != base);
    if let Some(mut row) = known.cloned() {
        row.is_void = true;
        row.key.sealed = Vec::new();
        row.sealed_before = None;
        change.put(row);
    }
    Ok(())
}
