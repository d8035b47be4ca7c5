//! The keys of requests under way in this process. The tables hold those of other processes.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;

/// The keys of requests under way.
#[derive(Debug, Default)]
pub(super) struct InFlightKeys(Mutex<HashSet<[u8; 32]>>);

/// A key of a request under way; it is free again when this is dropped.
#[derive(Debug)]
pub(super) struct InFlightKey {
    all: Arc<InFlightKeys>,
    key: [u8; 32],
}

impl InFlightKeys {
    /// Takes a key; none where a request with it is under way.
    pub(super) fn enter(self: &Arc<Self>, key: [u8; 32]) -> Option<InFlightKey> {
        let is_free = self.0.lock().insert(key);
        is_free.then(|| InFlightKey { all: Arc::clone(self), key })
    }
}

impl Drop for InFlightKey {
    fn drop(&mut self) {
        self.all.0.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_taken_until_its_request_ends() {
        let keys = Arc::new(InFlightKeys::default());
        let first = keys.enter([1; 32]);
        assert!(first.is_some() && keys.enter([1; 32]).is_none());
        assert!(keys.enter([2; 32]).is_some());
        drop(first);
        assert!(keys.enter([1; 32]).is_some());
    }
}
