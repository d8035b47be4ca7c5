//! The world at rest: all parts have moved until nothing is left to do, and what is kept is the model's.

use std::sync::atomic::Ordering;

use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::engine::AssembledEngine;
use cardswitch_engine::steps::StepOutcome;
use sha2::Digest as _;

use super::World;
use crate::audit::{audit_reads, audit_state, audit_tables};
use crate::happening::Part;
use crate::marks::Mark;
use crate::model::LateHolds;

/// Reads are compared with the model where it stands at a record that is a multiple of it.
const READ_AUDITS: u64 = 4;
/// Steps of every part, after which nothing is left to do.
const ROUNDS_MAX: usize = 10_000;

impl World {
    /// Compares reads with the model, where both stand at the same record.
    pub(super) fn audit_reads(&mut self) {
        let (seq, at) = self.modelled;
        let applied = self.engine().watermark.applied();
        let is_due = applied == seq && seq != self.read && seq.0.is_multiple_of(READ_AUDITS);
        if !is_due || self.are_tables_broken() {
            return;
        }
        self.read = seq;
        let context = self.context();
        let tables = self.engine().store.read().unwrap();
        assert_eq!(tables.checkpoint().unwrap().applied_seq, seq, "{context}");
        audit_reads(&mut self.model, &tables, at, &context);
        self.story.marks.pass_if(Mark::ReadUnderWay, !self.sent.is_empty());
    }

    /// Lets every part move until nothing is left to do, then compares model, memory and tables.
    pub(super) fn settle(&mut self) {
        if !self.drive_until_idle() {
            return;
        }
        let at = self.latest.max(self.clock.load(Ordering::Relaxed)).max(self.last_at());
        (self.latest, self.workload.at) = (at, self.workload.at.max(at));
        let state = self.running.as_ref().unwrap().parts.deciding.shard.state();
        // The records of timers, too: another node that leads may have tables from before them.
        self.modelled = (state.last_seq(), Timestamp(at));
        // Without a record nothing is forgotten: the clock may yet go back.
        self.model.late_holds = LateHolds::of(state);
        self.model.run_timers(at);
        self.model.late_holds = LateHolds::none();
        let context = self.context();
        let AssembledEngine { engine, parts } = self.running.as_ref().unwrap();
        audit_state(&mut self.model, parts.deciding.shard.state(), Timestamp(at), &context);
        if self.are_tables_broken() {
            return;
        }
        assert_eq!(parts.following.projector.health.failure(), None, "{context}");
        assert_eq!(engine.watermark.applied(), engine.durable_seq(), "{context}");
        assert!(engine.log_stall()().is_zero(), "{context}: the log lacks nothing, and hangs");
        audit_tables(
            &self.model,
            parts.deciding.shard.state(),
            &engine.store.read().unwrap(),
            &context,
        );
        if let Some(webhooks) = &mut self.webhooks {
            webhooks.prove(&engine.store.read().unwrap());
        }
        self.trace.update(format!("settled {at} {:?}", engine.durable_seq()));
        self.copy_for_notices();
    }

    /// Returns whether the switch still works.
    pub(super) fn drive_until_idle(&mut self) -> bool {
        for _ in 0..ROUNDS_MAX {
            let mut has_worked = false;
            for part in Part::ALL {
                has_worked |= self.step(part) == StepOutcome::Worked;
            }
            self.take_answers();
            if self.has_failed() {
                return false;
            }
            if !has_worked {
                assert!(self.sent.is_empty(), "{}: everybody is answered", self.context());
                return true;
            }
        }
        panic!("{}: some part works for ever", self.context());
    }
}
