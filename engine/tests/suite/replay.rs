//! The same fold twice: the journal gives the same state, from records and from tables.

use cardswitch_engine::command::Command;
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::network::NetworkCommand;
use cardswitch_engine::command::record::{Record, append_record, record_views, records};
use cardswitch_engine::domain::transaction::TransactionState;
use cardswitch_engine::journal::testing::FaultyBackend;
use cardswitch_engine::journal::{BatchNumber, ChainHash, ChainPosition, Epoch};
use cardswitch_engine::shard::{ReplayedRecord, ShardState, TransactionRoom};
use cardswitch_engine::store::{CommitKind, Projection, RestoreScope, RestoredPart, Store};

use crate::driver::Driver;
use crate::model::{Model, Transfer};
use crate::model_tests::Pair;
use crate::rng::Rng;

const STEPS: u64 = 3_000;
const STEPS_AFTER: u64 = 600;
const CHECKPOINTS: u64 = 12;
const DIRECTORY: [u8; 16] = [9; 16];

fn lived(seed: u64, steps: u64) -> Pair {
    let mut pair = Pair::new(seed);
    for _ in 0..steps {
        pair.step();
    }
    pair
}

fn fold(state: &mut ShardState, records: &[Record]) {
    for record in records {
        state.apply_record(record.seq, record.at, &record.effects);
    }
}

/// The state that the tables of `store` hold.
fn restore(store: &Store) -> ShardState {
    let mut state = ShardState::default();
    let mut visit = |restored: RestoredPart<'_>| match restored {
        RestoredPart::Effect(effect) => state.apply(&effect),
        RestoredPart::Card(card) => state.take_in_card(&card.profile, card.record),
        RestoredPart::Answer { answer, .. } => state.apply(&Effect::Answer(answer)),
    };
    let checkpoint = store.restore(RestoreScope::Whole, &mut visit).unwrap();
    state.resume_from(
        checkpoint.applied_seq,
        checkpoint.applied_at,
        checkpoint.last_transaction,
        checkpoint.last_line,
    );
    state
}

/// Lets the recovered shard live on beside the one that never stopped: indexes, timers and memory
/// are in no hash, but they show in the answers.
fn live_on(pair: &mut Pair, recovered: ShardState) {
    let mut other = Driver::new(recovered);
    for _ in 0..STEPS_AFTER {
        let command = pair.workload.draw(&pair.model);
        if concludes_declined(&pair.model, &command) {
            continue;
        }
        let at = pair.workload.pass_time();
        let _ = pair.model.expect(at.0, &command);
        assert_eq!(other.run(at, &command), pair.driver.run(at, &command), "{command:?}");
    }
    assert_eq!(other.state.part_hashes(), pair.driver.state.part_hashes());
    assert_eq!(other.state.next_due(), pair.driver.state.next_due());
}

/// Whether a command names a transfer that was declined: a whole state is restored without those, and
/// no loader is here to look for one.
fn concludes_declined(model: &Model, command: &Command) -> bool {
    let Command::Network(request) = command else { return false };
    let NetworkCommand::ConcludeTransfer(named) = &request.command else { return false };
    let is_it = |(number, transfer): (usize, &Transfer)| {
        transfer.state == TransactionState::Declined
            && model.transfer_id(number) == named.transaction
    };
    model.transfers.iter().enumerate().any(is_it)
}

#[test]
fn a_replay_of_the_records_is_the_state_that_wrote_them() {
    let seed = Rng::seed_from_environment();
    let mut pair = lived(seed, STEPS);
    let written: Vec<_> = records(&pair.driver.payload).collect::<Result<_, _>>().unwrap();
    assert_eq!(written.len() as u64, pair.driver.state.last_seq().0);
    let mut replayed = ShardState::default();
    fold(&mut replayed, &written);
    assert_eq!(replayed.part_hashes(), pair.driver.state.part_hashes());
    assert_eq!(replayed.state_hash(), pair.driver.state.state_hash());
    live_on(&mut pair, replayed);
}

/// A start makes no effects of authorizations, and makes room first.
#[test]
fn a_start_takes_the_records_in_as_their_effects_would_be() {
    let seed = Rng::seed_from_environment().wrapping_add(3);
    let mut pair = lived(seed, STEPS);
    let read = record_views(&pair.driver.payload).map(|view| ReplayedRecord::of(view.unwrap()));
    let mut written: Vec<_> = read.collect::<Result<_, _>>().unwrap();
    let mut started = ShardState::default();
    started.move_into(TransactionRoom::for_records(written.len(), 0));
    started.replay(&mut written);
    assert!(written.is_empty(), "every record was taken");
    assert_eq!(started.part_hashes(), pair.driver.state.part_hashes());
    live_on(&mut pair, started);
}

#[test]
fn tables_at_any_checkpoint_and_the_records_after_it_are_the_same_state() {
    let seed = Rng::seed_from_environment().wrapping_add(1);
    let mut pair = lived(seed, STEPS);
    let written: Vec<_> = records(&pair.driver.payload).collect::<Result<_, _>>().unwrap();
    let mut rng = Rng::new(seed);
    let mut cuts: Vec<_> =
        (0..CHECKPOINTS).map(|_| 1 + rng.below(written.len() as u64) as usize).collect();
    cuts.sort_unstable();
    cuts.dedup();

    let disk = FaultyBackend::new();
    let store = Store::open_with_backend(disk.clone(), DIRECTORY).unwrap();
    let mut replayed = ShardState::default();
    let mut projected = 0;
    for (number, cut) in (1..).zip(cuts) {
        commit_run(&store, &written[projected..cut], number);
        fold(&mut replayed, &written[projected..cut]);
        projected = cut;
        // Half of the time as a process finds the tables that opens them after a power failure.
        let mut restored = if rng.chance(50) {
            restore(&store)
        } else {
            restore(&Store::open_with_backend(disk.after_power_failure(), DIRECTORY).unwrap())
        };
        assert_eq!(restored.part_hashes(), replayed.part_hashes(), "cut {cut} of seed {seed}");
        fold(&mut restored, &written[cut..]);
        assert_eq!(restored.part_hashes(), pair.driver.state.part_hashes());
        assert_eq!(restored.next_due(), pair.driver.state.next_due());
    }
    let mut restored = restore(&store);
    fold(&mut restored, &written[projected..]);
    live_on(&mut pair, restored);
}

/// Projects a run of records as one durable commit, the `number`th.
fn commit_run(store: &Store, run: &[Record], number: u64) {
    let mut projection = Projection::default();
    let mut payload = Vec::new();
    for record in run {
        append_record(&mut payload, record.seq, record.at, &record.effects).unwrap();
    }
    record_views(&payload).for_each(|view| projection.project(view.unwrap()).unwrap());
    let last_seq = run.last().unwrap().seq.0;
    let (epoch, hash) = (Epoch(1), ChainHash([number as u8; 32]));
    let position = ChainPosition { epoch, number: BatchNumber(number), hash, last_seq };
    let checkpoint = store.commit(&projection, position, CommitKind::Checkpoint).unwrap();
    assert_eq!(checkpoint.applied_seq.0, last_seq);
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_one_does_not() {
    let first = lived(5, 400);
    let (again, other) = (lived(5, 400), lived(6, 400));
    assert_eq!(first.driver.payload, again.driver.payload);
    assert_eq!(first.driver.state.state_hash(), again.driver.state.state_hash());
    assert_ne!(first.driver.state.state_hash(), other.driver.state.state_hash());
    let ends = &first.driver.ends;
    assert_eq!(ends.last(), Some(&first.driver.payload.len()));
}
