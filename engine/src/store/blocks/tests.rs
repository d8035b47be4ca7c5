//! Blocks against a map of rows, whatever their lengths, holes and cuts.

use std::collections::BTreeMap;
use std::sync::Arc;

use redb::{Database, ReadableDatabase, ReadableTable};

use super::*;
use crate::journal::testing::{FaultyBackend, next_random};

const TABLE: BlockTable = redb::TableDefinition::new("rows");

type BytesByNumber = BTreeMap<u64, (Vec<u8>, bool)>;

fn byte(number: u64) -> u8 {
    u8::try_from(number % 256).unwrap()
}

fn database() -> Database {
    let database = Database::builder().create_with_backend(FaultyBackend::new()).unwrap();
    let write_txn = database.begin_write().unwrap();
    write_txn.open_table(TABLE).unwrap();
    write_txn.commit().unwrap();
    database
}

fn append(database: &Database, rows: &BytesByNumber) {
    let write_txn = database.begin_write().unwrap();
    let mut writer = BlockWriter::open(&write_txn, TABLE).unwrap();
    for (number, (bytes, is_marked)) in rows {
        let row = BlockRow { number: *number, bytes, is_marked: *is_marked };
        writer.push(&row).unwrap();
    }
    writer.finish().unwrap();
    write_txn.commit().unwrap();
}

fn check(database: &Database, expected: &BytesByNumber) {
    let read_txn = database.begin_read().unwrap();
    let mut reader = BlockReader::new(TABLE, Arc::new(read_txn.open_table(TABLE).unwrap()));
    let end = expected.keys().next_back().map_or(0, |last| last + 1);
    assert_eq!(reader.end().unwrap(), end);
    for number in 0..end + 2 {
        let row = reader.row(number).unwrap().map(|row| (row.bytes.to_vec(), row.is_marked));
        assert_eq!(row.as_ref(), expected.get(&number), "row {number}");
        let next = reader.row_from(number).unwrap().map(|row| row.number);
        assert_eq!(next, expected.range(number..).next().map(|(next, _)| *next));
    }
    for (first, last) in [(0, end), (end / 3, end / 2), (end / 2, end + 9), (end, 0)] {
        let mut found = BytesByNumber::new();
        reader
            .each(first..last, |row| {
                found.insert(row.number, (row.bytes.to_vec(), row.is_marked));
                Ok(())
            })
            .unwrap();
        let expected = expected.iter().filter(|(number, _)| (first..last).contains(number));
        let expected = expected.map(|(number, row)| (*number, row.clone()));
        assert_eq!(found, expected.collect::<BytesByNumber>(), "{first}..{last}");
    }
}

fn lengths(database: &Database) -> Vec<usize> {
    let read_txn = database.begin_read().unwrap();
    let table = read_txn.open_table(TABLE).unwrap();
    table.iter().unwrap().map(|entry| entry.unwrap().1.value().len()).collect()
}

#[test]
fn rows_are_found_whatever_was_appended_when() {
    for seed in 0..12 {
        println!("seed {seed}");
        let mut random = seed;
        let mut below = |bound: u64| next_random(&mut random) % bound;
        let database = database();
        let (mut all, mut next) = (BytesByNumber::new(), 1);
        for _ in 0..8 {
            let mut run = BytesByNumber::new();
            for _ in 0..below(200) {
                // Now and then a hole, an empty row, and one longer than a block.
                next += if below(50) == 0 { 1 + below(3) } else { 0 };
                let len = match below(100) {
                    0 => 40_000,
                    1 => 0,
                    _ => below(500),
                };
                let bytes = vec![byte(below(256)); usize::try_from(len).unwrap()];
                run.insert(next, (bytes, below(3) == 0));
                next += 1;
            }
            append(&database, &run);
            all.extend(run);
            check(&database, &all);
        }
        let shared = lengths(&database).into_iter().filter(|len| *len < 40_000);
        assert!(shared.max().unwrap() <= BLOCK_BYTES_MAX);
    }
}

#[test]
fn blocks_are_full_but_the_newest() {
    let database = database();
    for run in 0..40 {
        let rows = (run * 7..run * 7 + 7).map(|number| (number, (vec![1; 300], false)));
        append(&database, &rows.collect());
    }
    let lengths = lengths(&database);
    let (newest, full) = lengths.split_last().unwrap();
    assert!(full.iter().all(|len| (BLOCK_BYTES_MAX - 308..=BLOCK_BYTES_MAX).contains(len)));
    assert_eq!((full.len(), newest + full.iter().sum::<usize>()), (5, 6 * 24 + 280 * 308));
}

#[test]
fn a_block_that_grew_too_long_becomes_two() {
    let database = database();
    let row = |number: u64, len| (number, (vec![byte(number); len], number.is_multiple_of(2)));
    let rows: BytesByNumber = (5..55).map(|number| row(number, 300)).collect();
    append(&database, &rows);
    assert_eq!(lengths(&database).len(), 1);
    let uneven = |number: u64| 380 + usize::try_from(number).unwrap() * 7 % 50;
    let grown: BytesByNumber = (5..55).map(|number| row(number, uneven(number))).collect();
    rewrite_all(&database, &grown);
    let found = lengths(&database);
    assert!(found.len() == 2 && found.iter().all(|len| *len > 7_000), "{found:?}");
    check(&database, &grown);
    // One row outgrows a block: no other block may, for the newest is gone on with.
    let database = self::database();
    append(&database, &rows);
    let giant = |number| if number == 5 { 40_000 } else { 300 };
    let giants: BytesByNumber = (5..55).map(|number| row(number, giant(number))).collect();
    rewrite_all(&database, &giants);
    let found = lengths(&database);
    assert!(found[1..].iter().all(|len| *len <= BLOCK_BYTES_MAX), "{found:?}");
    check(&database, &giants);
    append(&database, &(55..60).map(|number| row(number, 300)).collect());
}

/// Writes one block of these rows again.
fn rewrite_all(database: &Database, rows: &BytesByNumber) {
    let write_txn = database.begin_write().unwrap();
    let mut table = write_txn.open_table(TABLE).unwrap();
    let new = rows.iter().map(|(number, (bytes, is_marked))| BlockRow {
        number: *number,
        bytes,
        is_marked: *is_marked,
    });
    rewrite(&mut table, new).unwrap();
    drop(table);
    write_txn.commit().unwrap();
}

#[test]
fn a_flipped_byte_is_refused_by_table_and_key() {
    let rows: BytesByNumber = (7..30).map(|number| (number, (vec![1; 20], false))).collect();
    let database = database();
    append(&database, &rows);
    let whole = {
        let read_txn = database.begin_read().unwrap();
        read_txn.open_table(TABLE).unwrap().get(29).unwrap().unwrap().value().to_vec()
    };
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        let write_txn = database.begin_write().unwrap();
        write_txn.open_table(TABLE).unwrap().insert(29, bytes.as_slice()).unwrap();
        write_txn.commit().unwrap();
        let read_txn = database.begin_read().unwrap();
        let mut reader = BlockReader::new(TABLE, Arc::new(read_txn.open_table(TABLE).unwrap()));
        // A flip inside a row harms that row alone.
        let flipped = at.checked_sub(HEAD_BYTES + 23 * PLACE_BYTES).map(|at| 7 + at as u64 / 20);
        for (number, (bytes, _)) in &rows {
            match reader.row(*number) {
                Ok(row) => {
                    assert_eq!(row.unwrap().bytes, bytes);
                    assert!(flipped.is_some_and(|flipped| flipped != *number), "byte {at}");
                }
                Err(error) => {
                    let error = error.to_string();
                    assert!(error.contains("table rows, key 29: "), "byte {at}: {error}");
                    assert!(flipped.is_none_or(|flipped| flipped == *number), "byte {at}");
                }
            }
        }
        assert!(reader.each(0..u64::MAX, |_| Ok(())).is_err(), "byte {at}");
    }
    for len in 0..whole.len() {
        let error = Block::parse(TABLE, 29, &whole[..len]).unwrap_err().to_string();
        assert!(error.contains("table rows, key 29: "), "{len} bytes: {error}");
    }
    let mut elsewhere = BTreeMap::new();
    elsewhere.insert(30, whole);
    let write_txn = database.begin_write().unwrap();
    let mut table = write_txn.open_table(TABLE).unwrap();
    table.insert(30, elsewhere[&30].as_slice()).unwrap();
    drop(table);
    write_txn.commit().unwrap();
    let read_txn = database.begin_read().unwrap();
    let error = BlockReader::new(TABLE, Arc::new(read_txn.open_table(TABLE).unwrap()))
        .row(30)
        .unwrap_err()
        .to_string();
    assert!(error.contains("key 30: it belongs elsewhere"), "{error}");
}
