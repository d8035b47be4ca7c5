//! Faults of the disk and crashes at every write and sync of a whole run.

use super::*;

/// Opens twice, appends, lets go of segments; returns the newest record acknowledged.
fn workload(disk: &FaultyDisk) -> u64 {
    let retention = LogRetention { keep_bytes: 2 * SMALL.segment_bytes, ..SMALL };
    let (mut acknowledged, mut checkpoint) = (0, ChainPosition::GENESIS);
    for _ in 0..2 {
        let expected = Expectation { identity: IDENTITY, checkpoint: Some(checkpoint) };
        let Ok(mut journal) = open_with(disk, &expected, retention) else { break };
        for round in 0..18 {
            match append_group(&mut journal, &[1, 20 + round, 700]) {
                Ok(position) => (acknowledged, checkpoint) = (position.last_seq, position),
                Err(_) => return acknowledged,
            }
            if keep_up(&mut journal, checkpoint.number).is_err() {
                return acknowledged;
            }
        }
    }
    acknowledged
}

fn total(workload: impl Fn(&FaultyDisk) -> u64) -> (u64, u64, u64) {
    let disk = FaultyDisk::default();
    disk.plan(DiskFaultPlan::default());
    (workload(&disk), disk.writes(), disk.syncs())
}

/// Something goes wrong at every write and every sync of a whole run, and then the system crashes.
#[test]
fn a_fault_at_every_write_and_sync_keeps_all_that_was_acknowledged() {
    let (all, writes, syncs) = total(workload);
    assert!(all > 25_000 && writes > 90 && syncs > 60, "{all} {writes} {syncs}");
    let at_syncs = (1..=syncs).flat_map(|nth| {
        [
            DiskFaultPlan { fail_sync: Some(nth), ..DiskFaultPlan::default() },
            DiskFaultPlan { fail_after_sync: Some(nth), ..DiskFaultPlan::default() },
        ]
    });
    let at_writes = (1..=writes).flat_map(|nth| {
        [
            DiskFaultPlan { fail_write: Some(nth), ..DiskFaultPlan::default() },
            DiskFaultPlan { torn_write: Some((nth, 700)), ..DiskFaultPlan::default() },
        ]
    });
    for plan in at_syncs.chain(at_writes) {
        let disk = FaultyDisk::default();
        disk.plan(plan);
        let acknowledged = workload(&disk);
        let torn = |seed| disk.after_torn_power_failure(seed);
        let crashed = [disk.after_kill(), disk.after_power_failure(), torn(1), torn(2), torn(3)];
        for (how, crashed) in crashed.iter().enumerate() {
            let name = format!("{plan:?}, crash {how}");
            let journal = open_with(crashed, &UNKNOWN, SMALL)
                .unwrap_or_else(|error| panic!("{name}: refused: {error}"));
            let found = seqs(journal.reader()).last().copied().unwrap_or(0);
            assert!(found >= acknowledged, "{name}: {found} of {acknowledged} records");
        }
    }
}

#[test]
fn after_a_failure_nothing_is_written_and_no_sync_is_tried_again() {
    let plans = [
        DiskFaultPlan { fail_write: Some(3), ..DiskFaultPlan::default() },
        DiskFaultPlan { torn_write: Some((3, 700)), ..DiskFaultPlan::default() },
        DiskFaultPlan { fail_sync: Some(2), ..DiskFaultPlan::default() },
        DiskFaultPlan { fail_after_sync: Some(2), ..DiskFaultPlan::default() },
    ];
    for plan in plans {
        let disk = FaultyDisk::default();
        let mut journal = open(&disk).unwrap();
        let mut acknowledged = append_one(&mut journal, 10).unwrap();
        disk.plan(plan);
        let error = loop {
            match append_one(&mut journal, 100) {
                Ok(position) => acknowledged = position,
                Err(error) => break error,
            }
        };
        println!("{plan:?}: {error}");
        disk.plan(DiskFaultPlan::default());
        assert!(matches!(append_one(&mut journal, 1), Err(JournalError::Failed)));
        assert!(!journal.needs_upkeep(KEEP_ALL));
        assert!(matches!(journal.keep_up(KEEP_ALL), Err(JournalError::Failed)));
        assert_eq!((disk.writes(), disk.syncs()), (0, 0), "{plan:?}");
        drop(journal);
        for crashed in [disk.after_kill(), disk.after_power_failure()] {
            let found = seqs(open(&crashed).unwrap().reader());
            assert!(found.len() as u64 >= acknowledged.last_seq, "{plan:?}");
        }
    }
}

/// The room of the newest segment was reserved when it was made: it is used to the end.
#[test]
fn a_full_disk_fails_the_first_group_that_needs_another_segment() {
    let disk = FaultyDisk::default();
    let mut journal = open(&disk).unwrap();
    let full = DiskFaultPlan { disk_full_bytes: Some(disk.bytes()), ..DiskFaultPlan::default() };
    disk.plan(full);
    keep_up(&mut journal, KEEP_ALL).unwrap();
    let mut acknowledged = 0;
    let error = loop {
        match append_one(&mut journal, 2) {
            Ok(position) => acknowledged = position.last_seq,
            Err(error) => break error,
        }
        keep_up(&mut journal, KEEP_ALL).unwrap();
    };
    assert!(error.is_no_room(), "{error}");
    assert_eq!(acknowledged, 28, "fourteen batches beside the barrier");
    drop(journal);
    let crashed = disk.after_power_failure();
    assert_eq!(seqs(open(&crashed).unwrap().reader()).len(), 28);
}

/// Once, a sync that found the disk full left the file of the next segment: the journal failed over its
/// name, although room was made meanwhile.
#[test]
fn a_next_segment_that_a_sync_had_no_room_for_is_made_once_there_is_room() {
    // The first sync is that of the zeroes in the first segment.
    for (what, nth) in [("its file", 2), ("its name", 3)] {
        let disk = FaultyDisk::default();
        let mut journal = open(&disk).unwrap();
        disk.plan(DiskFaultPlan { disk_full_sync: Some(nth), ..DiskFaultPlan::default() });
        keep_up(&mut journal, KEEP_ALL).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(journal.next, NextSegment::NoRoom, "{what}");
        assert!(!disk.names().unwrap().contains(&segment_name(2)), "{what}");
        for _ in 0..15 {
            append_one(&mut journal, 2).unwrap();
        }
        assert_eq!(seqs(open(&disk.after_kill()).unwrap().reader()).len(), 30, "{what}");
    }
}

/// Once, an order that had just failed for room failed the commit that needed its segment, although room was
/// made since.
#[test]
fn a_segment_that_there_was_no_room_for_is_tried_once_more_before_a_commit_fails() {
    let disk = FaultyDisk::default();
    let mut journal = open(&disk).unwrap();
    journal.order_next(0);
    disk.plan(DiskFaultPlan { disk_full_sync: Some(1), ..DiskFaultPlan::default() });
    MakerSteps(Arc::clone(&journal.maker)).step();
    assert!(journal.maker.has_failed());
    for _ in 0..15 {
        append_one(&mut journal, 2).unwrap();
    }
    assert_eq!(journal.newest().ordinal, 2);
    assert_eq!(seqs(open(&disk.after_kill()).unwrap().reader()).len(), 30);
}

/// Runs of any length with crashes of any kind between them: leftovers of one crash lie where the
/// next one looks.
#[test]
fn crash_upon_crash_loses_nothing_that_was_acknowledged_and_brings_nothing_back() {
    const RUNS: u64 = 12;
    let retention = LogRetention { keep_bytes: 3 * SMALL.segment_bytes, ..SMALL };
    for seed in 0..150 {
        let mut state = seed * 77 + 1;
        let mut below = |bound: u64| next_random(&mut state) % bound;
        let mut disk = FaultyDisk::default();
        let mut acknowledged = ChainPosition::GENESIS;
        // The hash of each acknowledged batch.
        let mut told = std::collections::BTreeMap::new();
        for run in 0..RUNS {
            let name = format!("seed {seed}, run {run}");
            let expected = Expectation { identity: IDENTITY, checkpoint: Some(acknowledged) };
            let mut journal = open_with(&disk, &expected, retention)
                .unwrap_or_else(|error| panic!("{name}: refused: {error}"));
            assert!(journal.recovered.number >= acknowledged.number, "{name}: lost");
            let reader = journal.reader();
            let first = reader.before_first();
            let mut follower = JournalFollower::after(reader, IDENTITY.partition, first);
            while let Some(batch) = follower.read_next(1).unwrap().pop() {
                if let Some(hash) = told.get(&batch.header.number.0) {
                    assert_eq!(batch.hash, *hash, "{name}: another batch");
                }
            }
            let (nth, kept) = (1 + below(30), usize::try_from(below(20_000)).unwrap());
            disk.plan(match below(5) {
                0 => DiskFaultPlan { fail_write: Some(nth), ..DiskFaultPlan::default() },
                1 => DiskFaultPlan { torn_write: Some((nth, kept)), ..DiskFaultPlan::default() },
                2 => DiskFaultPlan { fail_sync: Some(nth), ..DiskFaultPlan::default() },
                3 => DiskFaultPlan { fail_after_sync: Some(nth), ..DiskFaultPlan::default() },
                _ => DiskFaultPlan::default(),
            });
            for _ in 0..below(25) {
                let counts: Vec<_> = (0..1 + below(4)).map(|_| 1 + below(1_500)).collect();
                let Ok(position) = append_group(&mut journal, &counts) else { break };
                acknowledged = position;
                told.insert(position.number.0, position.hash);
                let is_idle = below(3) > 0;
                if is_idle && keep_up(&mut journal, acknowledged.number).is_err() {
                    break;
                }
            }
            drop(journal);
            disk = match below(4) {
                0 => disk.after_kill(),
                1 => disk.after_power_failure(),
                _ => disk.after_torn_power_failure(below(1 << 40)),
            };
        }
    }
}
