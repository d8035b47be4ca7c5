//! Bytes of other protocols at the ISO 8583 door, with a real message behind them: as a page of any origin has a
//! browser send them. The connection is closed, and nothing is carried out. In a real browser: `tests/site`.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use cardswitch_harness::{Installation, Message, Purchase};

/// A length of zero, so often that whatever is skipped ends among them.
const EMPTY_FRAMES_BYTES: usize = 70_000;

/// A refund that the switch carries out where it is read.
fn refund(purchase: &Purchase) -> Message {
    let mut message = purchase.presentment("", 5_000);
    message.remove(38);
    message.set(3, "200000");
    message
}

fn framed(message: &Message) -> Vec<u8> {
    let bytes = message.encode();
    let length = u16::try_from(bytes.len()).expect("a short message").to_be_bytes();
    [&length[..], &bytes].concat()
}

#[test]
fn other_protocols_at_the_iso_8583_door_carry_nothing_out() {
    let installation = Installation::init(60, 925);
    let switch = installation.serve();
    let card = installation.cards.ordinary();
    let account = format!("/v1/accounts/{}", installation.credentials.account_id);
    let balance = || switch.api().get(&account).expect(200)["ledger_balance"].clone();
    let before = balance();
    let mut neighbour = switch.acquirer();
    neighbour.assert_alive();
    let starts: [&[u8]; 5] = [
        b"POST / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
        b"PUT / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\xff\xff",
        b"\x10\x01",
    ];
    for start in starts {
        for shift in 0..2 {
            let message = framed(&refund(&Purchase::of(card, 5_000)));
            let bytes = [start, &vec![0; EMPTY_FRAMES_BYTES + shift], &message].concat();
            let mut stream = TcpStream::connect(switch.iso8583).expect("the door is open");
            // The switch may have hung up before all is written.
            drop(stream.write_all(&bytes));
            drop(stream.shutdown(Shutdown::Write));
            let mut told = Vec::new();
            drop(stream.read_to_end(&mut told));
            assert_eq!(told, b"", "{start:?}");
        }
    }
    neighbour.assert_alive();
    assert_eq!(balance(), before, "money moved");
    let log = switch.log();
    for why in ["an HTTP request", "a TLS hello", "a length above that of any frame"] {
        assert!(log.contains(why), "`{why}` is not in the log:\n{log}");
    }
    // The same message alone moves money: the refusals above are not due to its content.
    let answer = neighbour.ask(&refund(&Purchase::of(card, 5_000)));
    assert_eq!(answer.response(), "00", "{answer:?}");
    assert_ne!(balance(), before);
    switch.stop();
    installation.verify_ok();
}
