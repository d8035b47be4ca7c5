//! Explanations are true: the changes they name approve, smaller ones do not.

use chrono_tz::America::Los_Angeles;
use chrono_tz::Asia::Kolkata;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

use super::*;
use crate::decision::{Explanation, KnownAmounts, VelocityFacts, explain_increment};
use crate::domain::allowance::{AllowanceTerms, CardUsage};
use crate::domain::business_date::Interval;
use crate::domain::ids::TransactionSeq;

/// 2026-03-07T20:00:00Z, noon in Los Angeles; that night clocks go forward there.
const NOON: Timestamp = Timestamp(1_772_913_600_000_000);
/// 2026-03-08T00:00-08:00.
const MIDNIGHT: Timestamp = Timestamp(1_772_956_800_000_000);

/// A purchase of 15.10 that every rule approves.
fn case() -> Case {
    let today = date_at(Los_Angeles, NOON);
    let facts = DecisionFacts {
        terms: AllowanceTerms {
            interval: Interval::Monthly,
            ..AllowanceTerms::budget(Minor(100_000))
        },
        usage: CardUsage {
            state: CardState::Active,
            period: 3,
            period_started_on: today.period_start(Interval::Monthly),
            day: today,
            ..CardUsage::default()
        },
        known: KnownAmounts::funds(Minor(1_000_000), Minor(500)),
        expires_on: BusinessDate(today.0 + 300),
        credentials: CredentialPresence::default(),
        failures: None,
        velocity: None,
    };
    Case {
        facts,
        amount: Minor(1_510),
        added_to: Minor::ZERO,
        has_used_card_up: false,
        mcc: Some(Mcc(5812)),
        is_cash: false,
        at: NOON,
        zone: Los_Angeles,
        failed: RuleSet::EMPTY,
    }
}

/// The decided case, with the failures `unkept` of rules whose inputs are not kept.
fn decided(mut case: Case, unkept: RuleSet) -> Case {
    case.failed = unkept;
    case.failed = case.decide_again();
    case
}

type ChangeRow = (&'static str, Rule, Change, Option<Timestamp>, fn(&mut Case));

/// Checks that each row fails one rule, and that the change it names would have satisfied that
/// rule.
fn assert_least_changes(rows: &[ChangeRow]) {
    for (name, rule, change, after, alter) in rows.iter().copied() {
        let mut case = case();
        alter(&mut case);
        let case = decided(case, RuleSet::EMPTY);
        assert_eq!(case.failed, RuleSet::of(rule), "{name}");
        assert_eq!(case.remedies(RuleSet::ALL), [Remedy { rule, change, after }], "{name}");
    }
}

#[test]
fn each_rule_of_amounts_names_its_least_change() {
    let raise = |by, to| Change::Raise { by: Minor(by), to: Minor(to) };
    assert_least_changes(&[
        ("5.10 more a day", Rule::DailyLimit, raise(510, 5_000), Some(MIDNIGHT), |c| {
            c.facts.terms.daily_limit = Minor(4_490);
            c.facts.usage.day_spent = Minor(3_490);
        }),
        ("no day is long enough", Rule::DailyLimit, raise(1, 1_510), None, |c| {
            c.facts.terms.daily_limit = Minor(1_509);
        }),
        ("over before tomorrow", Rule::DailyLimit, raise(510, 1_510), None, |c| {
            c.facts.terms.daily_limit = Minor(1_000);
            c.facts.terms.ends_at = MIDNIGHT.plus(-1);
        }),
        ("transaction limit", Rule::TransactionLimit, raise(1_500, 1_510), None, |c| {
            c.facts.terms.transaction_limit = Minor(10);
        }),
        (
            "a budget with a next month",
            Rule::AllowanceBalance,
            raise(510, 100_510),
            // 2026-04-01T00:00-07:00.
            Some(Timestamp(1_775_026_800_000_000)),
            |c| c.facts.usage.spent = Minor(99_000),
        ),
        ("a budget for ever", Rule::AllowanceBalance, raise(510, 100_510), None, |c| {
            c.facts.usage.spent = Minor(99_000);
            c.facts.terms.interval = Interval::None;
        }),
        ("funds", Rule::AvailableCredit, raise(1_520, 1_510), None, |c| {
            c.facts.known.available_credit = Minor(-10);
        }),
        ("too large", Rule::OutOfBounds, Change::Amount(Minor(2)), None, |c| {
            c.facts.known.held = Minor::BALANCE_MAX - Minor(2);
        }),
    ]);
}

#[test]
fn every_other_rule_names_its_least_change() {
    let noon = date_at(Los_Angeles, NOON);
    assert_least_changes(&[
        ("early", Rule::BeforeStart, Change::StartBy(NOON), Some(MIDNIGHT), |c| {
            c.facts.terms.starts_at = MIDNIGHT;
        }),
        ("late", Rule::AfterEnd, Change::EndFrom(NOON), None, |c| {
            c.facts.terms.ends_at = NOON.plus(-1);
        }),
        ("scope", Rule::OutOfScope, Change::Category(Some(Mcc(5812))), None, |c| {
            c.facts.terms.scope = Scope::new(&[5411]).unwrap();
        }),
        ("expired", Rule::CardExpired, Change::ValidThrough(noon), None, |c| {
            c.facts.expires_on = BusinessDate(c.facts.usage.day.0 - 1);
        }),
        ("suspended", Rule::CardSuspended, Change::ActiveCard, None, |c| {
            c.facts.usage.suspend(SuspensionReason::Manual);
        }),
        ("cash", Rule::CashWithdrawal, Change::Otherwise, None, |c| c.mcc = Some(Mcc(6011))),
        (
            "too often",
            Rule::VelocityPerMinute,
            Change::Attempts(1),
            Some(NOON.plus(52 * Timestamp::SECOND)),
            |c| {
                let before = [9, 8].map(|ago| c.at.plus(-ago * Timestamp::SECOND));
                c.facts.velocity = Some(VelocityFacts {
                    minute: AttemptWindow::of(&before, 2, Timestamp::MINUTE, c.at),
                    hour: AttemptWindow::of(&before, 0, Timestamp::HOUR, c.at),
                });
            },
        ),
        (
            "wrong credentials",
            Rule::CredentialsLocked,
            Change::WrongCredentials(4),
            Some(NOON.plus(Timestamp::HOUR - 1)),
            |c| {
                c.facts.credentials = CredentialPresence::CVV;
                c.facts.failures = Some(CredentialFailures { since: c.at.plus(-1), count: 5 });
            },
        ),
    ]);
}

/// The declined attempt counts as well: after the minute the hour was full, and the instant that was named
/// declined for that.
#[test]
fn no_instant_is_named_at_which_another_rule_declines_the_next_attempt() {
    let before = [NOON.plus(-Timestamp::SECOND)];
    let second = Timestamp::SECOND;
    // Attempts allowed in a minute and in an hour, seconds until the start, and whether an instant is named.
    let rows = [
        (1, 0, 0, Some(60 * second)),
        (1, 3, 0, Some(60 * second)),
        (1, 2, 0, None),
        (0, 2, 5, None),
        (0, 3, 5, Some(5 * second)),
        (2, 0, 5, None),
        (2, 0, 59, Some(59 * second)),
    ];
    for (per_minute, per_hour, starts_in, opens_in) in rows {
        let mut asked = case();
        if starts_in > 0 {
            asked.facts.terms.starts_at = NOON.plus(starts_in * second);
        }
        asked.facts.velocity = Some(VelocityFacts {
            minute: AttemptWindow::of(&before, per_minute, Timestamp::MINUTE, NOON),
            hour: AttemptWindow::of(&before, per_hour, Timestamp::HOUR, NOON),
        });
        let remedies = decided(asked, RuleSet::EMPTY).remedies(RuleSet::ALL);
        let after: Vec<_> = remedies.iter().map(|remedy| remedy.after).collect();
        assert_eq!(
            after,
            [opens_in.map(|later| NOON.plus(later))],
            "{per_minute} {per_hour} {starts_in}"
        );
    }
}

#[test]
fn a_card_that_its_end_suspended_needs_a_later_end_and_to_be_active() {
    let mut ended = case();
    ended.facts.terms.ends_at = NOON.plus(-5);
    ended.facts.usage.suspend(SuspensionReason::EndTime);
    let remedies = decided(ended, RuleSet::EMPTY).remedies(RuleSet::ALL);
    let changes: Vec<_> = remedies.iter().map(|remedy| (remedy.rule, remedy.change)).collect();
    let expected =
        [(Rule::AfterEnd, Change::EndFrom(NOON)), (Rule::CardSuspended, Change::ActiveCard)];
    assert_eq!(changes, expected);
}

#[test]
fn every_amount_rule_that_failed_is_named_and_the_least_room_is_the_amount() {
    let mut poor = case();
    poor.facts.terms.transaction_limit = Minor(1_000);
    poor.facts.terms.daily_limit = Minor(900);
    poor.facts.usage.day_spent = Minor(100);
    poor.facts.known.available_credit = Minor(850);
    let poor = decided(poor, RuleSet::EMPTY);
    let rules: Vec<_> = poor.remedies(RuleSet::ALL).iter().map(|remedy| remedy.rule).collect();
    assert_eq!(rules, [Rule::TransactionLimit, Rule::DailyLimit, Rule::AvailableCredit]);
    assert_eq!(poor.amount_at_most(), Some(Minor(800)));
    let suspended = Case {
        facts: DecisionFacts {
            usage: CardUsage { state: CardState::Suspended, ..poor.facts.usage },
            ..poor.facts
        },
        ..poor
    };
    assert_eq!(decided(suspended, RuleSet::EMPTY).amount_at_most(), None);
}

/// The explanation of an increment names the whole amount if that is bounded, else the added
/// amount.
#[test]
fn an_increment_is_explained_by_what_it_was_added_to() {
    let mut facts = case().facts;
    facts.terms.transaction_limit = Minor(2_000);
    facts.terms.daily_limit = Minor(5_000);
    facts.usage.day_spent = Minor(1_000);
    facts.usage.suspend(SuspensionReason::SingleUse);
    let decision = IncrementDecision {
        transaction: TransactionSeq(7),
        decided_at: NOON,
        amount: Minor(1_510),
        added_to: Minor(1_000),
        mcc: Some(Mcc(5812)),
        failed_rules: RuleSet::of(Rule::TransactionLimit),
        has_used_card_up: true,
        facts,
    };
    let declined = explain_increment(&decision, Los_Angeles);
    let compared = |explanation: &Explanation, rule| {
        let found = explanation.rules.iter().find(|found| found.rule == rule).unwrap();
        (found.passed, found.compared.unwrap())
    };
    let amount = |minor| Quantity::Amount(Minor(minor));
    let (passed, limit) = compared(&declined, Rule::TransactionLimit);
    assert_eq!((passed, limit.input, limit.threshold), (false, amount(2_510), Some(amount(2_000))));
    let change = Change::Raise { by: Minor(510), to: Minor(2_510) };
    assert_eq!(declined.remedies, [Remedy { rule: Rule::TransactionLimit, change, after: None }]);
    assert_eq!(declined.amount_at_most, Some(Minor(1_000)));

    let mut wider = decision.clone();
    wider.facts.terms.transaction_limit = Minor(2_510);
    wider.failed_rules = RuleSet::EMPTY;
    let approved = explain_increment(&wider, Los_Angeles);
    assert!(approved.rules.iter().all(|found| found.passed) && approved.remedies.is_empty());
    let (_, day) = compared(&approved, Rule::DailyLimit);
    assert_eq!((day.input, day.usage), (amount(1_510), Some([amount(1_000), amount(2_510)])));

    // On a card that another purchase had used up, the rules of this build decide otherwise.
    let other = IncrementDecision { has_used_card_up: false, ..decision };
    assert_eq!(explain_increment(&other, Los_Angeles).remedies, []);
}

/// A limit that is often near the amounts, and often absent.
fn limit() -> impl Strategy<Value = Minor> {
    prop_oneof![2 => (0_i64..2_500).prop_map(Minor), 1 => Just(Minor::UNLIMITED)]
}

/// An instant that is often near, and often absent.
fn bound(none: Timestamp) -> impl Strategy<Value = Timestamp> {
    let near = (-3 * Timestamp::DAY..3 * Timestamp::DAY).prop_map(|after| NOON.plus(after));
    prop_oneof![1 => near, 2 => Just(none)]
}

prop_compose! {
    fn terms()(
        amount in 0_i64..4_000,
        (daily_limit, transaction_limit) in (limit(), limit()),
        (starts_at, ends_at) in (bound(Timestamp::MIN), bound(Timestamp::MAX)),
        scope in prop::sample::select(vec![&[][..], &[], &[], &[5411], &[10, 5411], &[5812]]),
        interval in prop::sample::select(&[
            Interval::None, Interval::Daily, Interval::Weekly,
            Interval::Monthly, Interval::Quarterly, Interval::Yearly,
        ][..]),
    ) -> AllowanceTerms {
        AllowanceTerms {
            amount: Minor(amount),
            daily_limit,
            transaction_limit,
            starts_at,
            ends_at,
            scope: Scope::new(scope).unwrap(),
            interval,
            single_use: false,
        }
    }
}

fn standing() -> impl Strategy<Value = (CardState, SuspensionReason)> {
    prop::sample::select(vec![
        (CardState::Active, SuspensionReason::None),
        (CardState::Active, SuspensionReason::None),
        (CardState::Active, SuspensionReason::None),
        (CardState::Unactivated, SuspensionReason::None),
        (CardState::Terminated, SuspensionReason::None),
        (CardState::Suspended, SuspensionReason::Manual),
        (CardState::Suspended, SuspensionReason::SingleUse),
        (CardState::Suspended, SuspensionReason::EndTime),
    ])
}

/// Attempts of the last two hours before `at`, with limits.
fn velocity(at: Timestamp) -> impl Strategy<Value = Option<VelocityFacts>> {
    let ago = prop_oneof![0..Timestamp::MINUTE, 0..2 * Timestamp::HOUR];
    let attempts = (prop::collection::vec(ago, 0..6), 0_u16..4, 0_u16..6);
    prop::option::weighted(0.3, attempts).prop_map(move |known| {
        let (mut ago, per_minute, per_hour) = known?;
        ago.sort_unstable_by_key(|ago| std::cmp::Reverse(*ago));
        let before: Vec<_> = ago.into_iter().map(|ago| at.plus(-1 - ago)).collect();
        Some(VelocityFacts {
            minute: AttemptWindow::of(&before, per_minute, Timestamp::MINUTE, at),
            hour: AttemptWindow::of(&before, per_hour, Timestamp::HOUR, at),
        })
    })
}

prop_compose! {
    fn any_case()(
        zone in prop::sample::select(&[Los_Angeles, Kolkata][..]),
        terms in terms(),
        (state, suspension) in standing(),
        (spent, day_spent) in (
            prop_oneof![9 => 0_i64..4_000, 1 => Just(Minor::BALANCE_MAX.0 - 700)],
            0_i64..3_000,
        ),
        (available, held) in (
            -500_i64..6_000,
            prop_oneof![9 => 0_i64..4_000, 1 => Just(Minor::BALANCE_MAX.0 - 700)],
        ),
        expires_in in prop_oneof![9 => 0_i32..900, 1 => -40_i32..0],
        credentials in any::<u8>(),
        pin_failures in 0_u8..4,
        failures in prop::option::weighted(0.2, (0..Timestamp::HOUR, 1_u8..9)),
        velocity in velocity(NOON),
        amount in prop_oneof![
            18 => 1_i64..2_600,
            1 => Just(0),
            1 => Just(-3),
            1 => Just(Minor::AMOUNT_MAX.0 + 9),
        ],
        (mcc, is_cash) in (
            prop::sample::select(&[Some(5812), Some(5411), Some(6011), None][..]),
            prop::bool::weighted(0.05),
        ),
        (added_to, has_used_card_up) in (
            prop_oneof![2 => Just(0), 1 => 1_i64..2_000, 1 => Just(Minor::AMOUNT_MAX.0 - 700)],
            any::<bool>(),
        ),
        unkept in prop::option::weighted(0.3, any::<u32>()),
    ) -> Case {
        let today = date_at(zone, NOON);
        let usage = CardUsage {
            spent: Minor(spent),
            day_spent: Minor(day_spent),
            period: 4,
            period_started_on: today.period_start(terms.interval),
            day: today,
            state,
            suspension,
            pin_failures,
        };
        let facts = DecisionFacts {
            terms,
            usage,
            known: KnownAmounts::funds(Minor(available), Minor(held)),
            expires_on: BusinessDate(today.0 + expires_in),
            credentials: CredentialPresence::from_bits(credentials),
            failures: failures.map(|(ago, count)| CredentialFailures {
                since: NOON.plus(-ago), count,
            }),
            velocity,
        };
        let case = Case {
            facts,
            amount: Minor(amount),
            added_to: Minor(added_to),
            has_used_card_up: added_to > 0 && has_used_card_up,
            mcc: mcc.map(Mcc),
            is_cash,
            at: NOON,
            zone,
            failed: RuleSet::EMPTY,
        };
        decided(case, RuleSet::from_bits(unkept.unwrap_or(0)))
    }
}

/// A change that is one unit smaller; none where a change has no size.
fn one_less(change: Change, case: &Case) -> Option<Change> {
    let one = Minor(1);
    Some(match change {
        Change::Raise { by, to } => Change::Raise { by: by - one, to: to - one },
        Change::Amount(amount) if case.amount < Minor::ZERO => Change::Amount(amount - one),
        Change::Amount(amount) => Change::Amount(amount + one),
        Change::StartBy(at) => Change::StartBy(at.plus(1)),
        Change::EndFrom(at) => Change::EndFrom(at.plus(-1)),
        Change::ValidThrough(date) => Change::ValidThrough(BusinessDate(date.0 - 1)),
        Change::Attempts(count) => Change::Attempts(count + 1),
        Change::WrongCredentials(count) => Change::WrongCredentials(count + 1),
        Change::Category(_) | Change::ActiveCard | Change::Otherwise => return None,
    })
}

/// Makes a change, which need not be the least.
fn make(case: &mut Case, rule: Rule, change: Change) {
    case.make(rule, change, case.compare(rule, Minor::ZERO).alteration);
}

/// The rules that fail after all changes, with the one at `place` replaced or left out.
fn changed(case: &Case, remedies: &[Remedy], place: usize, instead: Option<Change>) -> RuleSet {
    let mut changed = *case;
    for (at, remedy) in remedies.iter().enumerate() {
        match instead {
            _ if at != place => make(&mut changed, remedy.rule, remedy.change),
            Some(change) => make(&mut changed, remedy.rule, change),
            None => {}
        }
    }
    changed.decide_again()
}

#[test]
fn every_rule_fails_in_some_case() {
    let mut runner = TestRunner::deterministic();
    let cases = (0..2_000).map(|_| any_case().new_tree(&mut runner).unwrap().current());
    let failed = cases.fold(0, |bits, case| bits | case.failed.bits());
    let never: Vec<_> =
        Rule::ALL.into_iter().filter(|rule| failed >> *rule as u8 & 1 == 0).collect();
    assert_eq!(never, []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_changes_named_approve_and_one_unit_less_does_not(case in any_case()) {
        prop_assert!(case.is_as_decided());
        let remedies = case.remedies(RuleSet::ALL);
        prop_assert_eq!(remedies.is_empty(), case.failed.is_empty());
        for rule in case.failed.iter() {
            let named = remedies.iter().filter(|remedy| remedy.rule == rule).count();
            // A smaller amount may satisfy other rules, too.
            let is_enough = named == 1 || named == 0 && case.failed.contains(Rule::OutOfBounds);
            prop_assert!(is_enough, "{:?}", rule);
        }
        prop_assert!(changed(&case, &remedies, usize::MAX, None).is_empty());
        for (place, remedy) in remedies.iter().enumerate() {
            let without = changed(&case, &remedies, place, None);
            prop_assert!(without.contains(remedy.rule), "{:?} is needed", remedy);
            if let Some(less) = one_less(remedy.change, &case) {
                let failed = changed(&case, &remedies, place, Some(less));
                prop_assert!(failed.contains(remedy.rule), "{:?} is the least", remedy);
            }
        }
    }

    #[test]
    fn waiting_until_then_passes_the_rule_and_one_microsecond_less_does_not(case in any_case()) {
        let remedies = case.remedies(RuleSet::ALL);
        // Beyond the bounds, the instant holds for the largest amount instead.
        let mut asked = case;
        for remedy in remedies.iter().filter(|remedy| remedy.rule == Rule::OutOfBounds) {
            make(&mut asked, remedy.rule, remedy.change);
        }
        let failed_before = RuleSet::from_bits(case.failed.bits() | asked.decide_again().bits());
        for remedy in remedies {
            let Some(after) = remedy.after else { continue };
            let failed_at = |at| Case { at, ..asked }.decide_again();
            prop_assert!(!failed_at(after).contains(remedy.rule), "{:?}", remedy);
            prop_assert!(failed_at(after.plus(-1)).contains(remedy.rule), "{:?}", remedy);
            let failed = failed_at(after);
            prop_assert_eq!(failed.intersection(failed_before), failed, "nothing else fails then");
        }
    }

    #[test]
    fn the_largest_amount_is_approved_and_one_unit_more_is_not(case in any_case()) {
        if let (Some(amount), false) = (case.amount_at_most(), case.failed.is_empty()) {
            let with = |amount| Case { amount, ..case }.decide_again();
            prop_assert!(with(amount).is_empty());
            prop_assert!(!with(amount + Minor(1)).is_empty());
        }
    }

    /// The scope with an added category accepts it: the change need not open the scope.
    #[test]
    fn a_scope_with_the_category_takes_it(
        (case, mcc) in any_case().prop_filter_map("no category is out of scope", |case| {
            Some((case, case.mcc.filter(|_| case.failed.contains(Rule::OutOfScope))?))
        })
    ) {
        let mut codes = case.facts.terms.scope.codes().to_vec();
        codes.push(mcc.0);
        let mut wider = case;
        wider.facts.terms.scope = Scope::new(&codes).unwrap();
        prop_assert!(!wider.decide_again().contains(Rule::OutOfScope));
    }
}
