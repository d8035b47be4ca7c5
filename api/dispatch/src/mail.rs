//! The dispatch of mail as steps: the letters that wait for a mail server, and which one goes next.
//!
//! | file | content |
//! |---|---|
//! | `queue` | the files of letters that wait, and their order |
//! | `sending` | the next letter, and the consequences of its outcome |
//! | `limits` | the bounds of both |
//!
//! Times are durations since any instant that the driver chooses, on a clock that never goes back.

pub mod limits;
pub mod queue;
pub mod sending;
