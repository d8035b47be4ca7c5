mod faults;
mod followers;

use std::fs;

use tempfile::tempdir;

use super::super::ChainHash;
use super::super::chain::{BatchBuilder, decode_header};
use super::super::testing::{DiskFaultPlan, FaultyDisk, next_random};
use super::super::{BatchKind, DirectoryId, Epoch, JournalFollower, JournalReader};
use super::head::HEAD_NAME;
use super::*;
use crate::steps::StepOutcome;

const IDENTITY: JournalIdentity =
    JournalIdentity { directory_id: DirectoryId(*b"directory-number"), partition: 1 };
const EXPECTED: Expectation =
    Expectation { identity: IDENTITY, checkpoint: Some(ChainPosition::GENESIS) };
/// Tables of which nothing is known, as tools have it.
const UNKNOWN: Expectation = Expectation { identity: IDENTITY, checkpoint: None };
/// Sixteen blocks: fifteen small batches.
const SMALL: LogRetention = LogRetention { keep_bytes: u64::MAX, segment_bytes: 16 * BLOCK_BYTES };
const KEEP_ALL: BatchNumber = BatchNumber(0);

fn open(disk: &FaultyDisk) -> Result<LogJournal, JournalError> {
    open_with(disk, &EXPECTED, SMALL)
}

fn open_with(
    disk: &FaultyDisk,
    expected: &Expectation,
    retention: LogRetention,
) -> Result<LogJournal, JournalError> {
    LogJournal::open_on(Arc::new(disk.clone()), expected, retention)
}

fn refusal(disk: &FaultyDisk, expected: &Expectation) -> JournalError {
    open_with(disk, expected, SMALL).expect_err("it is refused")
}

/// Seals one batch of `count` records of eight bytes each, which hold their own number.
fn batch_after(tip: &ChainPosition, count: u64, group_place: u32) -> SealedBatch {
    let mut builder = BatchBuilder::start(Vec::new());
    for seq in tip.last_seq + 1..=tip.last_seq + count {
        builder.push(1, &seq.to_le_bytes());
    }
    builder.seal_in_group(IDENTITY.partition, tip, group_place)
}

fn append_one(journal: &mut LogJournal, count: u64) -> Result<ChainPosition, JournalError> {
    append_group(journal, &[count])
}

fn append_group(journal: &mut LogJournal, counts: &[u64]) -> Result<ChainPosition, JournalError> {
    let mut tip = journal.tip();
    let mut batches = Vec::new();
    for (place, count) in (0..).zip(counts) {
        let batch = batch_after(&tip, *count, place);
        tip = batch.position();
        batches.push(batch);
    }
    journal.append(&batches)?;
    Ok(tip)
}

fn keep_up(journal: &mut LogJournal, trim_before: BatchNumber) -> Result<(), JournalError> {
    for _ in 0..10_000 {
        if journal.needs_upkeep(trim_before) {
            journal.keep_up(trim_before)?;
        } else if MakerSteps(Arc::clone(&journal.maker)).step() == StepOutcome::Idle {
            return Ok(());
        }
    }
    panic!("upkeep has no end");
}

/// Reads all records from the oldest batch kept, and checks that none is missing between.
fn seqs(reader: LogReader) -> Vec<u64> {
    let first = reader.before_first();
    let mut follower = JournalFollower::after(reader, IDENTITY.partition, first);
    let mut seqs = Vec::new();
    loop {
        let batches = follower.read_next(1000).unwrap();
        if batches.is_empty() {
            break;
        }
        for batch in batches {
            let records = batch.payload().chunks(8);
            seqs.extend(records.map(|record| u64::from_le_bytes(record.try_into().unwrap())));
        }
    }
    assert!(seqs.is_sorted_by(|a, b| a + 1 == *b), "records without holes");
    seqs
}

/// A journal with batches in three segments and all of them acknowledged.
fn three_segments() -> (FaultyDisk, Vec<ChainPosition>) {
    let disk = FaultyDisk::default();
    let mut journal = open(&disk).unwrap();
    let positions = (0..40).map(|_| append_one(&mut journal, 3).unwrap()).collect();
    assert_eq!(journal.newest().ordinal, 3);
    (disk, positions)
}

#[test]
fn opening_writes_a_barrier_of_a_higher_epoch_each_time() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("journal");
    for epoch in 1..4 {
        let mut journal = LogJournal::open(&path, &EXPECTED, SMALL).unwrap();
        assert_eq!(journal.tip().epoch, Epoch(epoch));
        assert_eq!(journal.recovered.last_seq, (epoch - 1) * 5);
        append_one(&mut journal, 5).unwrap();
        assert_eq!(seqs(journal.reader()).len() as u64, epoch * 5);
    }
    let read_only = open_read_only(&path, None, None).unwrap();
    assert_eq!((read_only.identity, read_only.tip.number), (IDENTITY, BatchNumber(6)));
    let stored = read_only.reader.read_from(BatchNumber(1), usize::MAX).unwrap();
    let headers = stored.iter().map(|batch| decode_header(&batch.bytes).unwrap());
    assert_eq!(headers.filter(|header| header.kind == BatchKind::Barrier).count(), 3);
}

#[test]
fn a_journal_in_use_is_refused_to_writers_and_readers() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("journal");
    let journal = LogJournal::open(&path, &EXPECTED, SMALL).unwrap();
    let refused = LogJournal::open(&path, &EXPECTED, SMALL);
    assert!(matches!(refused, Err(JournalError::InUse)));
    assert!(matches!(open_read_only(&path, Some(&IDENTITY), None), Err(JournalError::InUse)));
    drop(journal);
    let reader = open_read_only(&path, Some(&IDENTITY), None).unwrap();
    let refused = LogJournal::open(&path, &EXPECTED, SMALL);
    assert!(matches!(refused, Err(JournalError::InUse)));
    open_read_only(&path, Some(&IDENTITY), None).unwrap();
    drop(reader);
    LogJournal::open(&path, &EXPECTED, SMALL).unwrap();
}

#[test]
fn another_directory_partition_or_kind_of_file_is_refused() {
    let disk = FaultyDisk::default();
    drop(open(&disk).unwrap());
    let mut foreign = EXPECTED;
    foreign.identity.directory_id.0[3] ^= 1;
    assert!(matches!(refusal(&disk, &foreign), JournalError::ForeignDirectory { .. }));
    let mut foreign = EXPECTED;
    foreign.identity.partition = 9;
    let refused = refusal(&disk, &foreign);
    assert!(matches!(refused, JournalError::ForeignPartition { found: 1, expected: 9 }));
    let text = FaultyDisk::default();
    text.create(HEAD_NAME).unwrap().write(0, &[b'a'; 100]).unwrap();
    assert!(matches!(refusal(&text, &EXPECTED), JournalError::NotAJournal { .. }));
    let directory = tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "a text").unwrap();
    let refused = open_read_only(&file, None, None);
    assert!(matches!(refused, Err(JournalError::NotAJournal { .. })));
    let refused = open_read_only(directory.path(), None, None);
    assert!(matches!(refused, Err(JournalError::NotAJournal { .. })));
}

#[test]
fn a_journal_of_a_newer_format_is_refused() {
    let disk = FaultyDisk::default();
    drop(open(&disk).unwrap());
    disk.flip(HEAD_NAME, 4, 3);
    let refused = refusal(&disk, &EXPECTED);
    assert!(matches!(refused, JournalError::NewerFormat { found: 2, supported: 1 }), "{refused}");
}

#[test]
fn the_checkpoint_of_the_tables_is_compared_with_the_chain() {
    let (disk, positions) = three_segments();
    let mut journal = open_with(&disk, &UNKNOWN, LogRetention { keep_bytes: 0, ..SMALL }).unwrap();
    keep_up(&mut journal, BatchNumber(20)).unwrap();
    let first = journal.reader().first().unwrap();
    assert_eq!(first, BatchNumber(16), "a segment has fifteen batches");
    drop(journal);
    let open = |checkpoint| {
        let expected = Expectation { identity: IDENTITY, checkpoint: Some(checkpoint) };
        open_with(&disk.after_kill(), &expected, SMALL).map(drop)
    };
    // The barrier is batch 1, so batch n stands at n - 2; batches 16..=41 are kept. Batch 15 is
    // known by the head of the segment behind it.
    for position in &positions[13..] {
        assert!(open(*position).is_ok(), "batch {}", position.number.0);
    }
    assert!(matches!(open(positions[12]), Err(JournalError::StartsAfterCheckpoint { .. })));
    let beyond = ChainPosition { number: BatchNumber(49), ..positions[39] };
    assert!(matches!(open(beyond), Err(JournalError::EndsBeforeCheckpoint { .. })));
    for at in [13, 14, 39] {
        let mut other = positions[at];
        other.hash = ChainHash([1; 32]);
        assert!(matches!(open(other), Err(JournalError::DiffersFromCheckpoint { .. })), "{at}");
    }
}

#[test]
fn readers_find_batches_by_number() {
    let (disk, positions) = three_segments();
    let journal = open(&disk).unwrap();
    let reader = journal.reader();
    for position in &positions {
        let stored = reader.read_from(position.number, 1).unwrap();
        assert_eq!((stored.len(), stored[0].number), (1, position.number));
    }
    assert_eq!(reader.read_from(BatchNumber(43), usize::MAX).unwrap(), []);
    assert_eq!(reader.read_from(BatchNumber(2), 300).unwrap().len(), 2, "104 bytes each");
    assert_eq!(seqs(reader), (1..=120).collect::<Vec<_>>());
    // Segments that the open has not walked are counted when they are read.
    let expected = Expectation { identity: IDENTITY, checkpoint: Some(positions[39]) };
    drop(journal);
    let journal = open_with(&disk, &expected, SMALL).unwrap();
    assert_eq!(seqs(journal.reader()).len(), 120);
    let mut visited = 0;
    let after = positions[9];
    journal
        .visit_recovered::<JournalError>(after, |header, payload| {
            visited += u64::from(header.record_count);
            assert_eq!(payload.len() as u64, 8 * u64::from(header.record_count));
            Ok(())
        })
        .unwrap();
    assert_eq!(visited, 120 - after.last_seq);
}

#[test]
fn what_is_not_needed_goes_by_segments_and_its_files_are_written_again() {
    const KEEP: u64 = 4 * SMALL.segment_bytes;
    let disk = FaultyDisk::default();
    let retention = LogRetention { keep_bytes: KEEP, ..SMALL };
    let mut journal = open_with(&disk, &EXPECTED, retention).unwrap();
    let mut newest = journal.tip();
    for _ in 0..200 {
        newest = append_one(&mut journal, 2).unwrap();
        keep_up(&mut journal, newest.number).unwrap();
        assert!(disk.bytes() <= KEEP + 2 * SMALL.segment_bytes + 3 * BLOCK_BYTES);
    }
    let first = journal.reader().first().unwrap();
    assert!(first > BatchNumber(100), "{first:?}");
    let reader = journal.reader();
    let refused = reader.read_from(BatchNumber(first.0 - 1), 1);
    assert!(matches!(refused, Err(JournalError::Trimmed { first: kept }) if kept == first));
    let kept = seqs(reader);
    assert_eq!((kept[0], kept[kept.len() - 1]), (2 * (first.0 - 2) + 1, 400));
    // Batches that recovery needs stay, however many they are.
    for _ in 0..200 {
        append_one(&mut journal, 2).unwrap();
        keep_up(&mut journal, newest.number).unwrap();
    }
    assert!(journal.reader().first().unwrap() <= newest.number && disk.bytes() > 2 * KEEP);
    drop(journal);
    let expected = Expectation { identity: IDENTITY, checkpoint: Some(newest) };
    let mut journal = open_with(&disk.after_kill(), &expected, retention).unwrap();
    assert_eq!(seqs(journal.reader()).last(), Some(&800));
    keep_up(&mut journal, BatchNumber(u64::MAX)).unwrap();
    assert!(disk.bytes() >= KEEP && journal.reader().first().unwrap() <= journal.tip().number);
}

#[test]
fn the_blocks_behind_the_tip_are_written_ahead_and_the_next_segment_is_made() {
    let disk = FaultyDisk::default();
    let mut journal = open(&disk).unwrap();
    keep_up(&mut journal, KEEP_ALL).unwrap();
    assert_eq!(journal.zeroed_until, SMALL.segment_bytes, "a small one as a whole");
    assert_eq!(journal.next, NextSegment::Ordered);
    // One write for each group, one for its note, and one sync; a new segment costs no more.
    for _ in 0..14 {
        disk.plan(DiskFaultPlan::default());
        append_one(&mut journal, 3).unwrap();
        assert_eq!((disk.writes(), disk.syncs()), (2, 1));
    }
    append_one(&mut journal, 3).unwrap();
    assert_eq!((journal.newest().ordinal, disk.writes(), disk.syncs()), (2, 4, 2));
}

#[test]
fn commits_that_overtake_the_zeroes_still_order_the_next_segment_and_let_old_ones_go() {
    const SEGMENT: u64 = 2 << 20;
    let disk = FaultyDisk::default();
    let retention = LogRetention { keep_bytes: 0, segment_bytes: SEGMENT };
    let mut journal = open_with(&disk, &EXPECTED, retention).unwrap();
    for _ in 0..60 {
        let mut builder = BatchBuilder::start(Vec::new());
        builder.push(1, &vec![7; ZERO_STEP_BYTES + 1]);
        journal.append(&[builder.seal(IDENTITY.partition, &journal.tip())]).unwrap();
        // As between two groups: one duty, and the maker works beside it.
        let newest = journal.tip().number;
        if journal.needs_upkeep(newest) {
            journal.keep_up(newest).unwrap();
        }
        MakerSteps(Arc::clone(&journal.maker)).step();
        let next = journal.newest().ordinal + 1;
        let is_late = journal.newest().end() > SEGMENT / 2 && journal.next != NextSegment::Ordered;
        assert!(!is_late, "segment {next}");
        assert!(disk.bytes() <= 4 * SEGMENT, "{} bytes", disk.bytes());
    }
}

#[test]
fn a_file_of_the_past_is_removed_by_the_maker_and_by_whoever_needs_its_room() {
    let disk = FaultyDisk::default();
    let retention = LogRetention { keep_bytes: u64::MAX, ..SMALL };
    let mut journal = open_with(&disk, &EXPECTED, retention).unwrap();
    let fill = |journal: &mut LogJournal| {
        for _ in 0..15 * 4 {
            append_one(journal, 3).unwrap();
        }
    };
    let let_go = |journal: &mut LogJournal| {
        while journal.is_releasable(journal.tip().number) {
            journal.keep_up(journal.tip().number).unwrap();
        }
    };
    let files = |disk: &FaultyDisk| {
        disk.names().unwrap().iter().filter(|name| name.ends_with(".segment")).count()
    };
    fill(&mut journal);
    journal.retention.keep_bytes = 0;
    let before = files(&disk);
    let_go(&mut journal);
    assert_eq!(files(&disk), before, "no commit waits for it");
    MakerSteps(Arc::clone(&journal.maker)).step();
    // The newest, and two to be written again: one is ordered.
    assert_eq!(files(&disk), 3);
    journal.retention.keep_bytes = u64::MAX;
    fill(&mut journal);
    journal.retention.keep_bytes = 0;
    let_go(&mut journal);
    let (many, newest) = (files(&disk), journal.newest().ordinal);
    while journal.newest().ordinal == newest {
        append_one(&mut journal, 3).unwrap();
    }
    assert!(files(&disk) < many, "the next segment finds room");
}

#[test]
fn a_batch_larger_than_a_segment_has_one_of_its_own() {
    let disk = FaultyDisk::default();
    let mut journal = open(&disk).unwrap();
    keep_up(&mut journal, KEEP_ALL).unwrap();
    append_group(&mut journal, &[3, 20_000, 3, 40_000, 1]).unwrap();
    append_one(&mut journal, 9).unwrap();
    assert_eq!(seqs(journal.reader()).len(), 60_016);
    drop(journal);
    assert_eq!(seqs(open(&disk.after_kill()).unwrap().reader()).len(), 60_016);
}

/// A journal whose writer was killed, and what a read-only open says of it.
#[test]
fn a_read_only_open_proves_all_and_changes_nothing() {
    let (disk, _) = three_segments();
    let killed = disk.after_kill();
    let contents = |disk: &FaultyDisk| -> Vec<_> {
        let mut names = disk.names().unwrap();
        names.sort();
        names.into_iter().map(|name| (disk.content(&name), name)).collect()
    };
    let before = contents(&killed);
    killed.plan(DiskFaultPlan::default());
    let journal = open_read_only_on(&killed, None, None).unwrap();
    assert_eq!(seqs(journal.reader).len(), 120);
    assert!(contents(&killed) == before);
    assert_eq!(killed.writes() + killed.syncs(), 0);
    killed.flip(&segment_name(1), 2 * 4096 + 90, 1);
    let refused = open_read_only_on(&killed, None, None).unwrap_err();
    let JournalError::Damaged { file, offset, .. } = &refused else { panic!("{refused}") };
    assert_eq!((file.as_str(), *offset), ("0000000000000001.segment", 8192));
}

/// Every flip in an acknowledged batch or a head refuses the start, and names the place. The note,
/// which a kill leaves, shows the batches that were written after the last sync.
#[test]
fn a_flipped_byte_refuses_the_start_with_its_place() {
    const FLIPS: u64 = 400;
    let (disk, _) = three_segments();
    let mut state = 7;
    for _ in 0..FLIPS {
        let ordinal = 1 + next_random(&mut state) % 3;
        let batches = if ordinal == 3 { 41 - 30 } else { 15 };
        let block = usize::try_from(next_random(&mut state) % (batches + 1)).unwrap();
        // A batch of three records has 104 bytes, the head of a segment 100; padding is not proven.
        let place = usize::try_from(next_random(&mut state) % 100).unwrap();
        let damaged = disk.after_kill();
        let name = segment_name(ordinal);
        damaged.flip(&name, block * BLOCK_LEN + place, 1 << (next_random(&mut state) % 8));
        let refused = refusal(&damaged, &EXPECTED);
        let told = refused.to_string();
        let (file, offset) = match refused {
            JournalError::Damaged { file, offset, .. } => (file, offset),
            JournalError::EndsBeforeAcknowledged { damage: Some(damage), .. } => {
                (damage.file, damage.file_offset)
            }
            other => panic!("{other}"),
        };
        // A lost head of the newest segment makes the journal end with the segment before.
        let is_newest_head = ordinal == 3 && block == 0;
        if !is_newest_head {
            assert_eq!(file, name, "{told}");
            assert_eq!(offset, (block * BLOCK_LEN) as u64, "{told}");
        }
    }
}

/// After a power failure the note may be old: later batches prove the earlier ones.
#[test]
fn damage_before_the_last_group_is_never_taken_for_a_torn_one() {
    let (disk, _) = three_segments();
    for block in 0..11_u32 {
        let damaged = disk.after_power_failure();
        damaged.remove("ack").unwrap();
        damaged.flip(&segment_name(3), block as usize * BLOCK_LEN + 90, 1);
        let refused = refusal(&damaged, &EXPECTED);
        assert!(matches!(refused, JournalError::Damaged { .. }), "block {block}: {refused}");
    }
    // The last batch looks torn, whatever is damaged: magic, version, kind, number, length, hash or
    // records. Without the note, nothing says that it was acknowledged, but the cut is told.
    for place in [0, 4, 5, 17, 39, 41, 90] {
        let damaged = disk.after_power_failure();
        damaged.remove("ack").unwrap();
        damaged.flip(&segment_name(3), 11 * BLOCK_LEN + place, 0x40);
        let journal = open(&damaged).unwrap();
        assert_eq!(journal.recovered.last_seq, 117);
        let note = JournalNote::TornTail {
            file: segment_name(3),
            offset: 11 * BLOCK_BYTES,
            last_seq: 117,
            has_whole_batch: false,
        };
        assert_eq!(journal.notes, [note], "byte {place}");
    }
}

/// A start in the same boot reads what a failed sync left in memory. It went on behind that, and a
/// power failure then took it away from under what followed.
#[test]
fn a_start_makes_durable_what_a_failed_sync_left() {
    let disk = FaultyDisk::default();
    let mut journal = open(&disk).unwrap();
    append_one(&mut journal, 300).unwrap();
    disk.plan(DiskFaultPlan { fail_sync: Some(1), ..DiskFaultPlan::default() });
    append_one(&mut journal, 300).unwrap_err();
    let killed = disk.after_kill();
    let mut journal = open(&killed).unwrap();
    let left = journal.recovered.last_seq;
    append_one(&mut journal, 300).unwrap();
    let journal = open(&killed.after_power_failure()).unwrap();
    assert_eq!(journal.recovered.last_seq, left + 300);
}

#[test]
fn a_last_group_that_was_acknowledged_is_never_rolled_back() {
    let disk = FaultyDisk::default();
    let mut journal = open(&disk).unwrap();
    append_one(&mut journal, 300).unwrap();
    append_group(&mut journal, &[300, 300]).unwrap();
    for (block, last) in [(3, 2), (4, 3)] {
        let killed = disk.after_kill();
        killed.flip(&segment_name(1), block * BLOCK_LEN + 500, 1);
        let error = refusal(&killed, &EXPECTED);
        let JournalError::EndsBeforeAcknowledged { acknowledged, last: found, damage } = error
        else {
            panic!("{error}");
        };
        assert_eq!((acknowledged, found), (BatchNumber(4), Some(BatchNumber(last))));
        assert_eq!(damage.unwrap().file_offset, (block * BLOCK_LEN) as u64);
    }
}

/// Files that are not where they belong.
#[test]
fn segments_that_are_lost_renamed_swapped_or_doubled_are_found() {
    let name = segment_name;
    type Harm = (&'static str, fn(&FaultyDisk));
    let cases: [Harm; 8] = [
        ("the oldest is lost", |disk| disk.remove(&segment_name(1)).unwrap()),
        ("one between is lost", |disk| disk.remove(&segment_name(2)).unwrap()),
        ("the newest is lost", |disk| disk.remove(&segment_name(3)).unwrap()),
        ("all are lost", |disk| {
            (1..4).for_each(|ordinal| disk.remove(&segment_name(ordinal)).unwrap());
        }),
        ("the head is lost", |disk| disk.remove(HEAD_NAME).unwrap()),
        ("the newest is renamed", |disk| {
            disk.rename(&segment_name(3), &segment_name(4)).unwrap();
        }),
        ("two are swapped", |disk| {
            disk.rename(&segment_name(1), "aside").unwrap();
            disk.rename(&segment_name(2), &segment_name(1)).unwrap();
            disk.rename("aside", &segment_name(2)).unwrap();
        }),
        ("one is doubled", |disk| {
            let copy = disk.create(&segment_name(4)).unwrap();
            copy.write(0, &disk.content(&segment_name(2))).unwrap();
        }),
    ];
    for (case, harm) in cases {
        let (disk, _) = three_segments();
        let harmed = disk.after_kill();
        harm(&harmed);
        for expected in [EXPECTED, UNKNOWN] {
            println!("{case}: {}", refusal(&harmed, &expected));
        }
    }
    // Everything is lost, and the tables know better.
    let tables = ChainPosition { number: BatchNumber(4), ..ChainPosition::GENESIS };
    let expected = Expectation { identity: IDENTITY, checkpoint: Some(tables) };
    let refused = refusal(&FaultyDisk::default(), &expected);
    assert!(matches!(refused, JournalError::EndsBeforeCheckpoint { last: None, .. }));
    // Bytes left from before a reuse count for nothing.
    let (disk, _) = three_segments();
    let old = disk.content(&name(1));
    let mut journal = open_with(&disk, &UNKNOWN, LogRetention { keep_bytes: 0, ..SMALL }).unwrap();
    keep_up(&mut journal, BatchNumber(u64::MAX)).unwrap();
    drop(journal);
    assert!(!disk.names().unwrap().contains(&name(1)), "{:?}", disk.names());
    disk.create(&name(1)).unwrap().write(0, &old).unwrap();
    let journal = open_with(&disk, &UNKNOWN, SMALL).unwrap();
    assert_eq!(journal.reader().first().unwrap(), BatchNumber(31));
}

#[test]
fn a_journal_that_was_deleted_is_missed() {
    let disk = FaultyDisk::default();
    append_one(&mut open(&disk).unwrap(), 1).unwrap();
    let without = disk.after_kill();
    without.remove(HEAD_NAME).unwrap();
    without.remove(&segment_name(1)).unwrap();
    let refused = refusal(&without, &EXPECTED);
    assert!(matches!(refused, JournalError::EndsBeforeAcknowledged { last: None, .. }));
}

#[test]
fn an_unacknowledged_torn_group_is_dropped() {
    let mut dropped = 0;
    for seed in 0..60 {
        let disk = FaultyDisk::default();
        let mut journal = open(&disk).unwrap();
        append_one(&mut journal, 300).unwrap();
        disk.plan(DiskFaultPlan { fail_sync: Some(1), ..DiskFaultPlan::default() });
        append_group(&mut journal, &[1_000, 700, 300]).unwrap_err();
        let torn = disk.after_torn_power_failure(seed);
        let mut journal = open(&torn).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let found = seqs(journal.reader()).len();
        assert!([300, 1_300, 2_000, 2_300].contains(&found), "seed {seed}: {found} records");
        dropped += usize::from(!journal.notes.is_empty());
        // Cut bytes are cut for ever: their rest does not come back behind the batches that follow.
        append_one(&mut journal, 4).unwrap();
        drop(journal);
        let again = open(&torn.after_kill()).unwrap();
        assert_eq!(seqs(again.reader()).len(), found + 4, "seed {seed}");
    }
    assert!(dropped > 10, "{dropped}");
}
