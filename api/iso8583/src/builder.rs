//! A message that owns its content, set element by element in any order.
//!
//! Faults (no such element, too long, wrong characters) surface in `encode`, so that the setters chain.

use std::fmt;

use crate::bitmap::Bitmap;
use crate::encode::{EncodeError, write_message};
use crate::fields::{Class, Length, field};
use crate::message::Message;
use crate::mti::Mti;
use crate::number::{write_zero_padded, zero_padded};

/// A message under construction. Its `Debug` shows the numbers of the elements, never their content.
#[derive(Clone)]
pub struct MessageBuilder {
    /// The message type.
    pub mti: Mti,
    /// The elements set so far.
    pub present: Bitmap,
    /// All contents one after the other, as they were set.
    contents: Vec<u8>,
    /// The start and end of each content. The numbers are short, because builders are moved as they are set.
    places: [(u16, u16); 129],
    fault: Option<EncodeError>,
}

impl MessageBuilder {
    /// A message without elements.
    pub fn new(mti: Mti) -> Self {
        Self {
            mti,
            present: Bitmap::EMPTY,
            contents: Vec::new(),
            places: [(0, 0); 129],
            fault: None,
        }
    }

    /// A copy of a decoded message, to be changed or sent on.
    pub fn from_message(message: &Message<'_>) -> Self {
        message.fields().fold(Self::new(message.mti()), |built, (de, _)| built.copy(message, de))
    }

    /// Starts over with another type; memory is kept.
    pub fn reset(&mut self, mti: Mti) {
        self.mti = mti;
        self.present = Bitmap::EMPTY;
        self.contents.clear();
        self.fault = None;
    }

    /// Changes the message type: a repeat is the same message with another one.
    #[must_use]
    pub fn with_mti(mut self, mti: Mti) -> Self {
        self.mti = mti;
        self
    }

    /// Sets an element to exactly these bytes.
    #[must_use]
    pub fn set(mut self, de: u8, content: &[u8]) -> Self {
        self.put(de, |contents| {
            contents.extend_from_slice(content);
            Ok(())
        });
        self
    }

    /// Sets an element if there is a value for it.
    #[must_use]
    pub fn set_optional(self, de: u8, content: Option<&[u8]>) -> Self {
        match content {
            Some(content) => self.set(de, content),
            None => self,
        }
    }

    /// Sets an element to a text; a fixed element of letters or printables is filled up with spaces.
    #[must_use]
    pub fn set_text(mut self, de: u8, text: &str) -> Self {
        self.put(de, |contents| {
            let start = contents.len();
            contents.extend_from_slice(text.as_bytes());
            if let Some(width) = padded_width(de)
                && text.len() < width
            {
                contents.resize(start + width, b' ');
            }
            Ok(())
        });
        self
    }

    /// Sets an element to a number: a fixed element gets zeros in front, a variable one the bare digits.
    #[must_use]
    pub fn set_number(mut self, de: u8, number: u64) -> Self {
        self.put(de, |contents| {
            let spec = field(de).ok_or(EncodeError::UnknownElement(de))?;
            if spec.length == Length::Fixed {
                let start = contents.len();
                contents.resize(start + usize::from(spec.len_max), b'0');
                let fits = write_zero_padded(number, &mut contents[start..]);
                return if fits { Ok(()) } else { Err(EncodeError::WrongLength(de)) };
            }
            let digits: [u8; 20] = zero_padded(number).ok_or(EncodeError::WrongLength(de))?;
            let zeros = digits.iter().take_while(|digit| **digit == b'0').count().min(19);
            contents.extend_from_slice(&digits[zeros..]);
            Ok(())
        });
        self
    }

    /// Copies an element of a decoded message, if it is there.
    #[must_use]
    pub fn copy(self, from: &Message<'_>, de: u8) -> Self {
        self.set_optional(de, from.get(de))
    }

    /// Takes an element out.
    #[must_use]
    pub fn without(mut self, de: u8) -> Self {
        self.present.remove(de);
        self
    }

    /// Appends the message to the output in the default spelling, without length prefix and TPDU.
    ///
    /// Errors: the first fault of a setter, else of the lowest element; the output is then as before.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        write_message(out, (self.mti, self.present), |de| {
            let (start, end) = *self.places.get(usize::from(de))?;
            self.contents.get(usize::from(start)..usize::from(end))
        })
    }

    fn put(&mut self, de: u8, write: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>) {
        let start = self.contents.len();
        let written = match field(de) {
            Some(_) => write(&mut self.contents),
            None => Err(EncodeError::UnknownElement(de)),
        };
        let place = u16::try_from(start).ok().zip(u16::try_from(self.contents.len()).ok());
        let fault = match (written, self.places.get_mut(usize::from(de)), place) {
            (Ok(()), Some(place_of_de), Some(place)) => {
                *place_of_de = place;
                self.present.insert(de);
                return;
            }
            (Err(fault), _, _) => fault,
            (Ok(()), None, _) => EncodeError::UnknownElement(de),
            (Ok(()), Some(_), None) => EncodeError::WrongLength(de),
        };
        self.fault.get_or_insert(fault);
    }
}

impl fmt::Debug for MessageBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageBuilder")
            .field("mti", &self.mti)
            .field("elements", &self.present)
            .finish_non_exhaustive()
    }
}

/// The width that a text is filled up to: fixed elements that may hold spaces.
fn padded_width(de: u8) -> Option<usize> {
    let spec = field(de)?;
    let takes_spaces =
        matches!(spec.class, Class::Letters | Class::LettersDigits | Class::Printable);
    (spec.length == Length::Fixed && takes_spaces).then_some(usize::from(spec.len_max))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FRAME_BYTES_MAX, decode};

    fn encode(builder: &MessageBuilder) -> Result<Vec<u8>, EncodeError> {
        let mut out = b"kept".to_vec();
        let encoded = builder.encode(&mut out);
        assert_eq!(&out[..4], b"kept");
        match encoded {
            Ok(()) => Ok(out.split_off(4)),
            Err(error) => {
                assert_eq!(out, b"kept", "an error leaves the output as it was");
                Err(error)
            }
        }
    }

    #[test]
    fn elements_are_written_in_order_whatever_order_they_were_set_in() {
        let built = MessageBuilder::new(Mti::NETWORK_REQUEST)
            .set_number(70, 301)
            .set_number(11, 7)
            .set_number(70, 1);
        assert_eq!(
            encode(&built).unwrap(),
            b"0800\x80\x20\0\0\0\0\0\0\x04\0\0\0\0\0\0\x00000007001"
        );
        assert_eq!(encode(&built.without(70)).unwrap(), b"0800\x00\x20\0\0\0\0\0\x00000007");
    }

    #[test]
    fn setters_pad_and_exact_setters_do_not() {
        let new = || MessageBuilder::new(Mti::AUTHORIZATION_REQUEST);
        for (built, de, content) in [
            (new().set_text(41, "T1"), 41, &b"T1      "[..]),
            (new().set_text(44, "1502"), 44, b"1502"),
            (new().set_number(4, 99), 4, b"000000000099"),
            (new().set_number(32, 12_300), 32, b"12300"),
            (new().set_number(32, 0), 32, b"0"),
            (new().set_optional(39, Some(b"00")), 39, b"00"),
        ] {
            let frame = encode(&built).unwrap();
            assert_eq!(decode(&frame).unwrap().get(de), Some(content));
        }
    }

    #[test]
    fn wrong_values_are_refused_and_name_the_element() {
        let new = || MessageBuilder::new(Mti::AUTHORIZATION_REQUEST).set_number(11, 1);
        for (built, error) in [
            (new().set(3, b"00"), EncodeError::WrongLength(3)),
            (new().set_text(3, "00"), EncodeError::WrongLength(3)),
            (new().set_text(41, "TERMINAL1"), EncodeError::WrongLength(41)),
            (new().set(2, &[b'4'; 20]), EncodeError::WrongLength(2)),
            (new().set(48, &[b'4'; 1000]), EncodeError::WrongLength(48)),
            (new().set(52, &[0; 7]), EncodeError::WrongLength(52)),
            (new().set_number(25, 100), EncodeError::WrongLength(25)),
            (new().set(2, b"411x"), EncodeError::BadContent(2)),
            (new().set_text(43, "Café"), EncodeError::BadContent(43)),
            (new().set(1, b""), EncodeError::UnknownElement(1)),
            (new().set(0, b""), EncodeError::UnknownElement(0)),
            (new().set_number(129, 1), EncodeError::UnknownElement(129)),
        ] {
            assert_eq!(encode(&built).unwrap_err(), error);
        }
    }

    #[test]
    fn a_message_above_the_frame_cap_is_refused() {
        let long = [b'x'; 999];
        let full = (56..=59).fold(MessageBuilder::new(Mti::AUTHORIZATION_REQUEST), |built, de| {
            built.set(de, &long)
        });
        assert!(encode(&full).unwrap().len() <= FRAME_BYTES_MAX);
        assert_eq!(encode(&full.set(60, &long)).unwrap_err(), EncodeError::FrameTooLong);
    }

    #[test]
    fn a_builder_starts_over() {
        let mut built = MessageBuilder::new(Mti::NETWORK_REQUEST).set(3, b"");
        built.reset(Mti::AUTHORIZATION_REQUEST);
        assert!(built.present.is_empty());
        assert_eq!(encode(&built).unwrap(), b"0100\0\0\0\0\0\0\0\0");
        let repeat = built.with_mti(Mti::parse(b"0101").unwrap());
        assert_eq!(format!("{repeat:?}"), "MessageBuilder { mti: Mti(0101), elements: [], .. }");
    }
}
