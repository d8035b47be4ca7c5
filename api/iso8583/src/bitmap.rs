//! The set of data elements of a message: one bit each, DE 1 first, in one bitmap or two.
//!
//! Bit 1 says that the second bitmap (DE 65 to 128) follows; it is not a data element of its own here.

use std::fmt;

/// How a bitmap stands in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BitmapEncoding {
    /// Eight bytes.
    #[default]
    Binary,
    /// Sixteen hex characters.
    HexText,
}

/// A set of data elements 1 to 128.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Bitmap {
    /// DE 1 to 64 from the lowest bit up, which is cheaper to walk than the order of the wire, then DE 65 to 128.
    halves: [u64; 2],
}

impl Bitmap {
    /// No data elements.
    pub const EMPTY: Self = Self { halves: [0; 2] };

    /// The set of the given data elements; numbers outside 1 to 128 are left out.
    pub const fn of(elements: &[u8]) -> Self {
        let mut set = Self::EMPTY;
        let mut at = 0;
        while at < elements.len() {
            set.insert(elements[at]);
            at += 1;
        }
        set
    }

    /// Whether the data element is in the set.
    pub const fn contains(self, de: u8) -> bool {
        let (half, bit) = place_of(de);
        self.halves[half] & bit != 0
    }

    /// Adds a data element; a number outside 1 to 128 changes nothing.
    pub const fn insert(&mut self, de: u8) {
        let (half, bit) = place_of(de);
        self.halves[half] |= bit;
    }

    /// Takes a data element out.
    pub const fn remove(&mut self, de: u8) {
        let (half, bit) = place_of(de);
        self.halves[half] &= !bit;
    }

    /// The elements that are in both sets.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        let ([first, second], [other_first, other_second]) = (self.halves, other.halves);
        Self { halves: [first & other_first, second & other_second] }
    }

    /// The elements that are in this set and not in the other.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        let ([first, second], [other_first, other_second]) = (self.halves, other.halves);
        Self { halves: [first & !other_first, second & !other_second] }
    }

    /// The elements that are in either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        let ([first, second], [other_first, other_second]) = (self.halves, other.halves);
        Self { halves: [first | other_first, second | other_second] }
    }

    /// Whether the set has no element.
    pub const fn is_empty(self) -> bool {
        let [first, second] = self.halves;
        first | second == 0
    }

    /// How many data elements the set has.
    pub const fn len(self) -> usize {
        let [first, second] = self.halves;
        (first.count_ones() + second.count_ones()) as usize
    }

    /// The elements of the set that are below this one.
    pub(crate) const fn below(self, de: u8) -> Self {
        let [first, second] = self.halves;
        let halves = match de {
            0 => [0, 0],
            1..=64 => [first & (bit_of(de) - 1), 0],
            65..=128 => [first, second & (bit_of(de) - 1)],
            _ => [first, second],
        };
        Self { halves }
    }

    /// How many data elements of the set are below this one.
    pub const fn count_below(self, de: u8) -> usize {
        self.below(de).len()
    }

    /// The data elements 2 to 128 of the set, ascending.
    pub const fn elements(self) -> ElementNumbers {
        let [first, second] = self.halves;
        ElementNumbers { rest: first & !BIT_1, behind: second, number: 1 }
    }

    /// Whether elements above 64 make a second bitmap necessary.
    pub const fn needs_secondary(self) -> bool {
        self.halves[1] != 0
    }

    /// Reads one bitmap or two from the start of the bytes; also gives how many bytes they took.
    ///
    /// None when the bytes end too early, or are not hex where they have to be.
    pub fn read(bytes: &[u8], encoding: BitmapEncoding) -> Option<(Self, usize)> {
        let each = half_bytes(encoding);
        let first = read_half(bytes.get(..each)?, encoding)?;
        if first & BIT_1 == 0 {
            return Some((Self { halves: [first, 0] }, each));
        }
        let second = read_half(bytes.get(each..2 * each)?, encoding)?;
        Some((Self { halves: [first, second] }, 2 * each))
    }

    /// Writes the bitmap over one that stands there in bytes, of as many halves.
    pub(crate) fn write_over(self, place: &mut [u8], has_secondary: bool) {
        let [first, second] = self.halves;
        let first = if has_secondary { first | BIT_1 } else { first & !BIT_1 };
        let bytes = wire_bytes([first, second]);
        for (byte, new) in place.iter_mut().zip(&bytes[..if has_secondary { 16 } else { 8 }]) {
            *byte = *new;
        }
    }

    /// Appends the bitmap; the second one, and bit 1 with it, only when it is needed.
    pub fn write(self, out: &mut Vec<u8>, encoding: BitmapEncoding) {
        let [first, second] = self.halves;
        let first = if self.needs_secondary() { first | BIT_1 } else { first & !BIT_1 };
        let bytes = wire_bytes([first, second]);
        let used = if self.needs_secondary() { &bytes[..] } else { &bytes[..8] };
        match encoding {
            BitmapEncoding::Binary => out.extend_from_slice(used),
            BitmapEncoding::HexText => write_hex(used, out),
        }
    }
}

impl fmt::Debug for Bitmap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.elements()).finish()
    }
}

/// The value of a hex character of either case.
pub(crate) const fn hex_value(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        b'A'..=b'F' => Some(character - b'A' + 10),
        _ => None,
    }
}

/// Appends two upper-case hex characters for each byte.
pub(crate) fn write_hex(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
}

/// Appends one byte for each two hex characters; false, with nothing appended, when they are not such.
pub(crate) fn read_hex(characters: &[u8], out: &mut Vec<u8>) -> bool {
    let start = out.len();
    for pair in characters.chunks(2) {
        let byte = match pair {
            [high, low] => hex_value(*high).zip(hex_value(*low)).map(|(h, l)| h << 4 | l),
            _ => None,
        };
        let Some(byte) = byte else {
            out.truncate(start);
            return false;
        };
        out.push(byte);
    }
    true
}

const fn half_bytes(encoding: BitmapEncoding) -> usize {
    match encoding {
        BitmapEncoding::Binary => 8,
        BitmapEncoding::HexText => 16,
    }
}

fn read_half(bytes: &[u8], encoding: BitmapEncoding) -> Option<u64> {
    let from_highest = match encoding {
        BitmapEncoding::Binary => u64::from_be_bytes(bytes.try_into().ok()?),
        BitmapEncoding::HexText => bytes
            .iter()
            .try_fold(0, |value, character| Some(value << 4 | u64::from(hex_value(*character)?)))?,
    };
    Some(from_highest.reverse_bits())
}

fn wire_bytes([first, second]: [u64; 2]) -> [u8; 16] {
    let (first, second) = (first.reverse_bits(), second.reverse_bits());
    (u128::from(first) << 64 | u128::from(second)).to_be_bytes()
}

/// The bit of DE 1, which is no element of its own.
const BIT_1: u64 = 1;

/// The half and the bit of a data element; no bit for numbers that are none.
const fn place_of(de: u8) -> (usize, u64) {
    let at = de.wrapping_sub(1);
    let bit = if at < 128 { bit_of(de) } else { 0 };
    ((at >= 64) as usize, bit)
}

/// The bit of a data element in its half.
const fn bit_of(de: u8) -> u64 {
    1 << (de.wrapping_sub(1) % 64)
}

/// The data elements of a set, ascending.
#[derive(Debug, Clone)]
pub struct ElementNumbers {
    rest: u64,
    /// The other half, while this is the first.
    behind: u64,
    /// The number of the lowest bit.
    number: u8,
}

impl Iterator for ElementNumbers {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        while self.rest == 0 {
            if self.behind == 0 {
                return None;
            }
            (self.rest, self.behind, self.number) = (self.behind, 0, 65);
        }
        // INVARIANT: a half that is not empty has fewer than 64 zeros.
        let zeros = u8::try_from(self.rest.trailing_zeros()).unwrap_or(0);
        self.rest &= self.rest - 1;
        Some(self.number + zeros)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bitmap_is_written_over_one_of_as_many_halves() {
        for elements in [&[2, 3, 4, 64][..], &[3, 128], &[65], &[]] {
            let bitmap = Bitmap::of(elements);
            let mut written = Vec::new();
            bitmap.write(&mut written, BitmapEncoding::Binary);
            let mut place = vec![0x5A; written.len()];
            bitmap.write_over(&mut place, bitmap.needs_secondary());
            assert_eq!(place, written, "{elements:?}");
        }
    }

    #[test]
    fn one_bitmap_is_written_below_de_65_and_two_above() {
        for (elements, hex) in [
            (&[2, 3, 4, 64][..], "7000000000000001"),
            (&[3, 128], "A0000000000000000000000000000001"),
            (&[65], "80000000000000008000000000000000"),
            (&[], "0000000000000000"),
        ] {
            let mut text = Vec::new();
            Bitmap::of(elements).write(&mut text, BitmapEncoding::HexText);
            assert_eq!(text, hex.as_bytes());

            let mut binary = Vec::new();
            Bitmap::of(elements).write(&mut binary, BitmapEncoding::Binary);
            let mut as_text = Vec::new();
            write_hex(&binary, &mut as_text);
            assert_eq!(as_text, text);

            for (bytes, encoding) in
                [(&text, BitmapEncoding::HexText), (&binary, BitmapEncoding::Binary)]
            {
                let (read, taken) = Bitmap::read(bytes, encoding).unwrap();
                assert_eq!(taken, bytes.len());
                assert_eq!(read.elements().collect::<Vec<_>>(), elements);
                for end in 0..bytes.len() {
                    assert_eq!(Bitmap::read(&bytes[..end], encoding), None, "cut at {end}");
                }
            }
        }
    }

    #[test]
    fn text_that_is_not_hex_is_no_bitmap_and_lower_case_is() {
        assert_eq!(Bitmap::read(b"700000000000000G", BitmapEncoding::HexText), None);
        assert_eq!(Bitmap::read(b"+000000000000001", BitmapEncoding::HexText), None);
        let (read, _) = Bitmap::read(b"00000000000000af", BitmapEncoding::HexText).unwrap();
        assert_eq!(read.elements().collect::<Vec<_>>(), [57, 59, 61, 62, 63, 64]);
    }

    #[test]
    fn numbers_outside_1_to_128_are_no_elements() {
        let mut set = Bitmap::of(&[0, 129, 255]);
        set.insert(200);
        assert!(set.is_empty() && !set.contains(0) && !set.contains(129));
        set.insert(128);
        set.insert(2);
        assert!(set.contains(128) && set.contains(2));
        set.remove(128);
        assert_eq!(set.elements().collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn elements_are_counted_whole_and_below_one() {
        let set = Bitmap::of(&[1, 2, 64, 65, 128]);
        assert_eq!((set.len(), Bitmap::EMPTY.len()), (5, 0));
        let below = [(0, 0), (1, 0), (2, 1), (3, 2), (64, 2), (65, 3), (66, 4), (128, 4), (129, 5)];
        for (de, count) in below {
            assert_eq!(set.count_below(de), count, "below {de}");
        }
        assert_eq!(set.elements().collect::<Vec<_>>(), [2, 64, 65, 128]);
        let all: Vec<u8> = (2..=128).collect();
        assert_eq!(Bitmap::of(&all).elements().collect::<Vec<_>>(), all);
    }

    #[test]
    fn hex_of_odd_length_or_other_characters_is_refused_whole() {
        let mut out = vec![9];
        assert!(!read_hex(b"ABC", &mut out) && !read_hex(b"AB0x", &mut out));
        assert_eq!(out, [9]);
        assert!(read_hex(b"ab0F", &mut out));
        assert_eq!(out, [9, 0xab, 0x0f]);
    }
}
