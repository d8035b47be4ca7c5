//! Records become rows, and rows become a shard again.

use proptest::prelude::*;

use super::model::Model;
use super::world::journal;
use super::*;
use crate::command::effect::{EarlyReversal, Effect, RememberedAnswer};
use crate::command::network::ReversalAmount;
use crate::command::reply::NetworkReply;
use crate::domain::ids::{CardSlot, Timestamp};
use crate::domain::network_key::{
    DuplicateKey, DuplicateWindow, Fingerprint, OriginalKey, RetrievalKey,
};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn runs_of_any_length_give_the_same_rows(
        seed in any::<u64>(),
        cuts in prop::collection::vec(1_usize..60, 1..8),
    ) {
        let records = journal(seed, 200);
        let expected = store_of(&records);
        let store = empty_store();
        let mut done = 0;
        for (cut, kind) in cuts.iter().cycle().zip([CommitKind::Visible, CommitKind::Checkpoint].iter().cycle()) {
            let end = (done + cut).min(records.len());
            let run = gather(&records[done..end]);
            store.commit(&run, position_after(&records[..end]), *kind).unwrap();
            // The same run again: the rows stand so already.
            store.commit(&run, position_after(&records[..end]), *kind).unwrap();
            done = end;
            if done == records.len() {
                break;
            }
        }
        assert_same_dump(&store, &expected, "one run, or many, each twice");
    }

    #[test]
    fn a_restored_shard_knows_what_the_journal_said(seed in any::<u64>(), len in 3_usize..250) {
        let records = journal(seed, len);
        let store = store_of(&records);
        let mut restored = Model::default();
        let mut order = Vec::new();
        let checkpoint = restore_effects(&store, &mut |effect| {
            order.push(std::mem::discriminant(&effect));
            restored.apply(effect);
        });
        prop_assert_eq!(&restored, &Model::of(&records).hot());
        order.dedup();
        let kinds = order.len();
        order.sort_by_key(|kind| format!("{kind:?}"));
        order.dedup();
        prop_assert_eq!(order.len(), kinds, "each kind comes in one piece");
        let last = records.last().unwrap();
        prop_assert_eq!((checkpoint.applied_seq, checkpoint.applied_at), (last.seq, last.at));
        let model = Model::of(&records);
        prop_assert_eq!(Some(checkpoint.last_transaction), model.transactions.keys().next_back().copied());
        prop_assert_eq!(Some(checkpoint.last_line), model.lines.keys().next_back().copied());
    }
}

/// The numbers of answers and early reversals that are stored.
fn remembered(store: &Store) -> [u64; 2] {
    use redb::ReadableTableMetadata;
    let read_txn = store.database.begin_read().unwrap();
    [
        read_txn.open_table(ANSWERS.definition()).unwrap().len().unwrap(),
        read_txn.open_table(EARLY_REVERSALS.definition()).unwrap().len().unwrap(),
    ]
}

#[test]
fn what_ends_at_the_instant_of_a_record_is_forgotten_with_it() {
    let ends_at = Timestamp(1_000);
    let early = EarlyReversal {
        card: Some(CardSlot(u32::MAX)),
        original_key: Some(OriginalKey(u64::MAX)),
        retrieval_key: Some(RetrievalKey(u64::MAX)),
        amount: ReversalAmount::Full,
        expires_at: ends_at,
    };
    let fingerprint = Fingerprint {
        key: DuplicateKey(u128::MAX),
        trace: None,
        content: 1,
        window: DuplicateWindow::Day,
    };
    let answer = RememberedAnswer {
        fingerprint,
        shares_trace: false,
        expires_at: ends_at,
        reply: NetworkReply::Conflict,
    };
    let effects = [Effect::Answer(Box::new(answer)), Effect::EarlyReversal(Box::new(early))];
    let rows = [(999, vec![1, 1]), (1_000, vec![0, 0]), (1_001, vec![0, 0])];
    for (at, expected) in rows {
        let first = Record { seq: RecordSeq(1), at: Timestamp(10), effects: effects.to_vec() };
        let second = Record { seq: RecordSeq(2), at: Timestamp(at), effects: Vec::new() };
        let together = store_of(&[first.clone(), second.clone()]);
        assert_eq!(remembered(&together).to_vec(), expected, "in one run, at {at}");
        let apart = store_of(std::slice::from_ref(&first));
        assert_eq!(remembered(&apart), [1, 1]);
        commit_after(&apart, &[first], &[second]);
        assert_eq!(remembered(&apart).to_vec(), expected, "one by one, at {at}");
    }
}

fn commit_after(store: &Store, before: &[Record], run: &[Record]) {
    let all = [before, run].concat();
    store.commit(&gather(run), position_after(&all), CommitKind::Visible).unwrap();
}

#[test]
fn a_store_is_made_once_and_refuses_what_is_not_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    drop(Store::create(&path, DIRECTORY).unwrap());
    let again = Store::create(&path, DIRECTORY);
    assert!(matches!(again, Err(crate::store::StoreError::AlreadyExists { .. })), "{again:?}");

    let store = Store::open(&path, DIRECTORY).unwrap();
    assert_eq!(store.checkpoint().unwrap(), Checkpoint::default());
    let second = Store::open(&path, DIRECTORY);
    assert!(matches!(second, Err(crate::store::StoreError::InUse)), "{second:?}");
    drop(store);

    let foreign = Store::open(&path, [7; 16]);
    assert!(
        matches!(foreign, Err(crate::store::StoreError::ForeignDirectory { .. })),
        "{foreign:?}"
    );

    let text = directory.path().join("text");
    std::fs::write(&text, "not a database, but long enough to have a header".repeat(200)).unwrap();
    let foreign = Store::open(&text, DIRECTORY);
    assert!(matches!(foreign, Err(crate::store::StoreError::NotAStore { .. })), "{foreign:?}");

    let other = directory.path().join("other.redb");
    drop(redb::Database::create(&other).unwrap());
    let foreign = Store::open(&other, DIRECTORY);
    assert!(matches!(foreign, Err(crate::store::StoreError::NotAStore { .. })), "{foreign:?}");
}

/// A start reads the tables beside those that it goes on with.
#[test]
fn tables_opened_beside_read_the_same_and_change_no_byte() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    drop(Store::create(&path, DIRECTORY).unwrap());
    let store = Store::open(&path, DIRECTORY).unwrap();
    let records = journal(4, 300);
    commit(&store, &records, CommitKind::Checkpoint).unwrap();
    // A copy of the open file is as a kill leaves it.
    let left = directory.path().join("left.redb");
    std::fs::copy(&path, &left).unwrap();

    let killed = Store::open(&left, DIRECTORY).unwrap();
    let bytes = std::fs::read(&left).unwrap();
    let beside = killed.open_beside().unwrap();
    assert_eq!(beside.checkpoint().unwrap(), killed.checkpoint().unwrap());
    assert_same_dump(&beside, &store, "the tables as they were left");
    drop(beside);
    assert!(std::fs::read(&left).unwrap() == bytes);
    let second = Store::open(&left, DIRECTORY);
    assert!(matches!(second, Err(crate::store::StoreError::InUse)), "{second:?}");
}

#[test]
fn a_row_of_another_version_is_refused() {
    let store = store_of(&journal(3, 10));
    let write_txn = store.database.begin_write().unwrap();
    write_txn.open_table(COMPANIES.definition()).unwrap().insert(0, [9, 1, 2].as_slice()).unwrap();
    write_txn.commit().unwrap();
    let text = store.read().unwrap().companies().unwrap_err().to_string();
    assert_eq!(text, "a row of table companies: format version 9 is not known to this build");
}
