//! The dispatch of webhooks as steps: which events are still to be delivered to which endpoint, and
//! when. Source: spec "Events".
//!
//! | file | content |
//! |---|---|
//! | `schedule`, `lane` | the events still to be delivered to one endpoint, and when |
//! | `content` | the content of a message, and its id |
//! | `desk`, `due` | one endpoint at work; the endpoints with something to send |
//! | `deliveries` | the stored state of all that |
//! | `dispatcher` | follows the event log, and says what is to be sent and saved |
//!
//! INVARIANT: nothing here reads a clock, sleeps, waits or sends. A running switch drives it by a task
//! (`webhooks/driver.rs` of `notify`), the simulator by its own time, in any order.

pub mod content;
pub mod deliveries;
mod desk;
pub mod dispatcher;
mod due;
pub mod lane;
pub mod schedule;
