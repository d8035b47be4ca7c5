//! The newest events of the log, read once for all streams: however many there are, each commit is
//! read by one of them, and the others get it from memory.

use std::collections::VecDeque;

use cardswitch_engine::domain::event::{Event, EventNumber};
use cardswitch_engine::domain::ids::CompanySlot;
use cardswitch_engine::store::query::EventPage;
use cardswitch_engine::store::{Snapshot, StoreError};
use parking_lot::Mutex;

use cardswitch_edge::switch::Switch;

/// How many events are kept; a stream that is further behind reads the log.
const EVENTS_KEPT_MAX: u64 = 4_000;
/// How many are read at a time.
const EVENTS_READ_MAX: usize = 1_000;

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct Tail {
    known: Mutex<EventRun>,
}

/// Some events in a row.
#[derive(Debug, Default)]
struct EventRun {
    /// The event before the first of them.
    after: EventNumber,
    events: VecDeque<Event>,
}

impl Tail {
    /// The events of a company after one, at most `max` of them, as the tables show them now; none
    /// where those are not kept any more.
    /// Errors: the tables cannot be read.
    pub(super) fn company_events_after(
        &self,
        switch: &Switch,
        (company, after): (CompanySlot, EventNumber),
        max: usize,
    ) -> Result<Option<EventPage>, StoreError> {
        let newest = switch.newest_event()?;
        let mut known = self.known.lock();
        if known.upto() < newest {
            switch.read_at_once(|snapshot| known.read_on(snapshot))?;
        }
        Ok(known.page(company, after, max))
    }
}

impl EventRun {
    /// The last event that is known.
    fn upto(&self) -> EventNumber {
        EventNumber(self.after.0 + self.events.len() as u64)
    }

    fn read_on(&mut self, snapshot: &Snapshot) -> Result<(), StoreError> {
        let oldest = EventNumber(snapshot.last_event()?.0.saturating_sub(EVENTS_KEPT_MAX));
        if self.upto() < oldest {
            self.events.clear();
            self.after = oldest;
        }
        loop {
            let events = snapshot.events_after(self.upto(), EVENTS_READ_MAX)?;
            let is_end = events.len() < EVENTS_READ_MAX;
            self.events.extend(events);
            while self.after < oldest && self.events.pop_front().is_some() {
                self.after = self.after.next();
            }
            if is_end {
                return Ok(());
            }
        }
    }

    fn page(&self, company: CompanySlot, after: EventNumber, max: usize) -> Option<EventPage> {
        let known = usize::try_from(after.0.checked_sub(self.after.0)?).ok()?;
        let mut page = EventPage { events: Vec::new(), next: after, is_end: true };
        for event in self.events.iter().skip(known) {
            let is_own = event.company == company;
            if is_own && page.events.len() == max {
                page.is_end = false;
                break;
            }
            page.next = event.number;
            if is_own {
                page.events.push(*event);
            }
        }
        Some(page)
    }
}

#[cfg(test)]
mod tests {
    use cardswitch_engine::domain::event::EventKind;
    use cardswitch_engine::domain::ids::{Timestamp, TransactionId, TransactionSeq};
    use uuid::Uuid;

    use super::*;

    fn event(number: u64, company: u32) -> Event {
        Event {
            number: EventNumber(number),
            at: Timestamp(0),
            kind: EventKind::Created,
            transaction: TransactionSeq(number),
            transaction_id: TransactionId(Uuid::from_u128(u128::from(number))),
            company: CompanySlot(company),
        }
    }

    #[test]
    fn pages_are_those_of_the_log_as_far_as_it_is_kept() {
        let events = [(11, 1), (12, 2), (13, 1), (14, 1), (15, 2)];
        let events = events.map(|(number, company)| event(number, company)).into();
        let known = EventRun { after: EventNumber(10), events };
        assert_eq!(known.upto(), EventNumber(15));
        let rows = [
            (9, 9, None),
            (10, 9, Some((vec![11, 13, 14], 15, true))),
            (10, 1, Some((vec![11], 12, false))),
            (10, 2, Some((vec![11, 13], 13, false))),
            (10, 3, Some((vec![11, 13, 14], 15, true))),
            (13, 1, Some((vec![14], 15, true))),
            (13, 0, Some((vec![], 13, false))),
            (14, 1, Some((vec![], 15, true))),
            (15, 1, Some((vec![], 15, true))),
            (16, 1, Some((vec![], 16, true))),
        ];
        for (after, max, expected) in rows {
            let page = known.page(CompanySlot(1), EventNumber(after), max).map(|page| {
                let numbers: Vec<_> = page.events.iter().map(|event| event.number.0).collect();
                (numbers, page.next.0, page.is_end)
            });
            assert_eq!(page, expected, "{max} after {after}");
        }
    }
}
