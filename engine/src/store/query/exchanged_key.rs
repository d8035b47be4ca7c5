//! Keys that doors were given by exchange.

use crate::directory::exchanged_key::ExchangedKey;
use crate::domain::ids::ExchangedKeyId;
use crate::store::error::StoreError;
use crate::store::query::Snapshot;

impl Snapshot {
    /// The newest exchanged key of a door for a use.
    pub fn exchanged_key(
        &self,
        door: &str,
        usage: &str,
    ) -> Result<Option<ExchangedKey>, StoreError> {
        self.row_by_id(ExchangedKeyId::of(door, usage).0)
    }
}
