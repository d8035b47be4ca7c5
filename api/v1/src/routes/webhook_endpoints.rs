//! Webhook endpoints: making, listing, changing and taking them away. An extension: the specification
//! knows the URLs of apps only.
//!
//! Secrets are shown once, when they are made. The health of deliveries comes from the dispatcher,
//! not from the tables.

use axum::http::StatusCode;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::{Answer, JsonBody, ListQuery, PathId};
use cardswitch_edge::json::Json;
use cardswitch_engine::directory::app::App;
use cardswitch_engine::directory::webhook_endpoint::WebhookEndpoint;
use cardswitch_engine::domain::ids::{Timestamp, WebhookEndpointId};
use cardswitch_engine::store::StoreError;
use cardswitch_identity::auth::Call;
use cardswitch_identity::state::AppState;
use cardswitch_identity::webhook_endpoints::{self, GivenChanges, GivenEndpoint, render_state};
use cardswitch_notify::webhooks::DispatcherRefusal;
use cardswitch_notify::webhooks::addresses::Reach;
use cardswitch_notify::webhooks::lane::EndpointHealth;
use cardswitch_secrets::webhook_signature::WebhookSecret;
use cardswitch_wire::bodies;
use cardswitch_wire::body::instant;
use cardswitch_wire::fault::Flaw;
use cardswitch_wire::fields::Fields;
use cardswitch_wire::page::{Listing, PageParameters};
use cardswitch_wire::time::render_time;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::access_tokens::AppReference;
use super::no_store::NoStore;
use super::view::{BY_CREATION, View, list_view, read_view, unfiltered};
use crate::words;

/// A webhook endpoint as responses show it.
#[derive(Debug, Serialize, ToSchema)]
pub struct WebhookEndpointBody {
    id: Uuid,
    url: String,
    /// Address of the receiver.
    #[schema(format = "uri", example = "https://hooks.example.com/cards")]
    delivery_url: String,
    description: String,
    /// The app it is for; null for the company's own.
    app: Option<AppReference>,
    is_enabled: bool,
    #[schema(value_type = words::WebhookEndpointState)]
    state: &'static str,
    delivery: DeliveryBody,
    /// End of the time in which a replaced secret signs, too.
    previous_secret_expires_at: Option<String>,
    /// Secret that signs webhooks. Shown when the endpoint is created, and never again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")]
    secret: Option<String>,
    created_at: String,
}

/// State of the deliveries to an endpoint.
#[derive(Debug, Serialize, ToSchema)]
pub struct DeliveryBody {
    /// Begin of the failures since the last delivery; null if the last try succeeded.
    failing_since: Option<String>,
    /// Number of messages that wait for another try.
    waiting: usize,
    /// When the first of them is tried.
    next_try_at: Option<String>,
    /// Number of messages given up since the last delivery; `recover` sends them again.
    given_up: u32,
    /// When one arrived last, also by a resend; tests do not count.
    last_delivered_at: Option<String>,
}

impl DeliveryBody {
    fn new(health: Option<EndpointHealth>) -> Self {
        let time = |at: fn(&EndpointHealth) -> Option<Timestamp>| {
            // A delivery that is due at once after a restart has no time of its own.
            health.as_ref().and_then(at).filter(|at| at.0 > 0).map(render_time)
        };
        Self {
            failing_since: time(|health| health.failing_since),
            waiting: health.map_or(0, |health| health.waiting),
            next_try_at: time(|health| health.next_try_at),
            given_up: health.map_or(0, |health| health.given_up),
            last_delivered_at: time(|health| health.delivered_at),
        }
    }
}

impl WebhookEndpointBody {
    /// The endpoint as it is shown.
    /// Errors: its app cannot be read.
    fn new(endpoint: &WebhookEndpoint, view: &View<'_>) -> Result<Self, StoreError> {
        let app = endpoint.app.map(|app| view.snapshot.row::<App>(app)).transpose()?.flatten();
        Ok(Self {
            id: endpoint.id.0,
            url: view.urls.object("webhook-endpoints", endpoint.id.0),
            delivery_url: endpoint.url.clone(),
            description: endpoint.description.clone(),
            app: app.map(|app| AppReference { id: app.id.0, name: app.name }),
            is_enabled: endpoint.is_enabled(),
            state: render_state(endpoint.state),
            delivery: DeliveryBody::new(None),
            previous_secret_expires_at: endpoint.overlap_until(view.now).map(render_time),
            secret: None,
            created_at: render_time(endpoint.created_at),
        })
    }
}

/// Adds how deliveries do.
/// Errors: the dispatcher does not run here, as at a follower of a cluster, or has too much to do.
async fn add_health(
    state: &AppState,
    bodies: &mut [WebhookEndpointBody],
) -> Result<(), DispatcherRefusal> {
    let ids = bodies.iter().map(|body| WebhookEndpointId(body.id)).collect();
    let health = state.webhooks.health(ids).await?;
    for (body, health) in bodies.iter_mut().zip(health) {
        body.delivery = DeliveryBody::new(health);
    }
    Ok(())
}

bodies! {
    /// A new webhook endpoint.
    NewWebhookEndpointBody "NewWebhookEndpoint" |fields| {
        _ = GivenEndpoint::parse(fields, Reach::Public);
    };
    /// Changes of a webhook endpoint; absent fields stay.
    WebhookEndpointUpdate "WebhookEndpointUpdate" |fields| {
        _ = GivenChanges::parse(fields, Reach::Public);
    };
    /// From when on events are told again.
    WebhookRecovery "WebhookRecovery" |fields| _ = parse_since(fields);
}

/// List webhook endpoints, the newest first.
#[utoipa::path(
    get, path = "/v1/webhook-endpoints", params(PageParameters),
    responses((status = 200, body = Listing<WebhookEndpointBody>)),
)]
pub async fn list_webhook_endpoints(
    call: Call,
    list: ListQuery,
) -> Answer<Json<Listing<WebhookEndpointBody>>> {
    let listed = list_view(&call, list, BY_CREATION, unfiltered, |view, (), page| {
        let listed = view.snapshot.list_own::<WebhookEndpoint>(view.company.slot, page)?;
        listed.load(|endpoint| WebhookEndpointBody::new(&endpoint, view))
    });
    let Json(mut listing) = listed.await?;
    add_health(&call.0, &mut listing.results).await?;
    Ok(Json(listing))
}

/// Retrieve a webhook endpoint.
#[utoipa::path(
    get, path = "/v1/webhook-endpoints/{webhook_endpoint_id}",
    responses((status = 200, body = WebhookEndpointBody)),
)]
pub async fn get_webhook_endpoint(
    call: Call,
    PathId(id): PathId,
) -> Answer<Json<WebhookEndpointBody>> {
    let mut body = [read_endpoint(&call, WebhookEndpointId(id)).await?];
    add_health(&call.0, &mut body).await?;
    let [body] = body;
    Ok(Json(body))
}

/// The endpoint after a change, which was made: the answer does not fail for lack of its health.
async fn read_changed(call: &Call, id: WebhookEndpointId) -> Result<WebhookEndpointBody, ApiError> {
    let mut body = [read_endpoint(call, id).await?];
    _ = add_health(&call.0, &mut body).await;
    let [body] = body;
    Ok(body)
}

async fn read_endpoint(
    call: &Call,
    id: WebhookEndpointId,
) -> Result<WebhookEndpointBody, ApiError> {
    let body = read_view(call, |view| {
        let found = view.snapshot.own::<WebhookEndpoint>(view.company.slot, id)?;
        found.map(|endpoint| WebhookEndpointBody::new(&endpoint, view)).transpose()
    });
    body.await?.ok_or_else(ApiError::not_found)
}

/// Create a webhook endpoint. The answer alone shows the secret that webhooks are signed with.
#[utoipa::path(
    post, path = "/v1/webhook-endpoints", request_body = NewWebhookEndpointBody,
    responses((status = 201, body = WebhookEndpointBody)),
)]
pub async fn create_webhook_endpoint(
    call: Call,
    body: JsonBody,
) -> Answer<(StatusCode, NoStore<Json<WebhookEndpointBody>>)> {
    let Call(state, caller) = &call;
    let mut fields = body.fields()?;
    let mut given = GivenEndpoint::parse(&mut fields, state.webhooks.reach);
    given.app = given.app.or(caller.app);
    let is_allowed = match caller.app {
        // An endpoint of the app ends with its access.
        Some(app) => given.app == Some(app),
        None => webhook_endpoints::is_own_app(state, &caller.company, given.app).await?,
    };
    if !is_allowed {
        fields.fault("app", Flaw::not_found("app"));
    }
    fields.finish()?;
    let (id, secret) = webhook_endpoints::create(state, caller.company.id, given).await?;
    let body = with_secret(read_changed(&call, id).await?, &secret);
    Ok((StatusCode::CREATED, body))
}

fn with_secret(
    body: WebhookEndpointBody,
    secret: &WebhookSecret,
) -> NoStore<Json<WebhookEndpointBody>> {
    NoStore(Json(WebhookEndpointBody { secret: Some(secret.text()), ..body }))
}

/// Update a webhook endpoint.
#[utoipa::path(
    put, path = "/v1/webhook-endpoints/{webhook_endpoint_id}", request_body = WebhookEndpointUpdate,
    responses((status = 200, body = WebhookEndpointBody)),
)]
pub async fn update_webhook_endpoint(
    call: Call,
    PathId(id): PathId,
    body: JsonBody,
) -> Answer<Json<WebhookEndpointBody>> {
    let Call(state, caller) = &call;
    let id = WebhookEndpointId(id);
    let mut fields = body.fields()?;
    let given = GivenChanges::parse(&mut fields, state.webhooks.reach);
    webhook_endpoints::get_changeable(state, caller, id).await?;
    fields.finish()?;
    webhook_endpoints::update(state, caller.company.id, id, given).await?;
    Ok(Json(read_changed(&call, id).await?))
}

/// Delete a webhook endpoint; nothing more is sent to it.
#[utoipa::path(
    delete, path = "/v1/webhook-endpoints/{webhook_endpoint_id}", responses((status = 204)),
)]
pub async fn delete_webhook_endpoint(
    Call(state, caller): Call,
    PathId(id): PathId,
) -> Answer<StatusCode> {
    let id = WebhookEndpointId(id);
    webhook_endpoints::get_changeable(&state, &caller, id).await?;
    webhook_endpoints::delete(&state, caller.company.id, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Give a webhook endpoint a new secret, which the answer alone shows. A replaced secret signs for 24
/// hours more; four at most do at once.
#[utoipa::path(
    post, path = "/v1/webhook-endpoints/{webhook_endpoint_id}/rotate-secret",
    responses((status = 200, body = WebhookEndpointBody)),
)]
pub async fn rotate_webhook_secret(
    call: Call,
    PathId(id): PathId,
) -> Answer<NoStore<Json<WebhookEndpointBody>>> {
    let Call(state, caller) = &call;
    let id = WebhookEndpointId(id);
    webhook_endpoints::get_changeable(state, caller, id).await?;
    let secret = webhook_endpoints::rotate_secret(state, caller.company.id, id).await?;
    Ok(with_secret(read_changed(&call, id).await?, &secret))
}

fn parse_since(fields: &mut Fields<'_>) -> Timestamp {
    let about = "Events from this instant on are sent again, with all that were not sent yet.";
    fields.must("since", about, instant())
}

/// Replay the events of a webhook endpoint since an instant.
#[utoipa::path(
    post, path = "/v1/webhook-endpoints/{webhook_endpoint_id}/recover",
    request_body = WebhookRecovery, responses((status = 200, body = WebhookEndpointBody)),
)]
pub async fn recover_webhook_endpoint(
    call: Call,
    PathId(id): PathId,
    body: JsonBody,
) -> Answer<Json<WebhookEndpointBody>> {
    let Call(state, caller) = &call;
    let id = WebhookEndpointId(id);
    let mut fields = body.fields()?;
    let since = parse_since(&mut fields);
    webhook_endpoints::get_changeable(state, caller, id).await?;
    fields.finish()?;
    webhook_endpoints::recover(state, id, since).await?;
    Ok(Json(read_changed(&call, id).await?))
}
