//! The parts of a switch that are there before its doors: those that a node has open already, or new ones.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cardswitch_engine::engine::Engine;
use cardswitch_identity::receipts::ReceiptFiles;
use cardswitch_notify::mail::store::MailStore;
use cardswitch_notify::webhooks::deliveries::RemoteDeliveries;
use cardswitch_secrets::Secrets;
use cardswitch_secrets::master_key::rotation::MasterKeys;
use cardswitch_site::overview::ClusterLine;

use super::{OperatorListener, StartError};
use crate::config::Settings;
use crate::forwarding::LEADER_PATIENCE;
use crate::node_pan_keys::PanKeyNodes;
use crate::opening::KeyedDirectory;

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
    /// Its master key, which a node that joins is asked for.
    pub master_keys: Arc<MasterKeys>,
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
    pub(super) master_keys: Arc<MasterKeys>,
    /// How long requests wait until it answers.
    pub(super) patience: Duration,
}

pub(super) async fn begin(
    opened: Option<SwitchParts>,
    place: KeyedDirectory<'_>,
    settings: &Settings,
) -> Result<StartParts, StartError> {
    Ok(match opened {
        Some(parts) => StartParts {
            operators: parts.operators,
            opened: Some((parts.engine, parts.secrets)),
            receipts: Some(parts.receipts),
            handover: Some(parts.handover),
            cluster: Some(parts.cluster),
            nodes: Some(parts.nodes),
            master_keys: parts.master_keys,
            // A node that takes over is open in a moment.
            patience: LEADER_PATIENCE,
        },
        None => StartParts {
            operators: OperatorListener::start(settings).await?,
            opened: None,
            receipts: None,
            handover: None,
            cluster: None,
            nodes: None,
            master_keys: Arc::new(MasterKeys::new(place.data, place.master_key.clone())),
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
