//! The codec of the switch against the harness' own: two readings of one field profile agree.

use cardswitch_harness::{Message, Purchase, TestCard, next_stan};
use cardswitch_iso8583::{MessageBuilder, decode, decode_pin_block};

const AUTHORIZATION_ID: &str = "ABC123";

#[test]
fn codec_reads_what_the_harness_writes_and_writes_the_same_bytes() {
    let purchase = full_purchase();
    let messages = [
        Message::network_management("301", next_stan()),
        purchase.request(),
        purchase.reversal(AUTHORIZATION_ID),
        purchase.partial_reversal(AUTHORIZATION_ID, 1),
        purchase.presentment(AUTHORIZATION_ID, 1_250),
    ];
    for message in messages {
        let bytes = message.encode();
        let read = decode(&bytes).expect("a good message");
        assert_eq!(read.mti().as_str(), message.mti);
        let elements: Vec<u8> = read.present().elements().collect();
        assert_eq!(elements, message.field_numbers().collect::<Vec<_>>());
        for de in elements.into_iter().filter(|&de| de != PIN_BLOCK) {
            assert_eq!(read.get_text(de), message.get(de), "DE{de}");
        }
        let mut written = Vec::new();
        MessageBuilder::from_message(&read).encode(&mut written).expect("it was read");
        assert_eq!(written, bytes, "{message:?}");
        assert_eq!(Message::decode(&written), message);
    }
}

#[test]
fn codec_opens_the_pin_block_that_the_harness_closes() {
    let purchase = full_purchase();
    let bytes = purchase.request().encode();
    let read = decode(&bytes).expect("a good message");
    let block = read.get_array(PIN_BLOCK).expect("the purchase has a PIN");
    let pin = decode_pin_block(block, purchase.pan.as_bytes()).expect("a block of format 0");
    assert_eq!(pin.digits(), b"1234");
}

/// Source: ISO DE52.
const PIN_BLOCK: u8 = 52;

fn full_purchase() -> Purchase {
    let card = TestCard {
        card_id: String::new(),
        allowance_id: String::new(),
        pan: "4539578049628313".to_owned(),
        expiration: "2028-02-29".to_owned(),
        cvv: "123".to_owned(),
        pin: "1234".to_owned(),
        zip: "94107".to_owned(),
        profile: "ordinary".to_owned(),
    };
    let mut purchase = Purchase::of(&card, 1_250);
    purchase.expiry_yymm = Some(card.expiry_yymm());
    purchase.cvv = Some(card.cvv);
    purchase.zip = Some(card.zip);
    purchase.pin = Some(card.pin);
    purchase
}
