//! Several cards made by one command: all of them, in one record, or none.
//!
//! INVARIANT: the record stays below `limits::RECORD_BYTES_MAX`, whatever the cards' texts are.

use std::collections::{HashMap, HashSet};

use super::execute_admin::issued_card;
use super::state::ShardState;
use crate::command::admin::NewCard;
use crate::command::effect::{Effect, IssuedCard};
use crate::command::reply::Rejection;
use crate::domain::company::Address;
use crate::domain::ids::{CardSlot, MemberSlot, Slot as _};
use crate::limits;
use crate::shard::AdminChange;

/// What a card takes in a record besides its texts and its sealed number, at most. Units: bytes.
const CARD_BYTES: usize = 1_024;

const _: () = assert!(limits::CARDS_AT_ONCE_MAX * CARD_BYTES < limits::CARDS_AT_ONCE_BYTES_MAX / 2);

/// Makes cards at consecutive slots. Errors: one of them cannot be made, or they are too many.
pub(super) fn issue_cards(
    change: &mut AdminChange<'_>,
    cards: &[NewCard],
) -> Result<(), Rejection> {
    if cards.len() > limits::CARDS_AT_ONCE_MAX {
        return Err(Rejection::CardsTooLong);
    }
    check_distinct(cards)?;
    let mut bytes = 0;
    for (place, new) in cards.iter().enumerate() {
        let slot = CardSlot::next_after(change.state.cards.len() + place).ok_or(Rejection::Full)?;
        let card = issued_card(change.state, change.moment, new, slot)?;
        bytes += bytes_of(&card);
        change.effects.push(Effect::CardIssued(Box::new(card)));
    }
    if bytes > limits::CARDS_AT_ONCE_BYTES_MAX {
        return Err(Rejection::CardsTooLong);
    }
    check_holders(change.state, change.effects)
}

/// Each member may hold so many cards, those of this command among them.
fn check_holders(state: &ShardState, effects: &[Effect]) -> Result<(), Rejection> {
    let mut added: HashMap<MemberSlot, usize> = HashMap::new();
    for effect in effects {
        if let Effect::CardIssued(card) = effect
            && let Some(member) = card.profile.assigned_to
        {
            *added.entry(member).or_default() += 1;
        }
    }
    let is_full = |(member, added): (MemberSlot, usize)| {
        state.cards.held_by(member).count() + added > limits::MEMBER_CARDS_MAX
    };
    if added.into_iter().any(is_full) { Err(Rejection::TooManyCards) } else { Ok(()) }
}

/// The cards of one command do not know each other from the state yet.
fn check_distinct(cards: &[NewCard]) -> Result<(), Rejection> {
    let (mut ids, mut numbers) = (HashSet::new(), HashSet::new());
    for new in cards {
        if !ids.insert(new.id.0) || !ids.insert(new.allowance_id.0) {
            return Err(Rejection::IdTaken);
        }
        if !numbers.insert(new.pan_hash) {
            return Err(Rejection::CardNumberTaken);
        }
    }
    Ok(())
}

/// What a card takes in a record, or more.
fn bytes_of(card: &IssuedCard) -> usize {
    let profile = &card.profile;
    let addresses = profile.billing_address.iter().chain(&profile.shipping_address);
    CARD_BYTES
        + card.sealed_pan.0.len()
        + profile.description.len()
        + profile.billing_name.len()
        + addresses.map(address_bytes).sum::<usize>()
}

fn address_bytes(address: &Address) -> usize {
    let Address { attn, address_1, address_2, city, state, zip_code, country } = address;
    [attn, address_1, address_2, city, state, zip_code, country].map(|text| text.len()).iter().sum()
}
