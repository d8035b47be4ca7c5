//! The endpoints of a company. GET /webhooks.

use askama::Template;
use axum::extract::Query;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_engine::directory::app::App;
use cardswitch_engine::directory::webhook_endpoint::WebhookEndpoint;
use cardswitch_engine::store::query::ListPage;
use cardswitch_engine::store::{Snapshot, StoreError};

use super::endpoint_badge;
use crate::frame;
use crate::pager::{Pager, Part};
use crate::rights::WebhookManager;
use crate::words::{Badge, Moment, moment};

#[derive(Template)]
#[template(path = "webhooks/list.html")]
struct EndpointListContent<'a> {
    company: &'a str,
    endpoints: Vec<EndpointRow>,
    pager: Pager,
}

struct EndpointRow {
    id: String,
    address: String,
    description: String,
    told_of: String,
    badge: Badge,
    delivered: Option<Moment>,
}

/// GET /webhooks.
pub(super) async fn show(
    WebhookManager(acting): WebhookManager,
    Query(part): Query<Part>,
) -> Result<Response, ApiError> {
    let company = &acting.company;
    let read = |snapshot: &Snapshot| {
        let listed = snapshot.list_own::<WebhookEndpoint>(company.slot, &part.page())?;
        listed.load(|endpoint| told_of(snapshot, &endpoint).map(|told_of| (endpoint, told_of)))
    };
    let ListPage { rows: named, count } = acting.state.switch.read(read).await?;
    let ids = named.iter().map(|(endpoint, _)| endpoint.id).collect();
    // The health of endpoints is unknown while deliveries are not at work.
    let mut health = acting.state.webhooks.health(ids).await.unwrap_or_default().into_iter();
    let row = |(endpoint, told_of): (WebhookEndpoint, String)| {
        let health = health.next().flatten();
        let delivered = health.as_ref().and_then(|health| health.delivered_at);
        EndpointRow {
            id: endpoint.id.0.to_string(),
            badge: endpoint_badge(endpoint.state, health.as_ref()),
            address: endpoint.url,
            description: endpoint.description,
            told_of,
            delivered: delivered.map(|at| moment(at, company.zone)),
        }
    };
    let endpoints: Vec<_> = named.into_iter().map(row).collect();
    let pager = Pager::new(part, endpoints.len(), count, "/webhooks", &[]);
    let content = EndpointListContent { company: &company.name, endpoints, pager };
    Ok(frame::page("Webhooks", content))
}

/// The company or app whose events an endpoint gets.
pub(super) fn told_of(
    snapshot: &Snapshot,
    endpoint: &WebhookEndpoint,
) -> Result<String, StoreError> {
    let Some(app) = endpoint.app else { return Ok("This company".to_owned()) };
    Ok(match snapshot.row::<App>(app)? {
        None => "Deleted app".to_owned(),
        Some(app) if app.company == endpoint.company => {
            format!("Companies that allow {}", app.name)
        }
        Some(app) => format!("This company, while it allows {}", app.name),
    })
}
