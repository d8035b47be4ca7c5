//! The list of cards. GET /cards.

use askama::Template;
use axum::extract::Query;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_engine::directory::member::Member;
use cardswitch_engine::domain::card::{CardState, CardTexts};
use cardswitch_engine::domain::ids::MemberSlot;
use cardswitch_engine::store::StoreError;
use cardswitch_engine::store::query::{CardFilter, CardRow, ListPage, Page};
use cardswitch_v1::routes::card_texts::CARD_TEXTS;
use cardswitch_v1::routes::cards::ListCardsRequest;
use cardswitch_v1::routes::view::View;

use super::face::CardFace;
use crate::choices::{Choice, choices};
use crate::frame;
use crate::pager::{ListForm, ORDERS, Pager};
use crate::rights::{ActingMember, Right};
use crate::search::last_four_of;
use crate::words::person;

/// How many members are offered to choose from; others are found by their address all the same.
pub(super) const OFFERED_MAX: usize = 200;

/// The states that are chosen together unless the query says otherwise, as `/v1` names them.
const OPEN: &str = "unactivated,active,suspended";
/// The choices of states: the value in the query, and the label.
const STATES: [(&str, &str); 6] = [
    ("", "Open"),
    ("active", "Active"),
    ("suspended", "Suspended"),
    ("unactivated", "Not activated"),
    ("terminated", "Closed"),
    ("all", "All"),
];

/// The states as `/v1` takes them; open ones where the query names none.
fn states_of(typed: &str) -> &str {
    match typed {
        "all" => "",
        "" => OPEN,
        typed => typed,
    }
}

/// A filter by a text of a card.
struct TextFilter {
    /// Its name in the form.
    field: &'static str,
    /// Its name in `/v1`.
    name: &'static str,
    label: &'static str,
}

/// The filters by texts; the text for descriptions may be the last digits of a number, too.
fn text_filters() -> impl Iterator<Item = TextFilter> {
    let filters = CARD_TEXTS.named().into_iter().filter(|(_, text)| text.is_filter());
    filters.map(|(name, text)| match name {
        "description" => TextFilter { field: "text", name, label: "Name or last four" },
        name => TextFilter { field: name, name, label: text.label },
    })
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
    query: &'a ListForm,
    /// The filters that the form does not show.
    kept: Vec<(&'a str, &'a str)>,
    texts: Vec<TextFilter>,
    is_filtered: bool,
    offered: Vec<String>,
    rows: Vec<CardListRow>,
    pager: Pager,
    suspend_path: String,
}

struct CardListRow {
    face: CardFace,
    holder: String,
    is_active: bool,
}

/// GET /cards.
pub(super) async fn list_cards(
    acting: ActingMember,
    Query(query): Query<ListForm>,
) -> Result<Response, ApiError> {
    list_page(&acting, &query, "").await
}

/// The list; `alert` is said first, where it is not blank.
pub(super) async fn list_page(
    acting: &ActingMember,
    query: &ListForm,
    alert: &str,
) -> Result<Response, ApiError> {
    let texts = text_filters().map(|filter| (filter.name, query.of(filter.field)));
    let texts = texts.filter(|(_, text)| !text.is_empty());
    let mut asked = query.query(texts.chain([("state", states_of(query.of("state")))]));
    let (request, page) = (ListCardsRequest::parse(&mut asked), query.page(&mut asked));
    asked.finish()?;
    let read = acting.read_lists(|view| {
        let found =
            find_cards(view, acting, query, (&request, &page))?.load(|card| row(&card, view))?;
        let offered =
            if acting.may(Right::SeeCompany) { offered_members(view)? } else { Vec::new() };
        Ok((found, offered))
    });
    let (ListPage { rows, count }, offered) = read.await?;
    let holder = acting.may(Right::SeeCompany).then_some("holder");
    let texts = text_filters().map(|filter| filter.field);
    let fields: Vec<_> = ["state", "order"].into_iter().chain(holder).chain(texts).collect();
    let content = CardListContent {
        csrf: acting.csrf(),
        alert,
        company: &acting.company.name,
        sees_all: acting.may(Right::SeeCompany),
        may_manage: acting.may(Right::ManageCards),
        states: choices(STATES, query.of("state")),
        orders: choices(ORDERS, query.of("order")),
        texts: text_filters().collect(),
        is_filtered: query.is_filtered(),
        offered,
        pager: Pager::new(query.part(), rows.len(), count, "/cards", &query.pairs()),
        suspend_path: query.address("/cards/suspend"),
        rows,
        kept: query.besides(&fields),
        query,
    };
    Ok(frame::page("Cards", content))
}

fn find_cards(
    view: &View<'_>,
    acting: &ActingMember,
    query: &ListForm,
    (request, page): (&ListCardsRequest, &Page),
) -> Result<ListPage<CardRow>, StoreError> {
    let company = view.company.slot;
    let Some(mut filter) = request.resolve(view)? else { return Ok(ListPage::EMPTY) };
    let own = acting.limited_to();
    if own.is_none() && !query.of("holder").is_empty() {
        let Some(member) = view.snapshot.member_by_email(company, query.of("holder"))? else {
            return Ok(ListPage::EMPTY);
        };
        filter.assigned_to = Some(member.slot);
    }
    // A visitor limited to their own cards sees those alone, whatever the filter says.
    filter.assigned_to = own.or(filter.assigned_to);
    // Four digits are the last ones of a number; where no card has these, they may be in a name.
    if let Some(digits) = last_four_of(query.of("text")) {
        let contains = CardTexts::default();
        let filter = CardFilter { last_four: Some(digits), contains, ..filter.clone() };
        let listed = view.snapshot.list_cards(company, &filter, page)?;
        if listed.count > 0 {
            return Ok(listed);
        }
    }
    view.snapshot.list_cards(company, &filter, page)
}

fn row(card: &CardRow, view: &View<'_>) -> Result<CardListRow, StoreError> {
    let holder = holder(card, view)?;
    let holder = holder.map(|member| person(&member.first_name, &member.last_name, &member.email));
    Ok(CardListRow {
        face: CardFace::new(card, view.company, view.now),
        holder: holder.unwrap_or_default(),
        is_active: card.record.usage.state == CardState::Active,
    })
}

/// The cards that a member holds and that are not closed.
pub(crate) fn open_cards_of(member: MemberSlot) -> CardFilter {
    let states =
        CardState::ALL.into_iter().filter(|state| *state != CardState::Terminated).collect();
    CardFilter { assigned_to: Some(member), states, ..CardFilter::default() }
}

pub(super) fn holder(card: &CardRow, view: &View<'_>) -> Result<Option<Member>, StoreError> {
    let slot = card.profile.assigned_to;
    Ok(slot.map(|slot| view.snapshot.row::<Member>(slot)).transpose()?.flatten())
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
    fn states_are_those_of_the_query_and_open_ones_where_it_names_none() {
        let rows = [("", OPEN), ("all", ""), ("terminated", "terminated"), ("x,y", "x,y")];
        for (typed, states) in rows {
            assert_eq!(states_of(typed), states, "{typed}");
        }
    }
}
