//! The work of earlier runs that a start takes up again: keys of card numbers and doors, files of
//! receipts.

use std::path::Path;
use std::sync::Arc;

use cardswitch_acquiring::zone::Zone;
use cardswitch_engine::store::StoreError;
use cardswitch_identity::receipts::named_receipts;
use cardswitch_identity::state::AppState;

use crate::node_pan_keys::PanKeyNodes;
use crate::pan_rotation::{PanRotation, PanRotationError, ResealingPace};

/// The keys of card numbers, of which the engine knows now.
pub(super) async fn keep_pan_keys(
    data: &Path,
    state: &AppState,
    nodes: Option<PanKeyNodes>,
) -> Result<Arc<PanRotation>, PanRotationError> {
    let (switch, secrets) = (state.switch.clone(), Arc::clone(&state.secrets));
    let pan_keys =
        PanRotation::new(switch, secrets, data, ResealingPace::Gentle)?.with_nodes(nodes);
    pan_keys.resume().await?;
    Ok(Arc::new(pan_keys))
}

/// Lets doors go on with the keys that were exchanged in earlier runs and on other nodes.
pub(super) fn resume_zones(zones: &[Arc<Zone>], state: &AppState) -> Result<(), StoreError> {
    state.switch.read_at_once(|tables| {
        zones.iter().try_for_each(|zone| zone.resume(tables, &state.secrets))
    })
}

/// Removes the files of receipts that no record names, on a thread of its own; a node fetches those that
/// it lacks.
pub(super) fn settle_receipts(state: &AppState) {
    let (switch, receipts) = (state.switch.clone(), Arc::clone(&state.receipts));
    drop(tokio::task::spawn_blocking(move || {
        let removed = match switch.read_at_once(named_receipts) {
            Ok(named) => {
                receipts.fetch_missing(&named);
                receipts.remove_orphans(&named).map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        match removed {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "removed files of receipts that nothing names"),
            Err(error) => tracing::warn!(%error, "files of receipts that nothing names stay"),
        }
    }));
}
