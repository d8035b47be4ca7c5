//! One endpoint: its settings, its health, its attempts, and the actions on it.
//! GET and POST /webhooks/{id}, and POST of `state`, `secret`, `recover` and `delete` below it.

use askama::Template;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::PathId;
use cardswitch_engine::command::seen_object::WatchedObject;
use cardswitch_engine::directory::webhook_endpoint::WebhookEndpoint;
use cardswitch_engine::domain::ids::{Timestamp, WebhookEndpointId};
use cardswitch_identity::webhook_endpoints::{self, GivenChanges};
use cardswitch_notify::webhooks::attempt::{Attempt, AttemptKind, Bodies};
use cardswitch_notify::webhooks::attempt_words::sentence;
use cardswitch_notify::webhooks::lane::EndpointHealth;
use cardswitch_secrets::webhook_signature::message_text;
use cardswitch_wire::fields::parse_id;
use cardswitch_wire::time::parse_time;
use chrono_tz::Tz;
use serde::Deserialize;
use serde::de::IgnoredAny;
use uuid::Uuid;

use super::form::{body_of, seen_of, shown_of};
use super::list::told_of;
use super::{endpoint_badge, get_endpoint};
use crate::apps::SecretPage;
use crate::faults::{Faults, with_status};
use crate::form_snapshot::change_as_seen;
use crate::forms::{ConfirmForm, FormBody, SiteForm, TypedFields};
use crate::frame;
use crate::notice::Notice;
use crate::rights::{ActingMember, WebhookManager};
use crate::words::{Badge, Moment, field_time, moment, moment_to_second, parse_field_time};

/// How many attempts a page shows.
const ATTEMPTS_SHOWN: usize = 50;
/// How far back events are delivered again, unless another time is typed. Units: microseconds.
const RECOVER_DEFAULT_US: i64 = 24 * 3_600 * 1_000_000;

#[derive(Template)]
#[template(path = "webhooks/endpoint.html")]
struct EndpointContent<'a> {
    csrf: String,
    id: String,
    title: &'a str,
    address: &'a str,
    told_of: String,
    badge: Badge,
    is_enabled: bool,
    added: Moment,
    previous_until: Option<Moment>,
    health: ShownHealth,
    sent: Option<AttemptRow>,
    only_failed: bool,
    attempts: Vec<AttemptRow>,
    form: &'a TypedFields,
    seen: String,
    faults: &'a Faults,
    address_hint: &'static str,
    since: String,
    since_error: &'a str,
    delete_error: &'a str,
}

/// How deliveries do.
struct ShownHealth {
    delivered: Option<Moment>,
    failing: Option<Moment>,
    next_try: Option<Moment>,
    waiting: usize,
    given_up: u32,
}

struct AttemptRow {
    id: String,
    message: String,
    at: Moment,
    what: String,
    outcome: String,
    is_delivered: bool,
    duration_ms: u32,
    again: Option<Moment>,
    is_last: bool,
    bodies: Bodies,
}

/// The page's additions to the stored facts of the endpoint.
#[derive(Default)]
struct EndpointNotes<'a> {
    sent: Option<Uuid>,
    only_failed: bool,
    typed: Option<&'a TypedFields>,
    faults: Faults,
    since: Option<&'a str>,
    since_error: &'a str,
    delete_error: &'a str,
}

/// The query of `GET /webhooks/{id}`.
#[derive(Debug, Deserialize)]
pub(super) struct EndpointQuery {
    /// The attempt that the visitor has just made.
    attempt: Option<String>,
    /// `failed` shows failed attempts alone.
    show: Option<String>,
}

/// GET /webhooks/{id}.
pub(super) async fn show(
    WebhookManager(acting): WebhookManager,
    PathId(id): PathId,
    Query(query): Query<EndpointQuery>,
) -> Result<Response, ApiError> {
    let endpoint = get_endpoint(&acting, WebhookEndpointId(id)).await?;
    let sent = query.attempt.as_deref().and_then(parse_id);
    let only_failed = query.show.as_deref() == Some("failed");
    let said = EndpointNotes { sent, only_failed, ..EndpointNotes::default() };
    endpoint_page(&acting, &endpoint, said).await
}

async fn endpoint_page(
    acting: &ActingMember,
    endpoint: &WebhookEndpoint,
    said: EndpointNotes<'_>,
) -> Result<Response, ApiError> {
    let zone = acting.company.zone;
    let shown = |at: Timestamp| moment(at, zone);
    let row = |attempt: &Attempt| attempt_row(attempt, zone);
    let told_of = acting.state.switch.read_at_once(|snapshot| told_of(snapshot, endpoint))?;
    // The health of endpoints is unknown while deliveries are not at work.
    let health = acting.state.webhooks.health(vec![endpoint.id]).await.unwrap_or_default();
    let health = health.into_iter().next().flatten();
    let attempts = acting.state.webhooks.attempts(endpoint.id).await.unwrap_or_default();
    let known = shown_of(endpoint);
    let now = acting.state.now();
    let since = Timestamp(now.0.saturating_sub(RECOVER_DEFAULT_US).max(endpoint.created_at.0));
    let title = if endpoint.description.is_empty() { &endpoint.url } else { &endpoint.description };
    let content = EndpointContent {
        csrf: acting.csrf(),
        id: endpoint.id.0.to_string(),
        title,
        address: &endpoint.url,
        told_of,
        badge: endpoint_badge(endpoint.state, health.as_ref()),
        is_enabled: endpoint.is_enabled(),
        added: shown(endpoint.created_at),
        previous_until: endpoint.overlap_until(now).map(shown),
        health: shown_health(health, shown),
        sent: attempts.iter().find(|attempt| Some(attempt.id) == said.sent).map(row),
        only_failed: said.only_failed,
        attempts: attempts
            .iter()
            .filter(|attempt| !(said.only_failed && attempt.is_delivered()))
            .take(ATTEMPTS_SHOWN)
            .map(row)
            .collect(),
        form: said.typed.unwrap_or(&known),
        seen: seen_of(endpoint).to_string(),
        faults: &said.faults,
        address_hint: acting.state.webhooks.reach.hint(),
        since: said.since.map_or_else(|| field_time(since, zone), str::to_owned),
        since_error: said.since_error,
        delete_error: said.delete_error,
    };
    let page = frame::page(title, content);
    Ok(with_status(page, said.faults.status))
}

fn shown_health(
    health: Option<EndpointHealth>,
    shown: impl Fn(Timestamp) -> Moment,
) -> ShownHealth {
    let time = |at: fn(&EndpointHealth) -> Option<Timestamp>| {
        health.as_ref().and_then(at).filter(|at| at.0 > 0).map(&shown)
    };
    ShownHealth {
        delivered: time(|health| health.delivered_at),
        failing: time(|health| health.failing_since),
        next_try: time(|health| health.next_try_at),
        waiting: health.map_or(0, |health| health.waiting),
        given_up: health.map_or(0, |health| health.given_up),
    }
}

fn attempt_row(attempt: &Attempt, zone: Tz) -> AttemptRow {
    let what = match (attempt.kind, attempt.events.len()) {
        (AttemptKind::Example, _) | (_, 0) => "Test event".to_owned(),
        (AttemptKind::Event, 1) => "1 event".to_owned(),
        (AttemptKind::Event, count) => format!("{count} events"),
        (AttemptKind::Resent, 1) => "1 event, manual resend".to_owned(),
        (AttemptKind::Resent, count) => format!("{count} events, manual resend"),
    };
    let what = if attempt.tries > 1 { format!("{what}, attempt {}", attempt.tries) } else { what };
    AttemptRow {
        id: attempt.id.to_string(),
        message: message_text(attempt.message),
        at: moment_to_second(attempt.at, zone),
        what,
        outcome: sentence(attempt),
        is_delivered: attempt.is_delivered(),
        duration_ms: attempt.duration_ms,
        again: attempt.again_at.map(|at| moment_to_second(at, zone)),
        is_last: attempt.is_last,
        bodies: attempt.bodies.clone(),
    }
}

/// Changes its address and its description. POST /webhooks/{id}.
pub(super) async fn save(
    WebhookManager(acting): WebhookManager,
    PathId(id): PathId,
    SiteForm(form): SiteForm<TypedFields>,
) -> Result<Response, ApiError> {
    let find = || async {
        Ok((WatchedObject::Row(id), get_endpoint(&acting, WebhookEndpointId(id)).await?))
    };
    let check = |endpoint: &WebhookEndpoint| seen_of(endpoint).check(form.of("seen"));
    let saved = change_as_seen(&acting, find, check, async |state, endpoint| {
        let body = FormBody::of(body_of(&form));
        let mut fields = body.fields()?;
        let given = GivenChanges::parse(&mut fields, state.webhooks.reach);
        fields.finish()?;
        webhook_endpoints::update(&state, acting.company.id, endpoint.id, given).await?;
        Ok(acting.go_on(&format!("/webhooks/{id}"), Notice::WEBHOOK_SAVED))
    });
    match saved.await? {
        Ok(saved) => Ok(saved),
        Err((endpoint, why)) => {
            let (typed, faults) = why.shown(&form, Faults::of_refusal)?;
            let said = EndpointNotes { typed, faults, ..EndpointNotes::default() };
            endpoint_page(&acting, &endpoint, said).await
        }
    }
}

/// The form of `POST /webhooks/{id}/state`.
#[derive(Debug, Deserialize)]
pub(super) struct SwitchForm {
    to: String,
}

/// Turns it on or off. POST /webhooks/{id}/state.
pub(super) async fn switch(
    WebhookManager(acting): WebhookManager,
    PathId(id): PathId,
    SiteForm(form): SiteForm<SwitchForm>,
) -> Result<Response, ApiError> {
    let endpoint = get_endpoint(&acting, WebhookEndpointId(id)).await?;
    let is_enabled = form.to == "on";
    let given = GivenChanges { is_enabled: Some(is_enabled), ..GivenChanges::default() };
    webhook_endpoints::update(&acting.state, acting.company.id, endpoint.id, given).await?;
    let notice = if is_enabled { Notice::WEBHOOK_ON } else { Notice::WEBHOOK_OFF };
    Ok(acting.go_on(&format!("/webhooks/{id}"), notice))
}

/// Gives it a new secret and shows that, once. POST /webhooks/{id}/secret.
pub(super) async fn rotate(
    WebhookManager(acting): WebhookManager,
    PathId(id): PathId,
    _: SiteForm<IgnoredAny>,
) -> Result<Response, ApiError> {
    let acting = acting.without_claim();
    let endpoint = get_endpoint(&acting, WebhookEndpointId(id)).await?;
    let secret =
        webhook_endpoints::rotate_secret(&acting.state, acting.company.id, endpoint.id).await?;
    let shown = SecretPage {
        heading: "The new signing secret",
        text: "For 24 hours each webhook is signed with both, so that you have time to change it.",
        shown: vec![("Signing secret", secret.text())],
        onward: format!("/webhooks/{id}"),
    };
    Ok(shown.page("New signing secret"))
}

/// The form of `POST /webhooks/{id}/recover`.
#[derive(Debug, Deserialize)]
pub(super) struct RecoverForm {
    since: String,
}

/// Has everything since a time delivered again. POST /webhooks/{id}/recover.
pub(super) async fn recover(
    WebhookManager(acting): WebhookManager,
    PathId(id): PathId,
    SiteForm(form): SiteForm<RecoverForm>,
) -> Result<Response, ApiError> {
    let endpoint = get_endpoint(&acting, WebhookEndpointId(id)).await?;
    let since = parse_field_time(&form.since, acting.company.zone);
    let Some(since) = since.as_deref().and_then(parse_time) else {
        let since_error = "Enter a date and time.";
        let said =
            EndpointNotes { since: Some(&form.since), since_error, ..EndpointNotes::default() };
        let page = endpoint_page(&acting, &endpoint, said).await?;
        return Ok(with_status(page, StatusCode::BAD_REQUEST));
    };
    match webhook_endpoints::recover(&acting.state, endpoint.id, since).await {
        Ok(()) => Ok(acting.go_on(&format!("/webhooks/{id}"), Notice::WEBHOOK_RECOVERED)),
        Err(error) => {
            let faults = Faults::of_refusal(error)?;
            let said = EndpointNotes { faults, ..EndpointNotes::default() };
            endpoint_page(&acting, &endpoint, said).await
        }
    }
}

/// Takes it away. POST /webhooks/{id}/delete.
pub(super) async fn delete(
    WebhookManager(acting): WebhookManager,
    PathId(id): PathId,
    SiteForm(form): SiteForm<ConfirmForm>,
) -> Result<Response, ApiError> {
    let endpoint = get_endpoint(&acting, WebhookEndpointId(id)).await?;
    if !form.is_confirmed {
        let delete_error = "Tick the box to confirm.";
        let said = EndpointNotes { delete_error, ..EndpointNotes::default() };
        let page = endpoint_page(&acting, &endpoint, said).await?;
        return Ok(with_status(page, StatusCode::BAD_REQUEST));
    }
    webhook_endpoints::delete(&acting.state, acting.company.id, endpoint.id).await?;
    Ok(acting.go_on("/webhooks", Notice::WEBHOOK_DELETED))
}
