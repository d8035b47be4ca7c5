//! The query tables as a source of the loader.

use std::sync::Arc;

use super::{HoldEnds, PlacedAnswers, Recall, RecallError, RecallSource};
use crate::command::effect::RememberedAnswer;
use crate::domain::ids::{Timestamp, TransactionSeq};
use crate::domain::network_key::Fingerprint;
use crate::limits;
use crate::shard::{AnswerPlace, LoadedTransaction, PurchaseKey};
use crate::store::{Snapshot, Store, StoreError};

impl RecallSource for Store {
    fn snapshot(&self) -> Result<Box<dyn Recall + '_>, RecallError> {
        Ok(Box::new(View(self.read().map_err(unreadable)?)))
    }
}

/// A view of the tables.
struct View(Arc<Snapshot>);

impl Recall for View {
    fn transaction(&self, seq: TransactionSeq) -> Result<Option<LoadedTransaction>, RecallError> {
        let found = self.0.transaction(seq).map_err(unreadable)?;
        Ok(found.map(|row| LoadedTransaction { record: *row.record, progress: row.progress }))
    }

    fn answer_at(&self, place: AnswerPlace) -> Result<Option<RememberedAnswer>, RecallError> {
        self.0.answer_at(place).map_err(unreadable)
    }

    fn carriers(&self, key: PurchaseKey) -> Result<Vec<TransactionSeq>, RecallError> {
        self.0.transactions_named(key).map_err(unreadable)
    }

    fn answers_to(&self, message: &Fingerprint) -> Result<PlacedAnswers, RecallError> {
        self.0.answers_to(message).map_err(unreadable)
    }

    fn holds_due(&self, after: Timestamp, until: Timestamp) -> Result<HoldEnds, RecallError> {
        let due = self.0.holds_due(after, until, limits::HOLDS_READ_MAX).map_err(unreadable)?;
        Ok((due.holds, due.until))
    }
}

fn unreadable(error: StoreError) -> RecallError {
    RecallError(error.to_string())
}
