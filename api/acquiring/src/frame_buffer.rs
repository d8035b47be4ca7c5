//! The bytes a peer has sent and nobody has read yet.
//!
//! INVARIANT: never more than one frame's worth and one read's worth of bytes; none at all, not
//! even reserved, while the peer is silent between two messages; no more than there are, while it
//! is silent within one.

use std::mem;
use std::ops::Range;

use cardswitch_iso8583::frame::{Frame, Tpdu, next_frame};
use cardswitch_iso8583::{FRAME_BYTES_MAX, Framing};
use zeroize::Zeroize;

use super::{buffers, limits};

/// The most bytes that are left of a frame that has not come whole. Units: bytes.
const LEFTOVER_BYTES_MAX: usize = FRAME_BYTES_MAX + 6;

const _: () = assert!(LEFTOVER_BYTES_MAX < limits::READ_BYTES);

const EMPTY_FRAMES: &str = "too many empty frames in a row";

/// Bytes as they came, and how many frames without a byte have come in a row.
#[derive(Default)]
pub struct FrameBuffer {
    bytes: Vec<u8>,
    read_to: usize,
    empty_frames: usize,
}

/// The next item out of the buffer.
#[derive(Debug, PartialEq, Eq)]
pub enum FrameItem {
    /// A message, at this place of `bytes`.
    Message(Option<Tpdu>, Range<usize>),
    /// A frame that cannot be a message was taken off.
    Skipped,
    /// Nothing whole is there.
    Nothing,
    /// The peer does not speak as this door does, for the reason that the log writes.
    Lost(&'static str),
}

impl FrameBuffer {
    /// The buffer that the next read appends to.
    pub fn space(&mut self) -> &mut Vec<u8> {
        if self.bytes.capacity() < limits::READ_BYTES {
            self.move_to(buffers::take());
        } else {
            buffers::drop_front(&mut self.bytes, self.read_to);
            self.read_to = 0;
        }
        self.bytes.reserve(limits::READ_BYTES);
        &mut self.bytes
    }

    /// The number of bytes that have come and were not taken.
    pub(crate) fn unread_bytes(&self) -> usize {
        self.bytes.len() - self.read_to
    }

    /// The bytes that have come and were not taken.
    pub(crate) fn unread(&self) -> &[u8] {
        &self.bytes[self.read_to..]
    }

    /// Whether an empty frame comes next.
    pub(crate) fn begins_empty(&self, framing: &Framing) -> bool {
        matches!(next_frame(self.unread(), framing), Frame::ZeroLength { .. })
    }

    /// The bytes of a message.
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    /// The bytes that it keeps, used or not.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Notes that the peer was silent for a while, which ends a row of empty frames.
    pub fn note_pause(&mut self) {
        self.empty_frames = 0;
    }

    /// Takes the next frame off.
    pub fn take(&mut self, framing: &Framing) -> FrameItem {
        loop {
            let unread = &self.bytes[self.read_to..];
            match next_frame(unread, framing) {
                Frame::Complete { tpdu, body, consumed } => {
                    let at = self.read_to;
                    self.read_to += consumed;
                    self.empty_frames = 0;
                    return FrameItem::Message(tpdu, at + body.start..at + body.end);
                }
                Frame::Incomplete { .. } => {
                    debug_assert!(unread.len() <= LEFTOVER_BYTES_MAX, "a frame is overlong");
                    return FrameItem::Nothing;
                }
                Frame::ZeroLength { consumed } => {
                    self.read_to += consumed;
                    self.empty_frames += 1;
                    if self.empty_frames > limits::EMPTY_FRAMES_MAX {
                        return FrameItem::Lost(EMPTY_FRAMES);
                    }
                }
                Frame::Undersized { consumed } => {
                    self.read_to += consumed;
                    return FrameItem::Skipped;
                }
                Frame::Lost(loss) => return FrameItem::Lost(loss.reason()),
            }
        }
    }

    /// Gives memory back where every byte was read, or only a part of a frame is left.
    pub fn rest(&mut self) {
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
pub mod properties;
#[cfg(test)]
mod tests {
    use super::*;

    /// The least capacity of a vector that is not empty.
    const MIN_BYTES: usize = 8;

    fn taken(buffer: &mut FrameBuffer) -> Vec<Vec<u8>> {
        let mut messages = Vec::new();
        loop {
            match buffer.take(&Framing::default()) {
                FrameItem::Message(_, range) => messages.push(buffer.bytes(range).to_vec()),
                FrameItem::Skipped => messages.push(b"skipped".to_vec()),
                FrameItem::Nothing => return messages,
                FrameItem::Lost(loss) => panic!("{loss:?}"),
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
    fn a_frame_too_short_for_its_header_costs_no_other() {
        let framing = Framing { tpdu: true, ..Framing::default() };
        let mut buffer = FrameBuffer::default();
        buffer.space().extend_from_slice(b"\x00\x03abc\x00\x07\x60\x00\x00\x00\x00ok");
        assert_eq!(buffer.take(&framing), FrameItem::Skipped);
        assert!(matches!(buffer.take(&framing), FrameItem::Message(Some(_), _)));
        assert_eq!(buffer.take(&framing), FrameItem::Nothing);
    }

    #[test]
    fn so_many_empty_frames_come_in_a_row_and_no_more() {
        let (empty, message) = ([0; 2 * limits::EMPTY_FRAMES_MAX], b"\x00\x02ok");
        let mut buffer = FrameBuffer::default();
        // A message ends a row, and so does a pause.
        for _ in 0..3 {
            buffer.space().extend_from_slice(&[&empty[..], message].concat());
            assert_eq!(taken(&mut buffer), [b"ok".to_vec()]);
        }
        buffer.space().extend_from_slice(&empty);
        assert!(taken(&mut buffer).is_empty());
        buffer.note_pause();
        buffer.space().extend_from_slice(&empty);
        assert!(taken(&mut buffer).is_empty());
        buffer.space().extend_from_slice(&[&[0, 0][..], message].concat());
        let next = buffer.take(&Framing::default());
        assert_eq!(next, FrameItem::Lost(EMPTY_FRAMES), "nothing behind them counts");
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

    /// The longest half of a frame, byte by byte as a hostile peer sends it, costs its own bytes.
    #[test]
    fn half_a_frame_is_kept_in_no_more_than_its_bytes() {
        let frame = [&FRAME_BYTES_MAX.to_be_bytes()[6..], &[b'x'; FRAME_BYTES_MAX - 1]].concat();
        let mut buffer = FrameBuffer::default();
        for (at, byte) in frame.iter().enumerate() {
            buffer.space().push(*byte);
            assert!(taken(&mut buffer).is_empty());
            buffer.rest();
            assert!(buffer.kept_bytes() <= at + 1 + MIN_BYTES, "{} at {at}", buffer.kept_bytes());
        }
        buffer.space().push(b'x');
        assert_eq!(taken(&mut buffer), [vec![b'x'; FRAME_BYTES_MAX]]);
        buffer.rest();
        assert_eq!(buffer.kept_bytes(), 0, "and nothing once it is whole");
    }
}
