//! The page on which visitors begin: the company's figures, and the visitor's own cards and tasks.
//! GET /overview.

use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::response::{IntoResponse, Redirect, Response};
use cardswitch_edge::error::ApiError;
use cardswitch_engine::directory::requisition::RequisitionStatus;
use cardswitch_engine::store::StoreError;
use cardswitch_engine::store::query::{Page, RequisitionFilter, TransactionFilter};
use cardswitch_v1::routes::view::View;
use uuid::Uuid;

use super::figure_words::ShownFigures;
use super::figures::{CompanyFigures, FigureCache};
use super::live::{LiveOverviews, SwitchFigures};
use crate::assets::{OVERVIEW, PLOT, PLOT_STYLE};
use crate::cards::face::CardFace;
use crate::cards::list::open_cards_of;
use crate::cards::purchases::Purchase;
use crate::frame;
use crate::next::ACCOUNT_PATH;
use crate::requisitions::may_review;
use crate::rights::{ActingMember, Right};
use crate::session::RequiredSession;
use crate::transactions::decision::Teller;
use crate::words::zone_words;

/// How many of the visitor's cards are shown; the others are a list of their own.
const CARDS: usize = 6;
/// How many of the visitor's transactions are shown.
const NEWEST: usize = 8;

#[derive(Template)]
#[template(path = "overview/overview.html")]
struct OverviewContent<'a> {
    company: &'a str,
    company_id: Uuid,
    zone: String,
    currency: String,
    shown: ShownFigures,
    own: VisitorOverview,
}

#[derive(Template)]
#[template(path = "overview/own.html")]
struct OwnContent<'a> {
    company: &'a str,
    purchases: Vec<Purchase>,
    own: VisitorOverview,
}

/// The visitor's own cards, and the number of requisitions that wait.
struct VisitorOverview {
    cards: Vec<CardFace>,
    card_count: u64,
    /// Pending requisitions that a reviewer may decide; else the visitor's own.
    waiting: u64,
    reviews: bool,
}

/// GET /overview.
pub(super) async fn show(
    Extension(overviews): Extension<Arc<LiveOverviews>>,
    RequiredSession(state, session): RequiredSession,
) -> Result<Response, ApiError> {
    let Some((company, member)) = session.current.clone() else {
        return Ok(Redirect::to(ACCOUNT_PATH).into_response());
    };
    let acting = ActingMember { state, session, company, member };
    if acting.may(Right::SeeCompany) {
        company_page(&acting, overviews.switch_figures(&acting.state)).await
    } else {
        own_page(&acting).await
    }
}

async fn company_page(acting: &ActingMember, switch: SwitchFigures) -> Result<Response, ApiError> {
    let company = &acting.company;
    let read = acting.read_lists(|view| {
        let figures =
            CompanyFigures::read(view.snapshot, company, view.now, &mut FigureCache::default())?;
        Ok((figures, own(acting, view)?, view.now))
    });
    let (figures, own, now) = read.await?;
    let shown = ShownFigures::new(&figures, switch, (company, now))
        .map_err(|error| ApiError::internal(&error))?;
    let content = OverviewContent {
        company: &company.name,
        company_id: company.id.0,
        zone: zone_words(company.zone),
        currency: cardswitch_wire::currency::render_currency(company.currency),
        shown,
        own,
    };
    let extras = [&*PLOT_STYLE, &*PLOT, &*OVERVIEW];
    Ok(frame::page_with_scripts("Overview", &extras, content))
}

async fn own_page(acting: &ActingMember) -> Result<Response, ApiError> {
    let read = acting.read_lists(|view| {
        let company = view.company;
        let filter =
            TransactionFilter { member: Some(acting.member.slot), ..TransactionFilter::default() };
        let newest =
            view.snapshot.list_transactions(company.slot, &filter, &Page::first(NEWEST))?;
        let teller = Teller::of(acting, view);
        let purchases = newest.rows.iter().map(|row| Purchase::new(row, &teller)).collect();
        Ok((purchases, own(acting, view)?))
    });
    let (purchases, own) = read.await?;
    let content = OwnContent { company: &acting.company.name, purchases, own };
    Ok(frame::page("Overview", content))
}

fn own(acting: &ActingMember, view: &View<'_>) -> Result<VisitorOverview, StoreError> {
    let (company, member) = (view.company, acting.member.slot);
    let cards = open_cards_of(member);
    let cards = view.snapshot.list_cards(company.slot, &cards, &Page::first(CARDS))?;
    let reviews = acting.may(Right::ReviewRequisitions);
    let filter = RequisitionFilter {
        card: None,
        member: (!reviews).then_some(member),
        statuses: vec![RequisitionStatus::Pending],
    };
    let count = |filter: &RequisitionFilter| -> Result<u64, StoreError> {
        let listed = view.snapshot.list_requisitions(company.slot, filter, &Page::first(1))?;
        Ok(listed.count)
    };
    let mut waiting = count(&filter)?;
    if reviews && !may_review(acting, member) {
        waiting =
            waiting.saturating_sub(count(&RequisitionFilter { member: Some(member), ..filter })?);
    }
    Ok(VisitorOverview {
        cards: cards.rows.iter().map(|card| CardFace::new(card, company, view.now)).collect(),
        card_count: cards.count,
        waiting,
        reviews,
    })
}
