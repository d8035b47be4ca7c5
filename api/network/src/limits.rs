//! Every bound of the network doors that is not of one connection. Exceeding one has a defined answer.

use std::time::Duration;

/// The rest of a listener after the system refused a connection, for want of file handles.
pub const ACCEPT_REST: Duration = Duration::from_millis(50);
/// The most requests in an HTTP batch.
pub const BATCH_LEN_MAX: usize = 1_000;
/// The most bytes of the HTTP body of a batch; that of one operation is a JSON body like any other.
pub const BATCH_BYTES_MAX: usize = 2 * 1_024 * 1_024;
/// How many reversals an HTTP request that waits for one may be behind, where the fault plan holds its answer.
pub const REVERSALS_UNHEARD_MAX: usize = 1_024;

const _: () = assert!(BATCH_LEN_MAX < cardswitch_engine::limits::QUEUED_COMMANDS_MAX);
