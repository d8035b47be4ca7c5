//! Tests of the store as a whole: its queries, its survival of crashes, and its audit.
//!
//! `world` makes journals whose money is sound, with rows that `drawing` fills; `model` is the slow
//! and obvious store that the real one is compared with.

mod audit;
mod crash;
mod drawing;
mod events;
mod history;
mod increments;
mod layouts;
mod long_scans;
mod model;
mod organization;
mod people;
mod projection;
mod projector;
mod queries;
mod recall;
mod world;

use redb::{Key, ReadableDatabase, ReadableTable, Value};

use super::checkpoint::Checkpoint;
use super::directory::{RESOURCE_TABLES, SECRET_TABLES, SlotTable};
use super::rows;
use super::runs::RunKind;
use super::tables::*;
use super::{CommitKind, Projection, RestoreScope, RestoredPart, Snapshot, Store};
use crate::command::effect::Effect;
use crate::command::record::Record;
use crate::command::record::{append_record, record_views};
use crate::domain::ids::{AccountSlot, EventNumber, RecordSeq, Timestamp};
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

/// The records as a batch has them.
fn encode(records: &[Record]) -> Vec<u8> {
    let mut payload = Vec::new();
    for record in records {
        append_record(&mut payload, record.seq, record.at, &record.effects).unwrap();
    }
    payload
}

fn gather(records: &[Record]) -> Projection {
    let mut projection = Projection::default();
    record_views(&encode(records)).for_each(|view| projection.project(view.unwrap()).unwrap());
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

/// Makes a row unreadable: every read of it fails.
fn damage_row(store: &Store, rows: SlotTable, slot: u32) {
    let write_txn = store.database.begin_write().unwrap();
    write_txn.open_table(rows).unwrap().insert(slot, [9].as_slice()).unwrap();
    write_txn.commit().unwrap();
}

/// A table's name with its keys and values.
type TableDump = (String, Vec<(String, String)>);

/// The table `meta`, every row and every index entry as they are stored, by table.
fn dump_rows_and_indexes(read_txn: &redb::ReadTransaction) -> Vec<TableDump> {
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
    for (rows, entries) in RESOURCE_TABLES {
        tables.push(dump_table(rows.to_string(), &read_txn.open_table(*rows).unwrap()));
        tables.push(dump_table(entries.to_string(), &read_txn.open_table(*entries).unwrap()));
    }
    for (rows, entries) in SECRET_TABLES {
        tables.push(dump_table(rows.to_string(), &read_txn.open_table(*rows).unwrap()));
        tables.push(dump_table(entries.to_string(), &read_txn.open_table(*entries).unwrap()));
    }
    tables
}

/// Every row and every index entry of a store as reads find them, by table: where a block or a run
/// begins and ends, and what is not folded or not written yet, makes no difference.
fn dump(store: &Store) -> Vec<TableDump> {
    let read_txn = store.database.begin_read().unwrap();
    let mut tables = dump_rows_and_indexes(&read_txn);
    let passing = [META_COMMIT, META_NUMBERS].map(|name| format!("{name:?}"));
    tables[0].1.retain(|(name, _)| !passing.contains(name));
    let written_late = [
        ACCOUNT_BALANCES.name(),
        CARD_USAGES.name(),
        TRANSACTION_CHANGES.name(),
        DAY_FIGURES.name(),
        EVENT_BLOCKS.name(),
    ];
    tables.retain(|(name, _)| !written_late.contains(&name.as_str()));
    drop(read_txn);
    tables.extend(dump_history(&store.read().unwrap()));
    tables.push(dump_events(&store.read().unwrap()));
    tables.push(dump_figures(&store.read().unwrap()));
    tables
}

fn dump_history(snapshot: &Snapshot) -> Vec<TableDump> {
    let mut numbers = Vec::new();
    snapshot
        .each(&ACCOUNTS, |slot, _| {
            let balances = snapshot.balances(AccountSlot(slot)).unwrap();
            numbers.push((format!("account {slot}"), format!("{balances:?}")));
        })
        .unwrap();
    let mut cards = snapshot.card_tables().unwrap();
    cards
        .each(|card| {
            let (slot, usage) = (card.profile.slot.0, card.record.usage);
            numbers.push((format!("card {slot}"), format!("{usage:?} {:?}", card.held)));
        })
        .unwrap();
    let mut transactions = Vec::new();
    let rows = snapshot.transaction_rows().unwrap();
    rows.each(0..u64::MAX, |row, view, newer| {
        let record = view.to_record().unwrap();
        let progress = newer.unwrap_or_else(|| view.to_progress().unwrap());
        let row_says = (record, progress, view.answer(), row.is_marked);
        transactions.push((row.number.to_string(), format!("{row_says:?}")));
        Ok(())
    })
    .unwrap();
    let mut tables =
        vec![("numbers".to_owned(), numbers), ("transactions".to_owned(), transactions)];
    for table in [LINE_BLOCKS, POSTING_BLOCKS] {
        let mut found = Vec::new();
        let blocks = snapshot.blocks(table).unwrap();
        blocks
            .each(0..u64::MAX, |row| {
                found.push((row.number.to_string(), format!("{:?}", row.bytes)));
                Ok(())
            })
            .unwrap();
        tables.push((table.to_string(), found));
    }
    let runs = snapshot.runs().unwrap();
    let first = snapshot.first_messages().unwrap();
    for kind in RunKind::ALL {
        let mut entries = Vec::new();
        // Keys of messages that ended go with some later checkpoint.
        let reader = runs.reader(kind).unwrap();
        reader.each(first.first_of(kind), |entry| entries.push(entry)).unwrap();
        entries.sort();
        let entries = entries.iter().map(|entry| (format!("{entry:?}"), String::new()));
        tables.push((format!("{kind:?}"), entries.collect()));
    }
    tables
}

fn dump_events(snapshot: &Snapshot) -> TableDump {
    let events = snapshot.events_after(EventNumber(0), usize::MAX).unwrap();
    let rows = events.iter().map(|event| (event.number.0.to_string(), format!("{event:?}")));
    (EVENT_BLOCKS.name().to_owned(), rows.collect())
}

fn dump_figures(snapshot: &Snapshot) -> TableDump {
    let mut rows = Vec::new();
    for company in snapshot.companies().unwrap() {
        for figures in
            snapshot.day_figures(company.slot, Timestamp(0), Timestamp::CALENDAR_MAX).unwrap()
        {
            let key = format!("company {} from {}", company.slot.0, figures.from.0);
            rows.push((key, format!("{:?}", figures.outcomes)));
        }
    }
    (DAY_FIGURES.name().to_owned(), rows)
}

fn dump_table<K: Key + 'static, V: Value + 'static>(
    name: String,
    table: &impl ReadableTable<K, V>,
) -> TableDump {
    let entries = table.iter().unwrap().map(|entry| {
        let (key, value) = entry.unwrap();
        (format!("{:?}", key.value()), format!("{:?}", value.value()))
    });
    (name, entries.collect())
}

/// Restores a whole store as effects.
fn restore_effects(store: &Store, apply: &mut dyn FnMut(Effect)) -> Checkpoint {
    let mut visit = |restored: RestoredPart<'_>| match restored {
        RestoredPart::Effect(effect) => apply(effect),
        RestoredPart::Card(card) => apply(Effect::CardIssued(Box::new(card.to_issued()))),
        RestoredPart::Answer { answer, .. } => apply(Effect::Answer(answer)),
    };
    store.restore(RestoreScope::Whole, &mut visit).unwrap()
}

/// Compares two dumps table by table, so that a failure names the table.
fn assert_same_dump(found: &Store, expected: &Store, story: &str) {
    for (found, expected) in dump(found).iter().zip(&dump(expected)) {
        assert_eq!(found, expected, "{story}");
    }
}
