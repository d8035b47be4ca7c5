//! The wrong tries of each source in a minute, and how many of one work at the same time.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cardswitch_acquiring::address_counts::network_of;
use cardswitch_bounds::{BLOCKING, BoundedTable, TableEntry, TooManyTries, share};
use cardswitch_engine::domain::ids::AppId;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::{AttemptVerdict, DELAY_MAX, ExcessPolicy, REMEMBERED_MAX, too_many};

/// The window in which the wrong tries of a source are counted.
pub(super) const WINDOW: Duration = Duration::from_secs(60);
/// How many of them an address may have, with those under way.
pub(super) const WRONG_PER_ADDRESS_MAX: u32 = 100;
/// How many more may wait on pages.
pub(super) const PATIENT_PER_ADDRESS_MAX: u32 = 16;
/// How many of one address work at the same time.
pub(super) const AT_ONCE_PER_ADDRESS: usize = 1;
/// How many wrong tries an app may have, with those under way.
pub(super) const WRONG_PER_APP_MAX: u32 = 5_000;
/// How many of one app work at the same time.
const AT_ONCE_PER_APP: usize = 64;

/// The source of a try, which is answerable for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// The address from which it came.
    Address(IpAddr),
    /// The device that signed in to the account before, wherever it is.
    Device([u8; 16]),
    /// The app that has proven itself by its secret.
    App(AppId),
}

impl Source {
    /// The source that it counts against. An IPv6 address counts as its network: its holder has
    /// 2^64 of them.
    pub(in crate::auth) fn counted(self) -> Self {
        match self {
            Self::Address(address) => Self::Address(network_of(address)),
            Self::Device(_) | Self::App(_) => self,
        }
    }

    const fn wrong_max(self) -> u32 {
        match self {
            Self::Address(_) | Self::Device(_) => WRONG_PER_ADDRESS_MAX,
            Self::App(_) => WRONG_PER_APP_MAX,
        }
    }

    const fn at_once_max(self) -> usize {
        match self {
            Self::Address(_) | Self::Device(_) => AT_ONCE_PER_ADDRESS,
            Self::App(_) => AT_ONCE_PER_APP,
        }
    }
}

#[derive(Debug)]
pub(super) struct Sources(Mutex<BoundedTable<Source, SourceTries>>);

impl Default for Sources {
    fn default() -> Self {
        Self(Mutex::new(BoundedTable::new(REMEMBERED_MAX)))
    }
}

impl Sources {
    /// Counts a try of a source as under way. Returns its wait, and the places of the source.
    pub(super) fn begin(
        &self,
        source: Source,
        excess: ExcessPolicy,
        now: Instant,
    ) -> Result<(Duration, Arc<Semaphore>), TooManyTries> {
        let fresh = || SourceTries::new(source, now);
        let counted = self.0.lock().change(source, now, fresh, |tries| {
            tries.begin_anew_after_window(now);
            let mut wait = Duration::ZERO;
            if tries.is_full() {
                if excess == ExcessPolicy::Refused || tries.under_way >= PATIENT_PER_ADDRESS_MAX {
                    let age = now.saturating_duration_since(tries.began);
                    return Err(too_many(WINDOW.saturating_sub(age)));
                }
                wait = DELAY_MAX;
            }
            tries.under_way = tries.under_way.saturating_add(1);
            Ok((wait, Arc::clone(&tries.places)))
        });
        counted.unwrap_or_else(|_| Err(too_many(WINDOW)))
    }

    /// Takes a try as ended, with its verdict.
    pub(super) fn end(&self, source: Source, verdict: Option<AttemptVerdict>, now: Instant) {
        self.0.lock().change_known(source, |tries| {
            tries.under_way = tries.under_way.saturating_sub(1);
            if verdict == Some(AttemptVerdict::Wrong) {
                tries.begin_anew_after_window(now);
                tries.wrong = tries.wrong.saturating_add(1);
            }
        });
    }
}

/// The tries of a source in a minute.
#[derive(Clone, Debug)]
struct SourceTries {
    began: Instant,
    wrong: u32,
    wrong_max: u32,
    under_way: u32,
    /// The places of tries at work; further ones wait for one.
    places: Arc<Semaphore>,
}

impl SourceTries {
    fn new(source: Source, began: Instant) -> Self {
        let places = Arc::new(Semaphore::new(source.at_once_max()));
        Self { began, wrong: 0, wrong_max: source.wrong_max(), under_way: 0, places }
    }

    /// Whether so many were wrong, or may still be, that the next is beyond.
    const fn is_full(&self) -> bool {
        self.wrong.saturating_add(self.under_way) >= self.wrong_max
    }

    fn begin_anew_after_window(&mut self, now: Instant) {
        if now.saturating_duration_since(self.began) >= WINDOW {
            (self.began, self.wrong) = (now, 0);
        }
    }
}

impl TableEntry for SourceTries {
    type Time = Instant;

    fn ends_at(&self) -> Option<Instant> {
        (self.under_way == 0).then(|| self.began + WINDOW)
    }

    fn weight(&self) -> u64 {
        if self.under_way > 0 { BLOCKING } else { share(self.wrong, self.wrong_max) }
    }
}
