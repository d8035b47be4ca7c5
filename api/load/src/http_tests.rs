use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use cardswitch_feed::Portfolio;

use super::*;
use crate::echo;
use crate::load::Load;

const CARD_ID: &str = "0199b6f4-71f1-7c5e-8d55-3a9f5c0a1b2c";
const PURCHASES: PurchaseSettings = PurchaseSettings {
    amount_min: 5,
    amount_max: 123_456,
    currency: 840,
    first_reference: 999_999_999_999,
    seed: 3,
};

fn http() -> Http {
    let line =
        format!(r#"{{"card_id":"{CARD_ID}","pan":"9999990000000003","expiration":"2030-01-31"}}"#);
    let card = Portfolio::parse(&line).unwrap().card(0).cloned().unwrap();
    Http::new(&[card], PURCHASES, "key").unwrap()
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
        reference = (reference + 1) % REFERENCES;
    }
}

/// Answers each request with 200, however they come.
fn answer_requests(mut stream: TcpStream) -> std::io::Result<()> {
    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 19\r\n\r\n{\"response_code\":0}";
    let end_of_request = memmem::Finder::new(b"\"}}");
    let (mut bytes, mut unread) = (vec![0; 4_096], Vec::new());
    loop {
        let came = stream.read(&mut bytes)?;
        if came == 0 {
            return Ok(());
        }
        unread.extend_from_slice(&bytes[..came]);
        while let Some(end) = end_of_request.find(&unread) {
            unread.drain(..end + end_of_request.needle().len());
            stream.write_all(ANSWER)?;
        }
    }
}

#[test]
fn answers_come_in_order_however_many_are_in_flight() {
    for in_flight_max in [1, 8] {
        let load = Load {
            rate: Some(4_000),
            connections: 2,
            in_flight_max,
            warmup: Duration::from_millis(125),
            measured: Duration::from_millis(375),
            ..Load::default()
        };
        let address = echo::start(answer_requests).unwrap();
        let counts = load.carry_out(&[address], http()).unwrap().counts;
        assert_eq!((counts.messages, counts.answered), (2_000, 1_500));
        assert_eq!(counts.codes, [("0".to_owned(), 1_500)]);
        let request = render_request("POST", "/", "Token x", r#"{"a":{"b":"c"}}"#);
        let requests = Requests::new(Arc::new([request]));
        let counts = load.carry_out(&[address], requests).unwrap().counts;
        assert_eq!(counts.codes, [("200".to_owned(), 1_500)]);
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
    let mut http = http();
    let approved = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 38\r\n\r\n{\"transaction_id\":1,\"response_code\":0}";
    let declined = b"HTTP/1.1 200 OK\r\nContent-Length:23\r\n\r\n{\"response_code\":1502} ";
    let busy = b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n";
    for (bytes, code) in [(&approved[..], "0"), (declined, "1502"), (busy, "http 503")] {
        for cut in 0..bytes.len() {
            assert_eq!(http.read(&bytes[..cut]), Ok(None), "{cut} bytes have come");
        }
        let followed = [bytes, approved].concat();
        let answer = http.read(&followed).unwrap().unwrap();
        assert_eq!((answer.bytes, answer.code.text()), (bytes.len(), code.to_owned()));
    }
}

#[test]
fn bytes_that_are_no_answer_are_refused() {
    let mut http = http();
    for bytes in [
        &b"SSH-2.0-x\r\n\r\n"[..],
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
    ] {
        assert_eq!(http.read(bytes), Err(BadAnswer), "{}", String::from_utf8_lossy(bytes));
    }
    assert_eq!(http.read(&[b'x'; HEADER_BYTES_MAX + 1]), Err(BadAnswer));
}
