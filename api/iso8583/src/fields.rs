//! The table of data elements: number, name, format, content, greatest length, and whether it may hold card data.
//!
//! Source: ISO 8583:1987, with the choices of the field profile where the standard leaves one (currency codes as digits,
//! DE 54 of 120 characters, ICC data of DE 55 as bytes). This is the only place that knows lengths.

/// How the length of a data element is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// Always the greatest length.
    Fixed,
    /// Two digits before the content say how long it is.
    LlVar,
    /// Three digits before the content say how long it is.
    LllVar,
}

impl Length {
    /// Digits of the length prefix.
    pub const fn prefix_digits(self) -> u16 {
        match self {
            Self::Fixed => 0,
            Self::LlVar => 2,
            Self::LllVar => 3,
        }
    }
}

/// The characters that a data element may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// n: digits.
    Digits,
    /// a: letters and space.
    Letters,
    /// an: letters, digits, and space as padding.
    LettersDigits,
    /// ans: printable ASCII.
    Printable,
    /// z: track data, which are digits, the separators `:;<=>?` and `D`.
    Track,
    /// b: any bytes.
    Binary,
    /// x+n: C or D, then digits.
    SignedDigits,
}

impl Class {
    /// The short name of the standard.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Digits => "n",
            Self::Letters => "a",
            Self::LettersDigits => "an",
            Self::Printable => "ans",
            Self::Track => "z",
            Self::Binary => "b",
            Self::SignedDigits => "x+n",
        }
    }

    /// Whether the bytes, as they stand on the wire, are of this class.
    /// Cost: eight bytes at a time where the class is a run of characters.
    pub fn accepts(self, content: &[u8]) -> bool {
        match self {
            Self::Digits => are_within::<b'0', b'9'>(content),
            Self::Letters => are_all(content, |c| c.is_ascii_alphabetic() || c == b' '),
            Self::LettersDigits => are_all(content, |c| LETTERS_DIGITS[usize::from(c)]),
            Self::Printable => are_within::<b' ', b'~'>(content),
            Self::Track => are_all(content, |c| matches!(c, b'0'..=b'?' | b'D')),
            Self::Binary => true,
            Self::SignedDigits => match content {
                [b'C' | b'D', digits @ ..] => are_within::<b'0', b'9'>(digits),
                _ => false,
            },
        }
    }
}

/// The bytes that are letters, digits and spaces.
static LETTERS_DIGITS: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128_u8 {
        table[byte as usize] = byte.is_ascii_alphanumeric() || byte == b' ';
        byte += 1;
    }
    table
};

/// Whether the test holds for each byte. Looks at all of them: content is short and nearly always
/// right, so a way out costs more than it saves.
fn are_all(content: &[u8], test: impl Fn(u8) -> bool) -> bool {
    content.iter().fold(true, |held, byte| held & test(*byte))
}

/// Whether each byte is one of the run of ASCII characters.
fn are_within<const LOWEST: u8, const HIGHEST: u8>(content: &[u8]) -> bool {
    let Some(last) = content.last_chunk::<8>() else {
        return is_word_within::<LOWEST, HIGHEST>(eight_of(content, LOWEST));
    };
    // The last eight bytes may overlap the eight before them.
    let (eights, _) = content.as_chunks::<8>();
    eights.iter().fold(is_word_within::<LOWEST, HIGHEST>(*last), |held, eight| {
        held & is_word_within::<LOWEST, HIGHEST>(*eight)
    })
}

/// Eight bytes, each of them one of the fewer in `content`; `stand_in` where there are none.
fn eight_of(content: &[u8], stand_in: u8) -> [u8; 8] {
    if let (Some([a, b, c, d]), Some([e, f, g, h])) = (content.first_chunk(), content.last_chunk())
    {
        return [*a, *b, *c, *d, *e, *f, *g, *h];
    }
    match content {
        [] => [stand_in; 8],
        [a] => [*a; 8],
        [a, .., b] => {
            let middle = content[1];
            [*a, *a, *a, middle, middle, middle, *b, *b]
        }
    }
}

/// As `are_within`, for eight bytes as one number.
const fn is_word_within<const LOWEST: u8, const HIGHEST: u8>(bytes: [u8; 8]) -> bool {
    const fn in_each(byte: u8) -> u64 {
        u64::from_le_bytes([byte; 8])
    }
    const { assert!(0 < LOWEST && LOWEST <= HIGHEST && HIGHEST < 0x80) };
    const TOP_BITS: u64 = in_each(0x80);
    let word = u64::from_le_bytes(bytes);
    // Neither sum nor difference of bytes below 0x80 carries into the next byte here.
    let above = (word & !TOP_BITS) + in_each(0x7f - HIGHEST);
    let not_below = (word | TOP_BITS) - in_each(LOWEST);
    (word | above | !not_below) & TOP_BITS == 0
}

/// One data element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldSpec {
    /// The number, 2 to 128.
    pub number: u8,
    /// The name in the standard.
    pub name: &'static str,
    /// Fixed or variable.
    pub length: Length,
    /// The characters that it may hold.
    pub class: Class,
    /// The length of a fixed element, the greatest of a variable one. Units: characters, bytes for b.
    pub len_max: u16,
    /// Whether it holds card data, or may (reserved and private elements): such content is never displayed in clear.
    pub sensitive: bool,
}

impl FieldSpec {
    /// Whether a content of this length fits. Units: bytes.
    pub fn fits(&self, len: usize) -> bool {
        let len_max = usize::from(self.len_max);
        match self.length {
            Length::Fixed => len == len_max,
            Length::LlVar | Length::LllVar => len <= len_max,
        }
    }

    const fn sensitive(mut self) -> Self {
        self.sensitive = true;
        self
    }
}

/// The entry of a data element; none outside 2 to 128 (DE 1 is the second bitmap).
pub const fn field(de: u8) -> Option<&'static FieldSpec> {
    if de >= 2 && de <= 128 { Some(&FIELDS[de as usize]) } else { None }
}

const fn fixed(number: u8, name: &'static str, class: Class, len_max: u16) -> FieldSpec {
    FieldSpec { number, name, length: Length::Fixed, class, len_max, sensitive: false }
}

const fn ll(number: u8, name: &'static str, class: Class, len_max: u16) -> FieldSpec {
    FieldSpec { number, name, length: Length::LlVar, class, len_max, sensitive: false }
}

const fn lll(number: u8, name: &'static str, class: Class, len_max: u16) -> FieldSpec {
    FieldSpec { number, name, length: Length::LllVar, class, len_max, sensitive: false }
}

/// An element without a meaning of its own here. Networks put CVVs and card numbers into such, so none is displayed.
const fn reserved(number: u8, name: &'static str) -> FieldSpec {
    lll(number, name, ANS, 999).sensitive()
}

const N: Class = Class::Digits;
const AN: Class = Class::LettersDigits;
const ANS: Class = Class::Printable;
const Z: Class = Class::Track;
const B: Class = Class::Binary;
const XN: Class = Class::SignedDigits;

/// All data elements, each at its own number; 0 and 1 are no elements.
///
/// DE 65 is the bitmap of a third block; nothing beyond 128 is known here, so it is eight bytes without effect.
#[rustfmt::skip]
pub static FIELDS: [FieldSpec; 129] = [
    fixed(  0, "none",                                     B,     0),
    fixed(  1, "secondary bitmap",                         B,     8),
    ll   (  2, "primary account number",                   N,    19).sensitive(),
    fixed(  3, "processing code",                          N,     6),
    fixed(  4, "amount, transaction",                      N,    12),
    fixed(  5, "amount, settlement",                       N,    12),
    fixed(  6, "amount, cardholder billing",               N,    12),
    fixed(  7, "transmission date and time",               N,    10),
    fixed(  8, "amount, cardholder billing fee",           N,     8),
    fixed(  9, "conversion rate, settlement",              N,     8),
    fixed( 10, "conversion rate, cardholder billing",      N,     8),
    fixed( 11, "system trace audit number",                N,     6),
    fixed( 12, "time, local transaction",                  N,     6),
    fixed( 13, "date, local transaction",                  N,     4),
    fixed( 14, "date, expiration",                         N,     4).sensitive(),
    fixed( 15, "date, settlement",                         N,     4),
    fixed( 16, "date, conversion",                         N,     4),
    fixed( 17, "date, capture",                            N,     4),
    fixed( 18, "merchant type",                            N,     4),
    fixed( 19, "acquiring institution country",            N,     3),
    fixed( 20, "primary account number country",           N,     3),
    fixed( 21, "forwarding institution country",           N,     3),
    fixed( 22, "point of service entry mode",              N,     3),
    fixed( 23, "card sequence number",                     N,     3),
    fixed( 24, "network international identifier",         N,     3),
    fixed( 25, "point of service condition code",          N,     2),
    fixed( 26, "point of service PIN capture code",        N,     2),
    fixed( 27, "authorization id response length",         N,     1),
    fixed( 28, "amount, transaction fee",                  XN,    9),
    fixed( 29, "amount, settlement fee",                   XN,    9),
    fixed( 30, "amount, transaction processing fee",       XN,    9),
    fixed( 31, "amount, settlement processing fee",        XN,    9),
    ll   ( 32, "acquiring institution id",                 N,    11),
    ll   ( 33, "forwarding institution id",                N,    11),
    ll   ( 34, "primary account number, extended",         ANS,  28).sensitive(),
    ll   ( 35, "track 2 data",                             Z,    37).sensitive(),
    lll  ( 36, "track 3 data",                             Z,   104).sensitive(),
    fixed( 37, "retrieval reference number",               AN,   12),
    fixed( 38, "authorization id response",                AN,    6),
    fixed( 39, "response code",                            AN,    2),
    fixed( 40, "service restriction code",                 AN,    3),
    fixed( 41, "card acceptor terminal id",                ANS,   8),
    fixed( 42, "card acceptor id",                         ANS,  15),
    fixed( 43, "card acceptor name and location",          ANS,  40),
    ll   ( 44, "additional response data",                 ANS,  25),
    ll   ( 45, "track 1 data",                             ANS,  76).sensitive(),
    reserved( 46, "additional data, ISO"),
    reserved( 47, "additional data, national"),
    reserved( 48, "additional data, private"),
    fixed( 49, "currency, transaction",                    N,     3),
    fixed( 50, "currency, settlement",                     AN,    3),
    fixed( 51, "currency, cardholder billing",             N,     3),
    fixed( 52, "PIN block",                                B,     8).sensitive(),
    fixed( 53, "security related control information",     N,    16),
    lll  ( 54, "additional amounts",                       AN,  120),
    lll  ( 55, "ICC data",                                 B,   999).sensitive(),
    reserved( 56, "reserved, ISO"),
    reserved( 57, "reserved, national"),
    reserved( 58, "reserved, national"),
    reserved( 59, "reserved, national"),
    reserved( 60, "reserved, national"),
    reserved( 61, "reserved, private"),
    reserved( 62, "reserved, private"),
    reserved( 63, "reserved, private"),
    fixed( 64, "message authentication code",              B,     8),
    fixed( 65, "bitmap, extended",                         B,     8),
    fixed( 66, "settlement code",                          N,     1),
    fixed( 67, "extended payment code",                    N,     2),
    fixed( 68, "receiving institution country",            N,     3),
    fixed( 69, "settlement institution country",           N,     3),
    fixed( 70, "network management information code",      N,     3),
    fixed( 71, "message number",                           N,     4),
    fixed( 72, "message number, last",                     N,     4),
    fixed( 73, "date, action",                             N,     6),
    fixed( 74, "credits, number",                          N,    10),
    fixed( 75, "credits, reversal number",                 N,    10),
    fixed( 76, "debits, number",                           N,    10),
    fixed( 77, "debits, reversal number",                  N,    10),
    fixed( 78, "transfer, number",                         N,    10),
    fixed( 79, "transfer, reversal number",                N,    10),
    fixed( 80, "inquiries, number",                        N,    10),
    fixed( 81, "authorizations, number",                   N,    10),
    fixed( 82, "credits, processing fee amount",           N,    12),
    fixed( 83, "credits, transaction fee amount",          N,    12),
    fixed( 84, "debits, processing fee amount",            N,    12),
    fixed( 85, "debits, transaction fee amount",           N,    12),
    fixed( 86, "credits, amount",                          N,    16),
    fixed( 87, "credits, reversal amount",                 N,    16),
    fixed( 88, "debits, amount",                           N,    16),
    fixed( 89, "debits, reversal amount",                  N,    16),
    fixed( 90, "original data elements",                   N,    42),
    fixed( 91, "file update code",                         AN,    1),
    fixed( 92, "file security code",                       AN,    2),
    fixed( 93, "response indicator",                       AN,    5),
    fixed( 94, "service indicator",                        AN,    7),
    fixed( 95, "replacement amounts",                      AN,   42),
    fixed( 96, "message security code",                    B,     8).sensitive(),
    fixed( 97, "amount, net settlement",                   XN,   17),
    fixed( 98, "payee",                                    ANS,  25),
    ll   ( 99, "settlement institution id",                N,    11),
    ll   (100, "receiving institution id",                 N,    11),
    ll   (101, "file name",                                ANS,  17),
    ll   (102, "account identification 1",                 ANS,  28).sensitive(),
    ll   (103, "account identification 2",                 ANS,  28).sensitive(),
    lll  (104, "transaction description",                  ANS, 100),
    reserved(105, "reserved, ISO"),
    reserved(106, "reserved, ISO"),
    reserved(107, "reserved, ISO"),
    reserved(108, "reserved, ISO"),
    reserved(109, "reserved, ISO"),
    reserved(110, "reserved, ISO"),
    reserved(111, "reserved, ISO"),
    reserved(112, "reserved, national"),
    reserved(113, "reserved, national"),
    reserved(114, "reserved, national"),
    reserved(115, "reserved, national"),
    reserved(116, "reserved, national"),
    reserved(117, "reserved, national"),
    reserved(118, "reserved, national"),
    reserved(119, "reserved, national"),
    reserved(120, "reserved, private"),
    reserved(121, "reserved, private"),
    reserved(122, "reserved, private"),
    reserved(123, "reserved, private"),
    reserved(124, "reserved, private"),
    reserved(125, "reserved, private"),
    reserved(126, "reserved, private"),
    reserved(127, "reserved, private"),
    fixed(128, "message authentication code",              B,     8),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_element_stands_at_its_own_number_with_a_length_its_prefix_can_say() {
        for (at, spec) in FIELDS.iter().enumerate() {
            assert_eq!(usize::from(spec.number), at);
            match spec.length {
                Length::Fixed => assert!(at == 0 || spec.len_max > 0, "DE {at}"),
                Length::LlVar => assert!((1..=99).contains(&spec.len_max), "DE {at}"),
                Length::LllVar => assert!((100..=999).contains(&spec.len_max), "DE {at}"),
            }
        }
        assert!(field(0).is_none() && field(1).is_none() && field(129).is_none());
        assert_eq!(field(128).map(|spec| spec.number), Some(128));
    }

    /// Each byte at each place of contents around the eight that are looked at together.
    #[test]
    fn classes_accept_their_characters_wherever_they_stand() {
        let is_of = |class, byte: u8| match class {
            Class::Digits => byte.is_ascii_digit(),
            Class::Letters => byte.is_ascii_alphabetic() || byte == b' ',
            Class::LettersDigits => byte.is_ascii_alphanumeric() || byte == b' ',
            Class::Printable => (0x20..0x7f).contains(&byte),
            Class::Track => byte.is_ascii_digit() || b":;<=>?D".contains(&byte),
            Class::Binary => true,
            Class::SignedDigits => byte.is_ascii_digit(),
        };
        for class in [N, Class::Letters, AN, ANS, Z, B, XN] {
            for len in [1, 2, 6, 7, 8, 9, 15, 16, 17, 40] {
                for (at, byte) in (0..len).flat_map(|at| (0..=u8::MAX).map(move |byte| (at, byte)))
                {
                    let mut content = vec![b'0'; len];
                    if class == Class::Letters {
                        content.fill(b'z');
                    }
                    content[at] = byte;
                    if class == Class::SignedDigits {
                        content.insert(0, b'C');
                    }
                    let accepted = class.accepts(&content);
                    assert_eq!(accepted, is_of(class, byte), "{class:?} {len} {at} {byte}");
                }
            }
            assert_eq!(class.accepts(b""), class != XN);
        }
    }

    /// The lengths of the profile, written down a second time.
    #[test]
    fn the_elements_in_use_have_the_lengths_of_the_profile() {
        let fixed = |class, len| (Length::Fixed, class, len);
        for (de, expected) in [
            (2, (Length::LlVar, N, 19)),
            (3, fixed(N, 6)),
            (4, fixed(N, 12)),
            (6, fixed(N, 12)),
            (7, fixed(N, 10)),
            (11, fixed(N, 6)),
            (12, fixed(N, 6)),
            (13, fixed(N, 4)),
            (14, fixed(N, 4)),
            (18, fixed(N, 4)),
            (22, fixed(N, 3)),
            (25, fixed(N, 2)),
            (32, (Length::LlVar, N, 11)),
            (35, (Length::LlVar, Z, 37)),
            (37, fixed(AN, 12)),
            (38, fixed(AN, 6)),
            (39, fixed(AN, 2)),
            (41, fixed(ANS, 8)),
            (42, fixed(ANS, 15)),
            (43, fixed(ANS, 40)),
            (44, (Length::LlVar, ANS, 25)),
            (48, (Length::LllVar, ANS, 999)),
            (49, fixed(N, 3)),
            (51, fixed(N, 3)),
            (52, fixed(B, 8)),
            (54, (Length::LllVar, AN, 120)),
            (64, fixed(B, 8)),
            (70, fixed(N, 3)),
            (90, fixed(N, 42)),
            (95, fixed(AN, 42)),
            (128, fixed(B, 8)),
        ] {
            let spec = field(de).unwrap();
            assert_eq!((spec.length, spec.class, spec.len_max), expected, "DE {de}");
        }
    }

    #[test]
    fn what_may_hold_card_data_is_sensitive() {
        for de in [2, 14, 34, 35, 36, 45, 48, 52, 55, 60, 126] {
            assert!(field(de).unwrap().sensitive, "DE {de}");
        }
        for de in [3, 4, 11, 37, 38, 39, 41, 42, 43, 44, 49, 54, 90] {
            assert!(!field(de).unwrap().sensitive, "DE {de}");
        }
    }

    #[test]
    fn each_class_accepts_its_characters_and_no_others() {
        for (class, good, bad) in [
            (Class::Digits, &[&b"0123456789"[..], b""][..], &[&b"12a"[..], b" 1", b"-1"][..]),
            (Class::Letters, &[b"Az "], &[b"A1", b"A-"]),
            (Class::LettersDigits, &[b"Az09 "], &[b"a-", b"a\0", b"\xc3\xa9"]),
            (Class::Printable, &[b" ~aZ0/,"], &[b"a\n", b"\x7f", b"\xe9"]),
            (Class::Track, &[b"4111=2512D?"], &[b"4111a", b"41 11"]),
            (Class::SignedDigits, &[b"C001", b"D9"], &[b"X1", b"1", b"", b"C1D"]),
        ] {
            for content in good {
                assert!(class.accepts(content), "{class:?} {content:?}");
            }
            for content in bad {
                assert!(!class.accepts(content), "{class:?} {content:?}");
            }
        }
        assert!(Class::Binary.accepts(b"\0\xff"));
    }
}
