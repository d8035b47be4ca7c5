//! The fields of a counterpart's request that its answer may have as they came.
//!
//! INVARIANT: no field is among them that leads to card data other than the card number.

use std::fmt;
use std::ops::Range;

use crate::bitmap::Bitmap;
use crate::wire_runs::{FieldEnd, WireRuns, copy_runs};

/// Fields of one request. Its `Debug` shows no content.
#[derive(Clone, Default)]
pub struct RepeatedFields {
    pub(crate) numbers: Bitmap,
    /// The fields that the answer always has, not only where it repeats the elements that they lead to.
    pub(crate) certain: Bitmap,
    /// The elements that they lead to.
    pub(crate) elements: Bitmap,
    /// The fields, lengths included, then where each ends.
    bytes: Vec<u8>,
}

/// One more than the greatest number of a field.
const NUMBERS: usize = 129;

impl RepeatedFields {
    /// No fields.
    pub const NONE: Self = Self {
        numbers: Bitmap::EMPTY,
        certain: Bitmap::EMPTY,
        elements: Bitmap::EMPTY,
        bytes: Vec::new(),
    };

    /// Wipes them, and gives their memory back.
    pub fn clear(&mut self) {
        self.bytes.fill(0);
        *self = Self::NONE;
    }

    /// Whether there is one whose number is above this.
    pub fn has_beyond(&self, number: u8) -> bool {
        self.numbers.elements().any(|other| other > number)
    }

    pub(crate) fn runs(&self) -> WireRuns<'_> {
        let ends_at = self.bytes.len() - size_of::<FieldEnd>() * self.numbers.len();
        let (bytes, ends) = self.bytes.split_at(ends_at);
        WireRuns { present: self.numbers, ends: ends.as_chunks().0, bytes }
    }

    /// Copies the fields of the numbers from a message, in the place of others.
    pub(crate) fn copy(&mut self, message: &[u8], place_of: impl Fn(u8) -> Range<usize>) {
        let Self { numbers, bytes, .. } = self;
        bytes.clear();
        if numbers.is_empty() {
            return;
        }
        let mut ends = [FieldEnd::default(); NUMBERS];
        // At once: growing would leave copies of a card number behind.
        bytes.reserve_exact(message.len() + size_of::<FieldEnd>() * numbers.len());
        copy_runs(*numbers, place_of, &mut ends, |run| bytes.extend_from_slice(&message[run]));
        bytes.extend_from_slice(ends[..numbers.len()].as_flattened());
    }
}

impl fmt::Debug for RepeatedFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.numbers.fmt(f)
    }
}
