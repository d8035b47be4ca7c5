//! Parts of a hold or a posting, each with the page and the day in which it was taken.

use chrono::NaiveDate;

use super::{Card, Model};

/// Money taken from a budget.
#[derive(Clone, Copy)]
pub(super) struct HeldPart {
    pub(super) amount: i64,
    pub(super) period: u64,
    pub(super) day: NaiveDate,
}

pub(super) fn total(parts: &[HeldPart]) -> i64 {
    parts.iter().map(|part| part.amount).sum()
}

/// Takes so much off the last of the parts, and returns what was taken, in that order.
pub(super) fn take_last(parts: &mut Vec<HeldPart>, mut amount: i64) -> Vec<HeldPart> {
    let mut taken = Vec::new();
    while amount > 0 {
        let last = parts.last_mut().unwrap();
        let piece = HeldPart { amount: last.amount.min(amount), ..*last };
        last.amount -= piece.amount;
        amount -= piece.amount;
        taken.push(piece);
        if last.amount == 0 {
            parts.pop();
        }
    }
    taken
}

/// Takes what these parts say from those of the same page and day, as a card's pages tell them apart now, then from the
/// last.
pub(super) fn take_alike(
    parts: &mut Vec<HeldPart>,
    (amount, named): (i64, &[HeldPart]),
    place: impl Fn(&HeldPart) -> (bool, bool),
) {
    let mut left = amount;
    for named in named {
        let mut wanted = named.amount.min(left);
        for part in parts.iter_mut().rev().filter(|part| place(part) == place(named)) {
            let piece = part.amount.min(wanted);
            part.amount -= piece;
            wanted -= piece;
            left -= piece;
        }
    }
    parts.retain(|part| part.amount > 0);
    take_last(parts, left);
}

/// Takes so much off the first of the parts, and returns what was taken.
pub(super) fn take_first(from: &mut Vec<HeldPart>, mut amount: i64) -> Vec<HeldPart> {
    let mut taken = Vec::new();
    while amount > 0 {
        let piece = from[0].amount.min(amount);
        taken.push(HeldPart { amount: piece, ..from[0] });
        from[0].amount -= piece;
        amount -= piece;
        if from[0].amount == 0 {
            from.remove(0);
        }
    }
    taken
}

impl Model {
    /// Whether a part is of the present page of a card, and of its present day.
    pub(super) fn place_of(&self, card: usize) -> impl Fn(&HeldPart) -> (bool, bool) + use<> {
        let Card { period, today, .. } = self.cards[card];
        move |part| (part.period == period, part.day == today)
    }

    pub(super) fn part(&self, card: usize, amount: i64) -> Vec<HeldPart> {
        let Card { period, today, .. } = self.cards[card];
        if amount == 0 { Vec::new() } else { vec![HeldPart { amount, period, day: today }] }
    }
}
