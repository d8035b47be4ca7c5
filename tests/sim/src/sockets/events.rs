//! The events at simulated sockets, and how often each happens in a world. Drawn from its seed.
//!
//! INVARIANT: a happening has all draws of its own in its seed, so that it stays what it is where others are left out.

use std::time::Duration;

use super::wire::WireEnd;
use crate::happening::Part;
use crate::rng::Rng;

/// One happening of a world of sockets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SocketHappening {
    /// Its time since the beginning, which it keeps where others are left out.
    pub(super) at: Duration,
    pub(super) action: SocketAction,
    /// The seed of its draws.
    pub(super) seed: u64,
}

/// A part of the engine moves, or something happens at the sockets.
#[derive(Clone, Copy, Debug)]
pub(super) enum SocketAction {
    Step(Part),
    Befall(SocketEvent),
}

/// An event at the sockets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SocketEvent {
    /// An acquirer sends some messages.
    Send,
    /// Bytes arrive.
    Arrive,
    /// An acquirer reads.
    Read,
    /// The task of a connection that was woken runs.
    Run,
    /// An acquirer sends a message again that was answered.
    Repeat,
    /// An acquirer sends a new key.
    ChangeKey,
    /// An acquirer waits for an answer no longer, and takes its message back or sends it again.
    GiveUp,
    /// An acquirer ends a connection, or is gone.
    End(WireEnd),
    /// An acquirer sends half a frame and no more.
    HalfFrame,
    /// An acquirer sends what is no frame.
    Garbage,
    /// An acquirer sends empty frames, or frames without a message.
    OddFrames,
    /// Nothing happens for as long as a silent connection may stay.
    Silence,
    /// The machine goes down.
    Crash,
    /// The disk below the journal fails.
    BreakDisk,
    /// The door stops in good order, and opens again.
    StopDoor,
}

/// How often each event happens in a world.
pub(super) struct SocketRates(Vec<(SocketEvent, u64)>);

impl SocketRates {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let mut often = || 100 << rng.below(4);
        let mut events = vec![
            (SocketEvent::Send, often()),
            (SocketEvent::Arrive, often()),
            (SocketEvent::Read, often()),
            (SocketEvent::Run, 2 * often()),
        ];
        // In some worlds a rare event is none.
        let mut rarely = |most: u64| if rng.chance(40) { 0 } else { rng.below(most) };
        events.extend([
            (SocketEvent::Repeat, rarely(60)),
            (SocketEvent::ChangeKey, rarely(60)),
            (SocketEvent::GiveUp, rarely(60)),
            (SocketEvent::End(WireEnd::Finished), rarely(30)),
            (SocketEvent::End(WireEnd::Reset), rarely(30)),
            (SocketEvent::HalfFrame, rarely(16)),
            (SocketEvent::Garbage, rarely(12)),
            (SocketEvent::OddFrames, rarely(20)),
            (SocketEvent::Silence, rarely(8)),
            (SocketEvent::Crash, rarely(14)),
            (SocketEvent::BreakDisk, rarely(12)),
            (SocketEvent::StopDoor, rarely(8)),
        ]);
        Self(events)
    }

    pub(super) fn next(&self, rng: &mut Rng) -> SocketEvent {
        let mut place = rng.below(self.0.iter().map(|(_, weight)| weight).sum());
        for (event, weight) in &self.0 {
            if place < *weight {
                return *event;
            }
            place -= weight;
        }
        SocketEvent::Run
    }
}
