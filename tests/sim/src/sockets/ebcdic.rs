//! EBCDIC, as far as messages of acquirers have it. Source: IBM code page 37.

/// The runs of characters that are neighbours in both alphabets: the first of each, and their number.
const RUNS: [(u8, u8, u8); 14] = [
    (b'0', 0xf0, 10),
    (b'A', 0xc1, 9),
    (b'J', 0xd1, 9),
    (b'S', 0xe2, 8),
    (b'a', 0x81, 9),
    (b'j', 0x91, 9),
    (b's', 0xa2, 8),
    (b' ', 0x40, 1),
    (b'_', 0x6d, 1),
    (b',', 0x6b, 1),
    (b'=', 0x7e, 1),
    (b'-', 0x60, 1),
    (b';', 0x5e, 1),
    (b'?', 0x6f, 1),
];

pub(super) fn of_ascii(byte: u8) -> u8 {
    let run = RUNS.iter().find(|(ascii, _, count)| (*ascii..ascii + count).contains(&byte));
    run.map(|(ascii, ebcdic, _)| ebcdic + (byte - ascii)).unwrap()
}

/// A character that no message has becomes a question mark.
pub(super) fn to_ascii(byte: u8) -> u8 {
    let run = RUNS.iter().find(|(_, ebcdic, count)| (*ebcdic..ebcdic + count).contains(&byte));
    run.map_or(b'?', |(ascii, ebcdic, _)| ascii + (byte - ebcdic))
}
