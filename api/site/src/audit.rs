//! Who changed what of a company. GET /audit.

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_engine::domain::audit::{Actor, AuditEvent};
use cardswitch_engine::domain::ids::AccessTokenId;
use cardswitch_engine::store::query::AuditFilter;
use cardswitch_engine::store::{Snapshot, StoreError};
use cardswitch_identity::state::AppState;
use cardswitch_wire::time::render_time;
use chrono_tz::Tz;
use serde::Deserialize;
use uuid::Uuid;

use super::frame;
use super::pager::{Pager, Part};
use super::rights::AuditReader;
use super::words::{moment_to_second, zone_words};

/// What is looked for, as typed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AuditQuery {
    action: String,
    actor: String,
    object: String,
    offset: usize,
}

impl AuditQuery {
    /// What is looked for.
    /// Errors: an id that is none.
    fn filter(&self) -> Result<AuditFilter, &'static str> {
        let action = self.action.trim();
        Ok(AuditFilter {
            action: (!action.is_empty()).then(|| action.to_owned()),
            actor: parse_id(&self.actor)?,
            object: parse_id(&self.object)?,
        })
    }
}

fn parse_id(text: &str) -> Result<Option<Uuid>, &'static str> {
    match text.trim() {
        "" => Ok(None),
        text => Uuid::parse_str(text).map(Some).map_err(|_| "Enter a valid ID."),
    }
}

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditContent<'a> {
    company: &'a str,
    zone: String,
    alert: &'static str,
    action: &'a str,
    actor: &'a str,
    object: &'a str,
    is_filtered: bool,
    events: Vec<EventRow>,
    pager: Pager,
}

struct EventRow {
    at: String,
    local_time: String,
    actor: String,
    actor_id: Option<Uuid>,
    address: String,
    action: String,
    object_kind: String,
    object: Option<Uuid>,
    fields: String,
}

/// GET /audit.
pub(super) async fn list_events(
    State(state): State<AppState>,
    AuditReader(acting): AuditReader,
    Query(query): Query<AuditQuery>,
) -> Result<Response, ApiError> {
    let (part, company) = (Part { offset: query.offset }, &acting.company);
    let (alert, filter) = match query.filter() {
        Ok(filter) => ("", Some(filter)),
        Err(alert) => (alert, None),
    };
    let read = |snapshot: &Snapshot| {
        let Some(filter) = filter else { return Ok((Vec::new(), 0)) };
        let listed = snapshot.audit_events(Some(company.slot), &filter, &part.page())?;
        let row = |event| event_row(snapshot, event, company.zone);
        let rows = listed.rows.into_iter().map(row).collect::<Result<Vec<_>, StoreError>>()?;
        Ok((rows, listed.count))
    };
    let (events, count) = state.switch.read(read).await?;
    let filters =
        [("action", &*query.action), ("actor", &*query.actor), ("object", &*query.object)];
    let content = AuditContent {
        company: &company.name,
        zone: zone_words(company.zone),
        alert,
        action: &query.action,
        actor: &query.actor,
        object: &query.object,
        is_filtered: filters.iter().any(|(_, value)| !value.is_empty()),
        pager: Pager::new(part, events.len(), count, "/audit", &filters),
        events,
    };
    Ok(frame::page(&state, "Audit log", Some(&acting.session), content))
}

fn event_row(snapshot: &Snapshot, event: AuditEvent, zone: Tz) -> Result<EventRow, StoreError> {
    let [actor_id, _] = event.actor.ids();
    Ok(EventRow {
        at: render_time(event.at),
        local_time: moment_to_second(event.at, zone).words,
        actor: actor_words(snapshot, &event.actor)?,
        actor_id,
        address: event.address.unwrap_or_default(),
        action: event.action,
        object_kind: event.object_kind,
        object: event.object,
        fields: event.fields.join(", "),
    })
}

/// Who it was, by what people know them.
fn actor_words(snapshot: &Snapshot, actor: &Actor) -> Result<String, StoreError> {
    Ok(match *actor {
        Actor::Operator => "Operator (CLI)".to_owned(),
        Actor::Switch => "the switch itself".to_owned(),
        Actor::User { id, .. } => {
            let user = snapshot.user_by_id(id)?;
            user.map_or_else(|| "deleted user".to_owned(), |user| user.email)
        }
        Actor::Token { id, .. } => token_words(snapshot, id)?,
        Actor::App { id } => {
            let app = snapshot.app_by_id(id)?;
            app.map_or_else(|| "deleted app".to_owned(), |app| format!("{}, an app", app.name))
        }
    })
}

fn token_words(snapshot: &Snapshot, id: AccessTokenId) -> Result<String, StoreError> {
    let token = snapshot.any_access_token(id)?;
    let label = token.map(|token| token.label().to_owned()).filter(|label| !label.is_empty());
    Ok(label
        .map_or_else(|| "Operator token".to_owned(), |label| format!("{label}, by access token")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_looked_for_is_read_from_what_was_typed() {
        let id = "01890000-0000-7000-8000-000000000000";
        let query = |action: &str, actor: &str| AuditQuery {
            action: action.to_owned(),
            actor: actor.to_owned(),
            ..AuditQuery::default()
        };
        let filter = query(" card.updated ", &format!(" {id} ")).filter().unwrap();
        assert_eq!(filter.action.as_deref(), Some("card.updated"));
        assert_eq!(filter.actor, Uuid::parse_str(id).ok());
        assert_eq!(filter.object, None);
        let blank = query(" ", "").filter().unwrap();
        assert_eq!((blank.action, blank.actor), (None, None));
        for wrong in ["1", "<script>", "01890000-0000-7000-8000"] {
            assert!(query("", wrong).filter().is_err(), "{wrong}");
        }
    }
}
