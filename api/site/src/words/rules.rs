//! What the rules found of a purchase, and what would have satisfied them, in the words of people who
//! never saw a request: money, times and merchants as pages write them. The words of `/v1` and the
//! command line, which name fields, are in `wire/explanation.rs`.

use cardswitch_engine::decision::{Change, Compared, Quantity, Remedy, Rule, RuleFinding};
use cardswitch_engine::domain::allowance::Scope;
use cardswitch_engine::domain::card::SuspensionReason;
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use chrono_tz::Tz;

use super::merchants::{merchant_kind, scope_words};
use super::money::money;
use super::times::{day_words, moment};

/// How a company reads what the rules say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuleWords {
    /// The currency of its account.
    currency: CurrencyCode,
    /// The zone of its days.
    zone: Tz,
}

impl RuleWords {
    /// Of a company.
    pub(crate) const fn of(company: &Company) -> Self {
        Self { currency: company.currency, zone: company.zone }
    }

    /// What a rule found, as a sentence.
    pub(crate) fn finding(self, finding: &RuleFinding) -> String {
        let verdict = verdict(finding.rule, finding.passed);
        match finding.compared.and_then(|compared| self.figures(finding, &compared)) {
            Some(figures) => format!("{verdict} ({figures})."),
            None => format!("{verdict}."),
        }
    }

    /// The figures behind a verdict, where it has any.
    fn figures(self, finding: &RuleFinding, compared: &Compared) -> Option<String> {
        match (compared.input, compared.threshold, compared.usage) {
            (Quantity::Is(is_compared), limit, usage) => {
                is_credential(finding.rule).then(|| compared_words(is_compared, limit, usage))
            }
            (Quantity::Card(_, reason), ..) => {
                suspended_by(reason).filter(|_| !finding.passed).map(str::to_owned)
            }
            (Quantity::Date(used), Some(Quantity::Date(last)), _) => {
                let (used, last) = (day_words(used), day_words(last));
                Some(format!("it was used on {used} and valid through {last}"))
            }
            (Quantity::Instant(_), Some(Quantity::Instant(bound)), _) => {
                let word = if finding.rule == Rule::BeforeStart { "from" } else { "until" };
                Some(format!("{word} {}", self.instant(bound)))
            }
            (Quantity::Count(count), Some(Quantity::Count(most)), usage) => match usage {
                Some([Quantity::Count(before), _]) => {
                    Some(format!("{before} before it, {most} allowed"))
                }
                _ => Some(format!("{count} before it, {most} are too many")),
            },
            (Quantity::Category(kind), Some(Quantity::Scope(scope)), _) => {
                let allowed = scope_words(&scope, "; ");
                let kind = kind.map_or_else(|| "not given".to_owned(), |mcc| merchant_kind(mcc.0));
                Some(format!("{kind}; allowed: {allowed}"))
            }
            (Quantity::Amount(asked), limit, usage) => {
                Some(self.amounts(finding.rule, asked, (limit, usage)))
            }
            (_, None, _) => Some("no limit is set".to_owned()),
            _ => None,
        }
    }

    fn amounts(
        self,
        rule: Rule,
        asked: Minor,
        (limit, usage): (Option<Quantity>, Option<[Quantity; 2]>),
    ) -> String {
        let asked = self.amount(asked);
        let Some(Quantity::Amount(limit)) = limit else { return "no limit is set".to_owned() };
        let limit = self.amount(limit);
        match usage {
            Some([Quantity::Amount(before), Quantity::Amount(after)]) => {
                let then = if after == before {
                    String::new()
                } else {
                    format!(", {} after it", self.amount(after))
                };
                format!("{asked} requested; {} of {limit} spent before{then}", self.amount(before))
            }
            _ if rule == Rule::AvailableCredit => format!("{asked} requested, {limit} available"),
            _ => format!("{asked} requested, {limit} allowed"),
        }
    }

    /// What would have satisfied a rule, within a sentence; `scope` is the card's.
    pub(crate) fn remedy(self, remedy: &Remedy, scope: &Scope) -> String {
        let change = self.change(remedy, scope);
        match remedy.after {
            Some(after) => format!("{change}, or wait until after {}", self.instant(after)),
            None => change,
        }
    }

    fn change(self, remedy: &Remedy, scope: &Scope) -> String {
        match remedy.change {
            Change::Raise { by, .. } => {
                format!("{} by {}", room_of(remedy.rule), self.amount(by))
            }
            Change::Amount(amount) => format!("request at most {}", self.amount(amount)),
            Change::StartBy(at) => {
                format!("use a card that is valid from {} or earlier", self.instant(at))
            }
            Change::EndFrom(at) => {
                format!("use a card that is valid until {} or later", self.instant(at))
            }
            Change::ValidThrough(day) => format!("use a card valid through {}", day_words(day)),
            Change::Attempts(count) => {
                let is_minute = remedy.rule == Rule::VelocityPerMinute;
                let window = if is_minute { "minute" } else { "hour" };
                format!("at most {count} other attempts in the {window} before")
            }
            Change::WrongCredentials(count) => {
                format!("at most {count} wrong codes in the hour before")
            }
            Change::Category(Some(mcc)) => {
                let (allowed, kind) = (scope_words(scope, " or "), merchant_kind(mcc.0));
                format!("allow {kind} on this card, or buy from a merchant of {allowed}")
            }
            Change::Category(None) => {
                let allowed = scope_words(scope, " or ");
                format!("allow all merchants on this card, or buy from a merchant of {allowed}")
            }
            Change::ActiveCard => "use an active card".to_owned(),
            Change::Otherwise => otherwise(remedy.rule).to_owned(),
        }
    }

    fn amount(self, amount: Minor) -> String {
        money(amount, self.currency)
    }

    fn instant(self, at: Timestamp) -> String {
        moment(at, self.zone).words
    }
}

/// Whether a rule is about something that a message may show.
const fn is_credential(rule: Rule) -> bool {
    matches!(rule, Rule::ExpirationDiffers | Rule::PinWrong | Rule::CvvWrong | Rule::ZipDiffers)
}

fn compared_words(
    is_compared: bool,
    limit: Option<Quantity>,
    usage: Option<[Quantity; 2]>,
) -> String {
    let compared = if is_compared { "one was provided" } else { "not provided" };
    match (limit, usage) {
        (Some(Quantity::Count(most)), Some([Quantity::Count(before), _])) => {
            format!("{compared}; {before} of {most} wrong tries in a row before")
        }
        _ => compared.to_owned(),
    }
}

/// Why a card is suspended, where nobody did it.
const fn suspended_by(reason: SuspensionReason) -> Option<&'static str> {
    match reason {
        SuspensionReason::SingleUse => Some("single-use card, already used"),
        SuspensionReason::EndTime => Some("its end date has passed"),
        _ => None,
    }
}

/// The action that makes room for a rule.
const fn room_of(rule: Rule) -> &'static str {
    match rule {
        Rule::TransactionLimit => "raise the per-transaction limit",
        Rule::DailyLimit => "raise the daily limit",
        Rule::AllowanceBalance => "raise the budget",
        _ => "raise the available funds",
    }
}

/// What satisfies a rule that no number satisfies.
const fn otherwise(rule: Rule) -> &'static str {
    match rule {
        Rule::CompanyClosed => "use a card of an active company and member",
        Rule::ReversedBefore => "send a purchase that was not reversed before",
        Rule::ExpirationDiffers => "enter the correct expiration date",
        Rule::PinWrong => "enter the correct PIN, on a card whose PIN is set and not locked",
        Rule::CvvWrong => "enter the correct CVV",
        Rule::ZipDiffers => "enter the ZIP code on file",
        Rule::CashWithdrawal => "make a purchase instead of a cash withdrawal",
        _ => "something else",
    }
}

/// What a rule says.
const fn verdict(rule: Rule, passed: bool) -> &'static str {
    let (passing, failing) = match rule {
        Rule::CardTerminated => ("The card is not closed", "The card is closed"),
        Rule::CompanyClosed => (
            "Company and cardholder are active",
            "The company is closed, or the cardholder is no longer a member",
        ),
        Rule::ReversedBefore => {
            ("Not reversed before it arrived", "The purchase was reversed before it arrived")
        }
        Rule::OutOfBounds => (
            "The amount is within the supported range",
            "The amount is outside the supported range",
        ),
        Rule::CardUnactivated => ("The card is activated", "The card was never activated"),
        Rule::CardSuspended => ("The card is not suspended", "The card is suspended"),
        Rule::CardExpired => ("The card has not expired", "The card has expired"),
        Rule::ExpirationDiffers => (
            "Expiration date matches (or wasn’t provided)",
            "The expiration date entered doesn’t match the card",
        ),
        Rule::PinWrong => {
            ("PIN matches (or wasn’t provided)", "Incorrect PIN, or none is set, or it is locked")
        }
        Rule::CvvWrong => ("CVV matches (or wasn’t provided)", "Incorrect CVV"),
        Rule::ZipDiffers => ("ZIP code matches (or wasn’t provided)", "Incorrect ZIP code"),
        Rule::CashWithdrawal => ("Not a cash withdrawal", "It is a cash withdrawal"),
        Rule::VelocityPerMinute => {
            ("Within the per-minute attempt limit", "Too many attempts in a minute")
        }
        Rule::VelocityPerHour => {
            ("Within the per-hour attempt limit", "Too many attempts in an hour")
        }
        Rule::CredentialsLocked => (
            "The card’s codes aren’t locked (or weren’t provided)",
            "The card’s codes are locked after too many wrong tries in an hour",
        ),
        Rule::BeforeStart => {
            ("The card’s validity period has started", "The card’s validity period hasn’t started")
        }
        Rule::AfterEnd => {
            ("The card’s validity period hasn’t ended", "The card’s validity period has ended")
        }
        Rule::OutOfScope => ("Merchant category is allowed", "Merchant category is not allowed"),
        Rule::TransactionLimit => {
            ("Within the per-transaction limit", "Over the per-transaction limit")
        }
        Rule::DailyLimit => ("Within the daily limit", "Over the daily limit"),
        Rule::AllowanceBalance => ("Within the budget", "Over budget"),
        Rule::AvailableCredit => ("The account has sufficient funds", "Insufficient funds"),
    };
    if passed { passing } else { failing }
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
