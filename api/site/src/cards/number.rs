//! The number of a virtual card, with expiry and CVV: for its holder and for administrators, after
//! their password. GET and POST /cards/{id}/number.
//!
//! The answer to the form is the page itself: the number is in no address, and the page is not to be
//! kept. Each look is in the audit log before it is answered.

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::PathId;
use cardswitch_edge::write_error::WriteError;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::Rejection;
use cardswitch_engine::directory::card::{CardCommand, NumberViewer};
use cardswitch_engine::domain::ids::CardId;
use cardswitch_engine::store::query::CardRow;
use cardswitch_v1::routes::card_secrets::is_closed;
use serde::Deserialize;

use super::card_page::may_see_number;
use super::face::{CardFace, is_open};
use super::get_card;
use super::secret::CardSecret;
use crate::assets::COPY;
use crate::device::Client;
use crate::error_page::error_page;
use crate::faults::with_status;
use crate::forms::{SiteForm, refusal_where_changed};
use crate::frame;
use crate::password::{WRONG_PASSWORD, is_password_of};
use crate::rights::ActingMember;

const CARD_CLOSED: &str = "The card is closed.";
const COMPANY_CLOSED: &str = "The company is closed.";
const NOT_YOURS: &str = "Its holder and administrators see the number of a card.";

#[derive(Template)]
#[template(path = "cards/number_ask.html")]
struct CardPasswordContent {
    csrf: String,
    email: String,
    face: CardFace,
    error: &'static str,
}

#[derive(Template)]
#[template(path = "cards/number.html")]
struct NumberContent {
    face: CardFace,
    secret: CardSecret,
}

/// The form of `POST /cards/{id}/number`.
#[derive(Deserialize)]
pub(super) struct NumberForm {
    password: String,
}

/// GET /cards/{id}/number.
pub(super) async fn ask(acting: ActingMember, PathId(id): PathId) -> Result<Response, ApiError> {
    let card = get_card(&acting, CardId(id)).await?;
    Ok(refusal(&acting, &card).unwrap_or_else(|| ask_page(&acting, &card, "")))
}

fn ask_page(acting: &ActingMember, card: &CardRow, error: &'static str) -> Response {
    let content = CardPasswordContent {
        csrf: acting.csrf(),
        email: acting.session.user.email.clone(),
        face: CardFace::new(card, &acting.company, acting.state.now()),
        error,
    };
    frame::page("Show card details", content)
}

/// The page for a visitor who may not see the number.
fn refusal(acting: &ActingMember, card: &CardRow) -> Option<Response> {
    if may_see_number(acting, card) {
        return None;
    }
    Some(if !is_open(card) {
        not_shown(StatusCode::CONFLICT, CARD_CLOSED)
    } else if is_closed(&acting.company) {
        not_shown(StatusCode::CONFLICT, COMPANY_CLOSED)
    } else if card.profile.is_virtual {
        not_shown(StatusCode::FORBIDDEN, NOT_YOURS)
    } else {
        not_shown(StatusCode::CONFLICT, "The number of a physical card is on the card alone.")
    })
}

fn not_shown(status: StatusCode, text: &str) -> Response {
    error_page(status, "This number is not shown", text)
}

/// POST /cards/{id}/number.
pub(super) async fn show(
    client: Client,
    acting: ActingMember,
    PathId(id): PathId,
    SiteForm(form): SiteForm<NumberForm>,
) -> Result<Response, ApiError> {
    let card = get_card(&acting, CardId(id)).await?;
    if let Some(refusal) = refusal(&acting, &card) {
        return Ok(refusal);
    }
    if !is_password_of(&acting.state, &acting.session.user, &client, &form.password).await? {
        let page = ask_page(&acting, &card, WRONG_PASSWORD);
        return Ok(with_status(page, StatusCode::BAD_REQUEST));
    }
    if let Some(refusal) = refusal_where_changed(&acting.session, &acting.state) {
        return Ok(refusal);
    }
    let acting = acting.without_claim();
    // INVARIANT: nothing of the number is opened before the shard has found that it may be shown.
    let viewer = NumberViewer::Member(acting.member.id);
    let noted = CardCommand::NoteNumberShown(acting.company.id, card.profile.id, viewer);
    match acting.state.carry_out_unshown(AdminCommand::Card(noted)).await {
        Err(WriteError::Rejected(Rejection::CardTerminated)) => {
            return Ok(not_shown(StatusCode::CONFLICT, CARD_CLOSED));
        }
        Err(WriteError::Rejected(Rejection::CompanyClosed)) => {
            return Ok(not_shown(StatusCode::CONFLICT, COMPANY_CLOSED));
        }
        Err(WriteError::Rejected(Rejection::MemberNotFound)) => {
            return Ok(not_shown(StatusCode::FORBIDDEN, NOT_YOURS));
        }
        outcome => outcome?,
    }
    let content = NumberContent {
        face: CardFace::new(&card, &acting.company, acting.state.now()),
        secret: CardSecret::open(&acting.state, &card, &acting.company)?,
    };
    Ok(frame::page_with_scripts("Card number", &[&*COPY], content))
}
