//! The changeable texts and tags of a card. GET and POST /cards/{id}/edit.

use askama::Template;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::PathId;
use cardswitch_engine::command::seen_object::WatchedObject;
use cardswitch_engine::domain::ids::CardId;
use cardswitch_engine::store::query::CardRow;
use cardswitch_v1::routes::cards::change_card;

use super::card_fields::CardFields;
use super::card_form::{CardForm, holder_id};
use super::face::CardFace;
use super::get_card;
use crate::dimension_choices::find_meant;
use crate::faults::{Faults, with_status};
use crate::form_snapshot::change_as_seen;
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
    edit_page(&acting, &card, (None, Faults::default())).await
}

/// The form, with the values `typed`, else the stored ones.
async fn edit_page(
    acting: &ActingMember,
    card: &CardRow,
    (typed, faults): (Option<CardFields>, Faults),
) -> Result<Response, ApiError> {
    let (csrf, status) = (acting.csrf(), faults.status);
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
    let find = || async {
        let card = get_card(&acting, CardId(id)).await?;
        let known = acting.read(|view| CardFields::of_card(&card, view)).await?;
        Ok((WatchedObject::Card(card.profile.slot), (card, known)))
    };
    let check =
        |(_, known): &(CardRow, CardFields)| known.seen_profile().check(typed.typed.of("seen"));
    let saved = change_as_seen(&acting, find, check, async |state, (card, known)| {
        let id = card.profile.id;
        let holder = acting.read(|view| holder_id(typed.typed.of("holder"), Some(id), view));
        let mut body = typed.changed_profile(&known, holder.await?);
        find_meant(&acting, &mut body).await?;
        change_card(acting.reader(&state), id, FormBody::of(body).fields()?).await?;
        Ok(acting.go_on(&format!("/cards/{}", id.0), Notice::CARD_SAVED))
    });
    match saved.await? {
        Ok(saved) => Ok(saved),
        Err(((card, _), why)) => {
            edit_page(&acting, &card, why.shown(typed, Faults::of_refusal)?).await
        }
    }
}
