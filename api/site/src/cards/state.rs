//! Suspending, activating and closing a card. POST /cards/{id}/state, GET and POST
//! /cards/{id}/close; POST /cards/suspend takes several.

use askama::Template;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::PathId;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::card::CardCommand;
use cardswitch_engine::domain::ids::CardId;
use cardswitch_v1::routes::cards::change_card;
use cardswitch_wire::fields::parse_id;
use serde::Deserialize;
use serde_json::json;

use super::card_page::{CardNotes, card_page};
use super::face::CardFace;
use super::get_card;
use super::list::list_page;
use crate::faults::{Faults, with_status};
use crate::forms::{ConfirmForm, FormBody, SiteForm};
use crate::frame;
use crate::notice::Notice;
use crate::pager::{ListForm, ROWS};
use crate::rights::{ActingMember, CardManager};
use crate::words::money;

/// The form of `POST /cards/{id}/state`.
#[derive(Debug, Deserialize)]
pub(super) struct StateForm {
    to: String,
}

/// POST /cards/{id}/state.
pub(super) async fn change(
    CardManager(acting): CardManager,
    PathId(id): PathId,
    SiteForm(form): SiteForm<StateForm>,
) -> Result<Response, ApiError> {
    let card = get_card(&acting, CardId(id)).await?;
    match set_state(&acting, card.profile.id, &form.to).await {
        Ok(()) => {
            let is_open = form.to == "active";
            let notice = if is_open { Notice::CARD_OPENED } else { Notice::CARD_SUSPENDED };
            Ok(acting.go_on(&format!("/cards/{id}"), notice))
        }
        Err(error) => {
            let faults = Faults::of_refusal(error)?;
            let status = faults.status;
            let alert = match faults.of("assigned_to") {
                "" => faults.alert().to_owned(),
                _ => "Assign the card before you activate it.".to_owned(),
            };
            let notes = CardNotes { alert, ..CardNotes::default() };
            let page = card_page(&acting, card.profile.id, notes).await?;
            Ok(with_status(page, status))
        }
    }
}

async fn set_state(acting: &ActingMember, card: CardId, to: &str) -> Result<(), ApiError> {
    let body = FormBody::of(json!({"state": to}));
    change_card(acting.into(), card, body.fields()?).await
}

/// The form of `POST /cards/suspend`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SuspendForm {
    /// The ids of the cards.
    card: Vec<String>,
}

/// POST /cards/suspend, with the query of the list. Cards are suspended one by one: those that cannot
/// be are counted.
pub(super) async fn suspend_several(
    CardManager(acting): CardManager,
    Query(query): Query<ListForm>,
    SiteForm(form): SiteForm<SuspendForm>,
) -> Result<Response, ApiError> {
    // Of several changes a claim would go with the first alone. Made again, they change nothing.
    let acting = acting.without_claim();
    let mut refused = 0;
    for id in form.card.iter().take(ROWS) {
        let Some(id) = parse_id(id).map(CardId) else { return Err(ApiError::not_found()) };
        let card = get_card(&acting, id).await?;
        match set_state(&acting, card.profile.id, "suspended").await {
            Ok(()) => {}
            Err(error) if error.status.is_client_error() => refused += 1,
            Err(error) => return Err(error),
        }
    }
    let alert = match (form.card.len(), refused) {
        (0, _) => "Select cards first.".to_owned(),
        (_, 0) => return Ok(acting.go_on(&query.address("/cards"), Notice::CARDS_SUSPENDED)),
        (all, refused) => format!("{refused} of {all} cards could not be suspended."),
    };
    let page = list_page(&acting, &query, &alert).await?;
    Ok(with_status(page, StatusCode::BAD_REQUEST))
}

#[derive(Template)]
#[template(path = "cards/close.html")]
struct CloseContent {
    csrf: String,
    face: CardFace,
    held: String,
    alert: &'static str,
}

/// GET /cards/{id}/close.
pub(super) async fn ask_to_close(
    CardManager(acting): CardManager,
    PathId(id): PathId,
) -> Result<Response, ApiError> {
    close_page(&acting, CardId(id), "").await
}

async fn close_page(
    acting: &ActingMember,
    id: CardId,
    alert: &'static str,
) -> Result<Response, ApiError> {
    let card = get_card(acting, id).await?;
    let (company, held) = (&acting.company, card.held);
    let content = CloseContent {
        csrf: acting.csrf(),
        face: CardFace::new(&card, company, acting.state.now()),
        held: if held.is_positive() { money(held, company.currency) } else { String::new() },
        alert,
    };
    Ok(frame::page("Close the card", content))
}

/// POST /cards/{id}/close.
pub(super) async fn close(
    CardManager(acting): CardManager,
    PathId(id): PathId,
    SiteForm(form): SiteForm<ConfirmForm>,
) -> Result<Response, ApiError> {
    let card = get_card(&acting, CardId(id)).await?;
    if !form.is_confirmed {
        let alert = "Tick the box to confirm.";
        let page = close_page(&acting, CardId(id), alert).await?;
        return Ok(with_status(page, StatusCode::BAD_REQUEST));
    }
    let command = AdminCommand::Card(CardCommand::Terminate(acting.company.id, card.profile.id));
    acting.state.carry_out(command).await?;
    Ok(acting.go_on(&format!("/cards/{id}"), Notice::CARD_CLOSED))
}
