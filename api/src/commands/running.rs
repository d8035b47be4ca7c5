//! The switch that runs on a data directory, as commands ask it through its socket.

use std::path::Path;

use cardswitch_cluster::{ClusterView, NodeRecord};
use serde::de::DeserializeOwned;

use super::Failure;
use crate::control::{self, ControlRequest};
use crate::node_mark::cluster_of;

/// Asks the switch that has the directory open.
/// Errors: it does not answer, or did not do it.
pub(super) async fn ask_running<T: DeserializeOwned>(
    data: &Path,
    request: &ControlRequest,
) -> Result<T, Failure> {
    match control::ask(data, request).await {
        Ok(Ok(answer)) => serde_json::from_value(answer).map_err(|_| {
            Failure::new("the switch answered something else: is it another version?")
        }),
        Ok(Err(why)) => Err(Failure::new(why)),
        Err(error) => Err(Failure::new(match cluster_of(data) {
            Ok(Some(cluster)) => match leader_of(&cluster).await {
                Some(leads) => {
                    format!("this node follows: run the command on the data directory of {leads}")
                }
                None => format!(
                    "this node follows, and no leader was found: run the command again once \
                     `cardswitch cluster status --journal {cluster}` names one, on its data directory"
                ),
            },
            _ => format!("the directory is in use, but its user does not answer: {error}"),
        })),
    }
}

/// Which node leads, if etcd answers.
async fn leader_of(cluster: &str) -> Option<String> {
    let address = cluster.parse().ok()?;
    let view = tokio::task::spawn_blocking(move || ClusterView::read(&address)).await.ok()?.ok()?;
    let NodeRecord { name, http, .. } = view.leader()?;
    Some(format!("{name}, which leads at {http}"))
}
