//! The times at which a webhook that was not taken is tried again. Instants are the engine's, so
//! that a clock that simulations move moves retries, too.

use cardswitch_engine::domain::ids::Timestamp;
use uuid::Uuid;

/// The waits between tries. Units: seconds.
const WAITS_S: [i64; 7] = [5, 300, 1_800, 7_200, 18_000, 36_000, 36_000];
/// How often a webhook is tried again.
pub const RETRIES_MAX: u8 = 7;
/// The range by which a wait is drawn longer or shorter, so that messages that failed together do
/// not come back together. Units: thousandths.
const JITTER_THOUSANDTHS: i64 = 100;

/// The longest wait. Units: microseconds.
const WAIT_MAX_US: i64 = 36_000 * (1_000 + JITTER_THOUSANDTHS) * 1_000;

const _: () = assert!(WAITS_S.len() == RETRIES_MAX as usize);
const _: () = assert!(WAITS_S[WAITS_S.len() - 1] == 36_000);

/// The latest instant at which a message that failed until `now` can be due: one beyond was set by a clock that had
/// leapt ahead.
pub fn latest_try(now: Timestamp) -> Timestamp {
    now.plus(WAIT_MAX_US)
}

/// The instant of the next try after `retries` retries, from `now`; none where all are used up.
/// The draw is the message's own, so that it is the same after a restart.
pub fn next_try(message: Uuid, retries: u8, now: Timestamp) -> Option<Timestamp> {
    let wait_s = WAITS_S.get(usize::from(retries))?;
    let bytes = message.as_bytes();
    let draw = i64::from(bytes[usize::from(retries) % bytes.len()]) * 2 - 255;
    let wait_us = wait_s * 1_000_000;
    let jitter_us = wait_us / 1_000 * JITTER_THOUSANDTHS * draw / 255;
    Some(Timestamp(now.0.saturating_add(wait_us + jitter_us)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_those_of_the_schedule_give_or_take_a_tenth() {
        let now = Timestamp(1_000_000_000);
        for message in [Uuid::from_bytes([0; 16]), Uuid::from_bytes([255; 16]), Uuid::now_v7()] {
            for (retries, wait_s) in (0..).zip([5, 300, 1_800, 7_200, 18_000, 36_000, 36_000]) {
                let at = next_try(message, retries, now).unwrap();
                let wait_us = at.0 - now.0;
                let tenth = wait_s * 100_000;
                let range = (wait_s * 1_000_000 - tenth)..=(wait_s * 1_000_000 + tenth);
                assert!(range.contains(&wait_us), "{message} {retries}: {wait_us}");
                assert!(at <= latest_try(now));
                assert_eq!(next_try(message, retries, now), Some(at));
            }
            assert_eq!(next_try(message, RETRIES_MAX, now), None);
        }
    }

    #[test]
    fn messages_that_failed_together_do_not_come_back_together() {
        let now = Timestamp(0);
        let first = next_try(Uuid::from_bytes([1; 16]), 1, now);
        assert_ne!(first, next_try(Uuid::from_bytes([200; 16]), 1, now));
    }
}
