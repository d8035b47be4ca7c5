//! Explained decisions for developers: fields by their names, amounts and instants as text.
//! Instants stand in the company's zone; the form for programs is in `routes/decision.rs`.

use cardswitch_engine::decision::{Quantity, Rule};
use cardswitch_engine::domain::business_date::BusinessDate;
use cardswitch_engine::domain::card::{CardState, SuspensionReason};
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use chrono::DateTime;
use chrono_tz::Tz;

use super::amount::Amount;
use super::glossary::{Audience, RuleWords, entry, is_credential};
use super::reference::render_suspension;
use super::time::render_date;

/// A developer who reads of a company's decisions.
#[derive(Clone, Copy, Debug)]
pub struct Words {
    /// The currency of its account.
    pub currency: CurrencyCode,
    /// The zone of its days.
    pub zone: Tz,
}

impl Words {
    /// The value a rule compared; of a credential only that one was compared.
    pub fn input(&self, rule: Rule, input: &Quantity) -> String {
        match *input {
            Quantity::Is(is_compared) if is_credential(rule) => {
                if is_compared { "compared" } else { "not compared" }.to_owned()
            }
            _ => self.quantity(input),
        }
    }

    /// Something that is compared.
    pub fn quantity(&self, quantity: &Quantity) -> String {
        match *quantity {
            Quantity::Amount(amount) => self.amount(amount),
            Quantity::Count(count) => count.to_string(),
            Quantity::Instant(at) => self.instant(at),
            Quantity::Date(date) => self.date(date),
            Quantity::Card(state, reason) => self.card(state, reason).unwrap_or_default(),
            Quantity::Is(is) => if is { "yes" } else { "no" }.to_owned(),
            Quantity::Category(category) => {
                category.map_or_else(|| "none".to_owned(), |mcc| self.category(mcc.0))
            }
            Quantity::Scope(scope) => self.scope(&scope, ", "),
        }
    }
}

impl Audience for Words {
    fn words(rule: Rule) -> RuleWords {
        entry(rule).developers
    }

    /// In the currency's major units.
    fn amount(&self, amount: Minor) -> String {
        Amount::new(amount, self.currency).to_string()
    }

    /// By the company's clock, as short as it is exact.
    fn instant(&self, at: Timestamp) -> String {
        let utc = DateTime::from_timestamp_micros(at.0).unwrap_or(DateTime::UNIX_EPOCH);
        let is_whole_minute = at.0.rem_euclid(Timestamp::MINUTE) == 0;
        let form = if is_whole_minute { "%Y-%m-%dT%H:%M%:z" } else { "%Y-%m-%dT%H:%M:%S%.f%:z" };
        utc.with_timezone(&self.zone).format(form).to_string()
    }

    fn date(&self, date: BusinessDate) -> String {
        render_date(date)
    }

    fn category(&self, code: u16) -> String {
        code.to_string()
    }

    fn card(&self, state: CardState, reason: SuspensionReason) -> Option<String> {
        Some(match render_suspension(reason) {
            Some(reason) => format!("{}: {reason}", state.word()),
            None => state.word().to_owned(),
        })
    }
}
