//! HTTP as cheap as it gets: authorizations of the network door as HTTP/1.1 requests of fixed bytes,
//! in which card, amount and reference are patched; of an answer only its length, its status and
//! `response_code` are read. Other requests are sent whole, in turn.
//!
//! Answers on a connection come in the order of its requests, so they need no number.

use std::ops::Range;
use std::sync::Arc;

use cardswitch_feed::Card;
use memchr::memmem;

use crate::BoxError;
use crate::cards::{SplitMix64, patch_digits};
use crate::iso::{PurchaseSettings, REFERENCES};
use crate::wire::{AnswerCode, BadAnswer, Wire, WireAnswer};

/// Characters of a card's identifier.
const CARD_ID_LEN: usize = 36;
/// Characters of a reference. Source: `rrn` of `/network/v1`.
const REFERENCE_LEN: usize = 12;
/// Places of an amount: spaces in front, a point before the last two digits.
const AMOUNT_LEN: usize = 12;
/// The longest header of an answer that is waited for. Units: bytes.
const HEADER_BYTES_MAX: usize = 16 * 1_024;
/// The longest body of an answer that is waited for. Units: bytes.
const BODY_BYTES_MAX: usize = 64 * 1_024;

/// The HTTP side of a client.
#[derive(Debug)]
pub struct Http {
    request: Vec<u8>,
    card_at: usize,
    amount_at: usize,
    reference_at: usize,
    cards: Vec<[u8; CARD_ID_LEN]>,
    purchases: PurchaseSettings,
    draws: SplitMix64,
    reference: u64,
    reader: AnswerReader,
}

/// The parts of an answer that are read.
struct AnswerHead<'a> {
    status: &'a [u8],
    /// The place of the body.
    body: Range<usize>,
}

/// Search tables, made once.
#[derive(Debug)]
struct AnswerReader {
    header_end: memmem::Finder<'static>,
    length: memmem::Finder<'static>,
    code: memmem::Finder<'static>,
}

/// Whole requests, sent in turn; the code of an answer is its status.
#[derive(Debug)]
pub struct Requests {
    requests: Arc<[Vec<u8>]>,
    next: usize,
    /// The length of the last answer's body.
    pub body_bytes: usize,
    reader: AnswerReader,
}

impl Http {
    /// A client's side for these cards, of which there is at least one.
    /// Errors: a card's identifier is none; the amount is more than a request has places for.
    pub fn new(cards: &[Card], purchases: PurchaseSettings, key: &str) -> Result<Self, BoxError> {
        assert!(!cards.is_empty(), "requests need cards");
        if purchases.amount_max >= 1_000_000_000 {
            return Err("the greatest amount is too great for a request".into());
        }
        let cards = cards
            .iter()
            .map(|card| card.card_id.as_bytes().try_into())
            .collect::<Result<Vec<[u8; CARD_ID_LEN]>, _>>()
            .map_err(|_| "a card's identifier is no UUID")?;
        let mut body = String::new();
        let card_in_body = place(&mut body, r#"{"card_id":""#, CARD_ID_LEN);
        let amount_in_body = place(&mut body, r#"","amount":"#, AMOUNT_LEN);
        let reference_in_body = place(&mut body, r#","rrn":""#, REFERENCE_LEN);
        body += r#"","merchant":{"mcc":5812,"name":"Load generator","city":"San Francisco","state":"CA","country":"US"}}"#;
        let path = "/network/v1/authorizations";
        let request = render_request("POST", path, &format!("Bearer {key}"), &body);
        let body_at = request.len() - body.len();
        Ok(Self {
            request,
            card_at: body_at + card_in_body,
            amount_at: body_at + amount_in_body,
            reference_at: body_at + reference_in_body,
            cards,
            purchases,
            draws: SplitMix64::new(purchases.seed),
            reference: purchases.first_reference,
            reader: AnswerReader::new(),
        })
    }
}

impl Requests {
    /// These requests, of which there is at least one.
    pub fn new(requests: Arc<[Vec<u8>]>) -> Self {
        assert!(!requests.is_empty(), "there is something to send");
        Self { requests, next: 0, body_bytes: 0, reader: AnswerReader::new() }
    }
}

/// A whole request, with a body of JSON where it has one.
pub fn render_request(method: &str, path: &str, authorization: &str, body: &str) -> Vec<u8> {
    let kind = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
    format!(
        "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: {authorization}\r\n\
         {kind}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Appends what stands before a place, and the place. Returns where the place starts.
fn place(body: &mut String, before: &str, len: usize) -> usize {
    body.push_str(before);
    let at = body.len();
    body.extend(std::iter::repeat_n(' ', len));
    at
}

impl Wire for Http {
    const IN_ORDER: bool = true;

    fn set_time(&mut self, _unix_ns: u64) {}

    fn write(&mut self, out: &mut Vec<u8>, _slot: u32) {
        let card = &self.cards[self.draws.place(self.cards.len())];
        let PurchaseSettings { amount_min, amount_max, .. } = self.purchases;
        let amount = amount_min + self.draws.below(amount_max.saturating_sub(amount_min) + 1);
        let start = out.len();
        out.extend_from_slice(&self.request);
        let request = &mut out[start..];
        request[self.card_at..][..CARD_ID_LEN].copy_from_slice(card);
        patch_amount(&mut request[self.amount_at..][..AMOUNT_LEN], amount);
        patch_digits(&mut request[self.reference_at..][..REFERENCE_LEN], self.reference);
        self.reference = (self.reference + 1) % REFERENCES;
    }

    fn read(&mut self, bytes: &[u8]) -> Result<Option<WireAnswer>, BadAnswer> {
        let Some(AnswerHead { status, body }) = self.reader.read(bytes)? else { return Ok(None) };
        let code = match status {
            b"200" => self.reader.response_code(&bytes[body.clone()]).ok_or(BadAnswer)?,
            _ => AnswerCode::new(&[b"http ", status].concat()),
        };
        Ok(Some(WireAnswer { bytes: body.end, slot: None, code }))
    }
}

impl Wire for Requests {
    const IN_ORDER: bool = true;

    fn set_time(&mut self, _unix_ns: u64) {}

    fn write(&mut self, out: &mut Vec<u8>, _slot: u32) {
        out.extend_from_slice(&self.requests[self.next]);
        self.next = (self.next + 1) % self.requests.len();
    }

    fn read(&mut self, bytes: &[u8]) -> Result<Option<WireAnswer>, BadAnswer> {
        let Some(AnswerHead { status, body }) = self.reader.read(bytes)? else { return Ok(None) };
        self.body_bytes = body.len();
        Ok(Some(WireAnswer { bytes: body.end, slot: None, code: AnswerCode::new(status) }))
    }
}

/// Fills a place with an amount in hundredths as a JSON number, spaces in front.
fn patch_amount(place: &mut [u8], amount_minor: u64) {
    let (whole, hundredths) = place.split_at_mut(AMOUNT_LEN - 3);
    hundredths[0] = b'.';
    patch_digits(&mut hundredths[1..], amount_minor % 100);
    whole.fill(b' ');
    let mut rest = amount_minor / 100;
    for digit in whole.iter_mut().rev() {
        // INVARIANT: a remainder of ten is a digit.
        *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
        if rest == 0 {
            return;
        }
    }
}

impl AnswerReader {
    fn new() -> Self {
        Self {
            header_end: memmem::Finder::new(b"\r\n\r\n"),
            length: memmem::Finder::new(b"\ncontent-length: "),
            code: memmem::Finder::new(b"\"response_code\":"),
        }
    }

    /// Reads the answer at the start of a buffer; none where not all of it has come.
    fn read<'a>(&self, bytes: &'a [u8]) -> Result<Option<AnswerHead<'a>>, BadAnswer> {
        let Some(header_len) = self.header_end.find(bytes) else {
            return if bytes.len() > HEADER_BYTES_MAX { Err(BadAnswer) } else { Ok(None) };
        };
        let header = &bytes[..header_len + 2];
        let status = header.get(9..12).filter(|_| header.starts_with(b"HTTP/1.1 "));
        let status = status.ok_or(BadAnswer)?;
        let body_at = header_len + 4;
        let body = body_at..body_at + self.body_len(header).ok_or(BadAnswer)?;
        Ok((body.end <= bytes.len()).then_some(AnswerHead { status, body }))
    }

    /// The length of the body, where the header tells it.
    fn body_len(&self, header: &[u8]) -> Option<usize> {
        let lowercase = self.length.find(header).map(|at| at + self.length.needle().len());
        let digits = &header[lowercase.or_else(|| length_at(header))?..];
        let len = leading_number(digits)?;
        (len <= BODY_BYTES_MAX).then_some(len)
    }

    fn response_code(&self, body: &[u8]) -> Option<AnswerCode> {
        let digits = &body[self.code.find(body)? + self.code.needle().len()..];
        let len = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
        (len > 0).then(|| AnswerCode::new(&digits[..len]))
    }
}

/// The start of the length's digits, in any spelling of its name.
fn length_at(header: &[u8]) -> Option<usize> {
    const NAME: &[u8] = b"\ncontent-length:";
    let at = header.windows(NAME.len()).position(|window| window.eq_ignore_ascii_case(NAME))?;
    let spaces = header[at + NAME.len()..].iter().take_while(|byte| **byte == b' ').count();
    Some(at + NAME.len() + spaces)
}

fn leading_number(digits: &[u8]) -> Option<usize> {
    let len = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&digits[..len]).ok()?.parse().ok()
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
