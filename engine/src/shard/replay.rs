//! Records of the journal's tail as a start takes them in.
//!
//! Nearly every record is an authorization. It is turned into what the shard keeps of it before it
//! comes here, on another thread; the shard folds that as it does live.

use smallvec::SmallVec;

use super::open_transaction::OpenTransaction;
use super::prefetch::{GROUP_LEN, look_ahead_of};
use super::state::ShardState;
use crate::codec::CodecError;
use crate::command::NewTransaction;
use crate::command::effect::Effect;
use crate::command::record::RecordView;
use crate::domain::account::AccountBalances;
use crate::domain::allowance::CardUsage;
use crate::domain::ids::{AccountSlot, CardSlot, RecordSeq, Timestamp, TransactionSeq};
use crate::domain::transaction::{TransactionProgress, TransactionRecord};
use crate::packed::RowAnswer;

/// A record, ready to be applied.
#[derive(Debug)]
pub struct ReplayedRecord {
    seq: RecordSeq,
    at: Timestamp,
    effects: SmallVec<[Effect<KeptTransaction>; 1]>,
}

/// The part of a new transaction that the shard keeps.
#[derive(Debug)]
pub(super) struct KeptTransaction {
    pub(super) seq: TransactionSeq,
    pub(super) open: OpenTransaction,
    pub(super) usage: Option<(CardSlot, CardUsage)>,
    pub(super) balances: Option<(AccountSlot, AccountBalances)>,
}

impl KeptTransaction {
    /// The kept part of a new transaction of record `made_by`.
    pub(super) fn of(made: &NewTransaction, made_by: RecordSeq) -> Self {
        let NewTransaction { record, progress, answer, usage, balances } = made;
        Self::new(record, progress.clone(), *answer, (*usage, *balances), made_by)
    }

    fn new(
        record: &TransactionRecord,
        progress: TransactionProgress,
        answer: Option<RowAnswer>,
        (usage, balances): (Option<CardUsage>, Option<AccountBalances>),
        made_by: RecordSeq,
    ) -> Self {
        let mut open = OpenTransaction::of(record, progress, made_by);
        open.keep_answer(answer);
        let (usage, balances) =
            (record.card.zip(usage), balances.map(|balances| (record.account, balances)));
        Self { seq: record.seq, open, usage, balances }
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

impl ReplayedRecord {
    /// Takes a record out of its batch. Errors: damaged bytes.
    pub fn of(view: RecordView<'_>) -> Result<Self, CodecError> {
        let effects = view.effects(|made| {
            let row = made.row;
            let (record, progress) = (row.to_record()?, row.to_progress()?);
            let images = (made.usage, made.balances);
            Ok(KeptTransaction::new(&record, progress, row.answer(), images, view.seq))
        });
        Ok(Self { seq: view.seq, at: view.at, effects: effects.collect::<Result<_, _>>()? })
    }

    fn look_ahead(&self, state: &ShardState) {
        for effect in &self.effects {
            match effect {
                Effect::Transaction(made) => made.look_ahead(state),
                other => look_ahead_of(state, other),
            }
        }
    }
}

impl ShardState {
    /// Folds records that follow one another, and leaves none; their rows are prefetched by groups.
    pub fn replay(&mut self, records: &mut Vec<ReplayedRecord>) {
        let mut records = records.drain(..);
        while records.len() > 0 {
            let group = records.as_slice().iter().take(GROUP_LEN);
            group.for_each(|record| record.look_ahead(self));
            for ReplayedRecord { seq, at, effects } in records.by_ref().take(GROUP_LEN) {
                self.begin_record(seq, at);
                for effect in effects {
                    match effect {
                        Effect::Transaction(made) => self.take_in(made),
                        other => drop(self.fold(&other)),
                    }
                }
            }
        }
    }
}
