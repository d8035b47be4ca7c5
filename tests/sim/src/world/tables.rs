//! The disk below the tables breaks while the switch goes on: the tables stand still, what needs their rows is
//! not carried out, holds end late, and all else is answered. The next start finds a disk that works.

use std::sync::Arc;

use cardswitch_engine::command::Command;
use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::engine::{AssembledEngine, Engine};
use cardswitch_engine::journal::testing::DiskFaultPlan;
use cardswitch_engine::submission::{Envelope, ReplyPort, SubmitError};

use super::World;
use super::answers::Tray;
use crate::happening::{DiskFault, Happening};
use crate::marks::Mark;
use crate::rates::Rates;
use crate::rng::Rng;

/// A world in so many has a disk of tables that breaks. Units: hundredths.
const WORLDS_PERCENT: u64 = 20;

/// The disk below the tables of one world.
pub(super) struct TableFaults {
    rng: Rng,
    /// Of 10,000 happenings, so many break it.
    breaks: u64,
    /// So often it breaks at most.
    breaks_left: u64,
    /// Of so many happenings after that, one is the end of the process.
    patience: u64,
    /// Whether it was told to break since the last start.
    is_broken: bool,
}

impl TableFaults {
    /// Draws them for the world of a seed, if it has some: few rows are in memory then.
    pub(super) fn draw(seed: u64, rates: &mut Rates) -> Option<Self> {
        let mut rng = Rng::new(seed ^ 0x7AB1_E500);
        if !rng.chance(WORLDS_PERCENT) {
            return None;
        }
        rates.table_cache_bytes = 1 << (10 + rng.below(8));
        Some(Self {
            breaks: 4 << rng.below(6),
            patience: 1 << (4 + rng.below(7)),
            breaks_left: 1 + rng.below(5),
            rng,
            is_broken: false,
        })
    }

    fn draw_fault(&mut self) -> DiskFault {
        let most = 1 << self.rng.below(8);
        let nth = 1 + self.rng.below(most);
        match self.rng.below(8) {
            0..3 => DiskFault::FailRead(nth),
            3 => DiskFault::FailWrite(nth),
            4 => DiskFault::TearWrite(nth, self.rng.below(8_000) as usize),
            5 => DiskFault::FailSync(nth),
            6 => DiskFault::FailAfterSync(nth),
            _ => DiskFault::Full,
        }
    }
}

impl World {
    /// The next happening of the disk below the tables, if there is one.
    pub(super) fn draw_for_tables(&mut self) -> Option<Happening> {
        let tables = self.table_faults.as_mut()?;
        if !tables.is_broken {
            let is_breaking = tables.breaks_left > 0 && tables.rng.below(10_000) < tables.breaks;
            tables.breaks_left -= u64::from(is_breaking);
            return is_breaking.then(|| Happening::BreakTables(tables.draw_fault()));
        }
        let is_ending = tables.rng.below(tables.patience) == 0;
        is_ending.then(|| self.draw_end())
    }

    pub(super) fn break_tables(&mut self, fault: DiskFault) {
        let bytes = self.disks.store.content().len() as u64;
        self.disks.store.plan(plan_of(fault, bytes));
        if let Some(tables) = &mut self.table_faults {
            tables.is_broken = true;
        }
        self.story.broken_disks += 1;
    }

    /// The process ends, and the next one finds a disk that works.
    pub(super) fn mend_tables(&mut self) {
        if let Some(tables) = &mut self.table_faults {
            tables.is_broken = false;
        }
    }

    /// Whether projection and reads of the tables may fail.
    pub(super) fn are_tables_broken(&self) -> bool {
        self.table_faults.as_ref().is_some_and(|tables| tables.is_broken)
    }

    /// Whether an answer is that of a command that was not carried out, since rows could not be read.
    pub(super) fn is_unread(&self, tag: u64, reply: &Reply) -> bool {
        let executions = self.executions.0.lock();
        let is_executed = executions.front().is_some_and(|executed| executed.tag == tag);
        *reply == Reply::OutcomeUnknown && !is_executed && self.are_tables_broken()
    }

    /// A command that was not carried out may be sent again.
    pub(super) fn take_back_unread(&mut self, tag: u64) {
        self.story.marks.pass(Mark::TablesUnread);
        let command = self.sent.remove(&tag).unwrap();
        self.maybe_retry(command);
    }

    /// Compares the tables with the watermark, where a command was answered after projection had failed.
    pub(super) fn audit_standstill(&mut self) {
        let AssembledEngine { engine, parts } = self.running.as_ref().unwrap();
        if !self.are_tables_broken() || parts.following.projector.health.failure().is_none() {
            return;
        }
        self.story.marks.pass(Mark::AnsweredAtStandstill);
        if let Ok(shown) = engine.store.checkpoint() {
            assert_eq!(shown.applied_seq, engine.watermark.applied(), "{}", self.context());
        }
    }
}

/// Whether it is a change while the tables stand still: nobody could read it, so the engine refuses it.
pub(super) fn is_refused(engine: &Engine, command: &Command) -> bool {
    if !command.is_change() || engine.projection_failure().is_none() {
        return false;
    }
    let port: Arc<dyn ReplyPort> = Arc::<Tray>::default();
    let change = Envelope { command: command.clone().into(), tag: 0, port };
    assert_eq!(engine.submit(vec![change]), Err(SubmitError::TablesStandStill));
    true
}

/// The plan of a fault, for a disk with so many bytes.
pub(super) fn plan_of(fault: DiskFault, bytes: u64) -> DiskFaultPlan {
    let nothing = DiskFaultPlan::default();
    match fault {
        DiskFault::FailRead(nth) => DiskFaultPlan { fail_read: Some(nth), ..nothing },
        DiskFault::FailWrite(nth) => DiskFaultPlan { fail_write: Some(nth), ..nothing },
        DiskFault::TearWrite(nth, kept) => {
            DiskFaultPlan { torn_write: Some((nth, kept)), ..nothing }
        }
        DiskFault::FailSync(nth) => DiskFaultPlan { fail_sync: Some(nth), ..nothing },
        DiskFault::FailAfterSync(nth) => DiskFaultPlan { fail_after_sync: Some(nth), ..nothing },
        DiskFault::Full => DiskFaultPlan { disk_full_bytes: Some(bytes), ..nothing },
    }
}
