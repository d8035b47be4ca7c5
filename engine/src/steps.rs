//! Steps: the way every part of the engine moves, under any driver.
//!
//! The shard, the committer, the log's writer behind a window, the maker of segments, the loader and
//! the projector each take one step after the other over their input. A running switch gives each a
//! thread (`spawn`); a simulator takes their steps in any order on one thread.
//!
//! INVARIANT: a step never sleeps and never waits for another part to move. The one exception is the
//! shard where it cannot go on without an answer of the tables; see `shard/questions.rs`.

use std::thread::JoinHandle;

/// The outcome of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepOutcome {
    /// Something was done; there may be more.
    Worked,
    /// There is nothing to do before something comes in, or time passes.
    Idle,
    /// There will be nothing to do any more.
    Ended,
}

impl StepOutcome {
    /// `Worked` where something was done.
    pub const fn of(has_worked: bool) -> Self {
        if has_worked { Self::Worked } else { Self::Idle }
    }
}

/// A part of the engine.
pub trait Steps {
    /// Does the next piece of work, if there is any.
    fn step(&mut self) -> StepOutcome;

    /// Waits after an idle step until another may find something. Called by a thread of its own only.
    fn wait(&mut self);
}

/// Steps until the end.
pub fn drive(part: &mut (impl Steps + ?Sized)) {
    loop {
        match part.step() {
            StepOutcome::Worked => {}
            StepOutcome::Idle => part.wait(),
            StepOutcome::Ended => return,
        }
    }
}

/// Drives a part on a thread of its own, where it is dropped when it has ended.
/// Errors: the system starts no more threads.
pub fn spawn(
    name: String,
    mut part: impl Steps + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name).spawn(move || drive(&mut part))
}

impl<S: Steps + ?Sized> Steps for Box<S> {
    fn step(&mut self) -> StepOutcome {
        (**self).step()
    }

    fn wait(&mut self) {
        (**self).wait();
    }
}
