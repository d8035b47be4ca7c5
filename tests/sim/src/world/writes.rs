//! Parts that move while the journal's disk is at a write: what it writes is not durable yet, and nobody must
//! see it.

use cardswitch_engine::engine::{AssembledEngine, DecidingParts, EngineParts};
use cardswitch_engine::limits;
use cardswitch_engine::steps::Steps;

use super::World;
use crate::happening::{Happening, Part};
use crate::marks::Mark;
use crate::rng::Rng;

/// A world in so many has writes that take their time. Units: hundredths.
const WORLDS_PERCENT: u64 = 25;
/// So many parts move during a write at most.
const MOVES_MAX: u64 = 6;

/// The slow writes of one world.
pub(super) struct SlowWrites {
    rng: Rng,
    /// Of a hundred commits, so many take their time.
    percent: u64,
}

impl SlowWrites {
    pub(super) fn draw(seed: u64) -> Option<Self> {
        let mut rng = Rng::new(seed ^ 0x510_3717E);
        let percent = 1 << rng.below(6);
        rng.chance(WORLDS_PERCENT).then_some(Self { rng, percent })
    }

    /// The move of a part that commits, with others during the write, if it takes its time.
    fn draw_moves(&mut self, part: Part) -> Option<Happening> {
        let others: &[Part] = match part {
            Part::Committer => &[Part::Shard, Part::Loader, Part::Projector, Part::Projector],
            Part::Shard => &[Part::Projector],
            _ => return None,
        };
        if !self.rng.chance(self.percent) {
            return None;
        }
        let count = 1 + self.rng.below(MOVES_MAX);
        let moves = (0..count).map(|_| self.rng.pick(others)).collect();
        Some(Happening::StepAmidWrite(part, moves))
    }
}

impl World {
    /// The move of a part.
    pub(super) fn draw_step(&mut self, part: Part) -> Happening {
        let slow = self.slow_writes.as_mut().and_then(|writes| writes.draw_moves(part));
        slow.unwrap_or(Happening::Step(part))
    }

    /// Moves a part, and others while the journal's disk is at its write, if it comes to one.
    pub(super) fn step_amid_write(&mut self, part: Part, others: &[Part]) {
        // The shard would wait where the committer's queue is full.
        if part == Part::Shard && self.unwritten + 1 >= limits::COMMIT_QUEUE_LEN_MAX {
            self.step(part);
            return;
        }
        let context = self.context();
        let AssembledEngine { engine, parts } = self.running.as_mut().unwrap();
        let EngineParts { deciding: DecidingParts { shard, committer, .. }, following } = parts;
        let (journal, marks) = (&self.disks.journal, &mut self.story.marks);
        let write = journal.pause_next_write();
        let is_committer = part == Part::Committer;
        self.unwritten = if is_committer { 0 } else { self.unwritten + 1 };
        let unwritten = &mut self.unwritten;
        let (mover, mut idle): (&mut (dyn Steps + Send), _) =
            if is_committer { (committer, Some(shard)) } else { (shard, None) };
        std::thread::scope(|scope| {
            let moving = scope.spawn(move || {
                mover.step();
                journal.forget_pause();
            });
            if write.is_reached() {
                for other in others {
                    match (other, &mut idle) {
                        (Part::Loader, Some(shard)) => shard.step_loader(),
                        (Part::Shard, Some(shard))
                            if *unwritten + 1 < limits::COMMIT_QUEUE_LEN_MAX =>
                        {
                            *unwritten += 1;
                            shard.step()
                        }
                        _ => following.projector.step(),
                    };
                }
                let shown = engine.store.read().unwrap().checkpoint().unwrap().applied_seq;
                let durable = engine.durable_seq();
                assert!(shown <= durable, "{context}: {shown:?} is shown, {durable:?} durable");
                marks.pass(Mark::MovedAmidWrite);
                write.go_on();
            }
            moving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
    }
}
