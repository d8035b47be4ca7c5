//! The switch, as those who follow it see it at one moment: a former leader has no other.

use std::sync::Arc;

use cardswitch_engine::domain::ids::{RecordSeq, Timestamp};
use cardswitch_engine::engine::Engine;
use cardswitch_engine::store::{Snapshot, Store};

pub(crate) struct SwitchView {
    pub(crate) store: Arc<Store>,
    pub(crate) time: Timestamp,
    pub(crate) applied: RecordSeq,
    pub(crate) durable: RecordSeq,
}

impl SwitchView {
    pub(crate) fn of(engine: &Engine) -> Self {
        Self {
            store: Arc::clone(&engine.store),
            time: engine.clock.now(),
            applied: engine.watermark.applied(),
            durable: engine.durable_seq(),
        }
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.store.read().unwrap()
    }
}
