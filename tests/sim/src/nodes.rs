//! The nodes of a simulated cluster beside the one that leads.
//!
//! They follow now and then, one of them takes over when the world has it so, and a node that the window left
//! behind begins again as a copy of the leader's disks, as from a backup.

use std::collections::VecDeque;
use std::path::PathBuf;

use cardswitch_engine::engine::{
    AssembledEngine, EngineOptions, EngineParts, FollowingParts, OpenError, Standby, TakeOver,
};
use cardswitch_engine::journal::JournalError;
use cardswitch_engine::journal::window::{ChainWindow, WindowError, WindowTip};
use cardswitch_engine::steps::{StepOutcome, Steps};

use crate::disks::{Crash, Disks};
use crate::marks::Mark;
use crate::rng::Rng;
use crate::window::SimulatedWindow;

/// A node's directory and its disks.
pub(crate) struct Machine {
    pub(crate) place: PathBuf,
    pub(crate) disks: Disks,
}

/// The nodes beside the leader, and the window.
pub(crate) struct Nodes {
    window: SimulatedWindow,
    /// The leader's connection.
    leader: SimulatedWindow,
    followers: VecDeque<Follower>,
    rng: Rng,
    /// How often a follower looks at the window, of a thousand things that happen.
    looks_per_mille: u64,
    pub(crate) marks: Vec<Mark>,
}

struct Follower {
    machine: Machine,
    running: Option<(Standby, FollowingParts)>,
    /// Its own connection, as a run of its own.
    window: SimulatedWindow,
}

/// A node of a cluster could not start to deliver, and leads no more: it goes down in this way.
pub(crate) struct FailedStart(pub(crate) Crash);

/// The options of a node's engine, by its machine.
pub(crate) type Options<'a> = &'a dyn Fn(&Machine) -> EngineOptions;

impl Nodes {
    /// The nodes `machines`, which all hold the same, and the first of them, which leads.
    pub(crate) fn new(
        mut rng: Rng,
        machines: Vec<Machine>,
        options: Options<'_>,
    ) -> (Self, Machine, AssembledEngine) {
        let (first, _) = open(&machines[0], options).unwrap();
        let window = SimulatedWindow::new(Rng::new(rng.number()), first.tip());
        drop(first);
        let follower = |machine| Follower { machine, running: None, window: window.for_next_run() };
        let followers = machines.into_iter().map(follower).collect();
        let looks_per_mille = 1 << rng.below(8);
        let (leader, marks) = (window.clone(), Vec::new());
        let mut nodes = Self { window, leader, followers, rng, looks_per_mille, marks };
        let (machine, engine) = nodes.take_over(None, options);
        (nodes, machine, engine)
    }

    /// Draws, and lets the window draw, from new seeds.
    pub(crate) fn draw_from(&mut self, seeds: &mut Rng) {
        self.rng = Rng::new(seeds.number());
        self.window.draw_from(seeds);
    }

    /// One follower takes in the new batches, now and then.
    pub(crate) fn follow_now_and_then(&mut self, leader: &Disks, options: Options<'_>) {
        if self.rng.below(1_000) < self.looks_per_mille {
            let at = self.rng.below(self.followers.len() as u64) as usize;
            self.follow(at, leader, options);
        }
        if self.rng.below(2_000) == 0 {
            let at = self.rng.below(self.followers.len() as u64) as usize;
            let crash = Crash::TornPowerFailure(self.rng.number() >> 1);
            self.followers[at].go_down(crash);
        }
    }

    /// Returns whether the follower has the whole chain.
    fn follow(&mut self, at: usize, leader: &Disks, options: Options<'_>) -> bool {
        let follower = &mut self.followers[at];
        let reached = follower.catch_up(options);
        // Commits of tables are dear: much gathers for one.
        if self.rng.chance(8) {
            follower.step_projector();
        }
        match reached {
            Ok(Some(_)) => true,
            Ok(None) => false,
            Err(OpenError::Journal(JournalError::Window(WindowError::Trimmed { .. }))) => {
                self.marks.push(Mark::FollowerCopied);
                follower.running = None;
                follower.machine.disks = leader.backup();
                false
            }
            Err(error) => panic!("a follower cannot follow: {error}"),
        }
    }

    /// The first follower leads from here on, with `old`, if it still runs, as one of the others.
    pub(crate) fn take_over(
        &mut self,
        old: impl Into<Option<Machine>>,
        options: Options<'_>,
    ) -> (Machine, AssembledEngine) {
        let old = old.into();
        loop {
            let mut next = self.followers.pop_front().unwrap();
            // Its log may end before the first batch of the window.
            let copied_from =
                old.as_ref().map_or_else(|| next.machine.disks.clone(), |old| old.disks.clone());
            let mut is_copy = false;
            let tip = loop {
                match next.catch_up(options) {
                    Ok(Some(tip)) => break tip,
                    Ok(None) => {}
                    Err(OpenError::Journal(JournalError::Window(WindowError::Trimmed {
                        ..
                    }))) => {
                        assert!(!is_copy, "a copy of the leader ends before the window, too");
                        self.marks.push(Mark::FollowerCopied);
                        next.running = None;
                        next.machine.disks = copied_from.backup();
                        is_copy = true;
                    }
                    Err(error) => panic!("a follower cannot follow: {error}"),
                }
            };
            let (standby, following) = next.running.take().unwrap();
            match standby.take_over_parts(Box::new(next.window.clone()), &tip).unwrap() {
                TakeOver::Leads((engine, deciding)) => {
                    let parts = EngineParts { deciding, following };
                    self.followers.extend(old.map(|machine| self.follower(machine)));
                    self.leader = next.window;
                    return (next.machine, AssembledEngine { engine, parts });
                }
                TakeOver::Follows(standby) => {
                    self.marks.push(Mark::LeaderOvertaken);
                    next.running = Some((*standby, following));
                    self.followers.push_front(next);
                }
            }
        }
    }

    /// The node that led before the last take-over has gone on for a while, and leaves these disks.
    pub(crate) fn old_leader_stops(&mut self, disks: Disks) {
        let old = self.followers.back_mut().unwrap();
        assert!(old.running.is_none(), "it has not followed since");
        old.machine.disks = disks;
    }

    fn follower(&self, machine: Machine) -> Follower {
        Follower { machine, running: None, window: self.window.for_next_run() }
    }

    /// Lets every follower reach the leader, with nothing in its way, and gives its disks.
    pub(crate) fn all_reach(&mut self, leader: &Disks, options: Options<'_>) -> Vec<&Machine> {
        for at in 0..self.followers.len() {
            while !self.follow(at, leader, options) {}
            self.followers[at].project();
            self.followers[at].go_down(Crash::Kill);
        }
        self.followers.iter().map(|follower| &follower.machine).collect()
    }

    pub(crate) fn leader(&self) -> &SimulatedWindow {
        &self.leader
    }

    pub(crate) fn window(&self) -> &SimulatedWindow {
        &self.window
    }
}

impl Follower {
    /// Takes in the batches of the window; none where the window is silent.
    fn catch_up(&mut self, options: Options<'_>) -> Result<Option<WindowTip>, OpenError> {
        let (standby, _) = match &mut self.running {
            Some(running) => running,
            None => self.running.insert(open(&self.machine, options)?),
        };
        let tip = self.window.tip().map_err(|error| JournalError::Window(error).into());
        let reached = tip.and_then(|tip| standby.catch_up_to(&tip, &mut self.window).map(|()| tip));
        let reached = match reached {
            Err(OpenError::Journal(JournalError::Window(WindowError::Unavailable(_)))) => None,
            reached => Some(reached?),
        };
        if let Some((_, parts)) = &mut self.running {
            parts.segments.step();
        }
        Ok(reached)
    }

    fn step_projector(&mut self) {
        if let Some((_, parts)) = &mut self.running {
            parts.projector.step();
        }
    }

    fn project(&mut self) {
        if let Some((_, parts)) = &mut self.running {
            while parts.projector.step() == StepOutcome::Worked {}
        }
    }

    fn go_down(&mut self, crash: Crash) {
        self.machine.disks = self.machine.disks.after(crash);
        self.running = None;
    }
}

fn open(machine: &Machine, options: Options<'_>) -> Result<(Standby, FollowingParts), OpenError> {
    Standby::open_parts(options(machine), machine.disks.storage())
}
