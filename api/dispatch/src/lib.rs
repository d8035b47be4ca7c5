//! The dispatch of webhooks and of mail as steps: which events are still to be delivered to which
//! endpoint, which letters to the mail server, and when. Source: spec "Events".
//!
//! | file | content |
//! |---|---|
//! | `schedule`, `lane` | the events still to be delivered to one endpoint, and when |
//! | `content` | the content of a message, and its id |
//! | `desk`, `endpoint_queue` | one endpoint at work; the endpoints with something to send |
//! | `deliveries`, `attempt` | the stored state of all that; one try to deliver a message |
//! | `places` | the places of lanes, as a backup carries them |
//! | `notes` | that state beside the window of a cluster: whose it is, and who may change it |
//! | `dispatcher` | follows the event log, and says what is to be sent and saved |
//! | `mail` | letters that wait for a mail server, and those about declines |
//!
//! INVARIANT: nothing here reads a clock, sleeps, waits or sends. A running switch drives it by
//! tasks (`webhooks/driver.rs`, `mail/sender.rs` and `mail/declines.rs` of `notify`), the simulator by
//! its own time, in any order.

pub mod attempt;
pub mod content;
pub mod deliveries;
mod desk;
pub mod dispatcher;
mod endpoint_queue;
pub mod lane;
pub mod mail;
pub mod notes;
pub mod places;
pub mod schedule;
