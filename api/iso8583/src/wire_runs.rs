//! Fields as they stand on the wire, one after the other, with where each ends: they are copied in runs.

use std::ops::Range;

use crate::bitmap::Bitmap;

/// End of a field in its place: a number in the machine's byte order. Units: bytes.
pub(crate) type FieldEnd = [u8; 2];

/// Fields in their order.
pub(crate) struct WireRuns<'a> {
    pub(crate) present: Bitmap,
    pub(crate) ends: &'a [FieldEnd],
    pub(crate) bytes: &'a [u8],
}

impl<'a> WireRuns<'a> {
    /// Place of the field, present or not.
    pub(crate) fn place_of(&self, number: u8) -> Range<usize> {
        let before = self.present.count_below(number);
        let after = before + usize::from(self.present.contains(number));
        self.end_of_first(before)..self.end_of_first(after)
    }

    /// Bytes of all fields.
    pub(crate) fn len(&self) -> usize {
        self.end_of_first(self.present.len())
    }

    /// Appends the fields but those of the set. At each of the set, present or not, the function appends its own.
    /// Errors: the first of the function.
    pub(crate) fn copy_but<E>(
        &self,
        set: Bitmap,
        out: &mut Vec<u8>,
        mut write: impl FnMut(u8, &mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut copied_to = 0;
        for number in set.elements() {
            let place = self.place_of(number);
            out.extend_from_slice(self.bytes(copied_to..place.start));
            copied_to = place.end;
            write(number, out)?;
        }
        out.extend_from_slice(self.bytes(copied_to..self.len()));
        Ok(())
    }

    /// Fields of the place.
    pub(crate) fn bytes(&self, place: Range<usize>) -> &'a [u8] {
        self.bytes.get(place).unwrap_or_default()
    }

    fn end_of_first(&self, count: usize) -> usize {
        let end = count.checked_sub(1).and_then(|last| self.ends.get(last));
        end.map_or(0, |end| usize::from(u16::from_ne_bytes(*end)))
    }
}

/// Calls the function with the runs that fields at these places make, and notes where each field ends in what is so
/// copied.
pub(crate) fn copy_runs(
    numbers: Bitmap,
    place_of: impl Fn(u8) -> Range<usize>,
    ends: &mut [FieldEnd],
    mut copy: impl FnMut(Range<usize>),
) {
    let (mut run, mut copied) = (0..0, 0);
    for (end, number) in ends.iter_mut().zip(numbers.elements()) {
        let place = place_of(number);
        if place.start != run.end {
            copied += run.end - run.start;
            copy(run);
            run = place.start..place.start;
        }
        run.end = place.end;
        // INVARIANT: the fields are of one frame.
        *end = u16::try_from(copied + run.end - run.start).unwrap_or(u16::MAX).to_ne_bytes();
    }
    copy(run);
}
