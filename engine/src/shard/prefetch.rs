//! Asks for the memory that the next commands will touch, a group at a time, stage by stage:
//!
//! | stage | what is asked for |
//! |---|---|
//! | 1 | the request, which another thread wrote |
//! | 2 | the lines of the indexes: card number, message, keys |
//! | 3 | the card's lines, found through the index |
//! | 4 | the account's line, found through the card |
//!
//! Within a stage nothing waits for anything, so the memory serves many lines at a time; asking
//! a few commands ahead of each one took half as long again. Only hints: the inputs and results of
//! a command are the same without them.

use super::memory::prefetch;
use super::state::ShardState;
use crate::command::Command;
use crate::command::effect::Effect;
use crate::command::network::{CardRef, NetworkCommand, NetworkRequest, PurchaseFacts};
use crate::domain::card::PanHash;
use crate::domain::ids::CardSlot;

/// Commands of a group: the lines they touch together fit the cache next to the processor.
pub(super) const GROUP_LEN: usize = 16;

/// Called before each command of a batch is taken, where `command_at` gives the commands by their
/// place; asks for what it and those behind it need where a group begins.
pub fn look_ahead<'a>(
    state: &ShardState,
    command_at: impl Fn(usize) -> Option<&'a Command>,
    position: usize,
) {
    if !position.is_multiple_of(GROUP_LEN) {
        return;
    }
    let request_at = |position| match command_at(position)? {
        Command::Network(request) => Some(&**request),
        Command::Admin(_) | Command::Noted(_) | Command::Keyed(_) | Command::Tick => None,
    };
    let requests = || (position..position + GROUP_LEN).filter_map(&request_at);
    requests().for_each(prefetch_request);
    requests().for_each(|request| prefetch_lines(state, request));
    // The index nearly always leads to the right card: a hint needs no second look.
    let mut cards = [None; GROUP_LEN];
    for (card, request) in cards.iter_mut().zip(requests()) {
        *card = prefetch_card(state, request);
    }
    cards.into_iter().flatten().for_each(|card| prefetch_account(state, card));
}

/// Prefetches the rows that the next effects change, at a start: some dozens at a time.
pub(super) fn look_ahead_of<T>(state: &ShardState, effect: &Effect<T>) {
    match effect {
        Effect::CardUsage(slot, _) => state.cards.prefetch_slot(*slot),
        Effect::Answer(answer) => state.messages.prefetch(&answer.fingerprint),
        _ => {}
    }
}

fn facts_of(request: &NetworkRequest) -> Option<&PurchaseFacts> {
    match &request.command {
        NetworkCommand::Authorize(authorize) => Some(&authorize.facts),
        NetworkCommand::Advise(advise) => Some(&advise.facts),
        NetworkCommand::Refund(refund) => Some(&refund.facts),
        NetworkCommand::Present(present) => present.facts.as_ref(),
        NetworkCommand::Increment(_)
        | NetworkCommand::Reverse(_)
        | NetworkCommand::InquireBalance(_)
        | NetworkCommand::Transfer(_)
        | NetworkCommand::ConcludeTransfer(_) => None,
    }
}

fn pan_of(request: &NetworkRequest) -> Option<PanHash> {
    let card = match &request.command {
        NetworkCommand::Reverse(reverse) => reverse.card?,
        NetworkCommand::Increment(increment) => increment.card?,
        NetworkCommand::InquireBalance(inquiry) => inquiry.card,
        _ => facts_of(request)?.card,
    };
    match card {
        CardRef::Pan(hash, _) => Some(hash),
        CardRef::Id(_) => None,
    }
}

/// The lines of a request that another thread wrote.
fn prefetch_request(request: &NetworkRequest) {
    prefetch(request);
    prefetch(&request.fingerprint);
    if let NetworkCommand::Authorize(authorize) = &request.command {
        prefetch(&authorize.facts.card);
        prefetch(&authorize.facts.merchant);
        prefetch(&authorize.facts.merchant.zip);
        prefetch(&authorize.facts.trace);
        prefetch(&authorize.facts.trace.original_key);
        prefetch(&authorize.credentials);
    }
}

fn prefetch_lines(state: &ShardState, request: &NetworkRequest) {
    if let Some(pan) = pan_of(request) {
        state.cards.prefetch_pan(pan);
    }
    if let Some(fingerprint) = &request.fingerprint {
        state.messages.prefetch(fingerprint);
    }
    if let Some(facts) = facts_of(request) {
        state.transactions.prefetch_keys(facts.trace.original_key, facts.trace.retrieval_key);
    }
}

fn prefetch_card(state: &ShardState, request: &NetworkRequest) -> Option<CardSlot> {
    let slot = pan_of(request).and_then(|pan| state.cards.prefetch_record(pan))?;
    state.cards.prefetch_head(slot);
    Some(slot)
}

fn prefetch_account(state: &ShardState, card: CardSlot) {
    if let Some(account) = state.accounts.get(state.card(card).account.index()) {
        prefetch(account);
    }
}
