//! Files of lines under a keyed sum: title, `format 1`, lines, and `sum TAG`, HMAC-SHA-256 of all
//! lines before it, first 128 bits, as hex digits. Nobody can make or cut such a file without the
//! key.

use subtle::ConstantTimeEq;

use super::keyed_hash::KeyedHash;
use crate::hex::{from_hex, to_hex};

const FORMAT: u32 = 1;

/// Why a text is not one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SummedTextFlaw {
    /// It was cut or changed: where.
    Damaged(&'static str),
    /// Written by a later build.
    NewerFormat,
}

/// A text whose sum is still to be looked at.
#[derive(Debug)]
pub struct SummedText<'a> {
    lines: &'a str,
    sum: &'a str,
}

impl<'a> SummedText<'a> {
    /// Takes it apart.
    /// Errors: title or sum are missing, or it is of a later format.
    pub fn split(text: &'a str, title: &str) -> Result<Self, SummedTextFlaw> {
        let head = text.strip_prefix(title).and_then(|rest| rest.strip_prefix("\nformat "));
        let format = head
            .and_then(|rest| rest.split_once('\n'))
            .ok_or(SummedTextFlaw::Damaged("its head"))?
            .0;
        match format.parse::<u32>() {
            Ok(FORMAT) => {}
            Ok(newer) if newer > FORMAT => return Err(SummedTextFlaw::NewerFormat),
            _ => return Err(SummedTextFlaw::Damaged("its format")),
        }
        let missing = SummedTextFlaw::Damaged("its sum is missing");
        let (before, sum) = text.rsplit_once("\nsum ").ok_or(missing)?;
        let sum = sum.strip_suffix('\n').ok_or(SummedTextFlaw::Damaged("its sum is cut"))?;
        Ok(Self { lines: &text[..=before.len()], sum })
    }

    /// Whether the sum was made with this key.
    pub fn is_of(&self, key: &KeyedHash) -> bool {
        let tag = key.half_tag(&[self.lines.as_bytes()]);
        // Letters of hex digits have one form, so that no other file passes for the same.
        let sum = from_hex(self.sum).filter(|_| !self.sum.contains(char::is_uppercase));
        sum.is_some_and(|sum| tag.ct_eq(sum.as_slice()).into())
    }

    /// The lines between head and sum.
    pub fn body(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.lines.lines().skip(2)
    }
}

/// The whole text around lines, each with its end.
pub fn render_summed(title: &str, body: &str, key: &KeyedHash) -> String {
    let mut text = format!("{title}\nformat {FORMAT}\n{body}");
    let tag = key.half_tag(&[text.as_bytes()]);
    text.push_str(&format!("sum {}\n", to_hex(&tag)));
    text
}
