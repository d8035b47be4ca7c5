//! Generations of the key of card numbers, and numbers sealed anew. The shard holds neither keys
//! nor numbers: it ensures that generations only rise, and that no card ends up under a forgotten
//! one.
//!
//! INVARIANT: a number is sealed anew only under the newest generation, so commands that come late
//! or twice never put an older one back.

use super::change::{PartitionView, StateChange};
use crate::command::audit_line::{AuditLine, AuditTarget, AuditedPlace};
use crate::command::effect::Effect;
use crate::command::reply::Rejection;
use crate::command::resource::commands;
use crate::domain::card::SealedPan;
use crate::domain::ids::CardId;
use crate::domain::pan_key::{PanGeneration, PanGenerations};
use crate::limits;

const _: () = assert!(
    limits::RESEALED_CARDS_MAX * (limits::SEALED_PAN_BYTES_MAX + 32) < limits::RECORD_BYTES_MAX
);

commands! {
    /// The commands on the key of card numbers.
    #[derive(Clone, Debug)]
    pub enum PanKeyCommand(change) {
        /// Announces a new generation.
        Rotate(newest: PanGeneration) =>
            AuditLine::new(AuditedPlace::Switch, "pan_key.rotated", AuditTarget::Unnamed),
            rotate(change, *newest);
        /// Seals card numbers under the newest generation; numbers that are absent, or sealed so
        /// already, stay. The audit leaves this out.
        Reseal(cards: Vec<ResealedCard>) =>
            AuditLine::silent("pan_key.used"),
            reseal(change, cards);
        /// Forgets all generations before the newest; the edge has seen that no card needs them.
        Forget(newest: PanGeneration) =>
            AuditLine::new(AuditedPlace::Switch, "pan_key.forgotten", AuditTarget::Unnamed),
            forget(change, *newest);
    }
}

/// A card with its number sealed anew.
#[derive(Clone, Debug)]
pub struct ResealedCard {
    /// The card.
    pub card: CardId,
    /// The same number under another key.
    pub sealed_pan: SealedPan,
}

/// Announces a new generation; a repetition of the newest changes nothing.
/// Errors: there is a newer one.
fn rotate(change: &mut StateChange<'_>, newest: PanGeneration) -> Result<(), Rejection> {
    let known = change.state.pan_generations();
    if newest < known.newest {
        return Err(Rejection::PanKeyOutdated);
    }
    if newest > known.newest {
        change.push(Effect::PanGenerations(PanGenerations { newest, ..known }));
    }
    Ok(())
}

/// Forgets all generations before the newest.
/// Errors: the given generation is not the newest.
fn forget(change: &mut StateChange<'_>, newest: PanGeneration) -> Result<(), Rejection> {
    let known = change.state.pan_generations();
    if newest != known.newest {
        return Err(Rejection::PanKeyUnknown);
    }
    if known.oldest < newest {
        change.push(Effect::PanGenerations(PanGenerations { oldest: newest, newest }));
    }
    Ok(())
}

/// Seals numbers anew. Unknown cards are passed over: a restored directory may know fewer.
/// Errors: one is not under the newest generation, or they are more than one record takes.
fn reseal(change: &mut StateChange<'_>, cards: &[ResealedCard]) -> Result<(), Rejection> {
    let is_long = |card: &ResealedCard| card.sealed_pan.0.len() > limits::SEALED_PAN_BYTES_MAX;
    if cards.len() > limits::RESEALED_CARDS_MAX || cards.iter().any(is_long) {
        return Err(Rejection::TooMuchAtOnce);
    }
    let newest = change.state.pan_generations().newest;
    if cards.iter().any(|card| card.sealed_pan.generation() != newest) {
        return Err(Rejection::PanKeyOutdated);
    }
    change.effects.extend(cards.iter().filter_map(|card| {
        let slot = change.state.find_card(card.card)?;
        Some(Effect::CardNumber(slot, card.sealed_pan.clone()))
    }));
    Ok(())
}

/// Checks the generation of a new card's number, which stays readable as long as that is kept.
/// Errors: the generation was forgotten while the card was on its way.
pub(super) fn check_sealed(state: &dyn PartitionView, sealed: &SealedPan) -> Result<(), Rejection> {
    if state.pan_generations().admits(sealed.generation()) {
        Ok(())
    } else {
        Err(Rejection::PanKeyOutdated)
    }
}
