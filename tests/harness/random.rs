//! Repeatable randomness for tests: a small stream whose seed is printed and can be given back.

use std::env;
use std::time::{SystemTime, UNIX_EPOCH};

/// A seeded stream of numbers (SplitMix64): even enough for tests, the same on every machine.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Starts a stream.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next number of the stream.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number in `low..high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low < high, "an empty range {low}..{high}");
        low + self.next_u64() % (high - low)
    }

    /// An index below `len`.
    pub fn index(&mut self, len: usize) -> usize {
        let len = u64::try_from(len).expect("a length fits 64 bits");
        usize::try_from(self.between(0, len)).expect("an index below a length fits")
    }

    /// Random bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next_u64().to_le_bytes()[0]).collect()
    }
}

/// The seed of the random test `name`: `CARDSWITCH_SEED`, or a new one from the clock. Printed.
pub fn seed_for(name: &str) -> u64 {
    let seed = match env::var("CARDSWITCH_SEED") {
        Ok(text) => text.parse().expect("CARDSWITCH_SEED is a whole number"),
        Err(_) => u64::from(
            SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").subsec_nanos(),
        ),
    };
    eprintln!("{name}: CARDSWITCH_SEED={seed} repeats this run");
    seed
}

/// How much a random or load test does: `usual`, or `long` under `CARDSWITCH_CAMPAIGN=long`.
pub fn campaign_scaled(usual: usize, long: usize) -> usize {
    let is_long = env::var("CARDSWITCH_CAMPAIGN").is_ok_and(|campaign| campaign == "long");
    if is_long { long } else { usual }
}
