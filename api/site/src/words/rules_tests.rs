//! The words of rules: each finding and each remedy, and that none of them names a field of a request.

use cardswitch_engine::domain::business_date::BusinessDate;
use cardswitch_engine::domain::card::CardState;
use cardswitch_engine::domain::merchant::Mcc;

use super::*;

const WORDS: RuleWords = RuleWords { currency: CurrencyCode(840), zone: Tz::America__Los_Angeles };
/// 2026-03-08T00:00-08:00, the night in which clocks go forward.
const MIDNIGHT: Timestamp = Timestamp(1_772_956_800_000_000);

fn amount(minor: i64) -> Quantity {
    Quantity::Amount(Minor(minor))
}

fn against(input: Quantity, threshold: Quantity) -> Compared {
    Compared { input, threshold: Some(threshold), usage: None }
}

fn only(input: Quantity) -> Compared {
    Compared { input, threshold: None, usage: None }
}

fn failed(rule: Rule, compared: Compared) -> String {
    WORDS.finding(&RuleFinding { rule, passed: false, compared: Some(compared) })
}

#[test]
fn amounts_have_their_currency_and_say_what_they_were_held_against() {
    let day = Compared {
        usage: Some([amount(3_490), amount(3_490)]),
        ..against(amount(1_510), amount(4_490))
    };
    let rows = [
        (
            Rule::TransactionLimit,
            against(amount(10_001), amount(10_000)),
            "Over the per-transaction limit ($100.01 requested, $100.00 allowed).",
        ),
        (
            Rule::TransactionLimit,
            only(amount(1)),
            "Over the per-transaction limit (no limit is set).",
        ),
        (
            Rule::DailyLimit,
            day,
            "Over the daily limit ($15.10 requested; $34.90 of $44.90 spent before).",
        ),
        (
            Rule::AllowanceBalance,
            Compared { usage: Some([amount(100), amount(300)]), ..day },
            "Over budget ($15.10 requested; $1.00 of $44.90 spent before, $3.00 after it).",
        ),
        (
            Rule::AvailableCredit,
            against(amount(200_000), amount(-5)),
            "Insufficient funds ($2,000.00 requested, −$0.05 available).",
        ),
    ];
    for (rule, compared, expected) in rows {
        assert_eq!(failed(rule, compared), expected);
    }
}

#[test]
fn everything_else_is_told_in_words_too() {
    let count = Quantity::Count;
    let (date, card) = (|day| Quantity::Date(BusinessDate(day)), Quantity::Card);
    let scope = Quantity::Scope(Scope::new(&[3, 5_812]).unwrap());
    let pin =
        Compared { usage: Some([count(1), count(2)]), ..against(Quantity::Is(true), count(3)) };
    let attempts = Compared { usage: Some([count(5), count(6)]), ..against(count(1), count(5)) };
    let rows = [
        (
            Rule::CardSuspended,
            only(card(CardState::Suspended, SuspensionReason::EndTime)),
            "The card is suspended (its end date has passed).",
        ),
        (
            Rule::CardSuspended,
            only(card(CardState::Suspended, SuspensionReason::Manual)),
            "The card is suspended.",
        ),
        (
            Rule::CardExpired,
            against(date(20_001), date(20_000)),
            "The card has expired (it was used on 5 Oct 2024 and valid through 4 Oct 2024).",
        ),
        (
            Rule::BeforeStart,
            against(Quantity::Instant(Timestamp(0)), Quantity::Instant(MIDNIGHT)),
            "The card’s validity period hasn’t started (from 8 Mar 2026, 00:00).",
        ),
        (
            Rule::AfterEnd,
            against(Quantity::Instant(MIDNIGHT), Quantity::Instant(MIDNIGHT)),
            "The card’s validity period has ended (until 8 Mar 2026, 00:00).",
        ),
        (
            Rule::PinWrong,
            pin,
            "Incorrect PIN, or none is set, or it is locked \
             (one was provided; 1 of 3 wrong tries in a row before).",
        ),
        (Rule::CvvWrong, only(Quantity::Is(true)), "Incorrect CVV (one was provided)."),
        (
            Rule::CompanyClosed,
            only(Quantity::Is(true)),
            "The company is closed, or the cardholder is no longer a member.",
        ),
        (
            Rule::VelocityPerMinute,
            attempts,
            "Too many attempts in a minute (5 before it, 5 allowed).",
        ),
        (
            Rule::CredentialsLocked,
            against(count(10), count(10)),
            "The card’s codes are locked after too many wrong tries in an hour (10 before it, 10 are \
             too many).",
        ),
        (
            Rule::OutOfScope,
            against(Quantity::Category(Some(Mcc(5_411))), scope),
            "Merchant category is not allowed (Groceries and supermarkets (5411); \
             allowed: Lodging; Eating places and restaurants (5812)).",
        ),
    ];
    for (rule, compared, expected) in rows {
        assert_eq!(failed(rule, compared), expected);
    }
}

#[test]
fn a_rule_without_a_limit_says_so() {
    let count = Quantity::Count;
    let passed =
        RuleFinding { rule: Rule::VelocityPerHour, passed: true, compared: Some(only(count(1))) };
    assert_eq!(WORDS.finding(&passed), "Within the per-hour attempt limit (no limit is set).");
}

#[test]
fn a_remedy_says_how_much_and_until_when() {
    let raise = Change::Raise { by: Minor(510), to: Minor(5_000) };
    let rows = [
        (
            Rule::DailyLimit,
            raise,
            Some(MIDNIGHT),
            "raise the daily limit by $5.10, or wait until after 8 Mar 2026, 00:00",
        ),
        (Rule::TransactionLimit, raise, None, "raise the per-transaction limit by $5.10"),
        (Rule::AllowanceBalance, raise, None, "raise the budget by $5.10"),
        (Rule::AvailableCredit, raise, None, "raise the available funds by $5.10"),
        (
            Rule::BeforeStart,
            Change::StartBy(MIDNIGHT),
            None,
            "use a card that is valid from 8 Mar 2026, 00:00 or earlier",
        ),
        (
            Rule::OutOfScope,
            Change::Category(Some(Mcc(5_812))),
            None,
            "allow Eating places and restaurants (5812) on this card, or buy from a merchant of Lodging",
        ),
        (
            Rule::OutOfScope,
            Change::Category(None),
            None,
            "allow all merchants on this card, or buy from a merchant of Lodging",
        ),
        (
            Rule::VelocityPerMinute,
            Change::Attempts(1),
            None,
            "at most 1 other attempts in the minute before",
        ),
        (Rule::OutOfBounds, Change::Amount(Minor(7)), None, "request at most $0.07"),
        (Rule::CardSuspended, Change::ActiveCard, None, "use an active card"),
        (Rule::ZipDiffers, Change::Otherwise, None, "enter the ZIP code on file"),
    ];
    let scope = Scope::new(&[3]).unwrap();
    for (rule, change, after, expected) in rows {
        assert_eq!(WORDS.remedy(&Remedy { rule, change, after }, &scope), expected);
    }
}

#[test]
fn every_rule_says_one_thing_or_the_other_and_names_no_field() {
    let mut all: Vec<_> =
        Rule::ALL.iter().flat_map(|rule| [true, false].map(|is| verdict(*rule, is))).collect();
    assert!(all.iter().all(|words| !words.contains('_')), "{all:?}");
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 2 * Rule::ALL.len());
}
