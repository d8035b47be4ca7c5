//! The shared parts of `load` and `measure`.
//!
//! | file | content |
//! |---|---|
//! | `ground` | data directories with a card program, endpoints and purchases |
//! | `switch` | loads on a switch, and the time that it uses |
//! | `report` | figures as lines, and as rows of `benches/README.md` |

pub mod ground;
pub mod report;
pub mod switch;

use cardswitch_load::BoxError;

/// A value, or the sentence that `main` prints.
pub type Outcome<T> = Result<T, BoxError>;

/// Fails with a sentence.
/// Errors: always.
pub fn fail<T>(sentence: impl Into<String>) -> Outcome<T> {
    Err(sentence.into().into())
}
