//! Drives a shard without threads, as its loop does, and keeps the content of its journal.

use cardswitch_engine::command::Command;
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::record::append_record;
use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::domain::public_id::IdMint;
use cardswitch_engine::shard::{Moment, ShardState, execute};

/// A shard and its journal.
pub struct Driver {
    pub state: ShardState,
    pub ids: IdMint,
    /// Every record, encoded.
    pub payload: Vec<u8>,
    /// The end of each record in `payload`.
    pub ends: Vec<usize>,
    effects: Vec<Effect>,
}

pub fn id_mint() -> IdMint {
    IdMint::new(*b"an id key, fixed", 0)
}

impl Driver {
    pub fn new(state: ShardState) -> Self {
        let (payload, ends, effects) = (Vec::new(), Vec::new(), Vec::new());
        Self { state, ids: id_mint(), payload, ends, effects }
    }

    /// Carries out a command, after everything that is due before it.
    pub fn run(&mut self, at: Timestamp, command: &Command) -> Reply {
        self.run_due(at);
        let ids = self.ids.clone();
        let reply = execute(&self.state, &Moment { at, ids: &ids }, command, &mut self.effects);
        self.record(at);
        reply
    }

    pub fn run_due(&mut self, at: Timestamp) {
        let ids = self.ids.clone();
        while let Some((timer, due)) = self.state.due_timer(at) {
            self.state.execute_timer(&Moment { at: due, ids: &ids }, timer, &mut self.effects);
            self.record(due);
        }
    }

    fn record(&mut self, at: Timestamp) {
        if self.effects.is_empty() {
            return;
        }
        let seq = self.state.last_seq().next();
        append_record(&mut self.payload, seq, at, &self.effects).unwrap();
        self.ends.push(self.payload.len());
        self.state.apply_record(seq, at, &self.effects);
        self.effects.clear();
    }
}
