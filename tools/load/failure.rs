//! Why a command did not work: a line for the person who gave it.

use std::error::Error;

/// The reason, which nobody tells apart by kind.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;
