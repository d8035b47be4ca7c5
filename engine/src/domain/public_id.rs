//! Public ids that carry a sequence number: UUIDs in version 7 layout whose random bits are the
//! sequence under a keyed permutation and a keyed tag.
//!
//! | bits | content |
//! |---|---|
//! | 48 | Unix time in milliseconds |
//! | 4 | version, 7 |
//! | 12 | tag, high part |
//! | 2 | variant, binary 10 |
//! | 14 | tag, low part; in a switch with a cell the upper seven are the cell |
//! | 48 | partition (8) and sequence (40), permuted |
//!
//! So an id leads to its row without an index, hides the volume of business, and a forged one is
//! recognized without a look-up.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;
use uuid::Uuid;

use super::cell::{Cell, ID_SHIFT};
use super::ids::{LineSeq, StatementLineId, Timestamp, TransactionId, TransactionSeq};

const SEQUENCE_BITS: u32 = 40;
const PAYLOAD_MASK: u64 = (1 << 48) - 1;
/// The tag's bits in the low half, above the payload.
const TAG_LOW_MASK: u64 = (1 << 14) - 1;
/// The tag's bits in the low half beside a cell.
const TAG_LOW_MASK_IN_CELL: u64 = (1 << (ID_SHIFT - 48)) - 1;
const TAG_HIGH_MASK: u64 = 0xfff << 14;
const HALF_MASK: u64 = (1 << 24) - 1;
const ROUNDS: u8 = 4;

/// The kind of row that an id names; ids of one kind are not ids of another.
#[derive(Clone, Copy, Debug)]
enum IdKind {
    Transaction = 1,
    StatementLine = 2,
}

/// Mints and opens ids under one secret key.
#[derive(Clone)]
pub struct IdMint {
    key: [u8; 16],
    partition: u8,
    cell: Option<Cell>,
}

impl std::fmt::Debug for IdMint {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "IdMint(partition {})", self.partition)
    }
}

impl IdMint {
    /// A mint for one partition.
    pub const fn new(key: [u8; 16], partition: u8) -> Self {
        Self { key, partition, cell: None }
    }

    /// The mint of a cell, whose digits its ids carry.
    #[must_use]
    pub const fn in_cell(self, cell: Option<Cell>) -> Self {
        Self { cell, ..self }
    }

    /// The id of the transaction `seq`, accepted at `at`.
    pub fn transaction_id(&self, at: Timestamp, seq: TransactionSeq) -> TransactionId {
        TransactionId(self.mint(IdKind::Transaction, at, seq.0))
    }

    /// The sequence number in a transaction's id; none if another mint made it.
    pub fn open_transaction_id(&self, id: TransactionId) -> Option<TransactionSeq> {
        self.open(IdKind::Transaction, id.0).map(TransactionSeq)
    }

    /// The id of the statement line `seq`, posted at `at`.
    pub fn line_id(&self, at: Timestamp, seq: LineSeq) -> StatementLineId {
        StatementLineId(self.mint(IdKind::StatementLine, at, seq.0))
    }

    /// The sequence number in a statement line's id; none if another mint made it.
    pub fn open_line_id(&self, id: StatementLineId) -> Option<LineSeq> {
        self.open(IdKind::StatementLine, id.0).map(LineSeq)
    }

    fn mint(&self, kind: IdKind, at: Timestamp, seq: u64) -> Uuid {
        assert!(seq < 1 << SEQUENCE_BITS, "sequence numbers of one partition are used up");
        let time_ms = at.unix_ms() & PAYLOAD_MASK;
        let payload = self.permute(u64::from(self.partition) << SEQUENCE_BITS | seq);
        let tag = self.tag(kind, time_ms, payload);
        let high = time_ms << 16 | 0x7000 | tag >> 14;
        let low = 0b10 << 62 | (tag & 0x3fff) << 48 | payload;
        let id = Uuid::from_u64_pair(high, low);
        self.cell.map_or(id, |cell| cell.mark_id(id))
    }

    fn open(&self, kind: IdKind, id: Uuid) -> Option<u64> {
        let (high, low) = id.as_u64_pair();
        if high >> 12 & 0xf != 7 || low >> 62 != 0b10 {
            return None;
        }
        if self.cell.is_some() && self.cell != Cell::of_id(id) {
            return None;
        }
        let payload = low & PAYLOAD_MASK;
        let tag = (high & 0xfff) << 14 | (low >> 48 & self.tag_low_mask());
        if tag != self.tag(kind, high >> 16, payload) {
            return None;
        }
        let plain = self.restore(payload);
        (plain >> SEQUENCE_BITS == u64::from(self.partition))
            .then_some(plain & ((1 << SEQUENCE_BITS) - 1))
    }

    fn tag(&self, kind: IdKind, time_ms: u64, payload: u64) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        hasher.write_u8(kind as u8);
        hasher.write_u64(time_ms);
        hasher.write_u64(payload);
        hasher.finish() & (TAG_HIGH_MASK | self.tag_low_mask())
    }

    const fn tag_low_mask(&self) -> u64 {
        match self.cell {
            None => TAG_LOW_MASK,
            Some(_) => TAG_LOW_MASK_IN_CELL,
        }
    }

    fn round(&self, round: u8, half: u64) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        hasher.write_u8(0x80 | round);
        hasher.write_u64(half);
        hasher.finish() & HALF_MASK
    }

    /// A balanced Feistel network over 48 bits.
    fn permute(&self, plain: u64) -> u64 {
        let (mut left, mut right) = (plain >> 24, plain & HALF_MASK);
        for round in 0..ROUNDS {
            (left, right) = (right, left ^ self.round(round, right));
        }
        left << 24 | right
    }

    fn restore(&self, permuted: u64) -> u64 {
        let (mut left, mut right) = (permuted >> 24, permuted & HALF_MASK);
        for round in (0..ROUNDS).rev() {
            (left, right) = (right ^ self.round(round, left), left);
        }
        left << 24 | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_carry_their_sequence_and_refuse_forgeries() {
        let mint = IdMint::new(*b"0123456789abcdef", 3);
        let other = IdMint::new(*b"0123456789abcdeX", 3);
        let at = Timestamp(1_772_000_000_000_000);
        for seq in [1, 2, 77, (1 << SEQUENCE_BITS) - 1].map(TransactionSeq) {
            let id = mint.transaction_id(at, seq);
            assert_eq!(id.0.get_version_num(), 7);
            assert_eq!(mint.open_transaction_id(id), Some(seq));
            assert_eq!(other.open_transaction_id(id), None);
            assert_eq!(mint.open_line_id(StatementLineId(id.0)), None);
            let forged = TransactionId(Uuid::from_u128(id.0.as_u128() ^ 1));
            assert_eq!(mint.open_transaction_id(forged), None);
        }
    }

    #[test]
    fn ids_of_a_cell_name_it_and_open_in_no_other() {
        let mint = IdMint::new(*b"0123456789abcdef", 0);
        let [first, second] = ["01", "99"].map(|cell| cell.parse().unwrap());
        let [in_first, in_second] = [first, second].map(|cell| mint.clone().in_cell(Some(cell)));
        let at = Timestamp(1_772_000_000_000_000);
        for seq in (1..500).map(TransactionSeq) {
            let id = in_first.transaction_id(at, seq);
            assert_eq!((id.0.get_version_num(), Cell::of_id(id.0)), (7, Some(first)));
            assert_eq!(in_first.open_transaction_id(id), Some(seq));
            // The key is the same, as in a copied directory; an id still belongs to one cell.
            let moved = TransactionId(second.mark_id(id.0));
            assert_eq!(in_second.open_transaction_id(id), None);
            assert_eq!(in_first.open_transaction_id(moved), None);
            for bit in 0..62 {
                let forged = TransactionId(Uuid::from_u128(id.0.as_u128() ^ 1 << bit));
                assert_eq!(in_first.open_transaction_id(forged), None, "{bit}");
            }
        }
    }
}
