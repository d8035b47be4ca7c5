//! Changing what a card may spend. GET and POST /cards/{id}/allowance; `allow` names a declined
//! purchase for which the form is filled in.

use askama::Template;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::PathId;
use cardswitch_engine::domain::business_date::Interval;
use cardswitch_engine::domain::ids::CardId;
use cardswitch_engine::store::query::{CardRow, TransactionRow};
use cardswitch_identity::state::AppState;
use cardswitch_v1::routes::allowances::change_allowance;
use cardswitch_v1::routes::view::read_view;
use cardswitch_wire::fields::{Fields, parse_id};
use serde::Deserialize;

use super::allowing::Allowing;
use super::card_fields::CardFields;
use super::card_form::CardForm;
use super::face::Face;
use super::get_card;
use crate::faults::{Faults, with_status};
use crate::forms::SiteForm;
use crate::frame;
use crate::notice::{Notice, go_on};
use crate::rights::{Acting, CardManager};
use crate::seen::changed_meanwhile;
use crate::transactions::find;

#[derive(Template)]
#[template(path = "cards/allowance.html")]
struct AllowanceContent {
    csrf: String,
    seen: String,
    face: Face,
    form: CardForm,
    may_reset: bool,
    allowing: Option<Allowing>,
}

/// What `GET /cards/{id}/allowance` takes.
#[derive(Debug, Deserialize)]
pub(super) struct AllowanceQuery {
    /// A purchase with the card that was declined.
    allow: Option<String>,
}

/// What the form shows instead of what is known.
#[derive(Debug, Default)]
struct Shown {
    typed: Option<CardFields>,
    faults: Faults,
    purchase: Option<TransactionRow>,
}

/// GET /cards/{id}/allowance.
pub(super) async fn show(
    State(state): State<AppState>,
    CardManager(acting): CardManager,
    PathId(id): PathId,
    Query(query): Query<AllowanceQuery>,
) -> Result<Response, ApiError> {
    let card = get_card(&state, &acting, CardId(id)).await?;
    let purchase = match query.allow.as_deref().and_then(parse_id) {
        Some(id) => Some(find(&state, &acting, id).await?),
        None => None,
    };
    let purchase = purchase.filter(|row| row.record.card == Some(card.profile.slot));
    allowance_page(&state, &acting, &card, Shown { purchase, ..Shown::default() }).await
}

/// The form, with what was typed, else what lets the purchase pass, else what is known.
async fn allowance_page(
    state: &AppState,
    acting: &Acting,
    card: &CardRow,
    shown: Shown,
) -> Result<Response, ApiError> {
    let csrf = acting.session.csrf(state);
    let content = read_view(state, acting, |view| {
        let known = CardFields::of_card(card, view)?;
        let seen = known.seen_allowance().to_string();
        let may_reset = card.record.terms.interval == Interval::None;
        let face = Face::new(card, view.company, view.now);
        let Shown { typed, faults, purchase } = shown;
        let allowing = purchase.map(|row| Allowing::new(card, &row.record, view));
        let least = allowing.as_ref().map(|room| CardFields::of_terms(&room.terms, view.company));
        let form = CardForm::new(typed.or(least).unwrap_or(known), faults, view)?;
        Ok(AllowanceContent { csrf, seen, face, form, may_reset, allowing })
    });
    Ok(frame::page(state, "Budget and limits", Some(&acting.session), content.await?))
}

/// POST /cards/{id}/allowance.
pub(super) async fn save(
    State(state): State<AppState>,
    CardManager(acting): CardManager,
    PathId(id): PathId,
    SiteForm(typed): SiteForm<CardFields>,
) -> Result<Response, ApiError> {
    let card = get_card(&state, &acting, CardId(id)).await?;
    let known = read_view(&state, &acting, |view| CardFields::of_card(&card, view)).await?;
    let changed = known.seen_allowance().changed_since(&typed.seen);
    if !changed.is_empty() {
        let faults = Faults::alert_only(changed_meanwhile(&changed));
        let shown = Shown { faults, ..Shown::default() };
        let page = allowance_page(&state, &acting, &card, shown).await?;
        return Ok(with_status(page, StatusCode::CONFLICT));
    }
    let company = &acting.company;
    let body = typed.changed_allowance(&known, company.zone);
    let json = serde_json::to_vec(&body).map_err(|error| ApiError::internal(&error))?;
    let fields = Fields::parse(&json).ok_or_else(ApiError::malformed_body)?;
    match change_allowance(&state, company, card.profile.allowance_id, fields).await {
        Ok(()) => Ok(go_on(&state, &format!("/cards/{id}"), Notice::ALLOWANCE_SAVED)),
        Err(error) => {
            let status = error.status();
            let faults = Faults::of_refusal(error)?.below("allowance");
            let shown = Shown { typed: Some(typed), faults, purchase: None };
            let page = allowance_page(&state, &acting, &card, shown).await?;
            Ok(with_status(page, status))
        }
    }
}
