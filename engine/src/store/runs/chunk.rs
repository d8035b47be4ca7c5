//! A chunk: up to 8 KiB of a run's entries, each number as narrow as the chunk allows.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 0..4 | CRC32C | over all that follows |
//! | 4 | format version | 1 |
//! | 5 | kind | |
//! | 6, 7 | width of majors, of minors | 0 to 8 bytes |
//! | 8..12 | count | never 0 |
//! | 12..16 | zero | |
//! | 16..24 | run | |
//! | 24..32 | position | of the first entry inside the run |
//! | 32..40, 40..48 | base major, base minor | the least of each |
//! | 48.. | majors, less the base | sorted |
//! | | minors, less the base | in the order of the majors |
//! | last 8 | zero | so that the last number can be read as eight bytes |
//!
//! INVARIANT: every chunk that is read is checked against its sum and its key; nothing else checks
//! a page.

use std::ops::Range;

use super::{ChunkKey, Entry, RunKind, damaged_chunk};
use crate::store::error::StoreError;

const FORMAT: u8 = 1;
const HEADER_BYTES: usize = 48;
const TAIL_BYTES: usize = 8;

/// The longest chunk: with its key and redb's own header it fills a page of 8 KiB.
pub(super) const CHUNK_BYTES_MAX: usize = 8 * 1024 - 64;

/// Gathers sorted entries until a chunk is full.
#[derive(Debug)]
pub(super) struct ChunkBuilder {
    kind: RunKind,
    run: u64,
    /// The number of the run's entries before the chunk.
    pub(super) position: u64,
    entries: Vec<Entry>,
    minor_low: u64,
    minor_high: u64,
}

impl ChunkBuilder {
    /// A writer of the chunk of `run` that begins at `position`.
    pub(super) fn new(kind: RunKind, run: u64, position: u64) -> Self {
        let entries = Vec::with_capacity(CHUNK_BYTES_MAX / 5);
        Self { kind, run, position, entries, minor_low: u64::MAX, minor_high: 0 }
    }

    /// Whether there is nothing to write.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The newest entry taken.
    pub(super) fn last(&self) -> Option<Entry> {
        self.entries.last().copied()
    }

    /// Takes an entry above all taken before; false, and nothing taken, if the chunk is full.
    #[inline]
    pub(super) fn push(&mut self, entry: Entry) -> bool {
        debug_assert!(self.last().is_none_or(|last| last < entry), "entries rise");
        let low = self.minor_low.min(entry.minor());
        let high = self.minor_high.max(entry.minor());
        let base = self.entries.first().unwrap_or(&entry).major();
        let widths = width_of(entry.major() - base) + width_of(high - low);
        if (self.entries.len() + 1) * widths > CHUNK_BYTES_MAX - HEADER_BYTES - TAIL_BYTES
            || self.entries.len() >= CHUNK_BYTES_MAX
        {
            return false;
        }
        self.minor_low = low;
        self.minor_high = high;
        self.entries.push(entry);
        true
    }

    /// The key of the chunk in its table.
    pub(super) fn key(&self) -> ChunkKey {
        let last = self.last().unwrap_or(Entry::FIRST);
        (self.kind.number(), self.run, last.major(), last.minor())
    }

    /// Puts the chunk's bytes into `bytes`, and begins the next chunk of the run.
    pub(super) fn finish_into(&mut self, bytes: &mut Vec<u8>) {
        let (Some(first), Some(last)) = (self.entries.first(), self.entries.last()) else {
            unreachable!("a chunk has an entry");
        };
        let count = self.entries.len();
        let base = first.major();
        let major_width = width_of(last.major() - base);
        let minor_width = width_of(self.minor_high - self.minor_low);
        let minors_at = HEADER_BYTES + count * major_width;
        let end = minors_at + count * minor_width + TAIL_BYTES;
        bytes.clear();
        bytes.resize(end, 0);
        self.write_header(bytes, [major_width, minor_width], base);
        // Eight bytes are written for each number, the next one overwrites those it does not need.
        for (place, entry) in self.entries.iter().enumerate() {
            put_u64(bytes, HEADER_BYTES + place * major_width, entry.major() - base);
        }
        for (place, entry) in self.entries.iter().enumerate() {
            put_u64(bytes, minors_at + place * minor_width, entry.minor() - self.minor_low);
        }
        let sum = crc32c::crc32c(&bytes[4..]);
        bytes[0..4].copy_from_slice(&sum.to_le_bytes());
        assert!(end <= CHUNK_BYTES_MAX, "a chunk fits a page");
        self.position += count as u64;
        self.entries.clear();
        self.minor_low = u64::MAX;
        self.minor_high = 0;
    }

    #[expect(clippy::cast_possible_truncation, reason = "widths are at most 8, counts 32 Ki")]
    fn write_header(&self, bytes: &mut [u8], widths: [usize; 2], base_major: u64) {
        bytes[4] = FORMAT;
        bytes[5] = self.kind.number();
        bytes[6] = widths[0] as u8;
        bytes[7] = widths[1] as u8;
        bytes[8..12].copy_from_slice(&(self.entries.len() as u32).to_le_bytes());
        put_u64(bytes, 16, self.run);
        put_u64(bytes, 24, self.position);
        put_u64(bytes, 32, base_major);
        put_u64(bytes, 40, self.minor_low);
    }
}

/// A chunk as it stands in a page, checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkView<'a> {
    /// The places of its numbers.
    pub(super) layout: ChunkLayout,
    bytes: &'a [u8],
}

/// The places of a chunk's numbers among its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkLayout {
    count: usize,
    position: u64,
    major_width: usize,
    minor_width: usize,
    minors_at: usize,
    base_major: u64,
    base_minor: u64,
}

impl ChunkLayout {
    /// The layout that a header of the right length tells.
    fn read(bytes: &[u8]) -> Self {
        let count = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]) as usize;
        let major_width = usize::from(bytes[6]);
        Self {
            count,
            position: get_u64(bytes, 24),
            major_width,
            minor_width: usize::from(bytes[7]),
            minors_at: HEADER_BYTES + count * major_width,
            base_major: get_u64(bytes, 32),
            base_minor: get_u64(bytes, 40),
        }
    }

    /// Whether the numbers fill a chunk of this length.
    const fn fills(&self, bytes: usize) -> bool {
        self.count > 0
            && self.major_width <= 8
            && self.minor_width <= 8
            && self.minors_at + self.count * self.minor_width + TAIL_BYTES == bytes
    }
}

impl<'a> ChunkView<'a> {
    /// Reads the chunk that stands at `key`.
    /// Errors: `Damaged` if its sum is wrong or it belongs elsewhere.
    /// Cost: O(bytes), for the sum.
    pub(super) fn read(key: ChunkKey, bytes: &'a [u8]) -> Result<Self, StoreError> {
        if bytes.len() < HEADER_BYTES + TAIL_BYTES {
            return Err(damaged_chunk(key, "it is cut short"));
        }
        if crc32c::crc32c(&bytes[4..]).to_le_bytes() != bytes[0..4] {
            return Err(damaged_chunk(key, "its sum is wrong"));
        }
        let view = Self { layout: ChunkLayout::read(bytes), bytes };
        if bytes[4] != FORMAT || !view.layout.fills(bytes.len()) {
            return Err(damaged_chunk(key, "its header contradicts itself"));
        }
        let place = (bytes[5], get_u64(bytes, 16), view.last().major(), view.last().minor());
        if place != key {
            return Err(damaged_chunk(key, "it belongs elsewhere"));
        }
        Ok(view)
    }

    /// The view of a chunk that was read before, with the layout found then.
    pub(super) const fn again(layout: ChunkLayout, bytes: &'a [u8]) -> Self {
        Self { layout, bytes }
    }

    /// Takes a copy that lives on its own; `spare` is memory to be used for it.
    pub(super) fn to_copy(self, mut spare: Vec<u8>) -> ChunkCopy {
        spare.clear();
        spare.extend_from_slice(self.bytes);
        ChunkCopy { layout: self.layout, bytes: spare }
    }

    /// The number of entries.
    pub(super) const fn count(&self) -> usize {
        self.layout.count
    }

    /// The number of the run's entries before these.
    pub(super) const fn position(&self) -> u64 {
        self.layout.position
    }

    /// The entry at `place`, below the count.
    #[inline]
    pub(super) fn entry(&self, place: usize) -> Entry {
        let ChunkLayout { major_width, base_major, .. } = self.layout;
        let major = get_narrow(self.bytes, HEADER_BYTES + place * major_width, major_width);
        // Wrapping: a chunk with a right sum was written from entries that fit.
        Entry::new(base_major.wrapping_add(major), self.minor(place))
    }

    /// The minor of the entry at `place`, below the count.
    #[inline]
    pub(super) fn minor(&self, place: usize) -> u64 {
        let ChunkLayout { minor_width, minors_at, base_minor, .. } = self.layout;
        debug_assert!(place < self.layout.count, "the place is inside the chunk");
        base_minor.wrapping_add(get_narrow(
            self.bytes,
            minors_at + place * minor_width,
            minor_width,
        ))
    }

    /// The least entry.
    pub(super) fn first(&self) -> Entry {
        self.entry(0)
    }

    /// The greatest entry.
    pub(super) fn last(&self) -> Entry {
        self.entry(self.layout.count - 1)
    }

    /// The number of entries below `bound`.
    pub(super) fn rank(&self, bound: Entry) -> usize {
        self.rank_within(0..self.layout.count, bound)
    }

    /// The first of these places whose entry is behind `bound`; their end if none is.
    pub(super) fn rank_behind(&self, places: Range<usize>, bound: Entry) -> usize {
        let end = places.end;
        bound.next().map_or(end, |next| self.rank_within(places, next))
    }

    /// The first of these places whose entry is not below `bound`; their end if all are.
    fn rank_within(&self, places: Range<usize>, bound: Entry) -> usize {
        let (mut low, mut high) = (places.start, places.end);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.entry(middle) < bound {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The places of the entries between two, both included.
    pub(super) fn between(&self, low: Entry, high: Entry) -> Range<usize> {
        let from = self.rank(low);
        from..self.rank_behind(from..self.layout.count, high)
    }

    /// Appends the entries at these places to `entries`.
    pub(super) fn decode_into(&self, places: Range<usize>, entries: &mut Vec<Entry>) {
        let ChunkLayout { major_width, minor_width, minors_at, base_major, base_minor, .. } =
            self.layout;
        let majors = self.bytes.get(HEADER_BYTES + places.start * major_width..).unwrap_or(&[]);
        let minors = self.bytes.get(minors_at + places.start * minor_width..).unwrap_or(&[]);
        entries.extend((0..places.len()).map(|place| {
            let major = get_narrow(majors, place * major_width, major_width);
            let minor = get_narrow(minors, place * minor_width, minor_width);
            Entry::new(base_major.wrapping_add(major), base_minor.wrapping_add(minor))
        }));
    }
}

/// A chunk that was taken out of its page.
#[derive(Debug)]
pub(super) struct ChunkCopy {
    layout: ChunkLayout,
    bytes: Vec<u8>,
}

impl ChunkCopy {
    pub(super) fn view(&self) -> ChunkView<'_> {
        ChunkView::again(self.layout, &self.bytes)
    }

    /// The memory, for another copy.
    pub(super) fn into_spare(self) -> Vec<u8> {
        self.bytes
    }
}

/// The bytes that a number needs.
#[inline]
const fn width_of(number: u64) -> usize {
    (u64::BITS - number.leading_zeros()).div_ceil(8) as usize
}

#[inline]
fn put_u64(bytes: &mut [u8], at: usize, number: u64) {
    bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
}

#[inline]
fn get_u64(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}

/// The lowest `width` bytes at `at`; eight bytes stand there.
#[inline]
fn get_narrow(bytes: &[u8], at: usize, width: usize) -> u64 {
    const MASKS: [u64; 9] = [
        0,
        0xff,
        0xffff,
        0xff_ffff,
        0xffff_ffff,
        0xff_ffff_ffff,
        0xffff_ffff_ffff,
        0xff_ffff_ffff_ffff,
        u64::MAX,
    ];
    get_u64(bytes, at) & MASKS[width]
}
