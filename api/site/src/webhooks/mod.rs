//! The endpoints to which events are sent, for administrators and developers.
//!
//! | file | what |
//! |---|---|
//! | `list` | endpoints, and the health of each |
//! | `form` | the form of an endpoint |
//! | `new` | a new one, whose secret is shown once |
//! | `endpoint` | one: its settings, its attempts, and the actions on it |
//! | `attempts` | examples, and messages sent once more |

mod attempts;
mod endpoint;
mod form;
mod list;
mod new;

use axum::Router;
use axum::routing::{get, post};
use cardswitch_edge::error::ApiError;
use cardswitch_engine::directory::webhook_endpoint::{DisabledBy, EndpointState, WebhookEndpoint};
use cardswitch_engine::domain::ids::WebhookEndpointId;
use cardswitch_identity::state::AppState;
use cardswitch_notify::webhooks::lane::EndpointHealth;

use super::rights::ActingMember;
use super::words::Badge;

/// The pages below /webhooks.
pub(super) fn webhook_routes() -> Router<AppState> {
    Router::new()
        .route("/webhooks", get(list::show))
        .route("/webhooks/new", get(new::show).post(new::create))
        .route("/webhooks/{id}", get(endpoint::show).post(endpoint::save))
        .route("/webhooks/{id}/state", post(endpoint::switch))
        .route("/webhooks/{id}/secret", post(endpoint::rotate))
        .route("/webhooks/{id}/recover", post(endpoint::recover))
        .route("/webhooks/{id}/delete", post(endpoint::delete))
        .route("/webhooks/{id}/example", post(attempts::send_example))
        .route("/webhooks/{id}/attempts/{attempt}/resend", post(attempts::resend))
}

/// An endpoint of the company that is acted for.
/// Errors: there is none with this id; the tables cannot be read.
async fn get_endpoint(
    acting: &ActingMember,
    id: WebhookEndpointId,
) -> Result<WebhookEndpoint, ApiError> {
    cardswitch_identity::webhook_endpoints::get_endpoint(&acting.state, &acting.company, id).await
}

/// How an endpoint in this state stands.
pub(crate) fn endpoint_badge(state: EndpointState, health: Option<&EndpointHealth>) -> Badge {
    let is_failing = health.is_some_and(|health| health.failing_since.is_some());
    let has_given_up = health.is_some_and(|health| health.given_up > 0);
    let (word, look) = match state {
        EndpointState::Disabled(DisabledBy::Gone) => ("Gone", "bad"),
        EndpointState::Disabled(DisabledBy::Person) => ("Off", "off"),
        EndpointState::Enabled if has_given_up => ("Failing", "bad"),
        EndpointState::Enabled if is_failing => ("Retrying", "wait"),
        EndpointState::Enabled => ("On", "good"),
    };
    Badge { word, look }
}
