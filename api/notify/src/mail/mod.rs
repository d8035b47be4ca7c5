//! Mail to people: letters in plain text and HTML, which wait on disk until a mail server has taken
//! them, or are written to the directory `outbox` where none is configured.
//!
//! | module | what is in it |
//! |---|---|
//! | `letter` | what each letter says |
//! | `news` | changes that somebody is told of, and the letters they become |
//! | `message` | letters as MIME messages |
//! | `outbox` | where letters are handed in |
//! | `queue` | the files of letters that wait |
//! | `smtp` | the conversation with a mail server |
//! | `sender` | takes letters from the queue to the server |
//! | `declines`, `cursor`, `why` | what cardholders are told of purchases, and in which words |
//! | `often` | how often |
//! | `settings` | which server |
//! | `recent` | how many letters are too many |
//!
//! INVARIANT: news is on disk before the change it tells of is asked for, and becomes a letter only
//! where the tables show that change: no change goes untold by a crash, and none is told of that was
//! not made. A letter leaves the disk once a server has taken it, so a crash in between sends it
//! twice, under the same Message-ID.

mod cursor;
mod declines;
pub mod letter;
mod limits;
mod message;
pub mod news;
mod often;
pub mod outbox;
mod queue;
mod sender;
pub mod settings;
mod smtp;
mod why;

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use letter::Letter;
pub use news::News;
pub use outbox::{MailError, Outbox};

use cardswitch_edge::switch::Switch;
use cardswitch_secrets::Secrets;
use cardswitch_wire::urls::Urls;

/// What letters are written with, and where they go; cheap to clone.
#[derive(Clone)]
pub struct MailDesk {
    /// What they tell of is looked up here.
    pub switch: Switch,
    /// Opens the keys of links.
    pub secrets: Arc<Secrets>,
    /// Where letters go.
    pub outbox: Arc<Outbox>,
    /// The addresses of pages.
    pub urls: Urls,
}

/// Begins to send what waits and what comes, until the switch stops.
#[must_use]
pub fn start(desk: &MailDesk, stopped: &watch::Receiver<bool>) -> Vec<JoinHandle<()>> {
    // Not waited for at the end: what is not told of by then is after the next start.
    drop(tokio::spawn(news::tell_held(desk.clone())));
    let mut tasks = Vec::new();
    if let Some(server) = desk.outbox.server() {
        let sending = sender::run(Arc::clone(&desk.outbox), Arc::clone(server), stopped.clone());
        tasks.push(tokio::spawn(sending));
    }
    if desk.outbox.tells_declines() {
        tasks.push(tokio::spawn(declines::run(desk.clone(), stopped.clone())));
    }
    tasks
}
