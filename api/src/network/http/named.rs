//! The card or transaction a body names, in the forms the engine knows, and the currency its
//! amounts are in.

use cardswitch_engine::command::network::CardRef;
use cardswitch_engine::domain::card::PanHash;
use cardswitch_engine::domain::credential::{CvvCheck, PinVerifier};
use cardswitch_engine::domain::ids::{AccountSlot, CardId, TransactionId};
use cardswitch_engine::domain::money::CurrencyCode;
use cardswitch_engine::store::query::{CardRow, TransactionRow};
use cardswitch_engine::store::{Snapshot, StoreError};
use serde_json::value::RawValue;

use crate::error::ApiError;
use crate::network::presented::check_cvv;
use crate::pan::Pan;
use crate::secrets::Secrets;
use crate::state::AppState;
use crate::wire::fault::Flaw;
use crate::wire::fields::{self, Fields};

/// The currency of amounts where nothing tells another one. An unknown card declines whatever the
/// amount, so this decides only how many decimals are let through.
const CURRENCY_DEFAULT: CurrencyCode = CurrencyCode(840);

/// What a body names.
pub(super) struct Named {
    pub(super) card: Option<CardRef>,
    /// The hash of the card's number, for the keys made with it.
    pub(super) hash: Option<PanHash>,
    pub(super) transaction: Option<(TransactionId, TransactionRow)>,
    /// The currency of the account that pays.
    pub(super) currency: CurrencyCode,
    pan: Option<Pan>,
}

impl Named {
    /// Reads what a body names: `card_number` or `card_id`, and `transaction_id`.
    /// Errors: there is no such transaction; the tables cannot be read.
    pub(super) fn read(
        state: &AppState,
        snapshot: &Snapshot,
        fields: &mut Fields<'_>,
    ) -> Result<Self, ApiError> {
        let pan = fields.nullable("card_number", card_number).flatten();
        let card_id = fields.nullable("card_id", fields::id).flatten().map(CardId);
        if pan.is_some() && card_id.is_some() {
            let message = "must not be given together with `card_number`";
            fields.fault("card_id", Flaw::new("conflicting", message));
        }
        let transaction = match fields.nullable("transaction_id", fields::id).flatten() {
            Some(id) => {
                let id = TransactionId(id);
                Some((id, find_transaction(state, snapshot, id)?))
            }
            None => None,
        };
        let hash = pan.as_ref().map(|pan| state.secrets.pan_hash(pan));
        let row = match (hash, card_id) {
            (Some(hash), _) => snapshot.card_by_pan_hash(hash)?,
            (None, Some(id)) => snapshot.card_by_any_company(id)?,
            (None, None) => None,
        };
        let by_number = pan.as_ref().zip(hash).map(|(pan, hash)| CardRef::Pan(hash, pan.masked()));
        let account = row.as_ref().map(|row| row.record.account);
        let account =
            account.or(transaction.as_ref().map(|(_, transaction)| transaction.record.account));
        Ok(Self {
            card: by_number.or(card_id.map(CardRef::Id)),
            hash: hash.or(row.as_ref().map(|row| row.record.pan_hash)),
            pan: pan.or_else(|| row.as_ref().and_then(|row| open_pan(&state.secrets, row))),
            currency: currency_of(snapshot, account)?,
            transaction,
        })
    }

    /// Compares a CVV with the card's.
    pub(super) fn check_cvv(&self, secrets: &Secrets, cvv: &str) -> CvvCheck {
        let pan = self.pan.as_ref();
        pan.map_or(CvvCheck::Mismatch, |pan| check_cvv(secrets, pan, cvv.as_bytes()))
    }

    /// The keyed value of a PIN for this card.
    pub(super) fn pin_verifier(&self, secrets: &Secrets, pin: &str) -> Option<PinVerifier> {
        self.pan.as_ref().map(|pan| secrets.pin_verifier(pan, pin.as_bytes()))
    }
}

/// Opens the number of a card.
pub(super) fn open_pan(secrets: &Secrets, row: &CardRow) -> Option<Pan> {
    secrets.open_pan(&row.sealed_pan, row.profile.id)
}

fn find_transaction(
    state: &AppState,
    snapshot: &Snapshot,
    id: TransactionId,
) -> Result<TransactionRow, ApiError> {
    let seq = state.switch.engine().ids().open_transaction_id(id);
    let row = match seq {
        Some(seq) => snapshot.transaction(seq)?,
        None => None,
    };
    row.filter(|row| row.record.id == id).ok_or_else(ApiError::not_found)
}

fn currency_of(
    snapshot: &Snapshot,
    account: Option<AccountSlot>,
) -> Result<CurrencyCode, StoreError> {
    let Some(slot) = account else { return Ok(CURRENCY_DEFAULT) };
    Ok(snapshot.account(slot)?.map_or(CURRENCY_DEFAULT, |row| row.account.currency))
}

fn card_number(value: &RawValue) -> Result<Pan, Flaw> {
    let flaw = || Flaw::new("not_a_card_number", "must be a text of 8 to 19 digits");
    let text = zeroize::Zeroizing::new(fields::text(value)?);
    Pan::parse(text.as_bytes()).ok_or_else(flaw)
}
