//! Lines, sources and tries together.

use cardswitch_engine::domain::ids::AppId;

use super::lines::{FREE_TRIES, LINE_MAX, MEMORY, SLOWED_AFTER, delay_after};
use super::sources::{
    AT_ONCE_PER_ADDRESS, PATIENT_PER_ADDRESS_MAX, WINDOW, WRONG_PER_ADDRESS_MAX, WRONG_PER_APP_MAX,
};
use super::*;

const KEY: AttemptBudget = AttemptBudget::Account([1; 32]);

fn address(text: &str) -> Source {
    Source::Address(text.parse().unwrap())
}

#[test]
fn waits_grow_to_a_bound() {
    let rows = [(0, 0), (2, 0), (3, 250), (4, 500), (7, 4_000), (8, 5_000), (4_000_000, 5_000)];
    for (wrong, wait_ms) in rows {
        assert_eq!(delay_after(wrong), Duration::from_millis(wait_ms), "{wrong}");
    }
}

/// Counts and judges a try.
fn try_account(
    throttle: &Throttle,
    budget: AttemptBudget,
    verdict: Option<AttemptVerdict>,
    now: Instant,
) {
    throttle.lines.enter(budget, now).unwrap();
    throttle.lines.leave(budget, verdict, now);
}

#[test]
fn an_accounts_waits_grow_and_its_wrong_tries_are_forgotten() {
    let (throttle, start) = (Throttle::default(), Instant::now());
    let due = |budget, now| {
        throttle.lines.enter(budget, now).unwrap();
        let due = throttle.lines.due(budget, now);
        throttle.lines.leave(budget, None, now);
        due
    };
    let mut waits = Vec::new();
    for _ in 0..SLOWED_AFTER + 2 {
        waits.push(due(KEY, start));
        try_account(&throttle, KEY, Some(AttemptVerdict::Wrong), start);
    }
    assert_eq!(waits[..3], [Duration::ZERO; 3]);
    assert!(waits.is_sorted() && waits[SLOWED_AFTER as usize] == DELAY_MAX, "{waits:?}");
    assert_eq!(due(AttemptBudget::Account([2; 32]), start), Duration::ZERO);
    assert_eq!(due(AttemptBudget::Device([1; 32]), start), Duration::ZERO, "a budget of its own");
    assert_eq!(due(KEY, start + DELAY_MAX / 2), DELAY_MAX / 2, "what has passed counts");
    assert_eq!(due(KEY, start + MEMORY), Duration::ZERO);
    for _ in 0..5 {
        try_account(&throttle, KEY, Some(AttemptVerdict::Wrong), start + MEMORY);
    }
    assert!(!due(KEY, start + MEMORY).is_zero());
    try_account(&throttle, KEY, Some(AttemptVerdict::Right), start + MEMORY);
    assert_eq!(due(KEY, start + MEMORY), Duration::ZERO);
}

#[test]
fn what_is_not_judged_blames_nobody() {
    let (throttle, start) = (Throttle::default(), Instant::now());
    for _ in 0..1_000 {
        try_account(&throttle, KEY, None, start);
        throttle.sources.begin(address("203.0.113.7"), ExcessPolicy::Refused, start).unwrap();
        throttle.sources.end(address("203.0.113.7"), None, start);
    }
    throttle.lines.enter(KEY, start).unwrap();
    assert_eq!(throttle.lines.due(KEY, start), Duration::ZERO);
}

#[test]
fn a_line_is_bounded_and_who_leaves_it_makes_room() {
    let (throttle, now) = (Throttle::default(), Instant::now());
    for _ in 0..LINE_MAX {
        throttle.lines.enter(KEY, now).unwrap();
    }
    assert!(throttle.lines.enter(KEY, now).is_err());
    assert!(throttle.lines.enter(AttemptBudget::Device([1; 32]), now).is_ok());
    throttle.lines.leave(KEY, None, now);
    assert!(throttle.lines.enter(KEY, now).is_ok());
}

/// 511 guesses a minute were judged at one account, since those at the same time waited at the
/// same time.
#[tokio::test]
async fn a_guess_in_flight_holds_its_accounts_turn_and_no_devices() {
    let throttle = Throttle::default();
    let ada = Some(AttemptTarget::Password("ada@example.com"));
    let (one, other) = (address("203.0.113.7"), address("203.0.113.8"));
    let (phone, laptop) = (Source::Device([7; 16]), Source::Device([8; 16]));
    let guess = throttle.admit(ada, Some(one)).await.unwrap();
    let mut next = waiting(throttle.admit(ada, Some(other)));
    assert!(next.is_pending(), "another address, and the same account");
    let elsewhere = Some(AttemptTarget::Password("bob@example.com"));
    drop(throttle.admit(elsewhere, Some(other)).await.unwrap());
    let on_phone = throttle.admit(ada, Some(phone)).await.unwrap();
    assert!(waiting(throttle.admit(ada, Some(phone))).is_pending(), "one after the other, too");
    drop(throttle.admit(ada, Some(laptop)).await.unwrap());
    on_phone.failed();
    guess.failed();
    assert!(next.admitted().await);
    for _ in 0..FREE_TRIES {
        throttle.admit(ada, Some(one)).await.unwrap().failed();
    }
    let mut slowed = waiting(throttle.admit(ada, Some(other)));
    assert!(slowed.is_pending(), "it has its turn and waits");
    assert!(waiting(throttle.admit(ada, Some(one))).is_pending(), "behind that one");
    throttle.admit(ada, Some(phone)).await.unwrap().succeeded();
    assert!(slowed.admitted().await);
}

#[test]
fn a_source_is_refused_until_its_minute_is_over() {
    let (one, other) = (address("203.0.113.7"), address("203.0.113.8"));
    let app = Source::App(AppId(uuid::Uuid::from_u128(1)));
    for (source, max) in [(one, WRONG_PER_ADDRESS_MAX), (app, WRONG_PER_APP_MAX)] {
        let (throttle, start) = (Throttle::default(), Instant::now());
        let count = |source, now| throttle.sources.begin(source, ExcessPolicy::Refused, now);
        for _ in 0..max {
            count(source, start).unwrap();
            throttle.sources.end(source, Some(AttemptVerdict::Wrong), start);
        }
        let half = start + WINDOW / 2;
        assert_eq!(count(source, half).unwrap_err(), TooManyTries { retry_after_s: 31 });
        assert!(count(other, half).is_ok());
        assert!(count(source, start + WINDOW).is_ok());
    }
}

#[test]
fn tries_under_way_count_until_they_are_given_back() {
    let (throttle, now) = (Throttle::default(), Instant::now());
    let source = address("203.0.113.7");
    let count = |beyond| throttle.sources.begin(source, beyond, now);
    for _ in 0..WRONG_PER_ADDRESS_MAX {
        count(ExcessPolicy::Refused).unwrap();
    }
    assert!(count(ExcessPolicy::Refused).is_err(), "they need not have failed yet");
    assert!(count(ExcessPolicy::Waits).is_err(), "nor is there room to wait");
    throttle.sources.end(source, Some(AttemptVerdict::Right), now);
    assert!(count(ExcessPolicy::Refused).is_ok());
}

#[test]
fn people_wait_where_programs_are_refused() {
    let (throttle, now) = (Throttle::default(), Instant::now());
    let source = address("203.0.113.7");
    for _ in 0..WRONG_PER_ADDRESS_MAX {
        throttle.sources.begin(source, ExcessPolicy::Refused, now).unwrap();
        throttle.sources.end(source, Some(AttemptVerdict::Wrong), now);
    }
    assert!(throttle.sources.begin(source, ExcessPolicy::Refused, now).is_err());
    for _ in 0..PATIENT_PER_ADDRESS_MAX {
        let (wait, _) = throttle.sources.begin(source, ExcessPolicy::Waits, now).unwrap();
        assert_eq!(wait, DELAY_MAX);
    }
    assert!(throttle.sources.begin(source, ExcessPolicy::Waits, now).is_err());
}

#[tokio::test]
async fn few_of_one_address_work_at_once() {
    let throttle = Throttle::default();
    let source = Some(address("203.0.113.7"));
    let mut working = Vec::new();
    for _ in 0..AT_ONCE_PER_ADDRESS {
        working.push(throttle.admit(None, source).await.unwrap());
    }
    let mut next = waiting(throttle.admit(None, source));
    assert!(next.is_pending(), "the next one waits");
    let other = throttle.admit(None, Some(address("203.0.113.8"))).await;
    assert!(other.is_ok(), "which is nothing to others");
    working.pop();
    assert!(next.admitted().await);
}

/// A try that may have to wait.
struct WaitingTry<'a>(
    std::pin::Pin<Box<dyn Future<Output = Result<AdmittedAttempt<'a>, TooManyTries>> + Send + 'a>>,
);

fn waiting<'a>(
    admitted: impl Future<Output = Result<AdmittedAttempt<'a>, TooManyTries>> + Send + 'a,
) -> WaitingTry<'a> {
    WaitingTry(Box::pin(admitted))
}

impl WaitingTry<'_> {
    fn is_pending(&mut self) -> bool {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        self.0.as_mut().poll(&mut context).is_pending()
    }

    async fn admitted(self) -> bool {
        self.0.await.is_ok()
    }
}

#[tokio::test]
async fn who_is_right_is_not_blamed() {
    let throttle = Throttle::default();
    let source = Some(address("203.0.113.7"));
    for _ in 0..2 * WRONG_PER_ADDRESS_MAX {
        let tried = Some(AttemptTarget::Password("ada@example.com"));
        throttle.admit(tried, source).await.unwrap().succeeded();
    }
    for _ in 0..WRONG_PER_ADDRESS_MAX {
        throttle.admit(None, source).await.unwrap().failed();
    }
    assert!(throttle.admit(None, source).await.is_err());
}

#[test]
fn answers_judge() {
    let throttle = Throttle::default();
    let rows = [
        (Ok(()), 0),
        (Err(ApiError::invalid_client()), 2),
        (Err(ApiError::wrong_answer()), 2),
        (Err(ApiError::too_many_requests(5)), 1),
        (Err(ApiError::outcome_unknown()), 1),
        (Err(ApiError::internal(&"x")), 1),
    ];
    for (answered, wrong) in rows {
        let now = Instant::now();
        try_account(&throttle, KEY, Some(AttemptVerdict::Right), now);
        try_account(&throttle, KEY, Some(AttemptVerdict::Wrong), now);
        throttle.lines.enter(KEY, now).unwrap();
        let (throttle, budget, source) = (&throttle, Some(KEY), None);
        let (turn, place, verdict) = (None, None, None);
        AdmittedAttempt { throttle, budget, source, turn, place, verdict }.judge(&answered);
        assert_eq!(throttle.lines.wrong(KEY), wrong, "{answered:?}");
    }
}

#[test]
fn accounts_are_the_same_in_any_case_and_kinds_apart() {
    let key = |email| AttemptTarget::Password(email).key();
    assert_eq!(key("ada@example.com"), key("ADA@example.com"));
    assert_ne!(key("ada@example.com"), key("bob@example.com"));
    let user = UserId(uuid::Uuid::from_u128(1));
    assert_ne!(AttemptTarget::SecondFactor(user).key(), key(&user.0.to_string()));
}
