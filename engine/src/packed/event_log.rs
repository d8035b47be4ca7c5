//! A block of the event log, packed: events with consecutive numbers.
//!
//! | at | bytes | content |
//! |---|---|---|
//! | 0 | 1 | format version, 1 |
//! | 1 | 8 | number of the first event |
//! | 9 | 8 | number behind the last |
//! | 17 | 8 | the next new transaction at the start of the block |
//! | 25 | 8 | the instant from which the first change is counted, microseconds |
//! | 33 | | entries |
//!
//! An entry for new transactions is one short integer: twice the number of consecutive transactions
//! made, from the next on. An entry for a change is two: twice the distance back from the next
//! transaction to the changed one, plus 1, then the microseconds since the change before. The time
//! of a transaction's creation stands in its own row. So a day of authorizations is one entry, and
//! a change takes some bytes.

use super::cursor::{Cursor, malformed, push_short_u64};
use crate::codec::CodecError;
use crate::domain::ids::{EventNumber, Timestamp, TransactionSeq};

const FORMAT: u8 = 1;
const HEAD_BYTES: usize = 33;
const END_AT: usize = 9;
const CHANGED: u64 = 1;
const ENTRY_BYTES_MAX: usize = 20;

/// Events in stored form: consecutive new transactions are one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggedEvents {
    /// Consecutive transactions were made.
    Created {
        /// The first of them.
        first: TransactionSeq,
        /// Their number.
        count: u64,
    },
    /// A transaction was changed.
    Updated {
        /// The transaction.
        transaction: TransactionSeq,
        /// The time of the change.
        at: Timestamp,
    },
}

impl LoggedEvents {
    /// The number of events.
    pub const fn count(&self) -> u64 {
        match self {
            Self::Created { count, .. } => *count,
            Self::Updated { .. } => 1,
        }
    }
}

/// A block that events are appended to.
#[derive(Clone, Debug)]
pub struct EventBlock {
    /// Its bytes.
    pub bytes: Vec<u8>,
    first: u64,
    end: u64,
    next_transaction: u64,
    changed_at: i64,
    /// The start of the last entry and its number of transactions, if it is of new ones.
    last_run: Option<(usize, u64)>,
}

impl EventBlock {
    /// An empty block.
    pub fn begin(first: EventNumber, next: TransactionSeq, at: Timestamp) -> Self {
        let mut bytes = vec![FORMAT];
        for number in [first.0, first.0, next.0] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&at.0.to_le_bytes());
        let (first, next_transaction, changed_at) = (first.0, next.0, at.0);
        Self { bytes, first, end: first, next_transaction, changed_at, last_run: None }
    }

    /// Continues behind the last event of a block. Errors: bytes that are no block.
    pub fn resume(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut entries = EventEntries::parse(bytes)?;
        let (first, end) = (entries.first, entries.end);
        let mut last_run = None;
        loop {
            let at = bytes.len() - entries.cursor.0.len();
            match entries.next_entry()? {
                None => break,
                Some(LoggedEvents::Created { count, .. }) => last_run = Some((at, count)),
                Some(LoggedEvents::Updated { .. }) => last_run = None,
            }
        }
        let EventEntries { next_transaction, changed_at, .. } = entries;
        Ok(Self { bytes: bytes.to_vec(), first, end, next_transaction, changed_at, last_run })
    }

    /// The block behind this one, which begins with `events`.
    pub fn following(&self, events: &LoggedEvents) -> Self {
        let (next, at) = match *events {
            LoggedEvents::Created { first, .. } => (first, Timestamp(self.changed_at)),
            LoggedEvents::Updated { at, .. } => (TransactionSeq(self.next_transaction), at),
        };
        Self::begin(EventNumber(self.end), next, at)
    }

    /// The number of its first event.
    pub const fn first(&self) -> EventNumber {
        EventNumber(self.first)
    }

    /// Whether the block is empty.
    pub const fn is_empty(&self) -> bool {
        self.first == self.end
    }

    /// Whether `events` can follow the events of the block, in at most `bytes_max` bytes.
    pub fn takes(&self, events: &LoggedEvents, bytes_max: usize) -> bool {
        let has_room = self.is_empty() || self.bytes.len() + ENTRY_BYTES_MAX <= bytes_max;
        match *events {
            LoggedEvents::Created { first, .. } => {
                first.0 == self.next_transaction && (has_room || self.last_run.is_some())
            }
            LoggedEvents::Updated { transaction, at } => {
                transaction.0 < self.next_transaction && at.0 >= self.changed_at && has_room
            }
        }
    }

    /// Appends events that the block takes.
    pub fn push(&mut self, events: &LoggedEvents) {
        debug_assert!(self.takes(events, usize::MAX), "events follow those before them");
        match *events {
            LoggedEvents::Created { count, .. } => {
                let (at, known) = self.last_run.unwrap_or((self.bytes.len(), 0));
                self.bytes.truncate(at);
                push_short_u64(&mut self.bytes, (known + count) << 1);
                self.last_run = Some((at, known + count));
                self.next_transaction += count;
            }
            LoggedEvents::Updated { transaction, at } => {
                let back = self.next_transaction - transaction.0;
                push_short_u64(&mut self.bytes, back << 1 | CHANGED);
                push_short_u64(&mut self.bytes, at.0.abs_diff(self.changed_at));
                self.changed_at = at.0;
                self.last_run = None;
            }
        }
        self.end += events.count();
        self.bytes[END_AT..END_AT + 8].copy_from_slice(&self.end.to_le_bytes());
    }
}

/// The entries of a block, in order.
#[derive(Clone, Debug)]
pub struct EventEntries<'a> {
    cursor: Cursor<'a>,
    first: u64,
    end: u64,
    /// The number of the entry that comes next.
    number: u64,
    next_transaction: u64,
    changed_at: i64,
}

impl<'a> EventEntries<'a> {
    /// Reads the head of a block. Errors: bytes that are no block.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, CodecError> {
        let mut cursor = Cursor(bytes);
        let version = cursor.u8()?;
        if version != FORMAT {
            return Err(CodecError::UnknownVersion { version });
        }
        let (first, end) = (cursor.u64()?, cursor.u64()?);
        let (next_transaction, changed_at) = (cursor.u64()?, cursor.i64()?);
        debug_assert!(bytes.len() - cursor.0.len() == HEAD_BYTES);
        Ok(Self { cursor, first, end, number: first, next_transaction, changed_at })
    }

    /// The number of the first event.
    pub const fn first(&self) -> EventNumber {
        EventNumber(self.first)
    }

    /// The number behind the last event.
    pub const fn end(&self) -> EventNumber {
        EventNumber(self.end)
    }

    /// The next entry; none behind the last.
    /// Errors: bytes that are no entry, or a wrong number of events.
    fn next_entry(&mut self) -> Result<Option<LoggedEvents>, CodecError> {
        if self.cursor.0.is_empty() {
            let is_whole = self.number == self.end;
            return if is_whole { Ok(None) } else { Err(malformed("events are missing")) };
        }
        let head = self.cursor.short_u64()?;
        let value = head >> 1;
        let events = if head & CHANGED == 0 {
            let first = TransactionSeq(self.next_transaction);
            let next = self.next_transaction.checked_add(value);
            self.next_transaction = next.ok_or_else(|| malformed("too many transactions"))?;
            LoggedEvents::Created { first, count: value }
        } else {
            let since = self.cursor.short_u64()?;
            let at = self.changed_at.checked_add_unsigned(since);
            self.changed_at = at.ok_or_else(|| malformed("an instant is out of bounds"))?;
            let transaction = self.next_transaction.checked_sub(value);
            let transaction = transaction.ok_or_else(|| malformed("a transaction before all"))?;
            let at = Timestamp(self.changed_at);
            LoggedEvents::Updated { transaction: TransactionSeq(transaction), at }
        };
        let number = self.number.checked_add(events.count()).filter(|number| *number <= self.end);
        self.number = number.ok_or_else(|| malformed("too many events"))?;
        Ok(Some(events))
    }
}

impl Iterator for EventEntries<'_> {
    /// The number of the first event of an entry, and the entry.
    type Item = Result<(EventNumber, LoggedEvents), CodecError>;

    fn next(&mut self) -> Option<Self::Item> {
        let number = EventNumber(self.number);
        let entry = self.next_entry().transpose()?;
        if entry.is_err() {
            self.cursor = Cursor(&[]);
            self.number = self.end;
        }
        Some(entry.map(|events| (number, events)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::testing::next_random;

    fn created(first: u64, count: u64) -> LoggedEvents {
        LoggedEvents::Created { first: TransactionSeq(first), count }
    }

    fn updated(transaction: u64, at: i64) -> LoggedEvents {
        LoggedEvents::Updated { transaction: TransactionSeq(transaction), at: Timestamp(at) }
    }

    fn entries(bytes: &[u8]) -> Vec<(u64, LoggedEvents)> {
        let entries = EventEntries::parse(bytes).unwrap();
        entries.map(|entry| entry.map(|(number, events)| (number.0, events)).unwrap()).collect()
    }

    #[test]
    fn a_day_of_authorizations_is_one_entry() {
        let mut block = EventBlock::begin(EventNumber(7), TransactionSeq(100), Timestamp(0));
        for seq in 100..200_100 {
            assert!(block.takes(&created(seq, 1), 40));
            block.push(&created(seq, 1));
            if seq % 1_000 == 0 {
                block = EventBlock::resume(&block.bytes).unwrap();
            }
        }
        assert_eq!(entries(&block.bytes), [(7, created(100, 200_000))]);
        assert_eq!(block.bytes.len(), HEAD_BYTES + 3);
    }

    #[test]
    fn what_cannot_follow_is_not_taken() {
        let mut block = EventBlock::begin(EventNumber(1), TransactionSeq(5), Timestamp(10));
        block.push(&created(5, 2));
        block.push(&updated(3, 20));
        let rows = [
            (created(7, 1), 100, true),
            (created(8, 1), 100, false),
            (created(6, 1), 100, false),
            (updated(6, 20), 100, true),
            (updated(7, 20), 100, false),
            (updated(6, 19), 100, false),
            (updated(6, 20), 50, false),
            (created(7, 1), 50, false),
        ];
        for (events, bytes_max, is_taken) in rows {
            assert_eq!(block.takes(&events, bytes_max), is_taken, "{events:?} {bytes_max}");
        }
        block.push(&created(7, 1));
        assert!(block.takes(&created(8, 1), 50), "a run that goes on takes no more room");
    }

    #[test]
    fn blocks_read_back_whatever_is_in_them_and_refuse_what_is_not_whole() {
        for seed in 0..50 {
            println!("seed {seed}");
            let mut random = seed;
            let mut below = |bound: u64| next_random(&mut random) % bound;
            let (mut next, mut at) = (1 + below(1 << 40), 1_700_000_000_000_000_i64);
            let first = 1 + below(1 << 40);
            let mut block =
                EventBlock::begin(EventNumber(first), TransactionSeq(next), Timestamp(at));
            let (mut expected, mut number) = (Vec::new(), first);
            for _ in 0..below(60) {
                let events = if below(2) == 0 {
                    created(next, 1 + below(5))
                } else {
                    at += i64::try_from(below(1 << 30)).unwrap();
                    updated(next - 1 - below(next.min(1 << 20)), at)
                };
                block.push(&events);
                match (expected.last_mut(), events) {
                    (
                        Some((_, LoggedEvents::Created { count, .. })),
                        LoggedEvents::Created { count: more, .. },
                    ) => *count += more,
                    _ => expected.push((number, events)),
                }
                if let LoggedEvents::Created { count, .. } = events {
                    next += count;
                }
                number += events.count();
                if below(4) == 0 {
                    block = EventBlock::resume(&block.bytes).unwrap();
                }
            }
            assert_eq!(entries(&block.bytes), expected);
            for cut in 0..block.bytes.len() {
                let cut = EventEntries::parse(&block.bytes[..cut]);
                assert!(cut.is_err() || cut.unwrap().any(|entry| entry.is_err()));
            }
        }
    }
}
