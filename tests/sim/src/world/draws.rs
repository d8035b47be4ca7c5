//! The next happening of a world, by its rates.

use super::World;
use crate::disks::Crash;
use crate::happening::{Action, BitFlip, DiskFault, Happening, Part, RareEvent};
use crate::model::DAY;

impl World {
    /// Draws the next happening.
    pub(super) fn draw(&mut self) -> Happening {
        // A stopped switch gives no answers: it is started again.
        if self.has_failed() {
            return self.draw_end();
        }
        if let Some(happening) = self.draw_for_tables() {
            return happening;
        }
        match self.rates.next(&mut self.rng) {
            Action::Step(part) => self.draw_step(part),
            Action::Send if self.sent.len() >= self.rates.in_flight => Happening::Step(Part::Shard),
            Action::Send => match self.rates.next_rare(&mut self.rng) {
                None => self.draw_commands(),
                Some(RareEvent::ClockBack) => {
                    self.skew = self.rng.between(0, DAY);
                    Happening::ClockBack(self.skew)
                }
                Some(RareEvent::ClockLeap) => Happening::ClockLeap(self.rng.between(0, DAY)),
                Some(RareEvent::Audit) => Happening::Audit,
                Some(RareEvent::Restart) if self.nodes.is_some() => Happening::FailOver(None),
                Some(RareEvent::Restart) => Happening::Restart,
                Some(RareEvent::Crash) => self.draw_end(),
                Some(RareEvent::BreakDisk) => self.draw_fault(),
            },
        }
    }

    fn draw_commands(&mut self) -> Happening {
        let at = self.workload.pass_time().0 - self.skew;
        let count = 1 + self.rng.below(self.rates.burst);
        let retried = std::iter::from_fn(|| self.to_retry.pop_front());
        let mut commands: Vec<_> = retried.take(count as usize).collect();
        let shown = self.engine().watermark.applied();
        commands.resize_with(count as usize, || {
            let command = self.workload.draw(&self.model);
            self.conditions.put_on(command, shown, &self.model)
        });
        Happening::Send { at, commands }
    }

    pub(super) fn draw_end(&mut self) -> Happening {
        if self.nodes.is_none() {
            return self.draw_crash();
        }
        let goes_on = self.rng.chance(30);
        Happening::FailOver((!goes_on).then(|| self.draw_ruin()))
    }

    fn draw_crash(&mut self) -> Happening {
        let first = self.draw_ruin();
        let mut on_the_way_up = Vec::new();
        while self.rng.below(100) < self.rates.crashed_recoveries_percent {
            on_the_way_up.push((1 + self.rng.below(8), self.draw_ruin()));
        }
        let flip = self.rng.chance(30).then(|| BitFlip {
            file: self.rng.number(),
            place: self.rng.number(),
            bit: self.rng.below(8) as u8,
        });
        Happening::Crash { first, on_the_way_up, flip }
    }

    fn draw_ruin(&mut self) -> Crash {
        match self.rng.below(4) {
            0 => Crash::Kill,
            1 => Crash::PowerFailure,
            _ => Crash::TornPowerFailure(self.rng.number() >> 1),
        }
    }

    fn draw_fault(&mut self) -> Happening {
        let nth = 1 + self.rng.below(20);
        Happening::BreakDisk(match self.rng.below(5 + self.rates.failed_syncs) {
            0 => DiskFault::FailWrite(nth),
            1 => DiskFault::TearWrite(nth, self.rng.below(8_000) as usize),
            3 => DiskFault::FailAfterSync(nth),
            4 => DiskFault::Full,
            _ => DiskFault::FailSync(nth),
        })
    }
}
