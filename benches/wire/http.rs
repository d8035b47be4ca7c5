//! A client over HTTP/1.1: whole requests from patterns, answers by their length, in order.

use std::ops::Range;
use std::sync::Arc;

use super::connection::{Client, NUMBERS};
use super::iso8583::find;
use crate::Must;
use crate::program::{Random, digits};

/// Values that stand in the pattern where each request has its own.
const PAN: &str = "4111110912345674";
const AMOUNT: &str = "918.27";
const STAN: &str = "192837";
const RRN: &str = "918273645546";
const HEAD_END: &[u8] = b"\r\n\r\n";
const LENGTH_NAME: &[u8] = b"content-length: ";

/// The client of one connection.
#[derive(Clone, Debug)]
pub struct HttpClient {
    requests: Requests,
    answered: u64,
    body_bytes: usize,
    expected: &'static [u8],
}

#[derive(Clone, Debug)]
enum Requests {
    /// These, in turn.
    Fixed(Arc<[Vec<u8>]>),
    Purchases(Box<Purchases>),
}

/// Authorizations of the HTTP network door.
#[derive(Clone, Debug)]
struct Purchases {
    cards: Arc<[[u8; 16]]>,
    random: Random,
    place: u64,
    pattern: Vec<u8>,
    pan: Range<usize>,
    amount: Range<usize>,
    stan: Range<usize>,
    rrn: Range<usize>,
}

impl HttpClient {
    /// A client that sends these requests in turn, each of which must be answered by 200 or 201.
    #[must_use]
    pub fn of_requests(requests: Arc<[Vec<u8>]>) -> Self {
        Self { requests: Requests::Fixed(requests), answered: 0, body_bytes: 0, expected: b"" }
    }

    /// A client that buys with these cards, and must be approved where `expected` says so; each
    /// place has an acquirer of its own.
    #[must_use]
    pub fn of_purchases(
        cards: Arc<[[u8; 16]]>,
        place: u64,
        network_key: &str,
        expected: &'static [u8],
    ) -> Self {
        let body = format!(
            r#"{{"card_number":"{PAN}","amount":{AMOUNT},"expiration":"2040-01","merchant":{{"mid":445566,"mcc":5812,"name":"Blue Bottle Coffee","city":"San Francisco","state":"CA","country":"US","zip":"94103"}},"stan":"{STAN}","rrn":"{RRN}","acquirer":"{:06}"}}"#,
            400_000 + place
        );
        let authorization = format!("Bearer {network_key}");
        let path = "/network/v1/authorizations";
        let pattern = render_request("POST", path, &authorization, &body);
        let purchases = Purchases {
            cards,
            random: Random::new(15 + place),
            place,
            pan: find(&pattern, PAN),
            amount: find(&pattern, AMOUNT),
            stan: find(&pattern, STAN),
            rrn: find(&pattern, RRN),
            pattern,
        };
        let requests = Requests::Purchases(Box::new(purchases));
        Self { requests, answered: 0, body_bytes: 0, expected }
    }
}

impl HttpClient {
    /// How long the body of the last answer was.
    #[must_use]
    pub const fn body_bytes(&self) -> usize {
        self.body_bytes
    }
}

/// A whole request.
#[must_use]
pub fn render_request(method: &str, path: &str, authorization: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let kind = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
    format!(
        "{method} {path} HTTP/1.1\r\nhost: bench\r\nauthorization: {authorization}\r\n\
         {kind}content-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

impl Client for HttpClient {
    fn write_request(&mut self, number: u64, out: &mut Vec<u8>) {
        match &mut self.requests {
            Requests::Fixed(requests) => {
                let turn = usize::try_from(number).must("count requests") % requests.len();
                out.extend_from_slice(&requests[turn]);
            }
            Requests::Purchases(purchases) => purchases.write(number, out),
        }
    }

    fn read_answer(&mut self, bytes: &[u8]) -> Option<(usize, u64)> {
        let head_end = bytes.windows(HEAD_END.len()).position(|part| part == HEAD_END)?;
        let head = &bytes[..head_end];
        let body_bytes = content_length(head);
        let whole = head_end + HEAD_END.len() + body_bytes;
        let answer = bytes.get(..whole)?;
        self.body_bytes = body_bytes;
        let is_expected = head.starts_with(b"HTTP/1.1 20")
            && (self.expected.is_empty()
                || answer.windows(self.expected.len()).any(|part| part == self.expected));
        assert!(is_expected, "not the answer it should be: {}", String::from_utf8_lossy(answer));
        let number = self.answered % NUMBERS;
        self.answered += 1;
        Some((whole, number))
    }
}

impl Purchases {
    fn write(&mut self, number: u64, out: &mut Vec<u8>) {
        let card = self.random.below(self.cards.len() as u64);
        let card = &self.cards[usize::try_from(card).must("find a card")];
        let cents = digits::<5>(10_000 + self.random.below(20_000));
        self.pattern[self.pan.clone()].copy_from_slice(card);
        self.pattern[self.amount.clone()][..3].copy_from_slice(&cents[..3]);
        self.pattern[self.amount.clone()][4..].copy_from_slice(&cents[3..]);
        self.pattern[self.stan.clone()].copy_from_slice(&digits::<6>(number));
        let reference = self.place * 1_000_000_000 + number;
        self.pattern[self.rrn.clone()].copy_from_slice(&digits::<12>(reference));
        out.extend_from_slice(&self.pattern);
    }
}

/// The length of a body by its head, in any case of letters.
fn content_length(head: &[u8]) -> usize {
    let is_name = |part: &[u8]| part.eq_ignore_ascii_case(LENGTH_NAME);
    let at = head.windows(LENGTH_NAME.len()).position(is_name);
    let digits = &head[at.must("find the length of an answer") + LENGTH_NAME.len()..];
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0'))
}
