//! Administrators who change an object on condition that it is as they saw it: some look at old tables, some have the
//! form open that another one sends first.

use std::collections::VecDeque;

use cardswitch_engine::command::Command;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::{Rejection, Reply};
use cardswitch_engine::command::seen_object::SeenObject;
use cardswitch_engine::domain::ids::RecordSeq;

use super::World;
use crate::marks::Mark;
use crate::model::Model;
use crate::rng::Rng;

/// A look at the tables is at most so many sendings old.
const LOOKS_MAX: usize = 16;

/// The conditions of one world.
pub(super) struct Conditions {
    rng: Rng,
    /// Of a hundred changes that can have one, so many have a condition.
    percent: u64,
    /// The newest records that tables showed at the last sendings.
    looks: VecDeque<RecordSeq>,
    /// The last change with a condition: somebody else may have the same form open.
    open_form: Option<AdminCommand>,
}

impl Conditions {
    pub(super) fn draw(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x1F_0C4A_63ED);
        let percent = rng.pick(&[0, 20, 50, 90]);
        Self { rng, percent, looks: VecDeque::new(), open_form: None }
    }

    /// Puts a condition on a change; `shown` is the newest record of the tables.
    pub(super) fn put_on(
        &mut self,
        mut command: Command,
        shown: RecordSeq,
        model: &Model,
    ) -> Command {
        let Some(change) = change_of(&mut command) else { return command };
        let Some(object) = model.object_of(change).filter(|_| self.rng.chance(self.percent)) else {
            return command;
        };
        self.looks.truncate(LOOKS_MAX - 1);
        self.looks.push_front(shown);
        if let Some(form) = self.open_form.take_if(|_| self.rng.chance(40)) {
            *change = form;
            return command;
        }
        let most = if self.rng.chance(60) { 1 } else { self.looks.len() as u64 };
        let since = self.looks[self.rng.below(most) as usize];
        let unconditional = Box::new(change.clone());
        *change = AdminCommand::IfUnchanged(SeenObject { object, since }, unconditional);
        self.open_form = Some(change.clone());
        command
    }
}

/// The change of a command.
fn change_of(command: &mut Command) -> Option<&mut AdminCommand> {
    match command {
        Command::Admin(change) => Some(change),
        Command::Noted(noted) => Some(&mut noted.change),
        Command::Keyed(keyed) => keyed.change.as_mut(),
        Command::Network(_) | Command::Tick => None,
    }
}

impl World {
    /// Passes the marks of an answer to a change with a condition.
    pub(super) fn mark_condition(&mut self, command: &mut Command, reply: &Reply) {
        let Some(AdminCommand::IfUnchanged(seen, _)) = change_of(command) else { return };
        match reply {
            Reply::Done(_) => self.story.marks.pass(Mark::ConditionMet),
            Reply::Rejected(Rejection::ChangedMeanwhile) => {
                let is_forgotten = self.model.is_look_forgotten(seen);
                let mark =
                    if is_forgotten { Mark::SeenBeforeStart } else { Mark::ChangedMeanwhile };
                self.story.marks.pass(mark);
            }
            _ => {}
        }
    }
}
