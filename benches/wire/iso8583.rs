//! A client of the ISO 8583 door: one purchase after the other, patched into a rendered pattern.

use std::ops::Range;
use std::sync::Arc;

use cardswitch_iso8583::{Frame, Framing, MessageBuilder, Mti, decode, next_frame, write_frame};

use super::connection::{Client, NUMBERS};
use crate::Must;
use crate::installation::card_number;
use crate::program::{Random, digits};

/// Values that stand in the pattern where each request has its own.
const PAN: &str = "4111110912345674";
const AMOUNT: &str = "000000918273";
const SENT_AT: &str = "1121564738";
const STAN: &str = "192837";
const RRN: &str = "918273645546";
const ACQUIRER: &str = "463728";
/// Bytes of an answer that tell its layout: type and first bitmap.
const HEAD_BYTES: usize = 12;

/// The client of one connection.
#[derive(Clone, Debug)]
pub struct Iso8583Client {
    cards: Arc<[[u8; 16]]>,
    random: Random,
    pattern: Vec<u8>,
    places: Places,
    layout: Option<Layout>,
}

/// The places of the values that differ in each request.
#[derive(Clone, Debug)]
struct Places {
    pan: Range<usize>,
    amount: Range<usize>,
    sent_at: Range<usize>,
    stan: Range<usize>,
    rrn: Range<usize>,
}

/// The places of the values read from an answer, learned from one that was decoded whole.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Layout {
    head: [u8; HEAD_BYTES],
    len: usize,
    stan: Range<usize>,
    /// None in an echo, which has no response code.
    code: Option<Range<usize>>,
}

impl Iso8583Client {
    /// The numbers of so many cards of a program.
    #[must_use]
    pub fn cards(count: u64) -> Arc<[[u8; 16]]> {
        let number = |card| card_number(card).digits().try_into();
        (0..count).map(|card| number(card).must("spell a card number")).collect()
    }

    /// A client that buys with these cards; each place has an acquirer of its own.
    #[must_use]
    pub fn new(cards: Arc<[[u8; 16]]>, place: u64) -> Self {
        let mut pattern = Vec::new();
        write_frame(&mut pattern, &Framing::default(), None, |out| purchase().encode(out))
            .must("encode a purchase");
        let acquirer = find(&pattern, ACQUIRER);
        pattern[acquirer].copy_from_slice(&digits::<6>(400_000 + place));
        let places = Places {
            pan: find(&pattern, PAN),
            amount: find(&pattern, AMOUNT),
            sent_at: find(&pattern, SENT_AT),
            stan: find(&pattern, STAN),
            rrn: find(&pattern, RRN),
        };
        Self { cards, random: Random::new(14 + place), pattern, places, layout: None }
    }

    /// Decodes an answer whole, checks it and learns where it says what.
    fn learn(&self, body: &[u8]) -> Layout {
        let answer = decode(body).must("decode an answer");
        let is_echo = answer.mti() == Mti::AUTHORIZATION_REQUEST;
        let place_of = |de| {
            let text: &[u8] = answer.get(de)?;
            let at = text.as_ptr().addr() - body.as_ptr().addr();
            Some(at..at + text.len())
        };
        let code = place_of(39);
        assert!(code.is_some() || is_echo, "an answer has a response code");
        Layout {
            head: *body.first_chunk().must("read the head of an answer"),
            len: body.len(),
            stan: place_of(11).must("find the trace number of an answer"),
            code,
        }
    }
}

impl Client for Iso8583Client {
    fn write_request(&mut self, number: u64, out: &mut Vec<u8>) {
        let card = self.random.below(self.cards.len() as u64);
        let card = &self.cards[usize::try_from(card).must("find a card")];
        let amount = 100 + self.random.below(20_000);
        let Self { pattern, places, .. } = self;
        pattern[places.pan.clone()].copy_from_slice(card);
        pattern[places.amount.clone()].copy_from_slice(&digits::<12>(amount));
        // A trace number that comes round is another one a second later.
        pattern[places.sent_at.clone()][4..]
            .copy_from_slice(&digits::<6>(120_000 + number / NUMBERS % 60));
        pattern[places.stan.clone()].copy_from_slice(&digits::<6>(number));
        pattern[places.rrn.clone()].copy_from_slice(&digits::<12>(number));
        out.extend_from_slice(pattern);
    }

    fn read_answer(&mut self, bytes: &[u8]) -> Option<(usize, u64)> {
        let Frame::Complete { body, consumed, .. } = next_frame(bytes, &Framing::default()) else {
            return None;
        };
        let body = &bytes[body];
        let fits = |layout: &&Layout| layout.len == body.len() && body.starts_with(&layout.head);
        if self.layout.as_ref().filter(fits).is_none() {
            self.layout = Some(self.learn(body));
        }
        let layout = self.layout.as_ref()?;
        let code = layout.code.clone().map(|code| &body[code]);
        assert!(code.is_none_or(|code| code == b"00"), "approved, not {code:?}");
        Some((consumed, number(&body[layout.stan.clone()])))
    }
}

fn purchase() -> MessageBuilder {
    MessageBuilder::new(Mti::AUTHORIZATION_REQUEST)
        .set_text(2, PAN)
        .set_text(3, "000000")
        .set_text(4, AMOUNT)
        .set_text(7, SENT_AT)
        .set_text(11, STAN)
        .set_text(14, "4001")
        .set_number(18, 5812)
        .set_text(32, ACQUIRER)
        .set_text(37, RRN)
        .set_text(41, "TERM0001")
        .set_text(42, "000000000445566")
        .set_text(43, "Blue Bottle Coffee     San FranciscoCAUS")
        .set_text(49, "840")
}

/// The only place of a text in a pattern.
pub(super) fn find(pattern: &[u8], text: &str) -> Range<usize> {
    let mut places = pattern.windows(text.len()).enumerate();
    let found = places.find(|(_, bytes)| *bytes == text.as_bytes()).map(|(at, _)| at);
    let at = found.must("find a value in the pattern");
    assert!(places.all(|(_, bytes)| bytes != text.as_bytes()), "`{text}` stands there once");
    at..at + text.len()
}

fn number(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit.wrapping_sub(b'0')))
}
