//! How far deliveries of webhooks are, kept in etcd for the node that leads next.

use std::thread;

use cardswitch_cluster::{EtcdError, EtcdNotes, NoteCondition};
use cardswitch_engine::journal::chain::Epoch;
use cardswitch_notify::webhooks::deliveries::RemoteDeliveries;
use cardswitch_notify::webhooks::notes::{
    LeaderNotes, Note, NoteBounds, NoteStore, OWNER, OwnerCondition,
};

/// The notes of a leader, used from any thread: each call has one of its own to wait on.
#[derive(Debug)]
pub struct NotedDeliveries(LeaderNotes<ClusterNotes>);

impl NotedDeliveries {
    /// Those in `notes`.
    pub const fn new(notes: EtcdNotes) -> Self {
        Self(LeaderNotes::new(ClusterNotes(notes), NoteBounds::ETCD))
    }
}

impl RemoteDeliveries for NotedDeliveries {
    fn take_over(&self) -> Result<Vec<(String, Vec<u8>)>, String> {
        apart(|| RemoteDeliveries::take_over(&self.0))
    }

    fn write(&self, values: Vec<Note>) -> Result<(), String> {
        apart(|| RemoteDeliveries::write(&self.0, values))
    }
}

fn apart<T: Send>(work: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
    let done = thread::scope(|scope| scope.spawn(work).join());
    done.map_err(|_| "it broke off".to_owned())?
}

/// etcd, as leaders' notes use it.
#[derive(Debug)]
struct ClusterNotes(EtcdNotes);

impl NoteStore for ClusterNotes {
    type Error = EtcdError;

    fn led_epoch(&mut self) -> Result<Option<Epoch>, EtcdError> {
        self.0.led_epoch()
    }

    fn change(&mut self, condition: OwnerCondition, changes: Vec<Note>) -> Result<bool, EtcdError> {
        let condition = match condition {
            OwnerCondition::Absent => NoteCondition::Absent,
            OwnerCondition::Below(owner) => NoteCondition::Below(owner.into()),
        };
        self.0.change((OWNER, condition), changes)
    }

    fn list(&mut self) -> Result<Vec<(String, Vec<u8>)>, EtcdError> {
        self.0.list()
    }
}
