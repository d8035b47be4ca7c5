//! Peers that speak another ISO 8583 than the door: each gets a log line that says what it seems to be,
//! and `decode` says the same of a capture.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use cardswitch_harness::{Installation, Message, run_cardswitch_reading};

/// A sign-on with its length of two bytes, as this door reads it.
fn sign_on() -> Vec<u8> {
    let mut message = Message::new("0800");
    message.set(7, "1123120000");
    message.set(11, "000001");
    message.set(70, "001");
    message.encode()
}

fn ebcdic(digits: &[u8]) -> Vec<u8> {
    digits.iter().map(|digit| digit - b'0' + 0xF0).collect()
}

/// A message behind its length of two bytes.
fn two(message: &[u8]) -> Vec<u8> {
    [&message.len().to_be_bytes()[6..], message].concat()
}

/// Each spelling with what the log has to say of it.
fn spellings() -> Vec<(Vec<u8>, &'static str)> {
    let message = sign_on();
    let (mti, rest) = message.split_at(4);
    let (bitmaps, digits) = rest.split_at(16);
    let hex: String = bitmaps.iter().map(|byte| format!("{byte:02X}")).collect();
    let in_hex = [mti, hex.as_bytes(), digits].concat();
    let in_ebcdic = [&ebcdic(mti), bitmaps, &ebcdic(digits)].concat();
    // Two digits in a byte are read as hex digits.
    let packed = u8::from_str_radix(&message.len().to_string(), 16).expect("two digits");
    let of_1993 = [b"1804", rest].concat();
    vec![
        (
            [format!("{:04}", message.len()).as_bytes(), &message].concat(),
            "a length of 4 ASCII digits, ISO 8583:1987 in ASCII, type 0800, binary bitmap: start \
             with --dialect default --length ascii4",
        ),
        (two(&in_hex), "hex bitmap: start with --dialect ascii-hex"),
        (
            two(&in_ebcdic),
            "ISO 8583:1987 in EBCDIC, type 0800, binary bitmap: start with --dialect ebcdic",
        ),
        (
            two(&of_1993),
            "ISO 8583:1993 in ASCII, type 1804, binary bitmap: start with --dialect 1993",
        ),
        ([&[0, packed], &message[..]].concat(), "a length of 4 packed digits"),
        (
            [&[0, 0], &two(&message)[..]].concat(),
            "an empty frame before its first message; it seems",
        ),
        (message.clone(), "no length, ISO 8583:1987 in ASCII, type 0800"),
    ]
}

#[test]
fn a_peer_of_another_spelling_is_told_apart_in_the_log() {
    let installation = Installation::init(1, 71);
    let switch = installation.serve();
    let mut neighbour = switch.acquirer();
    for (bytes, said) in spellings() {
        let mut stream = TcpStream::connect(switch.iso8583).expect("the door is open");
        stream.write_all(&bytes).expect("the door reads");
        stream.shutdown(Shutdown::Write).expect("an end");
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer));
        // The guard of the runner ends a wait for what never comes.
        switch.wait_for_log(&[said]);
        neighbour.assert_alive();
    }
    switch.stop();
}

#[test]
fn decode_says_the_same_of_a_capture() {
    let message = sign_on();
    let framed = two(&message);
    let hex: String = framed.iter().map(|byte| format!("{byte:02x}\n")).collect();
    // Unbroken, it may seem to be a message of packed digits.
    let unbroken = hex.replace('\n', "");
    let captures = [
        framed.clone(),
        hex.into_bytes(),
        framed.repeat(2),
        unbroken.clone().into_bytes(),
        unbroken.to_uppercase().repeat(3).into_bytes(),
    ];
    for capture in captures {
        let output = run_cardswitch_reading(&["decode", "-"], &capture);
        assert_eq!(output.code, Some(0), "{output:#?}");
        assert!(output.stdout.starts_with("a length of 2 bytes, ISO 8583:1987"), "{output:#?}");
        assert!(output.stdout.contains("MTI  0800"), "{output:#?}");
    }
    for (bytes, _) in spellings() {
        let output = run_cardswitch_reading(&["decode", "-"], &bytes);
        let is_read = output.stdout.contains("MTI  0800");
        let is_refused = output.stderr.contains("no dialect of this switch reads that");
        assert!(is_read != is_refused, "{output:#?}");
        assert_eq!(output.code, Some(if is_read { 0 } else { 1 }), "{output:#?}");
    }
    let output = run_cardswitch_reading(&["decode", "-"], b"GET / HTTP/1.1\r\n\r\n");
    assert!(output.stderr.contains("no ISO 8583 message begins here"), "{output:#?}");
    let output = run_cardswitch_reading(&["decode", "-"], &framed[..framed.len() - 3]);
    assert!(output.stderr.contains("offset 0: 3 bytes are missing"), "{output:#?}");
}
