//! The ledger of the feed: the states that answers allow, the amounts those take, and the
//! differences found.

use super::worlds::{ABSENT, CANCELED, DECLINED};
use super::*;

const fn pending(held_minor: u64) -> PossibleState {
    PossibleState { state: State::Pending, held_minor, posted_minor: 0 }
}

const fn completed(posted_minor: u64) -> PossibleState {
    PossibleState { state: State::Completed, held_minor: 0, posted_minor }
}

const HOLD: Event = Event::Hold { amount_minor: 500 };
const PART_200: Event = Event::PresentPart { amount_minor: 200 };
const FUEL_300: Event = Event::Complete { held_minor: 300 };
const REFUND: Event = Event::Refund { amount_minor: 500 };
const ADD_100: Event = Event::Increment { amount_minor: 100 };
const KEEP_200: Event = Event::ReverseTo { held_minor: 200 };
const PRESENT: Event = Event::Present { amount_minor: 500 };
const DONE: Outcome = Outcome::Accepted { amount_minor: 500 };
const DAY_US: u64 = 86_400_000_000;

type Messages = &'static [(Event, Outcome)];

fn worlds_after(messages: &[(Event, Outcome)], now_us: u64) -> Vec<PossibleState> {
    let mut books = Books::default();
    books.open(0, 0, 7, 0);
    let entries: Vec<_> =
        messages.iter().map(|(event, _)| books.sent(0, *event).unwrap()).collect();
    // Answers come in the opposite order: it must not matter.
    for (entry, (_, outcome)) in entries.into_iter().zip(messages).rev() {
        books.answered(entry, *outcome);
    }
    books.purchases[&0].worlds_at(now_us)
}

#[test]
fn answers_lead_to_the_states_they_allow() {
    let rows: &[(&str, Messages, &[PossibleState])] = &[
        ("approved", &[(HOLD, DONE)], &[pending(500)]),
        ("declined", &[(HOLD, Outcome::Refused)], &[DECLINED]),
        ("1000", &[(HOLD, Outcome::RefusedPerhapsRecorded)], &[ABSENT, DECLINED]),
        ("30", &[(HOLD, Outcome::NotTaken)], &[ABSENT]),
        ("91 or 96", &[(HOLD, Outcome::Unknown)], &[ABSENT, DECLINED, pending(500)]),
        ("in part", &[(HOLD, Outcome::Accepted { amount_minor: 300 })], &[pending(300)]),
        ("0200", &[(Event::Post { amount_minor: 500 }, DONE)], &[completed(500)]),
        ("verified", &[(Event::Verify, DONE)], &[CANCELED]),
        ("cleared", &[(HOLD, DONE), (PRESENT, DONE)], &[completed(500)]),
        ("reversed", &[(HOLD, DONE), (Event::ReverseAll, DONE)], &[CANCELED]),
        (
            "a parcel",
            &[(HOLD, DONE), (PART_200, DONE)],
            &[PossibleState { held_minor: 300, ..completed(200) }],
        ),
        (
            "a parcel lost, then the last",
            &[(HOLD, DONE), (PART_200, Outcome::Unknown), (PRESENT, DONE)],
            &[completed(500), completed(700)],
        ),
        ("more", &[(HOLD, DONE), (ADD_100, DONE)], &[pending(600)]),
        ("no more", &[(HOLD, DONE), (ADD_100, Outcome::Refused)], &[pending(500)]),
        (
            "perhaps more",
            &[(HOLD, DONE), (ADD_100, Outcome::Unknown)],
            &[pending(500), pending(600)],
        ),
        (
            "perhaps more, then cleared",
            &[(HOLD, DONE), (ADD_100, Outcome::Unknown), (PRESENT, DONE)],
            &[completed(500)],
        ),
        ("kept 200", &[(HOLD, DONE), (KEEP_200, DONE)], &[pending(200)]),
        ("kept 0", &[(HOLD, DONE), (Event::ReverseTo { held_minor: 0 }, DONE)], &[CANCELED]),
        (
            "kept and cleared",
            &[(HOLD, DONE), (KEEP_200, DONE), (Event::Present { amount_minor: 200 }, DONE)],
            &[completed(200)],
        ),
        (
            "96 then reversed",
            &[(HOLD, Outcome::Unknown), (Event::ReverseAll, DONE)],
            &[ABSENT, DECLINED, CANCELED],
        ),
        (
            "presentment lost",
            &[(HOLD, DONE), (PRESENT, Outcome::Unknown)],
            &[pending(500), completed(500)],
        ),
        (
            "reversal refused",
            &[(HOLD, DONE), (Event::ReverseAll, Outcome::Refused)],
            &[pending(500)],
        ),
        ("overtaken", &[(HOLD, Outcome::Refused), (Event::ReverseAll, DONE)], &[DECLINED]),
        (
            "0200 reversed",
            &[(Event::Post { amount_minor: 500 }, DONE), (Event::ReverseAll, DONE)],
            &[CANCELED],
        ),
    ];
    for (name, messages, expected) in rows {
        assert_eq!(worlds_after(messages, 0), *expected, "{name}");
    }
}

#[test]
fn completions_and_refunds_lead_to_the_states_they_allow() {
    let rows: &[(&str, Messages, &[PossibleState])] = &[
        ("filled up", &[(HOLD, DONE), (FUEL_300, DONE)], &[pending(300)]),
        (
            "perhaps filled up",
            &[(HOLD, DONE), (FUEL_300, Outcome::Unknown)],
            &[pending(300), pending(500)],
        ),
        ("refunded", &[(REFUND, DONE)], &[completed(500)]),
        ("refund reversed", &[(REFUND, DONE), (Event::ReverseAll, DONE)], &[CANCELED]),
    ];
    for (name, messages, expected) in rows {
        assert_eq!(worlds_after(messages, 0), *expected, "{name}");
    }
}

#[test]
fn an_old_hold_may_have_expired() {
    assert_eq!(worlds_after(&[(HOLD, DONE)], 6 * DAY_US), [pending(500)]);
    assert_eq!(worlds_after(&[(HOLD, DONE)], 7 * DAY_US), [pending(500), CANCELED]);
    assert_eq!(worlds_after(&[(HOLD, DONE), (PRESENT, DONE)], 9 * DAY_US), [completed(500)]);
}

#[test]
fn a_repeat_may_settle_what_was_unknown_but_not_change_what_was_certain() {
    let mut books = Books::default();
    books.open(0, 0, 7, 0);
    let hold = books.sent(0, HOLD).unwrap();
    books.answered(hold, Outcome::Unknown);
    books.answered(hold, DONE);
    books.answered(hold, Outcome::Refused);
    assert_eq!(books.purchases[&0].worlds_at(0), [pending(500)]);
}

#[test]
fn a_repeat_that_is_not_taken_settles_nothing() {
    let mut books = Books::default();
    books.open(0, 0, 7, 0);
    let hold = books.sent(0, HOLD).unwrap();
    books.answered(hold, Outcome::Unknown);
    books.answered(hold, Outcome::NotTaken);
    assert_eq!(books.purchases[&0].worlds_at(0).len(), 3);
}

#[test]
fn bounds_add_up_over_a_card() {
    let mut books = Books::default();
    for (purchase, outcome) in [(0, DONE), (1, Outcome::Unknown), (2, Outcome::Refused)] {
        books.open(purchase, 4, 100 + purchase, 0);
        let entry = books.sent(purchase, HOLD).unwrap();
        books.answered(entry, outcome);
    }
    books.open(3, 4, 103, 0);
    let refund = books.sent(3, REFUND).unwrap();
    books.answered(refund, DONE);
    assert_eq!(books.spent_bounds(4, 0), (500, 1000));
    assert_eq!(books.spent_bounds(5, 0), (0, 0));
}

/// A purchase of 500 that has settled, and its refund; the amount taken and the flag then.
#[test]
fn a_refund_gives_back_no_more_than_was_paid() {
    type Row = (&'static str, Messages, (i64, i64), bool);
    let rows: &[Row] = &[
        ("whole", &[(REFUND, DONE)], (0, 0), false),
        (
            "in part",
            &[(Event::Refund { amount_minor: 120 }, Outcome::Accepted { amount_minor: 120 })],
            (380, 380),
            false,
        ),
        (
            "over",
            &[(Event::Refund { amount_minor: 600 }, Outcome::Accepted { amount_minor: 600 })],
            (0, 0),
            true,
        ),
        ("perhaps", &[(REFUND, Outcome::Unknown)], (0, 500), false),
        ("refused", &[(REFUND, Outcome::Refused)], (500, 500), false),
        ("taken back", &[(REFUND, DONE), (Event::ReverseAll, DONE)], (500, 500), false),
        (
            "perhaps taken back",
            &[(REFUND, DONE), (Event::ReverseAll, Outcome::Unknown)],
            (0, 500),
            false,
        ),
    ];
    for (name, messages, spent, is_over) in rows {
        let mut books = Books::default();
        books.open(0, 4, 100, 0);
        for event in [HOLD, PRESENT] {
            let entry = books.sent(0, event).unwrap();
            books.answered(entry, DONE);
        }
        books.open_refund(0, 101, 0);
        for (event, outcome) in *messages {
            let entry = books.sent_of_refund(0, *event).unwrap();
            books.answered(entry, *outcome);
        }
        assert_eq!(books.spent_bounds(4, 0), *spent, "{name}");
        let refund = &books.purchases[&refund_page(0)];
        assert_eq!(books.is_over_refunded(refund, 0), Some(*is_over), "{name}");
        let view = |rrn, world, over_refunded| TransactionView {
            rrn,
            world,
            response_code: Some(0),
            over_refunded,
        };
        let refunded = *refund.worlds_at(0).last().unwrap();
        for (flag, differences) in [(None, 0), (Some(*is_over), 0), (Some(!is_over), 1)] {
            let views = [view(100, completed(500), Some(false)), view(101, refunded, flag)];
            let found = books.compare(4, &views, 0, |_| true);
            assert_eq!(found.len(), differences, "{name}: {found:?}");
        }
    }
}

#[test]
fn what_the_switch_shows_is_compared() {
    let mut books = Books::default();
    books.open(0, 4, 100, 0);
    let entry = books.sent(0, HOLD).unwrap();
    books.answered(entry, DONE);
    books.set_response_code(0, 0);
    let view = |rrn, world, code| TransactionView {
        rrn,
        world,
        response_code: Some(code),
        over_refunded: None,
    };
    let rows: &[(&str, Vec<TransactionView>, usize)] = &[
        ("right", vec![view(100, pending(500), 0)], 0),
        ("another run's", vec![view(100, pending(500), 0), view(9, pending(1), 0)], 0),
        ("missing", vec![], 1),
        ("twice", vec![view(100, pending(500), 0), view(100, pending(500), 0)], 1),
        ("other amount", vec![view(100, pending(501), 0)], 1),
        ("other state", vec![view(100, completed(500), 0)], 1),
        ("other code", vec![view(100, pending(500), 1502)], 1),
        ("invented", vec![view(100, pending(500), 0), view(101, pending(5), 0)], 1),
    ];
    for (name, views, expected) in rows {
        let mismatches = books.compare(4, views, 0, |rrn| rrn >= 100);
        assert_eq!(mismatches.len(), *expected, "{name}: {mismatches:?}");
    }
}
