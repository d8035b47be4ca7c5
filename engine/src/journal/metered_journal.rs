//! A journal whose commits are timed.

use std::sync::Arc;

use super::chain::{BatchNumber, ChainPosition, SealedBatch};
use super::{Journal, JournalError, Trail};
use crate::clock::Stopwatch;
use crate::meters::Meters;

/// Passes everything on, and notes how long each commit took.
pub(crate) struct MeteredJournal<J> {
    journal: J,
    meters: Arc<Meters>,
}

impl<J> MeteredJournal<J> {
    /// Times the commits of `journal`.
    pub(crate) const fn new(journal: J, meters: Arc<Meters>) -> Self {
        Self { journal, meters }
    }
}

impl<J: Journal> Journal for MeteredJournal<J> {
    fn tip(&self) -> ChainPosition {
        self.journal.tip()
    }

    fn append(&mut self, batches: &[SealedBatch]) -> Result<(), JournalError> {
        let since = Stopwatch::start();
        let appended = self.journal.append(batches);
        self.meters.commit.record(since.elapsed());
        appended
    }

    fn trail(&self) -> Option<&Arc<Trail>> {
        self.journal.trail()
    }

    fn confirm(&mut self) -> Result<(), JournalError> {
        self.journal.confirm()
    }

    fn needs_upkeep(&self, trim_before: BatchNumber) -> bool {
        self.journal.needs_upkeep(trim_before)
    }

    fn keep_up(&mut self, trim_before: BatchNumber) -> Result<(), JournalError> {
        self.journal.keep_up(trim_before)
    }
}
