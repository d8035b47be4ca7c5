//! One card: its limits, its purchases, and the actions on it.
//! GET /cards/{id}.

use askama::Template;
use axum::extract::Query;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::PathId;
use cardswitch_engine::directory::shared_link::SharedLink;
use cardswitch_engine::domain::allowance::AllowanceTerms;
use cardswitch_engine::domain::business_date::date_at;
use cardswitch_engine::domain::card::CardState;
use cardswitch_engine::domain::ids::{CardId, Timestamp};
use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use cardswitch_engine::limits::PAGE_LEN_MAX;
use cardswitch_engine::store::StoreError;
use cardswitch_engine::store::query::{CardRow, ListPage, Page, TransactionFilter, TransactionRow};
use cardswitch_v1::routes::card_secrets::is_closed;
use cardswitch_v1::routes::view::View;
use cardswitch_wire::fields::parse_id;
use cardswitch_wire::glossary::Audience;
use serde::Deserialize;
use uuid::Uuid;

use super::face::{CardFace, is_open};
use super::get_card;
use super::list::holder;
use super::purchases::Purchase;
use crate::assets::COPY;
use crate::dimension_choices::tags_of;
use crate::frame;
use crate::rights::{ActingMember, Right};
use crate::transactions::decision::Teller;
use crate::words::{Moment, PageReader, moment, money, person, zone_words};

/// How many transactions stand on the page; the others are a list of their own.
const PURCHASES: usize = 15;

#[derive(Template)]
#[template(path = "cards/card.html")]
struct CardContent {
    csrf: String,
    alert: String,
    /// The place of the link that was just created.
    made: Option<usize>,
    face: CardFace,
    holder: String,
    zone: String,
    state: CardState,
    may_manage: bool,
    may_see_number: bool,
    held: String,
    limits: Vec<(&'static str, String)>,
    dimensions: Vec<(&'static str, String)>,
    created: Moment,
    purchases: Vec<Purchase>,
    purchase_count: u64,
    links: Vec<LinkRow>,
}

struct LinkRow {
    id: Uuid,
    recipient: String,
    address: String,
    is_asked: bool,
    hides_balance: bool,
    made: Moment,
    viewed: Option<Moment>,
}

/// The query of `GET /cards/{id}`.
#[derive(Debug, Deserialize)]
pub(super) struct CardQuery {
    /// The shared link that the visitor has just created.
    link: Option<String>,
}

/// The page's additions to the stored facts of the card.
#[derive(Debug, Default)]
pub(super) struct CardNotes {
    /// Said first, where it is not blank.
    pub(super) alert: String,
    /// A shared link to show open.
    pub(super) made: Option<Uuid>,
}

/// GET /cards/{id}.
pub(super) async fn show_card(
    acting: ActingMember,
    PathId(id): PathId,
    Query(query): Query<CardQuery>,
) -> Result<Response, ApiError> {
    let made = query.link.as_deref().and_then(parse_id);
    card_page(&acting, CardId(id), CardNotes { made, ..CardNotes::default() }).await
}

/// The page of a card.
/// Errors: there is no such card, or it is not the visitor's to see.
pub(super) async fn card_page(
    acting: &ActingMember,
    id: CardId,
    notes: CardNotes,
) -> Result<Response, ApiError> {
    let card = get_card(acting, id).await?;
    let csrf = acting.csrf();
    let read = |view: &View<'_>| {
        let content = content(&card, acting, view)?;
        let made = content.links.iter().position(|link| Some(link.id) == notes.made);
        Ok(CardContent { csrf, alert: notes.alert, made, ..content })
    };
    let content = acting.read(read).await?;
    let title = card.profile.texts.description.clone();
    Ok(frame::page_with_scripts(&title, &[&*COPY], content))
}

fn content(
    card: &CardRow,
    acting: &ActingMember,
    view: &View<'_>,
) -> Result<CardContent, StoreError> {
    let (company, profile) = (view.company, &card.profile);
    let listed = purchases(card, acting, view)?;
    let teller = Teller::of(acting, view);
    let holder = holder(card, view)?;
    let holder = holder.map(|member| person(&member.first_name, &member.last_name, &member.email));
    let may_manage = acting.may(Right::ManageCards);
    let links = if may_manage { links(card, view)? } else { Vec::new() };
    Ok(CardContent {
        csrf: String::new(),
        alert: String::new(),
        made: None,
        face: CardFace::new(card, company, view.now),
        holder: holder.unwrap_or_default(),
        zone: zone_words(company.zone),
        state: card.record.usage.state,
        may_manage,
        may_see_number: may_see_number(acting, card),
        held: money(card.held, company.currency),
        limits: limits(card, view),
        dimensions: tags_of(view, &profile.dimensions)?,
        created: moment(profile.created_at, company.zone),
        purchases: listed.rows.iter().map(|row| Purchase::new(row, &teller)).collect(),
        purchase_count: listed.count,
        links,
    })
}

/// The newest transactions of a card. A visitor limited to their own sees those of them: the
/// purchases of a former holder stay hidden.
fn purchases(
    card: &CardRow,
    acting: &ActingMember,
    view: &View<'_>,
) -> Result<ListPage<TransactionRow>, StoreError> {
    let (card, page) = (card.profile.slot, Page::first(PURCHASES));
    let Some(own) = acting.limited_to() else {
        return view.snapshot.list_card_transactions(card, &page);
    };
    let filter =
        TransactionFilter { card: Some(card), member: Some(own), ..TransactionFilter::default() };
    view.snapshot.list_transactions(view.company.slot, &filter, &page)
}

/// Whether the visitor may see the number of a card: a virtual one that is not closed, nor its company,
/// shown to its holder and to administrators.
pub(super) fn may_see_number(acting: &ActingMember, card: &CardRow) -> bool {
    let is_holder = card.profile.assigned_to == Some(acting.member.slot);
    let is_shown = card.profile.is_virtual && is_open(card) && !is_closed(&acting.company);
    is_shown && (is_holder || acting.may(Right::ManageCards))
}

/// The card's other limits, each with its label.
fn limits(card: &CardRow, view: &View<'_>) -> Vec<(&'static str, String)> {
    let (terms, company) = (&card.record.terms, view.company);
    let mut limits = Vec::new();
    if let Some(limit) = limited(terms.transaction_limit, company.currency) {
        limits.push(("Per-transaction limit", limit));
    }
    if let Some(limit) = limited(terms.daily_limit, company.currency) {
        let usage = card.record.usage.rolled(terms.interval, date_at(company.zone, view.now));
        let left = money(usage.day_room(terms), company.currency);
        limits.push(("Daily limit", format!("{limit} ({left} left today)")));
    }
    if terms.single_use {
        limits.push(("Single use", "Suspended after its first purchase".to_owned()));
    }
    limits.extend(window(terms, view));
    if !terms.scope.codes().is_empty() {
        limits.push(("Allowed merchants", PageReader::of(company).scope(&terms.scope, "; ")));
    }
    limits
}

fn limited(limit: Minor, currency: CurrencyCode) -> Option<String> {
    (limit != Minor::UNLIMITED).then(|| money(limit, currency))
}

fn window(terms: &AllowanceTerms, view: &View<'_>) -> Vec<(&'static str, String)> {
    let shown = |name, at, unbounded| {
        (at != unbounded).then(|| (name, moment(at, view.company.zone).words))
    };
    let from = shown("Valid from", terms.starts_at, Timestamp::MIN);
    from.into_iter().chain(shown("Valid until", terms.ends_at, Timestamp::MAX)).collect()
}

fn links(card: &CardRow, view: &View<'_>) -> Result<Vec<LinkRow>, StoreError> {
    // A card has room for as many as one page of them takes.
    let page = Page::first(PAGE_LEN_MAX);
    let listed =
        view.snapshot.list_shared_links(view.company.slot, Some(card.profile.slot), &page)?;
    listed.rows.iter().map(|link| link_row(link, view)).collect()
}

fn link_row(link: &SharedLink, view: &View<'_>) -> Result<LinkRow, StoreError> {
    let shown = |at| moment(at, view.company.zone);
    let recipient = link.recipient.as_ref();
    let recipient = recipient.map(|recipient| format!("{}, {}", recipient.name, recipient.email));
    Ok(LinkRow {
        id: link.id.0,
        recipient: recipient.unwrap_or_else(|| "Anyone with the link".to_owned()),
        address: view.link_address(link)?,
        is_asked: link.sealed_passphrase.is_some(),
        hides_balance: link.hide_balance,
        made: shown(link.created_at),
        viewed: link.last_viewed_at.map(shown),
    })
}
