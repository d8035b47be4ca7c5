//! Slowing down who guesses passwords, one-time codes, client secrets and what opens shared links.
//!
//! | of | after wrong tries | because |
//! |---|---|---|
//! | an account | the next try waits, longer each time, at most 5 s | guesses come from many addresses |
//! | an address | refused until the minute is over; on pages it waits 5 s, as far as there is room | one sender tries many accounts |
//! | an app that has proven itself | as an address, with a much higher bound | its server asks for everybody who uses it |
//!
//! Nobody can lock an account whose password they do not know: a right password counts however many
//! wrong ones came before. Tries under way count as wrong until they are judged, so that those at the
//! same time slow each other down, and of one source only a few work at once, which is what keeps it
//! from taking all places where passwords are hashed. A try that is not judged (whoever asked hung
//! up, or the switch could not tell) blames nobody. Accounts that do not exist are slowed like those
//! that do. All of it is forgotten when the process ends.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cardswitch_engine::domain::ids::{AppId, SharedLinkId, UserId};
use cardswitch_engine::domain::member::email_key;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::link_guesses::LinkGuesses;
use crate::error::ApiError;
use crate::secrets::token_digest;

/// How many wrong tries an account has before the next one waits.
const FREE_TRIES: u32 = 3;
/// How long the first try that waits does so; each after it twice as long.
const DELAY_FIRST: Duration = Duration::from_millis(250);
/// The longest that a try waits.
const DELAY_MAX: Duration = Duration::from_secs(5);
/// After how long wrong tries are forgotten.
const MEMORY: Duration = Duration::from_secs(15 * 60);
/// In what time the wrong tries of a source are counted.
const WINDOW: Duration = Duration::from_secs(60);
/// How many of them an address may have, with those under way.
const WRONG_PER_ADDRESS_MAX: u32 = 100;
/// How many more may wait on pages.
const PATIENT_PER_ADDRESS_MAX: u32 = 16;
/// How many of one address work at the same time.
const AT_ONCE_PER_ADDRESS: usize = 8;
/// How many wrong tries an app may have, with those under way.
const WRONG_PER_APP_MAX: u32 = 5_000;
/// How many of one app work at the same time.
const AT_ONCE_PER_APP: usize = 64;
/// How many accounts, and how many sources, are remembered in each of two halves.
const REMEMBERED_MAX: usize = 20_000;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// From where it came.
    Address(IpAddr),
    /// The app that has proven itself by its secret.
    App(AppId),
}

impl Source {
    /// Whom it counts against: who has one IPv6 address has 2^64 of them.
    pub(super) fn counted(self) -> Self {
        match self {
            Self::Address(address) => Self::Address(network_of(address)),
            Self::App(_) => self,
        }
    }

    const fn wrong_max(self) -> u32 {
        match self {
            Self::Address(_) => WRONG_PER_ADDRESS_MAX,
            Self::App(_) => WRONG_PER_APP_MAX,
        }
    }

    const fn at_once_max(self) -> usize {
        match self {
            Self::Address(_) => AT_ONCE_PER_ADDRESS,
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
#[derive(Debug, Default)]
pub struct Throttle {
    accounts: Mutex<Halves<[u8; 32], Tries>>,
    sources: Mutex<Halves<Source, Window>>,
    /// What is tried at shared links.
    pub links: LinkGuesses,
}

/// A try under way. It counts as wrong until it ends; from then on only where it was judged so.
#[derive(Debug)]
#[must_use = "a try that is not judged blames nobody"]
pub struct Attempt<'a> {
    throttle: &'a Throttle,
    account: Option<[u8; 32]>,
    source: Option<Source>,
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
    /// Errors: too many from this source wait already.
    pub async fn admit_on_page(
        &self,
        account: Option<Account<'_>>,
        address: IpAddr,
    ) -> Result<Attempt<'_>, TooMany> {
        self.admit_or(Beyond::Waits, account, Some(Source::Address(address))).await
    }

    /// Errors: too many from this source.
    pub async fn admit_or(
        &self,
        beyond: Beyond,
        account: Option<Account<'_>>,
        source: Option<Source>,
    ) -> Result<Attempt<'_>, TooMany> {
        let (source, now) = (source.map(Source::counted), Instant::now());
        let counted = source.map(|source| self.count_source(source, beyond, now)).transpose()?;
        let account = account.map(Account::key);
        let mut attempt = Attempt { throttle: self, account, source, place: None, verdict: None };
        let wait = account.map_or(Duration::ZERO, |key| self.count_account(key, now));
        let wait = counted.as_ref().map_or(wait, |(due, _)| wait.max(*due));
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
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
        let mut sources = self.sources.lock();
        let window = sources.entry(source, || Window::new(source, now));
        let age = now.saturating_duration_since(window.began);
        if age >= WINDOW {
            (window.began, window.wrong) = (now, 0);
        }
        let known = window.wrong.saturating_add(window.under_way);
        let mut wait = Duration::ZERO;
        if known >= source.wrong_max() {
            if beyond == Beyond::Refused || window.under_way >= PATIENT_PER_ADDRESS_MAX {
                return Err(too_many(WINDOW.saturating_sub(age)));
            }
            wait = DELAY_MAX;
        }
        window.under_way = window.under_way.saturating_add(1);
        Ok((wait, Arc::clone(&window.places)))
    }

    fn judge_source(&self, source: Source, verdict: Option<Verdict>, now: Instant) {
        let mut sources = self.sources.lock();
        let window = sources.entry(source, || Window::new(source, now));
        window.under_way = window.under_way.saturating_sub(1);
        if verdict == Some(Verdict::Wrong) {
            if now.saturating_duration_since(window.began) >= WINDOW {
                (window.began, window.wrong) = (now, 0);
            }
            window.wrong = window.wrong.saturating_add(1);
        }
    }

    /// Counts a try of an account as under way: how long it waits.
    fn count_account(&self, key: [u8; 32], now: Instant) -> Duration {
        let mut accounts = self.accounts.lock();
        let tries = accounts.entry(key, || Tries { wrong: 0, under_way: 0, last: now });
        if now.saturating_duration_since(tries.last) >= MEMORY {
            tries.wrong = 0;
        }
        let wait = delay_after(tries.wrong.saturating_add(tries.under_way));
        tries.under_way = tries.under_way.saturating_add(1);
        tries.last = now;
        wait
    }

    fn judge_account(&self, key: [u8; 32], verdict: Option<Verdict>, now: Instant) {
        let mut accounts = self.accounts.lock();
        let tries = accounts.entry(key, || Tries { wrong: 0, under_way: 0, last: now });
        tries.under_way = tries.under_way.saturating_sub(1);
        match verdict {
            Some(Verdict::Right) => tries.wrong = 0,
            Some(Verdict::Wrong) => tries.wrong = tries.wrong.saturating_add(1),
            None => {}
        }
        if tries.wrong == 0 && tries.under_way == 0 {
            accounts.remove(&key);
        }
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
        if let Some(key) = self.account {
            self.throttle.judge_account(key, self.verdict, now);
        }
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
#[derive(Clone, Copy, Debug)]
struct Tries {
    wrong: u32,
    under_way: u32,
    last: Instant,
}

/// The tries of a source in a minute.
#[derive(Clone, Debug)]
struct Window {
    began: Instant,
    wrong: u32,
    under_way: u32,
    /// Where they work, one after the other where there are more.
    places: Arc<Semaphore>,
}

impl Window {
    fn new(source: Source, began: Instant) -> Self {
        let places = Arc::new(Semaphore::new(source.at_once_max()));
        Self { began, wrong: 0, under_way: 0, places }
    }
}

/// A map of bounded size: when its young half is full, the old half is forgotten.
#[derive(Debug)]
pub(super) struct Halves<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K, V> Default for Halves<K, V> {
    fn default() -> Self {
        Self { young: HashMap::new(), old: HashMap::new() }
    }
}

impl<K: Copy + Eq + std::hash::Hash, V> Halves<K, V> {
    pub(super) fn entry(&mut self, key: K, fresh: impl FnOnce() -> V) -> &mut V {
        let known = self.old.remove(&key);
        if !self.young.contains_key(&key) && self.young.len() >= REMEMBERED_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.entry(key).or_insert_with(|| known.unwrap_or_else(fresh))
    }

    fn remove(&mut self, key: &K) {
        self.young.remove(key);
        self.old.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 32] = [1; 32];

    impl<K: Copy + Eq + std::hash::Hash, V> Halves<K, V> {
        fn get_mut(&mut self, key: &K) -> Option<&mut V> {
            self.young.get_mut(key).or_else(|| self.old.get_mut(key))
        }
    }

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

    #[test]
    fn an_account_is_never_refused_and_its_wrong_tries_are_forgotten() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        let mut waits = Vec::new();
        for _ in 0..1_000 {
            waits.push(throttle.count_account(KEY, start));
        }
        assert_eq!(waits[..3], [Duration::ZERO; 3], "those under way slow each other down");
        assert!(waits.is_sorted() && waits[999] == DELAY_MAX);
        for _ in 0..1_000 {
            throttle.judge_account(KEY, Some(Verdict::Wrong), start);
        }
        assert_eq!(throttle.count_account([2; 32], start), Duration::ZERO);
        assert_eq!(throttle.count_account(KEY, start), DELAY_MAX);
        assert_eq!(throttle.count_account(KEY, start + MEMORY), Duration::ZERO);
        for _ in 0..5 {
            throttle.judge_account(KEY, Some(Verdict::Wrong), start + MEMORY);
        }
        assert!(!throttle.count_account(KEY, start + MEMORY).is_zero());
        throttle.judge_account(KEY, Some(Verdict::Right), start + MEMORY);
        assert_eq!(throttle.count_account(KEY, start + MEMORY), Duration::ZERO);
    }

    #[test]
    fn what_is_not_judged_blames_nobody() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        for _ in 0..1_000 {
            assert_eq!(throttle.count_account(KEY, start), Duration::ZERO);
            throttle.judge_account(KEY, None, start);
            throttle.count_source(address("203.0.113.7"), Beyond::Refused, start).unwrap();
            throttle.judge_source(address("203.0.113.7"), None, start);
        }
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
        assert!(next.is_pending(), "the ninth waits");
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
            throttle.judge_account(KEY, Some(Verdict::Right), now);
            throttle.judge_account(KEY, Some(Verdict::Wrong), now);
            throttle.count_account(KEY, now);
            let account = Some(KEY);
            let throttle = &throttle;
            let attempt = Attempt { throttle, account, source: None, place: None, verdict: None };
            attempt.judge(&answered);
            let known = throttle.accounts.lock().get_mut(&KEY).map_or(0, |tries| tries.wrong);
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

    #[test]
    fn memory_is_bounded() {
        let mut halves = Halves::default();
        for key in 0..3 * REMEMBERED_MAX {
            *halves.entry(key, || 0) += 1;
            assert!(halves.young.len() + halves.old.len() <= 2 * REMEMBERED_MAX);
        }
        assert_eq!(halves.get_mut(&0), None);
        let last = 3 * REMEMBERED_MAX - 1;
        assert_eq!(halves.get_mut(&last), Some(&mut 1));
        // What is asked for again stays.
        let kept = REMEMBERED_MAX;
        assert_eq!(*halves.entry(kept, || 0), 1);
    }
}
