use cardswitch_feed::Portfolio;
use cardswitch_iso8583::{AnswerMessage, Echo, Message};

use super::*;

const CARDS: &str = r#"{"card_id":"c","pan":"9999990000000003","expiration":"2030-01-31","cvv":"123"}
{"card_id":"d","pan":"999999000000000011","expiration":"2031-12-31"}"#;

const PURCHASES: PurchaseSettings = PurchaseSettings {
    amount_min: 100,
    amount_max: 199,
    currency: 840,
    first_reference: 999_999_999_998,
    seed: 5,
};

fn iso() -> Iso {
    let portfolio = Portfolio::parse(CARDS).unwrap();
    let cards: Vec<Card> = (0..2).filter_map(|slot| portfolio.card(slot)).cloned().collect();
    Iso::new(&cards, PURCHASES).unwrap()
}

fn body(frame: &[u8]) -> &[u8] {
    let Frame::Complete { body, consumed, .. } = next_frame(frame, &Framing::default()) else {
        panic!("a whole frame");
    };
    assert_eq!(consumed, frame.len());
    &frame[body]
}

fn decoded(frame: &[u8]) -> Message<'_> {
    decode(body(frame)).unwrap()
}

#[test]
fn what_is_patched_in_is_what_the_codec_reads() {
    let mut iso = iso();
    iso.set_time(1_767_600_000 * SECOND_NS + 1);
    let mut cards_seen = [0, 0];
    let mut reference = PURCHASES.first_reference;
    for slot in (0..2_000).map(|n| n * 257) {
        let mut frame = Vec::new();
        iso.write(&mut frame, slot);
        let message = decoded(&frame);
        assert_eq!(message.mti(), Mti::AUTHORIZATION_REQUEST);
        assert_eq!(message.get_number(11), Some(slot.into()));
        assert_eq!(message.get_number(37), Some(reference));
        reference = (reference + 1) % REFERENCES;
        assert!((100..=199).contains(&message.get_number(4).unwrap()));
        assert_eq!(message.get_text(7), Some("0105080000"));
        assert_eq!(message.get_text(12), Some("080000"));
        assert_eq!(message.get_text(13), Some("0105"));
        let cvv = message
            .get(48)
            .map(|content| cardswitch_iso8583::PrivateUse::parse(content).unwrap().cvv().unwrap());
        let card = (message.get_text(2).unwrap(), message.get_text(14).unwrap(), cvv);
        let known =
            [("9999990000000003", "3001", Some("123")), ("999999000000000011", "3112", None)];
        let at = known.iter().position(|known| *known == card);
        cards_seen[at.expect("a card of the file, with its own credentials")] += 1;
    }
    assert!(cards_seen.iter().all(|count| *count > 500), "seed 5: {cards_seen:?}");
}

#[test]
fn answers_are_found_by_slot_whatever_elements_they_have() {
    let mut iso = iso();
    let framing = Framing::default();
    for (slot, code, detail) in
        [(7, "00", None), (8, "61", Some("1502 daily limit")), (9, "00", None)]
    {
        let mut request = Vec::new();
        iso.write(&mut request, slot);
        let message = decoded(&request);
        let echo = Echo::of(&message);
        let answer = AnswerMessage::to(&echo).unwrap().set(39, code.as_bytes());
        let answer = answer.set_optional(44, detail.map(str::as_bytes));
        let mut frame = Vec::new();
        write_frame(&mut frame, &framing, None, |out| answer.encode(out)).unwrap();
        for cut in 0..frame.len() {
            assert_eq!(iso.read(&frame[..cut]), Ok(None), "{cut} bytes have come");
        }
        let read = iso.read(&frame).unwrap().unwrap();
        assert_eq!((read.bytes, read.slot), (frame.len(), Some(slot)));
        assert_eq!(read.code.text(), code);
    }
}

#[test]
fn an_echo_is_told_from_an_answer() {
    let mut iso = iso();
    let mut request = Vec::new();
    iso.write(&mut request, 42);
    let read = iso.read(&request).unwrap().unwrap();
    assert_eq!((read.slot, read.code), (Some(42), AnswerCode::ECHO));
}

#[test]
fn bytes_that_are_no_answer_are_refused() {
    let mut iso = iso();
    for bytes in [
        &b"\x00\x00"[..],
        b"\x00\x040110",
        b"\x00\x0c0110\x00\x20\x00\x00\x00\x00\x00\x00",
        b"\x00\x120110\x00\x20\x00\x00\x00\x00\x00\x0012345x",
    ] {
        assert_eq!(iso.read(bytes), Err(BadAnswer), "{bytes:?}");
    }
}
