//! The webhooks of a world beside its switch: their start, their moves, their end, and an old copy of the disks
//! that is put back under the newest state of deliveries. And its letters about declines.

use std::sync::Arc;

use cardswitch_engine::command::Command;
use cardswitch_engine::engine::{AssembledEngine, DecidingParts, EngineParts, FollowingParts};
use cardswitch_engine::steps::{StepOutcome, Steps};
use cardswitch_engine::submission::{Envelope, ReplyPort};
use sha2::Digest as _;

use super::{Executions, Tray, World, open};
use crate::disks::{Crash, Disks};
use crate::nodes::Nodes;
use crate::notices::NoticeCopy;
use crate::webhooks::FailedStart;

/// So many commands come after an old copy was put back.
const COMMANDS_AFTER_COPY: u64 = 30;

impl World {
    /// As a start has it, deliveries begin once the tables show all that is durable.
    pub(super) fn await_tables(&mut self) {
        if let (Some(webhooks), Some(running)) = (&mut self.webhooks, &self.running) {
            let leader = self.nodes.as_ref().map(Nodes::leader);
            webhooks.await_tables(running.engine.durable_seq(), leader);
        }
        if let (Some(notices), Some(running)) = (&mut self.notices, &self.running) {
            notices.await_tables(running.engine.durable_seq());
        }
    }

    pub(super) fn move_notices(&mut self) {
        if let (Some(notices), Some(running)) = (&mut self.notices, &self.running) {
            notices.move_now_and_then(&running.engine, &self.model, &mut self.disks.mail);
        }
    }

    /// Lets all cardholders be told of what was declined to them.
    pub(super) fn end_notices(&mut self) {
        if let (Some(notices), Some(running)) = (&mut self.notices, &self.running) {
            notices.come_to_rest(&running.engine, &self.model, &mut self.disks.mail);
        }
    }

    /// Keeps an old copy once, where it has all that is durable.
    pub(super) fn copy_for_notices(&mut self) {
        let is_lying = self.is_lying();
        if let Some(notices) = self.notices.as_mut().filter(|_| !is_lying) {
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
            let (executions, tray) = (Executions::default(), Arc::new(Tray::default()));
            let opened = open(&self.place, &disks, &self.clock, &self.rates, &executions).unwrap();
            let AssembledEngine { engine, mut parts } = opened;
            drive(&mut parts);
            notices.cut(&engine.store().read().unwrap());
            notices.await_tables(engine.durable_seq());
            let start = notices.draw_start(COMMANDS_AFTER_COPY);
            for tag in 0..COMMANDS_AFTER_COPY {
                let at = self.workload.pass_time().0;
                self.set_clock(at);
                let command = self.workload.draw(&model);
                let port: Arc<dyn ReplyPort> = tray.clone();
                let envelope = Envelope { command: command.clone().into(), tag, port };
                engine.submit(vec![envelope]).unwrap();
                drive(&mut parts);
                let executed = executions.0.lock().pop_front().unwrap();
                model.expect(executed.at.0, &command);
                notices.notice_members(executed.last_seq, &model);
                if tag >= start {
                    notices.move_now_and_then(&engine, &model, &mut disks.mail);
                }
            }
            notices.come_to_rest(&engine, &model, &mut disks.mail);
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
            let executions = Executions::default();
            let opened = open(&self.place, &disks, &self.clock, &self.rates, &executions).unwrap();
            let AssembledEngine { engine, mut parts } = opened;
            while parts.following.projector.step() == StepOutcome::Worked {}
            webhooks.cut(&engine.store().read().unwrap());
            webhooks.await_tables(engine.durable_seq(), None);
            let port: Arc<dyn ReplyPort> = Arc::new(Tray::default());
            for tag in 0..COMMANDS_AFTER_COPY {
                let at = self.workload.pass_time().0;
                self.set_clock(at);
                let command: Command = self.workload.draw(&self.model);
                let port = Arc::clone(&port);
                let envelope = Envelope { command: command.into(), tag, port };
                engine.submit(vec![envelope]).unwrap();
                drive(&mut parts);
                // A switch that is alone leads for ever.
                drop(webhooks.move_now_and_then(&engine, &mut disks.deliveries));
            }
            drop(webhooks.is_running(&engine, &mut disks.deliveries));
            webhooks.come_to_rest(&engine);
            self.trace.update(webhooks.trace());
        }
        self.story.marks.add(&webhooks.marks());
    }
}

/// Lets every part move until nothing is left to do.
fn drive(parts: &mut EngineParts) {
    let EngineParts { deciding, following } = parts;
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
