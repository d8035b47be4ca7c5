//! A card as pages show it: its name, its state, and its budget with the amount left.

use cardswitch_engine::domain::business_date::{Interval, date_at};
use cardswitch_engine::domain::card::{CardState, CardTexts, SuspensionReason};
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::store::query::CardRow;
use cardswitch_v1::routes::card_texts::CARD_TEXTS;

use crate::words::{Badge, card_badge, last_four, money};

/// A card as lists and heads of pages show it.
#[derive(Clone, Debug)]
pub(crate) struct CardFace {
    pub(crate) id: String,
    pub(crate) texts: CardTexts<String>,
    /// The name of the company that it belongs to.
    pub(crate) company: String,
    /// The masked number, with the last digits alone.
    pub(crate) last_four: String,
    /// The last digits of its number.
    pub(crate) digits: String,
    /// Virtual or physical.
    pub(crate) kind: &'static str,
    /// How it stands.
    pub(crate) badge: Badge,
    /// Month and year of its expiry.
    pub(crate) expires: String,
    /// The amount left to spend.
    pub(crate) left: String,
    /// Whether less than nothing is left.
    pub(crate) is_overspent: bool,
    /// The budget of a period.
    pub(crate) budget: String,
    /// The amount spent in the period.
    pub(crate) spent: String,
    /// How often the budget starts anew; blank for never.
    pub(crate) interval: &'static str,
    /// How much of the budget is left. Units: percent, at most 100.
    pub(crate) left_percent: u8,
    /// Whether anything may still change about its state.
    pub(crate) is_open: bool,
    /// Whether what is left can be spent, now or once it is active.
    pub(crate) is_spendable: bool,
}

impl CardFace {
    /// The card as it stands at `now`.
    pub(crate) fn new(card: &CardRow, company: &Company, now: Timestamp) -> Self {
        let (profile, terms) = (&card.profile, &card.record.terms);
        let usage = card.record.usage.rolled(terms.interval, date_at(company.zone, now));
        let left = usage.allowance_balance(terms);
        let shown = |amount| money(amount, company.currency);
        let badge = badge_at(card, company, now);
        Self {
            id: profile.id.0.to_string(),
            texts: profile.texts.clone(),
            company: company.name.clone(),
            last_four: last_four(profile.last_four),
            digits: profile.last_four.into_iter().map(char::from).collect(),
            kind: if profile.is_virtual { "Virtual" } else { "Physical" },
            badge,
            expires: card.record.expires_on.to_naive().format("%m/%y").to_string(),
            left: shown(left),
            is_overspent: left < Minor::ZERO,
            budget: shown(terms.amount),
            spent: shown(usage.spent),
            interval: interval_words(terms.interval),
            left_percent: percent(left, terms.amount),
            is_open: is_open(card),
            is_spendable: badge.look != "off",
        }
    }

    /// Its texts, with their labels, besides those that title and plastic show.
    pub(crate) fn other_texts(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let texts = self.texts.named().into_iter().zip(CARD_TEXTS.named());
        let is_other = |name| !["description", "billing_name"].contains(&name);
        let texts = texts.filter(move |((name, text), _)| is_other(*name) && !text.is_empty());
        texts.map(|((_, text), (_, known))| (known.label, text))
    }
}

/// Whether anything may still change about a card's state.
pub(crate) fn is_open(card: &CardRow) -> bool {
    card.record.usage.state != CardState::Terminated
}

/// Whether its limits decide about purchases now: it is active, or suspended by its end only.
pub(crate) fn is_usable(card: &CardRow, company: &Company, now: Timestamp) -> bool {
    let usage = &card.record.usage;
    let is_ended =
        usage.state == CardState::Suspended && usage.suspension == SuspensionReason::EndTime;
    (usage.state == CardState::Active || is_ended) && !is_expired(card, company, now)
}

/// How a card stands at `now`: an active one may decline everything by its dates.
pub(crate) fn badge_at(card: &CardRow, company: &Company, now: Timestamp) -> Badge {
    let (usage, terms) = (&card.record.usage, &card.record.terms);
    match usage.state {
        CardState::Active if is_expired(card, company, now) => {
            Badge { word: "Expired", look: "off" }
        }
        CardState::Active if terms.has_ended(now) => {
            card_badge(CardState::Suspended, SuspensionReason::EndTime)
        }
        CardState::Active if now < terms.starts_at => Badge { word: "Not yet valid", look: "wait" },
        state => card_badge(state, usage.suspension),
    }
}

fn is_expired(card: &CardRow, company: &Company, now: Timestamp) -> bool {
    date_at(company.zone, now) > card.record.expires_on
}

/// How often a budget starts anew, as it follows an amount; blank for never.
const fn interval_words(interval: Interval) -> &'static str {
    match interval {
        Interval::None => "",
        Interval::Daily => "a day",
        Interval::Weekly => "a week",
        Interval::Monthly => "a month",
        Interval::Quarterly => "a quarter",
        Interval::Yearly => "a year",
    }
}

fn percent(part: Minor, whole: Minor) -> u8 {
    if !whole.is_positive() {
        return if part.is_positive() { 100 } else { 0 };
    }
    let percent = i128::from(part.0.max(0)) * 100 / i128::from(whole.0);
    u8::try_from(percent.min(100)).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_budgets_are_whole_percents() {
        let rows = [
            (0, 0, 0),
            (1, 0, 100),
            (0, 100, 0),
            (50, 100, 50),
            (999, 1_000, 99),
            (150, 100, 100),
            (-5, 100, 0),
            (i64::MAX, 1, 100),
        ];
        for (part, whole, expected) in rows {
            assert_eq!(percent(Minor(part), Minor(whole)), expected, "{part} of {whole}");
        }
    }
}
