//! Bytes kept for slow peers: answers that are not taken, requests that come faster than answers.
//!
//! Each connection alone is bounded, but thousands of them together would not be. So what they keep is counted for the
//! whole door and for each peer, which may have half. A connection that wants more, once all of
//! that is used, is closed.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::address_counts::{AddressCounts, AddressPlace};

/// The bytes that a connection may keep uncounted: half a frame.
const UNCOUNTED_BYTES_MAX: usize = cardswitch_iso8583::FRAME_BYTES_MAX + 4;

/// The bytes of all connections of a door.
#[derive(Debug)]
pub struct SlowBytes {
    all: AtomicUsize,
    of_peers: AddressCounts,
    max: usize,
}

/// The bytes of one connection; dropping it frees them.
#[derive(Debug)]
pub(crate) struct SlowPart {
    of: Arc<SlowBytes>,
    of_peer: AddressPlace,
    bytes: usize,
}

impl SlowBytes {
    /// For a door whose peers may leave so many bytes waiting in all.
    pub fn new(max: usize) -> Self {
        Self { all: AtomicUsize::new(0), of_peers: AddressCounts::default(), max }
    }
}

impl SlowPart {
    /// None yet, of a connection from `peer`.
    pub(crate) fn new(of: Arc<SlowBytes>, peer: IpAddr) -> Self {
        let of_peer = of.of_peers.place(peer);
        Self { of, of_peer, bytes: 0 }
    }

    /// Notes that so many bytes are kept now. Returns whether there is room for them.
    pub(crate) fn keep(&mut self, bytes: usize) -> bool {
        let bytes = if bytes <= UNCOUNTED_BYTES_MAX { 0 } else { bytes };
        if bytes == self.bytes {
            // Nearly always both are zero, which concerns nobody else.
            return true;
        }
        if !self.of_peer.set(bytes, self.of.max / 2) {
            return false;
        }
        let before = std::mem::replace(&mut self.bytes, bytes);
        if bytes < before {
            self.of.all.fetch_sub(before - bytes, Ordering::Relaxed);
            return true;
        }
        let more = bytes - before;
        self.of.all.fetch_add(more, Ordering::Relaxed) + more <= self.of.max
    }
}

impl Drop for SlowPart {
    fn drop(&mut self) {
        self.keep(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_together_keep_so_much_and_what_goes_is_free_again() {
        let all = Arc::new(SlowBytes::new(100_000));
        let part = |last| SlowPart::new(Arc::clone(&all), [127, 0, 0, last].into());
        let (mut first, mut second, mut third) = (part(1), part(2), part(3));
        assert!(first.keep(50_000) && second.keep(48_000));
        assert!(third.keep(UNCOUNTED_BYTES_MAX), "half a frame is always kept");
        assert!(!third.keep(UNCOUNTED_BYTES_MAX + 1));
        assert!(first.keep(50_000) && first.keep(40_000), "who has no more than before stays");
        drop(third);
        assert!(second.keep(50_000));
        let mut beside = part(2);
        assert!(!beside.keep(5_000), "a peer has half, by however many connections");
        assert!(part(3).keep(5_000));
        drop((first, second, beside));
        assert_eq!(all.all.load(Ordering::Relaxed), 0);
        assert!(all.of_peers.is_empty());
    }
}
