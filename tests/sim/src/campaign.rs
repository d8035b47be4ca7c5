//! Many worlds, one seed after the other, on all cores; and the story of the first that fails.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use cardswitch_engine::clock::Stopwatch;
use cardswitch_engine::data_directory::DataDirectory;
use parking_lot::Mutex;

use crate::happening::{Happening, ToldHappening, plainer};
use crate::letters;
use crate::shrink::{Failure, failure_of, shrink};
use crate::sockets::{self, SocketHappening, Words};
use crate::world::{Story, run, run_again};

/// The worlds to run.
#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    pub first_seed: u64,
    pub seeds: u64,
    /// Commands of each world.
    pub commands: u64,
    /// Worlds at a time.
    pub threads: usize,
}

/// The outcome of a campaign.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub seeds: u64,
    pub total: Story,
    pub elapsed: Duration,
    /// The first seed that failed.
    pub failed: Option<u64>,
}

impl Campaign {
    /// Runs every seed, until one fails. Shows the report so far to `progress` once a minute.
    pub fn run(&self, progress: impl Fn(&Report) + Sync) -> Report {
        let since = Stopwatch::start();
        let (next, has_failed) = (AtomicU64::new(0), AtomicBool::new(false));
        let report = Mutex::new(Report::default());
        let minutes = AtomicU64::new(1);
        std::thread::scope(|scope| {
            for _ in 0..self.threads.max(1) {
                scope.spawn(|| {
                    let ground = Ground::new();
                    while !has_failed.load(Ordering::Relaxed) {
                        let seed = self.first_seed + next.fetch_add(1, Ordering::Relaxed);
                        if seed >= self.first_seed + self.seeds {
                            return;
                        }
                        let told = || {
                            let mut story =
                                run(seed, self.commands, &ground.place, &mut Vec::new());
                            story.marks.add(&letters::run(seed));
                            let at_the_door = sockets::run(seed, &ground.place, &mut Vec::new());
                            story.marks.add(&at_the_door.marks);
                            story.add_trace(&at_the_door.trace);
                            story
                        };
                        let ended = catch_unwind(AssertUnwindSafe(told));
                        let mut report = report.lock();
                        report.elapsed = since.elapsed();
                        match ended {
                            Ok(story) => report.add(&story),
                            Err(_) => {
                                has_failed.store(true, Ordering::Relaxed);
                                report.failed.get_or_insert(seed);
                            }
                        }
                        let minute = minutes.load(Ordering::Relaxed);
                        if report.elapsed.as_secs() >= 60 * minute {
                            minutes.store(minute + 1, Ordering::Relaxed);
                            progress(&report);
                        }
                    }
                });
            }
        });
        report.into_inner()
    }

    /// Finds out how the world of a seed fails, in as few happenings as fail in the same file. `None` if it
    /// does not.
    pub fn explain(&self, seed: u64) -> Option<Explanation> {
        let ground = Ground::new();
        if let Some(failure) = failure_of(|| letters::run(seed)) {
            let failure = failure.in_world_of("letters");
            return Some(Explanation { failure, ..Explanation::default() });
        }
        if let Some(explanation) = explain_sockets(seed, &ground) {
            return Some(explanation);
        }
        let mut told = Vec::new();
        let failure = failure_of(|| run(seed, self.commands, &ground.place, &mut told))?;
        let fails = |happenings: &[ToldHappening]| {
            let again = || run_again(seed, self.commands, &ground.place, happenings);
            failure_of(again).is_some_and(|again| again.file() == failure.file())
        };
        let all = told.len();
        let plainest = plainer(&told).into_iter().find(|plainer| fails(plainer));
        let told = plainest.unwrap_or(told);
        // A panic of the part that draws has nothing to shrink.
        let told = if fails(&told) { shrink(told, fails) } else { told };
        let happenings: Vec<_> = told.into_iter().map(|told| told.happening).collect();
        let story = happenings.iter().map(Happening::to_string).collect();
        Some(Explanation { failure, happenings, story, all })
    }

    /// The happenings of a seed's world, which does not fail.
    pub fn happenings_of(&self, seed: u64) -> Vec<Happening> {
        let (ground, mut told) = (Ground::new(), Vec::new());
        run(seed, self.commands, &ground.place, &mut told);
        told.into_iter().map(|told| told.happening).collect()
    }
}

/// Finds out how the world of sockets of a seed fails, in as few happenings as fail in the same file.
fn explain_sockets(seed: u64, ground: &Ground) -> Option<Explanation> {
    let mut told = Vec::new();
    let failure = failure_of(|| sockets::run(seed, &ground.place, &mut told))?;
    let again = |happenings: &[SocketHappening], words: Option<Words>| {
        failure_of(|| sockets::run_again(seed, &ground.place, happenings, words))
    };
    let fails = |happenings: &[SocketHappening]| {
        again(happenings, None).is_some_and(|again| again.file() == failure.file())
    };
    let all = told.len();
    let told = if fails(&told) { shrink(told, fails) } else { told };
    let words = Words::default();
    // The message of the small world is about what is told.
    let failure = again(&told, Some(Words::clone(&words))).unwrap_or_else(|| failure.clone());
    let story = std::mem::take(&mut *words.lock());
    let failure = failure.in_world_of("sockets");
    Some(Explanation { failure, happenings: Vec::new(), story, all })
}

/// How a world fails.
#[derive(Debug, Default)]
pub struct Explanation {
    pub failure: Failure,
    /// The happenings of an engine that it takes.
    pub happenings: Vec<Happening>,
    /// The happenings, in words.
    story: Vec<String>,
    /// The number of all that there were.
    all: usize,
}

impl std::fmt::Display for Explanation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { failure: Failure { place, message }, story, all, .. } = self;
        write!(f, "{message}\nat {place}\n{all} happenings, of which these are left:")?;
        story.iter().try_for_each(|happening| write!(f, "\n- {happening}"))
    }
}

impl Report {
    fn add(&mut self, story: &Story) {
        self.seeds += 1;
        let total = &mut self.total;
        total.commands += story.commands;
        total.crashes += story.crashes;
        total.restarts += story.restarts;
        total.broken_disks += story.broken_disks;
        total.unheard += story.unheard;
        total.marks.add(&story.marks);
        total.time = total.time.saturating_add(story.time);
        // In any order of the seeds the same.
        total.add_trace(&story.trace);
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const YEAR_S: i64 = 365 * 86_400;
        let Story { commands, crashes, restarts, broken_disks, unheard, .. } = &self.total;
        let Story { time, trace, .. } = &self.total;
        let rate = u128::from(*commands) * 1_000 / self.elapsed.as_millis().max(1);
        write!(
            f,
            "{} seeds, {commands} commands ({rate}/s), {} simulated years, {crashes} crashes \
             ({unheard} commands had happened unheard), {restarts} restarts, {broken_disks} broken \
             disks, trace ",
            self.seeds,
            time / 1_000_000 / YEAR_S,
        )?;
        trace[..8].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A data directory for the worlds of a thread: their other files are simulated.
struct Ground {
    place: PathBuf,
    _parent: tempfile::TempDir,
}

impl Ground {
    fn new() -> Self {
        let parent = tempfile::tempdir().unwrap();
        let place = parent.path().join("data");
        drop(DataDirectory::create(Path::new(&place), [5; 16]).unwrap());
        Self { place, _parent: parent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    const COMMANDS: u64 = 300;

    /// A seed tells the same story each time, and so do its happenings by themselves.
    #[test]
    fn the_same_seed_leads_to_the_same_trace() {
        let (first, ground) = (Rng::seed_from_environment(), Ground::new());
        let mut traces = Vec::new();
        for seed in first..first + 4 {
            let mut told = Vec::new();
            let story = run(seed, COMMANDS, &ground.place, &mut told);
            assert!(story.commands >= COMMANDS && !told.is_empty());
            let again = run(seed, COMMANDS, &ground.place, &mut Vec::new());
            assert_eq!(story.trace, again.trace, "seed {seed}");
            let again = run_again(seed, COMMANDS, &ground.place, &told);
            assert_eq!(story.trace, again.trace, "seed {seed}, told again");
            let mut told = Vec::new();
            let at_the_door = sockets::run(seed, &ground.place, &mut told).trace;
            let again = sockets::run(seed, &ground.place, &mut Vec::new()).trace;
            assert_eq!(at_the_door, again, "seed {seed}, sockets");
            let again = sockets::run_again(seed, &ground.place, &told, None).trace;
            assert_eq!(at_the_door, again, "seed {seed}, sockets told again");
            traces.push(story.trace);
        }
        traces.dedup();
        assert_eq!(traces.len(), 4, "another seed is another world");
    }

    #[test]
    fn a_campaign_counts_what_its_worlds_went_through() {
        let first_seed = Rng::seed_from_environment();
        let campaign = Campaign { first_seed, seeds: 6, commands: COMMANDS, threads: 2 };
        let report = campaign.run(|_| ());
        assert_eq!((report.seeds, report.failed), (6, None));
        assert!(report.total.commands >= 6 * COMMANDS && report.total.crashes > 0, "{report}");
        assert!(campaign.explain(first_seed).is_none(), "nothing fails");
    }
}
