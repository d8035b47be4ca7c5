//! Making a card. GET and POST /cards/new.

use askama::Template;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_engine::domain::ids::CardId;
use cardswitch_v1::routes::cards;

use super::card_fields::CardFields;
use super::card_form::{CardForm, holder_id};
use crate::dimension_choices::find_meant;
use crate::faults::{Faults, with_status};
use crate::forms::{FormBody, SiteForm};
use crate::frame;
use crate::notice::Notice;
use crate::rights::{ActingMember, CardManager};

#[derive(Template)]
#[template(path = "cards/new.html")]
struct NewCardContent<'a> {
    csrf: String,
    company: &'a str,
    form: CardForm,
}

/// GET /cards/new.
pub(super) async fn ask_for_card(CardManager(acting): CardManager) -> Result<Response, ApiError> {
    let typed = [("interval", "monthly")].into_iter().collect();
    let fields = CardFields { typed, scope: Vec::new() };
    new_card_page(&acting, fields, Faults::default()).await
}

async fn new_card_page(
    acting: &ActingMember,
    fields: CardFields,
    faults: Faults,
) -> Result<Response, ApiError> {
    let status = faults.status;
    let form = acting.read(|view| CardForm::new(fields, faults, view)).await?;
    let csrf = acting.csrf();
    let content = NewCardContent { csrf, company: &acting.company.name, form };
    Ok(with_status(frame::page("New card", content), status))
}

/// POST /cards/new.
pub(super) async fn make_card(
    CardManager(acting): CardManager,
    SiteForm(fields): SiteForm<CardFields>,
) -> Result<Response, ApiError> {
    match make(&acting, &fields).await {
        Ok(CardId(id)) => Ok(acting.go_on(&format!("/cards/{id}"), Notice::CARD_MADE)),
        Err(error) => new_card_page(&acting, fields, Faults::of_refusal(error)?).await,
    }
}

async fn make(acting: &ActingMember, fields: &CardFields) -> Result<CardId, ApiError> {
    let holder = acting.read(|view| holder_id(fields.typed.of("holder"), None, view)).await?;
    let mut body = fields.new_card(holder, &acting.company);
    find_meant(acting, &mut body).await?;
    cards::make_card(acting.into(), FormBody::of(body).fields()?).await
}
