//! How often each thing happens in a world. Drawn from its seed, so that some worlds are calm and some
//! are hell, and each rare thing is common somewhere.

use std::time::Duration;

use cardswitch_engine::engine::Retention;
use cardswitch_engine::shard::CacheLimits;
use cardswitch_engine::store::Pacing;

use crate::happening::{Action, Part};
use crate::rng::Rng;

/// The rates of one world.
#[derive(Clone, Debug)]
pub(crate) struct Rates {
    weights: Vec<(Action, u64)>,
    total: u64,
    /// So many commands are sent together at most.
    pub(crate) burst: u64,
    /// So many are under way at most.
    pub(crate) in_flight: usize,
    /// How many of a hundred unanswered commands are sent again after a crash.
    pub(crate) retried_percent: u64,
    /// How many of a hundred recoveries meet another crash.
    pub(crate) crashed_recoveries_percent: u64,
    pub(crate) caches: CacheLimits,
    pub(crate) pacing: Pacing,
    pub(crate) retention: Retention,
}

impl Rates {
    /// Draws the rates of a world of `length` commands, which crashes once on average.
    pub(crate) fn draw(rng: &mut Rng, length: u64) -> Self {
        // One part of a world may be much slower than another.
        let mut weights = vec![(Action::Send, 1 << rng.below(6))];
        weights.extend(Part::ALL.map(|part| (Action::Step(part), 1 << rng.below(6))));
        let burst = up_to(rng, 5);
        let steps: u64 = weights.iter().map(|(_, weight)| weight).sum();
        // Of all that is drawn, so much sends a command.
        let per_command =
            |weights: &[(Action, u64)]| steps.div_ceil(weights[0].1 * (burst + 1) / 2);
        let drawn = per_command(&weights) * length;
        // In parts of what is drawn: so often in the whole of it.
        let scale = 1_000;
        weights.iter_mut().for_each(|(_, weight)| *weight *= scale);
        let mut rare = |action, times_percent: u64| {
            weights.push((action, (steps * scale * times_percent / 100 / drawn.max(1)).max(1)));
        };
        rare(Action::Crash, rng.below(200));
        rare(Action::Restart, rng.below(80));
        rare(Action::BreakDisk, rng.below(60));
        rare(Action::ClockBack, rng.below(1_000));
        rare(Action::Audit, 500);
        Self {
            total: weights.iter().map(|(_, weight)| weight).sum(),
            weights,
            burst,
            in_flight: up_to(rng, 8) as usize,
            retried_percent: rng.below(101),
            crashed_recoveries_percent: rng.below(60),
            caches: draw_caches(rng),
            pacing: draw_pacing(rng),
            retention: if rng.chance(50) { Retention::Bytes(2 << 20) } else { Retention::Recovery },
        }
    }

    pub(crate) fn next(&self, rng: &mut Rng) -> Action {
        let mut place = rng.below(self.total);
        for (action, weight) in &self.weights {
            if place < *weight {
                return *action;
            }
            place -= weight;
        }
        unreachable!("a place below the total is some action's")
    }
}

/// From one to a power of two, small numbers as often as large ones.
fn up_to(rng: &mut Rng, powers: u64) -> u64 {
    let most = 1 << rng.below(powers + 1);
    1 + rng.below(most)
}

/// Mostly so little memory that commands need the tables.
fn draw_caches(rng: &mut Rng) -> CacheLimits {
    let few = |rng: &mut Rng| 1 << rng.below(12);
    CacheLimits {
        recent_transactions: few(rng),
        loaded_transactions: CacheLimits::LOADED_MIN.max(few(rng)),
        answers: few(rng),
        message_keys: few(rng),
    }
}

/// Checkpoints come by volume only: what real time does must not matter.
fn draw_pacing(rng: &mut Rng) -> Pacing {
    Pacing {
        visible_interval: Duration::ZERO,
        awaited_interval: Duration::ZERO,
        checkpoint_interval: Duration::MAX,
        checkpoint_records: 1 << rng.below(11),
    }
}
