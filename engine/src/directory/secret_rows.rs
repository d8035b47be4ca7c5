//! Rows in memory that are found by the digests of secrets, and by their indexes. Rows past
//! their end are removed.
//!
//! INVARIANT: the tables forget by the same rule, so both always remember the same.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeBounds;

use uuid::Uuid;

use super::entry::{EntryBytes, Index, IndexKey, digest_of};
use super::row::{SecretRow, by_end, by_id, entries_of};
use crate::domain::ids::Timestamp;

/// See the head of this file.
#[derive(Clone, Debug)]
pub struct SecretRows<R> {
    rows: BTreeMap<[u8; 32], R>,
    entries: BTreeSet<EntryBytes>,
    /// The earliest end of a row: the only field that each record looks at.
    pub first_end: Timestamp,
}

impl<R> Default for SecretRows<R> {
    fn default() -> Self {
        Self { rows: BTreeMap::new(), entries: BTreeSet::new(), first_end: Timestamp::MAX }
    }
}

impl<R: SecretRow> SecretRows<R> {
    /// The row with this digest.
    pub fn get(&self, digest: &[u8; 32]) -> Option<&R> {
        self.rows.get(digest)
    }

    /// The row with this digest, unless it is forgotten at `at`: the last record may be older.
    pub fn find(&self, digest: &[u8; 32], at: Timestamp) -> Option<&R> {
        self.get(digest).filter(|row| at < row.forgotten_at())
    }

    /// The row with an id.
    pub fn find_by_id(&self, id: Uuid) -> Option<&R> {
        self.under(&by_id(), &id).next()
    }

    /// The rows under a key, the oldest first.
    pub fn under<K: IndexKey>(
        &self,
        index: &Index<R, K>,
        key: &K,
    ) -> impl Iterator<Item = &R> + use<'_, R, K> {
        self.within(index.range(key))
    }

    /// The rows that these entries lead to.
    pub fn within<E: RangeBounds<EntryBytes>>(
        &self,
        entries: E,
    ) -> impl Iterator<Item = &R> + use<'_, R, E> {
        let digests = self.entries.range(entries).filter_map(|entry| digest_of(entry));
        digests.filter_map(|digest| self.rows.get(&digest))
    }

    /// The rows, by digest.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &R> {
        self.rows.values()
    }

    /// Replaces the row before it, or removes it if the new row is not to be remembered.
    pub fn apply(&mut self, row: &R) {
        self.remove(&row.digest());
        if row.is_remembered() {
            self.entries.extend(entries_of(row));
            self.rows.insert(row.digest(), row.clone());
        }
        self.first_end = self.next_end();
    }

    /// Removes rows that expired at or before `at`. Cost: O(1) if none has.
    #[inline]
    pub fn forget_expired(&mut self, at: Timestamp) {
        if self.first_end <= at {
            self.forget(at);
        }
    }

    #[cold]
    fn forget(&mut self, at: Timestamp) {
        let ended: Vec<_> = self.within(by_end::<R>().upto(at)).map(R::digest).collect();
        ended.iter().for_each(|digest| self.remove(digest));
        self.first_end = self.next_end();
    }

    fn remove(&mut self, digest: &[u8; 32]) {
        for entry in self.rows.remove(digest).iter().flat_map(entries_of) {
            self.entries.remove(&entry);
        }
    }

    fn next_end(&self) -> Timestamp {
        let first = self.within(by_end::<R>().whole()).next();
        first.map_or(Timestamp::MAX, R::forgotten_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::ticket::{Ticket, TicketContent, TicketKind, TicketState};
    use crate::domain::ids::{TicketId, UserSlot};

    fn session(digest: u8, until: i64, state: TicketState) -> Ticket {
        Ticket {
            digest: [digest; 32],
            id: TicketId(Uuid::from_u128(u128::from(digest))),
            user: UserSlot(0),
            created_at: Timestamp(0),
            expires_at: Timestamp(until),
            address: String::new(),
            state,
            content: TicketContent::Session { user_agent: String::new() },
        }
    }

    #[test]
    fn tickets_are_remembered_until_they_expire_and_listed_while_they_open() {
        let mut tickets = SecretRows::<Ticket>::default();
        for ticket in [
            session(1, 10, TicketState::Open),
            session(2, 20, TicketState::Open),
            session(3, 30, TicketState::Open),
            session(2, 20, TicketState::Ended),
        ] {
            tickets.apply(&ticket);
        }
        let open = |tickets: &SecretRows<Ticket>, at| {
            let open = tickets.open_of(UserSlot(0), TicketKind::Session, Timestamp(at));
            open.map(|found| found.digest[0]).collect::<Vec<_>>()
        };
        assert_eq!((open(&tickets, 9), open(&tickets, 10)), (vec![1, 3], vec![3]));
        assert_eq!((tickets.iter().len(), tickets.first_end), (2, Timestamp(10)), "one was ended");
        tickets.forget_expired(Timestamp(20));
        assert_eq!((tickets.iter().len(), tickets.first_end), (1, Timestamp(30)));
        assert_eq!(open(&tickets, 20), [3]);
        tickets.forget_expired(Timestamp(30));
        assert_eq!((tickets.iter().len(), tickets.first_end), (0, Timestamp::MAX));
        assert!(tickets.entries.is_empty());
    }
}
