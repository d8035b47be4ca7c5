//! Mail to people: letters in plain text and HTML, which wait on disk until a mail server has taken
//! them, or are written to the directory `outbox` where none is configured.
//!
//! | module | content |
//! |---|---|
//! | `letter` | the words of each letter |
//! | `news` | changes that people are notified of, and the letters they become |
//! | `message` | letters as MIME messages |
//! | `outbox` | the place where letters are handed in |
//! | `notice_files` | the files of letters about declines, where no server takes them |
//! | `sealed_queue` | the letters that wait; `cardswitch_dispatch::mail` has their order |
//! | `smtp` | the conversation with a mail server |
//! | `sender` | takes letters from the queue to the server |
//! | `declines`, `decline_cause` | letters to cardholders about declines; `cardswitch_dispatch::mail` has who is told |
//! | `settings` | the mail server and the sender |
//! | `limits` | the bounds of mail |
//!
//! INVARIANT: news is on disk before its change is asked for, and becomes a letter only where the
//! tables show that change: a crash loses no letter of a change, and a change that was not made
//! gets none. A letter leaves the disk once a server has taken it, so a crash in between sends it
//! twice, under the same Message-ID.

mod decline_cause;
mod declines;
pub mod letter;
mod limits;
mod message;
pub mod news;
mod notice_files;
pub mod outbox;
mod sealed_queue;
mod sender;
pub mod settings;
mod smtp;

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use cardswitch_dispatch::mail::{cluster_mail, store};
pub use letter::Letter;
pub use news::News;
pub use outbox::{MailError, MailPlace, Outbox};
pub use sealed_queue::open_directory;

use cardswitch_edge::switch::Switch;
use cardswitch_secrets::Secrets;
use cardswitch_wire::urls::Urls;

/// The tools and the outbox of letters; cheap to clone.
#[derive(Clone)]
pub struct MailDesk {
    /// The tables that letters are about.
    pub switch: Switch,
    /// Opens the keys of links.
    pub secrets: Arc<Secrets>,
    /// The outbox of letters.
    pub outbox: Arc<Outbox>,
    /// The addresses of pages.
    pub urls: Urls,
}

/// Begins to send waiting and new letters, until the switch stops.
pub fn start(desk: &MailDesk, stopped: &watch::Receiver<bool>) -> Vec<JoinHandle<()>> {
    // The end does not wait for this task: the next start sends letters of the news that is left.
    drop(tokio::spawn(news::tell_held(desk.clone())));
    let mut tasks = Vec::new();
    if let Some(server) = &desk.outbox.server {
        let sending = sender::run(Arc::clone(&desk.outbox), Arc::clone(server), stopped.clone());
        tasks.push(tokio::spawn(sending));
    }
    if desk.outbox.tells_declines {
        tasks.push(tokio::spawn(declines::run(desk.clone(), stopped.clone())));
    }
    tasks
}
