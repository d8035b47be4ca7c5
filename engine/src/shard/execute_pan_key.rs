//! Generations of the key of card numbers, and numbers sealed anew. The shard holds neither keys nor
//! numbers: it sees to it that generations only rise, and that no card ends up under one that is gone.
//!
//! INVARIANT: a number is sealed anew only under the newest generation, so commands that come late or
//! twice never put an older one back.

use super::state::ShardState;
use crate::command::admin::{AdminCommand, ResealedCard};
use crate::command::effect::Effect;
use crate::command::reply::Rejection;
use crate::domain::card::SealedPan;
use crate::domain::pan_key::{PanGeneration, PanGenerations};
use crate::limits;

const _: () = assert!(
    limits::RESEALED_CARDS_MAX * (limits::SEALED_PAN_BYTES_MAX + 32) < limits::RECORD_BYTES_MAX
);

pub(super) fn execute_pan_key(
    state: &ShardState,
    command: &AdminCommand,
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    match command {
        AdminCommand::RotatePanKey(newest) => rotate_pan_key(state, *newest, effects),
        AdminCommand::ResealCards(cards) => reseal_cards(state, cards, effects),
        AdminCommand::ForgetPanKeys(newest) => forget_pan_keys(state, *newest, effects),
        _ => unreachable!("no command about the key of card numbers"),
    }
}

/// Tells of a new generation; of the newest again: nothing changes.
/// Errors: there is a newer one.
fn rotate_pan_key(
    state: &ShardState,
    newest: PanGeneration,
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let known = state.pan_generations;
    if newest < known.newest {
        return Err(Rejection::PanKeyOutdated);
    }
    if newest > known.newest {
        effects.push(Effect::PanGenerations(PanGenerations { newest, ..known }));
    }
    Ok(())
}

/// Lets go of all generations before the newest.
/// Errors: it is not the newest.
fn forget_pan_keys(
    state: &ShardState,
    newest: PanGeneration,
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let known = state.pan_generations;
    if newest != known.newest {
        return Err(Rejection::PanKeyUnknown);
    }
    if known.oldest < newest {
        effects.push(Effect::PanGenerations(PanGenerations { oldest: newest, newest }));
    }
    Ok(())
}

/// Seals numbers anew. A card that is not there is passed over: a restored directory may know fewer.
/// Errors: one is not under the newest generation, or they are more than one record takes.
fn reseal_cards(
    state: &ShardState,
    cards: &[ResealedCard],
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let is_long = |card: &ResealedCard| card.sealed_pan.0.len() > limits::SEALED_PAN_BYTES_MAX;
    if cards.len() > limits::RESEALED_CARDS_MAX || cards.iter().any(is_long) {
        return Err(Rejection::TooMuchAtOnce);
    }
    let newest = state.pan_generations.newest;
    if cards.iter().any(|card| card.sealed_pan.generation() != newest) {
        return Err(Rejection::PanKeyOutdated);
    }
    effects.extend(cards.iter().filter_map(|card| {
        let slot = state.cards.find_by_id(card.card)?;
        Some(Effect::CardNumber(slot, card.sealed_pan.clone()))
    }));
    Ok(())
}

/// A new card's number stays readable for as long as its generation is kept.
/// Errors: that was forgotten while the card was on its way.
pub(super) fn check_sealed(state: &ShardState, sealed: &SealedPan) -> Result<(), Rejection> {
    if state.pan_generations.admits(sealed.generation()) {
        Ok(())
    } else {
        Err(Rejection::PanKeyOutdated)
    }
}
