//! The elements of a request that its answer repeats: their bytes, copied once from the frame.
//!
//! A frame holds card data and is wiped as soon as it is read. The elements that identify the message wait here,
//! in a place of fixed size, until its answer is known. They stand as on the wire, length prefixes included and
//! one after the other, so an answer copies them in runs.
//!
//! INVARIANT: the elements passed the checks of `codec` and none is binary, so they are written as they were read.

use std::fmt;

use crate::bitmap::Bitmap;
use crate::fields::{Class, field};
use crate::message::Message;
use crate::mti::Mti;
use crate::number::parse_number;
use crate::wire_runs::{FieldEnd, WireRuns, copy_runs};

/// The elements that identify a request and come back in its answer. Card data other than the card number does not.
pub const ECHOED: Bitmap = Bitmap::of(&[
    2, 3, 4, 5, 6, 7, 11, 12, 13, 15, 18, 19, 22, 23, 24, 25, 32, 33, 37, 41, 42, 43, 49, 50, 51,
    70, 90, 95,
]);
/// The kept elements: the echoed ones, and the name of an earlier authorization, which some answers repeat.
const KEPT: Bitmap = ECHOED.union(Bitmap::of(&[38]));
const KEPT_ELEMENTS: usize = KEPT.len();
/// The room that all kept elements take at their longest. Units: bytes.
pub const ECHO_BYTES_MAX: usize = bytes_max();

/// The kept elements of one request. Its `Debug` shows no content.
#[derive(Clone)]
pub struct Echo {
    /// The type of the request.
    pub mti: Mti,
    /// The elements kept.
    pub kept: Bitmap,
    /// The end of each kept element, in their order.
    ends: [FieldEnd; KEPT_ELEMENTS],
    bytes: [u8; ECHO_BYTES_MAX],
}

impl Echo {
    /// The place of a message that is still to come.
    pub const EMPTY: Self = Self {
        mti: Mti::NETWORK_REQUEST,
        kept: Bitmap::EMPTY,
        ends: [[0; 2]; KEPT_ELEMENTS],
        bytes: [0; ECHO_BYTES_MAX],
    };

    /// The elements that an answer to this request may repeat.
    pub fn of(request: &Message<'_>) -> Self {
        let mut echo = Self::EMPTY;
        echo.copy(request);
        echo
    }

    /// Keeps this request in the place of whatever was kept.
    pub fn copy(&mut self, request: &Message<'_>) {
        self.mti = request.mti();
        self.kept = KEPT.intersection(request.present());
        let (bytes, mut filled) = (&mut self.bytes, 0);
        copy_runs(
            self.kept,
            |de| request.wire_range(de),
            &mut self.ends,
            |run| {
                let end = filled + run.len();
                // INVARIANT: the place takes every kept element at its longest.
                bytes[filled..end].copy_from_slice(request.wire_bytes(run));
                filled = end;
            },
        );
    }

    /// Wipes the card number and all else.
    pub fn clear(&mut self) {
        let len = self.runs().len();
        self.bytes[..len].fill(0);
        self.kept = Bitmap::EMPTY;
    }

    /// The content of a kept element.
    pub fn get(&self, de: u8) -> Option<&[u8]> {
        if !self.kept.contains(de) {
            return None;
        }
        let prefix = usize::from(field(de)?.length.prefix_digits());
        let place = self.runs().place_of(de);
        self.bytes.get(place.start + prefix..place.end)
    }

    /// The number that a kept element of digits spells.
    pub fn get_number(&self, de: u8) -> Option<u64> {
        parse_number(self.get(de)?)
    }

    /// The kept elements as on the wire.
    pub(crate) const fn runs(&self) -> WireRuns<'_> {
        WireRuns { present: self.kept, ends: &self.ends, bytes: &self.bytes }
    }
}

impl Default for Echo {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl fmt::Debug for Echo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Echo")
            .field("mti", &self.mti)
            .field("kept", &self.kept)
            .finish_non_exhaustive()
    }
}

const fn bytes_max() -> usize {
    let (mut de, mut bytes) = (2, 0);
    while de <= 128 {
        if let (true, Some(spec)) = (KEPT.contains(de), field(de)) {
            assert!(!matches!(spec.class, Class::Binary), "hex text would have to be rewritten");
            bytes += (spec.len_max + spec.length.prefix_digits()) as usize;
        }
        de += 1;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MessageBuilder, decode};

    fn request() -> MessageBuilder {
        MessageBuilder::new(Mti::AUTHORIZATION_REQUEST)
            .set(2, b"4111111111111111")
            .set_number(4, 5000)
            .set_number(11, 42)
            .set(14, b"2912")
            .set_number(32, 12_345)
            .set_text(37, "RRN000000001")
            .set_text(38, "A1B2C3")
            .set_text(48, "9203123")
            .set(52, &[0xab; 8])
            .set_text(95, "000000003050000000000000C00000000C00000000")
    }

    fn echo_of(request: &MessageBuilder) -> Echo {
        let mut frame = Vec::new();
        request.encode(&mut frame).unwrap();
        Echo::of(&decode(&frame).unwrap())
    }

    #[test]
    fn what_identifies_a_request_is_kept_and_no_secret() {
        let echo = echo_of(&request());
        let kept: Vec<u8> = echo.kept.elements().collect();
        assert_eq!(kept, [2, 4, 11, 32, 37, 38, 95]);
        assert_eq!(echo.get(2), Some(&b"4111111111111111"[..]));
        assert_eq!((echo.get_number(4), echo.get_number(11)), (Some(5000), Some(42)));
        assert_eq!((echo.get(32), echo.get(38)), (Some(&b"12345"[..]), Some(&b"A1B2C3"[..])));
        assert_eq!((echo.get(14), echo.get(48), echo.get(52)), (None, None, None));
        let runs = echo.runs();
        assert_eq!(runs.bytes(0..runs.place_of(4).start), b"164111111111111111");
        assert_eq!((runs.place_of(3), runs.place_of(128).end), (18..18, runs.len()));
    }

    #[test]
    fn the_longest_of_every_element_fits_and_leaves_nothing_when_cleared() {
        let full = KEPT.elements().fold(MessageBuilder::new(Mti::REVERSAL_REQUEST), |built, de| {
            let longest = vec![b'1'; usize::from(field(de).unwrap().len_max)];
            built.set(de, &longest)
        });
        let mut echo = echo_of(&full);
        assert_eq!((echo.kept, echo.runs().len()), (KEPT, ECHO_BYTES_MAX));
        echo.clear();
        assert_eq!((echo.runs().len(), echo.get(2)), (0, None));
        assert!(echo.bytes.iter().all(|byte| *byte == 0));
        echo.copy(&decode(b"0800\0\0\0\0\0\0\0\0").unwrap());
        assert_eq!((echo.mti, echo.runs().len()), (Mti::NETWORK_REQUEST, 0));
    }

    #[test]
    fn debug_shows_no_content() {
        let shown = format!("{:?}", echo_of(&request()));
        assert_eq!(shown, "Echo { mti: Mti(0100), kept: [2, 4, 11, 32, 37, 38, 95], .. }");
    }
}
