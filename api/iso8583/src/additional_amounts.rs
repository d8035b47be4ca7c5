//! DE 54, additional amounts: groups of twenty characters.
//!
//! Layout of a group: account type 2, amount type 2, currency 3, C or D, amount 12.

use crate::number::{parse_number, write_zero_padded};

/// Amount type: the available amount.
pub const AVAILABLE: [u8; 2] = *b"02";
/// Amount type: the requested amount where less was approved.
pub const ORIGINALLY_REQUESTED: [u8; 2] = *b"57";
/// The length of a group.
pub const GROUP_LEN: usize = 20;

/// The direction of an amount for the cardholder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// C: in favour.
    Credit,
    /// D: owed.
    Debit,
}

/// One group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdditionalAmount {
    /// Two characters, "00" where it does not matter.
    pub account_type: [u8; 2],
    /// Two characters: [`AVAILABLE`], [`ORIGINALLY_REQUESTED`] or another.
    pub amount_type: [u8; 2],
    /// ISO 4217 numeric code, three digits.
    pub currency: [u8; 3],
    /// Its direction.
    pub sign: Sign,
    /// Up to twelve digits. Units: minor units of the currency.
    pub amount_minor: u64,
}

impl AdditionalAmount {
    /// Reads one group; none when it is not twenty characters of the layout.
    pub fn parse(group: &[u8]) -> Option<Self> {
        let &[a1, a2, t1, t2, c1, c2, c3, sign, ref amount @ ..] =
            <&[u8; GROUP_LEN]>::try_from(group).ok()?;
        let sign = match sign {
            b'C' => Sign::Credit,
            b'D' => Sign::Debit,
            _ => return None,
        };
        Some(Self {
            account_type: [a1, a2],
            amount_type: [t1, t2],
            currency: [c1, c2, c3],
            sign,
            amount_minor: parse_number(amount)?,
        })
    }

    /// The groups of a DE 54; none when one of them is malformed or the length is no multiple of twenty.
    pub fn parse_all(content: &[u8]) -> Option<impl Iterator<Item = Self>> {
        let groups = content.chunks(GROUP_LEN);
        groups
            .clone()
            .all(|group| Self::parse(group).is_some())
            .then(|| groups.filter_map(Self::parse))
    }

    /// The group of an amount type in a DE 54, if the element is well formed and has it.
    pub fn find(content: &[u8], amount_type: [u8; 2]) -> Option<Self> {
        Self::parse_all(content)?.find(|group| group.amount_type == amount_type)
    }

    /// The group as it stands in a DE 54; none when the amount has more than twelve digits.
    pub fn to_group(&self) -> Option<[u8; GROUP_LEN]> {
        let mut group = [b'0'; GROUP_LEN];
        let (head, amount) = group.split_at_mut_checked(8)?;
        let sign = match self.sign {
            Sign::Credit => b'C',
            Sign::Debit => b'D',
        };
        let ([a1, a2], [t1, t2], [c1, c2, c3]) =
            (self.account_type, self.amount_type, self.currency);
        head.copy_from_slice(&[a1, a2, t1, t2, c1, c2, c3, sign]);
        write_zero_padded(self.amount_minor, amount).then_some(group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AVAILABLE_USD: AdditionalAmount = AdditionalAmount {
        account_type: *b"00",
        amount_type: AVAILABLE,
        currency: *b"840",
        sign: Sign::Credit,
        amount_minor: 12_345,
    };

    #[test]
    fn groups_go_both_ways_and_are_found_by_type() {
        let requested = AdditionalAmount {
            amount_type: ORIGINALLY_REQUESTED,
            sign: Sign::Debit,
            ..AVAILABLE_USD
        };
        let mut content = AVAILABLE_USD.to_group().unwrap().to_vec();
        content.extend(requested.to_group().unwrap());
        assert_eq!(content, b"0002840C0000000123450057840D000000012345");
        let groups: Vec<_> = AdditionalAmount::parse_all(&content).unwrap().collect();
        assert_eq!(groups, [AVAILABLE_USD, requested]);
        assert_eq!(AdditionalAmount::find(&content, ORIGINALLY_REQUESTED), Some(requested));
        assert_eq!(AdditionalAmount::find(&content, *b"01"), None);
        assert_eq!(AdditionalAmount::parse_all(b"").unwrap().count(), 0);
    }

    #[test]
    fn malformed_groups_are_none() {
        for content in [
            &b"0002840X000000012345"[..],
            b"0002840C00000001234",
            b"0002840C00000001234x",
            b"0002840C0000000123450",
        ] {
            assert!(AdditionalAmount::parse_all(content).is_none(), "{content:?}");
        }
        let huge = AdditionalAmount { amount_minor: 1_000_000_000_000, ..AVAILABLE_USD };
        assert_eq!(huge.to_group(), None);
    }
}
