//! Why a change that the API asks of the shard was not made.

use cardswitch_engine::command::reply::Rejection;
use cardswitch_engine::submission::SubmitError;

/// Why a change was not made, or may not have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// The shard refused it.
    Rejected(Rejection),
    /// It never entered the engine.
    NotTaken(SubmitError),
    /// The journal failed under it.
    OutcomeUnknown,
    /// It was made, but the tables do not show it in time.
    NotVisibleYet,
}

/// The mark of an answer to a change that was made but cannot be shown yet, for those that see only answers.
#[derive(Clone, Copy, Debug)]
pub struct UnshownChange;
