//! Asks for the memory that the commands behind the one at hand will touch.
//!
//! | commands ahead | what is asked for |
//! |---|---|
//! | 24 | the request itself |
//! | 16 | the lines of the indexes: card number, message, keys |
//! | 8 | the card's lines, found through the index |
//! | 4 | the account's line, found through the card |
//!
//! Only hints: what a command reads and what it gives is the same without them.

use super::memory::prefetch;
use super::state::ShardState;
use crate::command::Command;
use crate::command::network::{CardRef, NetworkCommand, NetworkRequest, PurchaseFacts};
use crate::domain::card::PanHash;
use crate::submission::Envelope;

const REQUEST_AHEAD: usize = 24;
const INDEX_AHEAD: usize = 16;
const CARD_AHEAD: usize = 8;
const ACCOUNT_AHEAD: usize = 4;

/// Called before the command at `position` is taken.
pub(super) fn look_ahead(state: &ShardState, batch: &[Envelope], position: usize) {
    // At the start of a batch nothing was asked for yet.
    if position == 0 {
        for at in 0..REQUEST_AHEAD {
            prefetch_request(batch, at);
        }
        (0..INDEX_AHEAD).for_each(|at| prefetch_lines(state, batch, at));
        (0..CARD_AHEAD).for_each(|at| prefetch_card(state, batch, at));
        (0..ACCOUNT_AHEAD).for_each(|at| prefetch_account(state, batch, at));
    }
    prefetch_request(batch, position + REQUEST_AHEAD);
    prefetch_lines(state, batch, position + INDEX_AHEAD);
    prefetch_card(state, batch, position + CARD_AHEAD);
    prefetch_account(state, batch, position + ACCOUNT_AHEAD);
}

fn request_at(batch: &[Envelope], position: usize) -> Option<&NetworkRequest> {
    match &batch.get(position)?.command.command {
        Command::Network(request) => Some(request),
        Command::Admin(_) | Command::Tick => None,
    }
}

fn facts_of(request: &NetworkRequest) -> Option<&PurchaseFacts> {
    match &request.command {
        NetworkCommand::Authorize(authorize) => Some(&authorize.facts),
        NetworkCommand::Advise(advise) => Some(&advise.facts),
        NetworkCommand::Refund(refund) => Some(&refund.facts),
        NetworkCommand::Present(present) => present.facts.as_ref(),
        NetworkCommand::Reverse(_) | NetworkCommand::InquireBalance(_) => None,
    }
}

fn pan_of(request: &NetworkRequest) -> Option<PanHash> {
    let card = match &request.command {
        NetworkCommand::Reverse(reverse) => reverse.card?,
        NetworkCommand::InquireBalance(inquiry) => inquiry.card,
        _ => facts_of(request)?.card,
    };
    match card {
        CardRef::Pan(hash, _) => Some(hash),
        CardRef::Id(_) => None,
    }
}

/// The lines of a request that another thread wrote.
fn prefetch_request(batch: &[Envelope], position: usize) {
    if let Some(request) = request_at(batch, position) {
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
}

fn prefetch_lines(state: &ShardState, batch: &[Envelope], position: usize) {
    let Some(request) = request_at(batch, position) else { return };
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

fn prefetch_card(state: &ShardState, batch: &[Envelope], position: usize) {
    if let Some(pan) = request_at(batch, position).and_then(pan_of)
        && let Some(slot) = state.cards.prefetch_record(pan)
    {
        state.cards.prefetch_head(slot);
    }
}

fn prefetch_account(state: &ShardState, batch: &[Envelope], position: usize) {
    if let Some(pan) = request_at(batch, position).and_then(pan_of)
        && let Some(slot) = state.cards.find_by_pan(pan)
        && let Some(account) = state.accounts.get(state.card(slot).account.index())
    {
        prefetch(account);
    }
}
