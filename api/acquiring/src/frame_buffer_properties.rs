//! Properties of a connection's bytes in any pieces. The fuzz target `frame_buffer` and the test
//! below run it.

use cardswitch_iso8583::Framing;

use super::{FrameBuffer, FrameItem, LEFTOVER_BYTES_MAX, limits};

/// The same messages come out of a stream whether it comes whole or in pieces of `cuts`, and what
/// waits for its end is bounded.
pub fn check(choice: u8, cuts: &[u8], stream: &[u8]) {
    let length = match choice & 7 {
        0 => "binary4",
        1 => "ascii4",
        2 => "bcd4",
        3 => "ebcdic4",
        4 => "binary2 inclusive",
        5 => "delimiter 03",
        6 => "delimiter 0D0A",
        _ => "binary2",
    };
    // INVARIANT: each of them is one.
    let length = length.parse().unwrap_or_default();
    let framing = Framing { length, tpdu: choice & 8 != 0 };
    let whole = taken(&framing, stream.chunks(limits::READ_BYTES));
    assert_eq!(taken(&framing, pieces(stream, cuts)), whole);
}

/// The stream in pieces that are as long as the cuts say, in turn.
fn pieces<'a>(mut stream: &'a [u8], cuts: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let mut lengths = cuts.iter().map(|cut| usize::from(*cut) + 1).cycle();
    std::iter::from_fn(move || {
        let len = lengths.next().unwrap_or(limits::READ_BYTES).min(stream.len());
        let (piece, rest) = stream.split_at(len);
        stream = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

/// The items out of a buffer into which these pieces are read, as a connection reads them.
fn taken<'a>(framing: &Framing, pieces: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    let mut buffer = FrameBuffer::default();
    let mut taken = Vec::new();
    for piece in pieces {
        buffer.space().extend_from_slice(piece);
        loop {
            match buffer.take(framing) {
                FrameItem::Message(tpdu, range) => {
                    taken.push(format!("{tpdu:?} {:?}", buffer.bytes(range)));
                }
                FrameItem::Nothing => break,
                // The peer's own dialect is known better with more of its bytes.
                FrameItem::Lost(_) => {
                    taken.push("lost".to_owned());
                    return taken;
                }
                other => taken.push(format!("{other:?}")),
            }
        }
        assert!(buffer.unread_bytes() <= LEFTOVER_BYTES_MAX, "{} bytes", buffer.unread_bytes());
        buffer.rest();
        assert!(buffer.bytes.capacity() <= LEFTOVER_BYTES_MAX, "{} bytes", buffer.bytes.capacity());
    }
    taken
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Frames that are whole, empty, too long, too short, or no frames.
    fn streams() -> impl Strategy<Value = Vec<u8>> {
        let digits = |len: usize| format!("{len:04}").into_bytes();
        let frame = prop_oneof![
            4 => vec(any::<u8>(), 0..300).prop_map(|body| {
                [&u16::try_from(body.len()).unwrap().to_be_bytes()[..], &body].concat()
            }),
            2 => vec(any::<u8>(), 0..300)
                .prop_map(move |body| [digits(body.len()), body].concat()),
            2 => vec(any::<u8>(), 0..300).prop_map(|body| {
                [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], &body].concat()
            }),
            1 => vec(any::<u8>(), 0..9),
        ];
        vec(frame, 0..8).prop_map(|frames| frames.concat())
    }

    proptest! {
        #[test]
        fn messages_are_the_same_however_a_stream_is_cut(
            choice in any::<u8>(),
            cuts in vec(any::<u8>(), 1..6),
            stream in streams(),
        ) {
            super::check(choice, &cuts, &stream);
        }
    }
}
