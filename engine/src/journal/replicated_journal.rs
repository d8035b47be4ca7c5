//! The journal of a node that leads: the window first, then the node's own log.
//!
//! A reply waits for the window only. The log follows by a few batches (`trail`), so it is a prefix of
//! the chain, and a node that starts again reads the rest from the window.

use std::sync::Arc;

use super::chain::{ChainPosition, SealedBatch};
use super::window::{ChainWindow, WINDOW_APPEND_BYTES, WindowTip, append_certainly, tip_certainly};
use super::{Journal, JournalError, Trail};

/// The journal of the leader of a chain.
pub(crate) struct ReplicatedJournal {
    window: Box<dyn ChainWindow>,
    /// The tip that this node wrote last.
    tip: WindowTip,
    trail: Arc<Trail>,
}

impl ReplicatedJournal {
    /// Leads on from `tip`, which this node's barrier has made, and which the log of the trail has.
    pub(crate) fn new(window: Box<dyn ChainWindow>, tip: WindowTip, trail: Arc<Trail>) -> Self {
        Self { window, tip, trail }
    }
}

impl Journal for ReplicatedJournal {
    fn tip(&self) -> ChainPosition {
        self.tip.position
    }

    fn append(&mut self, batches: &[SealedBatch]) -> Result<(), JournalError> {
        let mut rest = batches;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(count_for_one_append(rest));
            self.tip = append_certainly(&mut *self.window, &self.tip, now)?;
            rest = later;
        }
        Ok(())
    }

    fn trail(&self) -> Option<&Arc<Trail>> {
        Some(&self.trail)
    }

    /// Errors: `Fenced` where the tip is another one than this node wrote last.
    fn confirm(&mut self) -> Result<(), JournalError> {
        let tip = tip_certainly(&mut *self.window)?;
        if tip == self.tip {
            return Ok(());
        }
        Err(JournalError::Fenced { leader: tip.writer, epoch: tip.position.epoch })
    }
}

impl Drop for ReplicatedJournal {
    fn drop(&mut self) {
        self.trail.close();
    }
}

/// The number of batches that go together; a single one of any size does.
fn count_for_one_append(batches: &[SealedBatch]) -> usize {
    let ends = batches.iter().scan(0, |end, batch| {
        *end += batch.bytes.len();
        Some(*end)
    });
    ends.take_while(|end| *end <= WINDOW_APPEND_BYTES).count().max(1)
}
