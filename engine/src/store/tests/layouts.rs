//! The fingerprint of all layouts, taken of a fixed journal and the tables that are made of it.

use std::collections::HashSet;
use std::mem::{Discriminant, discriminant};

use sha2::{Digest, Sha256};

use super::drawing::draw;
use super::increments::increments_behind;
use super::world::journal;
use super::*;
use crate::codec;
use crate::command::record::append_record;
use crate::directory::DirectoryRow;
use crate::engine::PARTITION;
use crate::journal::ChainPosition;
use crate::journal::chain::{BatchBuilder, seal_barrier};
use crate::layouts::FINGERPRINT;
use crate::store::runs::{RUN_CHUNKS, RUN_LISTS};
use crate::store::tables::BLOCKS;

/// The number of kinds of effects, each resource's row being one.
const EFFECT_KINDS: usize = 27 + RESOURCE_TABLES.len() + SECRET_TABLES.len();
/// The number of effects that are drawn: dozens for each kind of row.
const EFFECTS_DRAWN: usize = 10_000;

/// Every table as it is on disk.
fn tables_of(store: &Store) -> Vec<TableDump> {
    let read_txn = store.database.begin_read().unwrap();
    let mut tables = dump_rows_and_indexes(&read_txn);
    for blocks in BLOCKS {
        tables.push(dump_table(blocks.to_string(), &read_txn.open_table(blocks).unwrap()));
    }
    tables.push(dump_table(RUN_CHUNKS.to_string(), &read_txn.open_table(RUN_CHUNKS).unwrap()));
    tables.push(dump_table(RUN_LISTS.to_string(), &read_txn.open_table(RUN_LISTS).unwrap()));
    tables
}

fn kind_of(effect: &Effect) -> (Discriminant<Effect>, Option<Discriminant<DirectoryRow>>) {
    let row = match effect {
        Effect::Row(row) => Some(discriminant(row)),
        _ => None,
    };
    (discriminant(effect), row)
}

fn has_a_rate(effect: &Effect) -> bool {
    let Effect::TransactionProgress(_, progress) = effect else { return false };
    progress.later.as_slice().iter().any(|message| message.conversion.is_some())
}

/// Effects with whatever their types can hold, so that each field counts by itself. New transactions
/// and decisions on increments are packed: the journal has those. As rows of tables they have the same
/// bytes, so no tables are made of them.
fn drawn_effects() -> Vec<Effect> {
    let mut random = 1;
    let drawn: Vec<Effect> = (0..EFFECTS_DRAWN).map(|_| draw(&mut random, Timestamp(0))).collect();
    assert_eq!(drawn.iter().map(kind_of).collect::<HashSet<_>>().len(), EFFECT_KINDS - 2);
    drawn
}

/// A journal of every kind of effect, and of a message at a rate of its own.
fn everything() -> Vec<Record> {
    let made = (1..1_000).map(|seed| {
        let mut records = journal(seed, 400);
        records.extend(increments_behind(&records, &[2]));
        records
    });
    let has_all = |records: &Vec<Record>| {
        let effects = records.iter().flat_map(|record| &record.effects);
        effects.clone().map(kind_of).collect::<HashSet<_>>().len() == EFFECT_KINDS
            && effects.clone().any(has_a_rate)
    };
    made.into_iter().find(has_all).expect("a journal of every kind of effect")
}

#[test]
fn another_layout_is_another_fingerprint() {
    let records = everything();
    let tables = tables_of(&store_of(&records));
    let mut digest = Sha256::new();
    let mut tip = ChainPosition::GENESIS;
    for record in &records {
        let mut bytes = Vec::new();
        append_record(&mut bytes, record.seq, record.at, &record.effects).unwrap();
        let barrier = seal_barrier(PARTITION, &tip);
        let mut batch = BatchBuilder::start(Vec::new());
        batch.push(1, &bytes);
        let batch = batch.seal(PARTITION, &barrier.position());
        tip = batch.position();
        digest.update(&barrier.bytes);
        digest.update(&batch.bytes);
    }
    for effect in drawn_effects() {
        digest.update(codec::encode(&effect).unwrap());
    }
    let digest = digest.chain_update(format!("{tables:?}")).finalize();
    let found: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(found, FINGERPRINT, "layouts changed: put the left one into `layouts.rs`");
}
