//! A bit of a row of the tables that is found flipped while the switch does not run: a start is refused, or reads only
//! what was written; `verify` finds it, wherever it changes anything.

use cardswitch_engine::data_directory::DataDirectory;
use cardswitch_engine::engine::{AssembledEngine, OpenError};
use cardswitch_engine::shard::StateHash;
use cardswitch_engine::steps::Steps;
use cardswitch_engine::verify::{VerifyError, verify_on};

use super::assembly::{Executions, open};
use super::{ROUNDS_MAX, World};
use crate::audit::{audit_readable, audit_state};
use crate::disks::{Crash, Disks};
use crate::marks::Mark;
use crate::rng::Rng;

/// A world in so many ends with a look at damaged tables. Units: hundredths.
const WORLDS_PERCENT: u64 = 4;
/// Texts of rows: of companies, members, cards, requisitions and transactions. Other bytes may be redb's own, which
/// ends the process over some of them.
const TEXTS: [&[u8]; 5] = [b"Another name", b"Lovelace", b"A. Holder", b"A chair", b"A Restaurant"];
/// The length of the shortest.
const TEXTS_LEN_MIN: u64 = 7;

impl World {
    /// Flips a bit of a row in a copy of the files, which are whole and of this state.
    pub(super) fn damage_tables(&mut self, files: &Disks, whole: StateHash) {
        let mut rng = Rng::new(self.seed ^ 0xDA_3A6E);
        if !rng.chance(WORLDS_PERCENT) || self.nodes.is_some() {
            return;
        }
        let content = files.store.content();
        let is_of_row = |place: &usize| {
            matches!(content[*place], b'A' | b'L')
                && TEXTS.iter().any(|text| content[*place..].starts_with(text))
        };
        let rows: Vec<_> = (0..content.len()).filter(is_of_row).collect();
        // A short world may have no checkpoint.
        if rows.is_empty() {
            return;
        }
        let place = rng.pick(&rows) + rng.below(TEXTS_LEN_MIN) as usize;
        let bit = rng.below(8) as u8;
        let flipped = files.after(Crash::Kill);
        flipped.store.flip(place, 1 << bit);
        let is_found = self.verify_damaged(&flipped, whole, (place, bit));
        self.start_damaged(&flipped, is_found, (place, bit));
    }

    /// Returns whether `verify` finds it. Where it does not, nothing has changed.
    fn verify_damaged(&mut self, flipped: &Disks, whole: StateHash, at: (usize, u8)) -> bool {
        let context = format!("{}, bit {at:?} of the tables", self.context());
        let directory = DataDirectory::open_read_only(&self.place).unwrap();
        match verify_on(&directory, flipped.storage()) {
            Err(VerifyError::Open(OpenError::Journal(error))) => {
                panic!("{context}: {error}, and not the tables")
            }
            Err(_) => true,
            Ok(found) if !found.is_ok() => true,
            Ok(found) => {
                assert_eq!(found.state_hash, whole, "{context}");
                self.story.marks.pass(Mark::TablesFlipHarmless);
                false
            }
        }
    }

    /// Starts on these files: what is read is as it was written.
    fn start_damaged(&mut self, flipped: &Disks, is_found: bool, at: (usize, u8)) {
        let context = format!("{}, bit {at:?} of the tables", self.context());
        let opened = open(&self.place, flipped, &self.clock, &self.rates, &Executions::default());
        let AssembledEngine { engine, mut parts } = match opened {
            Ok(assembled) => assembled,
            Err(error) => {
                assert!(is_found, "{context}: {error}");
                self.story.marks.pass(Mark::TablesFlipRefused);
                return;
            }
        };
        let is_behind = || engine.watermark.applied() < engine.durable_seq();
        let mut rounds = 0..ROUNDS_MAX;
        while is_behind() && rounds.next().is_some() {
            parts.following.projector.step();
        }
        let state = parts.deciding.shard.state();
        audit_state(&mut self.model, state, self.modelled.1, &context);
        // Tables that cannot follow stand still.
        let unread = match engine.store.read() {
            Ok(tables) if !is_behind() => audit_readable(&self.model, state, &tables, &context),
            _ => 1,
        };
        assert!(is_found || unread == 0, "{context}: {unread} rows are not read");
        self.story.marks.pass_if(Mark::TablesFlipUnread, unread > 0);
    }
}
