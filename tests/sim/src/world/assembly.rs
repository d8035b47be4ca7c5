//! An engine over simulated disks, whose parts are moved one by one.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use cardswitch_engine::clock::Clock;
use cardswitch_engine::command::Command;
use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::data_directory::DataDirectory;
use cardswitch_engine::domain::ids::{RecordSeq, Timestamp};
use cardswitch_engine::engine::{AssembledEngine, Engine, EngineOptions, EngineParts, OpenError};
use cardswitch_engine::journal::TrailSteps;
use cardswitch_engine::limits;
use cardswitch_engine::shard::ShardState;
use cardswitch_engine::shard::run::Witness;
use cardswitch_engine::steps::{StepOutcome, Steps};
use parking_lot::Mutex;

use crate::disks::Disks;
use crate::happening::Part;
use crate::model::{LateHolds, Model};
use crate::rates::Rates;

const ID_KEY: [u8; 16] = *b"an id key, fixed";

/// A command that was executed.
#[derive(Clone, Debug)]
pub(crate) struct ExecutedCommand {
    pub(crate) tag: u64,
    pub(crate) at: Timestamp,
    /// The newest record then.
    pub(crate) last_seq: RecordSeq,
    /// Whether that is its own: it has changed something.
    pub(crate) has_record: bool,
    pub(crate) late_holds: LateHolds,
}

impl ExecutedCommand {
    /// The reply that the model gives to its command, and whether some hold should have ended before.
    pub(super) fn expected_of(&self, model: &mut Model, command: &Command) -> (Reply, bool) {
        model.late_holds = self.late_holds.clone();
        let is_a_hold_late = model.is_a_hold_late(self.at.0);
        let reply = match self.has_record {
            true => model.expect(self.at.0, command),
            false => model.expect_without_record(self.at.0, command),
        };
        model.late_holds = LateHolds::none();
        (reply, is_a_hold_late)
    }
}

#[derive(Clone, Default)]
pub(crate) struct Executions(pub(crate) Arc<Mutex<VecDeque<ExecutedCommand>>>);

impl Witness for Executions {
    fn executed(&mut self, tag: u64, at: Timestamp, state: &ShardState) {
        let (last_seq, has_record) = (state.last_seq(), state.last_at() == at);
        let late_holds = LateHolds::of(state);
        self.0.lock().push_back(ExecutedCommand { tag, at, last_seq, has_record, late_holds });
    }
}

/// Moves a part of an engine. The shard would wait where the committer's queue is full: so many batches it has
/// not looked at.
pub(crate) fn step_part(parts: &mut EngineParts, unwritten: &mut usize, part: Part) -> StepOutcome {
    let EngineParts { deciding, following } = parts;
    match part {
        Part::Shard => {
            if *unwritten + 1 >= limits::COMMIT_QUEUE_LEN_MAX {
                deciding.committer.step();
                *unwritten = 0;
            }
            *unwritten += 1;
            deciding.shard.step()
        }
        Part::Committer => {
            *unwritten = 0;
            deciding.committer.step()
        }
        Part::Loader => deciding.shard.step_loader(),
        Part::Projector => following.projector.step(),
        Part::Segments => {
            let has_trailed = step_trail(&mut deciding.trail);
            StepOutcome::of(following.segments.step() == StepOutcome::Worked || has_trailed)
        }
    }
}

pub(crate) fn open(
    place: &Path,
    disks: &Disks,
    clock: &Arc<AtomicI64>,
    rates: &Rates,
    executions: &Executions,
) -> Result<AssembledEngine, OpenError> {
    let mut assembled = Engine::open_parts(
        options(place, clock, rates),
        disks.storage_with(rates.table_cache_bytes),
    )?;
    assembled.parts.deciding.shard.set_witness(executions.clone());
    Ok(assembled)
}

pub(super) fn options(place: &Path, clock: &Arc<AtomicI64>, rates: &Rates) -> EngineOptions {
    EngineOptions {
        directory: DataDirectory::open(place).unwrap(),
        id_key: ID_KEY,
        clock: Clock::Simulated(Arc::clone(clock)),
        retention: rates.retention,
        pacing: rates.pacing,
        caches: rates.caches,
        commits: rates.commits,
    }
}

/// Steps the trail, which writes a leader's log, past its pause: time passes. Returns whether something was done.
pub(super) fn step_trail(trail: &mut Option<TrailSteps>) -> bool {
    trail.as_mut().is_some_and(|trail| {
        trail.step() == StepOutcome::Worked || trail.step() == StepOutcome::Worked
    })
}
