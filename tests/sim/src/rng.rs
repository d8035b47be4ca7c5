//! Repeatable choices.

/// A splitmix64 generator.
#[derive(Clone, Debug)]
pub struct Rng(u64);

/// The seed of a run that the environment gives none.
pub const DEFAULT_SEED: u64 = 20_260_303;

impl Rng {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The seed of a test run: `CARDSWITCH_SEED`, or a fixed one.
    pub fn seed_from_environment() -> u64 {
        let seed = number_from_environment("CARDSWITCH_SEED").unwrap_or(DEFAULT_SEED);
        println!("CARDSWITCH_SEED={seed}");
        seed
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number() % end
    }

    /// An amount from `first` to `last`.
    pub fn between(&mut self, first: i64, last: i64) -> i64 {
        first + self.below((last - first + 1) as u64) as i64
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

/// A number that the environment sets, if it does.
pub fn number_from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}
