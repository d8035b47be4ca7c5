//! Webhook endpoints: where a company, or an app, wants to be told of events.
//!
//! One without an app is told of its company's events; one of an app of those of every company whose
//! data the app may open. What was delivered is not known here. An endpoint that is taken away stays as
//! a tombstone without its secrets, since slots are given out once.

use serde::{Deserialize, Serialize};

use super::change::{PartitionView, StateChange};
use super::company::find_company;
use super::row::indexes;
use crate::command::audited::Audited;
use crate::command::effect::Effect;
use crate::command::reply::Rejection;
use crate::command::resource::commands;
use crate::directory::app::find_app;
use crate::domain::changes::{changes, replace};
use crate::domain::ids::{
    AppId, AppSlot, CompanyId, CompanySlot, Timestamp, WebhookEndpointId, WebhookEndpointSlot,
};
use crate::domain::text::LineText;
use crate::limits;

/// Who or what put an end to deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DisabledBy {
    /// Somebody of the company.
    Person,
    /// Its receiver, which says that it is gone. Source: HTTP 410.
    Gone,
}

/// Whether an endpoint is told of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndpointState {
    /// It is.
    Enabled,
    /// It is not.
    Disabled(DisabledBy),
}

/// A webhook endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookEndpoint {
    /// Where it stands.
    pub slot: WebhookEndpointSlot,
    /// Its public id.
    pub id: WebhookEndpointId,
    /// Who registered it.
    pub company: CompanySlot,
    /// For which of its apps, where it is for one.
    pub app: Option<AppSlot>,
    /// Where events are sent.
    pub url: String,
    /// What people tell it by.
    pub description: String,
    /// The secret that deliveries are signed with, as the edge sealed it.
    pub sealed_secret: Vec<u8>,
    /// The one before, and until when deliveries are signed with it too.
    pub previous_secret: Option<(Vec<u8>, Timestamp)>,
    /// Whether it is told of events.
    pub state: EndpointState,
    /// When it was made.
    pub created_at: Timestamp,
    /// Since when it is on, or was when it was on last.
    pub enabled_at: Timestamp,
    /// Gone from lists; nothing is delivered to it any more.
    pub is_deleted: bool,
}

impl WebhookEndpoint {
    /// Whether events are delivered to it.
    #[must_use]
    pub const fn is_enabled(&self) -> bool {
        matches!(self.state, EndpointState::Enabled) && !self.is_deleted
    }
}

indexes! {
    WebhookEndpoint(endpoint), CHANGES_ACCESS: true, found if !endpoint.is_deleted;
    /// Those of a company that are not deleted.
    OF_COMPANY = 1: CompanySlot => endpoint.company;
    /// The same of an app.
    OF_APP = 2: AppSlot => endpoint.app;
}

commands! {
    /// The commands on webhook endpoints. Secrets come sealed by the edge.
    #[derive(Clone, Debug)]
    pub enum WebhookEndpointCommand(change) {
        /// Makes one.
        Create(new: NewWebhookEndpoint) makes new.id.0 =>
            Audited::of_company(new.company, "webhook_endpoint.created", new.id.0),
            create(change, new);
        /// Changes one.
        Update(company: CompanyId, id: WebhookEndpointId, changes: WebhookEndpointChanges) =>
            Audited::of_company(*company, "webhook_endpoint.updated", id.0).with(changes.names()),
            update(change, (*company, *id), changes);
        /// Takes one away.
        Delete(company: CompanyId, id: WebhookEndpointId) =>
            Audited::of_company(*company, "webhook_endpoint.deleted", id.0),
            delete(change, (*company, *id));
    }
}

/// A webhook endpoint to make.
#[derive(Clone, Debug)]
pub struct NewWebhookEndpoint {
    /// Its id.
    pub id: WebhookEndpointId,
    /// Whose.
    pub company: CompanyId,
    /// For which of the company's apps, where it is for one.
    pub app: Option<AppId>,
    /// Where events are sent; the edge has found it to be an address that it sends to.
    pub url: String,
    /// What people tell it by.
    pub description: LineText,
    /// The secret that deliveries are signed with.
    pub sealed_secret: Vec<u8>,
}

changes! {
    /// What to change about a webhook endpoint; absent stays.
    #[derive(Clone, Debug, Default)]
    pub struct WebhookEndpointChanges {
        /// Where events are sent.
        url: Option<String>,
        /// What people tell it by.
        description: Option<LineText>,
        /// Whether somebody wants it to be told of events.
        is_enabled as "state": Option<bool>,
        /// That its receiver says that it is gone.
        gone as "state": Option<GoneReceiver>,
        /// A new secret.
        secret: Option<NewSecret>,
    }
}

/// A receiver that says that it is gone: its endpoint is told of nothing until somebody enables it.
/// The report counts only while the endpoint is what was tried, so a late one undoes nobody's change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoneReceiver {
    /// The address that was tried.
    pub url: String,
    /// Since when the endpoint was on by then.
    pub enabled_at: Timestamp,
}

/// A secret that takes the place of the present one.
#[derive(Clone, Debug)]
pub struct NewSecret {
    /// The secret.
    pub sealed: Vec<u8>,
    /// Until when deliveries are signed with the one before, too.
    pub overlap_until: Timestamp,
}

/// Makes an endpoint, enabled.
/// Errors: no such company or app, the id is in use, or the company has too many.
fn create(change: &mut StateChange<'_>, new: &NewWebhookEndpoint) -> Result<(), Rejection> {
    let company = find_company(change.state, new.company)?;
    let app = new.app.map(|app| find_app(change.state, new.company, app)).transpose()?;
    let endpoints = &change.state.directory().webhook_endpoints;
    let slot = endpoints.slot_for(new.id.0)?;
    let of_company = endpoints.under(&WebhookEndpoint::OF_COMPANY, &company);
    if of_company.count() >= limits::WEBHOOK_ENDPOINTS_OF_COMPANY_MAX {
        return Err(Rejection::TooManyWebhookEndpoints);
    }
    change.put(WebhookEndpoint {
        slot,
        id: new.id,
        company,
        app: app.map(|app| app.slot),
        url: new.url.clone(),
        description: new.description.to_string(),
        sealed_secret: new.sealed_secret.clone(),
        previous_secret: None,
        state: EndpointState::Enabled,
        created_at: change.moment.at,
        enabled_at: change.moment.at,
        is_deleted: false,
    });
    Ok(())
}

/// Changes an endpoint. Errors: no such endpoint.
fn update(
    change: &mut StateChange<'_>,
    (company, id): (CompanyId, WebhookEndpointId),
    changes: &WebhookEndpointChanges,
) -> Result<(), Rejection> {
    let known = find_endpoint(change.state, company, id)?;
    let mut endpoint = known.clone();
    replace(&mut endpoint.url, &changes.url);
    replace(&mut endpoint.description, &changes.description);
    endpoint.state = next_state(known, changes);
    if endpoint.is_enabled() && !known.is_enabled() {
        endpoint.enabled_at = change.moment.at;
    }
    if let Some(secret) = &changes.secret {
        let before = std::mem::replace(&mut endpoint.sealed_secret, secret.sealed.clone());
        let overlaps = secret.overlap_until > change.moment.at;
        endpoint.previous_secret = overlaps.then_some((before, secret.overlap_until));
    }
    if endpoint != *known {
        change.put(endpoint);
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
fn delete(
    change: &mut StateChange<'_>,
    (company, id): (CompanyId, WebhookEndpointId),
) -> Result<(), Rejection> {
    let known = find_endpoint(change.state, company, id)?;
    change.put(gone(known));
    Ok(())
}

/// Takes away the endpoints of an app that goes.
pub(crate) fn delete_endpoints_of(change: &mut StateChange<'_>, app: AppSlot) {
    let endpoints =
        change.state.directory().webhook_endpoints.under(&WebhookEndpoint::OF_APP, &app);
    change.effects.extend(endpoints.map(|known| Effect::row(gone(known))));
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
    state: &dyn PartitionView,
    company: CompanyId,
    id: WebhookEndpointId,
) -> Result<&WebhookEndpoint, Rejection> {
    state.directory().webhook_endpoints.find_own(find_company(state, company)?, id)
}
