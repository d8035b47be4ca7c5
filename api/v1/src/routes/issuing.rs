//! Cards with numbers of their own: drawn until the shard finds that nobody has them.

use cardswitch_edge::error::ApiError;
use cardswitch_edge::write_error::WriteError;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::Rejection;
use cardswitch_engine::directory::card::NewCard;
use cardswitch_identity::actor_state::ActorState;
use cardswitch_identity::state::AppState;
use cardswitch_secrets::issuing::{DRAWS_MAX, Issuer, IssuingOrder};

/// Carries out the command that `draw` makes, with new numbers each time, until all of them are free.
/// Returns the value that `draw` gave beside it.
/// Errors: no number can be drawn; within: the change was not made.
pub(super) async fn issue<T>(
    state: &ActorState,
    draw: impl Fn() -> Result<(T, AdminCommand), ApiError>,
) -> Result<Result<T, WriteError>, ApiError> {
    for _ in 0..DRAWS_MAX {
        let (drawn, command) = draw()?;
        match state.carry_out(command).await {
            Err(WriteError::Rejected(Rejection::CardNumberTaken | Rejection::IdTaken)) => {}
            outcome => return Ok(outcome.map(|()| drawn)),
        }
    }
    Ok(Err(WriteError::Rejected(Rejection::CardNumberTaken)))
}

/// The card of an order, with a number that may be another's already.
/// Errors: no number can be drawn.
pub(super) fn draw_card(state: &AppState, order: &IssuingOrder) -> Result<NewCard, ApiError> {
    let issuer = Issuer { numbers: &state.config.card_numbers, secrets: &state.secrets };
    let drawn = issuer.draw_card(order, state.now(), &mut state.switch.random());
    Ok(drawn.map_err(|error| ApiError::internal(&error))?.card)
}
