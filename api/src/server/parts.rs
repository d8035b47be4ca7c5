//! The parts of a switch that are there before its doors: those that a node has open already, or new ones.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cardswitch_engine::engine::Engine;
use cardswitch_identity::receipts::ReceiptFiles;
use cardswitch_notify::mail::store::MailStore;
use cardswitch_notify::webhooks::deliveries::RemoteDeliveries;
use cardswitch_secrets::Secrets;
use cardswitch_site::overview::ClusterLine;

use super::{OperatorListener, StartError};
use crate::config::Settings;
use crate::forwarding::LEADER_PATIENCE;
use crate::node_pan_keys::PanKeyNodes;

/// The parts of a switch that were open before its doors.
pub struct SwitchParts {
    /// The engine, which leads.
    pub engine: Engine,
    /// The keys of its directory.
    pub secrets: Secrets,
    /// The listener for operators.
    pub operators: OperatorListener,
    /// Its receipts.
    pub receipts: Arc<ReceiptFiles>,
    /// The parts that its cluster keeps for the next leader.
    pub handover: HandoverParts,
    /// The state of its cluster.
    pub cluster: ClusterLine,
    /// The other nodes, as they are given keys of card numbers.
    pub nodes: PanKeyNodes,
}

cardswitch_engine::opaque!(SwitchParts);

/// The parts that outlive this machine: the node that leads next takes them over.
#[derive(Debug)]
pub struct HandoverParts {
    /// The progress of deliveries.
    pub deliveries: Box<dyn RemoteDeliveries>,
    /// Mail.
    pub mail: Arc<dyn MailStore>,
}

/// The beginning of a start: the listener for operators, and the parts that a node has open
/// already.
pub(super) struct StartParts {
    pub(super) operators: OperatorListener,
    pub(super) opened: Option<(Engine, Secrets)>,
    pub(super) receipts: Option<Arc<ReceiptFiles>>,
    pub(super) handover: Option<HandoverParts>,
    pub(super) cluster: Option<ClusterLine>,
    pub(super) nodes: Option<PanKeyNodes>,
    /// How long requests wait until it answers.
    pub(super) patience: Duration,
}

pub(super) async fn begin(
    opened: Option<SwitchParts>,
    settings: &Settings,
) -> Result<StartParts, StartError> {
    Ok(match opened {
        Some(SwitchParts { engine, secrets, operators, receipts, handover, cluster, nodes }) => {
            StartParts {
                operators,
                opened: Some((engine, secrets)),
                receipts: Some(receipts),
                handover: Some(handover),
                cluster: Some(cluster),
                nodes: Some(nodes),
                // A node that takes over is open in a moment.
                patience: LEADER_PATIENCE,
            }
        }
        None => StartParts {
            operators: OperatorListener::start(settings).await?,
            opened: None,
            receipts: None,
            handover: None,
            cluster: None,
            nodes: None,
            patience: Duration::ZERO,
        },
    })
}

pub(super) fn receipts_of(
    data: &Path,
    opened: Option<Arc<ReceiptFiles>>,
) -> Result<Arc<ReceiptFiles>, StartError> {
    let open = || ReceiptFiles::open(data).map(Arc::new).map_err(StartError::Receipts);
    opened.map_or_else(open, Ok)
}
