//! The state of the API's handlers, at a node that leads and at one that follows.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use cardswitch_acquiring::fault_plan::FaultPlan;
use cardswitch_edge::descriptors::DescriptorShares;
use cardswitch_edge::peers::PeerNetwork;
use cardswitch_edge::switch::Switch;
use cardswitch_edge::token_rate::TokenRate;
use cardswitch_engine::engine::Engine;
use cardswitch_identity::receipts::ReceiptFiles;
use cardswitch_identity::state::{ApiConfig, AppState};
use cardswitch_network::http::HttpFaults;
use cardswitch_notify::mail::{MailPlace, Outbox};
use cardswitch_notify::webhooks::addresses::Reach;
use cardswitch_notify::webhooks::{Equipment, Webhooks, places_file};
use cardswitch_secrets::Secrets;
use cardswitch_secrets::issuing::CardNumbers;
use cardswitch_v1::operations::ACCESS;
use cardswitch_wire::urls::Urls;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::config::{ConfigError, Settings};
use crate::server::{HandoverParts, StartError};
use crate::telemetry::Telemetry;

/// The parts of the state besides settings.
pub(crate) struct StateParts {
    pub(crate) secrets: Arc<Secrets>,
    pub(crate) receipts: Arc<ReceiptFiles>,
    pub(crate) trusted_proxies: Vec<PeerNetwork>,
    pub(crate) shares: DescriptorShares,
    pub(crate) faults: Option<Arc<FaultPlan>>,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) stopped: watch::Receiver<bool>,
}

/// The state of a deciding switch at `http`, once its tables show all durable records; and its
/// deliveries.
pub(crate) async fn leading_state(
    data: &Path,
    settings: &Settings,
    http: SocketAddr,
    (engine, parts, handover): (&Arc<Engine>, StateParts, Option<HandoverParts>),
) -> Result<(AppState, JoinHandle<()>), StartError> {
    let switch = Switch::new(Arc::clone(engine));
    // Reads that do not wait for the tables, access tokens first of all, must find what a
    // crash took from them.
    while !switch.visible(engine.durable_seq()).await {
        if let Some(reason) = engine.failure().or_else(|| engine.projection_failure()) {
            return Err(StartError::Tables(reason));
        }
        let records = engine.projection_lag().records;
        tracing::info!(records, "the tables catch up with what the last run left");
    }
    let (remote, mail) = handover.map(|kept| (kept.deliveries, kept.mail)).unzip();
    let (webhooks, deliveries) = Webhooks::start(Equipment {
        switch: switch.clone(),
        secrets: Arc::clone(&parts.secrets),
        data,
        elsewhere: remote,
        reach: Reach::new(settings.allow_local_webhooks),
        faults: parts.faults.clone(),
        shares: parts.shares,
        stop: parts.stopped.clone(),
        streams_stop: parts.stopped.clone(),
    })
    .map_err(StartError::Deliveries)?;
    let place = MailPlace { data, store: mail, app_url: &settings.app_url_for(http) };
    let state = state_of(settings, (http, place), (switch, webhooks, parts))?;
    Ok((state, deliveries))
}

/// The state of a following node: it reads, and delivers nothing.
pub(crate) fn following_state(
    data: &Path,
    settings: &Settings,
    http: SocketAddr,
    (engine, parts): (Engine, StateParts),
) -> Result<AppState, StartError> {
    let reach = Reach::new(settings.allow_local_webhooks);
    if let Err(error) = places_file::remove(data) {
        tracing::warn!(%error, "old places of webhooks stay: a backup of this node would repeat much");
    }
    let webhooks = Webhooks::elsewhere(reach, &parts.shares, parts.stopped.clone());
    let place = MailPlace { data, store: None, app_url: &settings.app_url_for(http) };
    state_of(settings, (http, place), (Switch::new(Arc::new(engine)), webhooks, parts))
}

fn state_of(
    settings: &Settings,
    (http, mail): (SocketAddr, MailPlace<'_>),
    (switch, webhooks, parts): (Switch, Arc<Webhooks>, StateParts),
) -> Result<AppState, StartError> {
    let StateParts { secrets, receipts, trusted_proxies, faults, telemetry, .. } = parts;
    let card_numbers = CardNumbers::new(&settings.bin)
        .ok_or_else(|| StartError::Config(ConfigError::Value("bin", settings.bin.clone())))?;
    let urls = Urls::with_app(&settings.base_url_for(http), mail.app_url);
    let outbox = Outbox::open_with(mail, Arc::clone(&secrets), &settings.mail);
    let mut token_rate = TokenRate::per_second(settings.token_requests_per_s);
    token_rate.refused = Arc::clone(&telemetry.token_refused);
    Ok(AppState {
        switch,
        secrets,
        access: &ACCESS,
        config: Arc::new(ApiConfig {
            urls,
            card_numbers,
            requisition_network: settings.requisition_network().to_owned(),
            trusted_proxies,
            faults: faults.map(|plan| Arc::new(HttpFaults::new(plan))),
        }),
        receipts,
        callers: Arc::default(),
        passwords: Arc::default(),
        throttle: Arc::default(),
        second_factors: Arc::default(),
        outbox: Arc::new(outbox.map_err(StartError::Outbox)?),
        webhooks,
        token_rate: Arc::new(token_rate),
    })
}
