//! The frame of a message on an acquirer's stream: its length or a delimiter, and a TPDU.

use super::ebcdic;
use crate::rng::Rng;

/// How a length is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LengthMark {
    Binary(usize),
    Ascii(usize),
    Ebcdic(usize),
    Packed(usize),
    /// No length: this byte ends a message.
    End(u8),
}

/// The headers of an acquirer's messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    mark: LengthMark,
    is_inclusive: bool,
    /// The acquirer's address and that of the switch, where a TPDU has them.
    pub(super) addresses: Option<[[u8; 2]; 2]>,
}

impl Header {
    /// Draws a header. A delimiter needs messages that are text.
    pub(super) fn draw(rng: &mut Rng, is_text: bool) -> Self {
        let mark = match rng.below(if is_text { 8 } else { 7 }) {
            0 | 1 => LengthMark::Binary(2),
            2 => LengthMark::Binary(4),
            3 => LengthMark::Ascii(4),
            4 => LengthMark::Ascii(6),
            5 => LengthMark::Ebcdic(4),
            6 => LengthMark::Packed(2),
            _ => LengthMark::End(3),
        };
        let is_inclusive = !matches!(mark, LengthMark::End(_)) && rng.chance(25);
        let can_have_addresses = !matches!(mark, LengthMark::End(_));
        let addresses = (can_have_addresses && rng.chance(30)).then(|| {
            let own = 1 + rng.below(250) as u8;
            [[0, own], [1, own]]
        });
        Self { mark, is_inclusive, addresses }
    }

    pub(super) const fn has_delimiter(&self) -> bool {
        matches!(self.mark, LengthMark::End(_))
    }

    /// The name of the length in the product's settings.
    pub(super) fn setting(&self) -> String {
        let name = match self.mark {
            LengthMark::Binary(bytes) => format!("binary{bytes}"),
            LengthMark::Ascii(bytes) => format!("ascii{bytes}"),
            LengthMark::Ebcdic(bytes) => format!("ebcdic{bytes}"),
            LengthMark::Packed(bytes) => format!("bcd{}", 2 * bytes),
            LengthMark::End(byte) => format!("delimiter {byte:02x}"),
        };
        if self.is_inclusive { format!("{name} inclusive") } else { name }
    }

    /// A message with its header.
    pub(super) fn frame(&self, message: &[u8]) -> Vec<u8> {
        let mut body = Vec::new();
        if let Some([own, switch]) = self.addresses {
            body.push(0x60);
            body.extend([switch, own].concat());
        }
        body.extend(message);
        self.frame_raw(&body)
    }

    /// Bytes with nothing but their length.
    pub(super) fn frame_raw(&self, body: &[u8]) -> Vec<u8> {
        let len = body.len() + if self.is_inclusive { self.len() } else { 0 };
        let digits = |count: usize| format!("{len:0count$}").into_bytes();
        let mut frame = match self.mark {
            LengthMark::Binary(bytes) => len.to_be_bytes()[8 - bytes..].to_vec(),
            LengthMark::Ascii(bytes) => digits(bytes),
            LengthMark::Ebcdic(bytes) => digits(bytes).into_iter().map(ebcdic::of_ascii).collect(),
            LengthMark::Packed(bytes) => {
                let pairs = digits(2 * bytes);
                pairs.chunks(2).map(|pair| (pair[0] - b'0') << 4 | (pair[1] - b'0')).collect()
            }
            LengthMark::End(_) => Vec::new(),
        };
        frame.extend(body);
        if let LengthMark::End(byte) = self.mark {
            frame.push(byte);
        }
        frame
    }

    /// The bytes of a length.
    const fn len(&self) -> usize {
        match self.mark {
            LengthMark::Binary(bytes)
            | LengthMark::Ascii(bytes)
            | LengthMark::Ebcdic(bytes)
            | LengthMark::Packed(bytes) => bytes,
            LengthMark::End(_) => 0,
        }
    }

    /// Takes the first whole answer off the stream; none where it is not whole.
    /// Panics: the answer's TPDU does not lead back to the acquirer.
    pub(super) fn take_answer(&self, stream: &mut Vec<u8>) -> Option<Vec<u8>> {
        let (start, end, consumed) = match self.mark {
            LengthMark::End(byte) => {
                let end = stream.iter().position(|at| *at == byte)?;
                (0, end, end + 1)
            }
            _ => {
                let start = self.len();
                let announced = self.announced(stream.get(..start)?);
                let end = announced + if self.is_inclusive { 0 } else { start };
                (start, end, end)
            }
        };
        let framed = stream.get(start..end)?;
        let body = match self.addresses {
            None => framed.to_vec(),
            Some([own, switch]) => {
                let (tpdu, body) = framed.split_at_checked(5).unwrap();
                assert_eq!(tpdu[1..], [own, switch].concat(), "the TPDU of an answer");
                body.to_vec()
            }
        };
        stream.drain(..consumed);
        Some(body)
    }

    fn announced(&self, prefix: &[u8]) -> usize {
        let of_text = |text: Vec<u8>| String::from_utf8(text).unwrap().parse().unwrap();
        match self.mark {
            LengthMark::Ascii(_) => of_text(prefix.to_vec()),
            LengthMark::Ebcdic(_) => {
                of_text(prefix.iter().map(|byte| ebcdic::to_ascii(*byte)).collect())
            }
            LengthMark::Packed(_) => {
                let digit = |nibble: u8| b'0' + nibble;
                of_text(
                    prefix.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect(),
                )
            }
            _ => prefix.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_have_the_bytes_that_their_settings_say() {
        let header = |mark, is_inclusive, addresses| Header { mark, is_inclusive, addresses };
        let tpdu = Some([[0, 9], [1, 7]]);
        let rows = [
            (header(LengthMark::Binary(2), false, None), "binary2", b"\0\x03abc".to_vec()),
            (header(LengthMark::Packed(2), false, None), "bcd4", b"\0\x03abc".to_vec()),
            (header(LengthMark::Ascii(4), true, None), "ascii4 inclusive", b"0007abc".to_vec()),
            (header(LengthMark::End(3), false, None), "delimiter 03", b"abc\x03".to_vec()),
            (
                header(LengthMark::Ebcdic(4), false, tpdu),
                "ebcdic4",
                b"\xf0\xf0\xf0\xf8\x60\x01\x07\0\x09abc".to_vec(),
            ),
        ];
        for (header, setting, frame) in rows {
            assert_eq!((header.setting().as_str(), header.frame(b"abc")), (setting, frame));
        }
        let mut stream = b"\0\x03abc\0".to_vec();
        let plain = header(LengthMark::Binary(2), false, None);
        assert_eq!(plain.take_answer(&mut stream).as_deref(), Some(b"abc".as_slice()));
        assert_eq!((plain.take_answer(&mut stream), stream), (None, vec![0]));
    }
}
