//! The messages that wait for an answer, by a number that travels with them: an array, no hash map.
//!
//! ISO 8583 sends the number as the trace number (DE11); HTTP keeps it beside the connection, as
//! its answers come in order.
//! INVARIANT: a slot is not given out again before its answer has come, so no answer is ever taken
//! for another's.

/// Slots of one client: well below the million that six digits tell apart, and more than a switch
/// would ever leave waiting.
pub(crate) const SLOTS: u32 = 1 << 19;
/// Slots passed over in search of a free one: answers that never came must not stop the client.
const SEARCH_LEN_MAX: u32 = 64;

/// The intended instants of messages without an answer.
#[derive(Debug)]
pub(crate) struct Slots {
    /// Zero where the slot is free. Units: nanoseconds of the monotonic clock.
    intended_ns: Vec<u64>,
    next: u32,
    /// The number of messages that wait.
    pub(crate) waiting: u64,
}

impl Slots {
    /// All slots free.
    pub(crate) fn new() -> Self {
        Self { intended_ns: vec![0; index(SLOTS)], next: 0, waiting: 0 }
    }

    /// Takes a slot for a message; none where too many wait.
    pub(crate) fn open(&mut self, intended_ns: u64) -> Option<u32> {
        for _ in 0..SEARCH_LEN_MAX {
            let slot = self.next;
            self.next = (slot + 1) % SLOTS;
            let place = &mut self.intended_ns[index(slot)];
            if *place == 0 {
                *place = intended_ns.max(1);
                self.waiting += 1;
                return Some(slot);
            }
        }
        None
    }

    /// Gives a slot back. Returns when its message was meant to be sent; none if nothing waits.
    pub(crate) fn close(&mut self, slot: u32) -> Option<u64> {
        let place = self.intended_ns.get_mut(index(slot)).filter(|place| **place != 0)?;
        self.waiting -= 1;
        Some(std::mem::take(place))
    }

    /// The instants at which the waiting messages were meant to be sent.
    pub(crate) fn waiting_since(&self) -> impl Iterator<Item = u64> {
        self.intended_ns.iter().copied().filter(|intended_ns| *intended_ns != 0)
    }
}

fn index(slot: u32) -> usize {
    usize::try_from(slot).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_finds_its_message_once() {
        let mut slots = Slots::new();
        let (first, second) = (slots.open(10).unwrap(), slots.open(20).unwrap());
        assert_eq!(slots.waiting, 2);
        assert_eq!(slots.close(second), Some(20), "answers come in any order");
        assert_eq!(slots.close(second), None);
        assert_eq!(slots.close(SLOTS), None);
        assert_eq!(slots.waiting_since().collect::<Vec<_>>(), [10]);
        assert_eq!(slots.close(first), Some(10));
        assert_eq!(slots.waiting, 0);
    }

    #[test]
    fn a_slot_that_waits_is_passed_over_and_a_full_table_gives_none() {
        let mut slots = Slots::new();
        let lost = slots.open(1).unwrap();
        for _ in 0..2 * SLOTS {
            let slot = slots.open(2).unwrap();
            assert_ne!(slot, lost);
            assert_eq!(slots.close(slot), Some(2));
        }
        while slots.waiting < u64::from(SLOTS) {
            slots.open(3).unwrap();
        }
        assert_eq!(slots.open(4), None);
    }
}
