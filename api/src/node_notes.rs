//! The notes of a cluster's leaders in etcd, for the node that leads next.

use std::thread;

use cardswitch_cluster::{EtcdError, EtcdNotes};
use cardswitch_engine::journal::chain::Epoch;
use cardswitch_notify::webhooks::notes::{Note, NoteStore, OWNER, OwnerCondition, StoredNote};

/// etcd, as leaders' notes use it: from any thread, for each call has one of its own to wait on.
#[derive(Debug)]
pub struct ClusterNotes(pub EtcdNotes);

impl NoteStore for ClusterNotes {
    type Error = EtcdError;

    fn led_epoch(&mut self) -> Result<Option<Epoch>, EtcdError> {
        apart(|| self.0.led_epoch())
    }

    fn change(&mut self, condition: OwnerCondition, changes: Vec<Note>) -> Result<bool, EtcdError> {
        let bound = match condition {
            OwnerCondition::Absent => None,
            OwnerCondition::Below(owner) => Some(owner),
        };
        apart(|| self.0.change((OWNER, bound), changes))
    }

    fn list(&mut self, prefix: &str) -> Result<Vec<StoredNote>, EtcdError> {
        apart(|| self.0.list(prefix))
    }

    fn names(&mut self, prefix: &str) -> Result<Vec<String>, EtcdError> {
        apart(|| self.0.names(prefix))
    }

    fn read(&mut self, name: &str) -> Result<Option<Vec<u8>>, EtcdError> {
        apart(|| self.0.read(name))
    }
}

fn apart<T: Send>(work: impl FnOnce() -> Result<T, EtcdError> + Send) -> Result<T, EtcdError> {
    let done = thread::scope(|scope| scope.spawn(work).join());
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
