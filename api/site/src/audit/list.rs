//! The audit log as a page: filters by names, and sign-ins folded together. GET /audit.

use askama::Template;
use axum::extract::Query;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_engine::domain::audit::{Actor, AuditEvent};
use cardswitch_engine::domain::ids::{AllowanceId, CardId, MemberId};
use cardswitch_engine::store::StoreError;
use cardswitch_engine::store::query::{AuditFilter, CardFilter, Page};
use cardswitch_identity::state::AppState;
use cardswitch_v1::routes::view::View;
use uuid::Uuid;

use super::names::{KINDS, Thing, actor_name, member_name, thing};
use super::sentence::{SIGN_INS, changes, deed};
use crate::choices::{Choice, choices};
use crate::frame;
use crate::pager::{ListForm, Pager};
use crate::rights::AuditReader;
use crate::search::last_four_of;
use crate::words::{Moment, near_moment, zone_words};

/// How many members and tokens are offered to choose from.
const OFFERED_MAX: usize = 200;

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditContent<'a> {
    company: &'a str,
    zone: String,
    alert: &'static str,
    actors: Vec<Choice>,
    kinds: Vec<Choice>,
    object: &'a str,
    /// The filters that the form does not show.
    kept: Vec<(&'a str, &'a str)>,
    is_filtered: bool,
    rows: Vec<AuditRow>,
    pager: Pager,
}

enum AuditRow {
    /// An event.
    One(Box<EventLine>),
    /// Sign-ins one after the other, the newest first.
    SignIns(Vec<EventLine>),
}

/// An event as a sentence.
struct EventLine {
    at: Moment,
    actor: String,
    actor_id: Option<Uuid>,
    deed: String,
    thing: Thing,
    object: Option<Uuid>,
    /// The end of the sentence.
    changes: String,
    address: String,
    is_sign_in: bool,
}

/// GET /audit.
pub(crate) async fn list_events(
    AuditReader(acting): AuditReader,
    Query(query): Query<ListForm>,
) -> Result<Response, ApiError> {
    let company = &acting.company;
    let read = |view: &View<'_>| {
        let actors = offered_actors(view, query.of("actor"))?;
        let filter = match filter(&query, view)? {
            Ok(filter) => filter,
            Err(alert) => return Ok((alert, actors, Vec::new(), 0)),
        };
        let page = query.part().page();
        let listed = view.snapshot.audit_events(Some(company.slot), &filter, &page)?;
        let line = |event: &AuditEvent| EventLine::new(event, (&acting.state, view));
        let lines = listed.rows.iter().map(line).collect::<Result<Vec<_>, StoreError>>()?;
        Ok(("", actors, lines, listed.count))
    };
    let (alert, actors, lines, count) = acting.read_lists(read).await?;
    let content = AuditContent {
        company: &company.name,
        zone: zone_words(company.zone),
        alert,
        actors,
        kinds: choices(KINDS.iter().copied(), query.of("kind")),
        object: query.of("object"),
        kept: query.besides(&["actor", "kind", "object"]),
        is_filtered: query.is_filtered(),
        pager: Pager::new(query.part(), lines.len(), count, "/audit", &query.pairs()),
        rows: folded(lines),
    };
    Ok(frame::page("Audit log", content))
}

/// The filter, or the error in it: the `actor` (an id), an `action` such as `card.updated`, a
/// `kind` of things, an `object` (digits of a card, an e-mail address or an id).
fn filter(
    query: &ListForm,
    view: &View<'_>,
) -> Result<Result<AuditFilter, &'static str>, StoreError> {
    let actor = match query.of("actor") {
        "" => None,
        text => match Uuid::parse_str(text) {
            Ok(id) => Some(id),
            Err(_) => return Ok(Err("Choose an actor from the list.")),
        },
    };
    let objects = match query.of("object") {
        "" => Vec::new(),
        text => match object_of(text, view)? {
            Ok(id) => with_allowance(id, view)?,
            Err(alert) => return Ok(Err(alert)),
        },
    };
    let given = |name| Some(query.of(name).to_owned()).filter(|text| !text.is_empty());
    let (action, object_kind) = (given("action"), given("kind"));
    Ok(Ok(AuditFilter { actor, objects, object_kind, action }))
}

/// The thing that a text names: a card by its last four digits, a member by the address, or an id.
fn object_of(text: &str, view: &View<'_>) -> Result<Result<Uuid, &'static str>, StoreError> {
    let company = view.company.slot;
    if let Some(digits) = last_four_of(text) {
        let filter = CardFilter { last_four: Some(digits), ..CardFilter::default() };
        let cards = view.snapshot.list_cards(company, &filter, &Page::first(2))?;
        return Ok(match cards.rows.as_slice() {
            [card] => Ok(card.profile.id.0),
            [] => Err("No card ends in these digits."),
            _ => Err("Several cards end in these digits: open the card and choose its history."),
        });
    }
    if text.contains('@') {
        let member = view.snapshot.member_by_email(company, text)?;
        return Ok(member.map(|member| member.id.0).ok_or("No member has this email."));
    }
    Ok(Uuid::parse_str(text).map_err(|_| "Enter the last four digits of a card or an email."))
}

/// A thing, and of a card its limits, which have an id of their own: to people they are one.
fn with_allowance(id: Uuid, view: &View<'_>) -> Result<Vec<Uuid>, StoreError> {
    let card = match view.find_card(CardId(id))? {
        Some(card) => Some(card),
        None => view.snapshot.card_by_allowance_id(view.company.slot, AllowanceId(id))?,
    };
    Ok(card.map_or_else(|| vec![id], |card| vec![card.profile.id.0, card.profile.allowance_id.0]))
}

/// The possible actors, by name.
fn offered_actors(view: &View<'_>, chosen: &str) -> Result<Vec<Choice>, StoreError> {
    let members = view.snapshot.newest_members(view.company.slot, OFFERED_MAX)?;
    let members = members.iter().map(|member| (member.id.0.to_string(), member_name(member)));
    let tokens = view.snapshot.access_tokens(view.company.slot, &Page::first(OFFERED_MAX))?;
    let tokens = tokens.rows.iter().filter(|token| !token.label().is_empty());
    let tokens = tokens.map(|token| (token.id.0.to_string(), format!("{} (token)", token.label())));
    let mut known: Vec<_> = members.chain(tokens).collect();
    known.sort_by_cached_key(|(_, name)| name.to_lowercase());
    if !chosen.is_empty() && known.iter().all(|(id, _)| id != chosen) {
        known.extend(named_actor(view, chosen)?.map(|name| (chosen.to_owned(), name)));
    }
    let known = known.iter().map(|(id, name)| (id.as_str(), name.as_str()));
    Ok(choices(std::iter::once(("", "Anyone")).chain(known), chosen))
}

/// The name of an actor that the list does not offer.
fn named_actor(view: &View<'_>, id: &str) -> Result<Option<String>, StoreError> {
    let Ok(id) = Uuid::parse_str(id) else { return Ok(None) };
    if let Some(member) = view.find_member(MemberId(id))? {
        return Ok(Some(member_name(&member)));
    }
    // An id that no event of the company has may be another company's.
    let filter = AuditFilter { actor: Some(id), ..AuditFilter::default() };
    let events = view.snapshot.audit_events(Some(view.company.slot), &filter, &Page::first(1))?;
    events.rows.first().map(|event| actor_name(view, &event.actor)).transpose()
}

impl EventLine {
    fn new(event: &AuditEvent, (state, view): (&AppState, &View<'_>)) -> Result<Self, StoreError> {
        let [first_id, member_id] = event.actor.ids();
        let is_sign_in = SIGN_INS.contains(&event.action.as_str());
        let named = event.object.filter(|_| !is_sign_in);
        let thing = named.map(|id| thing((state, view), &event.object_kind, id));
        Ok(Self {
            at: near_moment(event.at, view.now, view.company.zone),
            actor: match event.actor {
                // The switch itself looks at no card.
                Actor::Switch if event.action == "card.number_shown" => {
                    "A guest with a shared link".to_owned()
                }
                actor => actor_name(view, &actor)?,
            },
            actor_id: member_id.or(first_id),
            deed: deed(&event.action),
            thing: thing.transpose()?.unwrap_or_default(),
            object: named,
            changes: changes(event, view)?,
            address: event.address.clone().unwrap_or_default(),
            is_sign_in,
        })
    }
}

/// Rows of a list in which sign-ins that follow each other are one.
fn folded(lines: Vec<EventLine>) -> Vec<AuditRow> {
    let mut rows: Vec<AuditRow> = Vec::new();
    for line in lines {
        match rows.last_mut() {
            Some(AuditRow::SignIns(known)) if line.is_sign_in => known.push(line),
            _ if line.is_sign_in => rows.push(AuditRow::SignIns(vec![line])),
            _ => rows.push(AuditRow::One(Box::new(line))),
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use cardswitch_engine::domain::ids::Timestamp;
    use chrono_tz::Tz;

    use super::*;

    #[test]
    fn sign_ins_one_after_the_other_are_one_row() {
        let line = |is_sign_in| EventLine {
            at: near_moment(Timestamp(0), Timestamp(0), Tz::UTC),
            actor: String::new(),
            actor_id: None,
            deed: String::new(),
            thing: Thing::default(),
            object: None,
            changes: String::new(),
            address: String::new(),
            is_sign_in,
        };
        let lines = [true, true, false, true, false, false].map(line);
        let rows = folded(lines.into());
        let lengths: Vec<_> = rows
            .iter()
            .map(|row| match row {
                AuditRow::One(_) => 0,
                AuditRow::SignIns(lines) => lines.len(),
            })
            .collect();
        assert_eq!(lengths, [2, 0, 1, 0, 0]);
    }
}
