//! Explained decisions in words: what a rule found, what it compared, what would have satisfied it.
//!
//! Words are for people: their instants stand in the company's zone. What programs read is in
//! `routes/decision.rs`.

use cardswitch_engine::decision::{Change, Compared, Quantity, Remedy, Rule, RuleFinding};
use cardswitch_engine::domain::allowance::Scope;
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use chrono::DateTime;
use chrono_tz::Tz;

use super::amount::Amount;
use super::reference::{render_card_state, render_suspension};
use super::time::render_date;

/// How a company reads amounts and instants.
#[derive(Clone, Copy, Debug)]
pub struct Words {
    /// The currency of its account.
    pub currency: CurrencyCode,
    /// The zone of its days.
    pub zone: Tz,
}

impl Words {
    /// What came of a rule, as a sentence without a full stop.
    #[must_use]
    pub fn finding(&self, finding: &RuleFinding) -> String {
        let verdict = verdict(finding.rule, finding.passed);
        let figures = finding.compared.and_then(|compared| self.figures(finding.rule, &compared));
        figures.map_or_else(|| verdict.to_owned(), |figures| format!("{verdict} ({figures})"))
    }

    /// The figures behind a verdict, where it has any.
    fn figures(&self, rule: Rule, compared: &Compared) -> Option<String> {
        let input = self.quantity(&compared.input);
        let threshold = compared.threshold.map(|threshold| self.quantity(&threshold));
        let used = compared.usage.map(|usage| usage.map(|used| self.quantity(&used)));
        match (compared.input, threshold, used) {
            (Quantity::Is(_), ..) if !is_credential(rule) => None,
            (Quantity::Is(is_compared), _, None) => Some(compared_words(is_compared).to_owned()),
            (Quantity::Is(is_compared), Some(most), Some([before, _])) => {
                let compared = compared_words(is_compared);
                Some(format!("{compared}; wrong ones in a row before: {before} of {most}"))
            }
            (Quantity::Count(_), Some(most), Some([before, _])) => {
                Some(format!("{before} before, {most} allowed"))
            }
            (Quantity::Count(_), Some(most), None) => Some(format!("{input} before, {most} block")),
            (_, Some(threshold), Some([before, after])) => {
                Some(format!("{input} asked; {before} of {threshold} used before, {after} after"))
            }
            (Quantity::Card(..), ..) => Some(input),
            (_, Some(threshold), None) => Some(format!("{input} against {threshold}")),
            (_, None, _) => Some("none is set".to_owned()),
        }
    }

    /// The value a rule compared; of a credential only that one was compared.
    #[must_use]
    pub fn input(&self, rule: Rule, input: &Quantity) -> String {
        match *input {
            Quantity::Is(is_compared) if is_credential(rule) => {
                if is_compared { "compared" } else { "not compared" }.to_owned()
            }
            _ => self.quantity(input),
        }
    }

    /// Something that is compared.
    #[must_use]
    pub fn quantity(&self, quantity: &Quantity) -> String {
        match *quantity {
            Quantity::Amount(amount) => self.amount(amount),
            Quantity::Count(count) => count.to_string(),
            Quantity::Instant(at) => self.instant(at),
            Quantity::Date(date) => render_date(date),
            Quantity::Card(state, reason) => match render_suspension(reason) {
                Some(reason) => format!("{}: {reason}", render_card_state(state)),
                None => render_card_state(state).to_owned(),
            },
            Quantity::Is(is) => if is { "yes" } else { "no" }.to_owned(),
            Quantity::Category(category) => {
                category.map_or_else(|| "none".to_owned(), |mcc| mcc.0.to_string())
            }
            Quantity::Scope(scope) => list(&scope, ", "),
        }
    }

    /// What would have satisfied a rule; `scope` is the allowance's.
    #[must_use]
    pub fn remedy(&self, remedy: &Remedy, scope: &Scope) -> String {
        let change = self.change(remedy, scope);
        match remedy.after {
            Some(after) => format!("{change}, or after {}", self.instant(after)),
            None => change,
        }
    }

    fn change(&self, remedy: &Remedy, scope: &Scope) -> String {
        match remedy.change {
            Change::Raise { by, .. } => {
                format!("{} more on {}", self.amount(by), limit_name(remedy.rule))
            }
            Change::Amount(amount) => format!("an amount of {}", self.amount(amount)),
            Change::StartBy(at) => format!("a start_time of {} or earlier", self.instant(at)),
            Change::EndFrom(at) => format!("an end_time of {} or later", self.instant(at)),
            Change::ValidThrough(date) => format!("a card valid through {}", render_date(date)),
            Change::Attempts(count) => {
                let window = if remedy.rule == Rule::VelocityPerMinute { "minute" } else { "hour" };
                format!("attempts in the {window} before: at most {count}")
            }
            Change::WrongCredentials(count) => {
                format!("wrong credentials in the hour before: at most {count}")
            }
            Change::Category(mcc) => {
                let allowed = list(scope, " or ");
                match mcc {
                    Some(mcc) => format!("a merchant of {allowed}, or {} in the scope", mcc.0),
                    None => format!("a merchant of {allowed}, or an empty scope"),
                }
            }
            Change::ActiveCard => "an active card".to_owned(),
            Change::Otherwise => otherwise(remedy.rule).to_owned(),
        }
    }

    /// An amount in the currency's major units.
    #[must_use]
    pub fn amount(&self, amount: Minor) -> String {
        Amount::new(amount, self.currency).to_string()
    }

    /// An instant by the company's clock, as short as it is exact.
    #[must_use]
    pub fn instant(&self, at: Timestamp) -> String {
        let utc = DateTime::from_timestamp_micros(at.0).unwrap_or(DateTime::UNIX_EPOCH);
        let is_whole_minute = at.0.rem_euclid(Timestamp::MINUTE) == 0;
        let form = if is_whole_minute { "%Y-%m-%dT%H:%M%:z" } else { "%Y-%m-%dT%H:%M:%S%.f%:z" };
        utc.with_timezone(&self.zone).format(form).to_string()
    }
}

const fn compared_words(is_compared: bool) -> &'static str {
    if is_compared { "one was compared" } else { "none was compared" }
}

/// Whether a rule is about something that a message may show.
const fn is_credential(rule: Rule) -> bool {
    matches!(rule, Rule::ExpirationDiffers | Rule::PinWrong | Rule::CvvWrong | Rule::ZipDiffers)
}

fn list(scope: &Scope, between: &str) -> String {
    let codes: Vec<_> = scope.codes().iter().map(u16::to_string).collect();
    codes.join(between)
}

/// What an amount rule holds the amount against, by its name in requests.
const fn limit_name(rule: Rule) -> &'static str {
    match rule {
        Rule::TransactionLimit => "transaction_limit",
        Rule::DailyLimit => "daily_limit",
        Rule::AllowanceBalance => "the allowance's amount",
        _ => "available_credit",
    }
}

/// What satisfies a rule that no number satisfies.
const fn otherwise(rule: Rule) -> &'static str {
    match rule {
        Rule::CompanyClosed => "an open company and a cardholder who is still with it",
        Rule::ReversedBefore => "no reversal ahead of the purchase",
        Rule::ExpirationDiffers => "the expiration of the card",
        Rule::PinWrong => "the right PIN, of a card whose PIN is set and not locked",
        Rule::CvvWrong => "the CVV of the card",
        Rule::ZipDiffers => "the ZIP on file",
        Rule::CashWithdrawal => "a purchase, not cash",
        _ => "something else",
    }
}

/// What a rule says.
const fn verdict(rule: Rule, passed: bool) -> &'static str {
    let (passing, failing) = match rule {
        Rule::CardTerminated => ("the card is not terminated", "the card is terminated"),
        Rule::CompanyClosed => {
            ("company and cardholder are there", "the company is closed, or the cardholder gone")
        }
        Rule::ReversedBefore => {
            ("no reversal came before it", "a reversal of this purchase came before it")
        }
        Rule::OutOfBounds => (
            "the amount and the balances after it are within bounds",
            "the amount, or a balance after it, is out of bounds",
        ),
        Rule::CardUnactivated => {
            ("the card does not wait for its activation", "the card was never activated")
        }
        Rule::CardSuspended => {
            ("the card is not suspended, or only by its end_time", "the card is suspended")
        }
        Rule::CardExpired => ("the card has not expired", "the card has expired"),
        Rule::ExpirationDiffers => {
            ("no other expiration was shown", "the expiration shown is not the card's")
        }
        Rule::PinWrong => ("no wrong PIN was shown", "the PIN is wrong, not set, or locked"),
        Rule::CvvWrong => ("no wrong CVV was shown", "the CVV is wrong"),
        Rule::ZipDiffers => ("no other ZIP was shown", "the ZIP is not the one on file"),
        Rule::CashWithdrawal => ("it is no cash withdrawal", "it is a cash withdrawal"),
        Rule::VelocityPerMinute => {
            ("the attempts of a minute are few enough", "too many attempts in a minute")
        }
        Rule::VelocityPerHour => {
            ("the attempts of an hour are few enough", "too many attempts in an hour")
        }
        Rule::CredentialsLocked => (
            "the credentials are not locked, or none was shown",
            "too many wrong credentials in an hour lock the card's",
        ),
        Rule::BeforeStart => ("the allowance has started", "the allowance has not started"),
        Rule::AfterEnd => ("the allowance has not ended", "the allowance has ended"),
        Rule::OutOfScope => {
            ("the scope takes the merchant", "the merchant's category is outside the scope")
        }
        Rule::TransactionLimit => {
            ("the amount is within transaction_limit", "the amount is over transaction_limit")
        }
        Rule::DailyLimit => (
            "the amount is within what daily_limit leaves",
            "the amount is over what daily_limit leaves",
        ),
        Rule::AllowanceBalance => (
            "the amount is within the allowance's balance",
            "the amount is over the allowance's balance",
        ),
        Rule::AvailableCredit => {
            ("the amount is within available_credit", "the amount is over available_credit")
        }
    };
    if passed { passing } else { failing }
}

#[cfg(test)]
mod tests {
    use cardswitch_engine::domain::business_date::BusinessDate;
    use cardswitch_engine::domain::card::{CardState, SuspensionReason};
    use cardswitch_engine::domain::merchant::Mcc;
    use chrono_tz::America::Los_Angeles;

    use super::*;

    const WORDS: Words = Words { currency: CurrencyCode(840), zone: Los_Angeles };
    /// 2026-03-08T00:00-08:00, the night in which clocks go forward.
    const MIDNIGHT: Timestamp = Timestamp(1_772_956_800_000_000);

    #[test]
    fn a_remedy_says_how_much_and_until_when() {
        let raise = Change::Raise { by: Minor(510), to: Minor(5_000) };
        let day = MIDNIGHT.plus(Timestamp::DAY);
        let rows = [
            (
                Rule::DailyLimit,
                raise,
                Some(MIDNIGHT),
                "5.10 more on daily_limit, or after 2026-03-08T00:00-08:00",
            ),
            (Rule::AvailableCredit, raise, None, "5.10 more on available_credit"),
            (Rule::TransactionLimit, raise, None, "5.10 more on transaction_limit"),
            (Rule::AllowanceBalance, raise, None, "5.10 more on the allowance's amount"),
            (
                Rule::BeforeStart,
                Change::StartBy(day),
                None,
                "a start_time of 2026-03-09T01:00-07:00 or earlier",
            ),
            (
                Rule::AfterEnd,
                Change::EndFrom(MIDNIGHT.plus(1_500_000)),
                None,
                "an end_time of 2026-03-08T00:00:01.500-08:00 or later",
            ),
            (
                Rule::OutOfScope,
                Change::Category(Some(Mcc(5_812))),
                None,
                "a merchant of 5411 or 7, or 5812 in the scope",
            ),
            (
                Rule::OutOfScope,
                Change::Category(None),
                None,
                "a merchant of 5411 or 7, or an empty scope",
            ),
            (
                Rule::VelocityPerMinute,
                Change::Attempts(1),
                None,
                "attempts in the minute before: at most 1",
            ),
            (Rule::OutOfBounds, Change::Amount(Minor(7)), None, "an amount of 0.07"),
            (Rule::CardSuspended, Change::ActiveCard, None, "an active card"),
            (Rule::ZipDiffers, Change::Otherwise, None, "the ZIP on file"),
        ];
        let scope = Scope::new(&[5_411, 7]).unwrap();
        for (rule, change, after, expected) in rows {
            assert_eq!(WORDS.remedy(&Remedy { rule, change, after }, &scope), expected);
        }
    }

    #[test]
    fn a_finding_quotes_its_figures() {
        let amount = |minor| Quantity::Amount(Minor(minor));
        let only = |input| Some(Compared { input, threshold: None, usage: None });
        let against = |input, limit| Some(Compared { input, threshold: Some(limit), usage: None });
        let pin = Compared {
            input: Quantity::Is(true),
            threshold: Some(Quantity::Count(3)),
            usage: Some([Quantity::Count(1), Quantity::Count(2)]),
        };
        let day = Compared {
            input: amount(1_510),
            threshold: Some(amount(4_490)),
            usage: Some([amount(3_490), amount(3_490)]),
        };
        let rows = [
            (
                Rule::DailyLimit,
                Some(day),
                "the amount is over what daily_limit leaves \
                 (15.10 asked; 34.90 of 44.90 used before, 34.90 after)",
            ),
            (
                Rule::DailyLimit,
                Some(Compared { threshold: None, ..day }),
                "the amount is over what daily_limit leaves (none is set)",
            ),
            (Rule::TransactionLimit, None, "the amount is over transaction_limit"),
            (
                Rule::TransactionLimit,
                against(amount(2), amount(1)),
                "the amount is over transaction_limit (0.02 against 0.01)",
            ),
            (
                Rule::CardSuspended,
                only(Quantity::Card(CardState::Suspended, SuspensionReason::Manual)),
                "the card is suspended (suspended: manual)",
            ),
            (
                Rule::CardExpired,
                against(Quantity::Date(BusinessDate(20_001)), Quantity::Date(BusinessDate(20_000))),
                "the card has expired (2024-10-05 against 2024-10-04)",
            ),
            (Rule::CompanyClosed, only(Quantity::Is(true)), verdict(Rule::CompanyClosed, false)),
            (Rule::CvvWrong, only(Quantity::Is(true)), "the CVV is wrong (one was compared)"),
            (
                Rule::PinWrong,
                Some(pin),
                "the PIN is wrong, not set, or locked \
                 (one was compared; wrong ones in a row before: 1 of 3)",
            ),
            (
                Rule::OutOfScope,
                against(
                    Quantity::Category(None),
                    Quantity::Scope(Scope::new(&[7, 5_411]).unwrap()),
                ),
                "the merchant's category is outside the scope (none against 7, 5411)",
            ),
        ];
        for (rule, compared, expected) in rows {
            assert_eq!(WORDS.finding(&RuleFinding { rule, passed: false, compared }), expected);
        }
    }

    #[test]
    fn every_rule_says_one_thing_or_the_other() {
        let mut all: Vec<_> =
            Rule::ALL.iter().flat_map(|rule| [true, false].map(|is| verdict(*rule, is))).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 2 * Rule::ALL.len());
    }
}
