//! The places of lanes beside `deliveries.redb`: `deliveries.places` in the data directory. A backup
//! carries it, and a start without lanes goes on from it.
//!
//! | bytes | content |
//! |---|---|
//! | 1 | format |
//! | 32 | SHA-256 of the rest |
//! | rest | `LanePlaces` |
//!
//! INVARIANT: a lane that begins at its place here delivers everything that it owed when the file was
//! written or came later. So an old file only repeats more. Places are instants, because numbers of
//! events have other meanings in a log that was put back.

use std::collections::BTreeMap;

use cardswitch_engine::codec::{CodecError, decode, encode};
use cardswitch_engine::domain::ids::{Timestamp, WebhookEndpointId};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The file's name.
pub const FILE: &str = "deliveries.places";
const FORMAT: u8 = 1;
/// Bytes before the content.
const HEAD_BYTES: usize = 33;

/// The places of all lanes that are on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LanePlaces {
    /// The instant of the last event that was handed to lanes.
    pub as_of: Timestamp,
    /// The instant of the first event that each lane may still owe; `as_of` where it owes none.
    pub lanes: BTreeMap<WebhookEndpointId, Timestamp>,
}

impl LanePlaces {
    /// The content of the file.
    /// Errors: the codec's.
    pub fn render(&self) -> Result<Vec<u8>, CodecError> {
        let content = encode(self)?;
        let mut bytes = vec![FORMAT];
        bytes.extend(Sha256::digest(&content));
        bytes.extend(content);
        Ok(bytes)
    }

    /// Reads the content of the file; none where it is damaged.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (head, content) = bytes.split_at_checked(HEAD_BYTES)?;
        let (format, sum) = head.split_first()?;
        let is_whole = *format == FORMAT && sum == Sha256::digest(content).as_slice();
        is_whole.then(|| decode(content).ok()).flatten()
    }

    /// The instant from which a lane may owe events. A lane that is not here was turned on when the
    /// file was written or later, and noticed `notice_us` after that at most.
    pub(crate) fn begin_of(&self, id: WebhookEndpointId, notice_us: i64) -> Timestamp {
        self.lanes.get(&id).copied().unwrap_or_else(|| self.as_of.plus(-notice_us))
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn places_are_read_back_and_damage_is_no_place() {
        let id = WebhookEndpointId(Uuid::from_u128(7));
        let lanes = BTreeMap::from([(id, Timestamp(40))]);
        let places = LanePlaces { as_of: Timestamp(90), lanes };
        let bytes = places.render().unwrap();
        assert_eq!(LanePlaces::parse(&bytes), Some(places.clone()));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(LanePlaces::parse(&damaged), None, "byte {at}");
            assert_eq!(LanePlaces::parse(&bytes[..at]), None, "cut at {at}");
        }
        let other = WebhookEndpointId(Uuid::from_u128(8));
        assert_eq!([id, other].map(|id| places.begin_of(id, 5).0), [40, 85]);
    }
}
