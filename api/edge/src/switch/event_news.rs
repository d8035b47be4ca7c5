//! How those who wait for events hear of them: however many wait, one wake is left at the watermark and
//! the log is looked at once for all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cardswitch_engine::domain::event::EventNumber;
use cardswitch_engine::domain::ids::RecordSeq;
use cardswitch_engine::store::{StoreError, Watermark};
use parking_lot::Mutex;
use tokio::sync::watch;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct EventNews {
    /// Changes whenever there may be something new.
    changes: watch::Sender<u64>,
    /// Whether a wake is left at the watermark.
    is_left: AtomicBool,
    /// The newest event in tables that show this record.
    newest: Mutex<Option<(RecordSeq, EventNumber)>>,
}

impl Default for EventNews {
    fn default() -> Self {
        let changes = watch::Sender::new(0);
        Self { changes, is_left: AtomicBool::new(false), newest: Mutex::default() }
    }
}

impl EventNews {
    /// A subscription to changes from now on.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The newest event; `applied` is what the tables showed before this was called, and `read` looks
    /// at them where they have changed since somebody asked.
    pub(super) fn newest(
        &self,
        applied: RecordSeq,
        read: impl FnOnce() -> Result<EventNumber, StoreError>,
    ) -> Result<EventNumber, StoreError> {
        let mut newest = self.newest.lock();
        match *newest {
            Some((seen, number)) if seen >= applied => Ok(number),
            _ => {
                let number = read()?;
                *newest = Some((applied, number));
                Ok(number)
            }
        }
    }

    /// Has a change told once the tables show more than `applied`.
    pub(super) fn listen(self: &Arc<Self>, watermark: &Watermark, applied: RecordSeq) {
        // INVARIANT: the next commit takes the wake that is left. A reader that asked before the
        // wake went off sees the change that it makes.
        if self.is_left.swap(true, Ordering::AcqRel) {
            return;
        }
        let own = Arc::clone(self);
        watermark.on_news(
            applied,
            Box::new(move || {
                own.is_left.store(false, Ordering::Release);
                own.changes.send_modify(|changes| *changes = changes.wrapping_add(1));
            }),
        );
    }
}
