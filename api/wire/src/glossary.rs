//! The decision rules in words: one entry a rule, for everybody who reads of it. Pages and mails take
//! the words for people, `/v1` and the command line those for developers, which name fields.
//!
//! Every rule is satisfied by one kind of `Change`; `deed` is that change up to its figure. How figures
//! are written is the reader's: see `Audience`.
//!
//! INVARIANT: words for people name no field.

use cardswitch_engine::decision::{
    Change, ComparedValues, Quantity, Remedy, Rule, RuleFinding, RuleSet,
};
use cardswitch_engine::domain::allowance::Scope;
use cardswitch_engine::domain::business_date::BusinessDate;
use cardswitch_engine::domain::card::{CardState, SuspensionReason};
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::transaction::TransactionRecord;

/// One rule in the words of one kind of reader: parts of sentences, without a capital or a full stop.
#[derive(Clone, Copy, Debug)]
pub struct RuleWords {
    /// The verdict where the rule passed.
    pub passed: &'static str,
    /// The verdict where it failed.
    pub failed: &'static str,
    /// The deed that satisfies the rule, up to its figure.
    deed: &'static str,
}

/// The words for one rule.
#[derive(Clone, Copy, Debug)]
pub struct RuleEntry {
    /// On pages and in mails.
    pub people: RuleWords,
    /// In answers of `/v1` and on the command line.
    pub developers: RuleWords,
    /// The advice to a cardholder whose purchase the rule declined, as a sentence.
    pub help: &'static str,
    /// The name of its threshold beside the figure.
    pub threshold: &'static str,
}

const ASK: &str = "Ask the administrator of your company.";
const TYPED: &str = "Check what was typed, and try again.";
const LATER: &str = "Wait a while, and try again.";

impl RuleEntry {
    /// The same words for everybody.
    const fn new(passed: &'static str, failed: &'static str, deed: &'static str) -> Self {
        let words = RuleWords { passed, failed, deed };
        Self { people: words, developers: words, help: ASK, threshold: "allowed" }
    }

    /// Developers read other words.
    const fn fields(self, passed: &'static str, failed: &'static str, deed: &'static str) -> Self {
        Self { developers: RuleWords { passed, failed, deed }, ..self }
    }

    const fn help(self, help: &'static str) -> Self {
        Self { help, ..self }
    }

    const fn threshold(self, threshold: &'static str) -> Self {
        Self { threshold, ..self }
    }
}

/// The words for a rule.
#[expect(clippy::too_many_lines, reason = "a table: one entry a rule")]
pub const fn entry(rule: Rule) -> RuleEntry {
    const ACTIVE: &str = "use an active card";
    match rule {
        Rule::CardTerminated => RuleEntry::new(
            "the card is not closed",
            "the card is closed",
            ACTIVE,
        )
        .fields("the card is not terminated", "the card is terminated", ACTIVE),
        Rule::CompanyClosed => RuleEntry::new(
            "company and cardholder are active",
            "the company is closed, or the cardholder is no longer a member",
            "use a card of an active company and member",
        ),
        Rule::ReversedBefore => RuleEntry::new(
            "not reversed before it arrived",
            "the purchase was reversed before it arrived",
            "send a purchase that was not reversed before",
        )
        .help("Try again if you still need it."),
        Rule::OutOfBounds => RuleEntry::new(
            "the amount is within the supported range",
            "the amount is outside the supported range",
            "request at most",
        )
        .help("Check the amount."),
        Rule::CardUnactivated => {
            RuleEntry::new("the card is activated", "the card was never activated", ACTIVE)
        }
        Rule::CardSuspended => {
            RuleEntry::new("the card is not suspended", "the card is suspended", ACTIVE).fields(
                "the card is not suspended, or only by its end_time",
                "the card is suspended",
                ACTIVE,
            )
        }
        Rule::CardExpired => RuleEntry::new(
            "the card has not expired",
            "the card has expired",
            "use a card valid through",
        ),
        Rule::CredentialsLocked => RuleEntry::new(
            "the card’s codes are not locked (or none was provided)",
            "the card’s codes are locked after too many wrong tries in an hour",
            "wrong codes in the hour before: at most",
        )
        .help("Wait an hour, and check what is typed."),
        Rule::ExpirationDiffers => RuleEntry::new(
            "expiration date matches (or was not provided)",
            "the expiration date provided does not match the card",
            "enter the correct expiration date",
        )
        .help(TYPED),
        Rule::PinWrong => RuleEntry::new(
            "PIN matches (or was not provided)",
            "incorrect PIN, or none is set, or it is locked",
            "enter the correct PIN, on a card whose PIN is set and not locked",
        )
        .help(TYPED),
        Rule::CvvWrong => RuleEntry::new(
            "CVV matches (or was not provided)",
            "incorrect CVV",
            "enter the correct CVV",
        )
        .help(TYPED),
        Rule::ZipDiffers => RuleEntry::new(
            "ZIP code matches (or was not provided)",
            "incorrect ZIP code",
            "enter the ZIP code on file",
        )
        .help(TYPED),
        Rule::CashWithdrawal => RuleEntry::new(
            "not a cash withdrawal",
            "cash withdrawals are not allowed",
            "make a purchase instead of a cash withdrawal",
        )
        .help("Pay with the card itself."),
        Rule::VelocityPerMinute => RuleEntry::new(
            "within the per-minute attempt limit",
            "too many attempts in a minute",
            "other attempts in the minute before: at most",
        )
        .help(LATER),
        Rule::VelocityPerHour => RuleEntry::new(
            "within the per-hour attempt limit",
            "too many attempts in an hour",
            "other attempts in the hour before: at most",
        )
        .help(LATER),
        Rule::BeforeStart => RuleEntry::new(
            "the card’s validity period has started",
            "the card’s validity period has not started",
            "move the start of the card’s validity to",
        )
        .fields(
            "the allowance's start_time has passed",
            "the allowance's start_time has not come",
            "set start_time to",
        )
        .threshold("from"),
        Rule::AfterEnd => RuleEntry::new(
            "the card’s validity period has not ended",
            "the card’s validity period has ended",
            "move the end of the card’s validity to",
        )
        .fields(
            "the allowance's end_time has not come",
            "the allowance's end_time has passed",
            "set end_time to",
        )
        .threshold("until"),
        Rule::OutOfScope => RuleEntry::new(
            "merchant category is allowed",
            "merchant category is not allowed",
            "on this card",
        )
        .fields(
            "the merchant's category is within the scope",
            "the merchant's category is outside the scope",
            "in the scope",
        ),
        Rule::TransactionLimit => RuleEntry::new(
            "within the per-transaction limit",
            "over the per-transaction limit",
            "raise the per-transaction limit",
        )
        .fields(
            "the amount is within transaction_limit",
            "the amount is over transaction_limit",
            "raise transaction_limit",
        ),
        Rule::DailyLimit => RuleEntry::new(
            "within the daily limit",
            "over the daily limit",
            "raise the daily limit",
        )
        .fields(
            "the amount is within what daily_limit leaves",
            "the amount is over what daily_limit leaves",
            "raise daily_limit",
        ),
        Rule::AllowanceBalance => {
            RuleEntry::new("within the budget", "over budget", "raise the budget").fields(
                "the amount is within the allowance's balance",
                "the amount is over the allowance's balance",
                "raise the allowance's amount",
            )
        }
        Rule::AvailableCredit => RuleEntry::new(
            "the account has sufficient funds",
            "insufficient funds",
            "raise the available funds",
        )
        .fields(
            "the amount is within available_credit",
            "the amount is over available_credit",
            "raise available_credit",
        )
        .threshold("available"),
    }
}

/// The verdict on the funds of a withdrawal: credit does not count.
pub const fn withdrawal_verdict(passed: bool) -> &'static str {
    if passed {
        "the amount is within available_balance"
    } else {
        "the amount is over available_balance"
    }
}

/// A kind of reader of decisions: the words that they understand, and the form of figures for them.
pub trait Audience {
    /// The words for them.
    fn words(rule: Rule) -> RuleWords;
    /// An amount. Units: minor units of the account's currency.
    fn amount(&self, amount: Minor) -> String;
    /// An instant.
    fn instant(&self, at: Timestamp) -> String;
    /// A date.
    fn date(&self, date: BusinessDate) -> String;
    /// A merchant category, or a group of them.
    fn category(&self, code: u16) -> String;
    /// A card's state, where it says more than the verdict.
    fn card(&self, state: CardState, reason: SuspensionReason) -> Option<String>;

    /// The verdict of a rule with its figures, without a full stop.
    fn finding(&self, finding: &RuleFinding) -> String {
        let words = Self::words(finding.rule);
        let verdict = if finding.passed { words.passed } else { words.failed };
        let figures = finding.compared.and_then(|compared| self.figures(finding, &compared));
        match figures {
            // Brackets within brackets are hard to read.
            Some(figures) if figures.contains('(') => format!("{verdict}: {figures}"),
            Some(figures) => format!("{verdict} ({figures})"),
            None => verdict.to_owned(),
        }
    }

    /// The figures behind a verdict, where it has any.
    fn figures(&self, finding: &RuleFinding, compared: &ComparedValues) -> Option<String> {
        let figures = match (compared.input, compared.threshold, compared.usage) {
            (Quantity::Is(_), ..) if !is_credential(finding.rule) => return None,
            (Quantity::Is(false), ..) => "not provided".to_owned(),
            (
                Quantity::Is(true),
                Some(Quantity::Count(most)),
                Some([Quantity::Count(before), _]),
            ) => format!("provided; {before} of {most} wrong tries in a row before"),
            (Quantity::Is(true), ..) => "provided".to_owned(),
            (Quantity::Card(..), ..) if finding.passed => return None,
            (Quantity::Card(state, reason), ..) => return self.card(state, reason),
            (_, None, _) => "no limit is set".to_owned(),
            (Quantity::Date(used), Some(Quantity::Date(last)), _) => {
                format!("used on {}, valid through {}", self.date(used), self.date(last))
            }
            (Quantity::Instant(_), Some(Quantity::Instant(bound)), _) => {
                format!("{} {}", entry(finding.rule).threshold, self.instant(bound))
            }
            (_, Some(Quantity::Count(most)), Some([Quantity::Count(before), _])) => {
                format!("{before} before, {most} allowed")
            }
            (Quantity::Count(count), Some(Quantity::Count(most)), _) => {
                format!("{count} before, {most} are too many")
            }
            (Quantity::Category(given), Some(Quantity::Scope(scope)), _) => {
                let given = given.map_or_else(|| "none".to_owned(), |mcc| self.category(mcc.0));
                format!("{given}; allowed: {}", self.scope(&scope, "; "))
            }
            (Quantity::Amount(asked), Some(Quantity::Amount(limit)), usage) => {
                self.amounts(finding.rule, [asked, limit], usage)
            }
            _ => return None,
        };
        Some(figures)
    }

    /// The figures of an amount rule.
    fn amounts(
        &self,
        rule: Rule,
        [asked, limit]: [Minor; 2],
        usage: Option<[Quantity; 2]>,
    ) -> String {
        let asked = self.amount(asked);
        match usage {
            Some([Quantity::Amount(before), Quantity::Amount(after)]) => {
                format!("{asked} requested{}", self.usage(limit, [before, after]))
            }
            _ => format!("{asked} requested, {} {}", self.amount(limit), entry(rule).threshold),
        }
    }

    /// How much of a limit is used up, behind the amount that was requested.
    fn usage(&self, limit: Minor, [before, after]: [Minor; 2]) -> String {
        let spent = format!("; {} of {} spent before", self.amount(before), self.amount(limit));
        if after == before { spent } else { format!("{spent}, {} after", self.amount(after)) }
    }

    /// The change that would have satisfied a rule, within a sentence; `scope` is the card's.
    fn remedy(&self, remedy: &Remedy, scope: &Scope) -> String {
        let deed = Self::words(remedy.rule).deed;
        let change = match remedy.change {
            Change::Raise { by, .. } => format!("{deed} by {}", self.amount(by)),
            Change::Amount(amount) => format!("{deed} {}", self.amount(amount)),
            Change::StartBy(at) => format!("{deed} {} or earlier", self.instant(at)),
            Change::EndFrom(at) => format!("{deed} {} or later", self.instant(at)),
            Change::ValidThrough(date) => format!("{deed} {}", self.date(date)),
            Change::Attempts(count) => format!("{deed} {count}"),
            Change::WrongCredentials(count) => format!("{deed} {count}"),
            Change::Category(given) => {
                let given = given.map(|mcc| self.category(mcc.0));
                let given = given.unwrap_or_else(|| "all merchants".to_owned());
                let allowed = self.scope(scope, " or ");
                format!("allow {given} {deed}, or buy from a merchant of {allowed}")
            }
            Change::ActiveCard | Change::Otherwise => deed.to_owned(),
        };
        match remedy.after {
            Some(after) => format!("{change}, or wait until after {}", self.instant(after)),
            None => change,
        }
    }

    /// The categories and groups of a scope, with `between` between them.
    fn scope(&self, scope: &Scope, between: &str) -> String {
        let names: Vec<_> = scope.codes().iter().map(|code| self.category(*code)).collect();
        names.join(between)
    }
}

/// Whether a rule is about something that a message may show.
pub const fn is_credential(rule: Rule) -> bool {
    RuleSet::CREDENTIALS.contains(rule)
}

/// The rule that declined a transaction; none where no rule was asked.
pub fn deciding_rule(record: &TransactionRecord) -> Option<Rule> {
    let first = record.failed_rules.first();
    first.filter(|rule| rule.response_code() == record.response_code)
}

/// Words within a sentence as a heading.
pub fn capitalized(words: &str) -> String {
    let mut letters = words.chars();
    let first: String =
        letters.next().map(|first| first.to_uppercase().collect()).unwrap_or_default();
    first + letters.as_str()
}

/// Words within a sentence as one of their own.
pub fn sentence(words: &str) -> String {
    capitalized(words) + "."
}

#[cfg(test)]
#[path = "glossary_tests.rs"]
mod tests;
