//! The line of each account: one try is judged at a time, after a wait that grows with those that
//! were wrong. A device that signed in before has a line of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cardswitch_bounds::{BLOCKING, BoundedTable, TableEntry, TooManyTries, share};
use cardswitch_secrets::token_digest;
use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;

use super::{AttemptTarget, AttemptVerdict, DELAY_MAX, REMEMBERED_MAX, Source, too_many};

/// How many wrong tries an account has before the next one waits.
pub(super) const FREE_TRIES: u32 = 3;
/// How long the first try that waits does so; each after it twice as long.
const DELAY_FIRST: Duration = Duration::from_millis(250);
/// The number of wrong tries after which every further one waits that long.
pub(super) const SLOWED_AFTER: u32 = 8;
/// How many tries of an account may be under way: one is judged, the others wait in line.
pub(super) const LINE_MAX: u32 = 64;
/// How long a try waits in line.
pub(super) const LINE_WAIT_MAX: Duration = Duration::from_secs(20);
/// The time after which wrong tries are forgotten.
pub(super) const MEMORY: Duration = Duration::from_secs(15 * 60);

/// The tries that count together: everybody's at an account, or those of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AttemptBudget {
    Account([u8; 32]),
    Device([u8; 32]),
}

impl AttemptBudget {
    pub(super) fn of(account: AttemptTarget<'_>, source: Option<Source>) -> Self {
        let key = account.key();
        let Some(Source::Device(device)) = source else { return Self::Account(key) };
        Self::Device(token_digest(&format!("{key:?} {device:?}")))
    }
}

/// The lines of all accounts and devices.
#[derive(Debug)]
pub(super) struct AttemptLines {
    /// The lines of accounts, for all sources but known devices.
    accounts: Mutex<BoundedTable<[u8; 32], LineAttempts>>,
    /// The lines of devices, apart: a source that never signed in gets no place in here.
    devices: Mutex<BoundedTable<[u8; 32], LineAttempts>>,
}

impl Default for AttemptLines {
    fn default() -> Self {
        let table = || Mutex::new(BoundedTable::new(REMEMBERED_MAX));
        Self { accounts: table(), devices: table() }
    }
}

impl AttemptLines {
    const fn table(
        &self,
        budget: AttemptBudget,
    ) -> (&Mutex<BoundedTable<[u8; 32], LineAttempts>>, [u8; 32]) {
        match budget {
            AttemptBudget::Account(key) => (&self.accounts, key),
            AttemptBudget::Device(key) => (&self.devices, key),
        }
    }

    /// Puts a try into the line of its account.
    /// Errors: the line is too long, or so many accounts are under attack that there is no room.
    pub(super) fn enter(
        &self,
        budget: AttemptBudget,
        now: Instant,
    ) -> Result<Arc<AsyncMutex<()>>, TooManyTries> {
        let (table, key) = self.table(budget);
        let entered = table.lock().change(
            key,
            now,
            || LineAttempts::new(now),
            |tries| {
                (tries.under_way < LINE_MAX).then(|| {
                    tries.under_way += 1;
                    Arc::clone(&tries.turn)
                })
            },
        );
        entered.ok().flatten().ok_or_else(|| too_many(LINE_WAIT_MAX))
    }

    /// The wait of the try at the head of the line.
    pub(super) fn due(&self, budget: AttemptBudget, now: Instant) -> Duration {
        let (table, key) = self.table(budget);
        let due = table.lock().change_known(key, |tries| {
            let age = now.saturating_duration_since(tries.last);
            if age >= MEMORY {
                tries.wrong = 0;
            }
            delay_after(tries.wrong).saturating_sub(age)
        });
        due.unwrap_or(DELAY_MAX)
    }

    /// How many were wrong.
    #[cfg(test)]
    pub(super) fn wrong(&self, budget: AttemptBudget) -> u32 {
        let (table, key) = self.table(budget);
        table.lock().change_known(key, |tries| tries.wrong).unwrap_or_default()
    }

    /// Takes a try out of the line, with its verdict.
    pub(super) fn leave(
        &self,
        budget: AttemptBudget,
        verdict: Option<AttemptVerdict>,
        now: Instant,
    ) {
        let (table, key) = self.table(budget);
        table.lock().change_known(key, |tries| {
            tries.under_way = tries.under_way.saturating_sub(1);
            match verdict {
                Some(AttemptVerdict::Right) => tries.wrong = 0,
                Some(AttemptVerdict::Wrong) => {
                    (tries.wrong, tries.last) = (tries.wrong.saturating_add(1), now);
                }
                None => {}
            }
        });
    }
}

/// How long a try waits after so many wrong ones.
pub(super) fn delay_after(wrong: u32) -> Duration {
    let Some(doublings) = wrong.checked_sub(FREE_TRIES) else { return Duration::ZERO };
    let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
    DELAY_FIRST.saturating_mul(factor).min(DELAY_MAX)
}

/// The tries of an account.
#[derive(Clone, Debug)]
struct LineAttempts {
    wrong: u32,
    under_way: u32,
    last: Instant,
    turn: Arc<AsyncMutex<()>>,
}

impl LineAttempts {
    fn new(last: Instant) -> Self {
        Self { wrong: 0, under_way: 0, last, turn: Arc::default() }
    }
}

impl TableEntry for LineAttempts {
    type Time = Instant;

    fn ends_at(&self) -> Option<Instant> {
        match (self.under_way, self.wrong) {
            (0, 0) => Some(self.last),
            (0, _) => Some(self.last + MEMORY),
            _ => None,
        }
    }

    fn weight(&self) -> u64 {
        // A line with tries in it is never forgotten: its next one would be judged beside them.
        if self.under_way > 0 { BLOCKING } else { share(self.wrong, SLOWED_AFTER) }
    }
}
