//! The budget and the limits of a card. GET and POST /cards/{id}/allowance; `allow` names a
//! declined purchase for which the form is filled in.

use askama::Template;
use axum::extract::Query;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::PathId;
use cardswitch_engine::command::seen_object::WatchedObject;
use cardswitch_engine::domain::business_date::Interval;
use cardswitch_engine::domain::ids::CardId;
use cardswitch_engine::store::query::{CardRow, TransactionRow};
use cardswitch_v1::routes::allowances::change_allowance;
use cardswitch_wire::fields::parse_id;
use serde::Deserialize;

use super::allowance_proposal::AllowanceProposal;
use super::card_fields::CardFields;
use super::card_form::CardForm;
use super::face::CardFace;
use super::get_card;
use crate::faults::{Faults, with_status};
use crate::form_snapshot::change_as_seen;
use crate::forms::{FormBody, SiteForm};
use crate::frame;
use crate::notice::Notice;
use crate::rights::{ActingMember, CardManager};
use crate::transactions::find;

#[derive(Template)]
#[template(path = "cards/allowance.html")]
struct AllowanceContent {
    csrf: String,
    seen: String,
    face: CardFace,
    form: CardForm,
    may_reset: bool,
    allowing: Option<AllowanceProposal>,
}

/// The query of `GET /cards/{id}/allowance`.
#[derive(Debug, Deserialize)]
pub(super) struct AllowanceQuery {
    /// A purchase with the card that was declined.
    allow: Option<String>,
}

/// The values that the form shows instead of the stored ones.
#[derive(Debug, Default)]
struct FormValues {
    typed: Option<CardFields>,
    faults: Faults,
    purchase: Option<TransactionRow>,
}

/// GET /cards/{id}/allowance.
pub(super) async fn show(
    CardManager(acting): CardManager,
    PathId(id): PathId,
    Query(query): Query<AllowanceQuery>,
) -> Result<Response, ApiError> {
    let card = get_card(&acting, CardId(id)).await?;
    let purchase = match query.allow.as_deref().and_then(parse_id) {
        Some(id) => Some(find(&acting, id).await?),
        None => None,
    };
    let purchase = purchase.filter(|row| row.record.card == Some(card.profile.slot));
    allowance_page(&acting, &card, FormValues { purchase, ..FormValues::default() }).await
}

/// The form, with the values typed, else those that let the purchase pass, else the stored ones.
async fn allowance_page(
    acting: &ActingMember,
    card: &CardRow,
    shown: FormValues,
) -> Result<Response, ApiError> {
    let (csrf, status) = (acting.csrf(), shown.faults.status);
    let content = acting.read(|view| {
        let known = CardFields::of_terms(&card.record.terms, view.company);
        let seen = known.seen_allowance().to_string();
        let may_reset = card.record.terms.interval == Interval::None;
        let face = CardFace::new(card, view.company, view.now);
        let FormValues { typed, faults, purchase } = shown;
        let allowing = purchase.map(|row| AllowanceProposal::new(card, &row.record, view));
        let least = allowing.as_ref().map(|room| CardFields::of_terms(&room.terms, view.company));
        let form = CardForm::new(typed.or(least).unwrap_or(known), faults, view)?;
        Ok(AllowanceContent { csrf, seen, face, form, may_reset, allowing })
    });
    let page = frame::page("Budget and limits", content.await?);
    Ok(with_status(page, status))
}

/// POST /cards/{id}/allowance.
pub(super) async fn save(
    CardManager(acting): CardManager,
    PathId(id): PathId,
    SiteForm(typed): SiteForm<CardFields>,
) -> Result<Response, ApiError> {
    let company = &acting.company;
    let known = |card: &CardRow| CardFields::of_terms(&card.record.terms, company);
    let find = || async {
        let card = get_card(&acting, CardId(id)).await?;
        Ok((WatchedObject::Card(card.profile.slot), card))
    };
    let check = |card: &CardRow| known(card).seen_allowance().check(typed.typed.of("seen"));
    let saved = change_as_seen(&acting, find, check, async |state, card| {
        let body = typed.changed_allowance(&known(&card), (company.zone, company.currency));
        change_allowance(
            acting.reader(&state),
            card.profile.allowance_id,
            FormBody::of(body).fields()?,
        )
        .await?;
        Ok(acting.go_on(&format!("/cards/{id}"), Notice::ALLOWANCE_SAVED))
    });
    match saved.await? {
        Ok(saved) => Ok(saved),
        Err((card, why)) => {
            let (typed, faults) = why.shown(typed, Faults::of_refusal)?;
            let shown = FormValues { typed, faults: faults.below("allowance"), purchase: None };
            allowance_page(&acting, &card, shown).await
        }
    }
}
