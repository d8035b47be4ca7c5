//! The runs against a sorted set, through random commits, dropped transactions and reopenings.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use redb::{Database, Durability, ReadableDatabase, ReadableTable, WriteTransaction};

use super::directory::Group;
use super::*;
use crate::journal::testing::next_random;
use crate::store::query::Order;

const KINDS: [RunKind; 3] =
    [RunKind::CompanyTransactions, RunKind::RetrievalKeys, RunKind::TransactionMessages];

fn tables_of(database: &Database, counts: &Arc<RunCounts>) -> RunTables {
    let read_txn = database.begin_read().unwrap();
    let chunks = Arc::new(read_txn.open_table(RUN_CHUNKS).unwrap());
    let lists = Arc::new(read_txn.open_table(RUN_LISTS).unwrap());
    RunTables::new(chunks, lists, Arc::clone(counts))
}

/// The expected content of the runs.
#[derive(Clone, Default)]
struct Model {
    entries: BTreeSet<(RunKind, u64, u64)>,
    newest: u64,
    floor: u64,
}

impl Model {
    fn minors(&self, kind: RunKind, major: u64, minors: &std::ops::Range<u64>) -> Vec<u64> {
        let floor = if kind == RunKind::TransactionMessages { self.floor } else { 0 };
        let all = self.entries.range((kind, major, 0)..=(kind, major, u64::MAX));
        let minors = all.map(|entry| entry.2).filter(|minor| minors.contains(minor));
        minors.filter(|minor| *minor >= floor).collect()
    }
}

/// The majors of a kind: a few long lists, many short ones, or hashes.
fn random_major(kind: RunKind, random: &mut u64) -> u64 {
    match kind {
        RunKind::CompanyTransactions => next_random(random) % 3,
        RunKind::RetrievalKeys => next_random(random) % 5_000,
        _ if next_random(random).is_multiple_of(4) => u64::MAX - next_random(random) % 2,
        _ => next_random(random),
    }
}

/// A random element, if there is any.
fn pick<T>(all: &[T], random: u64) -> Option<&T> {
    let len = u64::try_from(all.len()).unwrap();
    all.get(usize::try_from(random.checked_rem(len)?).unwrap())
}

/// Appends a random commit to the runs and the model.
fn append(writer: &mut RunWriter<'_>, model: &mut Model, random: &mut u64, len_max: u64) {
    let mut lists = [const { Vec::new() }; KINDS.len()];
    for _ in 0..next_random(random) % len_max {
        // Hops between the minors, wide ones at times: the last of all is reached by no sequence.
        model.newest += 1 + next_random(random) % 3;
        if next_random(random).is_multiple_of(10_000) {
            model.newest += 1 << 33;
        }
        for (kind, list) in KINDS.into_iter().zip(&mut lists) {
            if !next_random(random).is_multiple_of(5) {
                let major = random_major(kind, random);
                list.push(Entry::new(major, model.newest));
                model.entries.insert((kind, major, model.newest));
            }
        }
    }
    for (kind, list) in KINDS.into_iter().zip(&mut lists) {
        writer.append(kind, list).unwrap();
        assert!(list.is_empty());
    }
}

/// Compares what can be asked with the model, for some majors of each kind.
fn compare(story: &str, model: &Model, random: &mut u64, runs: &RunTables) {
    for kind in KINDS {
        let reader = runs.reader(kind).unwrap();
        reader.check().unwrap();
        let floor = if kind == RunKind::TransactionMessages { model.floor } else { 0 };
        let mut all = Vec::new();
        reader.each(0, |entry| all.push((kind, entry.major(), entry.minor()))).unwrap();
        all.sort_unstable();
        let expected = model.entries.iter().filter(|entry| entry.0 == kind && entry.2 >= floor);
        assert!(all.iter().eq(expected), "{story}: every entry of {kind:?}");
        for _ in 0..12 {
            let major = match next_random(random) % 4 {
                0 => random_major(kind, random),
                _ => pick(&all, next_random(random)).map_or(7, |entry| entry.1),
            };
            compare_major(
                &format!("{story}: {kind:?} {major}"),
                model,
                random,
                &reader,
                (kind, major),
            );
        }
    }
}

fn compare_major<T: ReadableTable<ChunkKey, &'static [u8]>>(
    story: &str,
    model: &Model,
    random: &mut u64,
    reader: &RunReader<'_, T>,
    (kind, major): (RunKind, u64),
) {
    let ends = [next_random(random), next_random(random)].map(|end| end % (model.newest + 2));
    let minors = match next_random(random) % 3 {
        0 => 0..u64::MAX,
        _ => ends[0]..ends[1],
    };
    let expected = model.minors(kind, major, &minors);
    assert_eq!(reader.count(major, minors.clone()).unwrap(), expected.len() as u64, "{story}");
    let scan = |order| -> Vec<u64> {
        reader.scan(major, minors.clone(), order).collect::<Result<_, _>>().unwrap()
    };
    assert_eq!(scan(Order::OldestFirst), expected, "{story} within {minors:?}");
    let backwards: Vec<u64> = expected.iter().rev().copied().collect();
    assert_eq!(scan(Order::NewestFirst), backwards, "{story} within {minors:?}");
    let left_out = next_random(random) % (expected.len() as u64 + 2);
    for (order, expected) in [(Order::OldestFirst, &expected), (Order::NewestFirst, &backwards)] {
        let mut scan = reader.scan(major, minors.clone(), order);
        scan.leave_out(left_out).unwrap();
        let found = scan.next().transpose().unwrap();
        let expected = expected.get(usize::try_from(left_out).unwrap()).copied();
        assert_eq!(found, expected, "{story}, {left_out} left out of {minors:?}, {order:?}");
    }
    let everything = model.minors(kind, major, &(0..u64::MAX));
    assert_eq!(newest(reader, major), everything.last().copied(), "{story}");
    for minor in [ends[0], pick(&everything, ends[1]).copied().unwrap_or(3)] {
        let is_there = everything.contains(&minor);
        assert_eq!(reader.contains(major, minor).unwrap(), is_there, "{story}: {minor}");
    }
}

/// The newest minor of a major.
fn newest<T: ReadableTable<ChunkKey, &'static [u8]>>(
    reader: &RunReader<'_, T>,
    major: u64,
) -> Option<u64> {
    reader.scan(major, 0..u64::MAX, Order::NewestFirst).next().transpose().unwrap()
}

fn begin(database: &Database, durability: Durability) -> WriteTransaction {
    let mut write_txn = database.begin_write().unwrap();
    write_txn.set_durability(durability).unwrap();
    write_txn
}

fn create(path: &Path) -> Database {
    let database = Database::create(path).unwrap();
    let write_txn = begin(&database, Durability::Immediate);
    crate::store::tables::create_all(&write_txn).unwrap();
    write_txn.commit().unwrap();
    database
}

/// One commit: entries come, merges go on, a floor rises; some are dropped without a trace.
fn commit_or_drop(database: &Database, model: &mut Model, random: &mut u64, len_max: u64) {
    let is_durable = next_random(random).is_multiple_of(8);
    let write_txn =
        begin(database, if is_durable { Durability::Immediate } else { Durability::None });
    let mut after = model.clone();
    let mut writer = RunWriter::open(&write_txn).unwrap();
    append(&mut writer, &mut after, random, len_max);
    if next_random(random).is_multiple_of(6) {
        after.floor = after.floor.max(after.newest.saturating_sub(next_random(random) % 40_000));
        writer.set_floor(RunKind::TransactionMessages, after.floor).unwrap();
    }
    for _ in 0..next_random(random) % 3 {
        writer.merge_step(next_random(random) % 60_000).unwrap();
    }
    if next_random(random).is_multiple_of(5) {
        let reader = writer.reader(KINDS[0]).unwrap();
        reader.check().unwrap();
        compare_major("before the commit", &after, random, &reader, (KINDS[0], 1));
    }
    drop(writer);
    if next_random(random).is_multiple_of(4) {
        write_txn.abort().unwrap();
    } else {
        write_txn.commit().unwrap();
        *model = after;
    }
}

#[test]
fn runs_hold_what_a_sorted_set_holds() {
    for (seed, len_max, steps) in
        [(1, 3, 300), (2, 40, 200), (3, 400, 120), (4, 3_000, 60), (5, 12_000, 40)]
    {
        println!("seed {seed}, commits of up to {len_max}");
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("runs.redb");
        let mut database = create(&path);
        let mut random = seed;
        let mut model = Model::default();
        let counts = Arc::default();
        for step in 0..steps {
            commit_or_drop(&database, &mut model, &mut random, len_max);
            if next_random(&mut random).is_multiple_of(12) {
                // Dropping the database makes its last commit durable.
                drop(database);
                database = Database::open(&path).unwrap();
            }
            if next_random(&mut random).is_multiple_of(10) || step == steps - 1 {
                let runs = tables_of(&database, &counts);
                compare(&format!("seed {seed}, step {step}"), &model, &mut random, &runs);
            }
        }
        check_no_chunk_is_lost(&database);
    }
}

/// Every chunk belongs to a run that is listed.
fn check_no_chunk_is_lost(database: &Database) {
    let read_txn = database.begin_read().unwrap();
    let lists = read_txn.open_table(RUN_LISTS).unwrap();
    let chunks = read_txn.open_table(RUN_CHUNKS).unwrap();
    let mut listed = BTreeSet::new();
    for kind in RunKind::ALL {
        let directory = RunDirectory::read(&lists, kind).unwrap();
        for group in &directory.groups {
            match group {
                Group::Run(run) => drop(listed.insert((kind.number(), run.run))),
                Group::Merge(merge) => listed.extend(
                    merge.inputs.iter().chain([&merge.target]).map(|run| (kind.number(), run.run)),
                ),
            }
        }
        listed.extend(directory.dropped.iter().map(|run| (kind.number(), *run)));
    }
    for chunk in chunks.iter().unwrap() {
        let (kind, run, ..) = chunk.unwrap().0.value();
        assert!(listed.contains(&(kind, run)), "kind {kind}, run {run}");
    }
}

#[test]
fn few_runs_are_left_however_many_commits_there_were() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(&directory.path().join("runs.redb"));
    let kind = RunKind::CardTransactions;
    for (commits, len) in [(2_000_u64, 1_u64), (3_000, 40)] {
        for commit in 0..commits {
            let write_txn = begin(&database, Durability::None);
            let mut writer = RunWriter::open(&write_txn).unwrap();
            let first = 1 + (commit + len * 1_000_000) * 100;
            let mut entries =
                (first..first + len).map(|minor| Entry::new(minor % 7, minor)).collect();
            writer.append(kind, &mut entries).unwrap();
            writer.merge_step(1 << 20).unwrap();
            drop(writer);
            write_txn.commit().unwrap();
        }
    }
    let runs = tables_of(&database, &Arc::default());
    let reader = runs.reader(kind).unwrap();
    for _ in ["counted", "known"] {
        let counted: u64 = (0..7).map(|major| reader.count(major, 0..u64::MAX).unwrap()).sum();
        assert_eq!(counted, 2_000 + 3_000 * 40);
    }
    assert!(reader.runs() < 60, "{} runs", reader.runs());
}

#[test]
fn what_was_appended_is_not_taken_again() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(&directory.path().join("runs.redb"));
    let kind = RunKind::CompanyTransactions;
    let write_txn = begin(&database, Durability::Immediate);
    let mut writer = RunWriter::open(&write_txn).unwrap();
    let entries = |minors: &[u64]| minors.iter().map(|minor| Entry::new(5, *minor)).collect();
    writer.append(kind, &mut entries(&[1, 2, 4])).unwrap();
    writer.append(kind, &mut entries(&[2, 4, 6, 6])).unwrap();
    let found = writer.reader(kind).unwrap().count(5, 0..u64::MAX).unwrap();
    assert_eq!(found, 4);
    let refused = writer.append(kind, &mut entries(&[3, 7]));
    assert!(matches!(&refused, Err(StoreError::Inconsistent { what }) if what.contains("5/3")));
}

#[test]
fn the_widest_numbers_come_back() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(&directory.path().join("runs.redb"));
    let write_txn = begin(&database, Durability::Immediate);
    let mut writer = RunWriter::open(&write_txn).unwrap();
    let kind = RunKind::OriginalKeys;
    let all = [(0, 0), (0, 1), (0, u64::MAX - 1), (1, 2), (u64::MAX, 3), (u64::MAX, u64::MAX)];
    writer.append(kind, &mut all.map(|(major, minor)| Entry::new(major, minor)).into()).unwrap();
    let reader = writer.reader(kind).unwrap();
    let mut found = Vec::new();
    reader.each(0, |entry| found.push((entry.major(), entry.minor()))).unwrap();
    assert_eq!(found, all);
    assert_eq!(newest(&reader, 0), Some(u64::MAX - 1));
    assert_eq!(newest(&reader, 1), Some(2));
    assert_eq!(newest(&reader, 2), None);
}

/// A database with one kind of several chunks, and the keys of those.
fn some_chunks(database: &Database) -> Vec<ChunkKey> {
    let write_txn = begin(database, Durability::Immediate);
    let mut writer = RunWriter::open(&write_txn).unwrap();
    let mut random = 9;
    let mut entries =
        (1..20_000).map(|minor| Entry::new(next_random(&mut random), minor)).collect();
    writer.append(RunKind::OriginalKeys, &mut entries).unwrap();
    let keys = writer.chunks.iter().unwrap().map(|chunk| chunk.unwrap().0.value()).collect();
    drop(writer);
    write_txn.commit().unwrap();
    keys
}

#[test]
fn a_flipped_byte_of_a_chunk_is_found_and_named() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(&directory.path().join("runs.redb"));
    let keys = some_chunks(&database);
    assert!(keys.len() > 3);
    let (key, other) = (keys[1], keys[2]);
    for flip_at in [0, 4, 5, 6, 7, 9, 17, 25, 33, 41, 48, 4_000, 8_000] {
        let write_txn = begin(&database, Durability::Immediate);
        let mut writer = RunWriter::open(&write_txn).unwrap();
        let mut bytes = writer.chunks.get(key).unwrap().unwrap().value().to_vec();
        bytes[flip_at] ^= 4;
        writer.chunks.insert(key, bytes.as_slice()).unwrap();
        assert_names(&writer, key, "its sum is wrong");
        drop(writer);
        write_txn.abort().unwrap();
    }
    for (story, bytes_of) in [("it belongs elsewhere", Some(other)), ("it is cut short", None)] {
        let write_txn = begin(&database, Durability::Immediate);
        let mut writer = RunWriter::open(&write_txn).unwrap();
        let bytes = bytes_of.map_or(vec![1, 2, 3], |other| {
            writer.chunks.get(other).unwrap().unwrap().value().to_vec()
        });
        writer.chunks.insert(key, bytes.as_slice()).unwrap();
        assert_names(&writer, key, story);
        drop(writer);
        write_txn.abort().unwrap();
    }
}

fn assert_names(writer: &RunWriter<'_>, key: ChunkKey, why: &str) {
    let reader = writer.reader(RunKind::OriginalKeys).unwrap();
    let place = format!("table run_chunks, kind 10, run {}, entry {}/{}", key.1, key.2, key.3);
    for error in [
        reader.check().unwrap_err(),
        reader.contains(key.2, key.3).unwrap_err(),
        reader.each(0, |_| ()).unwrap_err(),
    ] {
        let text = error.to_string();
        assert!(text.contains(&place) && text.contains(why), "{text}");
    }
}

#[test]
fn a_chunk_that_is_missing_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(&directory.path().join("runs.redb"));
    let keys = some_chunks(&database);
    for key in keys {
        let write_txn = begin(&database, Durability::Immediate);
        let mut writer = RunWriter::open(&write_txn).unwrap();
        writer.chunks.remove(key).unwrap();
        assert!(writer.reader(RunKind::OriginalKeys).unwrap().check().is_err(), "{key:?}");
        drop(writer);
        write_txn.abort().unwrap();
    }
}

#[test]
fn a_damaged_directory_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(&directory.path().join("runs.redb"));
    some_chunks(&database);
    let write_txn = begin(&database, Durability::Immediate);
    let mut writer = RunWriter::open(&write_txn).unwrap();
    let kind = RunKind::OriginalKeys;
    let bytes = writer.lists.get(kind.number()).unwrap().unwrap().value().to_vec();
    for flip_at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[flip_at] ^= 1;
        writer.lists.insert(kind.number(), flipped.as_slice()).unwrap();
        let text = writer.reader(kind).unwrap_err().to_string();
        assert!(text.contains("run_lists: malformed value: key 10"), "{text}");
    }
}
