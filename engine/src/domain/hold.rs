//! Parts of money taken from an allowance, each with the period and day of its taking.
//!
//! A purchase holds, and later has cleared, one or more parts; each belongs to the period and the
//! local day in which it was taken, so that giving back reaches only a current period or day.
//!
//! INVARIANT: parts are in the order of their taking. Those that give back alike for ever are one, so that a purchase
//! has few, however often it is changed.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::allowance::CardUsage;
use super::business_date::BusinessDate;
use super::money::Minor;

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

impl HoldPart {
    /// Its place in time: periods and days only rise.
    const fn place(&self) -> (u32, BusinessDate) {
        (self.period, self.day)
    }

    /// Whether giving back reaches as much by the one as by the other, now and later: what is past stays past.
    fn gives_back_as(&self, other: &Self, usage: &CardUsage) -> bool {
        let is_alike_in_period =
            self.period == other.period || self.period.max(other.period) < usage.period;
        let is_alike_in_day = self.day == other.day || self.day.max(other.day) < usage.day;
        is_alike_in_period && is_alike_in_day
    }
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
    pub const fn new() -> Self {
        Self(SmallVec::new_const())
    }

    /// An amount taken in the usage's current period and day.
    pub fn taken(amount: Minor, usage: &CardUsage) -> Self {
        let mut parts = Self::new();
        parts.push(amount, usage);
        parts
    }

    /// The parts, oldest first.
    pub fn parts(&self) -> &[HoldPart] {
        &self.0
    }

    /// The sum of all parts.
    pub fn total(&self) -> Minor {
        self.0.iter().map(|part| part.amount).sum()
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds an amount taken in the usage's current period and day.
    pub fn push(&mut self, amount: Minor, usage: &CardUsage) {
        if amount.is_positive() {
            self.add(HoldPart { amount, period: usage.period, day: usage.day }, usage);
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

    /// Takes up to `amount` off the newest parts and returns what it took.
    pub fn split_newest(&mut self, amount: Minor) -> Self {
        let mut newest = Self::new();
        self.take_newest(amount.min(self.total()), |piece| newest.0.insert(0, piece));
        newest
    }

    /// Takes `amount` off the parts that give back as the `named` ones do, then off the newest. Hands each piece
    /// to `taken`.
    pub fn take_alike(
        &mut self,
        amount: Minor,
        named: &Self,
        usage: &CardUsage,
        mut taken: impl FnMut(HoldPart),
    ) {
        let mut left = amount;
        for named in named.0.iter().rev() {
            let mut wanted = named.amount.min(left);
            left -= wanted;
            for part in self.0.iter_mut().rev().filter(|part| part.gives_back_as(named, usage)) {
                let piece = part.amount.min(wanted);
                taken(HoldPart { amount: piece, ..*part });
                part.amount -= piece;
                wanted -= piece;
            }
            left += wanted;
        }
        self.0.retain(|part| part.amount.is_positive());
        self.take_newest(left, taken);
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

    /// Adds a part at its place in time, and joins parts that the card's usage tells apart no more.
    pub fn add(&mut self, part: HoldPart, usage: &CardUsage) {
        let at = self.0.partition_point(|known| known.place() <= part.place());
        self.0.insert(at, part);
        self.0.dedup_by(|newer, older| {
            let is_alike = newer.gives_back_as(older, usage);
            if is_alike {
                older.amount += newer.amount;
            }
            is_alike
        });
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
        let usage = CardUsage { period: 2, day: BusinessDate(100), ..CardUsage::default() };
        held.take_oldest(Minor(600), |piece| cleared.add(piece, &usage));
        assert_eq!(cleared.parts(), [part(500, 1), part(100, 2)]);
        assert_eq!(held.total(), Minor(200));
    }

    /// Amount, period and day.
    type Left = (i64, u32, i32);

    #[test]
    fn parts_that_give_back_alike_are_one() {
        let on = |period, day| HoldPart { amount: Minor(1), period, day: BusinessDate(day) };
        let usage = CardUsage { period: 7, day: BusinessDate(100), ..CardUsage::default() };
        // Parts as they come, and what they leave.
        let rows: [(&[HoldPart], &[Left]); 5] = [
            (&[on(7, 100), on(7, 100)], &[(2, 7, 100)]),
            (&[on(7, 100), on(7, 99), on(7, 98)], &[(2, 7, 98), (1, 7, 100)]),
            (&[on(7, 100), on(5, 100), on(6, 100)], &[(2, 5, 100), (1, 7, 100)]),
            (&[on(6, 99), on(7, 99), on(5, 98)], &[(2, 5, 98), (1, 7, 99)]),
            (&[on(7, 99), on(6, 98), on(7, 100)], &[(1, 6, 98), (1, 7, 99), (1, 7, 100)]),
        ];
        for (parts, expected) in rows {
            let mut held = HoldParts::new();
            parts.iter().for_each(|part| held.add(*part, &usage));
            let left = held.parts().iter().map(|part| (part.amount.0, part.period, part.day.0));
            assert_eq!(left.collect::<Vec<_>>(), expected, "{parts:?}");
        }
    }
}
