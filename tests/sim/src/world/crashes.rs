//! The ways in which a world's switch goes down and comes back: restarts, crashes, broken and lying
//! disks, changes of leader, and the proof of the files at the end.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cardswitch_engine::command::Command;
use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::data_directory::DataDirectory;
use cardswitch_engine::disk::Disk;
use cardswitch_engine::engine::{
    AssembledEngine, DecidingParts, EngineParts, FollowingParts, OpenError,
};
use cardswitch_engine::journal::testing::DiskFaultPlan;
use cardswitch_engine::journal::{JournalError, JournalNote};
use cardswitch_engine::shard::StateHash;
use cardswitch_engine::steps::{StepOutcome, Steps};
use cardswitch_engine::verify::{VerifyError, verify_on};
use parking_lot::Mutex;
use sha2::Digest as _;

use super::assembly::{ExecutedCommand, Executions, open, options, step_trail};
use super::tables::plan_of;
use super::{World, ZOMBIE_STEPS};
use crate::disks::{Crash, Disks};
use crate::happening::{BitFlip, DiskFault};
use crate::marks::Mark;
use crate::nodes::Machine;

impl World {
    /// Stops in good order, and starts again.
    pub(super) fn restart(&mut self) {
        if self.drive_until_idle() {
            self.story.restarts += 1;
            self.shut_down();
            self.come_back(Crash::Kill, &[], None);
        }
    }

    /// Each part ends when the one before it has, as `Engine::shut_down` has it of threads.
    fn shut_down(&mut self) {
        if let (Some(webhooks), Some(running)) = (&mut self.webhooks, &self.running) {
            webhooks.shut_down(&running.engine);
        }
        let AssembledEngine { engine, parts } = self.running.take().unwrap();
        engine.shut_down();
        let EngineParts { deciding, following } = parts;
        let DecidingParts { mut shard, mut committer, trail } = deciding;
        let FollowingParts { segments, mut projector } = following;
        assert_eq!(shard.step(), StepOutcome::Ended, "nobody is waiting");
        drop(shard);
        while committer.step() != StepOutcome::Ended {}
        drop(committer);
        if let Some(mut trail) = trail {
            while trail.step() != StepOutcome::Ended {}
        }
        drop(segments);
        projector.stop();
        while projector.step() != StepOutcome::Ended {}
    }

    pub(super) fn break_disk(&mut self, fault: DiskFault) {
        let bytes = self.disks.journal.bytes();
        self.disks.journal.plan(plan_of(fault, bytes));
        self.story.broken_disks += 1;
    }

    /// Marks how far the journal has come, by the names of its segments.
    fn mark_segments(&mut self) {
        let ordinals = segments(&self.disks);
        self.story.marks.pass_if(Mark::NextSegment, ordinals.iter().any(|ordinal| *ordinal > 2));
        self.story.marks.pass_if(Mark::Trimmed, ordinals.iter().all(|ordinal| *ordinal > 1));
    }

    pub(super) fn crash(
        &mut self,
        first: Crash,
        on_the_way_up: &[(u64, Crash)],
        flip: Option<BitFlip>,
    ) {
        self.take_answers();
        self.story.crashes += 1;
        self.story.marks.pass_if(Mark::JournalFailed, self.has_failed());
        self.mark_segments();
        self.come_back(first, on_the_way_up, flip);
    }

    /// The machine goes down and comes back, after more crashes on the way, each at a write.
    fn come_back(&mut self, first: Crash, on_the_way_up: &[(u64, Crash)], flip: Option<BitFlip>) {
        let first = if self.is_lying() { Crash::Kill } else { first };
        self.disks = self.disks.after(first);
        // Writes of an orderly end are not seen: the machine is down.
        self.running = None;
        self.mend_tables();
        if let Some(webhooks) = &mut self.webhooks {
            webhooks.go_down();
        }
        if let Some(notices) = &mut self.notices {
            notices.go_down();
        }
        // The clock does not start before the latest time that was given out.
        self.set_clock(self.clock.load(Ordering::Relaxed).max(self.latest));
        for (nth, next) in on_the_way_up {
            let plan = DiskFaultPlan { fail_write: Some(*nth), ..DiskFaultPlan::default() };
            self.disks.journal.plan(plan);
            self.disks.store.plan(plan);
            let opened = open(&self.place, &self.disks, &self.clock, &self.rates, &self.executions);
            self.story.marks.pass_if(Mark::FailedStart, opened.is_err());
            self.disks = self.disks.after(if self.is_lying() { Crash::Kill } else { *next });
            drop(opened);
        }
        let shown = std::mem::take(&mut *self.executions.0.lock());
        if let Some(flip) = flip {
            let is_note_kept = first == Crash::Kill && on_the_way_up.is_empty();
            self.start_with(flip, is_note_kept);
        }
        self.reopen();
        self.resolve(shown);
    }

    /// Starts on a copy of the disks with a flipped bit: it is refused, or no acknowledged record is lost. After
    /// a power failure the acknowledgement note may be old; then the open notes the cut.
    fn start_with(&mut self, BitFlip { file, place, bit }: BitFlip, is_note_kept: bool) {
        let flipped = self.disks.after(Crash::Kill);
        let mut names = flipped.journal.names().unwrap();
        names.sort();
        names.retain(|name| !flipped.journal.content(name).is_empty());
        let name = &names[(file % names.len() as u64) as usize];
        // Mostly at the front, which was written.
        let len = flipped.journal.content(name).len() as u64;
        let place = place % (len >> (place >> 60).min(8)).max(1);
        flipped.journal.flip(name, place as usize, 1 << bit);
        match open(&self.place, &flipped, &self.clock, &self.rates, &self.executions) {
            Err(OpenError::Journal(_)) => self.story.marks.pass(Mark::FlipRefused),
            Err(other) => panic!("{}: {name} at {place}: {other}", self.context()),
            Ok(assembled) => {
                let kept = assembled.parts.deciding.shard.state().last_seq();
                let is_said = !is_note_kept && !assembled.engine.journal_notes.is_empty();
                let context = self.context();
                assert!(kept >= self.told || is_said, "{context}: {name} at {place}: {kept:?}");
                self.story.marks.pass(Mark::FlipHarmless);
            }
        }
    }

    /// Starts on the files that a power failure leaves after syncs have lied: it is refused, or only a tail is
    /// lost. The tail can be acknowledged: no note of it is left.
    fn start_after_lies(&mut self, lost: &Disks) {
        match open(&self.place, lost, &self.clock, &self.rates, &Executions::default()) {
            Err(OpenError::Journal(_)) => self.story.marks.pass(Mark::LieRefused),
            Err(other) => panic!("{}: {other}", self.context()),
            Ok(AssembledEngine { engine, parts }) => {
                let kept = parts.deciding.shard.state().last_seq();
                self.story.marks.pass_if(Mark::LieLost, kept < self.told);
                drop((engine, parts));
                let killed = lost.after(Crash::Kill);
                let newest = segments(&killed).into_iter().max();
                match self.try_verify(&self.place, &killed) {
                    // A start needs no segment before its checkpoint's: `verify` alone finds a loss there.
                    Err(VerifyError::Open(OpenError::Journal(JournalError::Damaged {
                        file,
                        ..
                    }))) => assert!(ordinal_of(&file) < newest, "{}: {file}", self.context()),
                    found => drop(found.unwrap()),
                }
            }
        }
    }

    /// Another node takes the lead. The former leader gives no answer from then on, whatever it still does.
    pub(super) fn fail_over(&mut self, crash: Option<Crash>) {
        self.take_answers();
        self.story.crashes += 1;
        self.story.marks.pass_if(Mark::JournalFailed, self.has_failed());
        self.mark_segments();
        let led = self.running.take().unwrap();
        let mut zombie = None;
        match crash {
            Some(crash) => {
                if let Some(webhooks) = &mut self.webhooks {
                    webhooks.die(&led.engine);
                }
                if let Some(notices) = &mut self.notices {
                    notices.die(&led.engine, &self.model);
                }
                self.disks = self.disks.after(crash);
                drop(led);
                self.story.marks.pass(Mark::LeaderDied);
            }
            None => {
                zombie = Some((led, self.disks.clone()));
                self.disks = self.disks.after(Crash::Kill);
            }
        }
        self.set_clock(self.clock.load(Ordering::Relaxed).max(self.latest));
        let old = Machine { place: self.place.clone(), disks: self.disks.clone() };
        let (shown, tray) = (std::mem::take(&mut self.executions), std::mem::take(&mut self.tray));
        let shown = Executions(Arc::new(Mutex::new(std::mem::take(&mut *shown.0.lock()))));
        let mut nodes = self.nodes.take().unwrap();
        let options = |machine: &Machine| options(&machine.place, &self.clock, &self.rates);
        let (machine, mut engine) = nodes.take_over(old, &options);
        engine.parts.deciding.shard.set_witness(self.executions.clone());
        (self.place, self.disks) = (machine.place, machine.disks);
        (self.nodes, self.running, self.unwritten) = (Some(nodes), Some(engine), 0);
        if let Some((mut zombie, disks)) = zombie {
            for _ in 0..ZOMBIE_STEPS {
                zombie.parts.deciding.shard.step();
                zombie.parts.deciding.shard.step_loader();
                zombie.parts.deciding.committer.step();
                step_trail(&mut zombie.parts.deciding.trail);
                if self.webhooks.is_some() || self.notices.is_some() {
                    zombie.parts.following.projector.step();
                }
            }
            if let Some(webhooks) = &mut self.webhooks {
                webhooks.lose_lead(&zombie.engine);
            }
            if let Some(notices) = &mut self.notices {
                notices.lose_lead(&zombie.engine);
            }
            self.nodes.as_mut().unwrap().old_leader_stops(disks.after(Crash::Kill));
            for (tag, reply) in tray.0.lock().drain(..) {
                let context = self.context();
                assert_eq!(reply, Reply::OutcomeUnknown, "{context}: a zombie answers {tag}");
            }
            self.story.marks.pass(Mark::LeaderFenced);
        }
        let shown = std::mem::take(&mut *shown.0.lock());
        self.resolve(shown);
        self.await_tables();
    }

    fn reopen(&mut self) {
        let (place, disks) = (&self.place, &self.disks);
        let opened = open(place, disks, &self.clock, &self.rates, &self.executions);
        let opened = opened.unwrap_or_else(|error| panic!("{}: {error}", self.context()));
        (self.running, self.unwritten) = (Some(opened), 0);
        self.await_tables();
    }

    /// Settles the outcome of all commands without an answer.
    fn resolve(&mut self, shown: VecDeque<ExecutedCommand>) {
        let kept = self.parts().deciding.shard.state().last_seq();
        let context = self.context();
        assert!(kept >= self.told, "{context}: {kept:?} of {:?} is left", self.told);
        let applied = self.engine().watermark.applied();
        for note in self.engine().journal_notes.clone() {
            self.story.marks.pass(Mark::TornTail);
            let has_whole = matches!(note, JournalNote::TornTail { has_whole_batch: true, .. });
            // A node of a cluster writes several groups at once.
            self.story.marks.pass_if(Mark::TornGroup, has_whole && self.nodes.is_none());
        }
        self.story.marks.pass_if(Mark::TablesBehind, applied < kept);
        let unheard: Vec<_> = std::mem::take(&mut self.unknown).into_iter().chain(shown).collect();
        for executed in unheard {
            if executed.last_seq <= kept
                && let Some(command) = self.sent.remove(&executed.tag)
            {
                self.story.marks.pass(Mark::Unheard);
                // Without a record nothing of it is left, not even its time.
                if executed.has_record {
                    self.apply(&executed, &command);
                }
                self.story.unheard += 1;
                self.maybe_retry(command);
            }
        }
        for (_, command) in std::mem::take(&mut self.sent) {
            self.maybe_retry(command);
        }
        self.model.forget_changes_until(kept);
        self.tray.0.lock().clear();
        self.told = kept;
        self.set_clock(self.clock.load(Ordering::Relaxed).max(self.latest));
        self.trace.update(format!("back at {kept:?}"));
    }

    pub(super) fn maybe_retry(&mut self, command: Command) {
        if self.rng.below(100) < self.rates.retried_percent {
            self.to_retry.push_back(command);
        }
    }

    /// Proves the files as `cardswitch verify` does.
    pub(super) fn verify(&mut self) {
        // Writes of an orderly end are not seen.
        let killed = self.disks.after(Crash::Kill);
        let failure = match self.rng.chance(50) {
            true => Crash::PowerFailure,
            false => Crash::TornPowerFailure(self.rng.number() >> 1),
        };
        let lost = self.is_lying().then(|| self.disks.after(failure));
        self.running = None;
        if let Some(lost) = lost {
            self.start_after_lies(&lost);
        }
        let state = self.verify_machine(&self.place, &killed);
        self.damage_tables(&killed, state);
        let Some(mut nodes) = self.nodes.take() else { return };
        let options = |machine: &Machine| options(&machine.place, &self.clock, &self.rates);
        for machine in nodes.all_reach(&killed, &options) {
            let other = self.verify_machine(&machine.place, &machine.disks);
            assert_eq!(other, state, "{}: nodes hold the same", self.context());
        }
        self.story.marks.add(&nodes.window().take_marks());
        nodes.marks.into_iter().for_each(|mark| self.story.marks.pass(mark));
    }

    fn verify_machine(&self, place: &Path, disks: &Disks) -> StateHash {
        self.try_verify(place, disks).unwrap()
    }

    /// Errors: a file cannot be read, or is damaged.
    fn try_verify(&self, place: &Path, disks: &Disks) -> Result<StateHash, VerifyError> {
        let directory = DataDirectory::open_read_only(place).unwrap();
        let found = verify_on(&directory, disks.storage())?;
        let wrong: Vec<_> = found.figures.iter().filter(|figure| !figure.is_right()).collect();
        assert!(wrong.is_empty(), "{}: {wrong:#?}", self.context());
        Ok(found.state_hash)
    }
}

/// The ordinals of the journal's segments.
fn segments(disks: &Disks) -> Vec<u64> {
    disks.journal.names().unwrap().iter().filter_map(|name| ordinal_of(name)).collect()
}

fn ordinal_of(file: &str) -> Option<u64> {
    file.strip_suffix(".segment")?.parse().ok()
}
