//! The progress of a start, for its observers.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// The stage of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryStage {
    /// The tables are read, and the journal is proven beside that.
    Reading,
    /// The records after the tables' checkpoint are replayed.
    Replaying,
    /// The start is complete.
    Recovered,
}

impl RecoveryStage {
    const ALL: [Self; 3] = [Self::Reading, Self::Replaying, Self::Recovered];

    /// The stage as one word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Reading => "reading",
            Self::Replaying => "replaying",
            Self::Recovered => "recovered",
        }
    }
}

/// The progress, written by the start and read by observers meanwhile.
#[derive(Debug, Default)]
pub struct RecoveryProgress {
    stage: AtomicU8,
    replayed: AtomicU64,
    to_replay: AtomicU64,
}

/// The progress at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoverySnapshot {
    /// The stage.
    pub stage: RecoveryStage,
    /// The number of replayed records.
    pub replayed: u64,
    /// The number of records to replay; known once the replay has begun.
    pub to_replay: u64,
}

impl RecoveryProgress {
    /// The progress now.
    pub fn now(&self) -> RecoverySnapshot {
        let stage = usize::from(self.stage.load(Ordering::Acquire));
        RecoverySnapshot {
            stage: RecoveryStage::ALL.get(stage).copied().unwrap_or(RecoveryStage::Recovered),
            replayed: self.replayed.load(Ordering::Relaxed),
            to_replay: self.to_replay.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn begin_replay(&self, records: u64) {
        self.to_replay.store(records, Ordering::Relaxed);
        self.stage.store(RecoveryStage::Replaying as u8, Ordering::Release);
    }

    pub(crate) fn add_replayed(&self, records: u64) {
        self.replayed.fetch_add(records, Ordering::Relaxed);
    }

    pub(crate) fn finish(&self) {
        self.stage.store(RecoveryStage::Recovered as u8, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stage_is_seen_when_it_is_reached() {
        let progress = RecoveryProgress::default();
        assert_eq!(progress.now().stage, RecoveryStage::Reading);
        progress.begin_replay(10);
        progress.add_replayed(4);
        let now = progress.now();
        assert_eq!((now.stage, now.replayed, now.to_replay), (RecoveryStage::Replaying, 4, 10));
        progress.finish();
        assert_eq!(progress.now().stage, RecoveryStage::Recovered);
    }
}
