//! Which cards there are. GET /cards.

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_engine::directory::member::Member;
use cardswitch_engine::domain::card::{CardState, CardTexts};
use cardswitch_engine::domain::ids::MemberSlot;
use cardswitch_engine::store::StoreError;
use cardswitch_engine::store::query::{CardFilter, CardRow, Listed, Page};
use cardswitch_identity::state::AppState;
use cardswitch_v1::routes::view::{View, read_view};
use serde::Deserialize;

use super::face::Face;
use crate::choices::{Choice, choices};
use crate::frame;
use crate::pager::{ORDERS, Pager, Part, order_of};
use crate::rights::{Acting, Right};
use crate::search::last_four_of;
use crate::words::person;

/// How many members are offered to choose from; others are found by their address all the same.
pub(super) const OFFERED_MAX: usize = 200;

/// The states that are asked for together: what the query says, what people read, what it means.
const STATES: [(&str, &str, &[CardState]); 6] = [
    ("", "Open", &[CardState::Unactivated, CardState::Active, CardState::Suspended]),
    ("active", "Active", &[CardState::Active]),
    ("suspended", "Suspended", &[CardState::Suspended]),
    ("unactivated", "Not activated", &[CardState::Unactivated]),
    ("terminated", "Closed", &[CardState::Terminated]),
    ("all", "All", &[]),
];

/// What is looked for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CardListQuery {
    state: String,
    holder: String,
    text: String,
    order: String,
    offset: usize,
}

impl CardListQuery {
    /// The states that are wanted; those of the first choice where the query says something else.
    fn states(&self) -> &'static [CardState] {
        let known = STATES.iter().find(|(value, ..)| *value == self.state);
        known.map_or(STATES[0].2, |(.., states)| *states)
    }

    /// The filters as an address has them.
    fn pairs(&self) -> [(&'static str, &str); 4] {
        let Self { state, holder, text, order, .. } = self;
        [("state", state), ("holder", holder), ("text", text), ("order", order)]
    }

    /// Parts that the card's texts contain.
    fn contains(&self) -> CardTexts<Option<String>> {
        let typed =
            |text: &str| Some(text.trim()).filter(|text| !text.is_empty()).map(str::to_owned);
        CardTexts { description: typed(&self.text), ..CardTexts::default() }
    }

    fn is_filtered(&self) -> bool {
        let mut filters = self.pairs().into_iter().filter(|(name, _)| *name != "order");
        filters.any(|(_, value)| !value.trim().is_empty())
    }
}

#[derive(Template)]
#[template(path = "cards/list.html")]
struct CardListContent<'a> {
    csrf: String,
    alert: &'a str,
    company: &'a str,
    sees_all: bool,
    may_manage: bool,
    states: Vec<Choice>,
    orders: Vec<Choice>,
    query: &'a CardListQuery,
    is_filtered: bool,
    offered: Vec<String>,
    rows: Vec<CardLine>,
    pager: Pager,
}

struct CardLine {
    face: Face,
    holder: String,
    is_active: bool,
}

/// GET /cards.
pub(super) async fn list_cards(
    State(state): State<AppState>,
    acting: Acting,
    Query(query): Query<CardListQuery>,
) -> Result<Response, ApiError> {
    list_page(&state, &acting, &query, "").await
}

/// The list; `alert` is said first, where it is not blank.
pub(super) async fn list_page(
    state: &AppState,
    acting: &Acting,
    query: &CardListQuery,
    alert: &str,
) -> Result<Response, ApiError> {
    let (part, company) = (Part { offset: query.offset }, &acting.company);
    let read = read_view(state, acting, |view| {
        let page = Page { order: order_of(&query.order), ..part.page() };
        let found = find_cards(view, acting, query, &page)?.load(|card| row(&card, view))?;
        let offered =
            if acting.may(Right::SeeCompany) { offered_members(view)? } else { Vec::new() };
        Ok((found, offered))
    });
    let (Listed { rows, count }, offered) = read.await?;
    let content = CardListContent {
        csrf: acting.session.csrf(state),
        alert,
        company: &company.name,
        sees_all: acting.may(Right::SeeCompany),
        may_manage: acting.may(Right::ManageCards),
        states: choices(STATES.map(|(value, label, _)| (value, label)), &query.state),
        orders: choices(ORDERS, &query.order),
        is_filtered: query.is_filtered(),
        offered,
        pager: Pager::new(part, rows.len(), count, "/cards", &query.pairs()),
        rows,
        query,
    };
    Ok(frame::page(state, "Cards", Some(&acting.session), content))
}

fn find_cards(
    view: &View<'_>,
    acting: &Acting,
    query: &CardListQuery,
    page: &Page,
) -> Result<Listed<CardRow>, StoreError> {
    let company = view.company.slot;
    let text = query.text.trim();
    let mut filter = CardFilter {
        assigned_to: acting.limited_to(),
        states: query.states().to_vec(),
        contains: query.contains(),
        ..CardFilter::default()
    };
    let holder = query.holder.trim();
    if filter.assigned_to.is_none() && !holder.is_empty() {
        let Some(member) = view.snapshot.member_by_email(company, holder)? else {
            return Ok(Listed::EMPTY);
        };
        filter.assigned_to = Some(member.slot);
    }
    // Four digits are the last ones of a number; where no card has these, they may be in a name.
    if let Some(digits) = last_four_of(text) {
        let contains = CardTexts::default();
        let filter = CardFilter { last_four: Some(digits), contains, ..filter.clone() };
        let listed = view.snapshot.list_cards(company, &filter, page)?;
        if listed.count > 0 {
            return Ok(listed);
        }
    }
    view.snapshot.list_cards(company, &filter, page)
}

fn row(card: &CardRow, view: &View<'_>) -> Result<CardLine, StoreError> {
    let holder = holder(card, view)?;
    let holder = holder.map(|member| person(&member.first_name, &member.last_name, &member.email));
    Ok(CardLine {
        face: Face::new(card, view.company, view.now),
        holder: holder.unwrap_or_default(),
        is_active: card.record.usage.state == CardState::Active,
    })
}

/// The cards that a member holds and that are not closed.
pub(crate) fn open_cards_of(member: MemberSlot) -> CardFilter {
    let states = STATES[0].2.to_vec();
    CardFilter { assigned_to: Some(member), states, ..CardFilter::default() }
}

/// Who holds a card.
pub(super) fn holder(card: &CardRow, view: &View<'_>) -> Result<Option<Member>, StoreError> {
    let slot = card.profile.assigned_to;
    Ok(slot.map(|slot| view.snapshot.member(slot)).transpose()?.flatten())
}

/// The addresses of members that cards can be given to, as many as are offered.
pub(super) fn offered_members(view: &View<'_>) -> Result<Vec<String>, StoreError> {
    let page = Page::first(OFFERED_MAX);
    let listed = view.snapshot.list_members(view.company.slot, &page, Member::takes_part)?;
    let mut emails: Vec<_> = listed.rows.into_iter().map(|member| member.email).collect();
    emails.sort_unstable();
    Ok(emails)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_those_of_the_choices_and_open_ones_otherwise() {
        let states =
            |state: &str| CardListQuery { state: state.to_owned(), ..CardListQuery::default() };
        assert_eq!(states("terminated").states(), [CardState::Terminated]);
        assert_eq!(states("all").states(), []);
        for open in ["", "nonsense", "active,suspended"] {
            assert!(!states(open).states().contains(&CardState::Terminated), "{open}");
        }
    }
}
