//! How this tool fails: with a sentence, printed once by `main`.

use std::error::Error;

/// A value, or what to tell the user.
pub(crate) type Outcome<T> = Result<T, Box<dyn Error>>;

/// Fails with a sentence.
pub(crate) fn fail<T>(message: impl Into<String>) -> Outcome<T> {
    Err(message.into().into())
}
