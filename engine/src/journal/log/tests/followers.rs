//! The log of a node of a cluster, which is cut where others have the rest.

use super::*;

fn follow(disk: FaultyDisk) -> Result<LogJournal, JournalError> {
    LogJournal::open_to_follow(Arc::new(disk), &EXPECTED, SMALL)
}

/// Batches that are not noted are cut, whatever stands behind them.
#[test]
fn a_follower_cuts_what_is_not_noted() {
    let (disk, _) = three_segments();
    for has_note in [false, true] {
        let damaged = disk.after_kill();
        if !has_note {
            damaged.remove("ack").unwrap();
        }
        damaged.flip(&segment_name(3), 4 * BLOCK_LEN + 90, 1);
        match follow(damaged) {
            Ok(journal) => {
                assert!(!has_note, "a noted batch is cut");
                let note = JournalNote::TornTail {
                    file: segment_name(3),
                    offset: 4 * BLOCK_BYTES,
                    last_seq: journal.recovered.last_seq,
                    has_whole_batch: true,
                };
                assert_eq!(journal.notes, [note]);
            }
            Err(refused) => {
                let is_noted = matches!(refused, JournalError::EndsBeforeAcknowledged { .. });
                assert!(has_note && is_noted, "{refused}");
            }
        }
    }
}

/// Fifteen batches, then two groups in the one write that begins the second segment, whose head is lost.
fn torn_segment_turn() -> FaultyDisk {
    let disk = FaultyDisk::default();
    let mut journal = open(&disk).unwrap();
    for _ in 0..14 {
        append_one(&mut journal, 3).unwrap();
    }
    let first = batch_after(&journal.tip(), 3, 0);
    let second = batch_after(&first.position(), 3, 0);
    disk.plan(DiskFaultPlan { fail_sync: Some(3), ..DiskFaultPlan::default() });
    journal.append(&[first, second]).unwrap_err();
    disk.flip(&segment_name(2), 0, 1);
    disk
}

/// Once, a node did not start after a power failure that lost the head of a segment and kept the second
/// of the groups that were written with it.
#[test]
fn a_follower_cuts_several_groups_behind_a_lost_head() {
    let torn = torn_segment_turn().after_kill();
    assert!(matches!(refusal(&torn, &EXPECTED), JournalError::Damaged { .. }));
    let mut journal = follow(torn.clone()).unwrap();
    let note = JournalNote::TornTail {
        file: segment_name(2),
        offset: BLOCK_BYTES,
        last_seq: 42,
        has_whole_batch: true,
    };
    assert_eq!(journal.notes, [note]);
    append_group(&mut journal, &[3, 3]).unwrap();
    drop(journal);
    assert_eq!(seqs(follow(torn.after_kill()).unwrap().reader()).len(), 48);
}

/// Once, the directory of a node that had left its cluster was held for damaged: only its node cut its torn end, and
/// no longer could.
#[test]
fn the_log_of_a_node_that_left_is_opened_alone() {
    let disk = FaultyDisk::default();
    let mut journal = open(&disk).unwrap();
    let first = batch_after(&journal.tip(), 3, 0);
    let second = batch_after(&first.position(), 3, 0);
    disk.plan(DiskFaultPlan { fail_sync: Some(1), ..DiskFaultPlan::default() });
    journal.append(&[first, second]).unwrap_err();
    disk.flip(&segment_name(1), 2 * BLOCK_LEN + 90, 1);
    for torn in [disk.after_kill(), torn_segment_turn().after_kill()] {
        assert!(matches!(refusal(&torn, &EXPECTED), JournalError::Damaged { .. }));
        drop(LogJournal::open_to_leave(Arc::new(torn.clone()), &EXPECTED, SMALL).unwrap());
        let left = open_read_only_on(&torn, None, None).unwrap();
        append_one(&mut open(&torn).unwrap(), 3).unwrap();
        assert_eq!(open(&torn).unwrap().recovered.last_seq, left.tip.last_seq + 3);
    }
}
