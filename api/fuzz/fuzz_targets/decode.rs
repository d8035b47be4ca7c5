//! Any bytes, in any shipped dialect: framed, translated, decoded, described, answered, and written again to the same
//! elements.
//!
//! The first byte picks dialect and framing; the rest is the stream. The bounded versions of this are
//! `tests/properties.rs` of `iso8583` and of `dialects`.

#![no_main]

use std::sync::LazyLock;

use cardswitch_dialects::{SHIPPED, find};
use cardswitch_iso8583::{
    AnswerMessage, Dialect, Echo, Frame, MessageBuilder, RepeatedFields, decode, describe,
    next_frame,
};
use libfuzzer_sys::fuzz_target;

const LENGTHS: [&str; 8] = [
    "binary2",
    "binary4",
    "ascii4",
    "ebcdic4",
    "bcd4",
    "binary2 inclusive",
    "delimiter 03",
    "delimiter 0D0A",
];

static DIALECTS: LazyLock<Vec<Dialect>> = LazyLock::new(|| {
    SHIPPED.iter().map(|(name, _)| find(name).expect("a shipped dialect is right")).collect()
});

fuzz_target!(|input: &[u8]| {
    let Some((choice, stream)) = input.split_first() else { return };
    let mut dialect = DIALECTS[usize::from(choice & 15) % DIALECTS.len()].clone();
    dialect.framing.length = LENGTHS[usize::from(choice >> 4 & 7)].parse().expect("a length");
    dialect.framing.tpdu = choice >> 7 == 1;
    translate(stream, &dialect);
    if let Frame::Complete { body, .. } = next_frame(stream, &dialect.framing) {
        translate(&stream[body], &dialect);
    }
});

fn translate(frame: &[u8], dialect: &Dialect) {
    let Some(translation) = &dialect.translation else { return exercise(frame) };
    let (mut plain, mut repeated, mut out) = (Vec::new(), RepeatedFields::NONE, Vec::new());
    if let Ok(read) = translation.read(frame, &mut plain, &mut repeated) {
        assert_eq!(read.message(&plain).is_ok(), decode(&plain).is_ok());
    }
    exercise(&plain);
    let before = out.len();
    if translation.write(&plain, &repeated, &mut out).is_err() {
        assert_eq!(out.len(), before, "an error leaves the output alone");
    }
}

fn exercise(frame: &[u8]) {
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
    if let Some(answer) = AnswerMessage::to(&Echo::of(&message)) {
        let mut out = Vec::new();
        answer.set(39, b"30").encode(&mut out).expect("an answer can be written");
        assert!(decode(&out).is_ok());
    }
}
