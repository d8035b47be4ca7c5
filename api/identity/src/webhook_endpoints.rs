//! Webhook endpoints as people and programs make and change them: the fields given for one are read
//! here, for the site and for `/v1` alike.

use cardswitch_edge::error::ApiError;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::webhook_endpoint::{
    DisabledBy, EndpointState, NewSecret, NewWebhookEndpoint, WebhookEndpoint,
    WebhookEndpointChanges, WebhookEndpointCommand,
};
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::ids::{AppId, CompanyId, Timestamp, WebhookEndpointId};
use cardswitch_engine::domain::text::LineText;
use cardswitch_notify::webhooks::addresses::{ADDRESS_BYTES_MAX, Reach, check_address};
use cardswitch_secrets::SealedSecret;
use cardswitch_secrets::issuing::{RandomSource, SystemRandom};
use cardswitch_secrets::webhook_signature::{WebhookSecret, overlap_until};
use cardswitch_wire::body::{ValueRule, flag, line_schema, reference, rule, short_line};
use cardswitch_wire::fault::Flaw;
use cardswitch_wire::fields::{self, Fields};

use crate::actor_state::ActorState;
use crate::auth::Caller;
use crate::state::AppState;

/// The most characters a description has.
pub const DESCRIPTION_CHARS_MAX: usize = 200;

/// The words for the states of an endpoint.
pub const STATES: [&str; 3] = ["enabled", "disabled", "gone"];

/// The word for a state.
pub const fn render_state(state: EndpointState) -> &'static str {
    let [enabled, disabled, gone] = STATES;
    match state {
        EndpointState::Enabled => enabled,
        EndpointState::Disabled(DisabledBy::Person) => disabled,
        EndpointState::Disabled(DisabledBy::Gone) => gone,
    }
}

/// An endpoint to be made.
#[derive(Clone, Debug)]
pub struct GivenEndpoint {
    /// Address of the receiver.
    pub address: String,
    /// Label for people.
    pub description: LineText,
    /// The app that it is for, if any.
    pub app: Option<AppId>,
}

impl GivenEndpoint {
    /// Reads the given fields; faults stay with them.
    pub fn parse(fields: &mut Fields<'_>, reach: Reach) -> Self {
        let address = fields.must("delivery_url", ADDRESS_ABOUT, address(reach));
        let description = short_line(DESCRIPTION_CHARS_MAX);
        let description = fields.may("description", "Label for people.", description);
        let about = "The app it is for. One of the company's own is told of the events of every company \
            that has let\nthe app in, another one of this company's. Absent or null: it is told of the \
            company's own; made\nwith a token of an app, it is always for that app.";
        let app = fields.patch("app", about, reference(AppId)).flatten();
        Self { address, description: description.unwrap_or_default(), app }
    }
}

/// The changes to an endpoint.
#[derive(Clone, Debug, Default)]
pub struct GivenChanges {
    /// Address of the receiver.
    pub address: Option<String>,
    /// Label for people.
    pub description: Option<LineText>,
    /// Whether it gets events.
    pub is_enabled: Option<bool>,
}

impl GivenChanges {
    /// Reads the given fields; faults stay with them.
    pub fn parse(fields: &mut Fields<'_>, reach: Reach) -> Self {
        Self {
            address: fields.may("delivery_url", ADDRESS_ABOUT, address(reach)),
            description: fields.may(
                "description",
                "Label for people.",
                short_line(DESCRIPTION_CHARS_MAX),
            ),
            is_enabled: fields.may(
                "is_enabled",
                "Whether it gets events. A newly enabled one gets the events from then on.",
                flag().example("true"),
            ),
        }
    }
}

const ADDRESS_ABOUT: &str = "Where webhooks are sent: `https`, and on the public internet. A switch \
    that is served with\n`--allow-local-webhooks` also sends to its own machine and to private \
    networks.";

fn address<'a>(reach: Reach) -> impl ValueRule<'a, String> {
    let address = rule(line_schema(ADDRESS_BYTES_MAX), move |value| {
        let text = fields::line(value, ADDRESS_BYTES_MAX)?;
        check_address(&text, reach).map_err(|fault| Flaw::new(fault.code(), fault.text(reach)))?;
        Ok(text.into())
    });
    address.example("\"https://hooks.example.com/cards\"")
}

/// Whether the app, if one is named, can have endpoints of this company's.
/// Errors: the tables cannot be read.
pub async fn is_own_app(
    state: &AppState,
    company: &Company,
    app: Option<AppId>,
) -> Result<bool, ApiError> {
    let Some(app) = app else { return Ok(true) };
    let found = state.switch.read(|snapshot| snapshot.app_by_id(app)).await?;
    Ok(found.is_some_and(|app| app.company == company.slot && !app.is_deleted))
}

/// Finds an endpoint of a company.
/// Errors: there is none; the tables cannot be read.
pub async fn get_endpoint(
    state: &AppState,
    company: &Company,
    id: WebhookEndpointId,
) -> Result<WebhookEndpoint, ApiError> {
    let read = state.switch.read(|snapshot| snapshot.own(company.slot, id));
    read.await?.ok_or_else(ApiError::not_found)
}

/// Finds an endpoint that a caller may change: a token of an app changes the app's only, which end with its access.
/// Errors: the company has no such endpoint, or it is not the app's; the tables cannot be read.
pub async fn get_changeable(
    state: &AppState,
    caller: &Caller,
    id: WebhookEndpointId,
) -> Result<WebhookEndpoint, ApiError> {
    let endpoint = get_endpoint(state, &caller.company, id).await?;
    let Some(app) = caller.app else { return Ok(endpoint) };
    let app = state.switch.read(|snapshot| snapshot.app_by_id(app)).await?;
    let is_of_app = app.is_some_and(|app| endpoint.app == Some(app.slot));
    if is_of_app { Ok(endpoint) } else { Err(ApiError::not_of_app()) }
}

/// Makes an endpoint. Returns its id, and the secret that is shown once.
/// Errors: the change is refused; no randomness.
pub async fn create(
    state: &ActorState,
    company: CompanyId,
    given: GivenEndpoint,
) -> Result<(WebhookEndpointId, WebhookSecret), ApiError> {
    let id = WebhookEndpointId(state.switch.random().id(state.now())?);
    let (secret, sealed_secret) = drawn(state, id)?;
    let GivenEndpoint { address: url, description, app } = given;
    let new = NewWebhookEndpoint { id, company, app, url, description, sealed_secret };
    state.carry_out(AdminCommand::WebhookEndpoint(WebhookEndpointCommand::Create(new))).await?;
    Ok((id, secret))
}

/// Changes an endpoint.
/// Errors: the change is refused.
pub async fn update(
    state: &ActorState,
    company: CompanyId,
    id: WebhookEndpointId,
    given: GivenChanges,
) -> Result<(), ApiError> {
    let GivenChanges { address: url, description, is_enabled } = given;
    let changes = WebhookEndpointChanges {
        url,
        description,
        is_enabled,
        ..WebhookEndpointChanges::default()
    };
    Ok(state
        .carry_out(AdminCommand::WebhookEndpoint(WebhookEndpointCommand::Update(
            company, id, changes,
        )))
        .await?)
}

/// Gives an endpoint a new secret, which is shown once; the one before signs for a while, too.
/// Errors: the change is refused; no randomness.
pub async fn rotate_secret(
    state: &ActorState,
    company: CompanyId,
    id: WebhookEndpointId,
) -> Result<WebhookSecret, ApiError> {
    let (secret, sealed) = drawn(state, id)?;
    let new = NewSecret { sealed, overlap_until: overlap_until(state.now()) };
    let changes = WebhookEndpointChanges { secret: Some(new), ..WebhookEndpointChanges::default() };
    state
        .carry_out(AdminCommand::WebhookEndpoint(WebhookEndpointCommand::Update(
            company, id, changes,
        )))
        .await?;
    Ok(secret)
}

fn drawn(state: &AppState, id: WebhookEndpointId) -> Result<(WebhookSecret, Vec<u8>), ApiError> {
    let secret = WebhookSecret::draw(&mut SystemRandom)?;
    let sealed = state.secrets.seal(SealedSecret::Webhook(id), secret.bytes());
    let sealed = sealed.map_err(|error| ApiError::internal(&error))?;
    Ok((secret, sealed))
}

/// Takes an endpoint away.
/// Errors: the change is refused.
pub async fn delete(
    state: &ActorState,
    company: CompanyId,
    id: WebhookEndpointId,
) -> Result<(), ApiError> {
    let command = AdminCommand::WebhookEndpoint(WebhookEndpointCommand::Delete(company, id));
    Ok(state.carry_out_unshown(command).await?)
}

/// Has everything delivered again that has happened since an instant, and what was not delivered
/// yet.
/// Errors: the endpoint is off; deliveries are not at work; the tables cannot be read.
pub async fn recover(
    state: &AppState,
    id: WebhookEndpointId,
    since: Timestamp,
) -> Result<(), ApiError> {
    let after = state.switch.read(|snapshot| snapshot.first_event_at(since)).await?;
    let is_on = state.webhooks.recover(id, after).await?;
    if is_on { Ok(()) } else { Err(ApiError::webhook_endpoint_disabled()) }
}
