//! Submission of commands by edges to the shard, and the return of its answers.
//!
//! Answers come on the committer's thread, once they are durable. A port belongs to a connection or
//! to a waiting task, not to a single command, so that a batch of answers costs one call and one
//! wake-up.

use std::sync::Arc;

use crate::clock::Stopwatch;
use crate::command::TimedCommand;
use crate::command::reply::Reply;

/// The destination of answers.
pub trait ReplyPort: Send + Sync {
    /// Takes one answer; must not block.
    fn deliver(&self, tag: u64, reply: Reply);

    /// Ends a batch of answers, and wakes the waiter.
    fn flush(&self) {}

    /// Takes all answers of a batch, and wakes the waiter; must not block. A port that can take
    /// many at once does so here, with one lock.
    fn deliver_all(&self, replies: &mut Vec<(u64, Reply)>) {
        for (tag, reply) in replies.drain(..) {
            self.deliver(tag, reply);
        }
        self.flush();
    }
}

/// A command on its way to the shard.
#[derive(Clone)]
pub struct Envelope {
    /// The command.
    pub command: TimedCommand,
    /// Returned with the answer, so that the sender can match it.
    pub tag: u64,
    /// The destination of the answer.
    pub port: Arc<dyn ReplyPort>,
}

/// Commands that were handed over together.
pub struct Submission {
    /// The commands.
    pub envelopes: Vec<Envelope>,
    /// The time of the wait so far.
    pub since: Stopwatch,
}

impl Submission {
    /// Commands that wait from now on.
    pub fn now(envelopes: Vec<Envelope>) -> Self {
        Self { envelopes, since: Stopwatch::start() }
    }
}

/// A refusal of commands. They never entered the engine: nothing of them will happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// Too many commands wait already.
    #[error("too many commands are waiting")]
    Overloaded,
    /// The shard has stopped: shutting down, or its journal failed.
    #[error("the switch has stopped")]
    Stopped,
    /// It is a change, and the tables stand still: nobody could read it, nor lose access by it.
    #[error(
        "the tables behind reads cannot be written, so nothing is changed until the switch is started again"
    )]
    TablesStandStill,
}
