//! A cell: one of up to a hundred switches that share nothing, and its digits in the names it
//! makes.
//!
//! | name made by a cell | place of its two digits |
//! |---|---|
//! | card number | behind the BIN |
//! | token, network key | the first two of 64 hexadecimal digits |
//! | id, a UUID of version 7 | as a number, in the seven bits behind the variant |
//!
//! A switch without a cell fills all three places with random digits, which may look like any
//! cell's.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

/// The most cells.
const CELLS_MAX: u8 = 100;
/// Place of the cell's seven bits in the second half of an id.
pub(super) const ID_SHIFT: u32 = 55;
const ID_MASK: u64 = 0x7f << ID_SHIFT;
/// The length of tokens and network keys. Units: hexadecimal digits.
const TOKEN_LEN: usize = 64;

/// A cell's number, 0 to 99.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell(u8);

/// A text that is no cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a cell has two digits, such as 01")]
pub struct NoCellError;

impl Cell {
    /// The cell of two digits.
    pub fn of_digits(digits: &[u8]) -> Option<Self> {
        match digits {
            [tens @ b'0'..=b'9', ones @ b'0'..=b'9'] => {
                Some(Self((tens - b'0') * 10 + (ones - b'0')))
            }
            _ => None,
        }
    }

    /// The cell's two digits.
    pub const fn digits(self) -> [u8; 2] {
        [b'0' + self.0 / 10, b'0' + self.0 % 10]
    }

    /// The cell's number.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The cell of a card number, if that begins with `bin`.
    pub fn of_card_number(digits: &[u8], bin: &[u8]) -> Option<Self> {
        Self::of_digits(digits.strip_prefix(bin)?.get(..2)?)
    }

    /// The cell of an access token, a refresh token or a network key.
    pub fn of_token(token: &str) -> Option<Self> {
        let is_token = token.len() == TOKEN_LEN && token.bytes().all(|at| at.is_ascii_hexdigit());
        Self::of_digits(token.as_bytes().get(..2)?).filter(|_| is_token)
    }

    /// The cell of an id.
    pub fn of_id(id: Uuid) -> Option<Self> {
        let (high, low) = id.as_u64_pair();
        let is_version_7 = high >> 12 & 0xf == 7 && low >> 62 == 0b10;
        let number = u8::try_from((low & ID_MASK) >> ID_SHIFT).ok()?;
        (is_version_7 && number < CELLS_MAX).then_some(Self(number))
    }

    /// The id, marked as one of this cell.
    pub fn mark_id(self, id: Uuid) -> Uuid {
        let (high, low) = id.as_u64_pair();
        Uuid::from_u64_pair(high, low & !ID_MASK | u64::from(self.0) << ID_SHIFT)
    }

    /// The token, marked as one of this cell. It has 8 random bits less.
    pub fn mark_token(self, token: &str) -> String {
        format!("{self}{}", token.get(2..).unwrap_or_default())
    }
}

impl FromStr for Cell {
    type Err = NoCellError;

    fn from_str(text: &str) -> Result<Self, NoCellError> {
        Self::of_digits(text.as_bytes()).ok_or(NoCellError)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:02}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_has_two_digits() {
        for (text, number) in [("00", 0), ("07", 7), ("99", 99)] {
            let cell: Cell = text.parse().unwrap();
            assert_eq!((cell.number(), cell.to_string().as_str()), (number, text));
            assert_eq!(Cell::of_digits(&cell.digits()), Some(cell));
        }
        for text in ["", "1", "001", "+1", "1a", "100", " 1", "é"] {
            assert_eq!(text.parse::<Cell>(), Err(NoCellError), "{text}");
        }
    }

    #[test]
    fn a_card_number_names_its_cell_behind_the_bin() {
        for (number, bin, cell) in [
            ("4111111107123456", "41111111", Some("07")),
            ("4111110712345678", "411111", Some("07")),
            ("4111111107", "41111111", Some("07")),
            ("411111110", "41111111", None),
            ("4222222207123456", "41111111", None),
            ("41111111x7123456", "41111111", None),
            ("", "41111111", None),
        ] {
            let found = Cell::of_card_number(number.as_bytes(), bin.as_bytes());
            assert_eq!(found, cell.map(|cell| cell.parse().unwrap()), "{number}");
        }
    }

    #[test]
    fn a_token_names_its_cell_first() {
        let token = "ab".repeat(32);
        for number in [0, 7, 42, 99] {
            let cell = Cell(number);
            let marked = cell.mark_token(&token);
            assert_eq!((marked.len(), Cell::of_token(&marked)), (64, Some(cell)));
            assert_eq!(marked[2..], token[2..]);
        }
        let long = "0".repeat(65);
        let foreign = format!("07{}", "g".repeat(62));
        for text in ["", "0", "07", "Bearer", &token, &long, &foreign] {
            assert_eq!(Cell::of_token(text), None, "{text}");
        }
    }

    #[test]
    fn an_id_names_its_cell_in_seven_bits() {
        let id: Uuid = "0199f2a4-5b6c-7def-bfff-123456789abc".parse().unwrap();
        for number in 0..CELLS_MAX {
            let marked = Cell(number).mark_id(id);
            assert_eq!(Cell::of_id(marked), Some(Cell(number)));
            assert_eq!((marked.get_version_num(), marked.get_variant()), (7, id.get_variant()));
            assert_eq!(marked.as_u64_pair().0, id.as_u64_pair().0);
            let [rest, of_both] = [marked, id].map(|id| id.as_u64_pair().1 & !ID_MASK);
            assert_eq!(rest, of_both);
        }
        // 127 is no cell, and other versions carry none.
        for text in [
            "0199f2a4-5b6c-7def-bfff-123456789abc",
            "0199f2a4-5b6c-4def-8080-123456789abc",
            "0199f2a4-5b6c-7def-c080-123456789abc",
            "00000000-0000-0000-0000-000000000000",
        ] {
            assert_eq!(Cell::of_id(text.parse().unwrap()), None, "{text}");
        }
    }
}
