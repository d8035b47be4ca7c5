//! How messages of ISO 8583:1993 name an earlier one, and what they leave of it.
//!
//! | field | content | element |
//! |---|---|---|
//! | 56 | type (4), STAN (6), local date and time (12: YYMMDDhhmmss), acquirer with its length (2 + 11) | 90 |
//! | 24 | 400: the whole amount is reversed; 401: a part | 70 |
//! | 4 | of a part: the amount that stays | 95 |
//! | 30 | of a part: the amount before (12), and in another currency (12) | 4 |
//!
//! DE90 has a transmission time where this has a local one: in such a dialect local time names messages.

use crate::number::parse_number;
use crate::original_data::ORIGINAL_DATA_LEN;
use crate::replacement_amounts::{parse_replacement_amount, replacement_amounts};
use crate::translation::TypeForm;

const ACQUIRER_DIGITS: usize = 11;
/// The function codes of reversals. Source: ISO 8583:1993, table A.8.
pub(crate) const FULL: &[u8] = b"400";
pub(crate) const PARTIAL: &[u8] = b"401";
pub(crate) const AMOUNT_DIGITS: usize = 12;

/// Makes DE90 of the field 56 that stands from there on. False where it is none.
pub(crate) fn read_original(types: &TypeForm, content_at: usize, plain: &mut Vec<u8>) -> bool {
    let theirs = plain.split_off(content_at);
    let Some((own_type, acquirer)) = taken_apart(&theirs) else { return false };
    let [mti, stan, moment] = own_type;
    let Ok(mti) = mti.try_into() else { return false };
    plain.extend_from_slice(&types.read(mti));
    plain.extend_from_slice(stan);
    plain.extend_from_slice(moment);
    plain.resize(plain.len() + ACQUIRER_DIGITS - acquirer.len(), b'0');
    plain.extend_from_slice(acquirer);
    plain.resize(content_at + ORIGINAL_DATA_LEN, b'0');
    true
}

/// Type, STAN and the moment without its year; then the acquirer, which may be missing or of a fixed length.
fn taken_apart(theirs: &[u8]) -> Option<([&[u8]; 3], &[u8])> {
    let (mti, rest) = theirs.split_at_checked(4)?;
    let (stan, rest) = rest.split_at_checked(6)?;
    let (_year, rest) = rest.split_at_checked(2)?;
    let (moment, rest) = rest.split_at_checked(10)?;
    let acquirer = match rest.split_at_checked(2) {
        None if rest.is_empty() => rest,
        None => return None,
        Some((len, acquirer)) if parse_number(len) == u64::try_from(acquirer.len()).ok() => {
            acquirer
        }
        Some(_) if rest.len() == ACQUIRER_DIGITS => rest,
        Some(_) => return None,
    };
    (acquirer.len() <= ACQUIRER_DIGITS).then_some(([mti, stan, moment], acquirer))
}

/// The field 56 of a DE90; none where that is none. The year is not told there: it is zeros.
pub(crate) fn written_original(types: &TypeForm, own: &[u8]) -> Option<Vec<u8>> {
    let own: &[u8; ORIGINAL_DATA_LEN] = own.try_into().ok()?;
    let (mti, rest) = own.split_first_chunk()?;
    let (stan, rest) = rest.split_at_checked(6)?;
    let (moment, rest) = rest.split_at_checked(10)?;
    let acquirer = rest.get(..ACQUIRER_DIGITS)?;
    let zeros = acquirer.iter().take_while(|digit| **digit == b'0').count();
    let acquirer = &acquirer[zeros..];
    let mut theirs = types.write(*mti).to_vec();
    theirs.extend_from_slice(stan);
    theirs.extend_from_slice(b"00");
    theirs.extend_from_slice(moment);
    if !acquirer.is_empty() {
        theirs.extend_from_slice(format!("{:02}", acquirer.len()).as_bytes());
        theirs.extend_from_slice(acquirer);
    }
    Some(theirs)
}

/// Whether a reversal leaves a part, by its function code, else by the amount before.
pub(crate) fn is_partial(
    function: Option<&[u8]>,
    amount: Option<&[u8]>,
    before: Option<&[u8]>,
) -> bool {
    match function {
        Some(FULL) => false,
        Some(PARTIAL) => true,
        _ => before.and_then(|before| before.get(..AMOUNT_DIGITS)).is_some_and(|before| {
            Some(before) != amount && parse_number(before).is_some_and(|before| before > 0)
        }),
    }
}

/// Makes DE95 of the amount that stands from there on. False where that is none.
pub(crate) fn read_remaining(content_at: usize, plain: &mut Vec<u8>) -> bool {
    let amount = parse_number(&plain[content_at..]).and_then(replacement_amounts);
    let Some(amounts) = amount else { return false };
    plain.truncate(content_at);
    plain.extend_from_slice(&amounts);
    true
}

/// The amount that stays, of a DE95, and the fields 4 and 30 that say so; none where it is none.
pub(crate) fn written_amounts(before: &[u8], replacement: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let stays = format!("{:012}", parse_replacement_amount(replacement)?);
    let before = [before, &[b'0'; AMOUNT_DIGITS]].concat();
    Some((stays.into_bytes(), before))
}
