//! An acquirer's zone: its keys, and which of them count at which time by the rules that the documents state.

use std::time::Duration;

use cardswitch_engine::directory::exchanged_key::NewExchangedKey;
use cardswitch_engine::domain::ids::{ExchangedKeyId, Timestamp};
use cardswitch_secrets::{SealedSecret, Secrets};
use cardswitch_zone::MacAlgorithm;

use super::keys::{self, Cipher};
use crate::rng::Rng;

/// The time that a key before counts beside the newest.
pub(super) const OVERLAP: Duration = Duration::from_secs(60);
/// The most that the time of a new key may be ahead. Units: microseconds.
const AHEAD_MAX: i64 = 600_000_000;

/// The use of a key that is exchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum KeyUse {
    Mac,
    Pin,
}

/// From when to when something happened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) from: Duration,
    pub(super) to: Duration,
}

/// The keys of an acquirer.
pub(super) struct ZoneBook {
    pub(super) master: Vec<u8>,
    pub(super) mac: Option<(MacAlgorithm, KeyHistory)>,
    pub(super) pin: Option<KeyHistory>,
    /// The key that those of chip cards derive from.
    pub(super) issuer: Option<Vec<u8>>,
}

impl ZoneBook {
    /// Draws the keys of a door that opens now; none in some worlds.
    pub(super) fn draw(
        (rng, more): (&mut Rng, &mut Rng),
        now: Duration,
        wall: i64,
    ) -> Option<Self> {
        if rng.chance(35) {
            return None;
        }
        let algorithm =
            rng.pick(&[MacAlgorithm::Retail1, MacAlgorithm::Retail2, MacAlgorithm::Cmac]);
        let usage = if algorithm == MacAlgorithm::Cmac { "M6" } else { "M3" };
        let has_pin = rng.chance(50);
        let has_mac = !has_pin || rng.chance(70);
        let mut history = |usage: &'static str, rng: &mut Rng| {
            let is_aes = match usage {
                "M3" => false,
                "M6" => more.chance(60),
                _ => more.chance(50),
            };
            let cipher = if is_aes { Cipher::Aes } else { Cipher::Tdes };
            let mut key = drawn_key(rng, 16);
            let further = match (usage, cipher) {
                ("M3", _) => 0,
                (_, Cipher::Tdes) => 8 * more.below(2),
                (_, Cipher::Aes) => 8 * more.below(3),
            };
            key.extend(drawn_key(more, further as usize));
            KeyHistory::new(usage, (cipher, key), now, wall)
        };
        let mac = has_mac.then(|| (algorithm, history(usage, rng)));
        let pin = has_pin.then(|| history("P0", rng));
        let issuer = more.chance(40).then(|| drawn_key(more, 16));
        Some(Self { master: drawn_key(rng, 24), mac, pin, issuer })
    }

    pub(super) fn history(&self, of: KeyUse) -> Option<&KeyHistory> {
        match of {
            KeyUse::Mac => self.mac.as_ref().map(|(_, history)| history),
            KeyUse::Pin => self.pin.as_ref(),
        }
    }

    pub(super) fn history_mut(&mut self, of: KeyUse) -> Option<&mut KeyHistory> {
        match of {
            KeyUse::Mac => self.mac.as_mut().map(|(_, history)| history),
            KeyUse::Pin => self.pin.as_mut(),
        }
    }

    /// The key that a command of the engine brings, by its generation.
    pub(super) fn generation_of(
        &self,
        new: &NewExchangedKey,
        secrets: &Secrets,
    ) -> Option<(KeyUse, usize)> {
        let is_of = |of: &KeyUse| self.history(*of).is_some_and(|all| all.usage == new.usage);
        let of = [KeyUse::Mac, KeyUse::Pin].into_iter().find(is_of)?;
        let id = ExchangedKeyId::of(&new.door, &new.usage);
        let opened = secrets.open(SealedSecret::ZoneKey(id), &new.sealed)?;
        let mut keys = self.history(of)?.generations.iter();
        let (letter, key) = opened.split_first()?;
        assert_eq!(char::from(*letter), self.history(of)?.cipher.letter(), "the cipher of a key");
        Some((of, keys.position(|generation| generation.key == key)?))
    }

    /// The code over a message, with a key of this generation.
    pub(super) fn code(&self, generation: usize, message: &[u8]) -> [u8; 8] {
        let (algorithm, history) = self.mac.as_ref().unwrap();
        let key = (history.cipher, history.generations[generation].key.as_slice());
        keys::code_of(*algorithm, key, message)
    }

    /// The generation of the key that a code was made with.
    pub(super) fn maker_of(&self, code: [u8; 8], message: &[u8]) -> Option<usize> {
        let count = self.history(KeyUse::Mac)?.generations.len();
        // Answers are under new keys most often.
        (0..count).rev().find(|generation| self.code(*generation, message) == code)
    }
}

fn drawn_key(rng: &mut Rng, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|_| rng.below(256) as u8).collect()
}

/// A key, with the time of its message. Units: microseconds since 1970.
#[derive(Clone)]
pub(super) struct Generation {
    pub(super) key: Vec<u8>,
    pub(super) sent_at: i64,
    /// The number of its message; 0 for the key of the file.
    pub(super) number: u64,
}

/// The keys of a door at a time, by generation.
#[derive(Clone, Copy)]
struct KeyState {
    since: Duration,
    now: usize,
    /// With the end of its time.
    before: Option<(usize, Duration)>,
    /// The time of the newest message; no later one was accepted. Units: microseconds since 1970.
    newest_at: i64,
}

/// The keys of one use, from the first.
pub(super) struct KeyHistory {
    pub(super) usage: &'static str,
    pub(super) generations: Vec<Generation>,
    states: Vec<KeyState>,
    /// The newest that the acquirer knows to count.
    pub(super) confirmed: usize,
    pub(super) cipher: Cipher,
}

impl KeyHistory {
    fn new(
        usage: &'static str,
        (cipher, key): (Cipher, Vec<u8>),
        now: Duration,
        wall: i64,
    ) -> Self {
        let first = Generation { key, sent_at: 0, number: 0 };
        let state = KeyState { since: now, now: 0, before: None, newest_at: wall };
        Self { usage, generations: vec![first], states: vec![state], confirmed: 0, cipher }
    }

    /// A new key, which a message of this number brings.
    pub(super) fn add(&mut self, rng: &mut Rng, sent_at: i64, number: u64) -> usize {
        let key = drawn_key(rng, self.generations[0].key.len());
        self.generations.push(Generation { key, sent_at, number });
        self.generations.len() - 1
    }

    /// The engine has kept a key: it counts from now on.
    pub(super) fn take(&mut self, generation: usize, now: Duration) {
        let (last, sent_at) = (*self.states.last().unwrap(), self.generations[generation].sent_at);
        let until = now + OVERLAP;
        // Behind its successor, a key is itself the key before.
        self.states.push(match sent_at > last.newest_at {
            true => KeyState {
                since: now,
                now: generation,
                before: Some((last.now, until)),
                newest_at: sent_at,
            },
            false => KeyState { since: now, before: Some((generation, until)), ..last },
        });
    }

    /// The door opens again, with the keys that the engine has kept: the last of them, and the end of the time
    /// of the key before. Units: microseconds since 1970.
    pub(super) fn reopen(
        &mut self,
        kept: &[usize],
        overlap_until: Timestamp,
        (now, wall): (Duration, i64),
    ) {
        let Some((newest, earlier)) = kept.split_last() else {
            self.states.push(KeyState { since: now, now: 0, before: None, newest_at: wall });
            return;
        };
        let left = overlap_until.0.saturating_sub(wall).max(0) as u64;
        let until = now + Duration::from_micros(left).min(OVERLAP);
        self.states.push(KeyState {
            since: now,
            now: *newest,
            before: Some((earlier.last().copied().unwrap_or(0), until)),
            newest_at: wall.max(self.generations[*newest].sent_at),
        });
    }

    /// Whether a condition held at some time of a span.
    fn held(&self, span: Span, condition: impl Fn(&KeyState, Span) -> bool) -> bool {
        let ends = self.states.iter().skip(1).map(|state| state.since).chain([Duration::MAX]);
        self.states.iter().zip(ends).any(|(state, end)| {
            let part = Span { from: span.from.max(state.since), to: span.to.min(end) };
            part.from <= part.to && condition(state, part)
        })
    }

    pub(super) fn may_count(&self, generation: usize, span: Span) -> bool {
        self.held(span, |state, part| {
            let is_before = |(before, until)| before == generation && part.from < until;
            state.now == generation || state.before.is_some_and(is_before)
        })
    }

    pub(super) fn may_not_count(&self, generation: usize, span: Span) -> bool {
        self.held(span, |state, part| {
            let is_before = |(before, until)| before == generation && part.to < until;
            state.now != generation && !state.before.is_some_and(is_before)
        })
    }

    pub(super) fn may_be_newest(&self, generation: usize, span: Span) -> bool {
        self.held(span, |state, _| state.now == generation)
    }

    /// Whether the door may have refused the message of a key for its time. Units: microseconds since 1970.
    pub(super) fn may_be_refused(&self, generation: usize, span: Span, wall_from: i64) -> bool {
        let sent_at = self.generations[generation].sent_at;
        let is_ahead = sent_at > wall_from - wall_from % 1_000_000 + AHEAD_MAX;
        is_ahead || self.held(span, |state, _| state.newest_at >= sent_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Span {
        Span { from: Duration::from_secs(seconds), to: Duration::from_secs(seconds) }
    }

    #[test]
    fn a_key_counts_from_its_exchange_until_a_minute_after_the_next() {
        let mut rng = Rng::new(1);
        let mut history = KeyHistory::new("M3", (Cipher::Tdes, vec![0; 16]), Duration::ZERO, 5);
        let [first, second] = [10, 20].map(|sent_at| history.add(&mut rng, sent_at, 1));
        history.take(second, Duration::from_secs(100));
        let counts = |history: &KeyHistory, key, seconds| {
            let may = history.may_count(key, at(seconds));
            assert_ne!(may, history.may_not_count(key, at(seconds)), "an instant leaves no doubt");
            may
        };
        assert!(counts(&history, 0, 159) && counts(&history, second, 159));
        assert!(!counts(&history, 0, 160) && !counts(&history, second, 99));
        // A key that comes behind its successor is the key before.
        history.take(first, Duration::from_secs(200));
        assert!(counts(&history, second, 900) && counts(&history, first, 259));
        assert!(!counts(&history, first, 260) && !history.may_be_newest(first, at(210)));
        let whole = Span { from: Duration::from_secs(150), to: Duration::from_secs(170) };
        assert!(history.may_count(0, whole) && history.may_not_count(0, whole));
        // A start takes up what is left of the minute.
        let wall = 1_000_000_000;
        let until = Timestamp(wall + 30_000_000);
        history.reopen(&[first, second], until, (Duration::from_secs(300), wall));
        assert!(counts(&history, first, 329) && !counts(&history, first, 330));
        assert!(history.may_be_refused(second, at(300), wall), "it came before the start");
    }
}
