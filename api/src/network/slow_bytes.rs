//! Bytes kept for slow peers: answers that are not taken, requests that come faster than answers.
//!
//! Each connection alone is bounded, but thousands of them together would not be. So what they keep is counted for the
//! whole door, and who wants more where all of it is used is let go of: a peer that takes its answers keeps nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes that a connection may keep uncounted: half a frame.
const UNCOUNTED_BYTES_MAX: usize = cardswitch_iso8583::FRAME_BYTES_MAX + 4;

/// The bytes of all connections of a door.
#[derive(Debug)]
pub(super) struct SlowBytes {
    all: AtomicUsize,
    max: usize,
}

/// The bytes of one connection; dropping it frees them.
#[derive(Debug)]
pub(super) struct SlowPart {
    of: Arc<SlowBytes>,
    bytes: usize,
}

impl SlowBytes {
    pub(super) const fn new(max: usize) -> Self {
        Self { all: AtomicUsize::new(0), max }
    }
}

impl SlowPart {
    /// None yet.
    pub(super) const fn new(of: Arc<SlowBytes>) -> Self {
        Self { of, bytes: 0 }
    }

    /// Notes that so many bytes are kept now. Returns whether there is room for them.
    pub(super) fn keep(&mut self, bytes: usize) -> bool {
        let bytes = if bytes <= UNCOUNTED_BYTES_MAX { 0 } else { bytes };
        let before = std::mem::replace(&mut self.bytes, bytes);
        if bytes <= before {
            // Nearly always both are zero, which concerns nobody else.
            if bytes < before {
                self.of.all.fetch_sub(before - bytes, Ordering::Relaxed);
            }
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
        let part = || SlowPart::new(Arc::clone(&all));
        let (mut first, mut second, mut third) = (part(), part(), part());
        assert!(first.keep(60_000) && second.keep(40_000));
        assert!(third.keep(UNCOUNTED_BYTES_MAX), "half a frame is always kept");
        assert!(!third.keep(UNCOUNTED_BYTES_MAX + 1));
        assert!(first.keep(60_000) && first.keep(50_000), "who has no more than before stays");
        drop(third);
        assert!(second.keep(50_000));
        drop((first, second));
        assert_eq!(all.all.load(Ordering::Relaxed), 0);
    }
}
