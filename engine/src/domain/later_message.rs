//! The messages that changed a purchase after the one that made it: a reversal may name one of them, and then gives
//! back what that message took. Source: ISO DE90.

use serde::{Deserialize, Serialize};

use super::money::{Conversion, Minor};
use super::network_key::OriginalKey;

/// The most increments and completions that are kept of one purchase; the oldest goes first. A reversal of one that is
/// gone finds nothing.
pub const CHANGES_OF_HOLD_MAX: usize = 64;

/// The effect of a later message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LaterMessageKind {
    /// It added to the hold.
    Increment,
    /// It set the hold, as the completion of a fuel pump.
    Completion,
    /// It posted, as the presentment of this number; each number posts once only.
    Presentment(u8),
}

/// A message that changed a purchase since it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaterMessage {
    /// Its effect.
    pub kind: LaterMessageKind,
    /// The key by which a reversal names it, if one can.
    pub key: Option<OriginalKey>,
    /// The amount that it took, less the amounts given back by its name.
    pub left: Minor,
    /// Its rate, if it asked in another currency: the purchase's may be another one by then.
    pub conversion: Option<Conversion>,
}

/// Those of one purchase, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaterMessages(Vec<LaterMessage>);

impl LaterMessages {
    /// Adds a message.
    pub fn add(&mut self, message: LaterMessage) {
        self.0.push(message);
        if self.changes_of_hold().count() > CHANGES_OF_HOLD_MAX {
            let oldest = self.0.iter().position(LaterMessage::is_change_of_hold);
            oldest.map(|oldest| self.0.remove(oldest));
        }
    }

    /// Notes that the hold was set: what earlier messages added is no part of it any more.
    pub fn set_hold(&mut self) {
        let changes = self.0.iter_mut().filter(|message| message.is_change_of_hold());
        changes.for_each(|message| message.left = Minor::ZERO);
    }

    /// Takes the amount from the newest changes of the hold: a reversal of the purchase gave it back.
    pub fn give_back_held(&mut self, amount: Minor) {
        self.give_back(amount, LaterMessage::is_change_of_hold);
    }

    /// Takes the amount from the newest postings: a reversal of the purchase gave it back.
    pub fn give_back_posted(&mut self, amount: Minor) {
        self.give_back(amount, |message| !message.is_change_of_hold());
    }

    fn give_back(&mut self, mut amount: Minor, is_meant: impl Fn(&LaterMessage) -> bool) {
        for message in self.0.iter_mut().rev().filter(|message| is_meant(message)) {
            let part = message.left.min(amount);
            message.left -= part;
            amount -= part;
        }
    }

    /// Whether the presentment of this number was seen.
    pub fn has_presentment(&self, number: u8) -> bool {
        self.0.iter().any(|message| message.kind == LaterMessageKind::Presentment(number))
    }

    /// The place of the newest message of this key.
    pub fn place_of(&self, key: OriginalKey) -> Option<usize> {
        self.0.iter().rposition(|message| message.key == Some(key))
    }

    /// The place of the newest message.
    pub fn newest_place(&self) -> Option<usize> {
        self.0.len().checked_sub(1)
    }

    /// The message at a place that was named.
    pub fn at_mut(&mut self, place: usize) -> &mut LaterMessage {
        &mut self.0[place]
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The messages.
    pub fn as_slice(&self) -> &[LaterMessage] {
        &self.0
    }

    /// The rate of a hold that a message of rate `first` made: that of the newest completion in the same currency.
    pub fn conversion_of_hold(&self, first: Option<Conversion>) -> Option<Conversion> {
        let first = first?;
        let completions = self.0.iter().rev().filter(|it| it.kind == LaterMessageKind::Completion);
        let mut rates = completions.filter_map(|completion| completion.conversion);
        let newest = rates.find(|rate| rate.asked.currency == first.asked.currency);
        Some(newest.unwrap_or(first))
    }

    fn changes_of_hold(&self) -> impl Iterator<Item = &LaterMessage> {
        self.0.iter().filter(|message| message.is_change_of_hold())
    }
}

impl LaterMessage {
    const fn is_change_of_hold(&self) -> bool {
        matches!(self.kind, LaterMessageKind::Increment | LaterMessageKind::Completion)
    }
}

impl FromIterator<LaterMessage> for LaterMessages {
    fn from_iter<I: IntoIterator<Item = LaterMessage>>(messages: I) -> Self {
        Self(messages.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn increments_without_end_leave_the_newest_and_every_presentment() {
        let mut later = LaterMessages::default();
        let of_five = |kind, key| LaterMessage { kind, key, left: Minor(5), conversion: None };
        later.add(of_five(LaterMessageKind::Presentment(1), None));
        later.add(of_five(LaterMessageKind::Increment, None));
        for number in 0..100 {
            later.add(of_five(LaterMessageKind::Increment, Some(OriginalKey(number))));
        }
        assert_eq!(later.as_slice().len(), CHANGES_OF_HOLD_MAX + 1);
        assert!(later.has_presentment(1) && !later.has_presentment(2));
        let places = [35, 36].map(|key| later.place_of(OriginalKey(key)).is_some());
        assert_eq!(places, [false, true]);
        later.give_back_held(Minor(7));
        let left = |later: &LaterMessages, key| {
            later.place_of(OriginalKey(key)).map(|place| later.as_slice()[place].left.0)
        };
        assert_eq!([99, 98, 97].map(|key| left(&later, key)), [Some(0), Some(3), Some(5)]);
        later.set_hold();
        assert_eq!(left(&later, 97), Some(0));
        assert_eq!(later.as_slice()[0].left, Minor(5));
    }
}
