//! What one command changes, while its effects are chosen.

use super::execute::Moment;
use super::state::ShardState;
use crate::command::effect::Effect;
use crate::command::record::append_record;
use crate::command::reply::Rejection;
use crate::directory::DirectoryRow;
use crate::limits;

/// What the rules of a command read and write. What was refused leaves effects that nobody applies.
#[derive(Debug)]
pub struct StateChange<'a> {
    /// The state before the change.
    pub state: &'a ShardState,
    /// When it was accepted.
    pub moment: &'a Moment<'a>,
    /// What it changes, as far as it is chosen.
    pub effects: &'a mut Vec<Effect>,
}

impl StateChange<'_> {
    /// Adds what changes.
    pub(crate) fn push(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Puts a row in the place of the one before it.
    pub(crate) fn put(&mut self, row: impl Into<DirectoryRow>) {
        self.effects.push(Effect::row(row));
    }

    /// Errors: `TooMuchAtOnce` where what follows is more than a record takes. The bounds on what a
    /// member has keep it from being so; links shared with one address are not bounded.
    pub(crate) fn check_room(&self) -> Result<(), Rejection> {
        let mut record = Vec::new();
        let (seq, at) = (self.state.last_seq.next(), self.moment.at);
        let written = append_record(&mut record, seq, at, self.effects);
        let fits = record.len() + limits::RECORD_SPARE_BYTES <= limits::RECORD_BYTES_MAX;
        if written.is_ok() && fits { Ok(()) } else { Err(Rejection::TooMuchAtOnce) }
    }
}
