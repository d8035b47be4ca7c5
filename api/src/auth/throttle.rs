//! Slowing down who guesses passwords, one-time codes, client secrets and what opens shared links.
//!
//! | budget of | after wrong tries | because |
//! |---|---|---|
//! | an account | tries are judged one after the other, each after a wait that grows to 5 s | guesses come from many addresses |
//! | a device that signed in to the account before | the same, apart from everybody else | guesses of others do not hold up the owner |
//! | an address | tries are judged one after the other; beyond a bound refused until the minute is over; on pages the next waits 5 s, as far as there is room | one sender tries many accounts |
//! | an app that has proven itself | as an address, with much higher bounds | its server asks for everybody who uses it |
//!
//! A try holds the turn of its account from before its wait until it is judged, so as many at once
//! are no more than as many in a row. A bounded number waits in line, each for a bounded time. A right
//! password counts however many wrong ones came before. A try that is not judged (whoever asked hung
//! up, or the switch could not tell) blames nobody. Accounts that do not exist are slowed like those
//! that do. All of it is forgotten when the process ends, and nothing that holds somebody back before.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cardswitch_engine::domain::ids::{AppId, SharedLinkId, UserId};
use cardswitch_engine::domain::member::email_key;
use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};

use super::failures::SignInFailures;
use super::link_guesses::LinkGuesses;
use crate::bounded::{BLOCKING, BoundedTable, Entry, share};
use crate::error::ApiError;
use crate::secrets::token_digest;

/// How many wrong tries an account has before the next one waits.
const FREE_TRIES: u32 = 3;
/// How long the first try that waits does so; each after it twice as long.
const DELAY_FIRST: Duration = Duration::from_millis(250);
/// The longest that a try waits.
const DELAY_MAX: Duration = Duration::from_secs(5);
/// After so many wrong tries every further one waits that long.
const SLOWED_AFTER: u32 = 8;
/// How many tries of an account may be under way: one is judged, the others wait in line.
const LINE_MAX: u32 = 64;
/// How long one waits in line.
const LINE_WAIT_MAX: Duration = Duration::from_secs(20);
/// After how long wrong tries are forgotten.
const MEMORY: Duration = Duration::from_secs(15 * 60);
/// In what time the wrong tries of a source are counted.
const WINDOW: Duration = Duration::from_secs(60);
/// How many of them an address may have, with those under way.
const WRONG_PER_ADDRESS_MAX: u32 = 100;
/// How many more may wait on pages.
const PATIENT_PER_ADDRESS_MAX: u32 = 16;
/// How many of one address work at the same time.
const AT_ONCE_PER_ADDRESS: usize = 1;
/// How many wrong tries an app may have, with those under way.
const WRONG_PER_APP_MAX: u32 = 5_000;
/// How many of one app work at the same time.
const AT_ONCE_PER_APP: usize = 64;
/// How many accounts, devices and sources are remembered of each.
const REMEMBERED_MAX: usize = 40_000;

/// What is tried.
#[derive(Clone, Copy, Debug)]
pub enum Account<'a> {
    /// The password of who has this e-mail address.
    Password(&'a str),
    /// The second factor of this user.
    SecondFactor(UserId),
    /// The passphrase of this shared link.
    SharedLink(SharedLinkId),
}

impl Account<'_> {
    /// Of fixed length, so that memory is bounded whatever is sent.
    fn key(self) -> [u8; 32] {
        match self {
            Self::Password(email) => token_digest(&format!("password {}", email_key(email))),
            Self::SecondFactor(user) => token_digest(&format!("second factor {}", user.0)),
            Self::SharedLink(link) => token_digest(&format!("shared link {}", link.0)),
        }
    }
}

/// Who is answerable for a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// From where it came.
    Address(IpAddr),
    /// The device that signed in to the account before, wherever it is.
    Device([u8; 16]),
    /// The app that has proven itself by its secret.
    App(AppId),
}

impl Source {
    /// Whom it counts against: who has one IPv6 address has 2^64 of them.
    pub(super) fn counted(self) -> Self {
        match self {
            Self::Address(address) => Self::Address(network_of(address)),
            Self::Device(_) | Self::App(_) => self,
        }
    }

    const fn wrong_max(self) -> u32 {
        match self {
            Self::Address(_) | Self::Device(_) => WRONG_PER_ADDRESS_MAX,
            Self::App(_) => WRONG_PER_APP_MAX,
        }
    }

    const fn at_once_max(self) -> usize {
        match self {
            Self::Address(_) | Self::Device(_) => AT_ONCE_PER_ADDRESS,
            Self::App(_) => AT_ONCE_PER_APP,
        }
    }
}

/// What becomes of a try whose source had too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond {
    /// It is refused: programs come back by themselves.
    Refused,
    /// It waits, as far as there is room: people would have to type again.
    Waits,
}

/// Too many tries; when to come back. Units: seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany {
    /// How long to wait.
    pub retry_after_s: u32,
}

/// Remembers wrong tries.
#[derive(Debug)]
pub struct Throttle {
    /// Of everybody else than devices.
    accounts: Mutex<BoundedTable<[u8; 32], Tries>>,
    /// Apart, for nobody who never signed in gets a place in here.
    devices: Mutex<BoundedTable<[u8; 32], Tries>>,
    sources: Mutex<BoundedTable<Source, SourceTries>>,
    /// What is tried at shared links.
    pub links: LinkGuesses,
    /// Who is told of wrong tries.
    pub failures: SignInFailures,
}

impl Default for Throttle {
    fn default() -> Self {
        Self {
            accounts: Mutex::new(BoundedTable::new(REMEMBERED_MAX)),
            devices: Mutex::new(BoundedTable::new(REMEMBERED_MAX)),
            sources: Mutex::new(BoundedTable::new(REMEMBERED_MAX)),
            links: LinkGuesses::default(),
            failures: SignInFailures::default(),
        }
    }
}

/// Whose tries count together: everybody's at an account, or those of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Budget {
    Account([u8; 32]),
    Device([u8; 32]),
}

impl Budget {
    fn of(account: Account<'_>, source: Option<Source>) -> Self {
        let key = account.key();
        let Some(Source::Device(device)) = source else { return Self::Account(key) };
        Self::Device(token_digest(&format!("{key:?} {device:?}")))
    }
}

/// A try under way. Where it is judged wrong, it counts when it ends.
#[derive(Debug)]
#[must_use = "a try that is not judged blames nobody"]
pub struct Attempt<'a> {
    throttle: &'a Throttle,
    budget: Option<Budget>,
    source: Option<Source>,
    /// The turn of its account.
    turn: Option<OwnedMutexGuard<()>>,
    place: Option<OwnedSemaphorePermit>,
    verdict: Option<Verdict>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Right,
    Wrong,
}

impl Throttle {
    /// Lets a try of a program begin, after the wait that its account is due.
    /// Errors: too many from this source.
    pub async fn admit(
        &self,
        account: Option<Account<'_>>,
        source: Option<Source>,
    ) -> Result<Attempt<'_>, TooMany> {
        self.admit_or(Beyond::Refused, account, source).await
    }

    /// Lets a try of a person on a page begin, after the waits that its account and its source are
    /// due.
    /// Errors: too many from this source, or at this account, wait already.
    pub async fn admit_on_page(
        &self,
        account: Option<Account<'_>>,
        source: Source,
    ) -> Result<Attempt<'_>, TooMany> {
        self.admit_or(Beyond::Waits, account, Some(source)).await
    }

    /// Errors: too many from this source, or at this account.
    pub async fn admit_or(
        &self,
        beyond: Beyond,
        account: Option<Account<'_>>,
        source: Option<Source>,
    ) -> Result<Attempt<'_>, TooMany> {
        let (source, now) = (source.map(Source::counted), Instant::now());
        let counted = source.map(|source| self.count_source(source, beyond, now)).transpose()?;
        let mut attempt = Attempt {
            throttle: self,
            budget: None,
            source,
            turn: None,
            place: None,
            verdict: None,
        };
        if let Some((wait, _)) = counted.as_ref().filter(|(wait, _)| !wait.is_zero()) {
            tokio::time::sleep(*wait).await;
        }
        if let Some(budget) = account.map(|account| Budget::of(account, source)) {
            let turn = self.enter_line(budget, now)?;
            attempt.budget = Some(budget);
            let turn = tokio::time::timeout(LINE_WAIT_MAX, turn.lock_owned()).await;
            attempt.turn = Some(turn.map_err(|_| too_many(DELAY_MAX))?);
            // Nobody else is judged until this one is.
            tokio::time::sleep(self.due(budget, Instant::now())).await;
        }
        if let Some((_, places)) = counted {
            // Nobody closes it; without a place the try would only be less bounded.
            attempt.place = places.acquire_owned().await.ok();
        }
        Ok(attempt)
    }

    /// Counts a try of a source as under way: how long it waits, and among whom it works.
    fn count_source(
        &self,
        source: Source,
        beyond: Beyond,
        now: Instant,
    ) -> Result<(Duration, Arc<Semaphore>), TooMany> {
        let fresh = || SourceTries::new(source, now);
        let counted = self.sources.lock().change(source, now, fresh, |tries| {
            tries.begin_anew_after_window(now);
            let mut wait = Duration::ZERO;
            if tries.is_full() {
                if beyond == Beyond::Refused || tries.under_way >= PATIENT_PER_ADDRESS_MAX {
                    let age = now.saturating_duration_since(tries.began);
                    return Err(too_many(WINDOW.saturating_sub(age)));
                }
                wait = DELAY_MAX;
            }
            tries.under_way = tries.under_way.saturating_add(1);
            Ok((wait, Arc::clone(&tries.places)))
        });
        counted.unwrap_or_else(|_| Err(too_many(WINDOW)))
    }

    fn judge_source(&self, source: Source, verdict: Option<Verdict>, now: Instant) {
        self.sources.lock().change_known(source, |tries| {
            tries.under_way = tries.under_way.saturating_sub(1);
            if verdict == Some(Verdict::Wrong) {
                tries.begin_anew_after_window(now);
                tries.wrong = tries.wrong.saturating_add(1);
            }
        });
    }

    const fn table(&self, budget: Budget) -> (&Mutex<BoundedTable<[u8; 32], Tries>>, [u8; 32]) {
        match budget {
            Budget::Account(key) => (&self.accounts, key),
            Budget::Device(key) => (&self.devices, key),
        }
    }

    /// Puts a try into the line of its account.
    /// Errors: the line is too long, or so many accounts are under attack that there is no room.
    fn enter_line(&self, budget: Budget, now: Instant) -> Result<Arc<AsyncMutex<()>>, TooMany> {
        let (table, key) = self.table(budget);
        let entered = table.lock().change(
            key,
            now,
            || Tries::new(now),
            |tries| {
                (tries.under_way < LINE_MAX).then(|| {
                    tries.under_way += 1;
                    Arc::clone(&tries.turn)
                })
            },
        );
        entered.ok().flatten().ok_or_else(|| too_many(LINE_WAIT_MAX))
    }

    /// How long the try whose turn it is waits.
    fn due(&self, budget: Budget, now: Instant) -> Duration {
        let (table, key) = self.table(budget);
        let due = table.lock().change_known(key, |tries| {
            let age = now.saturating_duration_since(tries.last);
            if age >= MEMORY {
                tries.wrong = 0;
            }
            delay_after(tries.wrong).saturating_sub(age)
        });
        due.unwrap_or(DELAY_MAX)
    }

    fn judge_account(&self, budget: Budget, verdict: Option<Verdict>, now: Instant) {
        let (table, key) = self.table(budget);
        table.lock().change_known(key, |tries| {
            tries.under_way = tries.under_way.saturating_sub(1);
            match verdict {
                Some(Verdict::Right) => tries.wrong = 0,
                Some(Verdict::Wrong) => {
                    (tries.wrong, tries.last) = (tries.wrong.saturating_add(1), now);
                }
                None => {}
            }
        });
    }
}

impl Attempt<'_> {
    /// It was right: the account's wrong tries are forgotten.
    pub fn succeeded(mut self) {
        self.verdict = Some(Verdict::Right);
    }

    /// It was wrong.
    pub fn failed(mut self) {
        self.verdict = Some(Verdict::Wrong);
    }

    /// Right with an answer, wrong where the request is at fault; an overloaded or broken switch says
    /// nothing about it.
    pub fn judge<T>(self, answered: &Result<T, ApiError>) {
        match answered {
            Ok(_) => self.succeeded(),
            Err(error) if [400, 401, 403].contains(&error.status().as_u16()) => self.failed(),
            Err(_) => {}
        }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let now = Instant::now();
        if let Some(source) = self.source {
            self.throttle.judge_source(source, self.verdict, now);
        }
        if let Some(budget) = self.budget {
            self.throttle.judge_account(budget, self.verdict, now);
        }
        // Only now the next one's wait is known.
        self.turn.take();
    }
}

/// How long a try waits after so many wrong ones.
fn delay_after(wrong: u32) -> Duration {
    let Some(doublings) = wrong.checked_sub(FREE_TRIES) else { return Duration::ZERO };
    let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
    DELAY_FIRST.saturating_mul(factor).min(DELAY_MAX)
}

pub(super) fn too_many(wait: Duration) -> TooMany {
    let seconds = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX);
    TooMany { retry_after_s: seconds.saturating_add(1) }
}

/// The address itself, or the /64 that an IPv6 address is of.
pub(crate) fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6([a, b, c, d, 0, 0, 0, 0].into())
        }
        IpAddr::V4(address) => IpAddr::V4(address),
    }
}

/// The tries of an account.
#[derive(Clone, Debug)]
struct Tries {
    wrong: u32,
    under_way: u32,
    last: Instant,
    turn: Arc<AsyncMutex<()>>,
}

impl Tries {
    fn new(last: Instant) -> Self {
        Self { wrong: 0, under_way: 0, last, turn: Arc::default() }
    }
}

impl Entry for Tries {
    type Time = Instant;

    fn ends_at(&self) -> Option<Instant> {
        match (self.under_way, self.wrong) {
            (0, 0) => Some(self.last),
            (0, _) => Some(self.last + MEMORY),
            _ => None,
        }
    }

    fn weight(&self) -> u64 {
        // Whose turn it is must not be forgotten while somebody has it.
        if self.under_way > 0 { BLOCKING } else { share(self.wrong, SLOWED_AFTER) }
    }
}

/// The tries of a source in a minute.
#[derive(Clone, Debug)]
struct SourceTries {
    began: Instant,
    wrong: u32,
    wrong_max: u32,
    under_way: u32,
    /// Where they work, one after the other where there are more.
    places: Arc<Semaphore>,
}

impl SourceTries {
    fn new(source: Source, began: Instant) -> Self {
        let places = Arc::new(Semaphore::new(source.at_once_max()));
        Self { began, wrong: 0, wrong_max: source.wrong_max(), under_way: 0, places }
    }

    /// Whether so many were wrong, or may still be, that the next is beyond.
    const fn is_full(&self) -> bool {
        self.wrong.saturating_add(self.under_way) >= self.wrong_max
    }

    fn begin_anew_after_window(&mut self, now: Instant) {
        if now.saturating_duration_since(self.began) >= WINDOW {
            (self.began, self.wrong) = (now, 0);
        }
    }
}

impl Entry for SourceTries {
    type Time = Instant;

    fn ends_at(&self) -> Option<Instant> {
        (self.under_way == 0).then(|| self.began + WINDOW)
    }

    fn weight(&self) -> u64 {
        if self.under_way > 0 { BLOCKING } else { share(self.wrong, self.wrong_max) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Budget = Budget::Account([1; 32]);

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
    fn try_account(throttle: &Throttle, budget: Budget, verdict: Option<Verdict>, now: Instant) {
        throttle.enter_line(budget, now).unwrap();
        throttle.judge_account(budget, verdict, now);
    }

    #[test]
    fn an_accounts_waits_grow_and_its_wrong_tries_are_forgotten() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        let due = |budget, now| {
            throttle.enter_line(budget, now).unwrap();
            let due = throttle.due(budget, now);
            throttle.judge_account(budget, None, now);
            due
        };
        let mut waits = Vec::new();
        for _ in 0..SLOWED_AFTER + 2 {
            waits.push(due(KEY, start));
            try_account(&throttle, KEY, Some(Verdict::Wrong), start);
        }
        assert_eq!(waits[..3], [Duration::ZERO; 3]);
        assert!(waits.is_sorted() && waits[SLOWED_AFTER as usize] == DELAY_MAX, "{waits:?}");
        assert_eq!(due(Budget::Account([2; 32]), start), Duration::ZERO);
        assert_eq!(due(Budget::Device([1; 32]), start), Duration::ZERO, "a budget of its own");
        assert_eq!(due(KEY, start + DELAY_MAX / 2), DELAY_MAX / 2, "what has passed counts");
        assert_eq!(due(KEY, start + MEMORY), Duration::ZERO);
        for _ in 0..5 {
            try_account(&throttle, KEY, Some(Verdict::Wrong), start + MEMORY);
        }
        assert!(!due(KEY, start + MEMORY).is_zero());
        try_account(&throttle, KEY, Some(Verdict::Right), start + MEMORY);
        assert_eq!(due(KEY, start + MEMORY), Duration::ZERO);
    }

    #[test]
    fn what_is_not_judged_blames_nobody() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        for _ in 0..1_000 {
            try_account(&throttle, KEY, None, start);
            throttle.count_source(address("203.0.113.7"), Beyond::Refused, start).unwrap();
            throttle.judge_source(address("203.0.113.7"), None, start);
        }
        throttle.enter_line(KEY, start).unwrap();
        assert_eq!(throttle.due(KEY, start), Duration::ZERO);
    }

    #[test]
    fn a_line_is_bounded_and_who_leaves_it_makes_room() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        for _ in 0..LINE_MAX {
            throttle.enter_line(KEY, now).unwrap();
        }
        assert!(throttle.enter_line(KEY, now).is_err());
        assert!(throttle.enter_line(Budget::Device([1; 32]), now).is_ok());
        throttle.judge_account(KEY, None, now);
        assert!(throttle.enter_line(KEY, now).is_ok());
    }

    /// 511 guesses a minute were judged at one account, since those at the same time waited at the
    /// same time.
    #[tokio::test]
    async fn a_guess_in_flight_holds_its_accounts_turn_and_no_devices() {
        let throttle = Throttle::default();
        let ada = Some(Account::Password("ada@example.com"));
        let (one, other) = (address("203.0.113.7"), address("203.0.113.8"));
        let (phone, laptop) = (Source::Device([7; 16]), Source::Device([8; 16]));
        let guess = throttle.admit(ada, Some(one)).await.unwrap();
        let mut next = waiting(throttle.admit(ada, Some(other)));
        assert!(next.is_pending(), "another address, and the same account");
        let elsewhere = Some(Account::Password("bob@example.com"));
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
            let count = |source, now| throttle.count_source(source, Beyond::Refused, now);
            for _ in 0..max {
                count(source, start).unwrap();
                throttle.judge_source(source, Some(Verdict::Wrong), start);
            }
            let half = start + WINDOW / 2;
            assert_eq!(count(source, half).unwrap_err(), TooMany { retry_after_s: 31 });
            assert!(count(other, half).is_ok());
            assert!(count(source, start + WINDOW).is_ok());
        }
    }

    #[test]
    fn tries_under_way_count_until_they_are_given_back() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        let source = address("203.0.113.7");
        let count = |beyond| throttle.count_source(source, beyond, now);
        for _ in 0..WRONG_PER_ADDRESS_MAX {
            count(Beyond::Refused).unwrap();
        }
        assert!(count(Beyond::Refused).is_err(), "they need not have failed yet");
        assert!(count(Beyond::Waits).is_err(), "nor is there room to wait");
        throttle.judge_source(source, Some(Verdict::Right), now);
        assert!(count(Beyond::Refused).is_ok());
    }

    #[test]
    fn people_wait_where_programs_are_refused() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        let source = address("203.0.113.7");
        for _ in 0..WRONG_PER_ADDRESS_MAX {
            throttle.count_source(source, Beyond::Refused, now).unwrap();
            throttle.judge_source(source, Some(Verdict::Wrong), now);
        }
        assert!(throttle.count_source(source, Beyond::Refused, now).is_err());
        for _ in 0..PATIENT_PER_ADDRESS_MAX {
            let (wait, _) = throttle.count_source(source, Beyond::Waits, now).unwrap();
            assert_eq!(wait, DELAY_MAX);
        }
        assert!(throttle.count_source(source, Beyond::Waits, now).is_err());
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
    struct Waiting<'a>(
        std::pin::Pin<Box<dyn Future<Output = Result<Attempt<'a>, TooMany>> + Send + 'a>>,
    );

    fn waiting<'a>(
        admitted: impl Future<Output = Result<Attempt<'a>, TooMany>> + Send + 'a,
    ) -> Waiting<'a> {
        Waiting(Box::pin(admitted))
    }

    impl Waiting<'_> {
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
            let tried = Some(Account::Password("ada@example.com"));
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
            try_account(&throttle, KEY, Some(Verdict::Right), now);
            try_account(&throttle, KEY, Some(Verdict::Wrong), now);
            throttle.enter_line(KEY, now).unwrap();
            let (throttle, budget, source) = (&throttle, Some(KEY), None);
            let (turn, place, verdict) = (None, None, None);
            Attempt { throttle, budget, source, turn, place, verdict }.judge(&answered);
            let (table, key) = throttle.table(KEY);
            let known = table.lock().change_known(key, |tries| tries.wrong).unwrap_or_default();
            assert_eq!(known, wrong, "{answered:?}");
        }
    }

    #[test]
    fn accounts_are_the_same_in_any_case_and_kinds_apart() {
        let key = |email| Account::Password(email).key();
        assert_eq!(key("ada@example.com"), key("ADA@example.com"));
        assert_ne!(key("ada@example.com"), key("bob@example.com"));
        let user = UserId(uuid::Uuid::from_u128(1));
        assert_ne!(Account::SecondFactor(user).key(), key(&user.0.to_string()));
    }

    #[test]
    fn addresses_of_one_network_are_one() {
        let rows = [
            ("203.0.113.7", "203.0.113.7"),
            ("::ffff:203.0.113.7", "203.0.113.7"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ];
        for (address, network) in rows {
            let network: IpAddr = network.parse().unwrap();
            assert_eq!(network_of(address.parse().unwrap()), network, "{address}");
        }
    }
}
