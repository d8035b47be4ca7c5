//! How long others wait while an attack goes on.

use std::time::{Duration, Instant};

use cardswitch_harness::{Acquirer, Purchase, TestCard};

/// How many purchases are timed.
const PURCHASES: usize = 400;

/// Of so many purchases, how long all but one in a hundred take.
#[track_caller]
pub(crate) fn p99(acquirer: &mut Acquirer, card: &TestCard) -> Duration {
    let mut times: Vec<Duration> = (0..PURCHASES)
        .map(|_| {
            let request = Purchase::of(card, 1).request();
            let asked = Instant::now();
            let _ = acquirer.ask(&request).expect_approved();
            asked.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[PURCHASES * 99 / 100]
}
