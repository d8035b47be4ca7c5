//! A hostile wire between the feed and the switch: messages get lost, come late or twice, are cut in half;
//! connections break; strangers send noise. The books stay exact: to the feed, all of it is an unknown outcome.
//!
//! A seed chooses the rate of each mishap, and the messages it meets. Half of the mishaps are off
//! in a world, so that some worlds are calm and some are not (swarm testing).
//!
//! INVARIANT: messages of a purchase keep their order, but that an opening may be overtaken: by its repeats and by
//! the reversal of an acquirer that heard nothing. Nothing else would tell an issuer what was meant.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fmt;
use std::str::FromStr;

use super::conversation::{MessagePlace, UnframedMessage};
use super::random::Draws;

/// The streams of a seed that are no purchase's.
const RATES_STREAM: u64 = u64::MAX;
const MISHAPS_STREAM: u64 = u64::MAX - 1;

/// The highest rate that a seed chooses. Units: messages in a thousand.
const DRAWN_RATE_MAX: u64 = 40;

/// The delay of a late message. Units: microseconds.
const LATE_US: (u64, u64) = (20_000, 2_500_000);

/// The longest run of noise. Units: bytes.
const NOISE_BYTES_MAX: u64 = 200;

/// A mishap of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mishap {
    /// It never leaves.
    Lost,
    /// It leaves late, others before it.
    Late,
    /// It arrives twice, an opening the second time later.
    Copied,
    /// Half of it leaves, then the connection breaks.
    Cut,
    /// It leaves, then the connection breaks before the answer.
    Vanished,
    /// It arrives in single bytes.
    Dribbled,
    /// A frame of noise comes before it.
    Noise,
    /// A stranger connects, sends half a frame and goes.
    Stranger,
}

impl Mishap {
    /// All, in the order in which reports name them.
    pub const ALL: [Self; 8] = [
        Self::Lost,
        Self::Late,
        Self::Copied,
        Self::Cut,
        Self::Vanished,
        Self::Dribbled,
        Self::Noise,
        Self::Stranger,
    ];

    /// The word for it in flags and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Late => "late",
            Self::Copied => "copied",
            Self::Cut => "cut",
            Self::Vanished => "vanished",
            Self::Dribbled => "dribbled",
            Self::Noise => "noise",
            Self::Stranger => "stranger",
        }
    }

    const fn place(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Mishap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The rate of each mishap. Units: messages in a thousand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MishapRates([u64; Mishap::ALL.len()]);

impl MishapRates {
    /// The rates of a seed: each mishap is off in half of all seeds.
    pub fn of_seed(seed: u64) -> Self {
        let mut draws = Draws::new(seed, RATES_STREAM);
        Self(std::array::from_fn(|_| {
            let rate = draws.between(1, DRAWN_RATE_MAX);
            if draws.per_mille(500) { rate } else { 0 }
        }))
    }

    /// The same rates without one mishap.
    #[must_use]
    pub fn without(mut self, mishap: Mishap) -> Self {
        self.0[mishap.place()] = 0;
        self
    }

    /// The mishaps that may happen, with their rates.
    pub fn active(self) -> impl Iterator<Item = (Mishap, u64)> {
        Mishap::ALL.into_iter().map(move |m| (m, self.0[m.place()])).filter(|(_, rate)| *rate > 0)
    }
}

/// `lost=20,late=5`: messages in a thousand; a mishap without a rate does not happen.
impl FromStr for MishapRates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut rates = Self::default();
        for part in text.split(',') {
            let (name, rate) =
                part.split_once('=').ok_or_else(|| format!("`{part}` is not NAME=RATE"))?;
            let names = || Mishap::ALL.map(Mishap::name).join(", ");
            let mishap = Mishap::ALL
                .into_iter()
                .find(|mishap| mishap.name() == name)
                .ok_or_else(|| format!("`{name}` is none of {}", names()))?;
            rates.0[mishap.place()] = rate
                .parse()
                .ok()
                .filter(|rate| *rate <= 1000)
                .ok_or_else(|| format!("`{rate}` is not a number from 0 to 1000"))?;
        }
        Ok(rates)
    }
}

/// `lost 20, late 5`; `no mishaps` where none may happen.
impl fmt::Display for MishapRates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> =
            self.active().map(|(mishap, rate)| format!("{mishap} {rate}")).collect();
        f.write_str(if parts.is_empty() { "no mishaps" } else { "" })?;
        f.write_str(&parts.join(", "))
    }
}

/// A hostile wire: its seed and its rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hostility {
    /// Chooses which message meets a mishap.
    pub seed: u64,
    /// The rates of the mishaps.
    pub rates: MishapRates,
}

/// A message on the way, and its mishap.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PassingMessage {
    pub(super) purchase: u64,
    pub(super) part: MessagePlace,
    pub(super) bytes: Vec<u8>,
    pub(super) mishap: Option<Mishap>,
    /// The bytes that [`Mishap::Noise`] and [`Mishap::Stranger`] send, once its time has come.
    pub(super) noise: Vec<u8>,
}

/// The wire of one run.
pub(super) struct HostileWire {
    rates: MishapRates,
    draws: Draws,
    /// Messages held back, by the instant of leaving and the order of coming.
    held: BinaryHeap<Reverse<(u64, u64, PassingMessage)>>,
    sequence: u64,
    /// The instant when the last message of a purchase leaves that may not be overtaken.
    /// Units: microseconds.
    leaves_us: HashMap<u64, u64>,
    happened: [u64; Mishap::ALL.len()],
}

impl HostileWire {
    pub(super) fn new(hostility: Hostility) -> Self {
        Self {
            rates: hostility.rates,
            draws: Draws::new(hostility.seed, MISHAPS_STREAM),
            held: BinaryHeap::new(),
            sequence: 0,
            leaves_us: HashMap::new(),
            happened: [0; Mishap::ALL.len()],
        }
    }

    /// Takes a message in and chooses what happens to it.
    pub(super) fn take(&mut self, outgoing: UnframedMessage, now_us: u64) {
        let mishap = self.mishap();
        if let Some(mishap) = mishap {
            self.happened[mishap.place()] += 1;
        }
        let (purchase, part) = (outgoing.lane, outgoing.part);
        let late_us = self.draws.between(LATE_US.0, LATE_US.1);
        let own_us = now_us + if mishap == Some(Mishap::Late) { late_us } else { 0 };
        let (leaves_us, copy_us) = match part.may_be_overtaken() {
            true => (own_us, own_us + late_us),
            false => {
                let last_us = self.leaves_us.entry(purchase).or_default();
                *last_us = own_us.max(*last_us);
                // At once: were the connection down at first, a later copy would be the message.
                (*last_us, *last_us)
            }
        };
        let passing =
            |bytes, mishap| PassingMessage { purchase, part, bytes, mishap, noise: Vec::new() };
        if mishap == Some(Mishap::Copied) {
            self.hold(copy_us, passing(outgoing.bytes.clone(), None));
        }
        if mishap != Some(Mishap::Lost) {
            self.hold(leaves_us, passing(outgoing.bytes, mishap));
        }
    }

    /// The instant when the next message leaves. Units: microseconds.
    pub(super) fn next_due_us(&self) -> Option<u64> {
        self.held.peek().map(|Reverse((due_us, ..))| *due_us)
    }

    /// The next message that leaves by now.
    pub(super) fn take_due(&mut self, now_us: u64) -> Option<PassingMessage> {
        self.next_due_us().filter(|due_us| *due_us <= now_us)?;
        let Reverse((due_us, _, mut passing)) = self.held.pop()?;
        if self.leaves_us.get(&passing.purchase).is_some_and(|last_us| *last_us <= due_us) {
            self.leaves_us.remove(&passing.purchase);
        }
        if matches!(passing.mishap, Some(Mishap::Noise | Mishap::Stranger)) {
            passing.noise = self.noise();
        }
        Some(passing)
    }

    /// The number of times that each mishap happened.
    pub(super) fn happened(&self) -> Vec<(Mishap, u64)> {
        Mishap::ALL.into_iter().map(|mishap| (mishap, self.happened[mishap.place()])).collect()
    }

    /// At most one a message: the first in the order of the list whose draw says so.
    fn mishap(&mut self) -> Option<Mishap> {
        let draws = &mut self.draws;
        // Every message draws for all, so that leaving one out moves no other.
        let drawn = Mishap::ALL.map(|mishap| draws.below(1000) < self.rates.0[mishap.place()]);
        Mishap::ALL.into_iter().find(|mishap| drawn[mishap.place()])
    }

    /// Bytes that are no message: the first would be a message type that nobody has.
    fn noise(&mut self) -> Vec<u8> {
        let len = self.draws.between(1, NOISE_BYTES_MAX);
        (0..len).map(|_| self.draws.below(256).to_le_bytes()[0]).collect()
    }

    fn hold(&mut self, due_us: u64, held: PassingMessage) {
        self.sequence += 1;
        self.held.push(Reverse((due_us, self.sequence, held)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::AnswerKey;
    use super::*;

    fn wire(rates: &str) -> HostileWire {
        HostileWire::new(Hostility { seed: 3, rates: rates.parse().unwrap() })
    }

    const OPENING: Option<usize> = None;
    const LATER: Option<usize> = Some(0);

    fn outgoing(purchase: u64, byte: u8, later: Option<usize>) -> UnframedMessage {
        let (bytes, key) = (vec![byte], AnswerKey::default());
        let part = MessagePlace { later, is_repeat: false };
        UnframedMessage { bytes, due_us: 0, lane: purchase, key, part }
    }

    /// All that leaves, with the time of it.
    fn drain(wire: &mut HostileWire) -> Vec<(u64, u8)> {
        let mut left = Vec::new();
        while let Some(due_us) = wire.next_due_us() {
            left.push((due_us, wire.take_due(due_us).unwrap().bytes[0]));
        }
        left
    }

    #[test]
    fn a_late_message_keeps_those_of_its_purchase_behind_it() {
        let mut wire = wire("late=1000");
        wire.take(outgoing(7, 1, LATER), 0);
        wire.rates = MishapRates::default();
        wire.take(outgoing(7, 2, LATER), 10);
        wire.take(outgoing(8, 3, LATER), 20);
        let left: Vec<u8> = drain(&mut wire).into_iter().map(|(_, byte)| byte).collect();
        assert_eq!(left, [3, 1, 2]);
        assert!(wire.leaves_us.is_empty());
    }

    #[test]
    fn an_opening_may_be_overtaken() {
        let mut wire = wire("late=1000");
        wire.take(outgoing(7, 1, OPENING), 0);
        wire.rates = MishapRates::default();
        wire.take(outgoing(7, 2, LATER), 10);
        let left: Vec<u8> = drain(&mut wire).into_iter().map(|(_, byte)| byte).collect();
        assert_eq!(left, [2, 1]);
    }

    #[test]
    fn lost_messages_never_leave_and_copies_leave_twice() {
        for (rates, expected) in [("lost=1000", 0), ("copied=1000", 2), ("cut=0", 1)] {
            let mut wire = wire(rates);
            wire.take(outgoing(1, 1, LATER), 5);
            assert_eq!(drain(&mut wire).len(), expected, "{rates}");
        }
    }

    #[test]
    fn leaving_a_mishap_out_moves_no_other() {
        let all: MishapRates = "lost=100,cut=100,noise=100".parse().unwrap();
        let hit = |rates: MishapRates, mishap| {
            let mut wire = HostileWire::new(Hostility { seed: 11, rates });
            (0..2000).filter(|_| wire.mishap() == Some(mishap)).count()
        };
        assert_eq!(hit(all, Mishap::Lost), hit(all.without(Mishap::Noise), Mishap::Lost));
        assert_eq!(hit(all.without(Mishap::Noise), Mishap::Noise), 0);
    }

    #[test]
    fn rates_are_named() {
        assert_eq!("late=5,lost=20".parse::<MishapRates>().unwrap().to_string(), "lost 20, late 5");
        assert_eq!(MishapRates::default().to_string(), "no mishaps");
        for (text, fault) in [
            ("lost", "`lost` is not NAME=RATE"),
            ("gone=1", "`gone` is none of lost, late"),
            ("lost=1001", "`1001` is not a number"),
            ("lost=-1", "`-1` is not a number"),
        ] {
            assert!(text.parse::<MishapRates>().unwrap_err().starts_with(fault), "{text}");
        }
        let drawn: Vec<usize> =
            (0..40).map(|seed| MishapRates::of_seed(seed).active().count()).collect();
        assert!(
            drawn.iter().any(|count| *count <= 2) && drawn.iter().any(|count| *count >= 6),
            "{drawn:?}"
        );
    }
}
