//! The rate of requests of each access token: one program in a loop must not take the time of all
//! others.
//!
//! A token may ask so many times a second on average, and twice as many at once after a rest.
//! Requests beyond are refused with 429 before anything is read for them, with the time to come
//! back.
//!
//! INVARIANT: memory is bounded: tokens at rest are forgotten, which changes nothing for them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cardswitch_bounds::{BoundedTable, TableEntry, share};
use cardswitch_engine::domain::ids::AccessTokenId;
use cardswitch_engine::meters::Count;
use parking_lot::Mutex;

/// How many seconds' worth may come at once.
const BURST: Duration = Duration::from_secs(2);
/// How many tokens are remembered at most.
const TOKENS_MAX: usize = 100_000;

/// Counts what tokens ask. Without a rate everything is allowed.
#[derive(Debug)]
pub struct TokenRate {
    /// The time that each request takes of what a token has.
    interval: Option<Duration>,
    tokens: Mutex<BoundedTable<AccessTokenId, TokenUsage>>,
    /// How many requests were refused.
    pub refused: Arc<Count>,
}

impl Default for TokenRate {
    fn default() -> Self {
        Self::per_second(0)
    }
}

/// How much a token has asked.
#[derive(Clone, Copy, Debug)]
struct TokenUsage {
    /// When it will have rested from all of it.
    rested_at: Instant,
    /// How much of the burst it has used, of `BLOCKING`.
    used: u64,
}

impl TableEntry for TokenUsage {
    type Time = Instant;

    fn ends_at(&self) -> Option<Instant> {
        Some(self.rested_at)
    }

    fn weight(&self) -> u64 {
        self.used
    }
}

impl TokenRate {
    /// So many requests a second; 0 for any number.
    pub fn per_second(requests: u32) -> Self {
        let interval = Duration::from_secs(1).checked_div(requests);
        Self {
            interval,
            tokens: Mutex::new(BoundedTable::new(TOKENS_MAX)),
            refused: Arc::default(),
        }
    }

    /// Lets a request of a token through, or tells when to come back. Units: seconds.
    pub fn take(&self, token: AccessTokenId) -> Result<(), u32> {
        self.take_at(token, Instant::now()).inspect_err(|_| {
            self.refused.add(1);
        })
    }

    fn take_at(&self, token: AccessTokenId, now: Instant) -> Result<(), u32> {
        let Some(interval) = self.interval else { return Ok(()) };
        let fresh = || TokenUsage { rested_at: now, used: 0 };
        let mut tokens = self.tokens.lock();
        let taken = tokens.change(token, now, fresh, |rest| rest.take(interval, now));
        // No room: all that are remembered are about to be refused.
        taken.unwrap_or(Err(1))
    }
}

impl TokenUsage {
    fn take(&mut self, interval: Duration, now: Instant) -> Result<(), u32> {
        let next = self.rested_at.max(now) + interval;
        let beyond = next.saturating_duration_since(now).saturating_sub(BURST);
        if !beyond.is_zero() {
            return Err(u32::try_from(beyond.as_secs()).unwrap_or(u32::MAX).saturating_add(1));
        }
        self.rested_at = next;
        let after_next = (next + interval).saturating_duration_since(now);
        let millis = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        self.used = share(millis(after_next), millis(BURST));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn token(number: u128) -> AccessTokenId {
        AccessTokenId(Uuid::from_u128(number))
    }

    #[test]
    fn a_token_has_its_rate_and_a_burst_and_others_have_theirs() {
        let (rate, start) = (TokenRate::per_second(10), Instant::now());
        let taken = (0..100).filter(|_| rate.take_at(token(1), start).is_ok()).count();
        assert_eq!(taken, 20, "two seconds' worth at once");
        assert_eq!(rate.take_at(token(1), start), Err(1));
        assert_eq!(rate.take_at(token(2), start), Ok(()));
        let later = start + Duration::from_millis(500);
        let taken = (0..100).filter(|_| rate.take_at(token(1), later).is_ok()).count();
        assert_eq!(taken, 5, "half a second's worth");
        let rested = later + Duration::from_secs(60);
        let taken = (0..100).filter(|_| rate.take_at(token(1), rested).is_ok()).count();
        assert_eq!(taken, 20, "a rest gives no more than the burst");
    }

    #[test]
    fn refusals_cost_nothing() {
        let (rate, start) = (TokenRate::per_second(1), Instant::now());
        for _ in 0..10_000 {
            let _ = rate.take_at(token(1), start);
        }
        assert_eq!(rate.take_at(token(1), start + Duration::from_secs(1)), Ok(()));
    }

    #[test]
    fn without_a_rate_everything_is_allowed() {
        for rate in [TokenRate::default(), TokenRate::per_second(0)] {
            assert!((0..10_000).all(|_| rate.take(token(1)).is_ok()));
        }
    }

    #[test]
    fn tokens_at_rest_are_forgotten() {
        let (rate, start) = (TokenRate::per_second(10), Instant::now());
        let many = 1_000;
        (0..many).for_each(|number| assert_eq!(rate.take_at(token(number), start), Ok(())));
        let later = start + Duration::from_secs(1);
        assert_eq!(rate.take_at(token(many), later), Ok(()));
        assert_eq!(rate.tokens.lock().len(), 1);
    }
}
