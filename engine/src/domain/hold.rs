//! Parts of money taken from an allowance, each with the period and day of its taking.
//!
//! A purchase holds, and later has cleared, one or more parts; each belongs to the period and the
//! local day in which it was taken, so that giving back reaches only a current period or day.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::allowance::CardUsage;
use super::business_date::BusinessDate;
use super::ids::Timestamp;
use super::merchant::Mcc;
use super::money::Minor;

/// Every lifetime a hold may have. Units: microseconds.
pub const HOLD_LIFETIMES: [i64; 2] = [7 * Timestamp::DAY, 30 * Timestamp::DAY];

/// The lifetime of a hold: 30 days for stays and rentals, which are authorized ahead, else 7.
/// Units: microseconds.
#[must_use]
pub fn hold_lifetime(mcc: Option<Mcc>) -> i64 {
    let is_long =
        mcc.is_some_and(|Mcc(code)| matches!(code, 3351..=3999 | 7011 | 7012 | 7512 | 7513 | 7519));
    HOLD_LIFETIMES[usize::from(is_long)]
}

/// An amount taken in one period on one day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldPart {
    /// The amount; above zero.
    pub amount: Minor,
    /// The allowance period it was taken from.
    pub period: u32,
    /// The local date on which it was taken.
    pub day: BusinessDate,
}

/// Parts in the order they were taken.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldParts(SmallVec<[HoldPart; 1]>);

/// Copies all parts at once, unlike the derived clone, which copies part by part.
impl Clone for HoldParts {
    fn clone(&self) -> Self {
        Self(SmallVec::from_slice(&self.0))
    }
}

impl HoldParts {
    /// No parts.
    #[must_use]
    pub const fn new() -> Self {
        Self(SmallVec::new_const())
    }

    /// The parts, oldest first.
    #[must_use]
    pub fn parts(&self) -> &[HoldPart] {
        &self.0
    }

    /// The sum of all parts.
    #[must_use]
    pub fn total(&self) -> Minor {
        self.0.iter().map(|part| part.amount).sum()
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds an amount taken in the usage's current period and day.
    pub fn push(&mut self, amount: Minor, usage: &CardUsage) {
        if amount.is_positive() {
            self.push_part(HoldPart { amount, period: usage.period, day: usage.day });
        }
    }

    /// Takes `amount` off the newest parts and hands each piece to `taken`.
    pub fn take_newest(&mut self, amount: Minor, mut taken: impl FnMut(HoldPart)) {
        assert!(amount <= self.total(), "more is taken than there is");
        let mut left = amount;
        while left.is_positive() {
            let Some(part) = self.0.last_mut() else { break };
            let piece = part.amount.min(left);
            taken(HoldPart { amount: piece, ..*part });
            part.amount -= piece;
            left -= piece;
            if part.amount.is_zero() {
                self.0.pop();
            }
        }
    }

    /// Takes `amount` off the oldest parts and hands each piece to `taken`.
    pub fn take_oldest(&mut self, amount: Minor, mut taken: impl FnMut(HoldPart)) {
        assert!(amount <= self.total(), "more is taken than there is");
        let mut left = amount;
        for part in &mut self.0 {
            let piece = part.amount.min(left);
            if piece.is_positive() {
                taken(HoldPart { amount: piece, ..*part });
                part.amount -= piece;
                left -= piece;
            }
        }
        self.0.retain(|part| part.amount.is_positive());
    }

    /// Adds a part unchanged; joins the last one when period and day are the same.
    pub fn push_part(&mut self, part: HoldPart) {
        match self.0.last_mut() {
            Some(last) if last.period == part.period && last.day == part.day => {
                last.amount += part.amount;
            }
            _ => self.0.push(part),
        }
    }
}

impl FromIterator<HoldPart> for HoldParts {
    /// The parts exactly as given, without joining any.
    fn from_iter<I: IntoIterator<Item = HoldPart>>(parts: I) -> Self {
        Self(parts.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(amount: i64, period: u32) -> HoldPart {
        HoldPart { amount: Minor(amount), period, day: BusinessDate(100) }
    }

    #[test]
    fn newest_parts_are_given_back_first_and_oldest_clear_first() {
        let mut held = HoldParts(smallvec::smallvec![part(500, 1), part(300, 2)]);
        let mut given = Vec::new();
        held.take_newest(Minor(400), |piece| given.push(piece));
        assert_eq!(given, [part(300, 2), part(100, 1)]);
        assert_eq!(held.parts(), [part(400, 1)]);

        let mut held = HoldParts(smallvec::smallvec![part(500, 1), part(300, 2)]);
        let mut cleared = HoldParts::new();
        held.take_oldest(Minor(600), |piece| cleared.push_part(piece));
        assert_eq!(cleared.parts(), [part(500, 1), part(100, 2)]);
        assert_eq!(held.total(), Minor(200));
    }
}
