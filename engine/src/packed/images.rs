//! After-images of fixed length: a card's usage, an account's balances, a posting.
//!
//! | usage, at | bytes | | balances, at | bytes | | posting, at | bytes |
//! |---|---|---|---|---|---|---|---|
//! | 0 | 8 | spent | 0 | 8 | ledger | 0 | 8 | transaction |
//! | 8 | 8 | spent on the day | 8 | 8 | held | 8 | 4 | account |
//! | 16 | 4 | period | 16 | 8 | debits in transit | 12 | 1 + 1 | books, from and to |
//! | 20 | 4 | its first date | 24 | 8 | credits in transit | 14 | 8 | amount |
//! | 24 | 4 | day | 32 | 8 | statement lines | | | |
//! | 28 | 1 + 1 + 1 | state, suspension, wrong PINs | | | | | | |
//! | 31 | 1 | zero | | | | | | |

use super::cursor::{Cursor, malformed};
use crate::codec::CodecError;
use crate::domain::account::AccountBalances;
use crate::domain::allowance::CardUsage;
use crate::domain::business_date::BusinessDate;
use crate::domain::card::{CardState, SuspensionReason};
use crate::domain::ids::{AccountSlot, TransactionSeq};
use crate::domain::money::Minor;
use crate::domain::posting::{Book, Posting};

/// The length of a packed usage.
pub const USAGE_BYTES: usize = 32;
/// The length of packed balances.
pub const BALANCES_BYTES: usize = 40;
/// The length of a packed posting.
pub const POSTING_BYTES: usize = 22;

/// A card's usage, packed.
pub fn pack_usage(usage: &CardUsage) -> [u8; USAGE_BYTES] {
    let mut bytes = [0; USAGE_BYTES];
    bytes[..8].copy_from_slice(&usage.spent.0.to_le_bytes());
    bytes[8..16].copy_from_slice(&usage.day_spent.0.to_le_bytes());
    bytes[16..20].copy_from_slice(&usage.period.to_le_bytes());
    bytes[20..24].copy_from_slice(&usage.period_started_on.0.to_le_bytes());
    bytes[24..28].copy_from_slice(&usage.day.0.to_le_bytes());
    bytes[28] = usage.state as u8;
    bytes[29] = usage.suspension as u8;
    bytes[30] = usage.pin_failures;
    bytes
}

/// Reads a packed usage.
/// Errors: bytes that `pack_usage` did not make.
pub fn parse_usage(bytes: &[u8; USAGE_BYTES]) -> Result<CardUsage, CodecError> {
    let mut cursor = Cursor(bytes);
    let usage = CardUsage {
        spent: Minor(cursor.i64()?),
        day_spent: Minor(cursor.i64()?),
        period: cursor.u32()?,
        period_started_on: BusinessDate(cursor.i32()?),
        day: BusinessDate(cursor.i32()?),
        state: numbered(&CardState::ALL, cursor.u8()?)?,
        suspension: numbered(&SuspensionReason::ALL, cursor.u8()?)?,
        pin_failures: cursor.u8()?,
    };
    if cursor.u8()? == 0 { Ok(usage) } else { Err(malformed("unknown fields of a usage")) }
}

/// An account's balances, packed.
pub fn pack_balances(balances: &AccountBalances) -> [u8; BALANCES_BYTES] {
    let AccountBalances { ledger, held, debits_in_transit, credits_in_transit, line_count } =
        balances;
    let mut bytes = [0; BALANCES_BYTES];
    bytes[..8].copy_from_slice(&ledger.0.to_le_bytes());
    bytes[8..16].copy_from_slice(&held.0.to_le_bytes());
    bytes[16..24].copy_from_slice(&debits_in_transit.0.to_le_bytes());
    bytes[24..32].copy_from_slice(&credits_in_transit.0.to_le_bytes());
    bytes[32..].copy_from_slice(&line_count.to_le_bytes());
    bytes
}

/// Reads packed balances.
pub fn parse_balances(bytes: &[u8; BALANCES_BYTES]) -> AccountBalances {
    let number = |at: usize| {
        let mut number = [0; 8];
        number.copy_from_slice(&bytes[at..at + 8]);
        number
    };
    let minor = |at| Minor(i64::from_le_bytes(number(at)));
    AccountBalances {
        ledger: minor(0),
        held: minor(8),
        debits_in_transit: minor(16),
        credits_in_transit: minor(24),
        line_count: u64::from_le_bytes(number(32)),
    }
}

/// A posting, packed.
pub fn pack_posting(posting: &Posting) -> [u8; POSTING_BYTES] {
    let mut bytes = [0; POSTING_BYTES];
    bytes[..8].copy_from_slice(&posting.transaction.0.to_le_bytes());
    bytes[8..12].copy_from_slice(&posting.account.0.to_le_bytes());
    bytes[12] = posting.from as u8;
    bytes[13] = posting.to as u8;
    bytes[14..].copy_from_slice(&posting.amount.0.to_le_bytes());
    bytes
}

/// Reads a packed posting from bytes that hold nothing else.
/// Errors: bytes that `pack_posting` did not make.
pub fn parse_posting(bytes: &[u8]) -> Result<Posting, CodecError> {
    let mut cursor = Cursor(bytes);
    let posting = Posting {
        transaction: TransactionSeq(cursor.u64()?),
        account: AccountSlot(cursor.u32()?),
        from: numbered(&Book::ALL, cursor.u8()?)?,
        to: numbered(&Book::ALL, cursor.u8()?)?,
        amount: Minor(cursor.i64()?),
    };
    cursor.end()?;
    Ok(posting)
}

/// The value at the place of its number.
pub(super) fn numbered<T: Copy>(values: &[T], number: u8) -> Result<T, CodecError> {
    values.get(usize::from(number)).copied().ok_or(CodecError::UnknownKind { kind: number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_values_stand_at_the_place_of_their_number() {
        for (number, state) in CardState::ALL.iter().enumerate() {
            assert_eq!(*state as usize, number);
        }
        for (number, reason) in SuspensionReason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, number);
        }
        for (number, book) in Book::ALL.iter().enumerate() {
            assert_eq!(*book as usize, number);
        }
    }

    #[test]
    fn images_read_back_and_refuse_what_is_none() {
        let usage = CardUsage {
            spent: Minor(-5),
            day_spent: Minor(i64::MAX),
            period: u32::MAX,
            period_started_on: BusinessDate(i32::MIN),
            day: BusinessDate(20_515),
            state: CardState::Suspended,
            suspension: SuspensionReason::EndTime,
            pin_failures: 200,
        };
        assert_eq!(parse_usage(&pack_usage(&usage)), Ok(usage));
        assert_eq!(parse_usage(&[0; USAGE_BYTES]), Ok(CardUsage::default()));
        for at in [28, 29, 31] {
            let mut bytes = pack_usage(&usage);
            bytes[at] = 4;
            assert!(parse_usage(&bytes).is_err(), "byte {at}");
        }
        let balances = AccountBalances {
            ledger: Minor(i64::MIN),
            held: Minor(2),
            debits_in_transit: Minor(3),
            credits_in_transit: Minor(4),
            line_count: u64::MAX,
        };
        assert_eq!(parse_balances(&pack_balances(&balances)), balances);
        let posting = Posting {
            account: AccountSlot(7),
            transaction: TransactionSeq(u64::MAX),
            from: Book::TransitOut,
            to: Book::Bank,
            amount: Minor(9),
        };
        let bytes = pack_posting(&posting);
        assert_eq!(parse_posting(&bytes), Ok(posting));
        assert!(parse_posting(&bytes[..21]).is_err());
        assert!(parse_posting(&[&bytes[..], &[0]].concat()).is_err());
    }
}
