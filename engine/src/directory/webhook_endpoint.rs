//! Webhook endpoints: the addresses to which a company's, or an app's, events are delivered.
//!
//! An endpoint without an app receives its company's events. An endpoint of an app receives those
//! of every company whose data the app may open; one that another company registered, only those of
//! that company, whose people may change its address. The state of deliveries is kept elsewhere. A
//! deleted endpoint stays as a tombstone without its secrets, since slots are given out once.

use serde::{Deserialize, Serialize};

use super::change::StateChange;
use super::company::find_open_company;
use super::row::indexes;
use crate::command::audit_line::AuditLine;
use crate::command::effect::Effect;
use crate::command::reply::Rejection;
use crate::command::resource::commands;
use crate::directory::app::find_app_with_access;
use crate::domain::changes::{changes, replace};
use crate::domain::ids::{
    AppId, AppSlot, CompanyId, CompanySlot, Timestamp, WebhookEndpointId, WebhookEndpointSlot,
};
use crate::domain::text::LineText;
use crate::limits;

/// The cause of a disabled endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DisabledBy {
    /// A person of the company.
    Person,
    /// The receiver's answer that it is gone. Source: HTTP 410.
    Gone,
}

/// Whether events are delivered to an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndpointState {
    /// Events are delivered.
    Enabled,
    /// No events are delivered.
    Disabled(DisabledBy),
}

/// A webhook endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookEndpoint {
    /// The row's slot.
    pub slot: WebhookEndpointSlot,
    /// Its public id.
    pub id: WebhookEndpointId,
    /// The company that registered it.
    pub company: CompanySlot,
    /// The app that it belongs to; none for the company itself.
    pub app: Option<AppSlot>,
    /// The destination of events.
    pub url: String,
    /// The description shown to people.
    pub description: String,
    /// The secret that deliveries are signed with, as the edge sealed it.
    pub sealed_secret: Vec<u8>,
    /// The secrets before it, the oldest first, each with the end of the time in which deliveries are
    /// signed with it too.
    pub previous_secrets: Vec<(Vec<u8>, Timestamp)>,
    /// Whether events are delivered to it.
    pub state: EndpointState,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The time at which it was last enabled.
    pub enabled_at: Timestamp,
    /// Whether it is deleted: gone from lists, without deliveries.
    pub is_deleted: bool,
}

impl WebhookEndpoint {
    /// Whether events are delivered to it.
    pub const fn is_enabled(&self) -> bool {
        matches!(self.state, EndpointState::Enabled) && !self.is_deleted
    }

    /// The secrets that deliveries are signed with at `at`, the newest first, as the edge sealed them.
    pub fn signing_secrets(&self, at: Timestamp) -> impl Iterator<Item = &[u8]> {
        let signs = move |(_, until): &&(Vec<u8>, Timestamp)| at < *until;
        let previous = self.previous_secrets.iter().rev().filter(signs);
        std::iter::once(&*self.sealed_secret).chain(previous.map(|(sealed, _)| &**sealed))
    }

    /// The end of the time in which replaced secrets sign too, where one does at `at`.
    pub fn overlap_until(&self, at: Timestamp) -> Option<Timestamp> {
        self.previous_secrets.iter().map(|(_, until)| *until).max().filter(|until| at < *until)
    }
}

indexes! {
    WebhookEndpoint(endpoint), CHANGES_ACCESS: true, found if !endpoint.is_deleted;
    /// The live endpoints of a company.
    OF_COMPANY = 1: CompanySlot => endpoint.company;
    /// The live endpoints of an app.
    OF_APP = 2: AppSlot => endpoint.app;
}

commands! {
    /// The commands on webhook endpoints. Secrets come sealed by the edge.
    #[derive(Clone, Debug)]
    pub enum WebhookEndpointCommand(change) {
        /// Makes an endpoint.
        Create(new: NewWebhookEndpoint) makes new.id.0 =>
            AuditLine::of_company(new.company, "webhook_endpoint.created", new.id.0),
            create(change, new);
        /// Changes an endpoint.
        Update(company: CompanyId, id: WebhookEndpointId, changes: WebhookEndpointChanges) =>
            AuditLine::of_company(*company, "webhook_endpoint.updated", id.0).with(changes.names()),
            update(change, (*company, *id), changes);
        /// Deletes an endpoint.
        Delete(company: CompanyId, id: WebhookEndpointId) =>
            AuditLine::of_company(*company, "webhook_endpoint.deleted", id.0),
            delete(change, (*company, *id));
    }
}

/// A webhook endpoint to make.
#[derive(Clone, Debug)]
pub struct NewWebhookEndpoint {
    /// Its id.
    pub id: WebhookEndpointId,
    /// The company that registers it.
    pub company: CompanyId,
    /// The app that it belongs to, of the company or let in by it; none for the company itself.
    pub app: Option<AppId>,
    /// The destination of events, which the edge has checked to be an allowed address.
    pub url: String,
    /// The description shown to people.
    pub description: LineText,
    /// The secret that deliveries are signed with, sealed.
    pub sealed_secret: Vec<u8>,
}

changes! {
    /// Changes of a webhook endpoint; absent fields stay.
    #[derive(Clone, Debug, Default)]
    pub struct WebhookEndpointChanges {
        /// The destination of events.
        url: Option<String>,
        /// The description shown to people.
        description: Option<LineText>,
        /// A person's choice to enable or disable it.
        is_enabled as "state": Option<bool>,
        /// The receiver's report that it is gone.
        gone as "state": Option<GoneReceiver>,
        /// A new secret.
        secret: Option<NewSecret>,
    }
}

/// A receiver's report that it is gone: its endpoint gets no events until a person enables it.
/// The report counts only while address and enabling are those of the attempt, so a late report
/// undoes no change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoneReceiver {
    /// The address of the attempt.
    pub url: String,
    /// The time at which the endpoint had last been enabled, at the attempt.
    pub enabled_at: Timestamp,
}

/// A secret that replaces the present one.
#[derive(Clone, Debug)]
pub struct NewSecret {
    /// The secret, sealed.
    pub sealed: Vec<u8>,
    /// The end of the time in which deliveries are signed with the secret before, too.
    pub overlap_until: Timestamp,
}

/// Makes an endpoint, enabled.
/// Errors: no such open company or app, the id is in use, or the company has too many.
fn create(change: &mut StateChange<'_>, new: &NewWebhookEndpoint) -> Result<(), Rejection> {
    let company = find_open_company(change.state, new.company)?;
    let find = |app| find_app_with_access(change.state, company, app);
    let app = new.app.map(find).transpose()?;
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
        previous_secrets: Vec::new(),
        state: EndpointState::Enabled,
        created_at: change.moment.at,
        enabled_at: change.moment.at,
        is_deleted: false,
    });
    Ok(())
}

/// Changes an endpoint. Errors: no such endpoint, or too many of its secrets sign.
fn update(
    change: &mut StateChange<'_>,
    (company, id): (CompanyId, WebhookEndpointId),
    changes: &WebhookEndpointChanges,
) -> Result<(), Rejection> {
    let known = change.state.directory().webhook_endpoints.find_of(change.state, company, id)?;
    let mut endpoint = known.clone();
    replace(&mut endpoint.url, &changes.url);
    replace(&mut endpoint.description, &changes.description);
    endpoint.state = next_state(known, changes);
    if endpoint.is_enabled() && !known.is_enabled() {
        endpoint.enabled_at = change.moment.at;
    }
    if let Some(secret) = &changes.secret {
        replace_secret(&mut endpoint, secret, change.moment.at)?;
    }
    change.put_changed(endpoint, known);
    Ok(())
}

/// Gives an endpoint another secret. Each one before keeps its own end: a receiver may have any of
/// them. Without an overlap, all end. Errors: `TooManyWebhookSecrets`.
fn replace_secret(
    endpoint: &mut WebhookEndpoint,
    secret: &NewSecret,
    at: Timestamp,
) -> Result<(), Rejection> {
    let before = std::mem::replace(&mut endpoint.sealed_secret, secret.sealed.clone());
    let previous = &mut endpoint.previous_secrets;
    if secret.overlap_until <= at {
        previous.clear();
        return Ok(());
    }
    previous.retain(|(_, until)| at < *until);
    if previous.len() >= limits::WEBHOOK_SECRETS_BEFORE_MAX {
        return Err(Rejection::TooManyWebhookSecrets);
    }
    previous.push((before, secret.overlap_until));
    Ok(())
}

/// The state of an endpoint after a change: an explicit choice wins over a receiver's report.
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

/// Deletes an endpoint. Errors: no such endpoint.
fn delete(
    change: &mut StateChange<'_>,
    (company, id): (CompanyId, WebhookEndpointId),
) -> Result<(), Rejection> {
    let known = change.state.directory().webhook_endpoints.find_of(change.state, company, id)?;
    change.put(gone(known));
    Ok(())
}

/// Deletes the endpoints of a deleted app.
pub(crate) fn delete_endpoints_of(change: &mut StateChange<'_>, app: AppSlot) {
    let endpoints =
        change.state.directory().webhook_endpoints.under(&WebhookEndpoint::OF_APP, &app);
    change.effects.extend(endpoints.map(|known| Effect::row(gone(known))));
}

/// The tombstone of an endpoint, without its secrets and its address.
fn gone(known: &WebhookEndpoint) -> WebhookEndpoint {
    WebhookEndpoint {
        url: String::new(),
        description: String::new(),
        sealed_secret: Vec::new(),
        previous_secrets: Vec::new(),
        is_deleted: true,
        ..known.clone()
    }
}
