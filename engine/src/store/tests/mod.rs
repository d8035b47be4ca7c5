//! Tests of the store as a whole: what it shows, what survives, and what its audit finds.
//!
//! `world` makes journals whose money is sound; `model` is the slow and obvious store that the
//! real one is compared with.

mod audit;
mod crash;
mod model;
mod projection;
mod projector;
mod queries;
mod world;

use redb::{Key, ReadableDatabase, ReadableTable, Value};

use super::checkpoint::Checkpoint;
use super::tables::*;
use super::{CommitKind, Projection, Store};
use crate::command::record::Record;
use crate::domain::ids::RecordSeq;
use crate::journal::testing::FaultyBackend;
use crate::journal::{BatchNumber, ChainHash, ChainPosition, Epoch};

const DIRECTORY: [u8; 16] = *b"a data directory";

fn empty_store() -> Store {
    Store::open_with_backend(FaultyBackend::new(), DIRECTORY).unwrap()
}

/// The place in an imagined chain after the batch that ends with this record.
fn position_after(records: &[Record]) -> ChainPosition {
    let last_seq = records.last().map_or(0, |record| record.seq.0);
    let mut hash = [0; 32];
    hash[..8].copy_from_slice(&last_seq.to_le_bytes());
    ChainPosition {
        epoch: Epoch(1),
        number: BatchNumber(last_seq),
        hash: ChainHash(hash),
        last_seq,
    }
}

fn gather(records: &[Record]) -> Projection {
    let mut projection = Projection::default();
    records.iter().cloned().for_each(|record| projection.project(record));
    projection
}

fn commit(
    store: &Store,
    records: &[Record],
    kind: CommitKind,
) -> Result<Checkpoint, super::StoreError> {
    store.commit(&gather(records), position_after(records), kind)
}

/// A store that holds these records, written in one run.
fn store_of(records: &[Record]) -> Store {
    let store = empty_store();
    let checkpoint = commit(&store, records, CommitKind::Checkpoint).unwrap();
    assert_eq!(checkpoint.applied_seq, records.last().map_or(RecordSeq(0), |record| record.seq));
    store
}

/// Every row and every index entry of a store, by table.
fn dump(store: &Store) -> Vec<(String, Vec<(String, String)>)> {
    let read_txn = store.database.begin_read().unwrap();
    let mut tables = vec![dump_table(META.to_string(), &read_txn.open_table(META).unwrap())];
    macro_rules! dump_rows {
        ($name:ident) => {
            let table = read_txn.open_table($name.definition()).unwrap();
            tables.push(dump_table($name.name().to_owned(), &table));
        };
    }
    macro_rules! dump_index {
        ($name:ident) => {
            tables.push(dump_table($name.to_string(), &read_txn.open_table($name).unwrap()));
        };
    }
    each_row_table!(dump_rows);
    each_index!(dump_index);
    tables
}

fn dump_table<K: Key + 'static, V: Value + 'static>(
    name: String,
    table: &impl ReadableTable<K, V>,
) -> (String, Vec<(String, String)>) {
    let entries = table.iter().unwrap().map(|entry| {
        let (key, value) = entry.unwrap();
        (format!("{:?}", key.value()), format!("{:?}", value.value()))
    });
    (name, entries.collect())
}

/// Compares two dumps table by table, so that a failure names the table.
fn assert_same_dump(found: &Store, expected: &Store, story: &str) {
    for (found, expected) in dump(found).iter().zip(&dump(expected)) {
        assert_eq!(found, expected, "{story}");
    }
}
