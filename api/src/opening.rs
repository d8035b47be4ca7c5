//! Opens the engine of a data directory with its keys.

use std::path::Path;

use cardswitch_engine::clock::Clock;
use cardswitch_engine::directory::{DataDirectory, DirectoryError};
use cardswitch_engine::domain::ids::{CardSlot, Timestamp};
use cardswitch_engine::engine::{Engine, EngineOptions, OpenError, Retention};
use cardswitch_engine::recovery_progress::RecoveryProgress;
use cardswitch_engine::shard::CacheLimits;
use cardswitch_engine::store::{Pacing, StoreError};

use crate::config::{ClockSetting, RetentionSetting};
use crate::master_key::{MasterKeyError, read_master_key};
use crate::secrets::Secrets;

/// Why a data directory cannot be opened.
#[derive(Debug)]
pub enum OpeningError {
    /// The directory.
    Directory(DirectoryError),
    /// The master key.
    MasterKey(MasterKeyError),
    /// One of the engine's files.
    Engine(OpenError),
    /// The master key is not the one that sealed this directory's card numbers.
    ForeignMasterKey,
}

impl std::fmt::Display for OpeningError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Directory(error) => error.fmt(formatter),
            Self::MasterKey(error) => error.fmt(formatter),
            Self::Engine(error) => error.fmt(formatter),
            Self::ForeignMasterKey => {
                formatter.write_str("the master key is not the one of this data directory")
            }
        }
    }
}

impl std::error::Error for OpeningError {}

/// Opens the engine; recovery is done when this returns.
/// Errors: a directory in use, a missing key, a damaged or foreign file.
pub fn open_engine(
    data: &Path,
    clock: ClockSetting,
    retention: RetentionSetting,
) -> Result<(Engine, Secrets), OpeningError> {
    open_engine_watched(data, clock, retention, &RecoveryProgress::default())
}

/// As `open_engine`, telling how far it has come.
/// Errors: as `open_engine`.
pub fn open_engine_watched(
    data: &Path,
    clock: ClockSetting,
    retention: RetentionSetting,
    progress: &RecoveryProgress,
) -> Result<(Engine, Secrets), OpeningError> {
    let directory = DataDirectory::open(data).map_err(OpeningError::Directory)?;
    let master = read_master_key(data).map_err(OpeningError::MasterKey)?;
    let secrets = Secrets::from_master(master);
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
    };
    let engine = Engine::open_watched(options, progress).map_err(OpeningError::Engine)?;
    if opens_first_card(&engine, &secrets)
        .map_err(OpenError::Store)
        .map_err(OpeningError::Engine)?
    {
        Ok((engine, secrets))
    } else {
        Err(OpeningError::ForeignMasterKey)
    }
}

/// Whether the keys open what they should have sealed. With another key every card would be unknown.
fn opens_first_card(engine: &Engine, secrets: &Secrets) -> Result<bool, StoreError> {
    let first = engine.store().read()?.card(CardSlot::default())?;
    Ok(first.is_none_or(|card| secrets.open_pan(&card.sealed_pan, card.profile.id).is_some()))
}
