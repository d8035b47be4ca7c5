//! The last ten minutes: how many were approved and declined, in slices of a quarter of a minute.
//!
//! Slices are counted by the places in the lists of the tables, so one costs the same at any rate.
//! Slices that ended a while ago do not change any more, so a reader that follows the figures keeps
//! them.

use std::collections::BTreeMap;

use cardswitch_engine::domain::ids::{CompanySlot, Timestamp};
use cardswitch_engine::domain::transaction::TransactionState;
use cardswitch_engine::store::query::{Page, TransactionClasses, TransactionFilter};
use cardswitch_engine::store::{Snapshot, StoreError};

/// How long a slice is. Units: microseconds.
pub(super) const SLICE: i64 = 15 * Timestamp::SECOND;
/// How many slices are shown.
pub(super) const SLICES: i64 = 40;
/// How many of the newest are counted each time: tables may be behind.
const OPEN_SLICES: i64 = 4;

/// How many were decided in a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OutcomeCounts {
    /// Approved, refunds and transfers among them.
    pub(super) approved: u64,
    pub(super) declined: u64,
}

/// Slices by their number since 1970.
pub(super) type Slices = BTreeMap<i64, OutcomeCounts>;

/// The last ten minutes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RecentDecisions {
    /// All slices, the last of them under way.
    pub(super) slices: Slices,
    /// The decisions of the last quarter of a minute.
    pub(super) last: OutcomeCounts,
}

impl RecentDecisions {
    /// The figures at `now`. `past` supplies slices that were read before, and keeps the closed
    /// ones.
    /// Cost: O(log n) for each slice that is counted.
    pub(super) fn read(
        snapshot: &Snapshot,
        company: CompanySlot,
        now: Timestamp,
        past: &mut Slices,
    ) -> Result<Self, StoreError> {
        let count = |from, to| count(snapshot, company, Timestamp(from), Timestamp(to));
        let newest = now.0.div_euclid(SLICE);
        let closed = newest - OPEN_SLICES;
        past.retain(|number, _| *number > newest - SLICES);
        let mut slices = Slices::new();
        for number in newest - SLICES + 1..=newest {
            let decided = match past.get(&number) {
                Some(decided) => *decided,
                None => count(number * SLICE, (number + 1) * SLICE)?,
            };
            if number <= closed {
                past.insert(number, decided);
            }
            slices.insert(number, decided);
        }
        Ok(Self { slices, last: count(now.0 - SLICE, now.0)? })
    }
}

fn count(
    snapshot: &Snapshot,
    company: CompanySlot,
    from: Timestamp,
    to: Timestamp,
) -> Result<OutcomeCounts, StoreError> {
    let count_of = |classes| {
        let (after, before) = (Some(from), Some(to));
        let filter = TransactionFilter { after, before, classes, ..TransactionFilter::default() };
        Ok::<_, StoreError>(snapshot.list_transactions(company, &filter, &Page::first(0))?.count)
    };
    let all = count_of(TransactionClasses::ALL)?;
    let declined = count_of(TransactionClasses::in_states(&[TransactionState::Declined]))?;
    Ok(OutcomeCounts { approved: all.saturating_sub(declined), declined })
}
