//! A shard that holds the program, without a journal: `execute` and `apply`, one after the other.

use std::time::{Duration, Instant};

use cardswitch_engine::command::Command;
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::reply::{NetworkReply, Reply};
use cardswitch_engine::domain::ids::{RecordSeq, Timestamp};
use cardswitch_engine::domain::public_id::IdMint;
use cardswitch_engine::shard::{CacheLimits, LoadedRows, Moment, ShardState, execute, look_ahead};

use super::{Program, START, founding, is_done, pan_hash};

/// The hot state, and what a command needs beside it.
#[derive(Clone, Debug)]
pub struct BareShard {
    /// The hot state.
    pub state: ShardState,
    ids: IdMint,
    at: Timestamp,
    effects: Vec<Effect>,
}

impl BareShard {
    /// A shard without anything.
    pub fn empty() -> Self {
        Self {
            state: ShardState::default(),
            ids: IdMint::new([7; 16], 0),
            at: START,
            effects: Vec::new(),
        }
    }

    /// A shard with so many cards, all of one company.
    pub fn with_cards(cards: u64) -> Self {
        let mut shard = Self::empty();
        shard.found(Program::of_one_company(cards));
        shard
    }

    /// A shard as an engine has it: it keeps the newest transactions and no more, so its age does
    /// not show.
    pub fn bounded() -> Self {
        let mut state = ShardState::with_limits(CacheLimits::default());
        state.go_live();
        Self { state, ..Self::empty() }
    }

    /// Makes a program in it.
    pub fn found(&mut self, program: Program) {
        for command in founding(program, pan_hash) {
            let reply = self.take(&command);
            assert!(matches!(reply, Reply::Done(_)), "the program is founded: {reply:?}");
        }
    }

    /// Executes one command and applies what it changes.
    pub fn take(&mut self, command: &Command) -> Reply {
        self.take_and_encode(command, |_, _, _| {})
    }

    /// Takes a batch as the shard's loop does: the memory of what comes is asked for ahead, and at
    /// the end goes what is older than the limits. Now and then a message's key looks like an older
    /// one's; a loader would read the tables then and find that it is not, so that is what is said.
    pub fn take_batch(
        &mut self,
        commands: &[Command],
        encode: &mut dyn FnMut(RecordSeq, Timestamp, &[Effect]),
        replied: &mut dyn FnMut(&Reply),
    ) {
        for (position, command) in commands.iter().enumerate() {
            look_ahead(&self.state, |position| commands.get(position), position);
            let wanted = self.state.wanting(&self.ids, command);
            let is_alike = wanted.is_some();
            if let Some(wanted) = wanted {
                assert!(wanted.transactions.is_empty(), "a new purchase names no old one");
                let purchases = wanted.purchases.into_iter().map(|key| (key, None)).collect();
                self.state.admit(LoadedRows { purchases, ..LoadedRows::default() });
            }
            replied(&self.take_and_encode(command, &mut *encode));
            if is_alike {
                self.state.dismiss();
            }
        }
        self.state.evict(self.state.last_seq());
    }

    /// As `take_batch`, all of which must do what it asks for; returns how long that took.
    pub fn time_batch(
        &mut self,
        commands: &[Command],
        encode: &mut dyn FnMut(RecordSeq, Timestamp, &[Effect]),
    ) -> Duration {
        let mut done = 0;
        let start = Instant::now();
        self.take_batch(commands, encode, &mut |reply| done += usize::from(is_done(reply)));
        let elapsed = start.elapsed();
        assert_eq!(done, commands.len(), "the program carries out everything");
        elapsed
    }

    /// As `take`; `encode` sees sequence, time and effects before they are applied.
    pub fn take_and_encode(
        &mut self,
        command: &Command,
        encode: impl FnOnce(RecordSeq, Timestamp, &[Effect]),
    ) -> Reply {
        self.at = self.at.plus(1);
        self.effects.clear();
        let moment = Moment { at: self.at, ids: &self.ids };
        let reply = execute(&self.state, &moment, command, &mut self.effects);
        if !self.effects.is_empty() {
            let seq = self.state.last_seq().next();
            encode(seq, self.at, &self.effects);
            self.state.apply_record(seq, self.at, &self.effects);
        }
        reply
    }
}

/// Whether a purchase was approved.
pub fn is_approved(reply: &Reply) -> bool {
    matches!(reply, Reply::Network(NetworkReply::Authorization(reply))
        if reply.response_code.is_approved())
}
