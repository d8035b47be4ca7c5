//! The requests of one connection that are with the engine, and the port their answers come by.

use std::fmt;

use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::submission::ReplyPort;
use cardswitch_iso8583::Tpdu;
use parking_lot::Mutex;
use tokio::sync::Notify;
use zeroize::Zeroize;

/// A request whose answer echoes it.
pub(super) struct Pending {
    /// The message as it came.
    pub(super) frame: Vec<u8>,
    /// The header before it.
    pub(super) tpdu: Option<Tpdu>,
}

impl fmt::Debug for Pending {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Pending({} bytes)", self.frame.len())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.frame.zeroize();
    }
}

/// The requests of one connection by tag; tags are used again.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    requests: Vec<Option<Pending>>,
    free: Vec<usize>,
}

impl InFlight {
    pub(super) fn len(&self) -> usize {
        self.requests.len() - self.free.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keeps a request until its answer comes. Returns its tag.
    pub(super) fn insert(&mut self, request: Pending) -> u64 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.requests.push(None);
            self.requests.len() - 1
        });
        self.requests[place] = Some(request);
        place as u64
    }

    /// Takes a request out; none where no such request waits.
    pub(super) fn remove(&mut self, tag: u64) -> Option<Pending> {
        let place = usize::try_from(tag).ok()?;
        let request = self.requests.get_mut(place)?.take()?;
        self.free.push(place);
        if self.is_empty() {
            self.requests = Vec::new();
            self.free = Vec::new();
        }
        Some(request)
    }
}

/// Where the engine puts the answers to one connection's requests.
#[derive(Debug, Default)]
pub(super) struct ConnectionPort {
    replies: Mutex<Vec<(u64, Reply)>>,
    arrived: Notify,
}

impl ConnectionPort {
    /// Waits until there are answers. Cancel safe.
    pub(super) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// Takes the answers that have come.
    pub(super) fn take(&self) -> Vec<(u64, Reply)> {
        std::mem::take(&mut *self.replies.lock())
    }
}

impl ReplyPort for ConnectionPort {
    fn deliver(&self, tag: u64, reply: Reply) {
        self.replies.lock().push((tag, reply));
    }

    fn flush(&self) {
        self.arrived.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(byte: u8) -> Pending {
        Pending { frame: vec![byte], tpdu: None }
    }

    #[test]
    fn tags_find_their_requests_once_and_are_used_again() {
        let mut in_flight = InFlight::default();
        let tags = [1, 2, 3].map(|byte| in_flight.insert(request(byte)));
        assert_eq!(in_flight.len(), 3);
        assert_eq!(in_flight.remove(tags[1]).unwrap().frame, [2]);
        assert!(in_flight.remove(tags[1]).is_none());
        assert!(in_flight.remove(99).is_none());
        let again = in_flight.insert(request(4));
        assert_eq!((again, in_flight.len()), (tags[1], 3));
        for tag in tags {
            assert!(in_flight.remove(tag).is_some());
        }
        assert!(in_flight.is_empty() && in_flight.requests.capacity() == 0);
    }

    #[test]
    fn requests_are_not_printed() {
        assert_eq!(format!("{:?}", request(b'4')), "Pending(1 bytes)");
    }
}
