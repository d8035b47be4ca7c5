//! Decision rules as pages write them: in the words of the glossary for people, with money, times and
//! merchants as a company reads them.

use cardswitch_engine::decision::{Rule, RuleFinding};
use cardswitch_engine::domain::business_date::BusinessDate;
use cardswitch_engine::domain::card::{CardState, SuspensionReason};
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use cardswitch_wire::glossary::{Audience, RuleWords, entry, sentence};
use chrono_tz::Tz;

use super::merchants::merchant_kind;
use super::money::money;
use super::times::{day_words, moment};

/// The reader of a company's decisions on a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageReader {
    /// The currency of its account.
    currency: CurrencyCode,
    /// The zone of its days.
    zone: Tz,
}

impl PageReader {
    pub(crate) const fn of(company: &Company) -> Self {
        Self { currency: company.currency, zone: company.zone }
    }

    pub(crate) fn sentence(&self, finding: &RuleFinding) -> String {
        sentence(&self.finding(finding))
    }
}

impl Audience for PageReader {
    fn words(rule: Rule) -> RuleWords {
        entry(rule).people
    }

    fn amount(&self, amount: Minor) -> String {
        money(amount, self.currency)
    }

    fn instant(&self, at: Timestamp) -> String {
        moment(at, self.zone).words
    }

    fn date(&self, date: BusinessDate) -> String {
        day_words(date)
    }

    fn category(&self, code: u16) -> String {
        merchant_kind(code)
    }

    /// People read what was left.
    fn usage(&self, limit: Minor, [before, _]: [Minor; 2]) -> String {
        format!(", {} left of {}", self.amount(limit - before), self.amount(limit))
    }

    /// The reason of a suspension, where nobody did it by hand.
    fn card(&self, _: CardState, reason: SuspensionReason) -> Option<String> {
        match reason {
            SuspensionReason::SingleUse => Some("single-use card, already used".to_owned()),
            SuspensionReason::EndTime => Some("its end date has passed".to_owned()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use cardswitch_engine::decision::{Change, ComparedValues, Quantity, Remedy};
    use cardswitch_engine::domain::allowance::Scope;
    use cardswitch_engine::domain::merchant::Mcc;

    use super::*;

    const READER: PageReader =
        PageReader { currency: CurrencyCode(840), zone: Tz::America__Los_Angeles };
    /// 2026-03-08T00:00-08:00, the night in which clocks go forward.
    const MIDNIGHT: Timestamp = Timestamp(1_772_956_800_000_000);

    #[test]
    fn findings_are_sentences_with_money_days_and_merchants_as_pages_write_them() {
        let against = |input, limit| ComparedValues { input, threshold: Some(limit), usage: None };
        let amount = |minor| Quantity::Amount(Minor(minor));
        let date = |day| Quantity::Date(BusinessDate(day));
        let scope = Quantity::Scope(Scope::new(&[3, 5_812]).unwrap());
        let suspended = |reason| ComparedValues {
            input: Quantity::Card(CardState::Suspended, reason),
            threshold: None,
            usage: None,
        };
        let rows = [
            (
                Rule::AvailableCredit,
                against(amount(200_000), amount(-5)),
                "Insufficient funds ($2,000.00 requested, −$0.05 available).",
            ),
            (
                Rule::CardExpired,
                against(date(20_001), date(20_000)),
                "The card has expired (used on 5 Oct 2024, valid through 4 Oct 2024).",
            ),
            (
                Rule::BeforeStart,
                against(Quantity::Instant(Timestamp(0)), Quantity::Instant(MIDNIGHT)),
                "The card’s validity period has not started (from 8 Mar 2026, 00:00).",
            ),
            (
                Rule::OutOfScope,
                against(Quantity::Category(Some(Mcc(5_411))), scope),
                "Merchant category is not allowed: Groceries and supermarkets (5411); \
                 allowed: Lodging; Eating places and restaurants (5812).",
            ),
            (
                Rule::AllowanceBalance,
                ComparedValues {
                    usage: Some([amount(100), amount(100)]),
                    ..against(amount(1_510), amount(4_490))
                },
                "Over budget ($15.10 requested, $43.90 left of $44.90).",
            ),
            (
                Rule::CardSuspended,
                suspended(SuspensionReason::EndTime),
                "The card is suspended (its end date has passed).",
            ),
            (Rule::CardSuspended, suspended(SuspensionReason::Manual), "The card is suspended."),
        ];
        for (rule, compared, expected) in rows {
            let finding = RuleFinding { rule, passed: false, compared: Some(compared) };
            assert_eq!(READER.sentence(&finding), expected);
        }
    }

    #[test]
    fn remedies_have_money_times_and_merchants_as_pages_write_them() {
        let raise = Change::Raise { by: Minor(510), to: Minor(5_000) };
        let rows = [
            (
                Rule::DailyLimit,
                raise,
                Some(MIDNIGHT),
                "raise the daily limit by $5.10, or wait until after 8 Mar 2026, 00:00",
            ),
            (
                Rule::OutOfScope,
                Change::Category(Some(Mcc(5_812))),
                None,
                "allow Eating places and restaurants (5812) on this card, or buy from a merchant of \
                 Lodging",
            ),
        ];
        let scope = Scope::new(&[3]).unwrap();
        for (rule, change, after, expected) in rows {
            assert_eq!(READER.remedy(&Remedy { rule, change, after }, &scope), expected);
        }
    }
}
