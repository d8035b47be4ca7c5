//! Changes under an idempotency key. Source: spec "Authentication", 9.
//!
//! A key is claimed in the record of its change and answered once: by a first record that says where
//! the answer is found, and a second one with the answer itself, which ends what may be said of it.

use super::execute_audit::audit;
use super::keyed_answers::KeyUse;
use super::shard_change::ShardChange;
use super::state::ShardState;
use crate::command::effect::Effect;
use crate::command::keyed_command::{KeyClaim, KeyedCommand};
use crate::command::reply::Rejection;
use crate::domain::ids::Timestamp;
use crate::domain::keyed_answer::{KeyedAnswer, LIFETIME, owner_of};
use crate::limits;

pub(super) fn execute_keyed(
    change: &mut ShardChange<'_>,
    command: &KeyedCommand,
) -> Result<(), Rejection> {
    let (state, at) = (change.state, change.moment.at);
    let KeyedCommand { claim, change: asked, note } = command;
    let known = state.keyed_answers.get(&claim.key);
    // The last record may be older than the end of what it still remembers.
    let known = known.filter(|known| known.expires_at > at);
    let made_at = match known {
        Some(known) if asked.is_some() || !is_open_for(known, claim) => {
            return Err(Rejection::KeyTaken);
        }
        Some(known) => known.expires_at.plus(-LIFETIME),
        None => {
            check_room(state, &claim.key, at)?;
            at
        }
    };
    if let Some(asked) = asked {
        asked.execute(&mut change.for_resources())?;
        if let Some(note) = note {
            audit(change, note, asked);
        }
    }
    change.push(keyed_answer(claim, made_at));
    Ok(())
}

/// Whether a key has been claimed by this very request and not been answered yet.
fn is_open_for(known: &KeyUse, claim: &KeyClaim) -> bool {
    !known.is_answered && known.request == claim.request
}

/// Errors: no more keys are kept, of this company or of all.
fn check_room(state: &ShardState, key: &[u8; 32], at: Timestamp) -> Result<(), Rejection> {
    let (keys, owner) = (&state.keyed_answers, owner_of(key));
    // Keys that ended since the last record go with the next one, which is the claim's.
    let ended_of_owner = keys.ended_by(at).filter(|key| owner_of(key) == owner).count();
    if keys.count_of(owner) - ended_of_owner >= limits::KEYS_PER_COMPANY_MAX {
        return Err(Rejection::TooManyKeys);
    }
    if keys.len() - keys.ended_by(at).count() >= limits::KEYS_MAX {
        return Err(Rejection::Full);
    }
    Ok(())
}

fn keyed_answer(claim: &KeyClaim, made_at: Timestamp) -> Effect {
    Effect::KeyedAnswer(Box::new(KeyedAnswer {
        key: claim.key,
        request: claim.request,
        made_at,
        expires_at: made_at.plus(LIFETIME),
        status: claim.status,
        content: claim.content.clone(),
    }))
}
