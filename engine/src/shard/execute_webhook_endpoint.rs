//! Webhook endpoints: made, changed, taken away. What they are told of is not known here.
//!
//! An endpoint that is taken away stays as a tombstone without its secrets, since slots are given out
//! once.

use super::execute::Moment;
use super::execute_admin::{find_company, replace};
use super::execute_app::find_app;
use super::state::ShardState;
use crate::command::effect::Effect;
use crate::command::reply::Rejection;
use crate::command::webhook_endpoint::{NewWebhookEndpoint, WebhookEndpointChanges};
use crate::domain::ids::{AppSlot, CompanyId, WebhookEndpointId};
use crate::domain::webhook_endpoint::{DisabledBy, EndpointState, WebhookEndpoint};
use crate::limits;

/// Makes an endpoint, enabled.
/// Errors: no such company or app, the id is in use, or the company has too many.
pub(super) fn create_webhook_endpoint(
    state: &ShardState,
    moment: &Moment<'_>,
    new: &NewWebhookEndpoint,
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let company = find_company(state, new.company)?;
    let app = new.app.map(|app| find_app(state, new.company, app)).transpose()?;
    let endpoints = &state.directory.webhook_endpoints;
    if endpoints.find(new.id.0).is_some() {
        return Err(Rejection::IdTaken);
    }
    let of_company = endpoints.under(&WebhookEndpoint::OF_COMPANY, &company);
    if of_company.count() >= limits::WEBHOOK_ENDPOINTS_OF_COMPANY_MAX {
        return Err(Rejection::TooManyWebhookEndpoints);
    }
    effects.push(Effect::row(WebhookEndpoint {
        slot: endpoints.next_slot().ok_or(Rejection::Full)?,
        id: new.id,
        company,
        app: app.map(|app| app.slot),
        url: new.url.clone(),
        description: new.description.to_string(),
        sealed_secret: new.sealed_secret.clone(),
        previous_secret: None,
        state: EndpointState::Enabled,
        created_at: moment.at,
        enabled_at: moment.at,
        is_deleted: false,
    }));
    Ok(())
}

/// Changes an endpoint. Errors: no such endpoint.
pub(super) fn update_webhook_endpoint(
    state: &ShardState,
    moment: &Moment<'_>,
    (company, id): (CompanyId, WebhookEndpointId),
    changes: &WebhookEndpointChanges,
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let known = find_endpoint(state, company, id)?;
    let mut endpoint = known.clone();
    replace(&mut endpoint.url, &changes.url);
    replace(&mut endpoint.description, &changes.description);
    endpoint.state = next_state(known, changes);
    if endpoint.is_enabled() && !known.is_enabled() {
        endpoint.enabled_at = moment.at;
    }
    if let Some(secret) = &changes.secret {
        let before = std::mem::replace(&mut endpoint.sealed_secret, secret.sealed.clone());
        let overlaps = secret.overlap_until > moment.at;
        endpoint.previous_secret = overlaps.then_some((before, secret.overlap_until));
    }
    if endpoint != *known {
        effects.push(Effect::row(endpoint));
    }
    Ok(())
}

/// Whether an endpoint is on after a change: whoever turns it on or off has the say.
fn next_state(known: &WebhookEndpoint, changes: &WebhookEndpointChanges) -> EndpointState {
    let is_gone = changes
        .gone
        .as_ref()
        .is_some_and(|gone| gone.url == known.url && gone.enabled_at == known.enabled_at);
    match changes.is_enabled {
        Some(true) => EndpointState::Enabled,
        Some(false) => EndpointState::Disabled(DisabledBy::Person),
        None if is_gone && known.is_enabled() => EndpointState::Disabled(DisabledBy::Gone),
        None => known.state,
    }
}

/// Takes an endpoint away. Errors: no such endpoint.
pub(super) fn delete_webhook_endpoint(
    state: &ShardState,
    (company, id): (CompanyId, WebhookEndpointId),
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let known = find_endpoint(state, company, id)?;
    effects.push(Effect::row(gone(known)));
    Ok(())
}

/// Takes away the endpoints of an app that goes.
pub(super) fn delete_endpoints_of(state: &ShardState, app: AppSlot, effects: &mut Vec<Effect>) {
    let endpoints = state.directory.webhook_endpoints.under(&WebhookEndpoint::OF_APP, &app);
    effects.extend(endpoints.map(|known| Effect::row(gone(known))));
}

/// The tombstone of an endpoint: nothing of what signed, nor where it was sent.
fn gone(known: &WebhookEndpoint) -> WebhookEndpoint {
    WebhookEndpoint {
        url: String::new(),
        description: String::new(),
        sealed_secret: Vec::new(),
        previous_secret: None,
        is_deleted: true,
        ..known.clone()
    }
}

fn find_endpoint(
    state: &ShardState,
    company: CompanyId,
    id: WebhookEndpointId,
) -> Result<&WebhookEndpoint, Rejection> {
    let company = find_company(state, company)?;
    let endpoint = state.directory.webhook_endpoints.find(id.0);
    let is_theirs = |row: &&WebhookEndpoint| row.company == company && !row.is_deleted;
    endpoint.filter(is_theirs).ok_or(Rejection::WebhookEndpointNotFound)
}
