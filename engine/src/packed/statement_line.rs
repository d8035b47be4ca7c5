//! A statement line, packed.
//!
//! | at | bytes | content |
//! |---|---|---|
//! | 0 | 1 | format version, 1 |
//! | 1 | 1 | bits: the line has a card (0), a member (1), a merchant of its own (2) with a category (3) |
//! | 2 | 8 | sequence number |
//! | 10 | 4 | account slot |
//! | 14 | 8 | number within the account |
//! | 22 | 4 | posting date |
//! | 26 | 8 | posted at, microseconds |
//! | 34 | 8 | amount, minor units |
//! | 42 | 8 | transaction |
//! | 50 | 4 + 4 | slots of card and member, zero without one |
//! | 58 | 16 | id |
//! | 74 | | description, a text |
//! | | | merchant as in a transaction: number (8), category (2), six texts |

use super::append::append_merchant;
use super::cursor::{Cursor, malformed, push_text};
use super::transaction::take_merchant;
use crate::codec::CodecError;
use crate::domain::business_date::BusinessDate;
use crate::domain::ids::{
    AccountSlot, CardSlot, LineSeq, MemberSlot, StatementLineId, Timestamp, TransactionSeq,
};
use crate::domain::money::Minor;
use crate::domain::posting::StatementLine;
use uuid::Uuid;

const FORMAT: u8 = 1;
const CARD: u8 = 1;
const MEMBER: u8 = 1 << 1;
const MERCHANT: u8 = 1 << 2;
const CATEGORY: u8 = 1 << 3;

/// Appends a statement line.
pub fn append_line(bytes: &mut Vec<u8>, line: &StatementLine) {
    let has_card = CARD * u8::from(line.card.is_some());
    let has_category = line.merchant.as_ref().is_some_and(|merchant| merchant.mcc.is_some());
    let present = has_card
        | (MEMBER * u8::from(line.member.is_some()))
        | (MERCHANT * u8::from(line.merchant.is_some()))
        | (CATEGORY * u8::from(has_category));
    bytes.extend_from_slice(&[FORMAT, present]);
    bytes.extend_from_slice(&line.seq.0.to_le_bytes());
    bytes.extend_from_slice(&line.account.0.to_le_bytes());
    bytes.extend_from_slice(&line.number.to_le_bytes());
    bytes.extend_from_slice(&line.posted_on.0.to_le_bytes());
    bytes.extend_from_slice(&line.posted_at.0.to_le_bytes());
    bytes.extend_from_slice(&line.amount.0.to_le_bytes());
    bytes.extend_from_slice(&line.transaction.0.to_le_bytes());
    bytes.extend_from_slice(&line.card.map_or(0, |slot| slot.0).to_le_bytes());
    bytes.extend_from_slice(&line.member.map_or(0, |slot| slot.0).to_le_bytes());
    bytes.extend_from_slice(line.id.0.as_bytes());
    push_text(bytes, &line.description);
    if let Some(merchant) = &line.merchant {
        append_merchant(bytes, merchant);
    }
}

/// Reads a statement line from bytes that hold nothing else.
/// Errors: bytes that `append_line` did not write.
pub fn parse_line(bytes: &[u8]) -> Result<StatementLine, CodecError> {
    let mut cursor = Cursor(bytes);
    let version = cursor.u8()?;
    if version != FORMAT {
        return Err(CodecError::UnknownVersion { version });
    }
    let present = cursor.u8()?;
    if present & !(CARD | MEMBER | MERCHANT | CATEGORY) != 0 {
        return Err(malformed("unknown fields of a statement line"));
    }
    let slot = |bit: u8, slot: u32| (present & bit != 0).then_some(slot);
    // Struct fields are evaluated in their order here: that of the bytes.
    let line = StatementLine {
        seq: LineSeq(cursor.u64()?),
        account: AccountSlot(cursor.u32()?),
        number: cursor.u64()?,
        posted_on: BusinessDate(cursor.i32()?),
        posted_at: Timestamp(cursor.i64()?),
        amount: Minor(cursor.i64()?),
        transaction: TransactionSeq(cursor.u64()?),
        card: slot(CARD, cursor.u32()?).map(CardSlot),
        member: slot(MEMBER, cursor.u32()?).map(MemberSlot),
        id: StatementLineId(Uuid::from_bytes(cursor.array()?)),
        description: cursor.text()?.to_owned(),
        merchant: (present & MERCHANT != 0)
            .then(|| take_merchant(&mut cursor, present & CATEGORY != 0).map(Box::new))
            .transpose()?,
    };
    cursor.end()?;
    Ok(line)
}
