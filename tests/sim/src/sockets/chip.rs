//! The chip of a card: DE55, its cryptogram, and the answer that its issuer owes it, beside the product's.
//!
//! Source: EMV 4.3 book 2, section 8 and annex A 1; book 3, annex B.

use super::keys::{enciphered_block, mix, retail_code};
use crate::rng::Rng;

/// The elements that a cryptogram is over, in its order: tag and length.
const SIGNED: [(&[u8], usize); 10] = [
    (&[0x9f, 0x02], 6),
    (&[0x9f, 0x03], 6),
    (&[0x9f, 0x1a], 2),
    (&[0x95], 5),
    (&[0x5f, 0x2a], 2),
    (&[0x9a], 3),
    (&[0x9c], 1),
    (&[0x9f, 0x37], 4),
    (&[0x82], 2),
    (&[0x9f, 0x36], 2),
];

/// The way in which a card makes its cryptograms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cvn {
    Ten,
    Eighteen,
    /// One that nobody here makes.
    Other,
}

/// The proof that DE55 gives where its door has an issuer key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ChipProof {
    /// It has no cryptogram.
    None,
    /// It cannot be read, or lacks what the cryptogram is over.
    Unreadable,
    /// Its cryptogram is not the card's.
    Wrong,
    /// Its cryptogram is the card's; the answer owes it one.
    Right(OwedAnswer),
}

/// The answer that a chip awaits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwedAnswer {
    cvn: Cvn,
    session: Vec<u8>,
    cryptogram: [u8; 8],
}

/// A DE55, with the proof that it gives.
pub(super) struct ChipData {
    pub(super) content: Vec<u8>,
    pub(super) proof: ChipProof,
}

impl ChipData {
    /// Draws the data of a card's chip; `sequence_number` is that of the card by DE23.
    pub(super) fn draw(rng: &mut Rng, issuer: &[u8], pan: &str, sequence_number: u8) -> Self {
        let mut elements: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for (tag, len) in SIGNED {
            elements.push((tag.to_vec(), bytes_of(rng, len)));
        }
        let cvn = rng.pick(&[Cvn::Ten, Cvn::Ten, Cvn::Eighteen, Cvn::Eighteen, Cvn::Other]);
        let issuer_data = issuer_data_of(rng, cvn);
        let mut signed: Vec<u8> = elements.iter().flat_map(|(_, value)| value.clone()).collect();
        let counter = [signed[signed.len() - 2], signed[signed.len() - 1]];
        signed.extend(if cvn == Cvn::Ten { &issuer_data[3..7] } else { &issuer_data });
        elements.push((vec![0x9f, 0x10], issuer_data));
        let own_number = rng.chance(50).then(|| rng.below(3) as u8);
        elements.extend(own_number.map(|number| (vec![0x5f, 0x34], vec![number])));
        let card = card_key(issuer, pan, own_number.unwrap_or(sequence_number));
        let session = session_key(cvn, &card, counter);
        let mut cryptogram = cryptogram_of(cvn, &session, signed);
        let is_right = cvn != Cvn::Other && rng.chance(90);
        if !is_right {
            cryptogram[0] ^= 1;
        }
        elements.insert(rng.below(4) as usize, (vec![0x9f, 0x26], cryptogram.to_vec()));
        let proof = match is_right {
            true => ChipProof::Right(OwedAnswer { cvn, session, cryptogram }),
            false => ChipProof::Wrong,
        };
        spoilt(rng, elements, proof)
    }
}

/// Now and then the cryptogram is left out, or another element, or the end.
fn spoilt(rng: &mut Rng, mut elements: Vec<(Vec<u8>, Vec<u8>)>, proof: ChipProof) -> ChipData {
    let is_cryptogram = |(tag, _): &(Vec<u8>, Vec<u8>)| tag[..] == [0x9f, 0x26];
    let kind = rng.below(100);
    match kind {
        0..8 => elements.retain(|element| !is_cryptogram(element)),
        8..11 => elements.retain(|(tag, _)| tag[..] != [0x9f, 0x37]),
        _ => {}
    }
    let mut content: Vec<u8> =
        elements.iter().flat_map(|(tag, value)| element(rng, tag, value)).collect();
    if (11..14).contains(&kind) {
        content.pop();
    }
    let proof = match kind {
        0..8 => ChipProof::None,
        8..14 => ChipProof::Unreadable,
        _ => proof,
    };
    ChipData { content, proof }
}

/// An element with its length, now and then in the long form, or behind filling.
fn element(rng: &mut Rng, tag: &[u8], value: &[u8]) -> Vec<u8> {
    let filling = if rng.chance(5) { vec![0; 1 + rng.below(2) as usize] } else { Vec::new() };
    let len = value.len() as u8;
    let len = if rng.chance(10) { vec![0x81, len] } else { vec![len] };
    [&filling, tag, &len, value].concat()
}

fn bytes_of(rng: &mut Rng, count: usize) -> Vec<u8> {
    (0..count).map(|_| rng.below(256) as u8).collect()
}

/// 9F10: length, key index, CVN, card verification results, and more.
fn issuer_data_of(rng: &mut Rng, cvn: Cvn) -> Vec<u8> {
    let number = match cvn {
        Cvn::Ten => 10,
        Cvn::Eighteen => 18,
        Cvn::Other => 22,
    };
    [vec![6, 1, number], bytes_of(rng, 4)].concat()
}

/// EMV book 2, A 1.4.1: option A.
fn card_key(issuer: &[u8], pan: &str, sequence_number: u8) -> Vec<u8> {
    let digits = format!("{pan}{sequence_number:02x}");
    let last = u64::from_str_radix(&digits[digits.len() - 16..], 16).unwrap();
    let halves = [last, !last].map(|half| enciphered_block(issuer, half.to_be_bytes()));
    halves.concat()
}

/// EMV book 2, A 1.3: from the counter; with CVN 10 the card's key itself.
fn session_key(cvn: Cvn, card: &[u8], [high, low]: [u8; 2]) -> Vec<u8> {
    if cvn == Cvn::Ten {
        return card.to_vec();
    }
    let half = |middle| enciphered_block(card, [high, low, middle, 0, 0, 0, 0, 0]);
    [half(0xf0), half(0x0f)].concat()
}

fn cryptogram_of(cvn: Cvn, session: &[u8], mut signed: Vec<u8>) -> [u8; 8] {
    if cvn != Cvn::Ten {
        signed.push(0x80);
    }
    retail_code(session, signed)
}

impl OwedAnswer {
    /// DE55 of an answer with this code: tag 91.
    pub(super) fn content(&self, code: [u8; 2]) -> Vec<u8> {
        let data = match self.cvn {
            // EMV book 2, 8.2.1: method 1.
            Cvn::Ten => {
                let mut block = self.cryptogram;
                mix(&mut block, &code);
                [&enciphered_block(&self.session, block)[..], &code].concat()
            }
            // EMV book 2, 8.2.2: method 2, with a status update that says whether the issuer approves.
            _ => {
                let is_approved = matches!(&code, b"00" | b"10");
                let update = [0, if is_approved { 0x80 } else { 0 }, 0, 0];
                let proven = [&self.cryptogram[..], &update, &[0x80]].concat();
                [&retail_code(&self.session, proven)[..4], &update].concat()
            }
        };
        [&[0x91, data.len() as u8][..], &data].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        cardswitch_secrets::hex::from_hex(hex).unwrap().to_vec()
    }

    /// Cryptograms and answers of PyPI `pyemv` 1.5.0.
    #[test]
    fn cryptograms_and_answers_are_those_of_another_program() {
        let signed = "000000009999 000000000000 0840 8000048000 0840 991231 01 52bf4585 1800 0fff";
        let rows = [
            (
                "0123456789abcdeffedcba9876543210",
                (Cvn::Ten, "03a0b800"),
                "c56fef60c156d28c",
                "910a631a2c662fb19ec13030",
            ),
            (
                "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                (Cvn::Eighteen, "06011203a0b800"),
                "769577b5abe9fe62",
                "91084228273c00800000",
            ),
        ];
        for (issuer, (cvn, issuer_data), cryptogram, approval) in rows {
            let card = card_key(&bytes(issuer), "1234567890123456", 0);
            let session = session_key(cvn, &card, [0x0f, 0xff]);
            let signed = bytes(&format!("{signed}{issuer_data}").replace(' ', ""));
            let made = cryptogram_of(cvn, &session, signed);
            assert_eq!(made.to_vec(), bytes(cryptogram), "{cvn:?}");
            let owed = OwedAnswer { cvn, session, cryptogram: made };
            assert_eq!(owed.content(*b"00"), bytes(approval), "{cvn:?}");
        }
    }
}
