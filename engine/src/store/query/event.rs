//! The event log, read by number.
//!
//! Events name transactions; whose they are is looked up in their rows, which stand in blocks in the
//! same order. So a reader that follows the log reads each block of either once.

use super::list;
use crate::domain::event::{Event, EventKind, EventPlace};
use crate::domain::ids::{CompanySlot, EventNumber, Timestamp, TransactionSeq};
use crate::packed::{EventEntries, LoggedEvents};
use crate::store::audit::AuditFigure;
use crate::store::error::StoreError;
use crate::store::error::unreadable_transaction;
use crate::store::query::transaction::TransactionRows;
use crate::store::query::{SharedTable, Snapshot};
use crate::store::rows;
use crate::store::tables::EVENT_BLOCKS;

/// Events of one company, and where to read on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventPage {
    /// The events, in order.
    pub events: Vec<Event>,
    /// The last event that was looked at and needs no other look: reading goes on after it.
    pub next: EventNumber,
    /// Whether none is left: a full page is the end, too, where only others' events follow.
    pub is_end: bool,
}

impl Snapshot {
    /// The number of the newest event; 0 where there is none.
    pub fn last_event(&self) -> Result<EventNumber, StoreError> {
        self.event_log()?.last()
    }

    /// The events after one, in order, at most so many.
    /// Cost: O(log n), O(max) rows.
    pub fn events_after(&self, after: EventNumber, max: usize) -> Result<Vec<Event>, StoreError> {
        let mut events = Vec::new();
        let mut rows = self.transaction_rows()?;
        self.event_log()?.each_after(after, |event| {
            if events.len() == max {
                return Ok(ScanControl::Stop);
            }
            events.push(event.resolve(&mut rows)?);
            Ok(ScanControl::On)
        })?;
        Ok(events)
    }

    /// The events of a company after one, in order, at most `max` of them, among at most `scan_max`
    /// that are looked at.
    /// Cost: O(log n), O(scan_max) rows.
    pub fn company_events_after(
        &self,
        company: CompanySlot,
        after: EventNumber,
        max: usize,
        scan_max: usize,
    ) -> Result<EventPage, StoreError> {
        let mut page = EventPage { events: Vec::new(), next: after, is_end: true };
        let mut rows = self.transaction_rows()?;
        let mut looked_at = 0;
        self.event_log()?.each_after(after, |event| {
            let is_own = looked_at < scan_max
                && rows.look_at(event.transaction.0, |row| row.company())? == company;
            if looked_at == scan_max || (is_own && page.events.len() == max) {
                page.is_end = false;
                return Ok(ScanControl::Stop);
            }
            looked_at += 1;
            page.next = event.number;
            if is_own {
                page.events.push(event.resolve(&mut rows)?);
            }
            Ok(ScanControl::On)
        })?;
        Ok(page)
    }

    /// The last event before an instant: those after it happened then or later. 0 where all did.
    /// Cost: O(log n) blocks.
    pub fn first_event_at(&self, at: Timestamp) -> Result<EventNumber, StoreError> {
        let log = self.event_log()?;
        let mut rows = self.transaction_rows()?;
        let end = log.last()?.next().0;
        let first = list::partition_point(1, end, |number| {
            let event = log.event(EventNumber(number))?;
            Ok(event.at(&mut rows)? < at)
        })?;
        Ok(EventNumber(first - 1))
    }

    /// The place behind an event. Cost: O(log n).
    pub fn event_place(&self, number: EventNumber) -> Result<EventPlace, StoreError> {
        let Some(event) = self.event_log()?.find(number)? else {
            return Ok(EventPlace { number, at: None });
        };
        Ok(EventPlace { number, at: Some(event.at(&mut self.transaction_rows()?)?) })
    }

    /// The event after which a reader at a place goes on. A log with another event there, or none,
    /// has lost its newest part since: then it is the last one before the instant.
    /// Cost: O(log n).
    pub fn resume_after(&self, place: EventPlace) -> Result<EventNumber, StoreError> {
        match place.at {
            None => Ok(place.number.min(self.last_event()?)),
            Some(_) if self.has_place(place)? => Ok(place.number),
            Some(at) => self.first_event_at(at),
        }
    }

    /// Whether the log has the event that a place is behind, as far as the place tells it from others. Cost: O(log n).
    pub fn has_place(&self, place: EventPlace) -> Result<bool, StoreError> {
        Ok(place.at.is_none() || self.event_place(place.number)? == place)
    }

    /// Proves the log: numbers without holes, one event for each transaction that was made,
    /// and none for one that was not.
    /// Errors: a block that is not as it was written. Cost: O(entries of the log).
    pub(in crate::store) fn audit_events_log(&self) -> Result<[AuditFigure; 3], StoreError> {
        let made = self.checkpoint()?.last_transaction.0;
        let mut next = 1;
        let (mut numbered, mut told, mut unmade) = (1, 0, 0);
        let mut holes = 0;
        let log = self.event_log()?;
        log.each_entry(EventNumber(1), |number, events| {
            holes += u64::from(number.0 != numbered);
            numbered = number.0 + events.count();
            match events {
                LoggedEvents::Created { first, count } => {
                    let is_next = first.0 == next;
                    told += if is_next { count } else { 0 };
                    next = first.0 + count;
                }
                LoggedEvents::Updated { transaction, .. } => {
                    unmade += u64::from(transaction.0 >= next || transaction.0 > made);
                }
            }
            Ok(ScanControl::On)
        })?;
        Ok([
            AuditFigure::new("holes in the numbers of events", 0, holes),
            AuditFigure::new("transactions made", made, told),
            AuditFigure::new("events of transactions that were not made", 0, unmade),
        ])
    }

    fn event_log(&self) -> Result<EventLog, StoreError> {
        Ok(EventLog { blocks: self.table(EVENT_BLOCKS.definition())? })
    }
}

/// Whether there is more to look at.
enum ScanControl {
    On,
    Stop,
}

/// An event as the log has it.
struct EventLogEntry {
    number: EventNumber,
    kind: EventKind,
    transaction: TransactionSeq,
    /// The instant of the change; none if it is that of the transaction.
    changed_at: Option<Timestamp>,
}

impl EventLogEntry {
    fn of(number: EventNumber, events: LoggedEvents, place: u64) -> Self {
        let number = EventNumber(number.0 + place);
        match events {
            LoggedEvents::Created { first, .. } => Self {
                number,
                kind: EventKind::Created,
                transaction: TransactionSeq(first.0 + place),
                changed_at: None,
            },
            LoggedEvents::Updated { transaction, at } => {
                Self { number, kind: EventKind::Updated, transaction, changed_at: Some(at) }
            }
        }
    }

    fn at(&self, rows: &mut TransactionRows) -> Result<Timestamp, StoreError> {
        match self.changed_at {
            Some(at) => Ok(at),
            None => rows.look_at(self.transaction.0, |row| row.authorized_at()),
        }
    }

    fn resolve(&self, rows: &mut TransactionRows) -> Result<Event, StoreError> {
        let Self { number, kind, transaction, changed_at } = *self;
        rows.look_at(transaction.0, |row| {
            Ok(Event {
                number,
                at: changed_at.unwrap_or_else(|| row.authorized_at()),
                kind,
                transaction,
                transaction_id: row.transaction_id().map_err(unreadable_transaction)?,
                company: row.company(),
            })
        })?
    }
}

struct EventLog {
    blocks: SharedTable<u64, &'static [u8]>,
}

impl EventLog {
    fn last(&self) -> Result<EventNumber, StoreError> {
        use redb::ReadableTable;
        let Some((key, value)) = self.blocks.last()? else { return Ok(EventNumber(0)) };
        let end = with_entries(key.value(), value.value(), |entries| Ok(entries.end()))?;
        Ok(EventNumber(end.0.saturating_sub(1)))
    }

    /// Gets the event with a number that there is.
    fn event(&self, number: EventNumber) -> Result<EventLogEntry, StoreError> {
        self.find(number)?.ok_or_else(|| StoreError::Inconsistent {
            what: format!("event {} is missing", number.0),
        })
    }

    fn find(&self, number: EventNumber) -> Result<Option<EventLogEntry>, StoreError> {
        let mut found = None;
        self.each_after(EventNumber(number.0.saturating_sub(1)), |event| {
            found = Some(event);
            Ok(ScanControl::Stop)
        })?;
        Ok(found.filter(|event| event.number == number))
    }

    /// Hands the events after one to `visit`, in order, until it has enough.
    fn each_after(
        &self,
        after: EventNumber,
        mut visit: impl FnMut(EventLogEntry) -> Result<ScanControl, StoreError>,
    ) -> Result<(), StoreError> {
        let from = EventNumber(after.0.saturating_add(1));
        self.each_entry(from, |number, events| {
            for place in from.0.saturating_sub(number.0)..events.count() {
                if let ScanControl::Stop = visit(EventLogEntry::of(number, events, place))? {
                    return Ok(ScanControl::Stop);
                }
            }
            Ok(ScanControl::On)
        })
    }

    /// Hands every entry from the one with an event on to `visit`, until it has enough.
    fn each_entry(
        &self,
        from: EventNumber,
        mut visit: impl FnMut(EventNumber, LoggedEvents) -> Result<ScanControl, StoreError>,
    ) -> Result<(), StoreError> {
        let start = self.blocks.range(..=from.0)?.next_back().transpose()?;
        let start = start.map_or(from.0, |(key, _)| key.value());
        for entry in self.blocks.range(start..)? {
            let (key, value) = entry?;
            let going = with_entries(key.value(), value.value(), |entries| {
                for entry in entries {
                    let (number, events) = entry.map_err(damaged)?;
                    let is_before = number.0 + events.count() <= from.0;
                    if !is_before && matches!(visit(number, events)?, ScanControl::Stop) {
                        return Ok(ScanControl::Stop);
                    }
                }
                Ok(ScanControl::On)
            })?;
            if let ScanControl::Stop = going {
                break;
            }
        }
        Ok(())
    }
}

/// Hands the entries of a block to `look`. Errors: it is damaged, or belongs elsewhere.
fn with_entries<T>(
    key: u64,
    value: &[u8],
    look: impl FnOnce(EventEntries<'_>) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let outcome = rows::unpack(EVENT_BLOCKS.name(), value, |bytes| {
        let entries = EventEntries::parse(bytes)?;
        Ok(if entries.first().0 == key { Some(look(entries)) } else { None })
    })?;
    outcome.unwrap_or_else(|| {
        let what = format!("table {}, key {key}: it belongs elsewhere", EVENT_BLOCKS.name());
        Err(StoreError::Damaged { what })
    })
}

fn damaged(source: crate::codec::CodecError) -> StoreError {
    StoreError::Row { table: EVENT_BLOCKS.name(), source }
}
