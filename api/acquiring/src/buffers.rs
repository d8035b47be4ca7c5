//! Byte buffers that the connections of a thread lend each other. A connection has bytes of its own
//! only while a message is half read or its peer is slow, so thousands of silent ones cost nothing.

use std::cell::RefCell;

use zeroize::Zeroize;

use super::limits;

/// Buffers that a thread keeps: one to read into, one to answer from, and those of a connection
/// that was slow for a while.
const KEPT_MAX: usize = 4;
/// Larger ones are not kept. Units: bytes.
const KEPT_BYTES_MAX: usize = 2 * limits::READ_BYTES;

thread_local! {
    static KEPT: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer with room for one read.
pub(crate) fn take() -> Vec<u8> {
    let kept = KEPT.with_borrow_mut(Vec::pop);
    kept.unwrap_or_else(|| Vec::with_capacity(limits::READ_BYTES))
}

/// Takes so many bytes off the front, and wipes the place that the others leave.
pub(crate) fn drop_front(buffer: &mut Vec<u8>, count: usize) {
    let left = buffer.len() - count;
    buffer.copy_within(count.., 0);
    buffer[left..].fill(0);
    buffer.truncate(left);
}

/// Wipes a buffer, which may hold card numbers, and keeps it for the next use.
pub(crate) fn give_back(mut buffer: Vec<u8>) {
    let is_right = (limits::READ_BYTES..=KEPT_BYTES_MAX).contains(&buffer.capacity());
    if !is_right {
        buffer.zeroize();
        return;
    }
    // Unlike those of a buffer that goes, these writes are not the compiler's to leave out.
    buffer.fill(0);
    buffer.clear();
    KEPT.with_borrow_mut(|kept| {
        if kept.len() < KEPT_MAX {
            kept.push(buffer);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_taken_off_the_front() {
        for count in 0..=6 {
            let mut buffer = b"secret".to_vec();
            drop_front(&mut buffer, count);
            assert_eq!(buffer, b"secret"[count..]);
        }
    }

    #[test]
    fn buffers_are_lent_again_and_wiped_and_few_are_kept() {
        let mut buffer = take();
        buffer.extend_from_slice(b"4111111111111111");
        let place = buffer.as_ptr();
        give_back(buffer);
        let mut again = take();
        assert_eq!((again.as_ptr(), again.len()), (place, 0));
        again.resize(16, b'x');
        give_back(again);
        give_back(Vec::with_capacity(KEPT_BYTES_MAX + 1));
        give_back(Vec::new());
        assert_eq!(KEPT.with_borrow(Vec::len), 1);
        let lent: Vec<_> = (0..2 * KEPT_MAX).map(|_| take()).collect();
        lent.into_iter().for_each(give_back);
        assert_eq!(KEPT.with_borrow(Vec::len), KEPT_MAX);
    }
}
