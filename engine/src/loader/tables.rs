//! The query tables as a source of the loader.

use std::sync::Arc;

use super::{PlacedAnswers, Recall, RecallError, RecallSource};
use crate::command::effect::RememberedAnswer;
use crate::domain::ids::{Timestamp, TransactionSeq};
use crate::domain::network_key::Fingerprint;
use crate::limits;
use crate::shard::{AnswerPlace, LoadedTransaction, PurchaseKey};
use crate::store::query::{DueHolds, TransactionRow};
use crate::store::{Snapshot, Store, StoreError};

impl RecallSource for Store {
    fn snapshot(&self) -> Result<Box<dyn Recall + '_>, RecallError> {
        Ok(Box::new(View(self.read().map_err(unreadable)?)))
    }
}

struct View(Arc<Snapshot>);

impl Recall for View {
    fn transaction(&self, seq: TransactionSeq) -> Result<Option<LoadedTransaction>, RecallError> {
        Ok(self.0.transaction(seq).map_err(unreadable)?.map(loaded))
    }

    fn answer_at(&self, place: AnswerPlace) -> Result<Option<RememberedAnswer>, RecallError> {
        self.0.answer_at(place).map_err(unreadable)
    }

    fn owner(&self, key: PurchaseKey) -> Result<Option<LoadedTransaction>, RecallError> {
        let carrier = |seq| {
            let found = self.0.transaction(seq)?.map(loaded);
            Ok(found.filter(|found| found.carries(key)))
        };
        self.0.owner_of(key, carrier).map_err(unreadable)
    }

    fn answers_to(&self, message: &Fingerprint) -> Result<PlacedAnswers, RecallError> {
        self.0.answers_to(message).map_err(unreadable)
    }

    fn holds_due(&self, after: Timestamp, until: Timestamp) -> Result<DueHolds, RecallError> {
        self.0.holds_due(after, until, limits::HOLDS_READ_MAX).map_err(unreadable)
    }
}

fn loaded(row: TransactionRow) -> LoadedTransaction {
    LoadedTransaction { record: *row.record, progress: row.progress }
}

fn unreadable(error: StoreError) -> RecallError {
    RecallError(error.to_string())
}
