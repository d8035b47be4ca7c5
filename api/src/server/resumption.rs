//! The work of earlier runs that a start takes up again: keys of card numbers and doors, files of
//! receipts.

use std::path::Path;
use std::sync::Arc;

use cardswitch_acquiring::zone::Zone;
use cardswitch_engine::store::StoreError;
use cardswitch_identity::receipts::named_receipts;
use cardswitch_identity::state::AppState;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use crate::node_pan_keys::PanKeyNodes;
use crate::pan_rotation::{PanRotation, PanRotationError, ResealingPace};

/// The keys of card numbers, of which the engine knows now.
pub(super) async fn keep_pan_keys(
    data: &Path,
    state: &AppState,
    nodes: Option<PanKeyNodes>,
) -> Result<Arc<PanRotation>, PanRotationError> {
    let (switch, secrets) = (state.switch.clone(), Arc::clone(&state.secrets));
    let pan_keys = PanRotation::new(switch, secrets, data, ResealingPace::Gentle, nodes)?;
    pan_keys.resume().await?;
    Ok(Arc::new(pan_keys))
}

/// Lets doors go on with the keys that were exchanged in earlier runs and on other nodes.
pub(super) fn resume_zones(zones: &[Arc<Zone>], state: &AppState) -> Result<(), StoreError> {
    state.switch.read_at_once(|tables| {
        zones.iter().try_for_each(|zone| zone.resume(tables, &state.secrets))
    })
}

/// Removes the files of receipts that no record names: those of earlier runs, and again whenever much was
/// written, until the switch stops. A node first fetches those that it lacks.
pub(super) fn keep_receipts(
    state: &AppState,
    backups: &Arc<Semaphore>,
    stopped: &watch::Receiver<bool>,
) -> JoinHandle<()> {
    let (state, backups, mut stopped) = (state.clone(), Arc::clone(backups), stopped.clone());
    let sweeps = async move {
        report(settle(&state).await);
        loop {
            state.receipts.wait_for_sweep().await;
            report(sweep(&state, &backups).await);
        }
    };
    tokio::spawn(async move {
        tokio::select! {
            () = sweeps => {}
            _ = stopped.wait_for(|is_stopped| *is_stopped) => {}
        }
    })
}

/// Removes what earlier runs left.
async fn settle(state: &AppState) -> Result<usize, String> {
    let (switch, receipts) = (state.switch.clone(), Arc::clone(&state.receipts));
    let settled = tokio::task::spawn_blocking(move || {
        let named = switch.read_at_once(named_receipts).map_err(|error| error.to_string())?;
        receipts.fetch_missing(&named);
        receipts.remove_orphans(&named).map_err(|error| error.to_string())
    });
    settled.await.map_err(|error| error.to_string())?
}

/// Removes what nothing names any more.
async fn sweep(state: &AppState, backups: &Semaphore) -> Result<usize, String> {
    let (switch, receipts) = (state.switch.clone(), Arc::clone(&state.receipts));
    receipts.begin_sweep();
    // An upload that has ended is durable by now.
    if !switch.visible(switch.engine.durable_seq()).await {
        return Err("the tables are late".to_owned());
    }
    let named = tokio::task::spawn_blocking(move || switch.read_at_once(named_receipts)).await;
    let named = named.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    // A backup under way may be of records that still name a replaced content; one that begins now is not.
    let _permit = backups.acquire().await.map_err(|error| error.to_string())?;
    let removed = tokio::task::spawn_blocking(move || receipts.remove_orphans(&named)).await;
    removed.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
}

fn report(removed: Result<usize, String>) {
    match removed {
        Ok(0) => {}
        Ok(count) => tracing::info!(count, "removed files of receipts that nothing names"),
        Err(error) => tracing::warn!(%error, "files of receipts that nothing names stay"),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
    use tower::ServiceExt;

    use super::*;
    use crate::bench::{Bench, amount, id_of, virtual_card};

    /// Once, replaced receipts stayed until the next start.
    #[tokio::test]
    async fn a_sweep_removes_receipts_that_were_replaced() {
        let bench = Bench::new().await;
        let card = bench.order(virtual_card()).await;
        assert!(bench.authorize(&card, amount(1_000)).await);
        let newest = bench.get("/v1/transactions?limit=1").await;
        let path = format!("/v1/transactions/{}/receipt", id_of(&newest["results"][0]));
        settle(&bench.state).await.unwrap();
        let upload = async |content: &'static str| {
            let request = Request::post(&path)
                .header(AUTHORIZATION, "Token admin")
                .header(CONTENT_TYPE, "application/pdf")
                .body(Body::from(content))
                .unwrap();
            let answer = bench.routes.clone().oneshot(request).await.unwrap();
            assert_eq!(answer.status(), 201);
        };
        for content in ["%PDF-1.7 one", "%PDF-1.7 two", "%PDF-1.7 three"] {
            upload(content).await;
        }
        let backups = Semaphore::new(1);
        assert_eq!(sweep(&bench.state, &backups).await, Ok(2));
        let named = bench.state.switch.read_at_once(named_receipts).unwrap();
        named.iter().for_each(|digest| drop(bench.state.receipts.read(digest).unwrap()));
    }
}
