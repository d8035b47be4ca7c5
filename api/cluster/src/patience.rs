//! When a follower holds the leader for dead. A wrong guess costs a change of leader, never an answer.

use std::time::Duration;

use cardswitch_engine::clock::Stopwatch;

/// The share of the patience that counts once etcd answers again: four beats of seven. A leader that lives
/// shows so as soon as it can.
const AFTER_SILENCE_OF_ETCD: f64 = 4.0 / 7.0;

/// Waits for signs of life. Only silence that was listened to counts: at the leader's door where etcd does not
/// answer.
#[derive(Debug)]
pub(crate) struct Patience {
    last_sign: Vec<u8>,
    since: Stopwatch,
    limit: Duration,
    /// How long from `since` on.
    left: Duration,
}

/// The meaning of a sign of the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeardSign {
    /// It is the one before.
    Nothing,
    /// It may be that of a leader that is dead.
    FirstSign,
    /// A leader lives.
    AnotherSign,
}

impl Patience {
    /// The patience of a node with a leader that gives no sign of life for `silence`. Nodes differ in it by
    /// `spread`, below 1, so that one tries before the other.
    pub(crate) fn new(silence: Duration, spread: f64) -> Self {
        let limit = silence + silence.mul_f64(spread.clamp(0.0, 1.0) / 5.0);
        Self { last_sign: Vec::new(), since: Stopwatch::start(), limit, left: limit }
    }

    /// Takes note of the leader's sign: any bytes that change while it lives.
    pub(crate) fn hear(&mut self, sign: Vec<u8>) -> HeardSign {
        if sign == self.last_sign {
            return HeardSign::Nothing;
        }
        let before = std::mem::replace(&mut self.last_sign, sign);
        self.since = Stopwatch::start();
        self.left = self.limit;
        if before.is_empty() { HeardSign::FirstSign } else { HeardSign::AnotherSign }
    }

    /// Begins anew after a time in which no leader could be heard; the time before counts in part.
    pub(crate) fn begin_anew(&mut self) {
        self.since = Stopwatch::start();
        self.left = self.limit.mul_f64(AFTER_SILENCE_OF_ETCD);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.since.elapsed() > self.left
    }
}
