//! The disks of a simulated machine, and the ways in which it goes down.

use std::sync::Arc;

use cardswitch_engine::engine::EngineStorage;
use cardswitch_engine::journal::testing::{FaultyBackend, FaultyDisk};
use cardswitch_engine::limits;
use cardswitch_engine::store::overlay::SharedBackend;

/// The files of a directory, in memory.
#[derive(Clone, Default)]
pub struct Disks {
    pub store: FaultyBackend,
    pub journal: FaultyDisk,
    /// The state of deliveries of webhooks.
    pub deliveries: FaultyBackend,
}

/// The state in which the files are found again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crash {
    /// The process ended, the system went on.
    Kill,
    /// Unsynced changes are gone.
    PowerFailure,
    /// Some unsynced changes are there, some are not, some are torn.
    TornPowerFailure(u64),
}

impl Disks {
    pub fn after(&self, crash: Crash) -> Self {
        let Self { store, journal, deliveries } = self;
        match crash {
            Crash::Kill => Self {
                store: store.after_kill(),
                journal: journal.after_kill(),
                deliveries: deliveries.after_kill(),
            },
            Crash::PowerFailure => Self {
                store: store.after_power_failure(),
                journal: journal.after_power_failure(),
                deliveries: deliveries.after_power_failure(),
            },
            Crash::TornPowerFailure(seed) => Self {
                store: store.after_torn_power_failure(seed),
                journal: journal.after_torn_power_failure(seed),
                deliveries: deliveries.after_torn_power_failure(seed),
            },
        }
    }

    /// The files as an engine opens them, with so many bytes of the tables in memory.
    pub fn storage_with(&self, cache_bytes: usize) -> EngineStorage {
        EngineStorage {
            store: SharedBackend::new(self.store.clone()),
            cache_bytes,
            journal: Arc::new(self.journal.clone()),
        }
    }

    /// The files as an engine opens them.
    pub fn storage(&self) -> EngineStorage {
        self.storage_with(limits::STORE_CACHE_BYTES)
    }
}
