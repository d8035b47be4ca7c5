//! Each rule with its boundaries, and their order: the table of the specification, row by row.

use super::*;
use crate::domain::account::AccountBalances;
use crate::domain::allowance::{AllowanceTerms, Scope};
use crate::domain::business_date::Interval;
use crate::domain::card::PanHash;
use crate::domain::credential::{
    Cvv, CvvPair, ExpiryMonth, PackedZip, PinVerifier, PresentedValue,
};
use crate::domain::ids::AccountSlot;
use crate::domain::response_code::ResponseCode;

/// 2026-03-03T12:00:00Z.
const NOON: Timestamp = Timestamp(1_772_539_200_000_000);
const RESTAURANT: Mcc = Mcc(5812);
const PIN: PinVerifier = PinVerifier(77);

/// A purchase of 10.00 that every rule approves; rows change their own fields.
struct Case {
    card: CardRecord,
    known: KnownAmounts,
    is_company_closed: bool,
    is_reversed_before: bool,
    velocity: VelocityFinding,
    failures: Option<CredentialFailures>,
    amount: Minor,
    mcc: Option<Mcc>,
    is_cash: bool,
    credentials: PresentedCredentials,
    at: Timestamp,
    today: BusinessDate,
}

fn date(text: &str) -> BusinessDate {
    BusinessDate::from_naive(text.parse().unwrap())
}

fn case() -> Case {
    let today = date("2026-03-03");
    let card = CardRecord {
        pan_hash: PanHash(1),
        pin: PIN,
        zip: PackedZip::pack("94105"),
        account: AccountSlot(0),
        expires_on: date("2029-06-30"),
        usage: CardUsage {
            state: CardState::Active,
            period: 1,
            period_started_on: today,
            day: today,
            ..CardUsage::default()
        },
        terms: AllowanceTerms {
            interval: Interval::Monthly,
            ..AllowanceTerms::budget(Minor(100_000))
        },
    };
    Case {
        card,
        known: KnownAmounts::funds(Minor(1_000_000), Minor::ZERO),
        is_company_closed: false,
        is_reversed_before: false,
        velocity: VelocityFinding::default(),
        failures: None,
        amount: Minor(1_000),
        mcc: Some(RESTAURANT),
        is_cash: false,
        credentials: PresentedCredentials::default(),
        at: NOON,
        today,
    }
}

impl KnownAmounts {
    /// Funds and holds of an account, without other amounts.
    pub(crate) fn funds(available_credit: Minor, held: Minor) -> Self {
        Self { held, ..Self { available_credit, ..Self::default() } }
    }
}

impl Case {
    fn decide(&self) -> RuleSet {
        self.verdict().failed
    }

    fn verdict(&self) -> Verdict {
        let facts = Facts {
            card: &self.card,
            usage: self.card.usage,
            known: self.known,
            is_company_closed: self.is_company_closed,
            is_reversed_before: self.is_reversed_before,
            velocity: self.velocity,
            failures: self.failures,
        };
        let question = Question {
            amount: self.amount,
            added_to: Minor::ZERO,
            mcc: self.mcc,
            is_cash: self.is_cash,
            credentials: &self.credentials,
            at: self.at,
            today: self.today,
        };
        decide(&facts, &question)
    }
}

/// A CVV shown to a card whose own is 123.
fn cvv(shown: &[u8]) -> Option<PresentedValue<CvvPair>> {
    Some(PresentedValue::new(CvvPair { shown: Cvv::parse(shown), own: Cvv::parse(b"123") }))
}

type RuleRow = (&'static str, &'static [Rule], fn(&mut Case));

/// Checks that each row fails exactly the rules it names, and gives the first one's code.
fn check(rows: &[RuleRow]) {
    for (name, expected, change) in rows {
        let mut case = case();
        change(&mut case);
        let failed = case.decide();
        assert_eq!(failed.iter().collect::<Vec<_>>(), *expected, "{name}");
        let code = expected.first().map_or(ResponseCode::Approved, |rule| rule.response_code());
        assert_eq!(failed.response_code(), code, "{name}");
    }
}

#[test]
fn standing_of_card_and_company() {
    check(&[
        ("nothing wrong", &[], |_| {}),
        ("terminated", &[Rule::CardTerminated], |c| c.card.usage.state = CardState::Terminated),
        ("company closed", &[Rule::CompanyClosed], |c| c.is_company_closed = true),
        ("reversed before", &[Rule::ReversedBefore], |c| c.is_reversed_before = true),
        ("unactivated", &[Rule::CardUnactivated], |c| c.card.usage.state = CardState::Unactivated),
        ("suspended", &[Rule::CardSuspended], |c| c.card.usage.suspend(SuspensionReason::Manual)),
        ("used up", &[Rule::CardSuspended], |c| c.card.usage.suspend(SuspensionReason::SingleUse)),
        ("last day", &[], |c| c.today = c.card.expires_on),
        ("day after", &[Rule::CardExpired], |c| c.today = BusinessDate(c.card.expires_on.0 + 1)),
    ]);
}

/// Past its end an allowance gives 1501, before and after the timer has suspended the card.
#[test]
fn a_card_that_its_end_time_suspended_answers_for_its_allowance() {
    fn end(case: &mut Case, reason: SuspensionReason, ends_at: Timestamp) {
        case.card.terms.ends_at = ends_at;
        case.card.usage.suspend(reason);
    }
    check(&[
        ("the timer has not run", &[Rule::AfterEnd], |c| c.card.terms.ends_at = NOON.plus(-1)),
        ("the timer has run", &[Rule::AfterEnd], |c| {
            end(c, SuspensionReason::EndTime, NOON.plus(-1));
        }),
        ("the end was put off since", &[Rule::CardSuspended], |c| {
            end(c, SuspensionReason::EndTime, NOON);
        }),
        ("somebody suspended it", &[Rule::CardSuspended, Rule::AfterEnd], |c| {
            end(c, SuspensionReason::Manual, NOON.plus(-1));
        }),
        ("it was used up", &[Rule::CardSuspended, Rule::AfterEnd], |c| {
            end(c, SuspensionReason::SingleUse, NOON.plus(-1));
        }),
    ]);
}

#[test]
fn amounts_and_balances_stay_in_bounds() {
    fn ask(case: &mut Case, amount: Minor) {
        case.amount = amount;
        case.card.terms.amount = Minor::AMOUNT_MAX;
        case.known.available_credit = Minor::BALANCE_MAX;
    }
    check(&[
        ("the largest amount", &[], |c| ask(c, Minor::AMOUNT_MAX)),
        ("above it", &[Rule::OutOfBounds, Rule::AllowanceBalance], |c| {
            ask(c, Minor(Minor::AMOUNT_MAX.0 + 1));
        }),
        (
            "as large as there is",
            &[Rule::OutOfBounds, Rule::AllowanceBalance, Rule::AvailableCredit],
            |c| {
                ask(c, Minor(i64::MAX));
            },
        ),
        ("below zero", &[Rule::OutOfBounds], |c| ask(c, Minor(-1))),
        ("the smallest there is", &[Rule::OutOfBounds], |c| ask(c, Minor(i64::MIN))),
        ("holds up to the bound", &[], |c| {
            c.known.held = Minor::BALANCE_MAX - c.amount;
        }),
        ("holds beyond the bound", &[Rule::OutOfBounds], |c| {
            c.known.held = Minor::BALANCE_MAX - c.amount + Minor(1);
        }),
        ("usage beyond the bound", &[Rule::OutOfBounds, Rule::AllowanceBalance], |c| {
            c.card.usage.spent = Minor::BALANCE_MAX;
        }),
    ]);
}

#[test]
fn only_what_the_message_carries_is_compared() {
    fn pin(case: &mut Case, on_card: u64, shown: u64, failures: u8) {
        case.card.pin = PinVerifier(on_card);
        case.credentials.pin = Some(PresentedValue::new(PinVerifier(shown)));
        case.card.usage.pin_failures = failures;
    }
    check(&[
        ("right expiry", &[], |c| {
            c.credentials.expiry = Some(PresentedValue::new(ExpiryMonth(2906)))
        }),
        ("wrong month", &[Rule::ExpirationDiffers], |c| {
            c.credentials.expiry = Some(PresentedValue::new(ExpiryMonth(2907)));
        }),
        ("wrong year", &[Rule::ExpirationDiffers], |c| {
            c.credentials.expiry = Some(PresentedValue::new(ExpiryMonth(2806)));
        }),
        ("right PIN", &[], |c| pin(c, 77, 77, 0)),
        ("right PIN after two wrong ones", &[], |c| pin(c, 77, 77, 2)),
        ("right PIN after three wrong ones", &[Rule::PinWrong], |c| pin(c, 77, 77, 3)),
        ("wrong PIN", &[Rule::PinWrong], |c| pin(c, 77, 78, 0)),
        ("a PIN to a card without one", &[Rule::PinWrong], |c| pin(c, 0, 77, 0)),
        ("the value that stands for no PIN", &[Rule::PinWrong], |c| pin(c, 0, 0, 0)),
        ("no PIN shown to a locked card", &[], |c| c.card.usage.pin_failures = 3),
        ("right CVV", &[], |c| c.credentials.cvv = cvv(b"123")),
        ("wrong CVV", &[Rule::CvvWrong], |c| c.credentials.cvv = cvv(b"321")),
        ("right ZIP", &[], |c| {
            c.credentials.zip = Some(PresentedValue::new(PackedZip::pack("94105-0001")))
        }),
        ("wrong ZIP", &[Rule::ZipDiffers], |c| {
            c.credentials.zip = Some(PresentedValue::new(PackedZip::pack("94106")));
        }),
        ("an empty ZIP where one is on file", &[Rule::ZipDiffers], |c| {
            c.credentials.zip = Some(PresentedValue::new(PackedZip::default()));
        }),
        ("any ZIP where none is on file", &[], |c| {
            c.card.zip = PackedZip::default();
            c.credentials.zip = Some(PresentedValue::new(PackedZip::pack("94106")));
        }),
    ]);
}

#[test]
fn cash_and_risk() {
    check(&[
        ("cash by processing code", &[Rule::CashWithdrawal], |c| c.is_cash = true),
        ("cash at a counter", &[Rule::CashWithdrawal], |c| c.mcc = Some(Mcc(6010))),
        ("cash from a machine", &[Rule::CashWithdrawal], |c| c.mcc = Some(Mcc(6011))),
        ("goods of a bank", &[], |c| c.mcc = Some(Mcc(6012))),
        ("too many in a minute", &[Rule::VelocityPerMinute], |c| c.velocity.over_minute = true),
        ("too many in an hour", &[Rule::VelocityPerHour], |c| c.velocity.over_hour = true),
    ]);
}

/// Shows every credential, right or wrong.
fn show(case: &mut Case, is_right: bool) {
    let pick = |right: u16, wrong: u16| if is_right { right } else { wrong };
    case.credentials = PresentedCredentials {
        expiry: Some(PresentedValue::new(ExpiryMonth(pick(2906, 2907)))),
        cvv: if is_right { cvv(b"123") } else { cvv(b"321") },
        pin: Some(PresentedValue::new(if is_right { PIN } else { PinVerifier(1) })),
        zip: Some(PresentedValue::new(PackedZip::pack(if is_right { "94105" } else { "94106" }))),
    };
}

fn fail_before(case: &mut Case, count: u8, since: i64) {
    case.failures = Some(CredentialFailures { count, since: NOON.plus(since) });
}

#[test]
fn wrong_credentials_lock_for_the_rest_of_their_hour() {
    check(&[
        ("four wrong ones", &[], |c| {
            show(c, true);
            fail_before(c, 4, -Timestamp::MINUTE);
        }),
        ("five within the hour", &[Rule::CredentialsLocked], |c| {
            show(c, true);
            fail_before(c, 5, -Timestamp::HOUR + 1);
        }),
        ("five, an hour ago", &[], |c| {
            show(c, true);
            fail_before(c, 5, -Timestamp::HOUR);
        }),
        ("many, just now", &[Rule::CredentialsLocked], |c| {
            show(c, false);
            fail_before(c, u8::MAX, 0);
        }),
        ("many, and none shown", &[], |c| fail_before(c, u8::MAX, 0)),
    ]);
}

/// After five wrong tries a wrong credential gave 1303 and the right one 1701, so the lock revealed
/// the right one. Now a locked credential is not compared, so that no reply can reveal it.
#[test]
fn a_locked_credential_is_not_compared() {
    for pin_failures in 0..=PIN_FAILURES_MAX {
        let verdict = |is_right, count| {
            let mut case = case();
            show(&mut case, is_right);
            fail_before(&mut case, count, 0);
            case.card.usage.pin_failures = pin_failures;
            case.verdict()
        };
        let (right, wrong) = (verdict(true, 5), verdict(false, 5));
        assert_eq!(right, wrong);
        assert_eq!(right.failed, RuleSet::of(Rule::CredentialsLocked));
        assert_eq!(right.compared, CredentialPresence::default());
        // A PIN after three wrong ones is not compared either.
        let compared = verdict(true, 4).compared;
        let is_pin_open = pin_failures < PIN_FAILURES_MAX;
        assert_eq!(compared.contains(CredentialPresence::PIN), is_pin_open);
        assert!(compared.contains(CredentialPresence::CVV));
    }
}

#[test]
fn window_and_scope() {
    fn window(case: &mut Case, starts: i64, ends: i64) {
        (case.card.terms.starts_at, case.card.terms.ends_at) = (NOON.plus(starts), NOON.plus(ends));
    }
    fn scope(case: &mut Case, codes: &[u16], mcc: Option<u16>) {
        case.card.terms.scope = Scope::new(codes).unwrap();
        case.mcc = mcc.map(Mcc);
    }
    check(&[
        ("at its first and last instant", &[], |c| window(c, 0, 0)),
        ("just before the first", &[Rule::BeforeStart], |c| window(c, 1, 9)),
        ("just after the last", &[Rule::AfterEnd], |c| window(c, -9, -1)),
        ("a window that ends before it starts", &[Rule::BeforeStart, Rule::AfterEnd], |c| {
            window(c, 1, -1);
        }),
        ("no scope, no category", &[], |c| c.mcc = None),
        ("the category itself", &[], |c| scope(c, &[5411, 5812], Some(5812))),
        ("another category", &[Rule::OutOfScope], |c| scope(c, &[5411], Some(5812))),
        ("a category of the group", &[], |c| scope(c, &[10], Some(5814))),
        ("a category outside the group", &[Rule::OutOfScope], |c| scope(c, &[10], Some(5411))),
        ("a scope, no category", &[Rule::OutOfScope], |c| scope(c, &[10], None)),
        ("ten values, the last one fits", &[], |c| {
            scope(c, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 5812], Some(5812));
        }),
    ]);
}

#[test]
fn amounts_up_to_a_limit_pass_and_above_it_do_not() {
    fn ledger(minor: i64) -> AccountBalances {
        AccountBalances { ledger: Minor(minor), ..AccountBalances::default() }
    }
    fn fund(case: &mut Case, balances: AccountBalances, credit_limit: i64) {
        case.known.available_credit = balances.available_credit(Minor(credit_limit));
    }
    check(&[
        ("transaction limit", &[], |c| c.card.terms.transaction_limit = c.amount),
        ("above it", &[Rule::TransactionLimit], |c| {
            c.card.terms.transaction_limit = c.amount - Minor(1);
        }),
        ("the day's room", &[], |c| {
            c.card.terms.daily_limit = Minor(1_500);
            c.card.usage.day_spent = Minor(500);
        }),
        ("above it", &[Rule::DailyLimit], |c| {
            c.card.terms.daily_limit = Minor(1_500);
            c.card.usage.day_spent = Minor(501);
        }),
        ("no daily limit", &[], |c| c.card.usage.day_spent = Minor::BALANCE_MAX - c.amount),
        ("a day out of bounds", &[Rule::OutOfBounds], |c| {
            c.card.usage.day_spent = Minor::BALANCE_MAX;
        }),
        ("the budget", &[], |c| c.card.usage.spent = Minor(99_000)),
        ("above it", &[Rule::AllowanceBalance], |c| c.card.usage.spent = Minor(99_001)),
        ("the funds", &[], |c| fund(c, ledger(1_000), 0)),
        ("above them", &[Rule::AvailableCredit], |c| fund(c, ledger(999), 0)),
        ("holds bind funds", &[Rule::AvailableCredit], |c| {
            fund(c, AccountBalances { held: Minor(1), ..ledger(1_000) }, 0);
        }),
        ("so do withdrawals", &[Rule::AvailableCredit], |c| {
            fund(c, AccountBalances { debits_in_transit: Minor(1), ..ledger(1_000) }, 0);
        }),
        ("deposits on their way do not count", &[Rule::AvailableCredit], |c| {
            fund(c, AccountBalances { credits_in_transit: Minor(1), ..ledger(999) }, 0);
        }),
        ("credit", &[], |c| fund(c, ledger(-4_000), 5_000)),
        ("above it", &[Rule::AvailableCredit], |c| fund(c, ledger(-4_001), 5_000)),
        ("zero of an empty budget", &[], |c| {
            c.amount = Minor::ZERO;
            c.card.usage.spent = c.card.terms.amount;
        }),
        ("zero below an empty budget", &[Rule::AllowanceBalance], |c| {
            c.amount = Minor::ZERO;
            c.card.usage.spent = c.card.terms.amount + Minor(1);
        }),
    ]);
}

type Breaker = (Rule, u16, fn(&mut Case));

/// Each rule with a change that makes it fail, in the order of precedence with its code.
const BREAKERS: [Breaker; Rule::ALL.len()] = [
    (Rule::CardTerminated, 1000, |c| c.card.usage.state = CardState::Terminated),
    (Rule::CompanyClosed, 1000, |c| c.is_company_closed = true),
    (Rule::ReversedBefore, 1000, |c| c.is_reversed_before = true),
    (Rule::OutOfBounds, 1000, |c| c.known.held = Minor::BALANCE_MAX),
    (Rule::CardUnactivated, 1201, |c| c.card.usage.state = CardState::Unactivated),
    (Rule::CardSuspended, 1202, |c| c.card.usage.suspend(SuspensionReason::Manual)),
    (Rule::CardExpired, 1203, |c| c.today = date("2029-07-01")),
    (Rule::CredentialsLocked, 1701, |c| {
        c.credentials.zip = Some(PresentedValue::new(PackedZip::pack("94105")));
        fail_before(c, 5, 0);
    }),
    (Rule::ExpirationDiffers, 1301, |c| {
        c.credentials.expiry = Some(PresentedValue::new(ExpiryMonth(3001)))
    }),
    (Rule::PinWrong, 1302, |c| c.credentials.pin = Some(PresentedValue::new(PinVerifier(1)))),
    (Rule::CvvWrong, 1303, |c| c.credentials.cvv = cvv(b"321")),
    (Rule::ZipDiffers, 1304, |c| {
        c.credentials.zip = Some(PresentedValue::new(PackedZip::pack("1")))
    }),
    (Rule::CashWithdrawal, 1702, |c| c.is_cash = true),
    (Rule::VelocityPerMinute, 1701, |c| c.velocity.over_minute = true),
    (Rule::VelocityPerHour, 1701, |c| c.velocity.over_hour = true),
    (Rule::BeforeStart, 1501, |c| c.card.terms.starts_at = Timestamp::MAX),
    (Rule::AfterEnd, 1501, |c| c.card.terms.ends_at = NOON.plus(-1)),
    (Rule::OutOfScope, 1501, |c| c.card.terms.scope = Scope::new(&[5411]).unwrap_or_default()),
    (Rule::TransactionLimit, 1503, |c| c.card.terms.transaction_limit = Minor(1)),
    (Rule::DailyLimit, 1502, |c| c.card.terms.daily_limit = Minor(1)),
    (Rule::AllowanceBalance, 1502, |c| c.card.terms.amount = Minor(1)),
    (Rule::AvailableCredit, 1101, |c| c.known.available_credit = Minor::ZERO),
];

#[test]
fn each_rule_gives_its_code_and_stands_in_its_place() {
    for ((rule, code, change), listed) in BREAKERS.into_iter().zip(Rule::ALL) {
        assert_eq!(rule, listed, "the order of precedence");
        let mut case = case();
        change(&mut case);
        let failed = case.decide();
        assert_eq!(failed, RuleSet::of(rule), "{rule:?} alone");
        assert_eq!(failed.response_code().number(), code, "{rule:?}");
    }
}

#[test]
fn of_any_two_rules_the_first_decides_and_both_are_kept() {
    for (at, (first, code, break_first)) in BREAKERS.into_iter().enumerate() {
        for (second, _, break_second) in &BREAKERS[at + 1..] {
            let mut case = case();
            break_second(&mut case);
            break_first(&mut case);
            let failed = case.decide();
            let states = [Rule::CardTerminated, Rule::CardUnactivated, Rule::CardSuspended];
            // A card is in one state at a time.
            if states.contains(&first) && states.contains(second) {
                continue;
            }
            let kept: Vec<_> = failed.iter().collect();
            let is_hidden =
                first == Rule::CredentialsLocked && RuleSet::CREDENTIALS.contains(*second);
            let both = [first, *second];
            assert_eq!(kept, if is_hidden { &both[..1] } else { &both[..] }, "both are kept");
            assert_eq!(failed.first(), Some(first), "{first:?} before {second:?}");
            assert_eq!(failed.response_code().number(), code);
        }
    }
}

#[test]
fn every_rule_that_can_fail_at_once_is_kept() {
    let mut case = case();
    for (_, _, change) in BREAKERS.iter().rev() {
        change(&mut case);
    }
    let failed = case.decide();
    let excluded = |rule| {
        let is_other_state = matches!(rule, Rule::CardUnactivated | Rule::CardSuspended);
        is_other_state || RuleSet::CREDENTIALS.contains(rule)
    };
    let expected: Vec<_> = Rule::ALL.into_iter().filter(|rule| !excluded(*rule)).collect();
    assert_eq!(failed.iter().collect::<Vec<_>>(), expected);
    assert_eq!(failed.response_code(), ResponseCode::Declined);
}

#[test]
fn names_are_words_of_their_own_and_the_empty_set_approves() {
    let names: std::collections::BTreeSet<_> = Rule::ALL.iter().map(|rule| rule.name()).collect();
    assert_eq!(names.len(), Rule::ALL.len());
    assert_eq!(RuleSet::EMPTY.first(), None);
    assert!(RuleSet::EMPTY.response_code().is_approved());
    assert!(RuleSet::EMPTY.is_empty() && !RuleSet::of(Rule::AvailableCredit).is_empty());
}
