//! Audit of the runs that lead to transactions: lists, and names in messages. The hashes of all entries are summed,
//! of those that follow from the rows and of those in the runs. So neither side is kept in memory.
//!
//! Out of scope: the keys of messages, which go with time; lines, which are found by their number (`audit`).

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use super::audit::AuditFigure;
use super::error::StoreError;
use super::runs::{Entry, RunKind, RunTables};

/// The kinds of runs that hold all that follows from transactions.
const COMPARED: [RunKind; 9] = [
    RunKind::CompanyTransactions,
    RunKind::CardTransactions,
    RunKind::MemberTransactions,
    RunKind::FirstDimension,
    RunKind::SecondDimension,
    RunKind::ThirdDimension,
    RunKind::FourthDimension,
    RunKind::OriginalKeys,
    RunKind::RetrievalKeys,
];

/// Entries of runs: of each kind how many, and the sum of their hashes.
#[derive(Default)]
pub(super) struct EntrySums([(u64, u64); RunKind::ALL.len()]);

impl EntrySums {
    pub(super) fn add(&mut self, kind: RunKind, entry: Entry) {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(entry);
        let (count, sum) = &mut self.0[usize::from(kind.number())];
        *count += 1;
        *sum = sum.wrapping_add(hash);
    }

    const fn of(&self, kind: RunKind) -> (u64, u64) {
        self.0[kind.number() as usize]
    }

    fn count(&self) -> u64 {
        COMPARED.into_iter().map(|kind| self.of(kind).0).sum()
    }

    /// Compares what follows from the rows with the runs. Cost: reads all of them.
    pub(super) fn compare(&self, runs: &RunTables) -> Result<[AuditFigure; 2], StoreError> {
        let mut stored = Self::default();
        for kind in COMPARED {
            runs.reader(kind)?.each(0, |entry| stored.add(kind, entry))?;
        }
        let differing = COMPARED.into_iter().filter(|kind| self.of(*kind) != stored.of(*kind));
        Ok([
            AuditFigure::new(
                "transactions in their lists and under their names",
                self.count(),
                stored.count(),
            ),
            AuditFigure::new("kinds of lists and names off the transactions", 0, differing.count()),
        ])
    }
}
