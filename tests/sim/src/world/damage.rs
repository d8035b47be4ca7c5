//! A bit of a row of the tables that flips. Where it does while the switch is down, a start is refused, or reads only
//! what was written; `verify` finds it, wherever it changes anything. Where it does while the switch runs, each answer
//! is right, or the command is not carried out.

use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::data_directory::DataDirectory;
use cardswitch_engine::engine::{AssembledEngine, OpenError};
use cardswitch_engine::shard::StateHash;
use cardswitch_engine::steps::{StepOutcome, Steps};
use cardswitch_engine::verify::{VerifyError, verify_on};

use super::World;
use super::answers::without_seq;
use super::assembly::{Executions, open};
use super::tables::is_refused;
use crate::audit::{WholeTables, audit_state};
use crate::disks::{Crash, Disks};
use crate::marks::Mark;
use crate::rng::Rng;

/// A world in so many ends with a look at damaged tables. Units: hundredths.
const WORLDS_PERCENT: u64 = 8;
/// Texts of rows: of companies, members, cards, requisitions and transactions. Other bytes may be redb's own, which
/// ends the process over some of them.
const TEXTS: [&[u8]; 5] = [b"Another name", b"Lovelace", b"A. Holder", b"A chair", b"A Restaurant"];
/// The length of the shortest.
const TEXTS_LEN_MIN: u64 = 7;
/// So many commands come after a bit has flipped under a switch that runs.
const COMMANDS_ON_DAMAGE: u64 = 200;

impl World {
    /// Flips a bit of a row in a copy of the files, which are whole and of this state.
    pub(super) fn damage_tables(&mut self, files: &Disks, whole: StateHash) {
        let mut rng = Rng::new(self.seed ^ 0xDA_3A6E);
        if !rng.chance(WORLDS_PERCENT) || self.nodes.is_some() {
            return;
        }
        let texts = places_of_texts(files);
        if texts.is_empty() {
            return;
        }
        let flipped = files.after(Crash::Kill);
        let at = flip_one(&mut rng, &texts, &flipped);
        let is_found = self.verify_damaged(&flipped, whole, at);
        self.start_damaged((&flipped, files), is_found, at);
        self.damage_running(files, rng);
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
    fn start_damaged(
        &mut self,
        (flipped, whole): (&Disks, &Disks),
        is_found: bool,
        at: (usize, u8),
    ) {
        let context = format!("{}, bit {at:?} of the tables", self.context());
        // One switch at a time has the directory.
        let switch = self.open_copy(&whole.after(Crash::Kill));
        let whole = WholeTables::read(&self.model, &switch.engine().store.read().unwrap());
        drop(switch);
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
        while is_behind() && parts.following.projector.step() == StepOutcome::Worked {}
        let state = parts.deciding.shard.state();
        audit_state(&mut self.model, state, self.modelled.1, &context);
        // Tables that cannot follow stand still.
        let unread = match engine.store.read() {
            Ok(tables) if !is_behind() => whole.compare(&tables, &context),
            _ => 1,
        };
        assert!(is_found || unread == 0, "{context}: {unread} rows are not read");
        self.story.marks.pass_if(Mark::TablesFlipUnread, unread > 0);
    }

    /// Flips bits under a switch that runs and has few rows in memory, and goes on.
    fn damage_running(&mut self, files: &Disks, mut rng: Rng) {
        self.rates.table_cache_bytes = 1 << (10 + rng.below(8));
        let disks = files.after(Crash::Kill);
        let mut switch = self.open_copy(&disks);
        let texts = places_of_texts(&disks);
        for _ in 0..1 << rng.below(8) {
            flip_one(&mut rng, &texts, &disks);
        }
        let mut model = self.model.clone();
        for number in 0..COMMANDS_ON_DAMAGE {
            let command = self.draw_timely(&model);
            let context = format!("{}, command {number} on damaged tables", self.context());
            if is_refused(switch.engine(), &command) {
                continue;
            }
            match switch.try_carry_out(command.clone()) {
                (Some(executed), reply) => {
                    let (expected, _) = executed.expected_of(&mut model, &command);
                    assert_eq!(without_seq(reply), expected, "{context}: {command:?}");
                }
                (None, reply) => {
                    assert_eq!(reply, Reply::OutcomeUnknown, "{context}: {command:?}");
                    self.story.marks.pass(Mark::FlippedRowUnread);
                }
            }
        }
    }
}

/// The places of texts in rows of the tables. A short world may have none.
fn places_of_texts(files: &Disks) -> Vec<usize> {
    let content = files.store.content();
    let is_of_row = |place: &usize| {
        matches!(content[*place], b'A' | b'L')
            && TEXTS.iter().any(|text| content[*place..].starts_with(text))
    };
    (0..content.len()).filter(is_of_row).collect()
}

/// Flips a bit of one of these texts. Returns the place of its byte, and which bit it is.
fn flip_one(rng: &mut Rng, texts: &[usize], files: &Disks) -> (usize, u8) {
    let (place, bit) = (rng.pick(texts) + rng.below(TEXTS_LEN_MIN) as usize, rng.below(8) as u8);
    files.store.flip(place, 1 << bit);
    (place, bit)
}
