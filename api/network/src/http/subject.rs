//! The card or transaction a body names, in the forms the engine knows, and the currency its
//! amounts are in.

use cardswitch_edge::error::ApiError;
use cardswitch_edge::network_facts::CardFacts;
use cardswitch_edge::switch::LazySnapshot;
use cardswitch_engine::command::network::CardRef;
use cardswitch_engine::domain::card::PanHash;
use cardswitch_engine::domain::ids::{AccountSlot, CardId, TransactionId, TransactionSeq};
use cardswitch_engine::domain::money::CurrencyCode;
use cardswitch_engine::store::query::{CardRow, TransactionRow};
use cardswitch_engine::store::{Snapshot, StoreError};
use cardswitch_secrets::Secrets;
use cardswitch_secrets::pan::Pan;
use uuid::Uuid;

use super::shared_fields::SharedFields;
use super::state::DoorState;

/// The default currency of amounts. An unknown card declines any amount, so this decides only how
/// many decimals are let through.
pub(super) const CURRENCY_DEFAULT: CurrencyCode = CurrencyCode(840);

/// The card or transaction that a body names.
#[derive(Default)]
pub(super) struct RequestSubject {
    pub(super) card: Option<CardRef>,
    /// The hash of the card's number, for the keys made with it.
    pub(super) hash: Option<PanHash>,
    pub(super) transaction: Option<(TransactionId, TransactionRow)>,
    /// The currency of the account that pays.
    pub(super) currency: CurrencyCode,
    /// Whether it names a card, and a transaction that is not of this card.
    pub(super) is_of_another_card: bool,
    pan: Option<Pan>,
    /// The card where its id is given.
    facts: Option<CardFacts>,
    /// The card as it stands in the tables: the one named by its id where its number is needed, else
    /// the transaction's where none is named.
    row: Option<CardRow>,
}

impl RequestSubject {
    /// Finds what a body names: the card by its number or id, and the transaction of this id.
    /// Errors: there is no such transaction; the tables cannot be read.
    pub(super) fn find(
        state: &DoorState,
        view: &LazySnapshot<'_>,
        shared: &SharedFields<'_>,
    ) -> Result<Self, ApiError> {
        let (pan, card_id) = (&shared.card.pan, shared.card.id);
        let transaction = match shared.original.transaction {
            Some(id) => Some((id, find_transaction(state, view.snapshot()?, id)?)),
            None => None,
        };
        let number = pan.as_ref().map(|pan| (state.secrets.pan_hash(pan), pan.masked()));
        let facts = match (number, card_id) {
            (None, Some(id)) => state.switch.card_facts(view, id)?,
            _ => None,
        };
        let of_card = match number {
            Some((hash, _)) => state.switch.currency_of_card(view, hash)?,
            None => facts.map(|card| card.currency),
        };
        let currency = match (of_card, &transaction) {
            (None, Some((_, row))) => currency_of(view, row.record.account)?,
            (of_card, _) => of_card,
        };
        let named_slot = match (&transaction, number) {
            (None, _) => None,
            (Some(_), Some((hash, _))) => {
                view.snapshot()?.card_by_pan_hash(hash)?.map(|row| row.profile.slot)
            }
            (Some(_), None) => facts.map(|card| card.slot),
        };
        let slot = transaction.as_ref().and_then(|(_, row)| row.record.card);
        let row = match (number, card_id, slot) {
            (None, Some(id), _) if shared.card.needs_number() => {
                view.snapshot()?.card_by_any_company(id)?
            }
            (None, None, Some(slot)) => view.snapshot()?.card(slot)?,
            _ => None,
        };
        let by_number = number.map(|(hash, masked)| CardRef::Pan(hash, masked));
        let hash = number.map(|(hash, _)| hash);
        Ok(Self {
            card: by_number.or(card_id.map(CardRef::Id)),
            hash: hash
                .or(facts.map(|card| card.pan_hash))
                .or(row.as_ref().map(|row| row.record.pan_hash)),
            is_of_another_card: named_slot.is_some_and(|named| slot != Some(named)),
            pan: pan.clone(),
            facts,
            row,
            currency: currency.unwrap_or(CURRENCY_DEFAULT),
            transaction,
        })
    }

    /// Whether it names a card, or a transaction that has one.
    pub(super) const fn has_card(&self) -> bool {
        self.card.is_some() || self.row.is_some()
    }

    /// The card named, else the one of the transaction named.
    pub(super) fn card(&self) -> CardRef {
        let of_row = self.row.as_ref().map(|row| row.profile.id);
        self.card.unwrap_or_else(|| CardRef::Id(of_row.unwrap_or(CardId(Uuid::nil()))))
    }

    /// The last four digits of its number.
    pub(super) fn last_four(&self) -> Option<[u8; 4]> {
        match self.card {
            Some(CardRef::Pan(_, masked)) => Some(masked.last_four),
            _ => self
                .facts
                .map(|card| card.last_four)
                .or_else(|| self.row.as_ref().map(|row| row.profile.last_four)),
        }
    }

    /// The number of that card; none where it is not known.
    pub(super) fn pan(&self, secrets: &Secrets) -> Option<Pan> {
        self.pan.clone().or_else(|| open_pan(secrets, self.row.as_ref()?))
    }
}

/// Opens the number of a card.
pub(super) fn open_pan(secrets: &Secrets, row: &CardRow) -> Option<Pan> {
    secrets.open_pan(&row.sealed_pan, row.profile.id)
}

fn find_transaction(
    state: &DoorState,
    snapshot: &Snapshot,
    id: TransactionId,
) -> Result<TransactionRow, ApiError> {
    let seq = state.switch.engine.ids.open_transaction_id(id);
    let row = match seq {
        Some(seq) => snapshot.transaction(seq)?,
        None => None,
    };
    if let Some(row) = row.filter(|row| row.record.id == id) {
        return Ok(row);
    }
    // Each transaction has a record of its own, so a number up to the newest may be one that the tables lack.
    let newest = state.switch.engine.durable_seq().0;
    let last = snapshot.checkpoint()?.last_transaction;
    let may_come = |seq: TransactionSeq| last < seq && seq.0 <= newest;
    Err(match seq.is_some_and(may_come) {
        true => ApiError::tables_behind(),
        false => ApiError::named_not_found("transaction_id", "transaction"),
    })
}

fn currency_of(
    view: &LazySnapshot<'_>,
    account: AccountSlot,
) -> Result<Option<CurrencyCode>, StoreError> {
    Ok(view.snapshot()?.account(account)?.map(|row| row.account.currency))
}
