//! Purchases that were declined to a member, in the order they came, for notifications. Rows are
//! looked at as they are packed, so following the switch at work costs little.

use super::list;
use crate::domain::ids::{CardSlot, MemberSlot, Timestamp, TransactionSeq};
use crate::store::error::StoreError;
use crate::store::query::Snapshot;

/// A declined purchase with a card that a member held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeclineRow {
    /// The transaction.
    pub seq: TransactionSeq,
    /// The card.
    pub card: CardSlot,
    /// Its holder then.
    pub member: MemberSlot,
    /// The number of the response code.
    pub response_number: u16,
    /// The time of the request.
    pub authorized_at: Timestamp,
}

/// Declines, and the place to read on from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclinePage {
    /// The declines, in order.
    pub declines: Vec<DeclineRow>,
    /// The last transaction that was looked at: reading goes on after it.
    pub next: TransactionSeq,
    /// Whether nothing is left to look at.
    pub is_end: bool,
}

impl Snapshot {
    /// The declined purchases among the `scan_max` transactions after one.
    /// Cost: O(log n), O(scan_max) packed rows.
    pub fn declines_after(
        &self,
        after: TransactionSeq,
        scan_max: u64,
    ) -> Result<DeclinePage, StoreError> {
        let last = self.checkpoint()?.last_transaction.0;
        let next = after.0.saturating_add(scan_max).min(last).max(after.0);
        let mut declines = Vec::new();
        if next > after.0 {
            self.transaction_rows()?.each(after.0 + 1..next + 1, |_, row, _| {
                let response_number = row.response_number();
                if response_number != 0
                    && let (Some(card), Some(member)) = (row.card(), row.member())
                {
                    let (seq, authorized_at) = (row.seq(), row.authorized_at());
                    declines.push(DeclineRow { seq, card, member, response_number, authorized_at });
                }
                Ok(())
            })?;
        }
        Ok(DeclinePage { declines, next: TransactionSeq(next), is_end: next >= last })
    }

    /// The instant when a transaction was authorized; none if there is none of that number.
    /// Cost: O(log n).
    pub fn transaction_made_at(
        &self,
        seq: TransactionSeq,
    ) -> Result<Option<Timestamp>, StoreError> {
        let last = self.checkpoint()?.last_transaction;
        if seq.0 == 0 || seq > last {
            return Ok(None);
        }
        self.transaction_rows()?.look_at(seq.0, |row| row.authorized_at()).map(Some)
    }

    /// The last transaction that was made before an instant; 0 where all were made later.
    /// Cost: O(log n).
    pub fn last_transaction_before(&self, at: Timestamp) -> Result<TransactionSeq, StoreError> {
        let end = self.checkpoint()?.last_transaction.0 + 1;
        let mut rows = self.transaction_rows()?;
        let first = list::partition_point(1, end, |seq| {
            Ok(rows.look_at(seq, |row| row.authorized_at())? < at)
        })?;
        Ok(TransactionSeq(first - 1))
    }
}
