//! How often each thing happens in a world. Drawn from its seed, so that some worlds are calm and some
//! are hell, and each rare thing is common somewhere.

use std::time::Duration;

use cardswitch_engine::engine::Retention;
use cardswitch_engine::journal::limits::CommitLimits;
use cardswitch_engine::limits;
use cardswitch_engine::shard::CacheLimits;
use cardswitch_engine::store::Pacing;

use crate::happening::{Action, Part, RareEvent};
use crate::rng::Rng;

/// The rates of one world.
#[derive(Clone, Debug)]
pub(crate) struct Rates {
    /// The weight of each part's moves, and of a sending, beside the others.
    weights: Vec<(Action, u64)>,
    /// How often each rare thing happens in the whole world. Units: hundredths.
    rare: Vec<(RareEvent, u64)>,
    /// The number of sendings in the whole world.
    sends: u64,
    /// So many commands are sent together at most.
    pub(crate) burst: u64,
    /// So many are under way at most.
    pub(crate) in_flight: usize,
    /// How many of a hundred unanswered commands are sent again after a crash.
    pub(crate) retried_percent: u64,
    /// How many of a hundred recoveries meet another crash.
    pub(crate) crashed_recoveries_percent: u64,
    pub(crate) caches: CacheLimits,
    /// The pages of the tables in memory. Units: bytes.
    pub(crate) table_cache_bytes: usize,
    pub(crate) pacing: Pacing,
    pub(crate) retention: Retention,
    pub(crate) commits: CommitLimits,
    /// So many failed syncs come on five other faults of the disk.
    pub(crate) failed_syncs: u64,
}

impl Rates {
    /// Draws the rates of a world of `length` commands, which crashes once on average.
    pub(crate) fn draw(rng: &mut Rng, length: u64) -> Self {
        // Commits of tables are dear: in most worlds much gathers for one.
        let slowed = if rng.chance(94) { 4 } else { 0 };
        // One part of a world may be much slower than another.
        let mut weights = vec![(Action::Send, 1 << (slowed + rng.below(6)))];
        weights.extend(Part::ALL.map(|part| match part {
            Part::Projector => (Action::Step(part), 1 << rng.below(2)),
            _ => (Action::Step(part), 1 << (slowed + rng.below(6))),
        }));
        let burst = up_to(rng, 6);
        Self {
            weights,
            rare: vec![
                (RareEvent::Crash, rng.below(201)),
                (RareEvent::Restart, rng.below(81)),
                (RareEvent::BreakDisk, rng.below(61)),
                (RareEvent::ClockBack, rng.below(1_001)),
                (RareEvent::ClockLeap, rng.below(501)),
                (RareEvent::Audit, 500),
            ],
            sends: 2 * length / (burst + 1) + 1,
            burst,
            in_flight: up_to(rng, 8) as usize,
            retried_percent: rng.below(101),
            crashed_recoveries_percent: rng.below(60),
            caches: draw_caches(rng),
            table_cache_bytes: limits::STORE_CACHE_BYTES,
            pacing: draw_pacing(rng),
            // Small ones, so that segments come and go within a world.
            retention: Retention::Bytes(if rng.chance(50) { 2 << 20 } else { 0 }),
            commits: CommitLimits::default(),
            failed_syncs: 0,
        }
    }

    /// In every other world a batch has few records, and the shard leaves commits to the committer, which is
    /// slow: a commit has several batches. More syncs fail there, so that some of these are torn.
    pub(crate) fn with_small_batches(mut self, mut rng: Rng) -> Self {
        if rng.chance(50) {
            self.commits = CommitLimits { batch_bytes: 1 << rng.below(12), in_place_bytes: 0 };
            self.rare.push((RareEvent::BreakDisk, rng.below(401)));
            self.failed_syncs = 10;
            let slow = 1 << rng.below(6);
            for (action, weight) in &mut self.weights {
                if *action == Action::Step(Part::Committer) {
                    *weight = slow;
                }
            }
        }
        self
    }

    pub(crate) fn next(&self, rng: &mut Rng) -> Action {
        pick(&self.weights, rng.below(self.weights.iter().map(|(_, weight)| weight).sum()))
            .unwrap_or(Action::Send)
    }

    /// Draws the rare happening in place of a sending, if there is one.
    /// A short world of many commands at a time has few sendings, and still sends.
    pub(crate) fn next_rare(&self, rng: &mut Rng) -> Option<RareEvent> {
        let rare: u64 = self.rare.iter().map(|(_, weight)| weight).sum();
        pick(&self.rare, rng.below((100 * self.sends).max(rare + 100)))
    }
}

/// The thing at `place`, where each takes as much room as it weighs.
fn pick<T: Copy>(things: &[(T, u64)], mut place: u64) -> Option<T> {
    for (thing, weight) in things {
        if place < *weight {
            return Some(*thing);
        }
        place -= weight;
    }
    None
}

/// From one to a power of two, small numbers as often as large ones.
fn up_to(rng: &mut Rng, powers: u64) -> u64 {
    let most = 1 << rng.below(powers + 1);
    1 + rng.below(most)
}

/// Mostly so little memory that commands need the tables.
fn draw_caches(rng: &mut Rng) -> CacheLimits {
    let few = |rng: &mut Rng| 1 << rng.below(12);
    let recent_transactions = few(rng);
    CacheLimits {
        recent_transactions,
        loaded_transactions: CacheLimits::LOADED_MIN.max(few(rng)),
        answers: few(rng),
        message_keys: few(rng),
        unseen_changes: recent_transactions.min(CacheLimits::default().unseen_changes),
    }
}

/// Checkpoints come by volume only: real time must not matter. Most worlds have few, which are dearer than other
/// commits; in some nearly every commit is one.
fn draw_pacing(rng: &mut Rng) -> Pacing {
    let records = if rng.chance(25) { rng.below(6) } else { 6 + rng.below(5) };
    Pacing {
        visible_interval: Duration::ZERO,
        awaited_interval: Duration::ZERO,
        checkpoint_interval: Duration::MAX,
        checkpoint_records: 1 << records,
    }
}
