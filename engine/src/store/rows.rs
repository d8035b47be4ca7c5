//! What is stored: the payloads of effects as they are, with a version byte before them.
//!
//! Most row types are the domain's own; only what an effect bundles and later changes in parts
//! (`IssuedCard`) is taken apart here.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::StoreError;
use crate::codec::{self, CodecError};
use crate::command::effect::IssuedCard;
use crate::domain::allowance::{AllowanceTerms, CardUsage};
use crate::domain::business_date::BusinessDate;
use crate::domain::card::{CardRecord, PanHash, SealedPan};
use crate::domain::credential::{PackedZip, PinVerifier};
use crate::domain::ids::AccountSlot;

/// The version of every row type; a row of another one is refused, never guessed at.
const ROW_FORMAT: u8 = 1;

/// What never changes about a card after it was made, less its profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CardBase {
    pub(super) pan_hash: PanHash,
    pub(super) account: AccountSlot,
    pub(super) expires_on: BusinessDate,
    pub(super) sealed_pan: SealedPan,
}

impl CardBase {
    /// The base of a card as it is made.
    pub(super) fn of(issued: &IssuedCard) -> Self {
        Self {
            pan_hash: issued.record.pan_hash,
            account: issued.record.account,
            expires_on: issued.record.expires_on,
            sealed_pan: issued.sealed_pan.clone(),
        }
    }

    /// The hot record: the base with what may have changed since.
    pub(super) fn record(&self, parts: CardParts) -> CardRecord {
        CardRecord {
            pan_hash: self.pan_hash,
            pin: parts.pin,
            zip: parts.zip,
            account: self.account,
            expires_on: self.expires_on,
            usage: parts.usage,
            terms: parts.terms,
        }
    }
}

/// What changes about a card's hot record.
pub(super) struct CardParts {
    pub(super) pin: PinVerifier,
    pub(super) zip: PackedZip,
    pub(super) usage: CardUsage,
    pub(super) terms: AllowanceTerms,
}

/// A row's bytes.
/// Errors: `Row` if the value is longer than a record may be.
pub(super) fn encode<T: Serialize>(table: &'static str, row: &T) -> Result<Vec<u8>, StoreError> {
    let mut bytes = vec![ROW_FORMAT];
    codec::encode_into(row, &mut bytes).map_err(|source| StoreError::Row { table, source })?;
    Ok(bytes)
}

/// The row in these bytes.
/// Errors: `Row` if they are of another version or damaged.
pub(super) fn decode<T: DeserializeOwned>(
    table: &'static str,
    bytes: &[u8],
) -> Result<T, StoreError> {
    let outcome = match bytes.split_first() {
        None => Err(CodecError::Cut),
        Some((&ROW_FORMAT, body)) => codec::decode(body),
        Some((&version, _)) => Err(CodecError::UnknownVersion { version }),
    };
    outcome.map_err(|source| StoreError::Row { table, source })
}
