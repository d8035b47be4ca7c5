//! Cards on the site: their list, one with its purchases, and the actions of administrators.
//! Members and reviewers see their own; another's card is answered as if it did not exist.
//!
//! | file | what |
//! |---|---|
//! | `list` | GET /cards |
//! | `card_page` | GET /cards/{id} |
//! | `face` | a card as pages show it |
//! | `purchases` | transactions with the decision on each in words |
//! | `card_fields`, `card_form` | the fields typed of a card and its allowance, and their form |
//! | `new_card`, `edit`, `allowance` | making a card, changing it, its budget and its limits |
//! | `allowance_proposal` | the least change of limits for a purchase that was declined |
//! | `state` | suspending, activating and closing it |
//! | `number`, `secret` | number, expiry and CVV, after the password; guests see them, too |
//! | `links` | sharing it |

mod allowance;
mod allowance_proposal;
mod card_fields;
mod card_form;
mod card_page;
mod edit;
pub(super) mod face;
mod links;
pub(super) mod list;
mod new_card;
mod number;
pub(super) mod purchases;
pub(super) mod secret;
mod state;

use axum::Router;
use axum::routing::{get, post};
use cardswitch_edge::error::ApiError;
use cardswitch_engine::domain::ids::CardId;
use cardswitch_engine::store::query::CardRow;
use cardswitch_identity::state::AppState;

use super::rights::ActingMember;

pub(super) fn card_routes() -> Router<AppState> {
    Router::new()
        .route("/cards", get(list::list_cards))
        .route("/cards/suspend", post(state::suspend_several))
        .route("/cards/new", get(new_card::ask_for_card).post(new_card::make_card))
        .route("/cards/{id}", get(card_page::show_card))
        .route("/cards/{id}/edit", get(edit::show).post(edit::save))
        .route("/cards/{id}/allowance", get(allowance::show).post(allowance::save))
        .route("/cards/{id}/state", post(state::change))
        .route("/cards/{id}/close", get(state::ask_to_close).post(state::close))
        .route("/cards/{id}/number", get(number::ask).post(number::show))
        .route("/cards/{id}/links/new", get(links::ask_for_link).post(links::make_link))
        .route("/cards/{id}/links/{link}/delete", post(links::delete_link))
}

/// A card that the visitor may see.
/// Errors: there is none with this id, or it is another's.
async fn get_card(acting: &ActingMember, id: CardId) -> Result<CardRow, ApiError> {
    let card = acting.read(|view| view.find_card(id)).await?;
    let card = card.ok_or_else(ApiError::not_found)?;
    acting.check_owner(card.profile.assigned_to)?;
    Ok(card)
}
