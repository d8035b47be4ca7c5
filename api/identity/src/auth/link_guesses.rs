//! Bounds on tries at shared links: answers to their passphrases, and looks at their card numbers.
//!
//! Passphrases that people choose (a date, a pet) are soon guessed, and each look is a record. The
//! window is a quarter of an hour, after which the count begins anew. The holder of a link can
//! keep others from its passphrase only with tries that go on from several addresses, and visitors
//! who have answered before are not held up. Tries under way count until they are given back, so
//! many at once are no way around. The counts are forgotten when the process ends; none that
//! refuses a caller is forgotten earlier.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use cardswitch_acquiring::address_counts::network_of;
use cardswitch_bounds::Windows;
use cardswitch_engine::domain::ids::SharedLinkId;
use parking_lot::Mutex;

use super::throttle::{TooManyTries, too_many};

/// The window in which tries are counted.
const WINDOW: Duration = Duration::from_secs(15 * 60);
/// How many windows are remembered.
const WINDOWS_MAX: usize = 40_000;
/// Wrong answers at a link from one address, in a window.
const ANSWERS_PER_ADDRESS_MAX: u32 = 10;
/// Wrong answers at a link from all addresses, in a window.
const ANSWERS_PER_LINK_MAX: u32 = 30;
/// Looks at a link from one address, in a window.
const LOOKS_PER_ADDRESS_MAX: u32 = 30;
/// Looks at a link from all addresses, in a window.
const LOOKS_PER_LINK_MAX: u32 = 200;

/// The kind of a try at a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GuessKind {
    /// An answer to its passphrase.
    Answer,
    /// A look at its card number.
    Look,
}

impl GuessKind {
    const fn per_address_max(self) -> u32 {
        match self {
            Self::Answer => ANSWERS_PER_ADDRESS_MAX,
            Self::Look => LOOKS_PER_ADDRESS_MAX,
        }
    }

    const fn per_link_max(self) -> u32 {
        match self {
            Self::Answer => ANSWERS_PER_LINK_MAX,
            Self::Look => LOOKS_PER_LINK_MAX,
        }
    }
}

/// The counted tries: those of one address at a link, or those of all.
type GuessKey = (GuessKind, SharedLinkId, Option<IpAddr>);

/// Remembers tries at shared links.
#[derive(Debug)]
pub struct LinkGuesses {
    windows: Mutex<Windows<GuessKey>>,
}

impl Default for LinkGuesses {
    fn default() -> Self {
        Self { windows: Mutex::new(Windows::new(WINDOW, WINDOWS_MAX)) }
    }
}

/// A try under way. It is given back when it ends, unless it is said to count.
#[derive(Debug)]
#[must_use = "a try that is not said to count is given back"]
pub struct Guess<'a> {
    guesses: &'a LinkGuesses,
    keys: [GuessKey; 2],
    is_kept: bool,
}

impl LinkGuesses {
    /// Lets a try begin.
    /// Errors: too many from this address, or at this link.
    pub fn begin(
        &self,
        tried: GuessKind,
        link: SharedLinkId,
        address: IpAddr,
    ) -> Result<Guess<'_>, TooManyTries> {
        self.begin_at(tried, link, address, Instant::now())
    }

    fn begin_at(
        &self,
        tried: GuessKind,
        link: SharedLinkId,
        address: IpAddr,
        now: Instant,
    ) -> Result<Guess<'_>, TooManyTries> {
        let keys = [(tried, link, Some(network_of(address))), (tried, link, None)];
        let bounds = [(keys[0], tried.per_address_max()), (keys[1], tried.per_link_max())];
        self.windows.lock().take(bounds, now).map_err(too_many)?;
        Ok(Guess { guesses: self, keys, is_kept: false })
    }
}

impl Guess<'_> {
    /// It counts until its window is over.
    pub fn counts(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Guess<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            // A try that began in an earlier window is not counted in this one. One try more helps
            // nobody.
            self.guesses.windows.lock().give_back(self.keys);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use uuid::Uuid;

    use super::*;

    const LINK: SharedLinkId = SharedLinkId(Uuid::from_bytes([5; 16]));
    const OTHER: SharedLinkId = SharedLinkId(Uuid::from_bytes([6; 16]));

    fn address(last: u8) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(203, 0, 113, last))
    }

    #[test]
    fn an_address_is_refused_until_the_window_is_over_and_others_are_not() {
        let (guesses, start) = (LinkGuesses::default(), Instant::now());
        let begin = |link, last, now| guesses.begin_at(GuessKind::Answer, link, address(last), now);
        for _ in 0..GuessKind::Answer.per_address_max() {
            begin(LINK, 1, start).unwrap().counts();
        }
        let half = start + WINDOW / 2;
        assert_eq!(begin(LINK, 1, half).unwrap_err(), TooManyTries { retry_after_s: 451 });
        assert!(begin(LINK, 2, half).is_ok() && begin(OTHER, 1, half).is_ok());
        assert!(guesses.begin_at(GuessKind::Look, LINK, address(1), half).is_ok());
        assert!(begin(LINK, 1, start + WINDOW).is_ok());
    }

    #[test]
    fn a_link_is_not_guessed_from_many_addresses_either() {
        let (guesses, start) = (LinkGuesses::default(), Instant::now());
        let begin = |last, now| guesses.begin_at(GuessKind::Answer, LINK, address(last), now);
        let taken = (0..=u8::MAX).filter(|last| {
            let begun = begin(*last, start);
            begun.is_ok_and(|guess| {
                guess.counts();
                true
            })
        });
        assert_eq!(taken.count(), usize::try_from(GuessKind::Answer.per_link_max()).unwrap());
        assert!(begin(7, start + WINDOW - Duration::from_secs(1)).is_err());
        assert!(begin(7, start + WINDOW).is_ok(), "nobody is locked out for ever");
    }

    #[test]
    fn tries_under_way_count_and_right_ones_are_given_back() {
        let guesses = LinkGuesses::default();
        let begin = || guesses.begin(GuessKind::Answer, LINK, address(1));
        let mut under_way: Vec<_> =
            (0..GuessKind::Answer.per_address_max()).map(|_| begin().unwrap()).collect();
        assert!(begin().is_err(), "they need not have failed yet");
        under_way.pop();
        assert!(begin().is_ok());
        drop(under_way);
        for _ in 0..100 {
            drop(begin().unwrap());
        }
    }

    /// 43,000 requests elsewhere made room for further guesses at a link that had none left.
    #[test]
    fn a_link_without_guesses_left_gets_none_by_requests_elsewhere() {
        let (guesses, now) = (LinkGuesses::default(), Instant::now());
        let begin = |link, at| guesses.begin_at(GuessKind::Answer, link, at, now);
        for last in 0..GuessKind::Answer.per_link_max() {
            begin(LINK, address(u8::try_from(last).unwrap())).unwrap().counts();
        }
        for number in 0..45_000_u32 {
            let elsewhere = SharedLinkId(Uuid::from_u128(u128::from(number % 50)));
            if let Ok(guess) = begin(elsewhere, IpAddr::V4(Ipv4Addr::from(number))) {
                guess.counts();
            }
        }
        assert!(begin(LINK, address(200)).is_err());
    }
}
