//! The bytes a peer has sent and nobody has read yet.
//!
//! INVARIANT: never more than one frame's worth and one read's worth of bytes; none at all, not
//! even reserved, while the peer is silent between two messages; no more than there are, while it
//! is silent within one.

use std::mem;
use std::ops::Range;

use cardswitch_iso8583::frame::{Frame, Tpdu, next_frame};
use cardswitch_iso8583::{Dialect, FRAME_BYTES_MAX};
use zeroize::Zeroize;

use super::{buffers, limits};

/// What may be left of a frame that has not come whole. Units: bytes.
const LEFTOVER_BYTES_MAX: usize = FRAME_BYTES_MAX + 4;

const _: () = assert!(LEFTOVER_BYTES_MAX < limits::READ_BYTES);

/// Bytes as they came, and how many of those to come are to be skipped.
#[derive(Default)]
pub(super) struct FrameBuffer {
    bytes: Vec<u8>,
    read_to: usize,
    skip_left: usize,
}

/// What comes next out of the buffer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A message, at this place of `bytes`.
    Message(Option<Tpdu>, Range<usize>),
    /// A frame that cannot be a message was skipped.
    Skipped,
    /// Nothing whole is there.
    Nothing,
    /// Nobody knows where the next message starts.
    OutOfStep,
}

impl FrameBuffer {
    /// Where the next read puts its bytes.
    pub(super) fn space(&mut self) -> &mut Vec<u8> {
        if self.bytes.capacity() < limits::READ_BYTES {
            self.move_to(buffers::take());
        } else {
            buffers::drop_front(&mut self.bytes, self.read_to);
            self.read_to = 0;
        }
        self.bytes.reserve(limits::READ_BYTES);
        &mut self.bytes
    }

    /// How many bytes have come and were not taken.
    pub(super) fn unread_bytes(&self) -> usize {
        self.bytes.len() - self.read_to
    }

    pub(super) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    /// Takes the next frame off.
    pub(super) fn take(&mut self, dialect: &Dialect) -> Next {
        loop {
            if !self.skip() {
                return Next::Nothing;
            }
            let unread = &self.bytes[self.read_to..];
            match next_frame(unread, dialect) {
                Frame::Complete { tpdu, body, consumed } => {
                    let at = self.read_to;
                    self.read_to += consumed;
                    return Next::Message(tpdu, at + body.start..at + body.end);
                }
                Frame::Incomplete { .. } => {
                    debug_assert!(unread.len() <= LEFTOVER_BYTES_MAX, "a frame is overlong");
                    return Next::Nothing;
                }
                Frame::ZeroLength { consumed } => self.read_to += consumed,
                Frame::Oversized { skip } | Frame::Undersized { skip } => {
                    self.skip_left = skip;
                    return Next::Skipped;
                }
                Frame::OutOfStep => return Next::OutOfStep,
            }
        }
    }

    /// Skips what is to be skipped of the bytes there. Returns whether all of it has come.
    fn skip(&mut self) -> bool {
        let skipped = self.skip_left.min(self.bytes.len() - self.read_to);
        self.read_to += skipped;
        self.skip_left -= skipped;
        self.skip_left == 0
    }

    /// Gives memory back where every byte was read, or only a part of a frame is left.
    pub(super) fn rest(&mut self) {
        let unread = self.unread_bytes();
        if unread <= LEFTOVER_BYTES_MAX && self.bytes.capacity() > LEFTOVER_BYTES_MAX {
            self.move_to(Vec::with_capacity(unread));
        } else if unread == 0 {
            self.move_to(Vec::new());
        }
    }

    /// Moves what was not taken to another buffer, which is empty.
    fn move_to(&mut self, mut buffer: Vec<u8>) {
        buffer.extend_from_slice(&self.bytes[self.read_to..]);
        self.read_to = 0;
        buffers::give_back(mem::replace(&mut self.bytes, buffer));
    }
}

impl Drop for FrameBuffer {
    fn drop(&mut self) {
        self.bytes.zeroize();
    }
}

#[cfg(any(test, fuzzing))]
#[path = "frame_buffer_properties.rs"]
pub(crate) mod properties;
#[cfg(test)]
mod tests {
    use super::*;

    fn taken(buffer: &mut FrameBuffer) -> Vec<Vec<u8>> {
        let mut messages = Vec::new();
        loop {
            match buffer.take(&Dialect::default()) {
                Next::Message(_, range) => messages.push(buffer.bytes(range).to_vec()),
                Next::Skipped => messages.push(b"skipped".to_vec()),
                Next::Nothing => return messages,
                Next::OutOfStep => panic!("out of step"),
            }
        }
    }

    #[test]
    fn messages_come_out_whole_however_they_were_cut() {
        let stream = b"\x00\x03one\x00\x00\x00\x05three\x00\x01x";
        for cut in 0..stream.len() {
            let mut buffer = FrameBuffer::default();
            buffer.space().extend_from_slice(&stream[..cut]);
            let mut messages = taken(&mut buffer);
            buffer.rest();
            buffer.space().extend_from_slice(&stream[cut..]);
            messages.extend(taken(&mut buffer));
            assert_eq!(messages, [b"one".to_vec(), b"three".to_vec(), b"x".to_vec()], "{cut}");
        }
    }

    #[test]
    fn oversized_frames_are_skipped_without_being_kept() {
        let mut buffer = FrameBuffer::default();
        buffer.space().extend_from_slice(b"\xff\xff");
        assert_eq!(taken(&mut buffer), [b"skipped".to_vec()]);
        for _ in 0..65_535 / 1_000 {
            buffer.space().extend_from_slice(&[0; 1_000]);
            assert!(taken(&mut buffer).is_empty());
            buffer.rest();
            assert_eq!(buffer.bytes.capacity(), 0);
        }
        buffer.space().extend_from_slice(&[0; 535]);
        buffer.space().extend_from_slice(b"\x00\x02ok");
        assert_eq!(taken(&mut buffer), [b"ok".to_vec()]);
    }

    #[test]
    fn a_silent_peer_costs_no_memory() {
        let mut buffer = FrameBuffer::default();
        buffer.space().extend_from_slice(b"\x00\x02ok");
        assert_eq!(taken(&mut buffer).len(), 1);
        buffer.rest();
        assert_eq!(buffer.bytes.capacity(), 0);
        buffer.space().extend_from_slice(b"\x00\x02o");
        assert!(taken(&mut buffer).is_empty());
        buffer.rest();
        assert_eq!(buffer.bytes, b"\x00\x02o", "half a message is kept");
        assert!(buffer.bytes.capacity() < 100, "and no more than that");
    }
}
