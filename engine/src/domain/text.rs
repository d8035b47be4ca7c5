//! Texts written by people and card networks: lines and paragraphs, free of characters that steer
//! the programs that show them.
//!
//! | kind | control characters it may have | used for |
//! |---|---|---|
//! | `LineText` | none | names, merchants, descriptions, file names |
//! | `ParagraphText` | tab, line feed, carriage return | notes |
//!
//! Neither has overrides of the writing direction (U+202A to 202E, U+2066 to 2069) nor the two
//! separators U+2028 and U+2029. Terminals, printers, spreadsheets, mail and PDF readers obey such
//! characters instead of showing them. Marks that only join or order letters (U+200D, U+200F) stay.
//!
//! INVARIANT: commands carry texts of these types only, but for the forms that
//! `tests/suite/texts.rs` lists, so no other text enters the engine.

use std::fmt;
use std::ops::Deref;

use compact_str::CompactString;
use serde::{Deserialize, Deserializer, Serialize, de};

/// A text has a character that it may not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("text has a control character or an override of its direction")]
pub struct SteeringCharacter;

/// Whether a character steers the program that shows it, in a text of one line.
const fn is_steering(letter: char) -> bool {
    matches!(
        letter,
        '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

/// Whether a character is a tab or an end of line, which a text of several lines may have.
const fn is_layout(letter: char) -> bool {
    matches!(letter, '\t' | '\n' | '\r')
}

/// Whether all of a text is printable ASCII, as nearly all are: decided by bytes, without decoding
/// characters.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// A text of one line.
#[derive(Clone, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct LineText(CompactString);

impl LineText {
    /// Accepts a text unchanged.
    /// Errors: it has a character that steers.
    pub fn new(text: &str) -> Result<Self, SteeringCharacter> {
        if is_plain(text) || !text.contains(is_steering) {
            return Ok(Self(text.into()));
        }
        Err(SteeringCharacter)
    }

    /// Accepts a text with a space for each character that steers: for texts of past events, which
    /// must not be refused.
    pub fn spaced(text: &str) -> Self {
        if is_plain(text) || !text.contains(is_steering) {
            return Self(text.into());
        }
        Self(text.chars().map(|letter| if is_steering(letter) { ' ' } else { letter }).collect())
    }
}

/// A text of any lines.
#[derive(Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ParagraphText(String);

impl ParagraphText {
    /// Accepts a text unchanged.
    /// Errors: it has a character that steers, but for tabs and ends of lines.
    pub fn new(text: &str) -> Result<Self, SteeringCharacter> {
        if text.contains(|letter| is_steering(letter) && !is_layout(letter)) {
            return Err(SteeringCharacter);
        }
        Ok(Self(text.to_owned()))
    }
}

/// Reading access, the same for both types.
macro_rules! reads_as_text {
    ($text:ty) => {
        impl $text {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Deref for $text {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $text {
            fn as_ref(&self) -> &str {
                self
            }
        }

        impl fmt::Debug for $text {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&**self, formatter)
            }
        }

        impl fmt::Display for $text {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(self)
            }
        }

        impl PartialEq<str> for $text {
            fn eq(&self, other: &str) -> bool {
                **self == *other
            }
        }

        impl PartialEq<&str> for $text {
            fn eq(&self, other: &&str) -> bool {
                **self == **other
            }
        }

        impl From<$text> for String {
            fn from(text: $text) -> Self {
                text.0.into()
            }
        }

        impl std::str::FromStr for $text {
            type Err = SteeringCharacter;

            fn from_str(text: &str) -> Result<Self, SteeringCharacter> {
                Self::new(text)
            }
        }

        impl<'de> Deserialize<'de> for $text {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = CompactString::deserialize(deserializer)?;
                Self::new(&text).map_err(de::Error::custom)
            }
        }
    };
}

reads_as_text!(LineText);
reads_as_text!(ParagraphText);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{decode, encode};

    /// Every character of one code unit and more, once.
    fn all() -> impl Iterator<Item = char> {
        '\0'..=char::MAX
    }

    #[test]
    fn exactly_controls_overrides_and_separators_are_refused() {
        for letter in all() {
            let is_override = ('\u{202a}'..='\u{202e}').contains(&letter)
                || ('\u{2066}'..='\u{2069}').contains(&letter);
            let is_separator = ['\u{2028}', '\u{2029}'].contains(&letter);
            let steers = letter.is_control() || is_override || is_separator;
            let text = format!("a{letter}b");
            assert_eq!(LineText::new(&text).is_err(), steers, "{letter:?}");
            let is_layout = ['\t', '\n', '\r'].contains(&letter);
            assert_eq!(ParagraphText::new(&text).is_err(), steers && !is_layout, "{letter:?}");
            let spaced = LineText::spaced(&text);
            assert_eq!(spaced, if steers { "a b" } else { &text }, "{letter:?}");
            assert!(LineText::new(&spaced).is_ok());
        }
    }

    #[test]
    fn texts_of_any_script_are_kept_as_they_are() {
        for text in
            ["", " ", "Café & <Söhne>", "محل الورود", "e\u{301}", "👩\u{200d}🌾", "=1+1, \"x\""]
        {
            assert_eq!(LineText::new(text).unwrap(), text);
            assert_eq!(LineText::spaced(text), text);
            assert_eq!(ParagraphText::new(text).unwrap(), text);
        }
    }

    #[test]
    fn what_is_read_back_is_checked_too() {
        let stored = |text: &str| encode(&text.to_owned()).unwrap();
        assert_eq!(encode(&LineText::spaced("a")).unwrap(), stored("a"));
        assert_eq!(decode::<LineText>(&stored("a")).unwrap(), "a");
        assert!(decode::<LineText>(&stored("a\n")).is_err());
        assert_eq!(decode::<ParagraphText>(&stored("a\n")).unwrap(), "a\n");
        assert!(decode::<ParagraphText>(&stored("a\0")).is_err());
    }
}
