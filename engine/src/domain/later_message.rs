//! The messages that changed a purchase after the one that made it: a reversal may name one of them, and then gives
//! back what that message took. Source: ISO DE90.

use std::num::NonZeroU8;

use serde::{Deserialize, Serialize};

use super::hold::HoldParts;
use super::money::{Conversion, CurrencyCode, Minor};
use super::network_key::{MessageClass, OriginalKey};

/// The most increments and completions that are kept of one purchase; the oldest goes first of those that do not give
/// the hold its rate. A reversal of one that is gone finds nothing.
pub const CHANGES_OF_HOLD_MAX: usize = 64;

/// The effect of a later message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LaterMessageKind {
    /// It added to the hold.
    Increment,
    /// It set the hold, as the completion of a fuel pump.
    Completion,
    /// It posted, as the presentment of this number among several, or as one without a number.
    Presentment(Option<NonZeroU8>),
}

/// A message that changed a purchase since it was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaterMessage {
    /// Its effect.
    pub kind: LaterMessageKind,
    /// The key by which a reversal names it, if one can.
    pub key: Option<OriginalKey>,
    /// The amount that it took.
    pub amount: Minor,
    /// The same, less the amounts given back of it.
    pub left: Minor,
    /// The parts in which it took what is left; none of a completion, which is about the whole purchase.
    pub parts: HoldParts,
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
            self.forget_oldest_change();
        }
    }

    /// Forgets the oldest change of the hold whose rate no other replaces. Where each gives a rate, in
    /// as many currencies, that is the oldest.
    fn forget_oldest_change(&mut self) {
        let is_needed = |place: usize| {
            let currency = self.0[place].currency_of_rate();
            let mut newer = self.0[place + 1..].iter().map(LaterMessage::currency_of_rate);
            currency.is_some() && newer.all(|newer| newer != currency)
        };
        let changes = (0..self.0.len()).filter(|place| self.0[*place].is_change_of_hold());
        let gone = changes.clone().find(|place| !is_needed(*place)).or_else(|| changes.min());
        gone.map(|gone| self.0.remove(gone));
    }

    /// Notes that the hold was set: what earlier messages added is no part of it any more.
    pub fn set_hold(&mut self) {
        let changes = self.0.iter_mut().filter(|message| message.is_change_of_hold());
        changes.for_each(|message| drop(message.give_back(message.left)));
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
            message.give_back(part);
            amount -= part;
        }
    }

    /// Whether the presentment of this number was seen.
    pub fn has_presentment(&self, number: NonZeroU8) -> bool {
        self.0.iter().any(|message| message.kind == LaterMessageKind::Presentment(Some(number)))
    }

    /// Whether this amount was presented, or any if none is named: without a number under this key, or behind
    /// the last one under any, if not all of it was given back.
    pub fn has_presented(
        &self,
        amount: Option<Minor>,
        key: Option<OriginalKey>,
        is_behind_last: bool,
    ) -> bool {
        let of_amount = |it: &&LaterMessage| amount.is_none_or(|amount| it.amount == amount);
        let is_same = |it: &LaterMessage| {
            it.kind == LaterMessageKind::Presentment(None) && key.is_some() && it.key == key
        };
        let is_left = |it: &LaterMessage| it.left.is_positive() || it.amount.is_zero();
        let mut presented = self.presentments().filter(of_amount);
        presented.any(|it| is_same(it) || is_behind_last && is_left(it))
    }

    /// The place of the newest message that this key may mean, and of this class if one is told.
    pub fn place_of(&self, key: OriginalKey, class: Option<MessageClass>) -> Option<usize> {
        self.0.iter().rposition(|message| {
            message.key.is_some_and(|own| key.may_mean(own))
                && class.is_none_or(|class| message.class() == class)
        })
    }

    /// The newest message and its place.
    pub fn newest(&self) -> Option<(usize, &LaterMessage)> {
        self.0.iter().enumerate().next_back()
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
        let is_of_it = |it: &&LaterMessage| it.currency_of_rate() == Some(first.asked.currency);
        let newest =
            self.0.iter().rev().find(is_of_it).and_then(|completion| completion.conversion);
        Some(newest.unwrap_or(first))
    }

    fn presentments(&self) -> impl Iterator<Item = &LaterMessage> {
        self.0.iter().filter(|message| !message.is_change_of_hold())
    }

    fn changes_of_hold(&self) -> impl Iterator<Item = &LaterMessage> {
        self.0.iter().filter(|message| message.is_change_of_hold())
    }
}

impl LaterMessage {
    /// A message that took this amount, of which nothing is given back yet.
    pub const fn new(
        kind: LaterMessageKind,
        key: Option<OriginalKey>,
        amount: Minor,
        conversion: Option<Conversion>,
    ) -> Self {
        Self { kind, key, amount, left: amount, parts: HoldParts::new(), conversion }
    }

    /// The message, which took its amount in these parts.
    #[must_use]
    pub fn in_parts(self, parts: HoldParts) -> Self {
        Self { parts, ..self }
    }

    /// Notes that so much of what is left goes back, and returns in which parts it was taken.
    pub fn give_back(&mut self, amount: Minor) -> HoldParts {
        self.left -= amount;
        self.parts.split_newest(amount)
    }

    /// The class of the message.
    pub const fn class(&self) -> MessageClass {
        match self.kind {
            LaterMessageKind::Increment | LaterMessageKind::Completion => {
                MessageClass::Authorization
            }
            LaterMessageKind::Presentment(_) => MessageClass::Financial,
        }
    }

    const fn is_change_of_hold(&self) -> bool {
        matches!(self.kind, LaterMessageKind::Increment | LaterMessageKind::Completion)
    }

    /// The currency in whose rate it sets the hold, if it does.
    fn currency_of_rate(&self) -> Option<CurrencyCode> {
        let rate = self.conversion.filter(|_| self.kind == LaterMessageKind::Completion);
        rate.map(|rate| rate.asked.currency)
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
    use crate::domain::money::CurrencyAmount;

    #[test]
    fn increments_without_end_leave_the_newest_and_every_presentment() {
        let mut later = LaterMessages::default();
        let of_five = |kind, key| LaterMessage::new(kind, key, Minor(5), None);
        let [first, second] = [1, 2].map(|number| NonZeroU8::new(number).unwrap());
        later.add(of_five(LaterMessageKind::Presentment(Some(first)), None));
        later.add(of_five(LaterMessageKind::Increment, None));
        for number in 0..100 {
            later.add(of_five(LaterMessageKind::Increment, Some(OriginalKey(number))));
        }
        assert_eq!(later.as_slice().len(), CHANGES_OF_HOLD_MAX + 1);
        assert!(later.has_presentment(first) && !later.has_presentment(second));
        let places = [35, 36].map(|key| later.place_of(OriginalKey(key), None).is_some());
        assert_eq!(places, [false, true]);
        later.give_back_held(Minor(7));
        let left = |later: &LaterMessages, key| {
            later.place_of(OriginalKey(key), None).map(|place| later.as_slice()[place].left.0)
        };
        assert_eq!([99, 98, 97].map(|key| left(&later, key)), [Some(0), Some(3), Some(5)]);
        later.set_hold();
        assert_eq!(left(&later, 97), Some(0));
        assert_eq!(later.as_slice()[0].left, Minor(5));
    }

    /// After so many increments the share of a rest was at the rate of the authorization again.
    #[test]
    fn increments_without_end_leave_the_rate_of_the_hold() {
        let rate = |currency, billed| {
            let asked = CurrencyAmount { amount: Minor(100), currency: CurrencyCode(currency) };
            Conversion::of(Some(asked), Minor(billed))
        };
        let mut later = LaterMessages::default();
        let mut add = |kind, conversion| {
            later.add(LaterMessage::new(kind, None, Minor(5), conversion));
        };
        let completions = [rate(978, 110), rate(978, 120), rate(826, 130), None];
        completions.iter().for_each(|rate| add(LaterMessageKind::Completion, *rate));
        (0..100).for_each(|_| add(LaterMessageKind::Increment, rate(978, 140)));
        let of_hold = |later: &LaterMessages, first| later.conversion_of_hold(rate(first, 1));
        assert_eq!(of_hold(&later, 978), rate(978, 120));
        assert_eq!(of_hold(&later, 826), rate(826, 130));
        assert_eq!(later.as_slice().len(), CHANGES_OF_HOLD_MAX);
        for currency in 1..200 {
            let conversion = rate(currency, 150);
            later.add(LaterMessage::new(LaterMessageKind::Completion, None, Minor(5), conversion));
        }
        assert_eq!(later.as_slice().len(), CHANGES_OF_HOLD_MAX);
        assert_eq!(of_hold(&later, 199), rate(199, 150));
    }
}
