//! How many entries long lists have in each run, once counted.
//!
//! INVARIANT: a run that a commit has written never changes, and its number is not used again; what a
//! merge has put into its target stays. So a count that takes in all of a list in a run holds as long as
//! the store is open.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::limits;

/// Shorter lists are not kept: a page of theirs reads the same chunk.
const KEPT_MIN: u64 = 64;

/// A kind's number, a run of it, a major.
type CountKey = (u8, u64, u64);

/// Known counts, of all views of one store.
#[derive(Debug, Default)]
pub(in crate::store) struct RunCounts(Mutex<HashMap<CountKey, u64>>);

impl RunCounts {
    /// The count known for this key, or else the one that `count` finds.
    pub(super) fn get_or_count<E>(
        &self,
        key: CountKey,
        count: impl FnOnce() -> Result<u64, E>,
    ) -> Result<u64, E> {
        let known = self.0.lock().get(&key).copied();
        if let Some(known) = known {
            return Ok(known);
        }
        let found = count()?;
        if found >= KEPT_MIN {
            let mut known = self.0.lock();
            // Runs that were merged away leave their counts behind; those of use are soon found again.
            if known.len() >= limits::RUN_COUNTS_MAX {
                known.clear();
            }
            known.insert(key, found);
        }
        Ok(found)
    }
}
