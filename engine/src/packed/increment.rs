//! The decision on an increment, packed: in the journal as an effect of its record, in the tables as
//! a row of its own.
//!
//! | at | bytes | content |
//! |---|---|---|
//! | 0 | 1 | format version, 1 |
//! | 1 | 1 | 1: the purchase had used the card up; 2: a category follows |
//! | 2 | 8 | sequence number of the purchase |
//! | 10 | 8 | time of the increment's acceptance, microseconds |
//! | 18 | 4 | the rules that failed |
//! | 22 | 0 or 2 | the merchant's category |
//! | | 1.. each | amount, and amount held before, as short integers |
//! | | | the facts, layout in `facts` |

use super::cursor::{Cursor, malformed, push_short_i64};
use super::facts::{append_facts, take_facts};
use crate::codec::CodecError;
use crate::decision::{IncrementDecision, RuleSet};
use crate::domain::ids::{Timestamp, TransactionSeq};
use crate::domain::merchant::Mcc;
use crate::domain::money::Minor;

const FORMAT: u8 = 1;

const USED_UP: u8 = 1;
const MCC: u8 = 1 << 1;
const KNOWN: u8 = USED_UP | MCC;

/// Appends the decision on an increment.
pub fn append_increment(bytes: &mut Vec<u8>, decision: &IncrementDecision) {
    let present =
        (USED_UP * u8::from(decision.has_used_card_up)) | (MCC * u8::from(decision.mcc.is_some()));
    bytes.extend_from_slice(&[FORMAT, present]);
    bytes.extend_from_slice(&decision.transaction.0.to_le_bytes());
    bytes.extend_from_slice(&decision.decided_at.0.to_le_bytes());
    bytes.extend_from_slice(&decision.failed_rules.bits().to_le_bytes());
    if let Some(Mcc(code)) = decision.mcc {
        bytes.extend_from_slice(&code.to_le_bytes());
    }
    push_short_i64(bytes, decision.amount.0);
    push_short_i64(bytes, decision.added_to.0);
    append_facts(bytes, &decision.facts);
}

/// Reads the decision on an increment.
/// Errors: bytes that `append_increment` did not write.
pub fn parse_increment(bytes: &[u8]) -> Result<IncrementDecision, CodecError> {
    let mut cursor = Cursor(bytes);
    let [version, present] = cursor.array()?;
    if version != FORMAT {
        return Err(CodecError::UnknownVersion { version });
    }
    if present & !KNOWN != 0 {
        return Err(malformed("unknown fields of an increment"));
    }
    let decision = IncrementDecision {
        has_used_card_up: present & USED_UP != 0,
        transaction: TransactionSeq(cursor.u64()?),
        decided_at: Timestamp(cursor.i64()?),
        failed_rules: RuleSet::from_bits(cursor.u32()?),
        mcc: if present & MCC != 0 { Some(Mcc(cursor.u16()?)) } else { None },
        amount: Minor(cursor.short_i64()?),
        added_to: Minor(cursor.short_i64()?),
        facts: take_facts(&mut cursor.0)?,
    };
    cursor.end()?;
    Ok(decision)
}

impl From<IncrementDecision> for Vec<u8> {
    fn from(decision: IncrementDecision) -> Self {
        let mut bytes = Self::new();
        append_increment(&mut bytes, &decision);
        bytes
    }
}

impl TryFrom<Vec<u8>> for IncrementDecision {
    type Error = CodecError;

    fn try_from(bytes: Vec<u8>) -> Result<Self, CodecError> {
        parse_increment(&bytes)
    }
}
