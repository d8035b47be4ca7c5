//! An answer: the kept elements of the request, in runs, and between them the elements that the switch adds.
//!
//! Nothing is copied but into the output, so answering allocates nothing of its own. Values are borrowed too; make
//! numbers with [`zero_padded`](crate::number::zero_padded).

use crate::bitmap::{Bitmap, BitmapEncoding};
use crate::echo::{ECHOED, Echo};
use crate::encode::{EncodeError, check_content, write_element};
use crate::fields::field;
use crate::message::Elements;
use crate::mti::Mti;

/// The most elements that an answer sets itself.
pub const OWN_ELEMENTS_MAX: usize = 8;

/// The answer to a decoded request.
#[derive(Debug, Clone)]
pub struct AnswerMessage<'a> {
    mti: Mti,
    request: &'a Echo,
    echoed: Bitmap,
    own: OwnElements<'a>,
    fault: Option<EncodeError>,
}

impl<'a> AnswerMessage<'a> {
    /// An answer that echoes what identifies the request; none for messages that are never answered.
    pub fn to(request: &'a Echo) -> Option<Self> {
        let mti = request.mti.response()?;
        let echoed = ECHOED.intersection(request.kept);
        Some(Self { mti, request, echoed, own: OwnElements::default(), fault: None })
    }

    /// The type of the answer.
    pub const fn mti(&self) -> Mti {
        self.mti
    }

    /// Echoes one more element, if it is kept.
    #[must_use]
    pub fn echo(mut self, de: u8) -> Self {
        if self.request.kept.contains(de) {
            self.echoed.insert(de);
        }
        self
    }

    /// Leaves an element out, echoed or set.
    #[must_use]
    pub fn without(mut self, de: u8) -> Self {
        self.echoed.remove(de);
        self.own.present.remove(de);
        self
    }

    /// Sets an element, over an echo where there is one. Binary elements are given as bytes.
    #[must_use]
    pub fn set(mut self, de: u8, content: &'a [u8]) -> Self {
        let set = match field(de) {
            Some(_) => self.own.set(de, content),
            None => Err(EncodeError::UnknownElement(de)),
        };
        if let Err(fault) = set {
            self.fault.get_or_insert(fault);
        }
        self
    }

    /// Sets an element if there is a value for it.
    #[must_use]
    pub fn set_optional(self, de: u8, content: Option<&'a [u8]>) -> Self {
        match content {
            Some(content) => self.set(de, content),
            None => self,
        }
    }

    /// Appends the answer to the output in the default spelling, without length prefix and TPDU.
    ///
    /// Errors: the first fault of a setter, else of the lowest element; the output is then as before.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let start = out.len();
        out.extend_from_slice(&self.mti.bytes());
        self.echoed.union(self.own.present).write(out, BitmapEncoding::Binary);
        let written = self.write_elements(out);
        if written.is_err() {
            out.truncate(start);
        }
        written
    }

    /// Whether what was set may stand in an answer.
    /// Errors: the first fault of a setter, else of the lowest element.
    pub(crate) fn check(&self) -> Result<(), EncodeError> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        for de in self.own.present.elements() {
            let spec = field(de).ok_or(EncodeError::UnknownElement(de))?;
            check_content(spec, self.own.get(de).unwrap_or_default())?;
        }
        Ok(())
    }

    /// Between what is set and what is left out, the echoed elements go out as they came in.
    fn write_elements(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let left_out = self.request.kept.without(self.echoed);
        self.request.runs().copy_but(self.own.present.union(left_out), out, |de, out| {
            let Some(content) = self.own.get(de) else { return Ok(()) };
            let spec = field(de).ok_or(EncodeError::UnknownElement(de))?;
            write_element(out, spec, content)
        })
    }
}

impl Elements for AnswerMessage<'_> {
    fn mti(&self) -> Mti {
        self.mti
    }

    fn present(&self) -> Bitmap {
        self.echoed.union(self.own.present)
    }

    fn echoed(&self) -> Bitmap {
        self.echoed.without(self.own.present)
    }

    fn get(&self, de: u8) -> Option<&[u8]> {
        let echoed = || self.request.get(de).filter(|_| self.echoed.contains(de));
        self.own.get(de).or_else(echoed)
    }
}

/// A short list of borrowed values; answers set a handful.
#[derive(Clone, Default)]
struct OwnElements<'a> {
    present: Bitmap,
    list: [(u8, &'a [u8]); OWN_ELEMENTS_MAX],
    len: usize,
}

impl<'a> OwnElements<'a> {
    fn set(&mut self, de: u8, content: &'a [u8]) -> Result<(), EncodeError> {
        let place = match self.position(de) {
            Some(at) => at,
            None => {
                self.len += 1;
                self.len - 1
            }
        };
        let Some(entry) = self.list.get_mut(place) else {
            self.len = OWN_ELEMENTS_MAX;
            return Err(EncodeError::TooManyElements(de));
        };
        *entry = (de, content);
        self.present.insert(de);
        Ok(())
    }

    fn get(&self, de: u8) -> Option<&'a [u8]> {
        if !self.present.contains(de) {
            return None;
        }
        let (_, content) = self.list.get(self.position(de)?)?;
        Some(content)
    }

    fn position(&self, de: u8) -> Option<usize> {
        self.list.iter().take(self.len).position(|(other, _)| *other == de)
    }
}

impl std::fmt::Debug for OwnElements<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.present.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MessageBuilder, decode};

    fn request(mti: &[u8]) -> Vec<u8> {
        let mut frame = Vec::new();
        MessageBuilder::new(Mti::parse(mti).unwrap())
            .set(2, b"4111111111111111")
            .set_number(3, 0)
            .set_number(4, 5000)
            .set_number(11, 42)
            .set(14, b"2912")
            .set_text(37, "RRN000000001")
            .set_text(41, "T1")
            .set_text(48, "9203123")
            .set(52, &[0xab; 8])
            .encode(&mut frame)
            .unwrap();
        frame
    }

    #[test]
    fn an_answer_echoes_what_identifies_the_request_and_no_secrets() {
        let frame = request(b"0101");
        let request = decode(&frame).unwrap();
        let mut out = Vec::new();
        AnswerMessage::to(&Echo::of(&request))
            .unwrap()
            .set(38, b"A00001")
            .set(39, b"10")
            .set(4, b"000000003000")
            .set_optional(44, None)
            .encode(&mut out)
            .unwrap();
        let answer = decode(&out).unwrap();
        assert_eq!(answer.mti(), Mti::AUTHORIZATION_RESPONSE);
        let elements: Vec<u8> = answer.present().elements().collect();
        assert_eq!(elements, [2, 3, 4, 11, 37, 38, 39, 41]);
        assert_eq!(answer.get_number(4), Some(3000), "what the answer sets wins");
        assert_eq!(answer.get(2), request.get(2));
    }

    #[test]
    fn elements_are_left_out_and_added_wherever_they_stand() {
        let frame = request(b"0400");
        let echo = Echo::of(&decode(&frame).unwrap());
        let answer = || AnswerMessage::to(&echo).unwrap();
        for (answer, expected) in [
            (answer(), &[2, 3, 4, 11, 37, 41][..]),
            (answer().without(2).without(41), &[3, 4, 11, 37]),
            (answer().without(4).without(11), &[2, 3, 37, 41]),
            (answer().set(128, &[1; 8]).echo(38), &[2, 3, 4, 11, 37, 41, 128]),
            (answer().set(2, b"1").without(3).set(5, b"000000000001"), &[2, 4, 5, 11, 37, 41]),
        ] {
            let mut out = Vec::new();
            answer.encode(&mut out).unwrap();
            let read = decode(&out).unwrap();
            assert_eq!(read.present().elements().collect::<Vec<_>>(), expected);
            assert!(read.get(37).is_none_or(|rrn| rrn == b"RRN000000001"));
        }
    }

    #[test]
    fn responses_get_no_answer() {
        let frame = request(b"0110");
        let message = decode(&frame).unwrap();
        assert!(AnswerMessage::to(&Echo::of(&message)).is_none());
    }

    #[test]
    fn a_bad_message_can_be_answered_with_what_was_readable() {
        let mut frame = request(b"0100");
        // The first digit of the amount, behind type, bitmap, card number and processing code.
        frame[4 + 8 + 18 + 6] = b'?';
        let error = decode(&frame).unwrap_err();
        let readable = error.readable.unwrap();
        let mut out = Vec::new();
        AnswerMessage::to(&Echo::of(&readable)).unwrap().set(39, b"30").encode(&mut out).unwrap();
        let answer = decode(&out).unwrap();
        assert_eq!((answer.get_number(11), answer.get(4)), (Some(42), None));
        assert_eq!(answer.get_text(39), Some("30"));
    }

    #[test]
    fn wrong_values_are_refused_and_leave_the_output_alone() {
        let frame = request(b"0100");
        let request = Echo::of(&decode(&frame).unwrap());
        let answer = || AnswerMessage::to(&request).unwrap();
        let crowded = (70..90).fold(answer(), |answer, de| answer.set(de, b"1"));
        for (answer, error) in [
            (answer().set(39, b"000"), EncodeError::WrongLength(39)),
            (answer().set(39, b"?0"), EncodeError::BadContent(39)),
            (answer().set(1, b"0"), EncodeError::UnknownElement(1)),
            (crowded, EncodeError::TooManyElements(78)),
        ] {
            let mut out = vec![7];
            assert_eq!(answer.encode(&mut out), Err(error));
            assert_eq!(out, [7]);
        }
        let mut out = Vec::new();
        answer().set(39, b"00").without(39).encode(&mut out).unwrap();
        assert_eq!(decode(&out).unwrap().get(39), None);
    }
}
