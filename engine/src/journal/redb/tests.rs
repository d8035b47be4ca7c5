use tempfile::tempdir;

use super::super::chain::{BATCH_HEADER_BYTES, BatchBuilder};
use super::super::testing::{FaultPlan, FaultyBackend, next_random};
use super::super::{BatchKind, DirectoryId, Epoch, JournalFollower, JournalReader};
use super::*;

const IDENTITY: JournalIdentity =
    JournalIdentity { directory_id: DirectoryId(*b"directory-number"), partition: 1 };
const EXPECTED: Expectation =
    Expectation { identity: IDENTITY, checkpoint: Some(ChainPosition::GENESIS) };
const NO_TRIM: BatchNumber = BatchNumber(0);

/// A journal and its note, on disks that fail on request.
#[derive(Clone, Default)]
struct Disks {
    journal: FaultyBackend,
    mark: FaultyBackend,
}

impl Disks {
    fn open(&self, expected: &Expectation) -> Result<RedbJournal, JournalError> {
        let (journal, mark) = (self.journal.clone(), self.mark.clone());
        RedbJournal::open_on(SharedBackend::new(journal), SharedBackend::new(mark), expected)
    }

    fn open_read_only(&self) -> Result<ReadOnlyJournal, JournalError> {
        let (journal, mark) = (self.journal.clone(), self.mark.clone());
        let mark = SharedBackend::new(mark);
        open_read_only_on(&SharedBackend::new(journal), mark, Some(&IDENTITY), None)
    }

    fn after_kill(&self) -> Self {
        Self { journal: self.journal.after_kill(), mark: self.mark.after_kill() }
    }

    fn after_power_failure(&self) -> Self {
        Self { journal: self.journal.after_power_failure(), mark: self.mark.after_power_failure() }
    }
}

/// Seals one batch of `count` records of eight bytes each, which hold their own number.
fn batch_after(tip: &ChainPosition, count: u64) -> SealedBatch {
    let mut builder = BatchBuilder::start(Vec::new());
    for seq in tip.last_seq + 1..=tip.last_seq + count {
        builder.push(1, &seq.to_le_bytes());
    }
    builder.seal(IDENTITY.partition, tip)
}

fn append_one(journal: &mut RedbJournal, count: u64) -> Result<ChainPosition, JournalError> {
    let batch = batch_after(&journal.tip(), count);
    journal.append(std::slice::from_ref(&batch), NO_TRIM)?;
    Ok(batch.position())
}

/// Reads all records from the oldest batch kept, and checks that none is missing between.
fn seqs(reader: RedbReader) -> Vec<u64> {
    let mut follower = JournalFollower::from_first(reader, IDENTITY.partition).unwrap();
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

#[test]
fn opening_writes_a_barrier_of_a_higher_epoch_each_time() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("journal.redb");
    for epoch in 1..4 {
        let mut journal = RedbJournal::open(&path, &EXPECTED).unwrap();
        assert_eq!(journal.tip().epoch, Epoch(epoch));
        assert_eq!(journal.recovered().last_seq, (epoch - 1) * 5);
        append_one(&mut journal, 5).unwrap();
        assert_eq!(seqs(journal.reader()).len() as u64, epoch * 5);
    }
    let read_only = open_read_only(&path, None, None).unwrap();
    assert_eq!((read_only.identity, read_only.tip.number), (IDENTITY, BatchNumber(6)));
    let stored = read_only.reader.read_from(BatchNumber(1), usize::MAX).unwrap();
    let kinds = stored.iter().map(|batch| super::super::chain::decode_header(&batch.bytes));
    let barriers = kinds.filter(|header| header.as_ref().unwrap().kind == BatchKind::Barrier);
    assert_eq!(barriers.count(), 3);
}

#[test]
fn a_journal_in_use_is_refused_to_writers_and_readers() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("journal.redb");
    let journal = RedbJournal::open(&path, &EXPECTED).unwrap();
    assert!(matches!(RedbJournal::open(&path, &EXPECTED), Err(JournalError::InUse)));
    let refused = open_read_only(&path, Some(&IDENTITY), None);
    assert!(matches!(refused, Err(JournalError::InUse)));
    drop(journal);
    let reader = open_read_only(&path, Some(&IDENTITY), None).unwrap();
    assert!(matches!(RedbJournal::open(&path, &EXPECTED), Err(JournalError::InUse)));
    open_read_only(&path, Some(&IDENTITY), None).unwrap();
    drop(reader);
    RedbJournal::open(&path, &EXPECTED).unwrap();
}

#[test]
fn another_directory_partition_or_kind_of_file_is_refused() {
    let disks = Disks::default();
    drop(disks.open(&EXPECTED).unwrap());
    let mut foreign = EXPECTED;
    foreign.identity.directory_id.0[3] ^= 1;
    assert!(matches!(disks.open(&foreign), Err(JournalError::ForeignDirectory { .. })));
    let mut foreign = EXPECTED;
    foreign.identity.partition = 9;
    let refused = disks.open(&foreign);
    assert!(matches!(refused, Err(JournalError::ForeignPartition { found: 1, expected: 9 })));
    let text = FaultyBackend::with_content(b"a text file, not a journal at all".to_vec());
    let disks = Disks { journal: text, ..disks };
    assert!(matches!(disks.open(&EXPECTED), Err(JournalError::NotAJournal { .. })));
}

#[test]
fn a_journal_of_a_newer_format_is_refused() {
    let disks = Disks::default();
    drop(disks.open(&EXPECTED).unwrap());
    let db = Database::builder().create_with_backend(disks.journal.clone()).unwrap();
    let write_txn = db.begin_write().unwrap();
    let mut newer = meta::render(&IDENTITY);
    newer[0] = 2;
    write_txn.open_table(META).unwrap().insert(meta::KEY, newer.as_slice()).unwrap();
    write_txn.commit().unwrap();
    drop(db);
    let refused = disks.open(&EXPECTED);
    assert!(matches!(refused, Err(JournalError::NewerFormat { found: 2, supported: 1 })));
}

#[test]
fn the_checkpoint_of_the_tables_is_compared_with_the_chain() {
    let disks = Disks::default();
    let mut journal = disks.open(&EXPECTED).unwrap();
    let positions: Vec<_> = (0..40).map(|_| append_one(&mut journal, 3).unwrap()).collect();
    while journal.first() < BatchNumber(11) {
        journal.trim(BatchNumber(11)).unwrap();
    }
    drop(journal);
    let open = |checkpoint| {
        let disks = disks.after_kill();
        disks.open(&Expectation { identity: IDENTITY, checkpoint: Some(checkpoint) }).map(drop)
    };
    // The barrier is batch 1, so batch n stands at n - 2; batches 11..=41 are kept.
    for position in &positions[8..] {
        assert!(open(*position).is_ok(), "batch {}", position.number.0);
    }
    let refused = open(positions[7]);
    assert!(matches!(refused, Err(JournalError::StartsAfterCheckpoint { .. })));
    let beyond = ChainPosition { number: BatchNumber(42), ..positions[39] };
    assert!(matches!(open(beyond), Err(JournalError::EndsBeforeCheckpoint { .. })));
    for at in [8, 9, 39] {
        let mut other = positions[at];
        other.hash.0[0] ^= 1;
        assert!(matches!(open(other), Err(JournalError::DiffersFromCheckpoint { .. })), "{at}");
    }
    let empty = Disks::default();
    let expected = Expectation { identity: IDENTITY, checkpoint: Some(positions[0]) };
    let refused = empty.open(&expected);
    assert!(matches!(refused, Err(JournalError::EndsBeforeCheckpoint { last: None, .. })));
    assert!(empty.journal.content().is_empty(), "a refused open makes no file");
}

#[test]
fn batches_are_found_by_record() {
    let disks = Disks::default();
    let mut journal = disks.open(&EXPECTED).unwrap();
    let mut ends = Vec::new();
    for count in [1, 7, 2, 30, 1, 1, 5] {
        ends.push(append_one(&mut journal, count).unwrap());
    }
    drop(journal);
    let mut journal = disks.open(&EXPECTED).unwrap();
    ends.push(append_one(&mut journal, 4).unwrap());
    let reader = journal.reader();
    for seq in 1..=51 {
        let holder = ends.iter().find(|end| end.last_seq >= seq).unwrap();
        assert_eq!(reader.find_batch_of_seq(seq).unwrap(), Some(holder.number), "record {seq}");
    }
    assert_eq!(reader.find_batch_of_seq(52).unwrap(), None);
    while journal.first() < BatchNumber(4) {
        journal.trim(BatchNumber(4)).unwrap();
    }
    assert!(matches!(reader.find_batch_of_seq(8), Err(JournalError::Trimmed { .. })));
    assert_eq!(reader.find_batch_of_seq(9).unwrap(), Some(BatchNumber(4)));
    let refused = reader.read_from(BatchNumber(3), 1);
    assert!(matches!(refused, Err(JournalError::Trimmed { first: BatchNumber(4) })));
}

#[test]
fn the_last_batch_is_never_trimmed() {
    let disks = Disks::default();
    let mut journal = disks.open(&EXPECTED).unwrap();
    for _ in 0..50 {
        append_one(&mut journal, 1).unwrap();
    }
    for _ in 0..10 {
        journal.trim(BatchNumber(u64::MAX)).unwrap();
    }
    assert_eq!(journal.first(), journal.tip().number);
    drop(journal);
    let expected = Expectation { identity: IDENTITY, checkpoint: None };
    assert_eq!(disks.open(&expected).unwrap().recovered().last_seq, 50);
}

#[test]
fn trimming_in_step_keeps_the_file_small() {
    const RECORDS: u64 = 200_000;
    const KEPT_BATCHES: u64 = 8;
    let disks = Disks::default();
    let mut journal = disks.open(&EXPECTED).unwrap();
    while journal.tip().last_seq < RECORDS {
        let batch = batch_after(&journal.tip(), 1000);
        let trim_before = BatchNumber(batch.header.number.0.saturating_sub(KEPT_BATCHES));
        journal.append(&[batch], trim_before).unwrap();
    }
    let kept = journal.tip().number.0 - journal.first().0;
    assert!(kept <= KEPT_BATCHES + 1, "{kept} batches kept");
    let written_bytes = RECORDS * 8;
    let file_bytes = disks.journal.content().len() as u64;
    println!("{written_bytes} bytes of records, file of {file_bytes}");
    assert!(file_bytes < written_bytes / 2, "{file_bytes} bytes");
}

/// Whatever the size of what comes, and when that changes, the file stays within its bound.
#[test]
fn a_ring_of_so_many_bytes_keeps_its_file_within_them() {
    const BOUND: u64 = 16 << 20;
    let disks = Disks::default();
    let mut journal = disks.open(&EXPECTED).unwrap();
    journal.keep_bytes(BOUND / 8 * 3);
    let seed = 9;
    let mut state = seed;
    println!("seed {seed}");
    let mut written_bytes = 0;
    for (phase, records_max) in [(1, 10), (2, 30_000), (3, 500), (4, 60_000), (5, 3)] {
        let mut phase_bytes = 0;
        while phase_bytes < 2 * BOUND && journal.tip().number.0 < phase * 3_000 {
            let batch = batch_after(&journal.tip(), 1 + next_random(&mut state) % records_max);
            phase_bytes += batch.bytes.len() as u64;
            // The tables are a little behind: what they have not saved must stay.
            let saved = BatchNumber(journal.tip().number.0.saturating_sub(4));
            journal.append(&[batch], saved).unwrap();
            assert!(journal.first() <= saved.max(BatchNumber(1)), "what recovery needs stays");
        }
        written_bytes += phase_bytes;
        let file_bytes = SharedBackend::new(disks.journal.clone()).len().unwrap();
        let kept = journal.tip().number.0 - journal.first().0;
        println!("phase {phase}: {written_bytes} bytes, file of {file_bytes}, {kept} batches kept");
        assert!(file_bytes <= BOUND, "{file_bytes} bytes");
    }
    assert!(written_bytes > 4 * BOUND, "a ring that is never full proves nothing");
    drop(journal);
    let last = disks.open_read_only().unwrap();
    assert!(last.first > BatchNumber(1) && seqs(last.reader).len() > 100);
}

#[test]
fn a_ring_found_again_keeps_its_bound() {
    const BOUND: u64 = 8 << 20;
    let disks = Disks::default();
    for session in 0..4 {
        let unknown = Expectation { identity: IDENTITY, checkpoint: None };
        let mut journal = disks.open(&unknown).unwrap();
        journal.keep_bytes(BOUND / 8 * 3);
        for _ in 0..200 {
            let batch = batch_after(&journal.tip(), 15_000);
            journal.append(&[batch], journal.tip().number).unwrap();
        }
        let file_bytes = SharedBackend::new(disks.journal.clone()).len().unwrap();
        assert!(file_bytes <= BOUND, "session {session}: {file_bytes} bytes");
        assert!(journal.tip().number.0 - journal.first().0 >= 10, "it keeps what has room");
    }
}

#[test]
fn a_start_shows_what_follows_the_checkpoint_and_nothing_else() {
    let disks = Disks::default();
    let mut journal = disks.open(&EXPECTED).unwrap();
    let positions: Vec<_> = (0..12).map(|_| append_one(&mut journal, 7).unwrap()).collect();
    drop(journal);
    for (place, checkpoint) in positions.iter().enumerate() {
        let expected = Expectation { identity: IDENTITY, checkpoint: Some(*checkpoint) };
        let journal = disks.after_kill().open(&expected).unwrap();
        let mut shown = Vec::new();
        let visited = journal.visit_recovered(*checkpoint, |header, payload| {
            assert_eq!(payload.len() as u64, u64::from(header.record_count) * 8);
            shown.push(header.last_seq());
            Ok::<_, JournalError>(())
        });
        visited.unwrap();
        let after = positions[place + 1..].iter().map(|position| position.last_seq);
        assert_eq!(shown, after.collect::<Vec<_>>());
    }
}

/// A start reads only what recovery needs, so its time does not grow with history; `verify`, which
/// opens for reading, proves the rest.
#[test]
fn a_start_proves_the_chain_from_the_checkpoint_on_and_a_reader_all_of_it() {
    let disks = Disks::default();
    let mut journal = disks.open(&EXPECTED).unwrap();
    let positions: Vec<_> = (0..12).map(|_| append_one(&mut journal, 300).unwrap()).collect();
    let stored = journal.reader().read_from(BatchNumber(1), usize::MAX).unwrap();
    drop(journal);
    let checkpoint = positions[6];
    let expected = Expectation { identity: IDENTITY, checkpoint: Some(checkpoint) };
    for batch in &stored {
        let start = offset_of(&disks.journal.content(), &batch.bytes);
        for at in [5, 41, batch.bytes.len() - 1] {
            let damaged = disks.after_kill();
            damaged.journal.flip(start + at, 0x20);
            let key_of = |error| match error {
                JournalError::Corrupt { key, .. } => key,
                error => panic!("batch {} byte {at}: {error}", batch.number.0),
            };
            assert_eq!(key_of(damaged.open_read_only().unwrap_err()), batch.number.0);
            match damaged.open(&expected) {
                Ok(journal) => {
                    assert!(batch.number < checkpoint.number, "batch {}", batch.number.0);
                    assert_eq!(journal.recovered(), positions[11]);
                }
                Err(error) => {
                    assert!(batch.number >= checkpoint.number);
                    assert_eq!(key_of(error), batch.number.0);
                }
            }
        }
    }
}

#[test]
fn reading_only_changes_no_byte_even_after_a_kill() {
    let disks = Disks::default();
    let mut journal = disks.open(&EXPECTED).unwrap();
    for _ in 0..20 {
        append_one(&mut journal, 100).unwrap();
    }
    let killed = disks.after_kill();
    let before = (killed.journal.content(), killed.mark.content());
    for _ in 0..2 {
        let read_only = killed.open_read_only().unwrap();
        assert_eq!(read_only.tip, journal.tip());
        assert_eq!(seqs(read_only.reader).len(), 2000);
    }
    assert!(before == (killed.journal.content(), killed.mark.content()));
    assert_eq!(killed.journal.writes() + killed.mark.writes(), 0);
    assert_eq!(seqs(killed.open(&EXPECTED).unwrap().reader()).len(), 2000);
}

/// Where the batch with this number lies in the file.
fn offset_of(content: &[u8], batch: &[u8]) -> usize {
    content.windows(batch.len()).position(|window| window == batch).unwrap()
}

#[test]
fn a_flipped_byte_in_any_stored_batch_is_refused_with_key_and_offset() {
    let disks = Disks::default();
    let mut journal = disks.open(&EXPECTED).unwrap();
    for _ in 0..12 {
        append_one(&mut journal, 300).unwrap();
    }
    let stored = journal.reader().read_from(BatchNumber(1), usize::MAX).unwrap();
    drop(journal);
    for batch in stored {
        let start = offset_of(&disks.journal.content(), &batch.bytes);
        for at in [0, 5, 17, 41, 73, batch.bytes.len() / 2, batch.bytes.len() - 1] {
            let damaged = disks.after_kill();
            damaged.journal.flip(start + at, 0x20);
            let error = damaged.open(&EXPECTED).unwrap_err();
            let JournalError::Corrupt { key, offset, .. } = error else {
                panic!("batch {} byte {at}: {error}", batch.number.0);
            };
            // A fault shows where it is checked, which for a checksum is the checksum.
            assert_eq!(key, batch.number.0);
            assert!(offset < BATCH_HEADER_BYTES as u64);
            assert!(damaged.open_read_only().is_err());
        }
    }
}

#[test]
fn a_flipped_byte_in_a_killed_journal_is_refused_too() {
    let disks = Disks::default();
    let mut journal = disks.open(&EXPECTED).unwrap();
    for _ in 0..12 {
        append_one(&mut journal, 300).unwrap();
    }
    let stored = journal.reader().read_from(BatchNumber(1), usize::MAX).unwrap();
    let killed = disks.after_kill();
    for batch in stored {
        let start = offset_of(&killed.journal.content(), &batch.bytes);
        for at in [0, 17, batch.bytes.len() - 1] {
            let damaged = killed.after_kill();
            damaged.journal.flip(start + at, 0x20);
            let error = damaged.open(&EXPECTED).unwrap_err();
            println!("batch {} byte {at}: {error}", batch.number.0);
            let (JournalError::CorruptFile { damage, .. }
            | JournalError::EndsBeforeAcknowledged { damage, .. }) = error
            else {
                panic!("{error}");
            };
            // A batch without its magic cannot be found by searching for it.
            let file_offset = damage.map(|damage| damage.file_offset);
            assert_eq!(file_offset, (at > 0).then_some(start as u64));
        }
    }
}

/// Damage anywhere at all: a journal opens with every record, or not at all.
#[test]
fn a_flipped_byte_anywhere_never_loses_a_record_in_silence() {
    const FLIPS: u64 = 150;
    let disks = Disks::default();
    let mut journal = disks.open(&EXPECTED).unwrap();
    for _ in 0..8 {
        append_one(&mut journal, 200).unwrap();
    }
    let killed = disks.after_kill();
    drop(journal);
    let seed = 7;
    let mut state = seed;
    println!("seed {seed}");
    for (name, disks) in [("killed", &killed), ("closed", &disks)] {
        let len = disks.journal.content().len() as u64;
        let mut refused = 0;
        for nth in 0..FLIPS {
            // Most of a new file is empty space, so half of the flips go to where pages are.
            let reach = if nth % 2 == 0 { len } else { len.min(100_000) };
            let at = usize::try_from(next_random(&mut state) % reach).unwrap();
            let damaged = disks.after_kill();
            damaged.journal.flip(at, 0x04);
            match damaged.open(&EXPECTED) {
                Ok(journal) => assert_eq!(seqs(journal.reader()).len(), 1600, "{name}: byte {at}"),
                Err(_) => refused += 1,
            }
        }
        println!("{name}: {refused} of {FLIPS} flips refused, the others were in unused bytes");
    }
}

#[test]
fn a_last_commit_that_was_acknowledged_is_never_rolled_back() {
    let disks = Disks::default();
    let mut journal = disks.open(&EXPECTED).unwrap();
    append_one(&mut journal, 300).unwrap();
    append_one(&mut journal, 300).unwrap();
    let last = journal.reader().read_from(journal.tip().number, usize::MAX).unwrap();
    let killed = disks.after_kill();
    let start = offset_of(&killed.journal.content(), &last[0].bytes);
    killed.journal.flip(start + 500, 1);
    let error = killed.open(&EXPECTED).unwrap_err();
    let JournalError::EndsBeforeAcknowledged { acknowledged, last, damage } = error else {
        panic!("{error}");
    };
    assert_eq!((acknowledged, last), (BatchNumber(3), Some(BatchNumber(2))));
    assert_eq!(damage.unwrap().file_offset, start as u64);
}

#[test]
fn a_journal_that_was_deleted_is_missed() {
    let disks = Disks::default();
    append_one(&mut disks.open(&EXPECTED).unwrap(), 1).unwrap();
    let without = Disks { journal: FaultyBackend::new(), mark: disks.mark.after_kill() };
    let refused = without.open(&EXPECTED);
    assert!(matches!(refused, Err(JournalError::EndsBeforeAcknowledged { last: None, .. })));
}

#[test]
fn an_unacknowledged_torn_commit_is_dropped() {
    for seed in 0..40 {
        let disks = Disks::default();
        let mut journal = disks.open(&EXPECTED).unwrap();
        append_one(&mut journal, 300).unwrap();
        disks.journal.plan(FaultPlan { fail_sync: Some(1), ..FaultPlan::default() });
        append_one(&mut journal, 300).unwrap_err();
        let torn = Disks {
            journal: disks.journal.after_torn_power_failure(seed),
            mark: disks.mark.after_kill(),
        };
        let found = seqs(torn.open(&EXPECTED).unwrap().reader()).len();
        assert!(found == 300 || found == 600, "seed {seed}: {found} records");
    }
}

/// How often the workload syncs when nothing fails, opening included.
fn sync_points() -> u64 {
    let disks = Disks::default();
    disks.journal.plan(FaultPlan::default());
    assert_eq!(workload(&disks), 90);
    disks.journal.syncs()
}

/// Opens twice and appends; returns the newest record acknowledged.
fn workload(disks: &Disks) -> u64 {
    let mut acknowledged = 0;
    for _ in 0..2 {
        let Ok(mut journal) = disks.open(&EXPECTED) else { break };
        for count in [1, 20, 4, 20] {
            match append_one(&mut journal, count) {
                Ok(position) => acknowledged = position.last_seq,
                Err(_) => return acknowledged,
            }
        }
    }
    acknowledged
}

#[test]
fn a_crash_at_every_sync_point_keeps_all_that_was_acknowledged() {
    let points = sync_points();
    assert!(points > 10);
    for nth in 1..=points {
        for plan in [
            FaultPlan { fail_sync: Some(nth), ..FaultPlan::default() },
            FaultPlan { fail_after_sync: Some(nth), ..FaultPlan::default() },
        ] {
            let disks = Disks::default();
            disks.journal.plan(plan);
            let acknowledged = workload(&disks);
            let torn = |seed| Disks {
                journal: disks.journal.after_torn_power_failure(seed),
                mark: disks.mark.after_power_failure(),
            };
            let crashed = [disks.after_power_failure(), disks.after_kill(), torn(1), torn(2)];
            for (how, crashed) in crashed.iter().enumerate() {
                check_recovered(crashed, acknowledged, &format!("{plan:?}, crash {how}"));
            }
        }
    }
}

fn check_recovered(crashed: &Disks, acknowledged: u64, name: &str) {
    let journal =
        crashed.open(&EXPECTED).unwrap_or_else(|error| panic!("{name}: refused: {error}"));
    let found = seqs(journal.reader()).len() as u64;
    assert!(found >= acknowledged, "{name}: {found} of {acknowledged} records");
    let ends_of_batches = [0, 1, 21, 25, 45, 46, 66, 70, 90];
    assert!(ends_of_batches.contains(&found), "{name}: half a batch, {found} records");
}

#[test]
fn a_full_disk_or_a_failing_write_fails_the_commit_and_keeps_the_past() {
    let len = {
        let disks = Disks::default();
        workload(&disks);
        disks.journal.content().len() as u64
    };
    let plans = [
        FaultPlan { disk_full_bytes: Some(len), ..FaultPlan::default() },
        FaultPlan { fail_write: Some(3), ..FaultPlan::default() },
        FaultPlan { torn_write: Some((3, 700)), ..FaultPlan::default() },
    ];
    for plan in plans {
        let disks = Disks::default();
        let mut journal = disks.open(&EXPECTED).unwrap();
        let mut acknowledged = append_one(&mut journal, 10).unwrap();
        disks.journal.plan(plan);
        let error = loop {
            match append_one(&mut journal, 20_000) {
                Ok(position) => acknowledged = position,
                Err(error) => break error,
            }
        };
        println!("{plan:?}: {error}");
        append_one(&mut journal, 1).expect_err("nothing is written after a failure");
        drop(journal);
        for crashed in [disks.after_kill(), disks.after_power_failure()] {
            let found = seqs(crashed.open(&EXPECTED).unwrap().reader());
            assert!(found.len() as u64 >= acknowledged.last_seq, "{plan:?}");
        }
    }
}
