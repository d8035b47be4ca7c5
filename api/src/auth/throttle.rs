//! Slowing down who guesses passwords, one-time codes and client secrets.
//!
//! | of | after wrong tries | because |
//! |---|---|---|
//! | an account | the next try waits, longer each time, at most 5 s | guesses come from many addresses |
//! | a second factor | the same, and one try at a time: more are refused | codes are short, and only who knows the password can try |
//! | an address | refused until the minute is over | one sender tries many accounts |
//!
//! Nobody can lock an account whose password they do not know: a right password counts however many
//! wrong ones came before. The tries of an account count as wrong until they are told right, so that
//! those under way at the same time slow each other down; an address is blamed when they have failed,
//! since one sender may ask for many people. Accounts that do not exist are slowed like those that do.
//! All of it is forgotten when the process ends.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use cardswitch_engine::domain::ids::UserId;
use cardswitch_engine::domain::member::email_key;
use parking_lot::Mutex;

use crate::secrets::token_digest;

/// How many wrong tries an account has before the next one waits.
const FREE_TRIES: u32 = 3;
/// How long the first try that waits does so; each after it twice as long.
const DELAY_FIRST: Duration = Duration::from_millis(250);
/// The longest that a try waits.
const DELAY_MAX: Duration = Duration::from_secs(5);
/// After how long wrong tries are forgotten.
const MEMORY: Duration = Duration::from_secs(15 * 60);
/// In what time the wrong tries of an address are counted.
const WINDOW: Duration = Duration::from_secs(60);
/// How many of them there may be.
const WRONG_PER_ADDRESS_MAX: u32 = 100;
/// How many accounts, and how many addresses, are remembered in each of two halves.
const REMEMBERED_MAX: usize = 20_000;

/// What is tried.
#[derive(Clone, Copy, Debug)]
pub enum Account<'a> {
    /// The password of who has this e-mail address.
    Password(&'a str),
    /// The second factor of this user.
    SecondFactor(UserId),
}

impl Account<'_> {
    /// Of fixed length, so that memory is bounded whatever is sent.
    fn key(self) -> [u8; 32] {
        match self {
            Self::Password(email) => token_digest(&format!("password {}", email_key(email))),
            Self::SecondFactor(user) => token_digest(&format!("second factor {}", user.0)),
        }
    }
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
    addresses: Mutex<Halves<IpAddr, Window>>,
}

/// A try under way: wrong, unless it is told right.
#[derive(Debug)]
#[must_use = "a try is wrong unless it is told right"]
pub struct Attempt<'a> {
    throttle: &'a Throttle,
    account: Option<[u8; 32]>,
    address: Option<IpAddr>,
    is_right: bool,
}

impl Throttle {
    /// Lets a try begin, after the wait that its account is due.
    /// Errors: too many from this address, or too many of this second factor at once.
    pub async fn admit(
        &self,
        account: Option<Account<'_>>,
        address: Option<IpAddr>,
    ) -> Result<Attempt<'_>, TooMany> {
        let address = address.map(network_of);
        self.check_address(address, Instant::now())?;
        let key = account.map(Account::key);
        let is_alone = matches!(account, Some(Account::SecondFactor(_)));
        let wait = key
            .map_or(Ok(Duration::ZERO), |key| self.count_account(key, is_alone, Instant::now()))?;
        let attempt = Attempt { throttle: self, account: key, address, is_right: false };
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        Ok(attempt)
    }

    fn check_address(&self, address: Option<IpAddr>, now: Instant) -> Result<(), TooMany> {
        let Some(address) = address else { return Ok(()) };
        let mut addresses = self.addresses.lock();
        let Some(window) = addresses.get_mut(&address) else { return Ok(()) };
        let age = now.saturating_duration_since(window.began);
        if age < WINDOW && window.wrong >= WRONG_PER_ADDRESS_MAX {
            return Err(too_many(WINDOW - age));
        }
        Ok(())
    }

    fn blame_address(&self, address: Option<IpAddr>, now: Instant) {
        let Some(address) = address else { return };
        let mut addresses = self.addresses.lock();
        let window = addresses.entry(address, || Window { began: now, wrong: 0 });
        if now.saturating_duration_since(window.began) >= WINDOW {
            *window = Window { began: now, wrong: 0 };
        }
        window.wrong = window.wrong.saturating_add(1);
    }

    /// How long the next try of an account waits.
    fn count_account(
        &self,
        key: [u8; 32],
        is_alone: bool,
        now: Instant,
    ) -> Result<Duration, TooMany> {
        let mut accounts = self.accounts.lock();
        let tries = accounts.entry(key, || Tries { wrong: 0, last: now, turn: now });
        if now.saturating_duration_since(tries.last) >= MEMORY {
            *tries = Tries { wrong: 0, last: now, turn: now };
        }
        let delay = delay_after(tries.wrong);
        let turn = if is_alone { tries.turn.max(now) + delay } else { now + delay };
        let wait = turn.saturating_duration_since(now);
        if wait > DELAY_MAX {
            return Err(too_many(wait));
        }
        *tries = Tries { wrong: tries.wrong.saturating_add(1), last: now, turn };
        Ok(wait)
    }
}

impl Attempt<'_> {
    /// It was right: the account's wrong tries are forgotten, and the address is not blamed.
    pub fn succeeded(mut self) {
        self.is_right = true;
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if !self.is_right {
            self.throttle.blame_address(self.address, Instant::now());
        } else if let Some(key) = self.account {
            self.throttle.accounts.lock().remove(&key);
        }
    }
}

/// How long a try waits after so many wrong ones.
fn delay_after(wrong: u32) -> Duration {
    let Some(doublings) = wrong.checked_sub(FREE_TRIES) else { return Duration::ZERO };
    let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
    DELAY_FIRST.saturating_mul(factor).min(DELAY_MAX)
}

fn too_many(wait: Duration) -> TooMany {
    let seconds = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX);
    TooMany { retry_after_s: seconds.saturating_add(1) }
}

/// Who has one IPv6 address has 2^64 of them.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6([a, b, c, d, 0, 0, 0, 0].into())
        }
        IpAddr::V4(address) => IpAddr::V4(address),
    }
}

/// The wrong tries of an account.
#[derive(Clone, Copy, Debug)]
struct Tries {
    wrong: u32,
    last: Instant,
    /// When the last try that was let begin did so.
    turn: Instant,
}

/// The wrong tries of an address in a minute.
#[derive(Clone, Copy, Debug)]
struct Window {
    began: Instant,
    wrong: u32,
}

/// A map of bounded size: when its young half is full, the old half is forgotten.
#[derive(Debug)]
struct Halves<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K, V> Default for Halves<K, V> {
    fn default() -> Self {
        Self { young: HashMap::new(), old: HashMap::new() }
    }
}

impl<K: Copy + Eq + std::hash::Hash, V> Halves<K, V> {
    fn entry(&mut self, key: K, fresh: impl FnOnce() -> V) -> &mut V {
        let known = self.old.remove(&key);
        if !self.young.contains_key(&key) && self.young.len() >= REMEMBERED_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.entry(key).or_insert_with(|| known.unwrap_or_else(fresh))
    }

    fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.young.get_mut(key).or_else(|| self.old.get_mut(key))
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

    impl Throttle {
        fn attempt(&self, key: [u8; 32]) -> Attempt<'_> {
            Attempt { throttle: self, account: Some(key), address: None, is_right: false }
        }
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
            waits.push(throttle.count_account(KEY, false, start).unwrap());
        }
        assert_eq!(waits[..3], [Duration::ZERO; 3]);
        assert!(waits.is_sorted() && waits[999] == DELAY_MAX);
        assert_eq!(throttle.count_account([2; 32], false, start), Ok(Duration::ZERO));
        let later = start + MEMORY;
        assert_eq!(throttle.count_account(KEY, false, later), Ok(Duration::ZERO));
        throttle.attempt(KEY).succeeded();
        assert_eq!(throttle.count_account(KEY, false, later), Ok(Duration::ZERO));
    }

    #[test]
    fn second_factors_are_tried_one_after_the_other() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        let admitted = (0..1_000)
            .map(|_| throttle.count_account(KEY, true, start))
            .take_while(Result::is_ok)
            .count();
        // Free ones, then 0.25 + 0.5 + 1 + 2 seconds: the next would begin after more than five.
        assert_eq!(admitted, 7);
        let minute = start + Duration::from_secs(60);
        assert_eq!(throttle.count_account(KEY, true, minute), Ok(Duration::from_secs(4)));
    }

    #[test]
    fn an_address_is_refused_until_its_minute_is_over() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        let address = Some("203.0.113.7".parse().unwrap());
        for _ in 0..WRONG_PER_ADDRESS_MAX {
            assert_eq!(throttle.check_address(address, start), Ok(()));
            throttle.blame_address(address, start);
        }
        let half = start + WINDOW / 2;
        assert_eq!(throttle.check_address(address, half), Err(TooMany { retry_after_s: 31 }));
        assert!(throttle.check_address(Some("203.0.113.8".parse().unwrap()), half).is_ok());
        assert!(throttle.check_address(None, half).is_ok());
        assert!(throttle.check_address(address, start + WINDOW).is_ok());
    }

    #[tokio::test]
    async fn who_is_right_is_not_blamed() {
        let throttle = Throttle::default();
        let address = Some("203.0.113.7".parse().unwrap());
        for _ in 0..2 * WRONG_PER_ADDRESS_MAX {
            let tried = Some(Account::Password("ada@example.com"));
            throttle.admit(tried, address).await.unwrap().succeeded();
        }
        for _ in 0..WRONG_PER_ADDRESS_MAX {
            drop(throttle.admit(None, address).await.unwrap());
        }
        assert!(throttle.admit(None, address).await.is_err());
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
