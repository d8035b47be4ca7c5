//! Makes a failing program of commands small enough to read.
//!
//! Steps are taken out, first by halves, then by ever smaller runs, as long as the rest still fails in the same
//! place. A step keeps its instant, so the rest happens at its former time. A step that names a transaction by
//! its number may name another one afterwards; model and shard both read it so. A step without which the program
//! no longer fails is put back.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex};

/// The place and message of a failed run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// File and line of the check, or of the slip.
    pub place: String,
    pub message: String,
}

impl Failure {
    /// The file of its place.
    pub fn file(&self) -> &str {
        self.place.split(':').next().unwrap_or_default()
    }

    /// The same, with the world that it is of.
    pub(crate) fn in_world_of(self, world: &str) -> Self {
        Self { place: format!("{}, in the world of {world}", self.place), ..self }
    }
}

/// Runs code that may panic, and returns its failure. Panics print nothing meanwhile.
pub fn failure_of<T>(run: impl FnOnce() -> T) -> Option<Failure> {
    let place = Arc::new(Mutex::new(String::new()));
    let seen = Arc::clone(&place);
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        let location = panic.location().map_or_else(String::new, ToString::to_string);
        *seen.lock().unwrap() = location;
    }));
    let ended = panic::catch_unwind(AssertUnwindSafe(run));
    panic::set_hook(usual);
    let message = text_of(ended.err()?.as_ref());
    let place = place.lock().unwrap().clone();
    Some(Failure { place, message })
}

/// The message of a panic.
fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default().to_owned()
}

/// The steps that are left when none of them can be spared.
pub fn shrink<T: Clone>(mut steps: Vec<T>, still_fails: impl Fn(&[T]) -> bool) -> Vec<T> {
    let mut run = steps.len().div_ceil(2).max(1);
    loop {
        let before = steps.len();
        let mut at = 0;
        while at < steps.len() {
            let end = (at + run).min(steps.len());
            let without = [&steps[..at], &steps[end..]].concat();
            if still_fails(&without) {
                steps = without;
            } else {
                at = end;
            }
        }
        match run {
            // Taking one out may make another one needless.
            1 if steps.len() == before => return steps,
            1 => {}
            _ => run = run.div_ceil(2),
        }
    }
}

#[test]
fn only_what_is_needed_is_left() {
    let in_order = |steps: &[u32]| {
        let first = steps.iter().position(|step| *step == 17);
        let second = steps.iter().position(|step| *step == 801);
        first.zip(second).is_some_and(|(first, second)| first < second)
    };
    assert_eq!(shrink((0..1_000).collect(), in_order), [17, 801]);
    let enough = |steps: &[u32]| steps.iter().sum::<u32>() >= 10;
    assert_eq!(shrink(vec![1; 64], enough), [1; 10]);
    assert!(shrink(vec![1, 2, 3], |_| true).is_empty());
}

#[test]
fn a_failure_tells_its_place_and_text() {
    assert_eq!(failure_of(|| ()), None);
    let failure = failure_of(|| panic!("{} is not {}", 1, 2)).unwrap();
    assert_eq!(failure.message, "1 is not 2");
    assert_eq!(failure.file(), file!(), "{failure:?}");
}
