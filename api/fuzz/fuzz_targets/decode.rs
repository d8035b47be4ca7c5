//! Any bytes, in any dialect: framed, decoded, described, answered, and written again to the same elements.
//!
//! The first byte picks the dialect; the rest is the stream. The bounded version of this is `tests/properties.rs`.

#![no_main]

use cardswitch_iso8583::{
    Answer, BitmapEncoding, Dialect, Echo, Frame, LengthPrefix, MessageBuilder, decode, describe,
    next_frame,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((choice, stream)) = input.split_first() else { return };
    let dialect = dialect(*choice);
    exercise(stream, &dialect);
    if let Frame::Complete { body, .. } = next_frame(stream, &dialect) {
        exercise(&stream[body], &dialect);
    }
});

fn dialect(choice: u8) -> Dialect {
    Dialect {
        bitmap: if choice & 1 == 0 { BitmapEncoding::Binary } else { BitmapEncoding::HexText },
        length_prefix: match choice >> 1 & 3 {
            0 => LengthPrefix::TwoBytes,
            1 => LengthPrefix::FourBytes,
            _ => LengthPrefix::FourDigits,
        },
        tpdu: choice & 8 != 0,
    }
}

fn exercise(frame: &[u8], dialect: &Dialect) {
    let message = match decode(frame) {
        Ok(message) => message,
        Err(error) => match error.readable {
            Some(readable) => *readable,
            None => return,
        },
    };
    assert!(!describe(&message).to_string().is_empty());
    let mut again = Vec::new();
    MessageBuilder::from_message(&message)
        .encode(&mut again)
        .expect("what was read can be written");
    let copy = decode(&again).expect("what was written can be read");
    for (de, content) in message.fields() {
        let copied = copy.get(de).expect("the copy has each element");
        assert!(copied.eq_ignore_ascii_case(content), "DE {de}");
    }
    if let Some(answer) = Answer::to(&Echo::of(&message)) {
        let mut out = Vec::new();
        answer.set(39, b"30").encode(&mut out).expect("an answer can be written");
        assert!(decode(&out).is_ok());
    }
}
