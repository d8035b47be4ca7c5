//! Authorization ids: the six letters and digits by which messages name a transaction.
//!
//! An id is the transaction's sequence number times a constant, modulo the number of ids: unique
//! among two billion successive transactions, and resolved without an index. Source: ISO DE38.

use super::ids::TransactionSeq;
use super::network_key::AuthorizationId;

/// The number of authorization ids: six letters and digits.
pub(crate) const AUTHORIZATION_ID_COUNT: u64 = 36u64.pow(6);
/// Coprime to 36, so that multiplying permutes the ids and neighbours look unrelated.
const ID_STRIDE: u64 = 1_402_567_891;
/// The inverse of `ID_STRIDE` modulo the number of ids.
const ID_STRIDE_INVERSE: u64 = inverse(ID_STRIDE, AUTHORIZATION_ID_COUNT);
const ID_SYMBOLS: &[u8; 36] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

// Two factors below the number of ids have a product that fits.
const _: () = assert!(AUTHORIZATION_ID_COUNT < 1 << 32 && ID_STRIDE < AUTHORIZATION_ID_COUNT);

/// The modular inverse by Euclid's algorithm.
#[expect(clippy::cast_possible_truncation, reason = "a remainder is below its u64 modulus")]
const fn inverse(value: u64, modulus: u64) -> u64 {
    let (mut previous, mut current) = (modulus as i128, value as i128);
    let (mut previous_factor, mut factor) = (0i128, 1i128);
    while current != 0 {
        let quotient = previous / current;
        (previous, current) = (current, previous - quotient * current);
        (previous_factor, factor) = (factor, previous_factor - quotient * factor);
    }
    assert!(previous == 1, "the stride must be coprime to the number of ids");
    previous_factor.rem_euclid(modulus as i128) as u64
}

/// The authorization id of a transaction: unique among two billion successive ones.
/// Source: ISO DE38.
pub fn authorization_id_of(seq: TransactionSeq) -> AuthorizationId {
    let mut value = seq.0 % AUTHORIZATION_ID_COUNT * ID_STRIDE % AUTHORIZATION_ID_COUNT;
    let mut text = [0; 6];
    for symbol in text.iter_mut().rev() {
        *symbol = ID_SYMBOLS[(value % 36) as usize];
        value /= 36;
    }
    AuthorizationId(text)
}

/// The sequence number in an authorization id, modulo `AUTHORIZATION_ID_COUNT`; none if the text is
/// no such id.
pub(crate) fn sequence_residue_of(id: AuthorizationId) -> Option<u64> {
    let mut value = 0;
    for symbol in id.0 {
        let digit = ID_SYMBOLS.iter().position(|known| *known == symbol)?;
        value = value * 36 + digit as u64;
    }
    Some(value * ID_STRIDE_INVERSE % AUTHORIZATION_ID_COUNT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorization_ids_lead_back_to_their_sequence() {
        for seq in [1, 2, 3, 99_999, AUTHORIZATION_ID_COUNT - 1, AUTHORIZATION_ID_COUNT + 5] {
            let id = authorization_id_of(TransactionSeq(seq));
            assert_eq!(sequence_residue_of(id), Some(seq % AUTHORIZATION_ID_COUNT));
        }
        assert_eq!(sequence_residue_of(AuthorizationId(*b"ab 12!")), None);
    }
}
