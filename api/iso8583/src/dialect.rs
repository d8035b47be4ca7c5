//! The ways in which counterparts spell the same message. The field table is one for all of them.

/// The most bytes that a frame may announce, TPDU included.
pub const FRAME_BYTES_MAX: usize = 4096;

/// How the bitmaps, and with them the binary fields, stand in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BitmapEncoding {
    /// Eight bytes a bitmap; binary fields as they are.
    #[default]
    Binary,
    /// Sixteen hex characters a bitmap; binary fields as two hex characters a byte.
    HexText,
}

/// How the length stands before a message on a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LengthPrefix {
    /// Two bytes, big-endian.
    #[default]
    TwoBytes,
    /// Four bytes, big-endian.
    FourBytes,
    /// Four ASCII digits.
    FourDigits,
}

impl LengthPrefix {
    /// Bytes that the prefix itself takes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::TwoBytes => 2,
            Self::FourBytes | Self::FourDigits => 4,
        }
    }
}

/// One counterpart's spelling. The default is binary bitmaps, two bytes of length, no TPDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dialect {
    /// Bitmaps and binary fields.
    pub bitmap: BitmapEncoding,
    /// The length before each message.
    pub length_prefix: LengthPrefix,
    /// Whether a five-byte TPDU stands between length and message.
    pub tpdu: bool,
}
