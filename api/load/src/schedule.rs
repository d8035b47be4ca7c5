//! The instants at which messages are meant to be sent, answered or not: the open loop.
//!
//! INVARIANT: an instant depends on the message's number alone, never on when anything happened.

use crate::clock::SECOND_NS;

/// A stream of evenly spaced instants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// Units: nanoseconds of the monotonic clock.
    pub start_ns: u64,
    /// Units: messages a second.
    pub rate: u64,
    /// Units: nanoseconds.
    pub duration_ns: u64,
}

impl Schedule {
    /// The instant at which the message of that number is meant to be sent.
    pub fn intended_ns(&self, number: u64) -> u64 {
        let elapsed = u128::from(number) * u128::from(SECOND_NS) / u128::from(self.rate.max(1));
        self.start_ns + narrow(elapsed)
    }

    /// The number of messages that are meant to have been sent by now.
    pub fn due(&self, now_ns: u64) -> u64 {
        let Some(elapsed_ns) = now_ns.checked_sub(self.start_ns) else { return 0 };
        // An instant is rounded down; so the message whose exact instant is within the next
        // nanosecond is due, too.
        self.instants_within(elapsed_ns + 1).min(self.total())
    }

    /// The number of messages in all.
    pub fn total(&self) -> u64 {
        self.instants_within(self.duration_ns)
    }

    /// Instants that lie before the end of so much time.
    fn instants_within(&self, elapsed_ns: u64) -> u64 {
        let scaled = u128::from(elapsed_ns) * u128::from(self.rate);
        narrow(scaled.div_ceil(u128::from(SECOND_NS)))
    }
}

fn narrow(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(rate: u64) -> Schedule {
        Schedule { start_ns: 1_000, rate, duration_ns: 2 * SECOND_NS }
    }

    #[test]
    fn a_message_is_due_from_its_instant_on_and_not_before() {
        for rate in [1_000, 333_333, 7, 999_983] {
            let schedule = schedule(rate);
            assert_eq!(schedule.total(), 2 * rate);
            for number in [0, 1, 2, schedule.total() / 2, schedule.total() - 1] {
                let at = schedule.intended_ns(number);
                assert_eq!(schedule.due(at), number + 1, "{schedule:?} {number}");
                assert_eq!(schedule.due(at - 1), number, "{schedule:?} {number}");
            }
            assert_eq!(schedule.due(u64::MAX / 2), schedule.total(), "nothing after the end");
        }
    }

    #[test]
    fn nothing_is_due_before_the_start() {
        assert_eq!(schedule(1_000).due(999), 0);
    }
}
