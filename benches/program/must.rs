//! Values that a bench needs: without one it has no figure and stops.

/// Takes the value, or stops the bench with the reason.
pub trait Must<T> {
    /// The value; `what` says what was to be done.
    /// Panics: where there is none.
    fn must(self, what: &str) -> T;
}

impl<T, E: std::fmt::Debug> Must<T> for Result<T, E> {
    #[track_caller]
    #[expect(clippy::panic, reason = "a bench that cannot go on must not print figures")]
    fn must(self, what: &str) -> T {
        match self {
            Ok(value) => value,
            Err(error) => panic!("cannot {what}: {error:?}"),
        }
    }
}

impl<T> Must<T> for Option<T> {
    #[track_caller]
    #[expect(clippy::panic, reason = "a bench that cannot go on must not print figures")]
    fn must(self, what: &str) -> T {
        match self {
            Some(value) => value,
            None => panic!("cannot {what}"),
        }
    }
}
