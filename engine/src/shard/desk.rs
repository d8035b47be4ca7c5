//! The way of commands to the shard: to its inbox, or past its thread while that is at rest.
//!
//! A caller that finds the shard at rest takes its next step on the caller's own thread. That spares
//! two wake-ups, which together take half as long as a commit. The shard moves by the same steps, over
//! the same inbox, so the order of commands is that of the inbox on either thread.
//!
//! INVARIANT: one thread at a time has the shard. A caller that lets go of it rings for the shard's
//! thread, if that wanted it meanwhile or would sleep for too long. A shard that breaks off is gone for everybody.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::TrySendError;
use parking_lot::{Mutex, MutexGuard};

use super::run::Shard;
use crate::domain::ids::Timestamp;
use crate::inbox::{Doorbell, InboxSender};
use crate::limits;
use crate::steps::{StepOutcome, Steps};
use crate::submission::{Submission, SubmitError};

/// The one place from which commands reach the shard.
#[derive(Debug)]
pub(crate) struct ShardDesk {
    inbox: InboxSender<Submission>,
    seat: Option<Arc<ShardSeat>>,
}

impl ShardDesk {
    /// A desk that always leaves commands to the shard's thread.
    pub(crate) const fn passing_on(inbox: InboxSender<Submission>) -> Self {
        Self { inbox, seat: None }
    }

    /// Lets callers take steps of the shard in this seat.
    pub(crate) fn share(&mut self, seat: Arc<ShardSeat>) {
        self.seat = Some(seat);
    }

    /// Hands commands over. A caller whose commands are few, and before which none wait
    /// (`is_first`), decides them itself if the shard is at rest; their answers may have come when
    /// this returns.
    /// Errors: `Overloaded`, `Stopped`; the commands were not taken then.
    pub(crate) fn hand_over(
        &self,
        submission: Submission,
        is_first: bool,
    ) -> Result<(), SubmitError> {
        let is_small = submission.envelopes.len() <= limits::DECIDED_IN_PLACE_MAX;
        self.inbox.put(submission).map_err(|error| match error {
            TrySendError::Full(_) => SubmitError::Overloaded,
            TrySendError::Disconnected(_) => SubmitError::Stopped,
        })?;
        let seat = self.seat.as_ref().filter(|_| is_first && is_small);
        if !seat.is_some_and(|seat| seat.step_in_place()) {
            self.inbox.ring();
        }
        Ok(())
    }
}

/// The seat of a shard that its thread and its callers take turns at.
pub(crate) struct ShardSeat {
    place: Mutex<SeatContent>,
    /// Set by the shard's thread before it tries to take the seat.
    is_wanted: AtomicBool,
    /// Wakes the shard's thread.
    bell: Arc<Doorbell>,
}

struct SeatContent {
    /// None during a step, and when the shard has ended or broken off.
    shard: Option<Box<Shard>>,
    /// The instant at which the shard's thread looks again by itself.
    looks_at: Timestamp,
}

impl ShardSeat {
    /// Takes the next step of a shard at rest. Returns whether there was one to take.
    fn step_in_place(&self) -> bool {
        // Dropped after the lock of the place, which is taken behind it.
        let mut turn = CallersTurn { seat: self, must_ring: false };
        let Some(mut place) = self.place.try_lock() else { return false };
        // While a commit is under way, the shard's thread decides beside it, and callers go on.
        if !place.shard.as_ref().is_some_and(|shard| shard.is_at_rest()) {
            return false;
        }
        turn.must_ring = true;
        let Some(outcome) = place.step() else { return false };
        let wakes_at = place.shard.as_ref().map_or(Timestamp::MAX, |shard| shard.wakes_at());
        // After any other outcome its thread looks for itself.
        turn.must_ring = outcome != StepOutcome::Worked || wakes_at < place.looks_at;
        true
    }

    /// Takes the seat for the shard's thread. None where a caller has it, who rings afterwards.
    fn take(&self) -> Option<MutexGuard<'_, SeatContent>> {
        // Before the attempt: a caller that lets go of the seat after it then sees this.
        self.is_wanted.store(true, Ordering::SeqCst);
        let place = self.place.try_lock()?;
        self.is_wanted.store(false, Ordering::SeqCst);
        Some(place)
    }
}

impl SeatContent {
    /// Takes a step. None where the shard is gone. A panic leaves it gone, as its end does.
    fn step(&mut self) -> Option<StepOutcome> {
        let mut shard = self.shard.take()?;
        let outcome = shard.step();
        if outcome != StepOutcome::Ended {
            self.shard = Some(shard);
        }
        Some(outcome)
    }
}

/// The turn of a caller at the seat, also where it ends by a panic.
struct CallersTurn<'a> {
    seat: &'a ShardSeat,
    must_ring: bool,
}

impl Drop for CallersTurn<'_> {
    fn drop(&mut self) {
        // Of the thread's wish and this look at it, one is always seen by the other side.
        std::sync::atomic::fence(Ordering::SeqCst);
        if self.must_ring || self.seat.is_wanted.load(Ordering::SeqCst) {
            self.seat.bell.ring();
        }
    }
}

crate::opaque!(ShardSeat);

/// Drives a shard on a thread of its own, and shares it with callers.
pub(crate) struct ShardDriver(Arc<ShardSeat>);

impl ShardDriver {
    /// The driver of a shard that nobody drives yet, and the seat for its callers.
    pub(crate) fn new(shard: Shard) -> (Self, Arc<ShardSeat>) {
        let bell = shard.bell();
        let content = SeatContent { shard: Some(Box::new(shard)), looks_at: Timestamp::MIN };
        let is_wanted = AtomicBool::new(false);
        let seat = Arc::new(ShardSeat { place: Mutex::new(content), is_wanted, bell });
        (Self(Arc::clone(&seat)), seat)
    }
}

impl Steps for ShardDriver {
    fn step(&mut self) -> StepOutcome {
        let Some(mut place) = self.0.take() else { return StepOutcome::Idle };
        place.step().unwrap_or(StepOutcome::Ended)
    }

    fn wait(&mut self) {
        let wait = self.0.take().and_then(|mut place| {
            let shard = place.shard.as_ref()?;
            let (wakes_at, wait) = (shard.wakes_at(), shard.time_until_due());
            place.looks_at = wakes_at;
            wait
        });
        self.0.bell.wait(wait);
    }
}

impl Drop for ShardDriver {
    /// The parts behind a shard end when it is gone, so callers must not keep it.
    fn drop(&mut self) {
        let shard = self.0.place.lock().shard.take();
        drop(shard);
    }
}
