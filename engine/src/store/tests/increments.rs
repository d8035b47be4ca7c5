//! Decisions on increments: in the order of their records, under their purchase, and in tables that
//! were made before there was a place for them.

use redb::ReadableTable;

use super::world::journal;
use super::*;
use crate::decision::IncrementDecision;
use crate::domain::ids::{Timestamp, TransactionSeq};
use crate::packed::packed_tests::common_increment;

/// Records behind these, each with one increment of a purchase.
pub(super) fn increments_behind(records: &[Record], of: &[u64]) -> Vec<Record> {
    let last = records.last().unwrap();
    let record = |(place, transaction): (u64, &u64)| {
        let decision = IncrementDecision {
            transaction: TransactionSeq(*transaction),
            decided_at: last.at.plus(place.cast_signed()),
            ..common_increment()
        };
        let seq = RecordSeq(last.seq.0 + place);
        let at = decision.decided_at;
        Record { seq, at, effects: vec![Effect::Increment(Box::new(decision))] }
    };
    (1..).zip(of).map(record).collect()
}

fn instants(store: &Store, transaction: u64, limit: usize) -> Vec<Timestamp> {
    let found = store.read().unwrap().increments(TransactionSeq(transaction), limit).unwrap();
    assert!(found.iter().all(|decision| decision.transaction.0 == transaction));
    found.into_iter().map(|decision| decision.decided_at).collect()
}

#[test]
fn increments_stand_under_their_purchase() {
    let before = journal(17, 200);
    let disk = FaultyBackend::new();
    let store = Store::open_with_backend(disk.clone(), DIRECTORY).unwrap();
    commit(&store, &before, CommitKind::Checkpoint).unwrap();
    assert_eq!(instants(&store, 2, 10), []);
    let later = increments_behind(&before, &[2, 3, 2, 1, 2]);
    commit(&store, &later, CommitKind::Checkpoint).unwrap();
    drop(store);

    let store = Store::open_with_backend(disk, DIRECTORY).unwrap();
    let at = |place: usize| later[place].at;
    for (transaction, limit, expected) in [
        (1, 10, vec![at(3)]),
        (2, 10, vec![at(0), at(2), at(4)]),
        (2, 2, vec![at(0), at(2)]),
        (3, 10, vec![at(1)]),
        (4, 10, vec![]),
    ] {
        assert_eq!(instants(&store, transaction, limit), expected, "{transaction} {limit}");
    }
}

#[test]
fn a_damaged_increment_is_refused_by_name() {
    let before = journal(18, 50);
    let store = store_of(&before);
    commit(&store, &increments_behind(&before, &[2]), CommitKind::Checkpoint).unwrap();
    let write_txn = store.database.begin_write().unwrap();
    {
        let mut table = write_txn.open_table(INCREMENTS.definition()).unwrap();
        let (key, mut bytes) = {
            let (key, value) = table.first().unwrap().unwrap();
            (key.value(), value.value().to_vec())
        };
        let middle = bytes.len() / 2;
        bytes[middle] ^= 4;
        table.insert(key, bytes.as_slice()).unwrap();
    }
    write_txn.commit().unwrap();
    let error = store.read().unwrap().increments(TransactionSeq(2), 10).unwrap_err().to_string();
    assert!(error.contains("increments"), "{error}");
}
