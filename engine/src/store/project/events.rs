//! The events of a run of records: at most one for a record and a transaction, by the order of the
//! records and, within one, of the transactions.

use smallvec::SmallVec;

use crate::command::NewTransactionView;
use crate::command::effect::Effect;
use crate::domain::event::EventKind;
use crate::domain::ids::{Timestamp, TransactionSeq};
use crate::packed::LoggedEvents;

/// The events of a run.
#[derive(Debug, Default)]
pub(super) struct EventChanges(Vec<LoggedEvents>);

impl EventChanges {
    /// The events, in order.
    pub(super) fn events(&self) -> &[LoggedEvents] {
        &self.0
    }

    /// A record made a transaction. Cost: O(1), no memory where the one before was just made.
    #[inline]
    fn create(&mut self, seq: TransactionSeq) {
        if let Some(LoggedEvents::Created { first, count }) = self.0.last_mut()
            && first.0 + *count == seq.0
        {
            *count += 1;
            return;
        }
        self.0.push(LoggedEvents::Created { first: seq, count: 1 });
    }

    /// Takes what one record does to transactions.
    pub(super) fn take(&mut self, mut touched: TouchedTransactions, at: Timestamp) {
        touched.0.sort_unstable();
        // A new transaction leaves one event, `Created`, which sorts before its updates.
        touched.0.dedup_by_key(|(seq, _)| *seq);
        for (transaction, kind) in touched.0 {
            match kind {
                EventKind::Created => self.create(transaction),
                EventKind::Updated => self.0.push(LoggedEvents::Updated { transaction, at }),
            }
        }
    }
}

/// The transactions that one record makes or changes.
#[derive(Debug, Default)]
pub(super) struct TouchedTransactions(SmallVec<[(TransactionSeq, EventKind); 4]>);

impl TouchedTransactions {
    /// Notes the change of a transaction by an effect. A deleted dimension changes none: readers of
    /// a transaction leave it out. The decision on an increment changes none either: it comes with
    /// the posting it added.
    pub(super) fn note(&mut self, effect: &Effect<NewTransactionView<'_>>) {
        let found = match effect {
            Effect::Transaction(made) => (made.row.seq(), EventKind::Created),
            Effect::TransactionProgress(seq, _) | Effect::TransactionTags(seq, _) => {
                (*seq, EventKind::Updated)
            }
            Effect::Posting(row) => (row.transaction, EventKind::Updated),
            Effect::StatementLine(row) => (row.transaction, EventKind::Updated),
            _ => return,
        };
        self.0.push(found);
    }
}
