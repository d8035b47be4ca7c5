//! The dispatch of mail as steps: the queue for a mail server, the choice of the next letter, and the choice of
//! the cardholders who get letters about declines. The text of letters is elsewhere.
//!
//! | file | content |
//! |---|---|
//! | `queue` | the files of letters that wait, and their order |
//! | `store`, `cluster_mail` | where files are kept: in a directory; of a cluster, in its notes |
//! | `sending` | the next letter, and the consequences of its outcome |
//! | `declines` | follows the declines: which letters cardholders get about them |
//! | `notice_history` | the number of those letters |
//! | `cursor` | the place among the transactions up to which they were written |
//! | `limits` | the bounds of all |
//!
//! Times are durations since any instant that the driver chooses, on a clock that never goes back.

pub mod cluster_mail;
mod cursor;
pub mod declines;
pub mod limits;
pub mod notice_history;
pub mod queue;
pub mod sending;
pub mod store;
