//! The audit log: who changed what of a company, when, and from where. An extension.

use cardswitch_edge::input::{Answer, ListQuery};
use cardswitch_edge::json::Json;
use cardswitch_engine::domain::audit::{Actor, AuditEvent, AuditValue, ValueChange};
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::ids::MemberId;
use cardswitch_engine::store::query::AuditFilter;
use cardswitch_identity::auth::Call;
use cardswitch_identity::webhook_endpoints::render_state;
use cardswitch_wire::amount::Amount;
use cardswitch_wire::page::{Listing, PageParameters};
use cardswitch_wire::queries;
use cardswitch_wire::query::Query;
use cardswitch_wire::time::render_time;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;
use uuid::Uuid;

use super::allowances::render_interval;
use super::view::{BY_CREATION, list_view};
use crate::words;

/// The kinds of those who act. Source: `Actor`.
pub const ACTOR_KINDS: [&str; 5] = ["operator", "access_token", "user", "switch", "app"];

/// Something that somebody changed.
#[derive(Debug, Serialize, ToSchema)]
pub struct AuditEventBody {
    /// The action.
    #[schema(example = "card.updated")]
    action: String,
    actor: ActorBody,
    /// The network address that the request came from, where there was one.
    #[schema(example = "192.0.2.7")]
    address: Option<String>,
    object: AuditedObject,
    /// The names of what was changed.
    fields: Vec<String>,
    /// The values of limits, states, roles and holders before and after. No text that somebody typed is
    /// among them.
    values: Vec<ValueChangeBody>,
    created_at: String,
}

/// A value before and after a change.
#[derive(Debug, Serialize, ToSchema)]
pub struct ValueChangeBody {
    /// Its field, as requests name it.
    #[schema(example = "daily_limit")]
    field: String,
    /// Before: an amount, an instant, a word, an id; null where there was none.
    #[schema(example = json!(null))]
    old: Option<String>,
    /// After.
    #[schema(example = "250.00")]
    new: Option<String>,
}

impl ValueChangeBody {
    fn new(change: ValueChange, company: &Company) -> Self {
        let text = |value| render_value(value, company);
        Self { field: change.field, old: text(change.old), new: text(change.new) }
    }
}

fn render_value(value: AuditValue, company: &Company) -> Option<String> {
    match value {
        AuditValue::None => None,
        AuditValue::Amount(amount) => Some(Amount::new(amount, company.currency).to_string()),
        AuditValue::Interval(interval) => render_interval(interval).map(str::to_owned),
        AuditValue::Instant(at) => Some(render_time(at)),
        AuditValue::Flag(flag) => Some(flag.to_string()),
        AuditValue::Categories(codes) => {
            let codes: Vec<_> = codes.iter().map(u16::to_string).collect();
            (!codes.is_empty()).then(|| codes.join(", "))
        }
        AuditValue::HoldTable(table) => {
            let table = table.to_string();
            (!table.is_empty()).then_some(table)
        }
        AuditValue::CardState(state) => Some(state.word().to_owned()),
        AuditValue::Role(role) => Some(role.word().to_owned()),
        AuditValue::MemberState(state) => Some(state.word().to_owned()),
        AuditValue::Member(id) => Some(id.to_string()),
        AuditValue::Count(count) => Some(count.to_string()),
        AuditValue::CompanyState(state) => Some(state.word().to_owned()),
        AuditValue::RequisitionStatus(status) => Some(status.word().to_owned()),
        AuditValue::EndpointState(state) => Some(render_state(state).to_owned()),
    }
}

/// The acting user, token or program.
#[derive(Debug, Serialize, ToSchema)]
pub struct ActorBody {
    #[schema(value_type = words::ActorKind)]
    kind: &'static str,
    /// The access token or the user; null for others.
    id: Option<Uuid>,
    /// The member that the token or the user stood for, where that is known.
    member_id: Option<Uuid>,
}

/// The changed object.
#[derive(Debug, Serialize, ToSchema)]
pub struct AuditedObject {
    /// Its kind.
    #[schema(example = "card")]
    kind: String,
    /// Its id; null for an object without one.
    id: Option<Uuid>,
}

impl AuditEventBody {
    fn new(event: AuditEvent, company: &Company) -> Self {
        let values = event.values.into_iter().map(|change| ValueChangeBody::new(change, company));
        Self {
            values: values.collect(),
            action: event.action,
            actor: ActorBody::new(event.actor),
            address: event.address,
            object: AuditedObject { kind: event.object_kind, id: event.object },
            fields: event.fields,
            created_at: render_time(event.at),
        }
    }
}

/// The kind of those who act that this is one of.
pub const fn actor_kind(actor: Actor) -> &'static str {
    ActorBody::new(actor).kind
}

impl ActorBody {
    const fn new(actor: Actor) -> Self {
        let [operator, access_token, user, switch, app] = ACTOR_KINDS;
        let (kind, id, member) = match actor {
            Actor::Operator => (operator, None, None),
            Actor::Token { id, member } => (access_token, Some(id.0), member),
            Actor::User { id, member } => (user, Some(id.0), member),
            Actor::Switch => (switch, None, None),
            Actor::App { id } => (app, Some(id.0), None),
        };
        let member_id = match member {
            Some(MemberId(id)) => Some(id),
            None => None,
        };
        Self { kind, id, member_id }
    }
}

queries! {
    /// The filters of a list of changes.
    AuditEventFilters |query| _ = parse_filter(query);
}

fn parse_filter(query: &mut Query) -> AuditFilter {
    AuditFilter {
        actor: query.id("actor", "Done by this access token, user or member."),
        action: query.noted("action", "This action.", action).map(str::to_owned),
        objects: query.id("object", "Done to this object.").into_iter().collect(),
        object_kind: None,
    }
}

fn action() -> Value {
    json!({"type": "string", "example": "card.updated"})
}

/// List audit events, the newest first.
#[utoipa::path(
    get, path = "/v1/audit-events", params(PageParameters, AuditEventFilters),
    responses((status = 200, body = Listing<AuditEventBody>)),
)]
pub async fn list_audit_events(
    call: Call,
    list: ListQuery,
) -> Answer<Json<Listing<AuditEventBody>>> {
    list_view(&call, list, BY_CREATION, parse_filter, |view, filter, page| {
        let found = view.snapshot.audit_events(Some(view.company.slot), filter, page)?;
        found.load(|event| Ok(AuditEventBody::new(event, view.company)))
    })
    .await
}

#[cfg(test)]
mod tests {
    use cardswitch_engine::domain::ids::{AccessTokenId, AppId, UserId};
    use serde_json::json;

    use super::*;

    #[test]
    fn everybody_who_acts_is_shown_by_kind_and_ids() {
        let (id, member) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let rows = [
            (Actor::Operator, "operator", None, None),
            (Actor::Switch, "switch", None, None),
            (Actor::App { id: AppId(id) }, "app", Some(id), None),
            (Actor::Token { id: AccessTokenId(id), member: None }, "access_token", Some(id), None),
            (
                Actor::User { id: UserId(id), member: Some(MemberId(member)) },
                "user",
                Some(id),
                Some(member),
            ),
        ];
        for (actor, kind, id, member) in rows {
            let shown = serde_json::to_value(ActorBody::new(actor)).unwrap();
            assert_eq!(shown, json!({"kind": kind, "id": id, "member_id": member}));
        }
    }
}
