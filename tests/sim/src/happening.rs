//! The happenings of a world, one after the other: enough to run it again.
//!
//! INVARIANT: all that moves beside a happening is drawn from the seed of that one, so that it stays what it is where
//! others are left out.

use std::fmt;

use cardswitch_engine::command::Command;

use crate::disks::Crash;

/// A happening of every moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    Send,
    Step(Part),
}

/// A happening of now and then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RareEvent {
    ClockBack,
    ClockLeap,
    Audit,
    Restart,
    Crash,
    BreakDisk,
}

/// A part of the switch that moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    Shard,
    Committer,
    Loader,
    Projector,
    Segments,
}

impl Part {
    pub const ALL: [Self; 5] =
        [Self::Shard, Self::Committer, Self::Loader, Self::Projector, Self::Segments];
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}

/// How a disk fails, and at which operation from now on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskFault {
    /// That read fails, and no other.
    FailRead(u64),
    FailWrite(u64),
    /// That write leaves so many bytes.
    TearWrite(u64, usize),
    FailSync(u64),
    /// That sync is done and fails all the same.
    FailAfterSync(u64),
    Full,
}

/// A bit of the journal that is found flipped. The numbers choose a file and a place among those that exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BitFlip {
    pub file: u64,
    pub place: u64,
    pub bit: u8,
}

/// A happening, and the seed of all draws beside it: of followers, the window, notes, webhooks and letters.
#[derive(Clone, Debug)]
pub struct ToldHappening {
    pub happening: Happening,
    pub seed: u64,
}

/// The same story with less at a time, the plainest first: each command alone, or each sending as it is, and then
/// all come to rest.
pub(crate) fn plainer(told: &[ToldHappening]) -> [Vec<ToldHappening>; 2] {
    let is_step = |told: &ToldHappening| {
        matches!(told.happening, Happening::Step(_) | Happening::StepAmidWrite(..))
    };
    let told_with_rest = |commands_max: usize| {
        let tellings = told.iter().filter(|told| !is_step(told)).flat_map(move |told| {
            let Happening::Send { at, commands } = &told.happening else {
                return vec![told.clone()];
            };
            let sendings = commands.chunks(commands_max);
            let happenings = sendings.flat_map(|commands| {
                [Happening::Send { at: *at, commands: commands.to_vec() }, Happening::Audit]
            });
            happenings
                .zip(told.seed..)
                .map(|(happening, seed)| ToldHappening { happening, seed })
                .collect()
        });
        tellings.collect()
    };
    [1, usize::MAX].map(told_with_rest)
}

/// One happening of a world.
#[derive(Clone, Debug)]
pub enum Happening {
    /// Users send commands, by a clock that says `at`.
    Send {
        at: i64,
        commands: Vec<Command>,
    },
    Step(Part),
    /// A part moves, and others while the journal's disk is at its write.
    StepAmidWrite(Part, Vec<Part>),
    /// The machine's clock is set back. Units: microseconds.
    ClockBack(i64),
    /// The machine's clock leaps ahead, and is set right once the shard has looked at it. Units:
    /// microseconds.
    ClockLeap(i64),
    /// Model, memory and tables are compared.
    Audit,
    /// The switch is stopped in good order and started again.
    Restart,
    /// The switch goes down, and again at a write of each start that is named. A start that meets the
    /// flipped bit is looked at, and then the bit is as it was.
    Crash {
        first: Crash,
        on_the_way_up: Vec<(u64, Crash)>,
        flip: Option<BitFlip>,
    },
    /// The disk below the journal.
    BreakDisk(DiskFault),
    /// The disk below the tables.
    BreakTables(DiskFault),
    /// Another node of a cluster leads; the former leader goes down by this crash, or goes on.
    FailOver(Option<Crash>),
}

impl fmt::Display for Happening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send { at, commands } => {
                write!(f, "at {at} somebody sends")?;
                commands.iter().try_for_each(|command| write!(f, "\n    {command:?}"))
            }
            Self::Step(part) => write!(f, "the {part} moves"),
            Self::StepAmidWrite(part, others) => {
                write!(f, "the {part} moves, and while the journal is written")?;
                others.iter().try_for_each(|other| write!(f, " the {other}"))
            }
            Self::ClockBack(back) => write!(f, "the clock goes back by {} s", back / 1_000_000),
            Self::ClockLeap(ahead) => {
                write!(f, "the clock leaps ahead by {} s, and back", ahead / 1_000_000)
            }
            Self::Audit => write!(f, "all come to rest and are compared"),
            Self::Restart => write!(f, "the switch is restarted"),
            Self::Crash { first, on_the_way_up, flip } => {
                write!(f, "crash: {first:?}")?;
                if let Some(flip) = flip {
                    write!(f, ", {flip:?}")?;
                }
                on_the_way_up.iter().try_for_each(|(nth, next)| {
                    write!(f, ", at write {nth} of the next start: {next:?}")
                })
            }
            Self::FailOver(Some(crash)) => write!(f, "the leader dies: {crash:?}"),
            Self::FailOver(None) => write!(f, "another node leads, and the leader goes on"),
            Self::BreakDisk(fault) => write!(f, "the disk breaks: {fault:?}"),
            Self::BreakTables(fault) => write!(f, "the disk of the tables breaks: {fault:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plainer_story_has_the_same_commands_and_faults_and_rests_between_them() {
        let told = |happening, seed| ToldHappening { happening, seed };
        let sending = Happening::Send { at: 7, commands: vec![Command::Tick; 3] };
        let moves = Happening::StepAmidWrite(Part::Shard, vec![Part::Projector]);
        let story = [
            told(Happening::Step(Part::Shard), 1),
            told(sending, 2),
            told(moves, 3),
            told(Happening::Restart, 4),
        ];
        let in_words = |story: &[ToldHappening]| {
            let word = |told: &ToldHappening| match &told.happening {
                Happening::Send { at: 7, commands } => format!("{} sent", commands.len()),
                other => other.to_string(),
            };
            story.iter().map(word).collect::<Vec<_>>()
        };
        let rest = Happening::Audit.to_string();
        let restart = Happening::Restart.to_string();
        let [singly, together] = plainer(&story).map(|story| in_words(&story));
        assert_eq!(singly, ["1 sent", &rest, "1 sent", &rest, "1 sent", &rest, &restart]);
        assert_eq!(together, ["3 sent", &rest, &restart]);
    }
}
