//! Panics that a world expects: they print nothing, since the first one printed is the one that fails it.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use crate::shrink::text_of;

thread_local! {
    static EXPECTED: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Runs code that may panic with a message that begins like this; none where it did.
pub(crate) fn unless_panics_with<T>(beginning: &'static str, run: impl FnOnce() -> T) -> Option<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !is_expected(panic.payload()) {
                usual(panic);
            }
        }));
    });
    EXPECTED.set(Some(beginning));
    let ended = panic::catch_unwind(AssertUnwindSafe(run));
    let is_expected = ended.as_ref().is_err_and(|panic| is_expected(panic.as_ref()));
    EXPECTED.set(None);
    match ended {
        Ok(done) => Some(done),
        Err(_) if is_expected => None,
        Err(panic) => panic::resume_unwind(panic),
    }
}

fn is_expected(panic: &(dyn Any + Send)) -> bool {
    EXPECTED.get().is_some_and(|beginning| text_of(panic).starts_with(beginning))
}
