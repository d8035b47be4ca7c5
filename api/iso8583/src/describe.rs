//! A message as text, one line an element, for people and logs. Card data is masked; there is no way to unmask it.

use std::fmt;

use crate::fields::{Class, FieldSpec, field};
use crate::message::Message;
use crate::private_use::{PARTIAL_CAPABLE, PRESENTMENT, PrivateUse};

/// The message as lines of number, name and value, after a line with its type.
pub fn describe<'m>(message: &'m Message<'_>) -> impl fmt::Display + 'm {
    Description(message)
}

/// A card number of which at most the first six and last four digits show.
pub fn mask_pan(digits: &[u8]) -> impl fmt::Display + '_ {
    MaskedPan(digits)
}

struct Description<'m, 'a>(&'m Message<'a>);

impl fmt::Display for Description<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MTI  {}", self.0.mti())?;
        for (de, content) in self.0.fields() {
            let Some(spec) = field(de) else { continue };
            write!(f, "\n{de:>3}  {:<36} ", spec.name)?;
            match spec.sensitive {
                true => write_masked(f, de, content)?,
                false => write_clear(f, spec, content)?,
            }
        }
        Ok(())
    }
}

fn write_clear(f: &mut fmt::Formatter<'_>, spec: &FieldSpec, content: &[u8]) -> fmt::Result {
    if spec.class == Class::Binary {
        return content.iter().try_for_each(|byte| write!(f, "{byte:02X}"));
    }
    write!(f, "{}", content.escape_ascii())
}

fn write_masked(f: &mut fmt::Formatter<'_>, de: u8, content: &[u8]) -> fmt::Result {
    match de {
        2 | 34 | 102 | 103 => write!(f, "{}", mask_pan(content)),
        35 => {
            let is_separator = |byte: &u8| matches!(byte, b'=' | b'D');
            let pan_len = content.iter().position(is_separator).unwrap_or(0);
            let (pan, rest) = content.split_at(pan_len);
            write!(f, "{} and {} characters withheld", mask_pan(pan), rest.len())
        }
        48 => match PrivateUse::parse(content) {
            Some(private_use) => write_private_use(f, private_use),
            None => write_withheld(f, content),
        },
        _ => write_withheld(f, content),
    }
}

/// Sub-elements by tag; those too short to hold card data with their value.
fn write_private_use(f: &mut fmt::Formatter<'_>, private_use: PrivateUse<'_>) -> fmt::Result {
    for (at, (tag, value)) in private_use.elements().enumerate() {
        let space = if at > 0 { " " } else { "" };
        match (tag, value.len()) {
            (PRESENTMENT, 4) | (PARTIAL_CAPABLE, 1) => {
                write!(f, "{space}{tag:02}={}", value.escape_ascii())?;
            }
            (_, len) => write!(f, "{space}{tag:02}=({len} withheld)")?,
        }
    }
    Ok(())
}

fn write_withheld(f: &mut fmt::Formatter<'_>, content: &[u8]) -> fmt::Result {
    write!(f, "({} withheld)", content.len())
}

struct MaskedPan<'a>(&'a [u8]);

impl fmt::Display for MaskedPan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Ten digits of a number shorter than thirteen would leave too little to guess.
        const SHOWN_FROM: usize = 13;
        let len = self.0.len();
        for (at, digit) in self.0.iter().enumerate() {
            let shown = len >= SHOWN_FROM && (at < 6 || at + 4 >= len);
            write!(f, "{}", if shown { digit.escape_ascii() } else { b'*'.escape_ascii() })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MessageBuilder, Mti, decode};

    fn described(builder: &MessageBuilder) -> String {
        let mut frame = Vec::new();
        builder.encode(&mut frame).unwrap();
        describe(&decode(&frame).unwrap()).to_string()
    }

    #[test]
    fn each_element_is_a_line_and_card_data_is_masked() {
        let message = MessageBuilder::new(Mti::AUTHORIZATION_REQUEST)
            .set(2, b"4111111111111111")
            .set_number(4, 12_345)
            .set(35, b"4111111111111111=29122010000")
            .set_text(43, "Blue Bottle")
            .set_text(48, "9203123110401026101180059410799161700000000000000")
            .set(52, &[0xab; 8])
            .set_text(60, "cvv 123")
            .set(64, &[0x0c; 8]);
        let expected = [
            "MTI  0100",
            "  2  primary account number               411111******1111",
            "  4  amount, transaction                  000000012345",
            " 35  track 2 data                         411111******1111 and 12 characters withheld",
            " 43  card acceptor name and location      Blue Bottle                             ",
            " 48  additional data, private             92=(3 withheld) 11=0102 61=1 80=(5 withheld) 99=(16 withheld)",
            " 52  PIN block                            (8 withheld)",
            " 60  reserved, national                   (7 withheld)",
            " 64  message authentication code          0C0C0C0C0C0C0C0C",
        ]
        .join("\n");
        assert_eq!(described(&message), expected);
    }

    #[test]
    fn an_opaque_private_element_and_a_track_without_separator_are_withheld() {
        let message = MessageBuilder::new(Mti::AUTHORIZATION_REQUEST)
            .set(35, b"4111111111111111")
            .set_text(48, "4111111111111111");
        let shown = described(&message);
        assert!(!shown.contains("1111") && shown.contains("(16 withheld)"), "{shown}");
    }

    #[test]
    fn short_numbers_show_nothing_and_long_ones_ten_digits_at_most() {
        for (digits, shown) in [
            ("", ""),
            ("1234", "****"),
            ("411111111111", "************"),
            ("4222222222222", "422222***2222"),
            ("4111111111111111117", "411111*********1117"),
        ] {
            assert_eq!(mask_pan(digits.as_bytes()).to_string(), shown);
        }
    }
}
