//! The words of rules: verdicts of every rule, and each kind of finding and remedy as developers read
//! it. How people read figures is tested beside the pages' reader.

use cardswitch_engine::domain::merchant::Mcc;
use cardswitch_engine::domain::money::CurrencyCode;
use chrono_tz::America::Los_Angeles;

use super::*;
use crate::explanation::Words;

const WORDS: Words = Words { currency: CurrencyCode(840), zone: Los_Angeles };
/// 2026-03-08T00:00-08:00, the night in which clocks go forward.
const MIDNIGHT: Timestamp = Timestamp(1_772_956_800_000_000);

#[test]
fn every_rule_says_one_thing_or_the_other_and_names_no_field_to_people() {
    let words_of: [fn(RuleEntry) -> RuleWords; 2] = [|one| one.people, |one| one.developers];
    for words_of in words_of {
        let each = |rule| {
            let words = words_of(entry(rule));
            [words.passed, words.failed]
        };
        let mut all: Vec<_> = Rule::ALL.into_iter().flat_map(each).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 2 * Rule::ALL.len());
    }
    for rule in Rule::ALL {
        let RuleEntry { people, help, .. } = entry(rule);
        let told = [people.passed, people.failed, people.deed];
        assert!(told.iter().all(|words| !words.contains('_')), "{rule:?}: {told:?}");
        assert!(help.ends_with('.'), "{rule:?}: {help}");
    }
}

#[test]
fn a_remedy_says_how_much_and_until_when() {
    let raise = Change::Raise { by: Minor(510), to: Minor(5_000) };
    let day = MIDNIGHT.plus(Timestamp::DAY);
    let rows = [
        (
            Rule::DailyLimit,
            raise,
            Some(MIDNIGHT),
            "raise daily_limit by 5.10, or wait until after 2026-03-08T00:00-08:00",
        ),
        (Rule::AvailableCredit, raise, None, "raise available_credit by 5.10"),
        (Rule::TransactionLimit, raise, None, "raise transaction_limit by 5.10"),
        (Rule::AllowanceBalance, raise, None, "raise the allowance's amount by 5.10"),
        (
            Rule::BeforeStart,
            Change::StartBy(day),
            None,
            "set start_time to 2026-03-09T01:00-07:00 or earlier",
        ),
        (
            Rule::AfterEnd,
            Change::EndFrom(MIDNIGHT.plus(1_500_000)),
            None,
            "set end_time to 2026-03-08T00:00:01.500-08:00 or later",
        ),
        (
            Rule::OutOfScope,
            Change::Category(Some(Mcc(5_812))),
            None,
            "allow 5812 in the scope, or buy from a merchant of 5411 or 7",
        ),
        (
            Rule::OutOfScope,
            Change::Category(None),
            None,
            "allow all merchants in the scope, or buy from a merchant of 5411 or 7",
        ),
        (
            Rule::VelocityPerMinute,
            Change::Attempts(1),
            None,
            "other attempts in the minute before: at most 1",
        ),
        (
            Rule::CredentialsLocked,
            Change::WrongCredentials(9),
            None,
            "wrong codes in the hour before: at most 9",
        ),
        (
            Rule::CardExpired,
            Change::ValidThrough(BusinessDate(20_000)),
            None,
            "use a card valid through 2024-10-04",
        ),
        (Rule::OutOfBounds, Change::Amount(Minor(7)), None, "request at most 0.07"),
        (Rule::CardSuspended, Change::ActiveCard, None, "use an active card"),
        (Rule::ZipDiffers, Change::Otherwise, None, "enter the ZIP code on file"),
    ];
    let scope = Scope::new(&[5_411, 7]).unwrap();
    for (rule, change, after, expected) in rows {
        assert_eq!(WORDS.remedy(&Remedy { rule, change, after }, &scope), expected);
    }
}

fn against(input: Quantity, threshold: Quantity) -> ComparedValues {
    ComparedValues { input, threshold: Some(threshold), usage: None }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of findings and their words")]
fn a_finding_quotes_its_figures() {
    let (count, date, instant) = (Quantity::Count, Quantity::Date, Quantity::Instant);
    let amount = |minor| Quantity::Amount(Minor(minor));
    let only = |input| ComparedValues { input, threshold: None, usage: None };
    let used =
        |before, after, compared| ComparedValues { usage: Some([before, after]), ..compared };
    let spent = against(amount(1_510), amount(4_490));
    let card = Quantity::Card(CardState::Suspended, SuspensionReason::Manual);
    let scope = Quantity::Scope(Scope::new(&[7, 5_411]).unwrap());
    let rows = [
        (
            Rule::DailyLimit,
            used(amount(3_490), amount(3_490), spent),
            "the amount is over what daily_limit leaves (15.10 requested; 34.90 of 44.90 spent before)",
        ),
        (
            Rule::AllowanceBalance,
            used(amount(100), amount(300), spent),
            "the amount is over the allowance's balance \
             (15.10 requested; 1.00 of 44.90 spent before, 3.00 after)",
        ),
        (
            Rule::TransactionLimit,
            against(amount(2), amount(1)),
            "the amount is over transaction_limit (0.02 requested, 0.01 allowed)",
        ),
        (
            Rule::TransactionLimit,
            only(amount(1)),
            "the amount is over transaction_limit (no limit is set)",
        ),
        (
            Rule::AvailableCredit,
            against(amount(2), amount(-5)),
            "the amount is over available_credit (0.02 requested, -0.05 available)",
        ),
        (Rule::CardSuspended, only(card), "the card is suspended (suspended: manual)"),
        (
            Rule::CardExpired,
            against(date(BusinessDate(20_001)), date(BusinessDate(20_000))),
            "the card has expired (used on 2024-10-05, valid through 2024-10-04)",
        ),
        (
            Rule::BeforeStart,
            against(instant(Timestamp(0)), instant(MIDNIGHT)),
            "the allowance's start_time has not come (from 2026-03-08T00:00-08:00)",
        ),
        (
            Rule::AfterEnd,
            against(instant(MIDNIGHT), instant(MIDNIGHT)),
            "the allowance's end_time has passed (until 2026-03-08T00:00-08:00)",
        ),
        (
            Rule::VelocityPerHour,
            used(count(5), count(6), against(count(1), count(5))),
            "too many attempts in an hour (5 before, 5 allowed)",
        ),
        (
            Rule::CredentialsLocked,
            against(count(10), count(10)),
            "the card’s codes are locked after too many wrong tries in an hour (10 before, 10 are too \
             many)",
        ),
        (
            Rule::CompanyClosed,
            only(Quantity::Is(true)),
            "the company is closed, or the cardholder is no longer a member",
        ),
        (Rule::CvvWrong, only(Quantity::Is(true)), "incorrect CVV (provided)"),
        (Rule::ZipDiffers, only(Quantity::Is(false)), "incorrect ZIP code (not provided)"),
        (
            Rule::PinWrong,
            used(count(1), count(2), against(Quantity::Is(true), count(3))),
            "incorrect PIN, or none is set, or it is locked \
             (provided; 1 of 3 wrong tries in a row before)",
        ),
        (
            Rule::OutOfScope,
            against(Quantity::Category(None), scope),
            "the merchant's category is outside the scope (none; allowed: 7; 5411)",
        ),
    ];
    for (rule, compared, expected) in rows {
        let finding = RuleFinding { rule, passed: false, compared: Some(compared) };
        assert_eq!(WORDS.finding(&finding), expected);
        let bare = RuleFinding { compared: None, ..finding };
        assert_eq!(WORDS.finding(&bare), entry(rule).developers.failed);
    }
    let active = Quantity::Card(CardState::Active, SuspensionReason::None);
    let passed = RuleFinding {
        rule: Rule::CardSuspended,
        passed: true,
        compared: Some(ComparedValues { input: active, threshold: None, usage: None }),
    };
    assert_eq!(WORDS.finding(&passed), "the card is not suspended, or only by its end_time");
}
