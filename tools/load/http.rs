//! The HTTP network door as cheap as it gets: authorizations as HTTP/1.1 requests of fixed bytes,
//! in which card, amount and reference are patched; of an answer only its length, its status and
//! `response_code` are read.
//!
//! Answers on a connection come in the order of its requests, so they need no number.

use std::net::SocketAddr;

use cardswitch_feed::Card;
use memchr::memmem;

use cardswitch_load::Failure;
use cardswitch_load::cards::{Draws, patch_digits};
use cardswitch_load::iso::Purchases;
use cardswitch_load::wire::{Answer, BadAnswer, Code, Wire};

/// Characters of a card's identifier.
const CARD_ID_LEN: usize = 36;
/// Characters of a reference. Source: `rrn` of `/network/v1`.
const REFERENCE_LEN: usize = 12;
/// References are told apart by their last twelve digits.
const REFERENCES: u64 = 1_000_000_000_000;
/// Places of an amount: spaces in front, a point before the last two digits.
const AMOUNT_LEN: usize = 12;
/// The longest header of an answer that is waited for. Units: bytes.
const HEADER_BYTES_MAX: usize = 16 * 1_024;
/// The longest body of an answer that is waited for. Units: bytes.
const BODY_BYTES_MAX: usize = 64 * 1_024;

/// The HTTP side of a client.
#[derive(Debug)]
pub(crate) struct Http {
    request: Vec<u8>,
    card_at: usize,
    amount_at: usize,
    reference_at: usize,
    cards: Vec<[u8; CARD_ID_LEN]>,
    purchases: Purchases,
    draws: Draws,
    reference: u64,
    reader: Reader,
}

/// Search tables, made once.
#[derive(Debug)]
struct Reader {
    header_end: memmem::Finder<'static>,
    length: memmem::Finder<'static>,
    code: memmem::Finder<'static>,
}

impl Http {
    /// A client's side for these cards, of which there is at least one.
    /// Errors: a card's identifier is none; the amount is more than a request has places for.
    pub(crate) fn new(
        cards: &[Card],
        purchases: Purchases,
        address: SocketAddr,
        key: &str,
    ) -> Result<Self, Failure> {
        assert!(!cards.is_empty(), "requests need cards");
        if purchases.amount_max >= 1_000_000_000 {
            return Err("the greatest amount is too great for a request".into());
        }
        let cards = cards
            .iter()
            .map(|card| card.card_id.as_bytes().try_into())
            .collect::<Result<Vec<[u8; CARD_ID_LEN]>, _>>()
            .map_err(|_| "a card's identifier is no UUID")?;
        let mut body = Vec::new();
        let card_in_body = place(&mut body, br#"{"card_id":""#, CARD_ID_LEN);
        let amount_in_body = place(&mut body, br#"","amount":"#, AMOUNT_LEN);
        let reference_in_body = place(&mut body, br#","rrn":""#, REFERENCE_LEN);
        body.extend_from_slice(
            br#"","merchant":{"mcc":5812,"name":"Load generator","city":"San Francisco","state":"CA","country":"US"}}"#,
        );
        let mut request = format!(
            "POST /network/v1/authorizations HTTP/1.1\r\nhost: {address}\r\n\
             authorization: Bearer {key}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        let body_at = request.len();
        request.extend_from_slice(&body);
        Ok(Self {
            request,
            card_at: body_at + card_in_body,
            amount_at: body_at + amount_in_body,
            reference_at: body_at + reference_in_body,
            cards,
            purchases,
            draws: Draws::new(purchases.seed),
            reference: purchases.first_reference,
            reader: Reader::new(),
        })
    }
}

/// Appends what stands before a place, and the place. Returns where the place starts.
fn place(body: &mut Vec<u8>, before: &[u8], len: usize) -> usize {
    body.extend_from_slice(before);
    let at = body.len();
    body.resize(at + len, b' ');
    at
}

impl Wire for Http {
    const IN_ORDER: bool = true;

    fn set_time(&mut self, _unix_ns: u64) {}

    fn write(&mut self, out: &mut Vec<u8>, _slot: u32) {
        let card = &self.cards[self.draws.place(self.cards.len())];
        let Purchases { amount_min, amount_max, reference_step, .. } = self.purchases;
        let amount = amount_min + self.draws.below(amount_max.saturating_sub(amount_min) + 1);
        let start = out.len();
        out.extend_from_slice(&self.request);
        let request = &mut out[start..];
        request[self.card_at..][..CARD_ID_LEN].copy_from_slice(card);
        patch_amount(&mut request[self.amount_at..][..AMOUNT_LEN], amount);
        patch_digits(&mut request[self.reference_at..][..REFERENCE_LEN], self.reference);
        self.reference = (self.reference + reference_step) % REFERENCES;
    }

    fn read(&mut self, bytes: &[u8]) -> Result<Option<Answer>, BadAnswer> {
        self.reader.read(bytes)
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

impl Reader {
    fn new() -> Self {
        Self {
            header_end: memmem::Finder::new(b"\r\n\r\n"),
            length: memmem::Finder::new(b"\ncontent-length: "),
            code: memmem::Finder::new(b"\"response_code\":"),
        }
    }

    fn read(&self, bytes: &[u8]) -> Result<Option<Answer>, BadAnswer> {
        let Some(header_len) = self.header_end.find(bytes) else {
            return if bytes.len() > HEADER_BYTES_MAX { Err(BadAnswer) } else { Ok(None) };
        };
        let header = &bytes[..header_len + 2];
        let status = header.get(9..12).filter(|_| header.starts_with(b"HTTP/1.1 "));
        let status = status.ok_or(BadAnswer)?;
        let body_len = self.body_len(header).ok_or(BadAnswer)?;
        let body_at = header_len + 4;
        let Some(body) = bytes.get(body_at..body_at + body_len) else { return Ok(None) };
        let code = match status {
            b"200" => self.response_code(body).ok_or(BadAnswer)?,
            _ => Code::new(&[b"http ", status].concat()),
        };
        Ok(Some(Answer { bytes: body_at + body_len, slot: None, code }))
    }

    /// The length of the body, where the header tells it.
    fn body_len(&self, header: &[u8]) -> Option<usize> {
        let lowercase = self.length.find(header).map(|at| at + self.length.needle().len());
        let digits = &header[lowercase.or_else(|| length_at(header))?..];
        let len = leading_number(digits)?;
        (len <= BODY_BYTES_MAX).then_some(len)
    }

    fn response_code(&self, body: &[u8]) -> Option<Code> {
        let digits = &body[self.code.find(body)? + self.code.needle().len()..];
        let len = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
        (len > 0).then(|| Code::new(&digits[..len]))
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
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use cardswitch_feed::Portfolio;
    use cardswitch_load::client::{Client, Pace, Task};
    use cardswitch_load::clock::{SECOND_NS, now_ns};
    use cardswitch_load::schedule::Schedule;

    use super::*;
    use crate::arguments::Door;

    const CARD_ID: &str = "0199b6f4-71f1-7c5e-8d55-3a9f5c0a1b2c";
    const PURCHASES: Purchases = Purchases {
        amount_min: 5,
        amount_max: 123_456,
        currency: 840,
        first_reference: 999_999_999_999,
        reference_step: 2,
        seed: 3,
    };

    fn http() -> Http {
        let line = format!(
            r#"{{"card_id":"{CARD_ID}","pan":"9999990000000003","expiration":"2030-01-31"}}"#
        );
        let card = Portfolio::parse(&line).unwrap().card(0).cloned().unwrap();
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);
        Http::new(&[card], PURCHASES, address, "key").unwrap()
    }

    #[test]
    fn every_request_is_one_whole_json_body_of_the_announced_length() {
        let mut http = http();
        let mut reference = PURCHASES.first_reference;
        for slot in 0..500 {
            let mut request = Vec::new();
            http.write(&mut request, slot);
            let text = std::str::from_utf8(&request).unwrap();
            let (header, body) = text.split_once("\r\n\r\n").unwrap();
            assert!(header.ends_with(&format!("content-length: {}", body.len())), "{header}");
            let body: serde_json::Value = serde_json::from_str(body).unwrap();
            assert_eq!(body["card_id"], CARD_ID);
            assert_eq!(body["rrn"], format!("{reference:012}"));
            let amount = body["amount"].as_f64().unwrap();
            assert!((0.05..=1_234.56).contains(&amount), "{amount}");
            reference = (reference + 2) % REFERENCES;
        }
    }

    #[test]
    fn answers_come_in_order_however_many_are_in_flight() {
        let line = format!(
            r#"{{"card_id":"{CARD_ID}","pan":"9999990000000003","expiration":"2030-01-31"}}"#
        );
        let card = Portfolio::parse(&line).unwrap().card(0).cloned().unwrap();
        for in_flight_max in [1, 8] {
            let address = crate::echo::start(Door::Http).unwrap();
            let http = Http::new(std::slice::from_ref(&card), PURCHASES, address, "key").unwrap();
            let client = Client::connect(address, 2, http).unwrap();
            let (start_ns, duration_ns) = (now_ns(), SECOND_NS / 2);
            let task = Task {
                pace: Pace::Open(Schedule {
                    start_ns,
                    rate: 4_000,
                    duration_ns,
                    part: 0,
                    parts: 1,
                }),
                start_ns,
                measured_from_ns: start_ns + duration_ns / 4,
                end_ns: start_ns + duration_ns,
                gather_ns: 50_000,
                in_flight_max,
                patience_ns: SECOND_NS,
            };
            let counts = client.run(&task).unwrap().counts;
            assert_eq!((counts.messages, counts.answered), (2_000, 1_500));
            assert_eq!(counts.codes, [("0".to_owned(), 1_500)]);
        }
    }

    #[test]
    fn amounts_are_json_numbers() {
        for (amount, text) in [(0, "0.00"), (5, "0.05"), (100, "1.00"), (1_234_567, "12345.67")] {
            let mut place = [b'x'; AMOUNT_LEN];
            patch_amount(&mut place, amount);
            assert_eq!(std::str::from_utf8(&place).unwrap().trim_start(), text);
        }
    }

    #[test]
    fn answers_are_read_whole_and_one_at_a_time() {
        let reader = Reader::new();
        let approved = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 38\r\n\r\n{\"transaction_id\":1,\"response_code\":0}";
        let declined = b"HTTP/1.1 200 OK\r\nContent-Length:23\r\n\r\n{\"response_code\":1502} ";
        let busy = b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n";
        for (bytes, code) in [(&approved[..], "0"), (declined, "1502"), (busy, "http 503")] {
            for cut in 0..bytes.len() {
                assert_eq!(reader.read(&bytes[..cut]), Ok(None), "{cut} bytes have come");
            }
            let followed = [bytes, approved].concat();
            let answer = reader.read(&followed).unwrap().unwrap();
            assert_eq!((answer.bytes, answer.code.text()), (bytes.len(), code.to_owned()));
        }
    }

    #[test]
    fn bytes_that_are_no_answer_are_refused() {
        let reader = Reader::new();
        for bytes in [
            &b"SSH-2.0-x\r\n\r\n"[..],
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
        ] {
            assert_eq!(reader.read(bytes), Err(BadAnswer), "{}", String::from_utf8_lossy(bytes));
        }
        assert_eq!(reader.read(&[b'x'; HEADER_BYTES_MAX + 1]), Err(BadAnswer));
    }
}
