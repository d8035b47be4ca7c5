//! Crashes at every sync: the reopened tables are a checkpoint, and the rest of the journal
//! completes them.

use super::world::journal;
use super::*;
use crate::journal::testing::DiskFaultPlan;

const RUN_LEN: usize = 17;
const RUNS_PER_CHECKPOINT: usize = 3;

/// Projects until the disk fails; returns the checkpoints that were durable when their commit
/// returned, and the one in whose commit the disk failed.
fn project_until_failure(
    store: &Store,
    records: &[Record],
    start: RecordSeq,
) -> (Vec<Checkpoint>, Option<RecordSeq>) {
    let mut durable = Vec::new();
    let mut done = usize::try_from(start.0).unwrap();
    let mut run = 0;
    while done < records.len() {
        let end = (done + RUN_LEN).min(records.len());
        run += 1;
        let is_last = end == records.len();
        let kind = if run % RUNS_PER_CHECKPOINT == 0 || is_last {
            CommitKind::Checkpoint
        } else {
            CommitKind::Visible
        };
        let outcome =
            store.commit(&gather(&records[done..end]), position_after(&records[..end]), kind);
        match outcome {
            Ok(checkpoint) if kind == CommitKind::Checkpoint => durable.push(checkpoint),
            Ok(_) => {}
            Err(_) => return (durable, Some(records[end - 1].seq)),
        }
        done = end;
    }
    (durable, None)
}

/// Reopens a disk after a crash, checks that it stands at a checkpoint and completes it.
fn check_recovery(
    disk: FaultyBackend,
    records: &[Record],
    (durable, in_flight): &(Vec<Checkpoint>, Option<RecordSeq>),
    story: &str,
) {
    let store = Store::open_with_backend(disk, DIRECTORY).unwrap();
    let checkpoint = store.checkpoint().unwrap();
    let last = durable.last().copied().unwrap_or_default();
    let is_known = checkpoint == last || Some(checkpoint.applied_seq) == *in_flight;
    assert!(is_known, "{story}: {checkpoint:?} is neither {last:?} nor {in_flight:?}");
    let applied = usize::try_from(checkpoint.applied_seq.0).unwrap();
    if applied > 0 {
        let expected = store_of(&records[..applied]);
        assert_same_dump(&store, &expected, &format!("{story}: the rows of the checkpoint"));
    }
    let (_, failure) = project_until_failure(&store, records, checkpoint.applied_seq);
    assert_eq!(failure, None, "{story}");
    assert_same_dump(&store, &store_of(records), &format!("{story}: after the rest"));
}

#[test]
fn a_crash_at_any_sync_leaves_a_checkpoint_that_the_journal_completes() {
    let records = journal(21, 180);
    let whole = FaultyBackend::new();
    let store = Store::open_with_backend(whole.clone(), DIRECTORY).unwrap();
    whole.plan(DiskFaultPlan::default());
    let (durable, failure) = project_until_failure(&store, &records, RecordSeq(0));
    assert_eq!((durable.len() > 2, failure), (true, None));
    let syncs = whole.syncs();
    assert!(syncs >= 2 * durable.len() as u64, "each checkpoint syncs twice");
    for sync in 1..=syncs {
        for is_done in [false, true] {
            let disk = FaultyBackend::new();
            let store = Store::open_with_backend(disk.clone(), DIRECTORY).unwrap();
            disk.plan(if is_done {
                DiskFaultPlan { fail_after_sync: Some(sync), ..DiskFaultPlan::default() }
            } else {
                DiskFaultPlan { fail_sync: Some(sync), ..DiskFaultPlan::default() }
            });
            let outcome = project_until_failure(&store, &records, RecordSeq(0));
            drop(store);
            let story = format!("sync {sync}, done: {is_done}");
            check_recovery(disk.after_power_failure(), &records, &outcome, &story);
            check_recovery(disk.after_kill(), &records, &outcome, &format!("{story}, killed"));
            for seed in 0..3 {
                let torn = disk.after_torn_power_failure(seed);
                check_recovery(torn, &records, &outcome, &format!("{story}, torn {seed}"));
            }
        }
    }
}

#[test]
fn a_kill_between_commits_loses_only_what_is_not_durable() {
    let records = journal(22, 180);
    for stop in (RUN_LEN..records.len()).step_by(RUN_LEN) {
        let disk = FaultyBackend::new();
        let store = Store::open_with_backend(disk.clone(), DIRECTORY).unwrap();
        let (mut durable, mut done) = (Vec::new(), 0);
        for run in 1.. {
            let end = done + RUN_LEN;
            let kind = [CommitKind::Visible, CommitKind::Checkpoint][usize::from(run % 3 == 0)];
            let place = position_after(&records[..end]);
            let checkpoint = store.commit(&gather(&records[done..end]), place, kind).unwrap();
            if kind == CommitKind::Checkpoint {
                durable.push(checkpoint);
            }
            done = end;
            if done >= stop {
                break;
            }
        }
        let (killed, unplugged) = (disk.after_kill(), disk.after_power_failure());
        let outcome = (durable, None);
        check_recovery(killed, &records, &outcome, &format!("killed at {stop}"));
        check_recovery(unplugged, &records, &outcome, &format!("unplugged at {stop}"));
    }
}

/// The last checkpoint meets a row that it cannot read. What was only visible is lost with it.
#[test]
fn an_orderly_stop_whose_checkpoint_fails_leaves_the_one_before() {
    let records = journal(23, 60);
    let disk = FaultyBackend::new();
    let store = Store::open_with_backend(disk.clone(), DIRECTORY).unwrap();
    let commit_run = |from: usize, to: usize, kind| {
        store.commit(&gather(&records[from..to]), position_after(&records[..to]), kind).unwrap()
    };
    let durable = commit_run(0, 30, CommitKind::Checkpoint);
    commit_run(30, 60, CommitKind::Visible);
    let mut write_txn = store.database.begin_write().unwrap();
    write_txn.set_durability(redb::Durability::None).unwrap();
    write_txn.open_table(CARD_USAGES.definition()).unwrap().insert(0, [9].as_slice()).unwrap();
    write_txn.commit().unwrap();
    drop(store);
    check_recovery(disk.after_kill(), &records, &(vec![durable], None), "stopped");
}
