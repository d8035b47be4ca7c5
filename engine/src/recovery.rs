//! Rebuilds the hot state: the tables' rows as of their checkpoint, then the journal after it.
//!
//! An engine that starts takes in what decisions need and the newest of the past (`Recent`); the
//! rest is read when it is asked for (`loader`). A proof takes in everything (`Whole`).
//!
//! INVARIANT: recovery is only `apply`: no command is executed again.

use std::panic::resume_unwind;

use crate::command::effect::Effect;
use crate::command::record::records;
use crate::domain::ids::Timestamp;
use crate::engine::OpenError;
use crate::journal::{
    BatchNumber, ChainPosition, JournalError, JournalFollower, JournalReader, RedbJournal,
};
use crate::limits;
use crate::shard::{CacheLimits, ShardState};
use crate::store::{AnswerPlace, Checkpoint, RestoreScope, Restored, Store, StoreError};

/// Rebuilds the state of an engine that starts: the tables' rows, then the journal after `position`,
/// their checkpoint.
pub(crate) fn recover(
    store: &Store,
    caches: CacheLimits,
    position: ChainPosition,
    open_journal: impl FnOnce() -> Result<RedbJournal, JournalError>,
) -> Result<(RedbJournal, ShardState), OpenError> {
    // The tables are read while the journal is proven; neither looks at the other.
    let (journal, restored) = std::thread::scope(|scope| {
        let restored = scope.spawn(|| restore_recent(store, caches));
        (open_journal(), restored.join())
    });
    let journal = journal?;
    let mut state = restored.unwrap_or_else(|panic| resume_unwind(panic))?;
    journal.visit_recovered(position, |header, payload| {
        replay_batch(&mut state, header.number, payload).map(drop)
    })?;
    state.go_live();
    Ok((journal, state))
}

/// Rebuilds what an engine keeps in memory, as of the tables' checkpoint.
fn restore_recent(store: &Store, caches: CacheLimits) -> Result<ShardState, StoreError> {
    let mut state = ShardState::with_limits(caches);
    state.reserve_cards(store.read()?.card_count()?);
    let transactions = caches.recent_transactions.min(limits::RESTORED_TRANSACTIONS_MAX) as u64;
    let scope = RestoreScope::Recent { transactions };
    let checkpoint = store.restore(scope, &mut |restored| match restored {
        Restored::Effect(effect) => state.apply(&effect),
        Restored::Answer { place: AnswerPlace::Transaction(seq), answer } => {
            state.restore_transaction_answer(seq, &answer);
        }
        Restored::Answer { place: AnswerPlace::Record(at), answer } => {
            state.restore_answer(at, *answer);
        }
    })?;
    resume(&mut state, &checkpoint);
    let since = checkpoint.applied_at.plus(-Timestamp::DAY);
    store.message_keys_since(since, |key, place| state.restore_message_key(key, place))?;
    Ok(state)
}

/// Rebuilds the whole state as of the tables' checkpoint.
pub(crate) fn restore_whole(store: &Store) -> Result<(ShardState, Checkpoint), StoreError> {
    let mut state = ShardState::default();
    state.reserve_cards(store.read()?.card_count()?);
    let checkpoint = store.restore(RestoreScope::Whole, &mut |restored| match restored {
        Restored::Effect(effect) => state.apply(&effect),
        Restored::Answer { answer, .. } => state.apply(&Effect::Answer(answer)),
    })?;
    resume(&mut state, &checkpoint);
    Ok((state, checkpoint))
}

fn resume(state: &mut ShardState, checkpoint: &Checkpoint) {
    state.resume_from(
        checkpoint.applied_seq,
        checkpoint.applied_at,
        checkpoint.last_transaction,
        checkpoint.last_line,
    );
}

/// Folds what the journal still holds into the state; returns how many records that were.
pub(crate) fn replay<J: JournalReader>(
    state: &mut ShardState,
    mut follower: JournalFollower<J>,
) -> Result<u64, OpenError> {
    let mut replayed = 0;
    loop {
        let batches = follower.read_next(limits::PROJECTION_BYTES_MAX)?;
        if batches.is_empty() {
            return Ok(replayed);
        }
        for batch in batches {
            replayed += replay_batch(state, batch.header.number, batch.payload())?;
        }
    }
}

fn replay_batch(
    state: &mut ShardState,
    number: BatchNumber,
    payload: &[u8],
) -> Result<u64, OpenError> {
    let mut replayed = 0;
    for record in records(payload) {
        let record = record.map_err(|source| OpenError::Record { batch: number.0, source })?;
        state.apply_record(record.seq, record.at, &record.effects);
        replayed += 1;
    }
    Ok(replayed)
}
