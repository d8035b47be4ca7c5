//! The system's clocks and randomness, for the zones of a running switch.

use std::time::{Duration, Instant};

use cardswitch_acquiring::zone_port::ZonePort;
use cardswitch_engine::clock::Clock;
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_secrets::issuing::{RandomSource, SystemRandom};

/// The machine's own clocks.
#[derive(Debug)]
pub struct ZoneClock {
    begun: Instant,
}

impl ZoneClock {
    /// Begins to count the steady time.
    pub fn start() -> Self {
        Self { begun: Instant::now() }
    }
}

impl ZonePort for ZoneClock {
    fn wall_time(&self) -> Timestamp {
        Clock::System.now()
    }

    fn steady_time(&self) -> Duration {
        self.begun.elapsed()
    }

    fn random(&self) -> Box<dyn RandomSource> {
        Box::new(SystemRandom)
    }
}
