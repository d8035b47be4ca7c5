//! Commands on their way to the switch, and answers, which are the model's.

use std::collections::VecDeque;
use std::sync::Arc;

use cardswitch_engine::command::Command;
use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::domain::ids::RecordSeq;
use cardswitch_engine::submission::{Envelope, ReplyPort, SubmitError};
use parking_lot::Mutex;
use sha2::Digest as _;

use super::World;
use super::assembly::ExecutedCommand;
use super::tables::is_refused;
use crate::marks::Mark;

/// Takes answers, in the order in which they come.
#[derive(Default)]
pub(super) struct Tray(pub(super) Mutex<VecDeque<(u64, Reply)>>);

impl ReplyPort for Tray {
    fn deliver(&self, tag: u64, reply: Reply) {
        self.0.lock().push_back((tag, reply));
    }
}

/// A reply as the model gives it.
pub(super) fn without_seq(reply: Reply) -> Reply {
    if let Reply::Done(_) = reply { Reply::Done(RecordSeq(0)) } else { reply }
}

impl World {
    pub(super) fn send(&mut self, mut commands: Vec<Command>) {
        let count = commands.len();
        commands.retain(|command| !is_refused(self.engine(), command));
        self.story.marks.pass_if(Mark::ChangeRefused, commands.len() < count);
        if commands.is_empty() {
            return;
        }
        let mut envelopes = Vec::new();
        for command in &commands {
            let port: Arc<dyn ReplyPort> = self.tray.clone();
            envelopes.push(Envelope { command: command.clone().into(), tag: self.next_tag, port });
            self.next_tag += 1;
        }
        let first = envelopes[0].tag;
        match self.engine().submit(envelopes) {
            Ok(()) => self.sent.extend((first..).zip(commands)),
            Err(SubmitError::Overloaded | SubmitError::Stopped) => {}
            Err(SubmitError::TablesStandStill) => unreachable!("no change was sent"),
        }
    }

    /// Compares each answer with the model's, in the order of execution.
    pub(super) fn take_answers(&mut self) {
        loop {
            let Some((tag, reply)) = self.tray.0.lock().pop_front() else { return };
            if self.is_unread(tag, &reply) {
                self.take_back_unread(tag);
                continue;
            }
            let executed = self.executions.0.lock().pop_front().unwrap();
            assert_eq!(executed.tag, tag, "{}: answers come in order", self.context());
            self.story.marks.pass_if(Mark::PutAside, tag < self.newest_answered);
            self.newest_answered = self.newest_answered.max(tag);
            if reply == Reply::OutcomeUnknown {
                self.story.marks.pass(Mark::UnknownOutcome);
                self.unknown.push(executed);
            } else {
                self.take_answer(executed, reply);
            }
        }
    }

    fn take_answer(&mut self, executed: ExecutedCommand, reply: Reply) {
        let mut command = self.sent.remove(&executed.tag).unwrap();
        let reply = without_seq(reply);
        let expected = self.apply(&executed, &command);
        assert_eq!(reply, expected, "{} at {:?}: {command:?}", self.context(), executed.at);
        self.mark_condition(&mut command, &reply);
        assert!(self.engine().durable_seq() >= executed.last_seq, "{}", self.context());
        self.told = self.told.max(executed.last_seq);
        self.audit_standstill();
        self.trace.update(format!("{} {} {reply:?}", executed.tag, executed.at.0));
        self.story.commands += 1;
    }

    pub(super) fn apply(&mut self, executed: &ExecutedCommand, command: &Command) -> Reply {
        self.latest = self.latest.max(executed.at.0);
        self.modelled = (executed.last_seq, executed.at);
        let (reply, is_a_hold_late) = executed.expected_of(&mut self.model, command);
        self.story.marks.pass_if(Mark::HoldLate, is_a_hold_late);
        if executed.has_record && !matches!(command, Command::Network(_)) {
            self.model.note_changes(executed.last_seq);
        }
        if let Some(notices) = &mut self.notices {
            notices.notice_members(executed.last_seq, &self.model);
        }
        reply
    }
}
