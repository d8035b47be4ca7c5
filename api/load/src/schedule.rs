//! The instants at which messages are meant to be sent, answered or not: the open loop.
//!
//! A single stream of evenly spaced instants is dealt out to the parts of a run (threads of several
//! processes), so that together they keep the rate and none sends beside another.
//! INVARIANT: an instant depends on the message's number alone, never on when anything happened.

use crate::clock::SECOND_NS;

/// The share of one part in the instants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// Units: nanoseconds of the monotonic clock.
    pub start_ns: u64,
    /// The rate of all parts together. Units: messages a second.
    pub rate: u64,
    /// Units: nanoseconds.
    pub duration_ns: u64,
    /// The number of this part, from zero.
    pub part: u64,
    /// The number of parts.
    pub parts: u64,
}

impl Schedule {
    /// The instant at which this part's message of that number is meant to be sent.
    pub fn intended_ns(&self, number: u64) -> u64 {
        let place = u128::from(number) * u128::from(self.parts) + u128::from(self.part);
        self.start_ns + narrow(place * u128::from(SECOND_NS) / u128::from(self.rate.max(1)))
    }

    /// The number of this part's messages that are meant to have been sent by now.
    pub fn due(&self, now_ns: u64) -> u64 {
        let Some(elapsed_ns) = now_ns.checked_sub(self.start_ns) else { return 0 };
        // An instant is rounded down; so the message whose exact instant is within the next
        // nanosecond is due, too.
        self.share(self.places_within(elapsed_ns + 1)).min(self.total())
    }

    /// The number of messages that this part has to send in all.
    pub fn total(&self) -> u64 {
        self.share(self.places_within(self.duration_ns))
    }

    /// Instants of all parts that lie before the end of so much time.
    fn places_within(&self, elapsed_ns: u64) -> u64 {
        let scaled = u128::from(elapsed_ns) * u128::from(self.rate);
        narrow(scaled.div_ceil(u128::from(SECOND_NS)))
    }

    /// This part's share of so many instants.
    fn share(&self, places: u64) -> u64 {
        (places + self.parts - 1).saturating_sub(self.part) / self.parts
    }
}

fn narrow(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(rate: u64, part: u64, parts: u64) -> Schedule {
        Schedule { start_ns: 1_000, rate, duration_ns: 2 * SECOND_NS, part, parts }
    }

    #[test]
    fn parts_share_the_instants_evenly() {
        let whole = schedule(1_000, 0, 1);
        let parts: Vec<_> = (0..3).map(|part| schedule(1_000, part, 3)).collect();
        assert_eq!(whole.total(), 2_000);
        assert_eq!(parts.iter().map(Schedule::total).sum::<u64>(), 2_000);
        for number in 0..2_000 {
            let part = parts[usize::try_from(number % 3).unwrap()];
            assert_eq!(part.intended_ns(number / 3), whole.intended_ns(number));
        }
        assert_eq!(whole.intended_ns(1) - whole.intended_ns(0), 1_000_000);
    }

    #[test]
    fn a_message_is_due_from_its_instant_on_and_not_before() {
        for (rate, part, parts) in [(1_000, 0, 1), (333_333, 1, 2), (7, 2, 3), (999_983, 0, 4)] {
            let schedule = schedule(rate, part, parts);
            for number in [0, 1, 2, schedule.total() / 2, schedule.total() - 1] {
                let at = schedule.intended_ns(number);
                assert_eq!(schedule.due(at), number + 1, "{schedule:?} {number}");
                assert_eq!(schedule.due(at - 1), number, "{schedule:?} {number}");
            }
            assert_eq!(
                schedule.due(u64::MAX / 2),
                schedule.total(),
                "nothing is due after the end"
            );
        }
    }

    #[test]
    fn nothing_is_due_before_the_start() {
        assert_eq!(schedule(1_000, 0, 1).due(999), 0);
    }
}
