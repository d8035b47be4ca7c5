//! The states that a purchase may be in at the switch ("worlds"), and the step from one to the next
//! by a message and its known outcome: the money rules, as far as the feed uses them.

/// State of a transaction at the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    /// No transaction exists.
    Absent,
    Declined,
    Pending,
    Completed,
    Canceled,
}

/// A possible state of a purchase. Units: minor units of the account's currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PossibleState {
    pub(crate) state: State,
    pub(crate) held_minor: u64,
    pub(crate) posted_minor: u64,
}

/// The request of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// 0100 or an approved 0120: a hold.
    Hold { amount_minor: u64 },
    /// 0200: posted at once.
    Post { amount_minor: u64 },
    /// 0100 with amount zero.
    Verify,
    /// 0220 with processing code 20: money back. It makes room in the allowance where it names its
    /// purchase, and no more than was paid for that.
    Refund { amount_minor: u64 },
    /// 0120 that names a purchase that holds something: so much is held from now on.
    Complete { held_minor: u64 },
    /// 0100 with DE38: more is held.
    Increment { amount_minor: u64 },
    /// 0400 or 0420 without DE95.
    ReverseAll,
    /// 0400 with DE95: the rest stays held.
    ReverseTo { held_minor: u64 },
    /// 0220, the only or the final one.
    Present { amount_minor: u64 },
    /// 0220 with others to follow: the rest stays held.
    PresentPart { amount_minor: u64 },
}

/// The outcome of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// No answer yet.
    Awaited,
    /// 91, 96, or silence.
    Unknown,
    /// It left no trace at the switch.
    NotTaken,
    /// Refused, and recorded.
    Refused,
    /// Refused, and perhaps recorded.
    RefusedPerhapsRecorded,
    /// Done; an approval says for how much.
    Accepted { amount_minor: u64 },
}

pub(crate) const ABSENT: PossibleState =
    PossibleState { state: State::Absent, held_minor: 0, posted_minor: 0 };
pub(super) const DECLINED: PossibleState =
    PossibleState { state: State::Declined, held_minor: 0, posted_minor: 0 };
pub(super) const CANCELED: PossibleState =
    PossibleState { state: State::Canceled, held_minor: 0, posted_minor: 0 };

pub(super) const fn is_certain(outcome: Outcome) -> bool {
    !matches!(outcome, Outcome::Awaited | Outcome::Unknown | Outcome::NotTaken)
}

/// The known outcome of a message after one more word on it. The first certain word stays, and a
/// repeat that was not taken says nothing about the first try.
pub(super) const fn later_word(known: Outcome, word: Outcome) -> Outcome {
    match (known, word) {
        (Outcome::Unknown, Outcome::NotTaken) => known,
        _ if is_certain(known) => known,
        _ => word,
    }
}

/// Carries every world over a message.
pub(crate) fn carry(
    worlds: &[PossibleState],
    event: Event,
    outcome: Outcome,
) -> Vec<PossibleState> {
    let mut carried: Vec<PossibleState> = match outcome {
        Outcome::NotTaken => worlds.to_vec(),
        Outcome::Refused => worlds.iter().map(|world| refuse(*world, event)).collect(),
        Outcome::RefusedPerhapsRecorded => {
            worlds.iter().flat_map(|world| [*world, refuse(*world, event)]).collect()
        }
        Outcome::Accepted { amount_minor } => {
            worlds.iter().map(|world| accept(*world, with_amount(event, amount_minor))).collect()
        }
        Outcome::Awaited | Outcome::Unknown => worlds
            .iter()
            .flat_map(|world| [*world, refuse(*world, event), accept(*world, event)])
            .collect(),
    };
    carried.sort_unstable();
    carried.dedup();
    carried
}

/// An opening message may be approved for less than it asked.
fn with_amount(event: Event, amount_minor: u64) -> Event {
    match event {
        Event::Hold { .. } => Event::Hold { amount_minor },
        Event::Post { .. } => Event::Post { amount_minor },
        Event::Refund { .. } => Event::Refund { amount_minor },
        other => other,
    }
}

/// A refused opening is recorded as declined; a refused later message changes nothing.
fn refuse(world: PossibleState, event: Event) -> PossibleState {
    let opens = matches!(
        event,
        Event::Hold { .. } | Event::Post { .. } | Event::Refund { .. } | Event::Verify
    );
    if opens && world == ABSENT { DECLINED } else { world }
}

/// The money rules, as far as the feed uses them.
fn accept(world: PossibleState, event: Event) -> PossibleState {
    match (event, world.state) {
        (Event::Hold { amount_minor }, State::Absent) => {
            PossibleState { state: State::Pending, held_minor: amount_minor, posted_minor: 0 }
        }
        (Event::Post { amount_minor } | Event::Refund { amount_minor }, State::Absent) => {
            PossibleState { state: State::Completed, held_minor: 0, posted_minor: amount_minor }
        }
        (Event::Verify, State::Absent) => CANCELED,
        (Event::Complete { held_minor }, State::Pending) => PossibleState { held_minor, ..world },
        (Event::Increment { amount_minor }, State::Pending) => {
            PossibleState { held_minor: world.held_minor + amount_minor, ..world }
        }
        // A purchase posted by one message is given back by a compensating line; the feed never
        // reverses an amount that a presentment has posted.
        (Event::ReverseAll, State::Pending | State::Completed) => CANCELED,
        (Event::ReverseTo { held_minor: 0 }, State::Pending) => CANCELED,
        (Event::ReverseTo { held_minor }, State::Pending) => {
            PossibleState { held_minor: held_minor.min(world.held_minor), ..world }
        }
        (Event::PresentPart { amount_minor }, _) => PossibleState {
            state: State::Completed,
            held_minor: world.held_minor.saturating_sub(amount_minor),
            posted_minor: world.posted_minor + amount_minor,
        },
        (Event::Present { amount_minor }, _) => PossibleState {
            state: State::Completed,
            held_minor: 0,
            posted_minor: world.posted_minor + amount_minor,
        },
        _ => world,
    }
}

pub(super) fn describe(world: &PossibleState) -> String {
    let name = match world.state {
        State::Absent => return "nothing".to_owned(),
        State::Declined => return "declined".to_owned(),
        State::Pending => "pending",
        State::Completed => "completed",
        State::Canceled => "canceled",
    };
    format!("{name} (held {}, posted {})", world.held_minor, world.posted_minor)
}
