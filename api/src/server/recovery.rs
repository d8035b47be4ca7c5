//! The recovery of the data directory, beside everything else of a start.

use std::sync::Arc;
use std::time::Duration;

use cardswitch_engine::clock::Stopwatch;
use cardswitch_engine::engine::Engine;
use cardswitch_secrets::Secrets;

use super::StartError;
use crate::config::Settings;
use crate::opening::{KeyedDirectory, open_engine};
use crate::telemetry::Telemetry;

/// How often a long recovery tells how far it has come.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Opens the data directory beside everything else, and tells now and then how far it has come.
pub(super) async fn recover(
    place: KeyedDirectory<'_>,
    settings: &Settings,
    telemetry: &Telemetry,
) -> Result<(Engine, Secrets), StartError> {
    let (data, master_key) = (place.data.to_owned(), place.master_key.clone());
    let (clock, retention) = (settings.clock, settings.retention);
    let progress = Arc::clone(&telemetry.recovery);
    let opening = tokio::task::spawn_blocking(move || {
        let place = KeyedDirectory { data: &data, master_key: &master_key };
        open_engine(place, clock, retention, &progress)
    });
    let since = Stopwatch::start();
    tokio::pin!(opening);
    loop {
        match tokio::time::timeout(PROGRESS_INTERVAL, &mut opening).await {
            Ok(Ok(opened)) => {
                return opened.inspect(tell_of_journal).map_err(StartError::Opening);
            }
            Ok(Err(panicked)) => return Err(StartError::Tables(panicked.to_string())),
            Err(_) => {
                let now = telemetry.recovery.now();
                let (stage, took_s) = (now.stage.word(), since.elapsed().as_secs());
                let (replayed, to_replay) = (now.replayed, now.to_replay);
                tracing::info!(stage, replayed, to_replay, took_s, "recovering");
            }
        }
    }
}

/// Logs the engine's notes on the journal for the operator.
fn tell_of_journal((engine, _): &(Engine, Secrets)) {
    for note in &engine.journal_notes {
        tracing::warn!("journal: {note}");
    }
}
