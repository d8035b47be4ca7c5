//! The keys of requests under way in this process. The tables hold those of other processes.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;

/// The keys of requests under way.
#[derive(Debug, Default)]
pub(super) struct InFlight(Mutex<HashSet<[u8; 32]>>);

/// A key of a request under way; it is free again when this is dropped.
#[derive(Debug)]
pub(super) struct UnderWay {
    all: Arc<InFlight>,
    key: [u8; 32],
}

impl InFlight {
    /// Takes a key; none where a request with it is under way.
    pub(super) fn enter(self: &Arc<Self>, key: [u8; 32]) -> Option<UnderWay> {
        let is_free = self.0.lock().insert(key);
        is_free.then(|| UnderWay { all: Arc::clone(self), key })
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.all.0.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_taken_until_its_request_ends() {
        let keys = Arc::new(InFlight::default());
        let first = keys.enter([1; 32]);
        assert!(first.is_some() && keys.enter([1; 32]).is_none());
        assert!(keys.enter([2; 32]).is_some());
        drop(first);
        assert!(keys.enter([1; 32]).is_some());
    }
}
