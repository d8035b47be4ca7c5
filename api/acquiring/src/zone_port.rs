//! The way of a zone to clocks and randomness, which its exchange of keys needs.

use std::fmt::Debug;
use std::time::Duration;

use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_secrets::issuing::RandomSource;

/// The clocks and the randomness of the machine that a zone is on.
pub trait ZonePort: Debug + Send + Sync + 'static {
    /// The time by the clock that peers compare theirs with. The engine's may be virtual.
    fn wall_time(&self) -> Timestamp;

    /// The time since any instant, by a clock that nobody sets. It never goes back.
    fn steady_time(&self) -> Duration;

    /// The randomness for the seals of keys.
    fn random(&self) -> Box<dyn RandomSource>;
}
