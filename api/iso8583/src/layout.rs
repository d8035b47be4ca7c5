//! Places of the fields of a counterpart's message.

use crate::bitmap::Bitmap;
use crate::codec::DecodeFault;
use crate::translate_in::TranslationFault;
use crate::translation::Translation;

/// Place of a field. Units: bytes from the start of the message.
#[derive(Clone, Copy, Default)]
pub(crate) struct FieldPlace {
    /// Start of its length.
    pub(crate) start: u16,
    /// Start of its content.
    pub(crate) content: u16,
    pub(crate) units: u16,
    pub(crate) end: u16,
}

impl FieldPlace {
    /// A part of the content, where it is not all of it.
    pub(crate) const fn part(self, place: Option<(u16, u16)>) -> Self {
        match place {
            None => self,
            Some((from, to)) => {
                let (start, end) = (self.content + from, self.content + to);
                Self { start, content: start, units: self.units, end }
            }
        }
    }
}

/// The fields of a message by number.
pub(crate) struct Layout {
    pub(crate) present: Bitmap,
    /// The elements that they lead to.
    pub(crate) elements: Bitmap,
    pub(crate) places: [FieldPlace; 129],
    pub(crate) fault: Option<TranslationFault>,
}

impl Translation {
    /// Finds the announced fields, until the first whose end nobody knows.
    pub(crate) fn lay_out(&self, message: &[u8], start: usize, announced: Bitmap) -> Layout {
        let (mut present, mut elements, mut fault) = (announced, Bitmap::EMPTY, None);
        let mut places = [FieldPlace::default(); 129];
        // INVARIANT: a frame and a field together are shorter than 65,536 bytes.
        let mut at = u16::try_from(start).unwrap_or(u16::MAX);
        let message_end = short_len(message);
        for number in announced.elements() {
            let row = &self.rows[usize::from(number)];
            let mut place =
                FieldPlace { start: at, content: at, units: row.units, end: at + row.bytes };
            if row.bytes == 0 || place.end > message_end {
                match self.place_of(message, at, number) {
                    Ok(varying) => place = varying,
                    Err(unknown) => {
                        fault.get_or_insert((unknown, Some(number)));
                        present = present.below(number);
                        at = message_end;
                        break;
                    }
                }
            }
            at = place.end;
            if place.units > row.units {
                fault.get_or_insert((DecodeFault::TooLong, Some(number)));
                present.remove(number);
                continue;
            }
            places[usize::from(number)] = place;
            elements = elements.union(row.elements);
        }
        if at < message_end {
            fault.get_or_insert((DecodeFault::TrailingBytes, None));
        }
        let fault = fault.map(|(fault, field)| TranslationFault { fault, field });
        Layout { present, elements, places, fault }
    }

    fn place_of(&self, message: &[u8], at: u16, number: u8) -> Result<FieldPlace, DecodeFault> {
        let wire = self.fields[usize::from(number)].as_ref();
        let form = &wire.ok_or(DecodeFault::UnknownElement)?.form;
        let (start, content) = (usize::from(at), usize::from(at) + form.prefix_bytes());
        let prefix = message.get(start..content).ok_or(DecodeFault::Truncated)?;
        let units = form.read_len(prefix)?;
        let end = content + form.wire_bytes(units);
        if end > message.len() {
            return Err(DecodeFault::Truncated);
        }
        let short = |place: usize| u16::try_from(place).map_err(|_| DecodeFault::FrameTooLong);
        Ok(FieldPlace { start: at, content: short(content)?, units, end: short(end)? })
    }
}

/// INVARIANT: nothing that is written is as long as 65,536 bytes.
pub(crate) fn short_len(bytes: &[u8]) -> u16 {
    u16::try_from(bytes.len()).unwrap_or(u16::MAX)
}
