//! Turns a command into effects and a reply. Reads the state, changes nothing.

use super::execute_audit::audit;
use super::execute_keyed_command::execute_keyed;
use super::execute_network::execute_network;
use super::execute_tick::execute_timer;
use super::shard_change::ShardChange;
use super::state::ShardState;
use super::timers::Timer;
use crate::command::effect::Effect;
use crate::command::reply::{Rejection, Reply};
use crate::command::{Command, Moment, NotedCommand};
use crate::domain::ids::Timestamp;

/// Executes one command, and appends its changes to `effects`.
pub fn execute(
    state: &ShardState,
    moment: &Moment<'_>,
    command: &Command,
    effects: &mut Vec<Effect>,
) -> Reply {
    debug_assert!(effects.is_empty());
    let mut change = ShardChange { state, moment, effects };
    let done = match command {
        Command::Network(request) => {
            return Reply::Network(execute_network(&mut change, request));
        }
        Command::Tick => return Reply::Ticked,
        Command::Admin(command) => command.execute(&mut change.for_resources()),
        Command::Keyed(command) => execute_keyed(&mut change, command),
        Command::Noted(command) => execute_noted(&mut change, command),
    };
    admin_reply(state, done, effects)
}

/// A change, with who made it.
fn execute_noted(change: &mut ShardChange<'_>, command: &NotedCommand) -> Result<(), Rejection> {
    command.change.execute(&mut change.for_resources())?;
    audit(change, &command.note, &command.change);
    Ok(())
}

/// The reply to a change. A refusal leaves no effects.
fn admin_reply(
    state: &ShardState,
    done: Result<(), Rejection>,
    effects: &mut Vec<Effect>,
) -> Reply {
    match done {
        Ok(()) if effects.is_empty() => Reply::Done(state.last_seq),
        Ok(()) => Reply::Done(state.last_seq.next()),
        Err(rejection) => {
            effects.clear();
            Reply::Rejected(rejection)
        }
    }
}

impl ShardState {
    /// The next timer due at or before `at`, with the instant at which it takes effect.
    pub fn due_timer(&self, at: Timestamp) -> Option<(Timer, Timestamp)> {
        let timer = self.timers.first().filter(|timer| timer.due <= at)?;
        Some((timer, timer.due.max(self.last_at)))
    }

    /// Executes a due timer, and appends its changes to `effects`.
    pub fn execute_timer(&self, moment: &Moment<'_>, timer: Timer, effects: &mut Vec<Effect>) {
        execute_timer(&mut ShardChange { state: self, moment, effects }, timer);
        assert!(!effects.is_empty(), "a due timer changes something, or it would stay due");
    }
}
