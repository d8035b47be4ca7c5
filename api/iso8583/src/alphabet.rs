//! The characters of a counterpart: ASCII, or one of three code pages of EBCDIC.
//!
//! Only printable ASCII has a meaning in a message. Any other character becomes NUL, which no text of the field
//! table may hold. So the check of all content finds it.
//! Source: IBM code pages 37, 500 and 1047.

/// The character set of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Alphabet {
    /// ASCII.
    #[default]
    Ascii,
    /// EBCDIC, code page 37: United States, Canada.
    Ebcdic037,
    /// EBCDIC, code page 500: international.
    Ebcdic500,
    /// EBCDIC, code page 1047: open systems.
    Ebcdic1047,
}

impl Alphabet {
    /// All of them, each with its name in a dialect file.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("ascii", Self::Ascii),
        ("ebcdic", Self::Ebcdic037),
        ("ebcdic-500", Self::Ebcdic500),
        ("ebcdic-1047", Self::Ebcdic1047),
    ];

    /// Appends what the bytes stand for, in ASCII.
    pub(crate) fn read(self, bytes: &[u8], out: &mut Vec<u8>) {
        match self.table() {
            None => out.extend_from_slice(bytes),
            Some(table) => out.extend(bytes.iter().map(|byte| table.ascii[usize::from(*byte)])),
        }
    }

    /// Appends the bytes that stand for these ASCII characters.
    pub(crate) fn write(self, ascii: &[u8], out: &mut Vec<u8>) {
        match self.table() {
            None => out.extend_from_slice(ascii),
            Some(table) => out.extend(ascii.iter().map(|byte| table.bytes[usize::from(*byte)])),
        }
    }

    /// The character that a byte stands for, in ASCII.
    pub(crate) fn ascii_of(self, byte: u8) -> u8 {
        self.table().map_or(byte, |table| table.ascii[usize::from(byte)])
    }

    /// The byte that stands for an ASCII character.
    pub fn byte_of(self, ascii: u8) -> u8 {
        self.table().map_or(ascii, |table| table.bytes[usize::from(ascii)])
    }

    fn table(self) -> Option<&'static CodePage> {
        match self {
            Self::Ascii => None,
            Self::Ebcdic037 => Some(&CODE_PAGE_37),
            Self::Ebcdic500 => Some(&CODE_PAGE_500),
            Self::Ebcdic1047 => Some(&CODE_PAGE_1047),
        }
    }
}

/// One code page, both ways.
struct CodePage {
    ascii: [u8; 256],
    bytes: [u8; 256],
}

impl CodePage {
    /// Code page 37 with these bytes for these characters instead.
    const fn with(changes: &[(u8, u8)]) -> Self {
        let mut ascii = ASCII_OF_37;
        let mut at = 0;
        while at < changes.len() {
            let (_, character) = changes[at];
            let mut byte = 0;
            while byte < 256 {
                if ascii[byte] == character {
                    ascii[byte] = 0;
                }
                byte += 1;
            }
            at += 1;
        }
        at = 0;
        while at < changes.len() {
            let (byte, character) = changes[at];
            ascii[byte as usize] = character;
            at += 1;
        }
        let mut bytes = [0; 256];
        let mut byte = 0_u8;
        loop {
            if ascii[byte as usize] != 0 {
                bytes[ascii[byte as usize] as usize] = byte;
            }
            if byte == u8::MAX {
                return Self { ascii, bytes };
            }
            byte += 1;
        }
    }
}

static CODE_PAGE_37: CodePage = CodePage::with(&[]);
static CODE_PAGE_500: CodePage =
    CodePage::with(&[(0x4a, b'['), (0x4f, b'!'), (0x5a, b']'), (0x5f, b'^'), (0xbb, b'|')]);
static CODE_PAGE_1047: CodePage = CodePage::with(&[(0xad, b'['), (0xbd, b']'), (0x5f, b'^')]);

#[rustfmt::skip]
const ASCII_OF_37: [u8; 256] = [
        0,     0,     0,     0,     0,     0,     0,     0,     0,     0,     0,     0,     0,     0,     0,     0,
        0,     0,     0,     0,     0,     0,     0,     0,     0,     0,     0,     0,     0,     0,     0,     0,
        0,     0,     0,     0,     0,     0,     0,     0,     0,     0,     0,     0,     0,     0,     0,     0,
        0,     0,     0,     0,     0,     0,     0,     0,     0,     0,     0,     0,     0,     0,     0,     0,
     b' ',     0,     0,     0,     0,     0,     0,     0,     0,     0,     0,  b'.',  b'<',  b'(',  b'+',  b'|',
     b'&',     0,     0,     0,     0,     0,     0,     0,     0,     0,  b'!',  b'$',  b'*',  b')',  b';',     0,
     b'-',  b'/',     0,     0,     0,     0,     0,     0,     0,     0,     0,  b',',  b'%',  b'_',  b'>',  b'?',
        0,     0,     0,     0,     0,     0,     0,     0,     0,  b'`',  b':',  b'#',  b'@', b'\'',  b'=',  b'"',
        0,  b'a',  b'b',  b'c',  b'd',  b'e',  b'f',  b'g',  b'h',  b'i',     0,     0,     0,     0,     0,     0,
        0,  b'j',  b'k',  b'l',  b'm',  b'n',  b'o',  b'p',  b'q',  b'r',     0,     0,     0,     0,     0,     0,
        0,  b'~',  b's',  b't',  b'u',  b'v',  b'w',  b'x',  b'y',  b'z',     0,     0,     0,     0,     0,     0,
     b'^',     0,     0,     0,     0,     0,     0,     0,     0,     0,  b'[',  b']',     0,     0,     0,     0,
     b'{',  b'A',  b'B',  b'C',  b'D',  b'E',  b'F',  b'G',  b'H',  b'I',     0,     0,     0,     0,     0,     0,
     b'}',  b'J',  b'K',  b'L',  b'M',  b'N',  b'O',  b'P',  b'Q',  b'R',     0,     0,     0,     0,     0,     0,
    b'\\',     0,  b'S',  b'T',  b'U',  b'V',  b'W',  b'X',  b'Y',  b'Z',     0,     0,     0,     0,     0,     0,
     b'0',  b'1',  b'2',  b'3',  b'4',  b'5',  b'6',  b'7',  b'8',  b'9',     0,     0,     0,     0,     0,     0,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printable_characters_come_back_from_every_alphabet() {
        let printable: Vec<u8> = (b' '..=b'~').collect();
        for (name, alphabet) in Alphabet::NAMES {
            let (mut bytes, mut again) = (Vec::new(), Vec::new());
            alphabet.write(&printable, &mut bytes);
            alphabet.read(&bytes, &mut again);
            assert_eq!(again, printable, "{name}");
            let each: Vec<u8> = printable.iter().map(|ascii| alphabet.byte_of(*ascii)).collect();
            assert_eq!(each, bytes, "{name}");
        }
    }

    /// Bytes as the standard library of Python writes them, and 1047 by its table.
    #[test]
    fn code_pages_differ_where_their_tables_do() {
        for (alphabet, bytes) in [
            (Alphabet::Ebcdic037, [0xf0, 0xc1, 0x81, 0x40, 0xba, 0xbb, 0x5a, 0xb0, 0x4f]),
            (Alphabet::Ebcdic500, [0xf0, 0xc1, 0x81, 0x40, 0x4a, 0x5a, 0x4f, 0x5f, 0xbb]),
            (Alphabet::Ebcdic1047, [0xf0, 0xc1, 0x81, 0x40, 0xad, 0xbd, 0x5a, 0x5f, 0x4f]),
        ] {
            assert_eq!(b"0Aa []!^|".map(|ascii| alphabet.byte_of(ascii)), bytes, "{alphabet:?}");
            let mut out = Vec::new();
            alphabet.read(&[0, 0x15, 0xff], &mut out);
            assert_eq!(out, [0, 0, 0]);
        }
    }
}
