//! Opens the engine of a data directory with its keys.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cardswitch_cluster::ClusterAddress;
use cardswitch_engine::clock::Clock;
use cardswitch_engine::data_directory::{DataDirectory, DirectoryError};
use cardswitch_engine::domain::ids::{CardSlot, Timestamp};
use cardswitch_engine::domain::pan_key::PanGeneration;
use cardswitch_engine::engine::{Engine, EngineOptions, OpenError, Retention, Standby};
use cardswitch_engine::journal::limits::CommitLimits;
use cardswitch_engine::recovery_progress::RecoveryProgress;
use cardswitch_engine::shard::CacheLimits;
use cardswitch_engine::store::{Pacing, Snapshot, StoreError, WaitPurpose};
use cardswitch_secrets::master_key::data_key::{DataKeyError, OpenedKeys, open_keys};
use cardswitch_secrets::master_key::rotation::settle;
use cardswitch_secrets::master_key::source::MasterKeySource;
use cardswitch_secrets::{PanKeys, PanKeysError, Secrets};

use crate::config::{ClockSetting, RetentionSetting};
use crate::handed_backup::remove_leftover;
use crate::manifest::is_backup;
use crate::node_mark::{NodeMarkError, require_alone, require_not_of_another};

/// Why a data directory cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpeningError {
    /// The directory.
    #[error(transparent)]
    Directory(DirectoryError),
    /// The master key, or the data key that it wraps.
    #[error(transparent)]
    Keys(DataKeyError),
    /// It is a backup, which must stay as it is.
    #[error("`{0}` is a backup: make a data directory of it with `cardswitch restore`")]
    Backup(PathBuf),
    /// The keys of card numbers.
    #[error(transparent)]
    PanKeys(PanKeysError),
    /// It is the directory of a node, or of a node of another cluster.
    #[error(transparent)]
    Node(#[from] NodeMarkError),
    /// One of the engine's files.
    #[error(transparent)]
    Engine(OpenError),
    /// The keys are not those that sealed this directory's card numbers.
    #[error("the keys are not those of the card numbers of this data directory")]
    ForeignKeys,
}

/// A data directory, and the source of its master key.
#[derive(Clone, Copy, Debug)]
pub struct KeyedDirectory<'a> {
    /// The directory.
    pub data: &'a Path,
    /// Its master key.
    pub master_key: &'a MasterKeySource,
}

/// A directory with its master key in it, as `init` leaves it.
impl<'a> From<&'a Path> for KeyedDirectory<'a> {
    fn from(data: &'a Path) -> Self {
        Self { data, master_key: &MasterKeySource::InDirectory }
    }
}

/// Opens the engine for a command where no switch runs; none where one does. The journal stays whole: a switch may be
/// told to keep more by its own flags.
/// Errors: as `open_engine`.
pub fn open_at_rest<'a>(
    place: impl Into<KeyedDirectory<'a>>,
    clock: ClockSetting,
) -> Result<Option<(Engine, Secrets)>, OpeningError> {
    let progress = RecoveryProgress::default();
    match open_engine(place.into(), clock, RetentionSetting::Forever, &progress) {
        Err(OpeningError::Directory(DirectoryError::InUse(_))) => Ok(None),
        opened => opened.map(Some),
    }
}

/// Opens the engine, telling how far it has come; recovery is done when this returns.
/// Errors: a directory in use, a missing key, a damaged or foreign file.
pub fn open_engine(
    place: KeyedDirectory<'_>,
    clock: ClockSetting,
    retention: RetentionSetting,
    progress: &RecoveryProgress,
) -> Result<(Engine, Secrets), OpeningError> {
    let (options, secrets) = prepare(place, clock, retention)?;
    require_alone(place.data)?;
    let engine = Engine::open_watched(options, progress).map_err(OpeningError::Engine)?;
    settle_keys(&engine, &secrets, UnusedKey::Kept)?;
    Ok((engine, secrets))
}

/// Opens the engine of a node to follow the cluster's chain, with keys that `settle_keys` checks once it
/// leads.
/// Errors: as `open_engine`.
pub fn open_standby(
    place: KeyedDirectory<'_>,
    retention: RetentionSetting,
    cluster: &ClusterAddress,
    progress: &RecoveryProgress,
) -> Result<(Standby, Secrets), OpeningError> {
    let (options, secrets) = prepare(place, ClockSetting::System, retention)?;
    require_not_of_another(place.data, cluster)?;
    let standby = Standby::open(options, progress);
    Ok((standby.map_err(OpeningError::Engine)?, secrets))
}

fn prepare(
    place: KeyedDirectory<'_>,
    clock: ClockSetting,
    retention: RetentionSetting,
) -> Result<(EngineOptions, Secrets), OpeningError> {
    let KeyedDirectory { data, master_key } = place;
    let directory = DataDirectory::open(data).map_err(OpeningError::Directory)?;
    let secrets = open_secrets(&directory, master_key)?;
    if let Err(error) = remove_leftover(data) {
        tracing::warn!(%error, "the leftover of a backup for another node stays");
    }
    let pan_keys = secrets.read_pan_keys(data).map_err(OpeningError::PanKeys)?;
    secrets.take_pan_keys(&pan_keys);
    let options = EngineOptions {
        directory,
        id_key: secrets.id_key(),
        // A manual clock starts where the journal ends.
        clock: match clock {
            ClockSetting::System => Clock::System,
            ClockSetting::Manual => Clock::manual(Timestamp::default()),
        },
        retention: match retention {
            RetentionSetting::Forever => Retention::Forever,
            RetentionSetting::Recovery => Retention::Recovery,
            RetentionSetting::Bytes(bytes) => Retention::Bytes(bytes),
        },
        pacing: Pacing::default(),
        caches: CacheLimits::default(),
        commits: CommitLimits::default(),
    };
    Ok((options, secrets))
}

/// Errors: the directory is a backup.
pub fn require_no_backup(data: &Path) -> Result<(), OpeningError> {
    if is_backup(data) { Err(OpeningError::Backup(data.to_path_buf())) } else { Ok(()) }
}

/// Errors: a key is missing or another directory's, or this is a backup.
fn open_secrets(
    directory: &DataDirectory,
    master_key: &MasterKeySource,
) -> Result<Secrets, OpeningError> {
    let data = directory.path();
    require_no_backup(data)?;
    let OpenedKeys { secrets, wrapped } =
        open_keys(data, master_key).map_err(OpeningError::Keys)?;
    settle(data, master_key, &wrapped).map_err(|error| OpeningError::Keys(error.into()))?;
    Ok(secrets)
}

/// The treatment of a generation of the key of card numbers that no journal record names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnusedKey {
    /// A rotation was broken off, and goes on.
    Kept,
    /// It was not given to every node.
    Dropped,
}

/// Makes the file of keys agree with the journal: a crash may have come between the two.
/// Errors: a key that is in use is missing, or the keys do not open the card numbers that they should
/// have sealed: with another key every card would be unknown. The tables stand still.
/// Cost: O(cards) where older keys were being forgotten, or keys between the oldest and the newest are missing.
pub fn settle_keys(
    engine: &Engine,
    secrets: &Secrets,
    unused: UnusedKey,
) -> Result<(), OpeningError> {
    let unreadable = |error| OpeningError::Engine(OpenError::Store(error));
    let data = engine.directory.path();
    // Read now: a node was given others while it followed.
    let found = secrets.read_pan_keys(data).map_err(OpeningError::PanKeys)?;
    if found != PanKeys::default() {
        // Rows that a crash took from the tables may be sealed under a key that was forgotten
        // since.
        wait_for_tables(engine)?;
    }
    let tables = engine.store.read().map_err(unreadable)?;
    let used = tables.pan_generations().map_err(unreadable)?;
    let admitted = (used.oldest.0..=used.newest.0).map(PanGeneration);
    let needed = if found.lacking(admitted).is_some() || has_older(&found, used.oldest) {
        engine.store.needed_pan_generations().map_err(unreadable)?
    } else {
        // Whichever a card needs is there.
        BTreeSet::from([used.oldest, used.newest])
    };
    let oldest = needed.first().copied().unwrap_or(used.oldest);
    found.require(needed, data).map_err(OpeningError::PanKeys)?;
    let newest = if unused == UnusedKey::Dropped { used.newest } else { found.newest() };
    let mut kept = found.within(PanGeneration::default()..=newest);
    if has_older(&found, used.oldest) {
        kept = kept.within(oldest..=newest);
    }
    if kept != found {
        tracing::warn!(?found, ?kept, "the file of keys is made what the journal says");
        secrets.write_pan_keys(data, &kept).map_err(OpeningError::PanKeys)?;
    }
    secrets.take_pan_keys(&kept);
    if opens_first_card(&tables, secrets).map_err(unreadable)? {
        Ok(())
    } else {
        Err(OpeningError::ForeignKeys)
    }
}

fn has_older(keys: &PanKeys, oldest: PanGeneration) -> bool {
    keys.generations().any(|generation| generation < oldest)
}

/// Waits until the tables show everything that is durable now.
/// Errors: they stand still for good.
fn wait_for_tables(engine: &Engine) -> Result<(), OpeningError> {
    let newest = engine.durable_seq();
    let (reached, wait) = std::sync::mpsc::channel();
    let wake = Box::new(move || {
        // The receiver waits until then.
        let _ = reached.send(());
    });
    engine.watermark.on_reached(newest, WaitPurpose::Read, wake);
    // Tables that stand still wake all waiters, too.
    let _ = wait.recv();
    match engine.projection_failure() {
        Some(why) if engine.watermark.applied() < newest => {
            Err(OpeningError::Engine(OpenError::Tables(why)))
        }
        _ => Ok(()),
    }
}

fn opens_first_card(tables: &Snapshot, secrets: &Secrets) -> Result<bool, StoreError> {
    let first = tables.card(CardSlot::default())?;
    Ok(first.is_none_or(|card| secrets.open_pan(&card.sealed_pan, card.profile.id).is_some()))
}
