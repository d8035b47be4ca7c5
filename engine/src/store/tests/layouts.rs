//! The fingerprint of all layouts, taken of a fixed journal and the tables that are made of it.

use std::collections::BTreeSet;
use std::mem::discriminant;

use sha2::{Digest, Sha256};

use super::world::journal;
use super::*;
use crate::command::record::append_record;
use crate::layouts::FINGERPRINT;
use crate::store::runs::{RUN_CHUNKS, RUN_LISTS};
use crate::store::tables::BLOCKS;

/// Every table as it is on disk: names, keys and the bytes of values.
fn tables_of(store: &Store) -> Vec<(String, Vec<(String, String)>)> {
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
    for blocks in BLOCKS {
        tables.push(dump_table(blocks.to_string(), &read_txn.open_table(blocks).unwrap()));
    }
    tables.push(dump_table(RUN_CHUNKS.to_string(), &read_txn.open_table(RUN_CHUNKS).unwrap()));
    tables.push(dump_table(RUN_LISTS.to_string(), &read_txn.open_table(RUN_LISTS).unwrap()));
    tables
}

#[test]
fn another_layout_is_another_fingerprint() {
    let records = journal(20, 3_000);
    let effects = records.iter().flat_map(|record| &record.effects);
    let kinds: BTreeSet<_> = effects.map(|effect| format!("{:?}", discriminant(effect))).collect();
    let store = store_of(&records);
    let tables = tables_of(&store);
    let empty: Vec<_> =
        tables.iter().filter(|(_, rows)| rows.is_empty()).map(|(name, _)| name.as_str()).collect();
    assert_eq!((kinds.len(), empty), (0, vec![]), "every kind of effect, and no table without rows");
    let mut bytes = Vec::new();
    for record in &records {
        append_record(&mut bytes, record.seq, record.at, &record.effects).unwrap();
    }
    let digest = Sha256::new().chain_update(&bytes).chain_update(format!("{tables:?}")).finalize();
    let found: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(found, FINGERPRINT, "layouts changed: put the left one into `layouts.rs`");
}
