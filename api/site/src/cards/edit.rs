//! The changeable texts and tags of a card. GET and POST /cards/{id}/edit.

use askama::Template;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::PathId;
use cardswitch_engine::command::seen_object::WatchedObject;
use cardswitch_engine::domain::ids::CardId;
use cardswitch_engine::store::query::CardRow;
use cardswitch_v1::routes::cards::change_card;
use cardswitch_v1::routes::view::View;

use super::card_fields::CardFields;
use super::card_form::{CardForm, holder_id};
use super::face::CardFace;
use super::get_card;
use crate::dimension_choices::find_meant;
use crate::faults::{Faults, with_status};
use crate::forms::{FormBody, SiteForm};
use crate::frame;
use crate::notice::Notice;
use crate::rights::{ActingMember, CardManager};

#[derive(Template)]
#[template(path = "cards/edit.html")]
struct EditContent {
    csrf: String,
    seen: String,
    face: CardFace,
    form: CardForm,
}

/// GET /cards/{id}/edit.
pub(super) async fn show(
    CardManager(acting): CardManager,
    PathId(id): PathId,
) -> Result<Response, ApiError> {
    let card = get_card(&acting, CardId(id)).await?;
    edit_page(&acting, &card, None, Faults::default()).await
}

/// The form, with the values `typed`, else the stored ones.
async fn edit_page(
    acting: &ActingMember,
    card: &CardRow,
    typed: Option<CardFields>,
    faults: Faults,
) -> Result<Response, ApiError> {
    let (csrf, status) = (acting.csrf(), faults.status());
    let content = acting.read(|view| {
        let known = CardFields::of_card(card, view)?;
        let seen = known.seen_profile().to_string();
        let form = CardForm::new(typed.unwrap_or(known), faults, view)?;
        Ok(EditContent { csrf, seen, face: CardFace::new(card, view.company, view.now), form })
    });
    let page = frame::page("Edit the card", content.await?);
    Ok(with_status(page, status))
}

/// POST /cards/{id}/edit.
pub(super) async fn save(
    CardManager(acting): CardManager,
    PathId(id): PathId,
    SiteForm(typed): SiteForm<CardFields>,
) -> Result<Response, ApiError> {
    let since = acting.shown_seq().await;
    let card = get_card(&acting, CardId(id)).await?;
    let read = |view: &View<'_>| {
        let holder = holder_id(typed.typed.of("holder"), Some(card.profile.id), view)?;
        Ok((CardFields::of_card(&card, view)?, holder))
    };
    let (known, holder) = acting.read(read).await?;
    if let Err(faults) = known.seen_profile().check(typed.typed.of("seen")) {
        return edit_page(&acting, &card, None, faults).await;
    }
    let acting = acting.if_unchanged(WatchedObject::Card(card.profile.slot), since);
    let mut body = typed.changed_profile(&known, holder);
    find_meant(&acting, &mut body).await?;
    let body = FormBody::of(body);
    match change_card((&acting).into(), card.profile.id, body.fields()?).await {
        Ok(()) => Ok(acting.go_on(&format!("/cards/{id}"), Notice::CARD_SAVED)),
        Err(error) => {
            let faults = Faults::of_refusal(error)?;
            edit_page(&acting, &card, Some(typed), faults).await
        }
    }
}
