//! How far deliveries of webhooks are, kept in etcd for the node that leads next.

use std::thread;

use cardswitch_cluster::{LeaderNotes, NotesError};
use cardswitch_notify::webhooks::deliveries::RemoteDeliveries;

/// The notes of a leader, used from any thread: each call has one of its own to wait on.
#[derive(Debug)]
pub struct NotedDeliveries(pub LeaderNotes);

impl RemoteDeliveries for NotedDeliveries {
    fn take_over(&self) -> Result<Vec<(String, Vec<u8>)>, String> {
        apart(|| self.0.take_over())
    }

    fn write(&self, values: Vec<(String, Option<Vec<u8>>)>) -> Result<(), String> {
        apart(|| self.0.write(values))
    }
}

fn apart<T: Send>(work: impl FnOnce() -> Result<T, NotesError> + Send) -> Result<T, String> {
    let done = thread::scope(|scope| scope.spawn(work).join());
    done.map_err(|_| "it broke off".to_owned())?.map_err(|error| error.to_string())
}
