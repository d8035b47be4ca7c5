//! Rebuilds the hot state: the tables' rows as of their checkpoint, then the journal after it.
//!
//! A starting engine restores the rows that decisions need and the newest of the past (`Recent`);
//! the rest is read on demand (`loader`). A proof restores everything (`Whole`).
//!
//! INVARIANT: recovery is only `apply`: no command is executed again.

use std::panic::resume_unwind;
use std::sync::OnceLock;

use crossbeam_channel::bounded;

use crate::command::effect::Effect;
use crate::command::record::record_views;
use crate::domain::ids::Timestamp;
use crate::engine::OpenError;
use crate::journal::{
    BatchNumber, ChainPosition, JournalError, JournalFollower, JournalReader, LogJournal,
};
use crate::limits;
use crate::recovery_progress::RecoveryProgress;
use crate::shard::{CacheLimits, MessageKeys, ReplayedRecord, ShardState, TransactionRoom};
use crate::store::{
    AnswerPlace, Checkpoint, RestoreScope, RestoredPart, Store, StoreError, in_disorder,
};

/// The number of keys that are read from the tables and entered together.
const KEYS_TOGETHER: usize = 512;

/// Rebuilds the state of a starting engine: the tables' rows, then the journal after `position`,
/// their checkpoint.
pub(crate) fn recover(
    store: &Store,
    caches: CacheLimits,
    position: ChainPosition,
    open_journal: impl FnOnce() -> Result<LogJournal, JournalError>,
    progress: &RecoveryProgress,
) -> Result<(LogJournal, ShardState), OpenError> {
    // The tables are read while the journal is proven, independently of each other. A thread that is
    // done helps to make memory ready for the tail.
    let room: OnceLock<TransactionRoom> = OnceLock::new();
    let (opened, restored) = std::thread::scope(|scope| {
        let (made, is_made) = bounded::<()>(1);
        let room = &room;
        let restored = scope.spawn(move || {
            let restored = restore(store, caches)?;
            // The wait ends when the other thread is done with the journal; no room is made if that
            // failed.
            let _is_over = is_made.recv();
            if let Some(room) = room.get() {
                room.make_present();
            }
            Ok::<_, StoreError>(restored)
        });
        let opened = open_journal().inspect(|journal| {
            let needed = room_for_tail(journal, position, caches);
            let room = needed.map(|needed| room.get_or_init(|| needed));
            drop(made);
            if let Some(room) = room {
                room.make_present();
            }
        });
        (opened, restored.join())
    });
    let journal = opened?;
    let (mut state, keys) = restored.unwrap_or_else(|_| Err(in_disorder()))?;
    state.take_in_keys(keys);
    room.into_inner().into_iter().for_each(|room| state.move_into(room));
    replay_tail(&mut state, &journal, position, progress)?;
    progress.finish();
    Ok((journal, state))
}

/// Memory for the effects of the batches after `position`, if those are many: a tail as long as
/// checkpoints allow fills it. None if they fit the room that is there anyway.
fn room_for_tail(
    journal: &LogJournal,
    position: ChainPosition,
    caches: CacheLimits,
) -> Option<TransactionRoom> {
    let records = journal.recovered.last_seq.saturating_sub(position.last_seq);
    let records = records.min(limits::CHECKPOINT_RECORDS_MAX);
    let records = usize::try_from(records).unwrap_or(0);
    (records > caches.recent_transactions / 2)
        .then(|| TransactionRoom::for_records(records, restored_transactions(caches)))
}

fn restored_transactions(caches: CacheLimits) -> usize {
    caches.recent_transactions.min(limits::RESTORED_TRANSACTIONS_MAX)
}

/// Folds the batches after `position`, which the open has proven. This thread reads and decodes them,
/// another one applies the records.
fn replay_tail(
    state: &mut ShardState,
    journal: &LogJournal,
    position: ChainPosition,
    progress: &RecoveryProgress,
) -> Result<(), OpenError> {
    progress.begin_replay(journal.recovered.last_seq.saturating_sub(position.last_seq));
    let (decoded, batches) = bounded::<Vec<ReplayedRecord>>(limits::DECODED_BATCHES_MAX);
    // Applied vectors come back to be filled again: new memory is dear.
    let (spent, spare) = bounded::<Vec<ReplayedRecord>>(limits::DECODED_BATCHES_MAX);
    std::thread::scope(|scope| {
        let applying = scope.spawn(move || {
            // The loop drops `batches` at its end, even by a panic: the other thread waits for room
            // there.
            for mut records in batches {
                let count = records.len() as u64;
                state.replay(&mut records);
                progress.add_replayed(count);
                drop(spent.try_send(records));
            }
        });
        // This thread proved the journal before, so its pages can use the memory of those.
        let read = journal.visit_recovered(position, |header, payload| {
            let mut records = spare.try_recv().unwrap_or_default();
            decode_batch(header.number, payload, &mut records)?;
            // The receiver is gone only if applying has broken off.
            drop(decoded.send(records));
            Ok(())
        });
        drop(decoded);
        applying.join().unwrap_or_else(|panic| resume_unwind(panic));
        read
    })
}

/// Rebuilds the engine's memory, and the keys of the last day's messages, at the tables'
/// checkpoint.
fn restore(store: &Store, caches: CacheLimits) -> Result<(ShardState, MessageKeys), StoreError> {
    let store = store.open_beside()?;
    Ok((restore_recent(&store, caches)?, read_message_keys(&store, caches)?))
}

/// Rebuilds the engine's memory at the tables' checkpoint.
fn restore_recent(store: &Store, caches: CacheLimits) -> Result<ShardState, StoreError> {
    let mut state = ShardState::with_limits(caches);
    state.begin_restore(store.read()?.card_count()?);
    let transactions = restored_transactions(caches) as u64;
    let scope = RestoreScope::Recent { transactions };
    let checkpoint = store.restore(scope, &mut |restored| match restored {
        RestoredPart::Effect(effect) => state.apply(&effect),
        RestoredPart::Card(card) => state.take_in_card(&card.profile, card.record),
        RestoredPart::Answer { place: AnswerPlace::Transaction(seq), answer } => {
            state.restore_transaction_answer(seq, &answer);
        }
        RestoredPart::Answer { place: AnswerPlace::Record(at), answer } => {
            state.restore_answer(at, *answer);
        }
    })?;
    state.index_cards();
    resume(&mut state, store, &checkpoint);
    Ok(state)
}

/// Reads the keys of the last day's messages, at the tables' checkpoint.
fn read_message_keys(store: &Store, caches: CacheLimits) -> Result<MessageKeys, StoreError> {
    let checkpoint = store.checkpoint()?;
    let since = checkpoint.applied_at.plus(-Timestamp::DAY);
    let newest = (checkpoint.last_transaction, checkpoint.applied_seq);
    let count = store.message_key_count(since)?;
    let mut keys = MessageKeys::with_room(count, &caches, newest);
    let mut read = Vec::with_capacity(KEYS_TOGETHER);
    store.message_keys_since(since, |key, place| {
        read.push((key, place));
        if read.len() == KEYS_TOGETHER {
            keys.enter(&read);
            read.clear();
        }
    })?;
    keys.enter(&read);
    Ok(keys)
}

/// Rebuilds the whole state at the tables' checkpoint.
pub(crate) fn restore_whole(store: &Store) -> Result<(ShardState, Checkpoint), StoreError> {
    let mut state = ShardState::default();
    state.begin_restore(store.read()?.card_count()?);
    state.reserve(store.checkpoint()?.last_transaction.0);
    let checkpoint = store.restore(RestoreScope::Whole, &mut |restored| match restored {
        RestoredPart::Effect(effect) => state.apply(&effect),
        RestoredPart::Card(card) => state.take_in_card(&card.profile, card.record),
        RestoredPart::Answer { answer, .. } => state.apply(&Effect::Answer(answer)),
    })?;
    state.index_cards();
    resume(&mut state, store, &checkpoint);
    Ok((state, checkpoint))
}

fn resume(state: &mut ShardState, store: &Store, checkpoint: &Checkpoint) {
    state.resume_from(
        checkpoint.applied_seq,
        checkpoint.applied_at,
        checkpoint.last_transaction,
        checkpoint.last_line,
    );
    let late_since = store.late_holds.since().unwrap_or(Timestamp::MAX);
    state.expect_late_holds_from(late_since.min(checkpoint.applied_at));
}

/// Folds the remaining records of the journal into the state; returns their number.
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
    let mut records = Vec::new();
    decode_batch(number, payload, &mut records)?;
    let count = records.len() as u64;
    state.replay(&mut records);
    Ok(count)
}

pub(crate) fn decode_batch(
    number: BatchNumber,
    payload: &[u8],
    records: &mut Vec<ReplayedRecord>,
) -> Result<(), OpenError> {
    let unreadable = |source| OpenError::Record { batch: number.0, source };
    for view in record_views(payload) {
        records.push(view.and_then(ReplayedRecord::of).map_err(unreadable)?);
    }
    Ok(())
}
