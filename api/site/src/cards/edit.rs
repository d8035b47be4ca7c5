//! Changing what is known of a card. GET and POST /cards/{id}/edit.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::PathId;
use cardswitch_engine::domain::ids::CardId;
use cardswitch_engine::store::query::CardRow;
use cardswitch_identity::state::AppState;
use cardswitch_v1::routes::cards::change_card;
use cardswitch_v1::routes::view::{View, read_view};
use cardswitch_wire::fields::Fields;

use super::card_fields::CardFields;
use super::card_form::{CardForm, holder_id};
use super::face::Face;
use super::get_card;
use crate::dimension_choices::find_meant;
use crate::faults::{Faults, with_status};
use crate::forms::SiteForm;
use crate::frame;
use crate::notice::{Notice, go_on};
use crate::rights::{Acting, CardManager};
use crate::seen::changed_meanwhile;

#[derive(Template)]
#[template(path = "cards/edit.html")]
struct EditContent {
    csrf: String,
    seen: String,
    face: Face,
    form: CardForm,
}

/// GET /cards/{id}/edit.
pub(super) async fn show(
    State(state): State<AppState>,
    CardManager(acting): CardManager,
    PathId(id): PathId,
) -> Result<Response, ApiError> {
    let card = get_card(&state, &acting, CardId(id)).await?;
    edit_page(&state, &acting, &card, None, Faults::default()).await
}

/// The form, with what was `typed` or else what is known.
async fn edit_page(
    state: &AppState,
    acting: &Acting,
    card: &CardRow,
    typed: Option<CardFields>,
    faults: Faults,
) -> Result<Response, ApiError> {
    let csrf = acting.session.csrf(state);
    let content = read_view(state, acting, |view| {
        let known = CardFields::of_card(card, view)?;
        let seen = known.seen_profile().to_string();
        let form = CardForm::new(typed.unwrap_or(known), faults, view)?;
        Ok(EditContent { csrf, seen, face: Face::new(card, view.company, view.now), form })
    });
    Ok(frame::page(state, "Edit the card", Some(&acting.session), content.await?))
}

/// POST /cards/{id}/edit.
pub(super) async fn save(
    State(state): State<AppState>,
    CardManager(acting): CardManager,
    PathId(id): PathId,
    SiteForm(typed): SiteForm<CardFields>,
) -> Result<Response, ApiError> {
    let card = get_card(&state, &acting, CardId(id)).await?;
    let read = |view: &View<'_>| {
        let holder = holder_id(&typed.holder, Some(card.profile.id), view)?;
        Ok((CardFields::of_card(&card, view)?, holder))
    };
    let (known, holder) = read_view(&state, &acting, read).await?;
    let changed = known.seen_profile().changed_since(&typed.seen);
    if !changed.is_empty() {
        let faults = Faults::alert_only(changed_meanwhile(&changed));
        let page = edit_page(&state, &acting, &card, None, faults).await?;
        return Ok(with_status(page, StatusCode::CONFLICT));
    }
    let mut body = typed.changed_profile(&known, holder);
    find_meant(&state, &acting, &mut body).await?;
    let json = serde_json::to_vec(&body).map_err(|error| ApiError::internal(&error))?;
    let fields = Fields::parse(&json).ok_or_else(ApiError::malformed_body)?;
    match change_card(&state, (&acting).into(), card.profile.id, fields).await {
        Ok(()) => Ok(go_on(&state, &format!("/cards/{id}"), Notice::CARD_SAVED)),
        Err(error) => {
            let status = error.status();
            let faults = Faults::of_refusal(error)?;
            let page = edit_page(&state, &acting, &card, Some(typed), faults).await?;
            Ok(with_status(page, status))
        }
    }
}
