//! One counterpart's way to write the same messages: how they are framed, and how they are spelled.
//!
//! The switch reads and writes one spelling, the default one: ISO 8583:1987 in ASCII with binary bitmaps. A counterpart
//! with another spelling has a [`Translation`] between the two, so that no second decoder and no second mapping exists.

use std::borrow::Cow;
use std::sync::Arc;

use crate::length_prefix::LengthPrefix;
use crate::repeated_fields::RepeatedFields;
use crate::translate_in::TranslationFault;
use crate::translation::Translation;

/// The most bytes that a frame may announce, TPDU included.
pub const FRAME_BYTES_MAX: usize = 4096;

/// How messages stand on a stream. The default is two bytes of length and no TPDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Framing {
    /// The length before each message, or the delimiter after it.
    pub length: LengthPrefix,
    /// Whether a five-byte TPDU stands before each message.
    pub tpdu: bool,
}

/// One counterpart's dialect. The default has the default framing and no translation.
#[derive(Debug, Clone)]
pub struct Dialect {
    /// Its name: that of a shipped dialect, or of a file.
    pub name: Arc<str>,
    /// The framing of messages on a stream.
    pub framing: Framing,
    /// Between the counterpart's spelling and the switch's own; none where these are the same.
    pub translation: Option<Arc<Translation>>,
}

impl Dialect {
    /// The default spelling in this framing.
    pub fn framed(framing: Framing) -> Self {
        Self { framing, ..Self::default() }
    }

    /// A message in the default spelling, and the fault for which a part of it is missing there, if any.
    pub fn plain<'a>(&self, message: &'a [u8]) -> (Cow<'a, [u8]>, Option<TranslationFault>) {
        let Some(translation) = &self.translation else { return (message.into(), None) };
        let mut plain = Vec::new();
        let read = translation.read(message, &mut plain, &mut RepeatedFields::default());
        (plain.into(), read.err())
    }
}

impl Default for Dialect {
    fn default() -> Self {
        Self { name: DEFAULT.into(), framing: Framing::default(), translation: None }
    }
}

/// The name of the dialect that needs no translation.
pub const DEFAULT: &str = "default";
