//! The webhooks of a world beside its switch: their start, their moves, their end, and an old copy of the disks
//! that is put back under the newest state of deliveries. And its letters about declines.

use std::sync::Arc;

use cardswitch_engine::command::Command;
use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::engine::{
    AssembledEngine, DecidingParts, Engine, EngineParts, FollowingParts,
};
use cardswitch_engine::steps::{StepOutcome, Steps};
use cardswitch_engine::submission::{Envelope, ReplyPort};
use sha2::Digest as _;

use super::answers::Tray;
use super::{ExecutedCommand, Executions, World, open};
use crate::disks::{Crash, Disks};
use crate::model::Model;
use crate::nodes::{FailedStart, Nodes};
use crate::notices::NoticeCopy;

/// So many commands come after an old copy was put back.
const COMMANDS_AFTER_COPY: u64 = 30;

impl World {
    /// As a start has it, deliveries begin once the tables show all that is durable.
    pub(super) fn await_tables(&mut self) {
        let Some(running) = &self.running else { return };
        let (durable, leader) =
            (running.engine.durable_seq(), self.nodes.as_ref().map(Nodes::leader));
        if let Some(webhooks) = &mut self.webhooks {
            webhooks.await_tables(durable, leader);
        }
        if let Some(notices) = &mut self.notices {
            notices.await_tables(durable, leader);
        }
    }

    pub(super) fn move_notices(&mut self) {
        let Some(notices) = &mut self.notices else { return };
        let Some(running) = &self.running else { return };
        let mail = &mut self.disks.mail;
        if let Err(FailedStart(crash)) =
            notices.move_now_and_then(&running.engine, &self.model, mail)
        {
            self.fail_over(Some(crash));
        }
    }

    /// Another node of a cluster leads at last, and sends what the others have left.
    fn change_last_leader(&mut self) {
        let mut crash = Some(Crash::Kill).filter(|_| self.nodes.is_some());
        while let Some(next) = crash.take() {
            let Some(notices) = &mut self.notices else { return };
            notices.calm_down();
            self.fail_over(Some(next));
            self.settle();
            let (Some(notices), Some(running)) = (&mut self.notices, &self.running) else { return };
            let started = notices.is_running(&running.engine, &mut self.disks.mail);
            crash = started.err().map(|FailedStart(crash)| crash);
        }
    }

    /// Lets all cardholders be told of what was declined to them.
    pub(super) fn end_notices(&mut self) {
        self.change_last_leader();
        if let (Some(notices), Some(running)) = (&mut self.notices, &self.running) {
            notices.come_to_rest(&running.engine, &self.model, &mut self.disks.mail);
        }
    }

    /// Keeps an old copy once, where it has all that is durable.
    pub(super) fn copy_for_notices(&mut self) {
        // A node of a cluster with a copy follows.
        let may_copy = !self.is_lying() && self.nodes.is_none();
        if let Some(notices) = self.notices.as_mut().filter(|_| may_copy) {
            notices.copy_once(self.story.commands, &self.disks, &self.model);
        }
    }

    /// Puts the old copy of the disks back below the newest state of letters. The switch goes on from there, and
    /// tells of declines after some commands: numbers of transactions have other meanings by then.
    pub(super) fn put_back_below_letters(&mut self) {
        let Some(mut notices) = self.notices.take() else { return };
        if let Some(NoticeCopy { disks, mut model }) = notices.copy.take() {
            let mut disks = Disks { mail: self.disks.after(Crash::Kill).mail, ..disks };
            notices.go_down();
            let mut copy = self.open_copy(&disks);
            copy.come_to_rest();
            notices.cut(&copy.engine().store.read().unwrap());
            notices.await_tables(copy.engine().durable_seq(), None);
            let start = notices.draw_start(COMMANDS_AFTER_COPY);
            for number in 0..COMMANDS_AFTER_COPY {
                let command = self.draw_timely(&model);
                let executed = copy.carry_out(command.clone());
                model.expect(executed.at.0, &command);
                notices.notice_members(executed.last_seq, &model);
                if number >= start {
                    // A switch that is alone leads for ever.
                    drop(notices.move_now_and_then(copy.engine(), &model, &mut disks.mail));
                }
            }
            notices.come_to_rest(copy.engine(), &model, &mut disks.mail);
        }
        let (taken, marks) = notices.end();
        self.trace.update(taken);
        self.story.marks.add(&marks);
    }

    /// The first endpoints, on a calm day.
    pub(super) fn make_endpoints(&mut self) {
        let Some(webhooks) = &mut self.webhooks else { return };
        let commands = webhooks.opening();
        self.send(commands);
        self.settle();
    }

    pub(super) fn move_webhooks(&mut self) {
        let is_lying = self.is_lying();
        let Some(webhooks) = &mut self.webhooks else { return };
        let Some(running) = &self.running else { return };
        // A copy of disks that lie would have lost more than what is not durable; a node of a cluster with a copy
        // follows.
        if !is_lying && self.nodes.is_none() {
            webhooks.copy_once(self.story.commands, &self.disks);
        }
        match webhooks.move_now_and_then(&running.engine, &mut self.disks.deliveries) {
            Ok(change) => change.into_iter().for_each(|change| self.send(vec![change])),
            Err(FailedStart(crash)) => self.fail_over(Some(crash)),
        }
    }

    /// Starts the dispatcher, at the node that leads in the end.
    fn start_webhooks(&mut self) {
        loop {
            let Some(webhooks) = &mut self.webhooks else { return };
            let Some(running) = &self.running else { return };
            match webhooks.is_running(&running.engine, &mut self.disks.deliveries) {
                Ok(_) => return,
                Err(FailedStart(crash)) => {
                    self.fail_over(Some(crash));
                    self.settle();
                }
            }
        }
    }

    /// Lets all webhooks arrive, and stops them.
    pub(super) fn end_webhooks(&mut self) {
        self.start_webhooks();
        let Some(webhooks) = &mut self.webhooks else { return };
        let Some(running) = &self.running else { return };
        webhooks.come_to_rest(&running.engine);
        webhooks.shut_down(&running.engine);
        self.trace.update(webhooks.trace());
    }

    /// Puts the copy of the disks back under the newest state of deliveries. The switch goes on from there, and makes
    /// other events with the numbers of those that are lost.
    pub(super) fn put_back(&mut self) {
        let Some(mut webhooks) = self.webhooks.take() else { return };
        if let Some(copy) = webhooks.copy.take() {
            let mut disks = Disks { deliveries: self.disks.after(Crash::Kill).deliveries, ..copy };
            webhooks.go_down();
            let mut switch = self.open_copy(&disks);
            webhooks.cut(&switch.engine().store.read().unwrap());
            webhooks.await_tables(switch.engine().durable_seq(), None);
            let model = self.model.clone();
            for _ in 0..COMMANDS_AFTER_COPY {
                switch.carry_out(self.draw_timely(&model));
                // A switch that is alone leads for ever.
                drop(webhooks.move_now_and_then(switch.engine(), &mut disks.deliveries));
            }
            drop(webhooks.is_running(switch.engine(), &mut disks.deliveries));
            webhooks.come_to_rest(switch.engine());
            self.trace.update(webhooks.trace());
        }
        self.story.marks.add(&webhooks.marks());
    }
}

/// A switch on an old copy of the disks, which carries out one command at a time.
pub(super) struct CopiedSwitch {
    assembled: AssembledEngine,
    executions: Executions,
    tray: Arc<Tray>,
}

impl World {
    /// Starts a switch on an old copy of the disks, and brings its tables up to date. No timer has run yet.
    pub(super) fn open_copy(&self, disks: &Disks) -> CopiedSwitch {
        let (executions, tray) = (Executions::default(), Arc::default());
        let opened = open(&self.place, disks, &self.clock, &self.rates, &executions);
        let mut copy = CopiedSwitch { assembled: opened.unwrap(), executions, tray };
        while copy.assembled.parts.following.projector.step() == StepOutcome::Worked {}
        copy
    }

    /// Lets time pass, and draws a command.
    pub(super) fn draw_timely(&mut self, model: &Model) -> Command {
        let at = self.workload.pass_time().0;
        self.set_clock(at);
        self.workload.draw(model)
    }
}

impl CopiedSwitch {
    pub(super) const fn engine(&self) -> &Engine {
        &self.assembled.engine
    }

    fn carry_out(&mut self, command: Command) -> ExecutedCommand {
        self.try_carry_out(command).0.unwrap()
    }

    /// Returns the reply also to a command that was not executed.
    pub(super) fn try_carry_out(&mut self, command: Command) -> (Option<ExecutedCommand>, Reply) {
        let port: Arc<dyn ReplyPort> = self.tray.clone();
        let envelope = Envelope { command: command.into(), tag: 0, port };
        self.engine().submit(vec![envelope]).unwrap();
        self.come_to_rest();
        let (_, reply) = self.tray.0.lock().pop_front().unwrap();
        (self.executions.0.lock().pop_front(), reply)
    }

    /// Lets every part move until nothing is left to do.
    fn come_to_rest(&mut self) {
        let EngineParts { deciding, following } = &mut self.assembled.parts;
        let DecidingParts { shard, committer, .. } = deciding;
        let FollowingParts { segments, projector } = following;
        loop {
            let outcomes = [
                shard.step(),
                shard.step_loader(),
                committer.step(),
                projector.step(),
                segments.step(),
            ];
            if !outcomes.contains(&StepOutcome::Worked) {
                return;
            }
        }
    }
}
