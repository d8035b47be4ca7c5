//! Cryptograms of chip cards: the card's (ARQC), which only it and its issuer can make, and the issuer's answer
//! to it (ARPC).
//!
//! | | CVN 10 | CVN 18 |
//! |---|---|---|
//! | card's key | from the issuer's by EMV option A | the same |
//! | session key | none: the card's key | EMV common, from the counter (9F36) |
//! | cryptogram over | ten elements, CVR | the same elements, all of 9F10 |
//! | padding | zeros | a bit, then zeros |
//! | answer (tag 91) | method 1: ARPC of 8 bytes, response code | method 2: ARPC of 4 bytes, card status update |
//!
//! Source: EMV 4.3 book 2, section 8 and annex A 1.
//!
//! // CHOICE: card numbers of more than 16 digits use option A too, their last digits with the sequence number.

use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::key::{Algorithm, KeyFault, ZoneKey, mix};
use crate::mac::{Padding, retail};
use crate::tlv::{Tag, TlvFault, elements};

const ARQC: Tag = Tag(0x9f26);
const COUNTER: Tag = Tag(0x9f36);
const ISSUER_DATA: Tag = Tag(0x9f10);
const SEQUENCE_NUMBER: Tag = Tag(0x5f34);
/// The elements under the cryptogram, in this order: tags and lengths.
const SIGNED: [(Tag, usize); 10] = [
    (Tag(0x9f02), 6),
    (Tag(0x9f03), 6),
    (Tag(0x9f1a), 2),
    (Tag(0x95), 5),
    (Tag(0x5f2a), 2),
    (Tag(0x9a), 3),
    (Tag(0x9c), 1),
    (Tag(0x9f37), 4),
    (Tag(0x82), 2),
    (COUNTER, 2),
];
/// The tag of the issuer's answer.
const ISSUER_AUTHENTICATION: u8 = 0x91;

/// Why DE55 cannot be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChipFault {
    /// It has no elements.
    #[error(transparent)]
    Tlv(#[from] TlvFault),
    /// An element that the cryptogram is over is missing, or of another length.
    #[error("element {0} is missing or of another length")]
    Element(Tag),
}

/// How a card makes its cryptograms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cvn {
    Ten,
    Eighteen,
    Other,
}

/// The data of a card about a purchase, and its cryptogram.
#[derive(Debug)]
pub struct ChipData {
    cvn: Cvn,
    arqc: [u8; 8],
    counter: [u8; 2],
    signed: Vec<u8>,
    /// The sequence number of the card among those of its number, where the chip says it.
    pub sequence_number: Option<u8>,
}

impl ChipData {
    /// Reads DE55. None where it has no cryptogram.
    /// Errors: it is cut, or lacks what the cryptogram is over.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, ChipFault> {
        let found = elements(bytes)?;
        let find =
            |tag: Tag| found.iter().find(|(found, _)| *found == tag).map(|(_, value)| *value);
        let Some(arqc) = find(ARQC) else { return Ok(None) };
        let arqc = arqc.try_into().map_err(|_| ChipFault::Element(ARQC))?;
        let mut signed = Vec::new();
        for (tag, len) in SIGNED {
            let value = find(tag).filter(|value| value.len() == len);
            signed.extend(value.ok_or(ChipFault::Element(tag))?);
        }
        let counter = [signed[signed.len() - 2], signed[signed.len() - 1]];
        let issuer_data = find(ISSUER_DATA).ok_or(ChipFault::Element(ISSUER_DATA))?;
        let [_, _, cvn, verified @ ..] = issuer_data else {
            return Err(ChipFault::Element(ISSUER_DATA));
        };
        let cvn = match cvn {
            10 => Cvn::Ten,
            18 => Cvn::Eighteen,
            _ => Cvn::Other,
        };
        match cvn {
            Cvn::Ten => signed.extend(verified.get(..4).ok_or(ChipFault::Element(ISSUER_DATA))?),
            _ => signed.extend(issuer_data),
        }
        let sequence_number = find(SEQUENCE_NUMBER).and_then(|value| value.first().copied());
        Ok(Some(Self { cvn, arqc, counter, signed, sequence_number }))
    }
}

/// The key that the keys of all cards of an issuer derive from.
#[derive(Debug)]
pub struct IssuerKey(ZoneKey);

impl IssuerKey {
    /// Takes a TDES key of two parts.
    /// Errors: it is another one.
    pub fn new(key: ZoneKey) -> Result<Self, KeyFault> {
        match (key.algorithm, key.bytes.len()) {
            (Algorithm::Tdes, 16) => Ok(Self(key)),
            _ => Err(KeyFault::Kind("a TDES key of 16 bytes, as chip cards derive theirs from")),
        }
    }

    /// Checks a card's cryptogram, in constant time. None where it is not the card's, or made in a way that is not
    /// known here. The card number is in ASCII digits, the sequence number two digits in a byte.
    pub fn verify(&self, pan: &[u8], sequence_number: u8, data: &ChipData) -> Option<VerifiedCard> {
        let card = self.card_key(pan, sequence_number)?;
        let (session, padding) = match data.cvn {
            Cvn::Ten => (card, Padding::Zeros),
            Cvn::Eighteen => {
                let [high, low] = data.counter;
                let left = [high, low, 0xf0, 0, 0, 0, 0, 0];
                let right = [high, low, 0x0f, 0, 0, 0, 0, 0];
                (enciphered_pair(&card, left, right), Padding::BitAndZeros)
            }
            Cvn::Other => return None,
        };
        let expected = retail(&session, padding).ok()?(&[&data.signed]);
        let is_right = bool::from(expected.ct_eq(&data.arqc));
        is_right.then_some(VerifiedCard { session, cvn: data.cvn, arqc: data.arqc })
    }

    /// The key of a card, by EMV option A.
    fn card_key(&self, pan: &[u8], sequence_number: u8) -> Option<ZoneKey> {
        let digits = pan.iter().map(|digit| digit.wrapping_sub(b'0'));
        let digits = digits.chain([sequence_number >> 4, sequence_number & 15]);
        let mut last: [u8; 16] = [0; 16];
        for digit in digits {
            if digit > 9 {
                return None;
            }
            last.rotate_left(1);
            last[15] = digit;
        }
        let left: [u8; 8] = std::array::from_fn(|at| last[2 * at] << 4 | last[2 * at + 1]);
        Some(enciphered_pair(&self.0, left, left.map(|byte| !byte)))
    }
}

/// A key whose halves are blocks under another key.
fn enciphered_pair(key: &ZoneKey, mut left: [u8; 8], mut right: [u8; 8]) -> ZoneKey {
    key.encrypt(&mut left);
    key.encrypt(&mut right);
    let bytes = Zeroizing::new([left, right].concat());
    ZoneKey::new(Algorithm::Tdes, bytes).expect("two parts of eight bytes")
}

/// A card whose cryptogram was right.
#[derive(Debug)]
pub struct VerifiedCard {
    session: ZoneKey,
    cvn: Cvn,
    arqc: [u8; 8],
}

impl VerifiedCard {
    /// The content of the answer's DE55: tag 91, by which the card knows its issuer. `code` is
    /// DE39.
    ///
    /// // CHOICE: a card status update says whether the issuer approves, and asks for nothing else.
    pub fn issuer_authentication(&self, code: [u8; 2], is_approved: bool) -> Vec<u8> {
        let data = match self.cvn {
            Cvn::Eighteen => {
                let update = [0, if is_approved { 0x80 } else { 0 }, 0, 0];
                let tagging = retail(&self.session, Padding::BitAndZeros);
                let tag =
                    tagging.map_or_else(|_| vec![0; 8], |tagging| tagging(&[&self.arqc, &update]));
                [&tag[..4], &update].concat()
            }
            _ => {
                let mut block = self.arqc;
                mix(&mut block, &code);
                self.session.encrypt(&mut block);
                [&block[..], &code].concat()
            }
        };
        let len = u8::try_from(data.len()).unwrap_or(0);
        [&[ISSUER_AUTHENTICATION, len][..], &data].concat()
    }
}

#[cfg(test)]
mod tests {
    use cardswitch_secrets::hex::{from_hex, to_hex};

    use super::*;
    use crate::key::tests::key;

    const PAN: &[u8] = b"1234567890123456";
    /// The elements under the cryptograms below.
    const ELEMENTS: &str = "9f02060000000099999f03060000000000009f1a020840950580000480005f2a0208409a03991231\
                            9c01019f370452bf4585820218009f36020fff";

    fn data_with(issuer_data: &str, arqc: &str) -> Vec<u8> {
        let (data_len, arqc_len) = (issuer_data.len() / 2, arqc.len() / 2);
        let all =
            format!("{ELEMENTS}9f10{data_len:02x}{issuer_data}9f26{arqc_len:02x}{arqc}5f340100");
        from_hex(&all).unwrap().to_vec()
    }

    /// Cryptograms and answers of PyPI `pyemv` 1.5.0, those of CVN 18 from its documents but for the update.
    #[test]
    fn cryptograms_of_both_kinds_are_checked_and_answered() {
        let rows = [
            (
                "0123456789ABCDEFFEDCBA9876543210",
                "06010a03a0b800",
                "c56fef60c156d28c",
                "910a631a2c662fb19ec13030",
                "910a648a371b6c8a77b93035",
            ),
            (
                "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
                "06011203a0b800",
                "769577b5abe9fe62",
                "91084228273c00800000",
                "910876503f4800000000",
            ),
        ];
        for (issuer, issuer_data, arqc, approval, decline) in rows {
            let issuer = IssuerKey::new(key(Algorithm::Tdes, issuer)).unwrap();
            let data = ChipData::parse(&data_with(issuer_data, arqc)).unwrap().unwrap();
            assert_eq!(data.sequence_number, Some(0));
            let card = issuer.verify(PAN, 0, &data).expect(arqc);
            assert_eq!(to_hex(&card.issuer_authentication(*b"00", true)), approval);
            assert_eq!(to_hex(&card.issuer_authentication(*b"05", false)), decline);
            assert!(issuer.verify(PAN, 1, &data).is_none(), "of another card with the number");
            assert!(issuer.verify(b"1234567890123457", 0, &data).is_none(), "of another card");
            let mut other = data_with(issuer_data, arqc);
            other[8] ^= 1;
            let other = ChipData::parse(&other).unwrap().unwrap();
            assert!(issuer.verify(PAN, 0, &other).is_none(), "over another amount");
        }
    }

    #[test]
    fn what_lacks_an_element_is_named_and_other_kinds_are_not_believed() {
        let whole = data_with("06011203a0b800", "769577b5abe9fe62");
        assert!(ChipData::parse(&whole[..49]).is_err());
        assert!(ChipData::parse(&[]).unwrap().is_none(), "no cryptogram, nothing to check");
        let fault = ChipData::parse(
            &from_hex("9f26087695 77b5abe9fe62".replace(' ', "").as_str()).unwrap(),
        );
        assert_eq!(fault.unwrap_err(), ChipFault::Element(Tag(0x9f02)));
        let short = data_with("0601", "769577b5abe9fe62");
        assert_eq!(
            ChipData::parse(&short).unwrap_err().to_string(),
            "element 9F10 is missing or of another length"
        );
        let issuer = IssuerKey::new(key(Algorithm::Tdes, &"AA".repeat(16))).unwrap();
        let unknown = data_with("06011603a0b800", "769577b5abe9fe62");
        let unknown = ChipData::parse(&unknown).unwrap().unwrap();
        assert!(issuer.verify(PAN, 0, &unknown).is_none());
        assert!(IssuerKey::new(key(Algorithm::Aes, &"AA".repeat(16))).is_err());
    }
}
