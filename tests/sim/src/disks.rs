//! The disks of a simulated machine, and the ways in which it goes down.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cardswitch_engine::disk::RealDisk;
use cardswitch_engine::engine::EngineStorage;
use cardswitch_engine::journal::testing::{FaultyBackend, FaultyDisk};
use cardswitch_engine::limits;
use cardswitch_engine::store::overlay::SharedBackend;
use redb::backends::FileBackend;

/// The files of a directory, in memory.
#[derive(Clone, Default)]
pub struct Disks {
    pub store: FaultyBackend,
    pub journal: FaultyDisk,
    /// The state of deliveries of webhooks.
    pub deliveries: FaultyBackend,
    /// The directory of files that take the place of tables and journal, where these are real.
    pub(crate) files: Option<PathBuf>,
    /// The mail queue, and the position of the follower of declines.
    pub mail: FaultyDisk,
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
    /// New files of a directory on the disk of this machine.
    pub fn on_files(directory: &Path) -> Self {
        Self { files: Some(directory.to_owned()), ..Self::default() }
    }

    pub fn after(&self, crash: Crash) -> Self {
        assert!(self.files.is_none(), "real files are as they are");
        let Self { store, journal, deliveries, mail, files: _ } = self;
        Self {
            store: file_after(store, crash),
            journal: disk_after(journal, crash),
            deliveries: file_after(deliveries, crash),
            mail: disk_after(mail, crash),
            files: None,
        }
    }

    /// The files as an engine opens them, with so many bytes of the tables in memory.
    pub fn storage_with(&self, cache_bytes: usize) -> EngineStorage {
        if let Some(path) = &self.files {
            return files_of(path, cache_bytes);
        }
        EngineStorage {
            store: SharedBackend::new(self.store.clone()),
            cache_bytes,
            journal: Arc::new(self.journal.clone()),
        }
    }

    /// A copy of the files as a backup has them: without the state of deliveries.
    pub fn backup(&self) -> Self {
        Self { deliveries: FaultyBackend::default(), ..self.after(Crash::Kill) }
    }

    /// The files as an engine opens them.
    pub fn storage(&self) -> EngineStorage {
        self.storage_with(limits::STORE_CACHE_BYTES)
    }
}

fn file_after(file: &FaultyBackend, crash: Crash) -> FaultyBackend {
    match crash {
        Crash::Kill => file.after_kill(),
        Crash::PowerFailure => file.after_power_failure(),
        Crash::TornPowerFailure(seed) => file.after_torn_power_failure(seed),
    }
}

fn disk_after(disk: &FaultyDisk, crash: Crash) -> FaultyDisk {
    match crash {
        Crash::Kill => disk.after_kill(),
        Crash::PowerFailure => disk.after_power_failure(),
        Crash::TornPowerFailure(seed) => disk.after_torn_power_failure(seed),
    }
}

fn files_of(path: &Path, cache_bytes: usize) -> EngineStorage {
    let mut options = File::options();
    options.read(true).write(true).create_new(true).mode(0o600);
    let store = FileBackend::new(options.open(path.join("store.redb")).unwrap()).unwrap();
    let journal = RealDisk::open(&path.join("journal")).unwrap();
    EngineStorage { store: SharedBackend::new(store), cache_bytes, journal: Arc::new(journal) }
}
