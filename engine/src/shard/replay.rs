//! Records of the journal's tail as a start takes them in.
//!
//! Nearly every record is an authorization. It is turned into what the shard keeps of it before it
//! comes here, on another thread: no effects are made of it. What follows from it is what would
//! follow from its effects, which tests compare by the hash of the state.

use super::prefetch::{GROUP_LEN, look_ahead_of};
use super::state::ShardState;
use super::transactions::OpenTransaction;
use crate::codec::CodecError;
use crate::command::record::{AuthorizationView, Record, RecordView};
use crate::domain::account::AccountBalances;
use crate::domain::allowance::CardUsage;
use crate::domain::ids::{AccountSlot, CardSlot, RecordSeq, Timestamp, TransactionSeq};

/// A record, ready to be applied.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly every one is of the large kind")]
pub enum ReplayedRecord {
    /// Any outcome.
    Outcome(Record),
    /// A transaction that was made, with what it moved.
    Authorization(ReplayedAuthorization),
}

/// What the shard keeps of an authorization.
#[derive(Debug)]
pub struct ReplayedAuthorization {
    pub(super) seq: RecordSeq,
    pub(super) at: Timestamp,
    pub(super) transaction: TransactionSeq,
    pub(super) open: OpenTransaction,
    pub(super) usage: Option<(CardSlot, CardUsage)>,
    pub(super) balances: Option<(AccountSlot, AccountBalances)>,
}

impl ReplayedRecord {
    /// Takes a record out of its batch. Errors: a damaged row.
    pub fn of(view: RecordView<'_>) -> Result<Self, CodecError> {
        if let RecordView::Authorization(authorization) = &view
            && let Some(made) = ReplayedAuthorization::of(authorization)?
        {
            return Ok(Self::Authorization(made));
        }
        view.into_record().map(Self::Outcome)
    }

    fn look_ahead(&self, state: &ShardState) {
        match self {
            Self::Authorization(made) => made.look_ahead(state),
            Self::Outcome(record) => {
                record.effects.iter().for_each(|effect| look_ahead_of(state, effect));
            }
        }
    }
}

impl ReplayedAuthorization {
    /// None where its answer does not follow from what is kept of it.
    fn of(view: &AuthorizationView<'_>) -> Result<Option<Self>, CodecError> {
        let (record, progress, _) = view.to_transaction()?;
        let mut open = OpenTransaction::of(&record, progress, view.seq());
        if let Some(answer) = view.transaction().answer()
            && !open.keep_answer(record.seq, &answer.answer(&record))
        {
            return Ok(None);
        }
        Ok(Some(Self {
            seq: view.seq(),
            at: view.at(),
            transaction: record.seq,
            open,
            usage: record.card.zip(view.usage()),
            balances: view.balances().map(|balances| (record.account, balances)),
        }))
    }

    fn look_ahead(&self, state: &ShardState) {
        state.transactions.prefetch_keys(self.open.original_key, self.open.retrieval_key);
        if let Some(fingerprint) = self.open.fingerprint() {
            state.messages.prefetch(fingerprint);
        }
        if let Some((slot, _)) = self.usage {
            state.cards.prefetch_slot(slot);
        }
    }
}

impl ShardState {
    /// Folds records that follow one another, and leaves none; what they touch is asked for by groups.
    pub fn replay(&mut self, records: &mut Vec<ReplayedRecord>) {
        let mut records = records.drain(..);
        while records.len() > 0 {
            let group = records.as_slice().iter().take(GROUP_LEN);
            group.for_each(|record| record.look_ahead(self));
            for record in records.by_ref().take(GROUP_LEN) {
                match record {
                    ReplayedRecord::Authorization(made) => self.apply_authorization(made),
                    ReplayedRecord::Outcome(Record { seq, at, effects }) => {
                        self.apply_record(seq, at, &effects);
                    }
                }
            }
        }
    }
}
