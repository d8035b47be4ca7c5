//! Messages that another codec wrote: `api/dialects/tests/make_golden.py` makes the files with pyiso8583.
//!
//! Each must decode to exactly the listed elements, and those elements must encode to exactly the listed bytes.
//! Messages of other dialects are beside the crate `dialects`.

#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::path::PathBuf;

use cardswitch_iso8583::{Message, MessageBuilder, decode};

use golden_message::{GoldenMessage, is_binary};

mod golden_message;

fn listed(message: &Message<'_>) -> Vec<(u8, String)> {
    let as_listed = |(de, content): (u8, &[u8])| {
        let value = if is_binary(de) {
            content.iter().map(|byte| format!("{byte:02X}")).collect()
        } else {
            String::from_utf8(content.to_vec()).unwrap()
        };
        (de, value)
    };
    message.fields().map(as_listed).collect()
}

fn golden_files() -> Vec<PathBuf> {
    golden_message::files(env!("CARGO_MANIFEST_DIR"), 14)
}

#[test]
fn golden_messages_decode_to_their_listed_elements() {
    for path in golden_files() {
        let golden = GoldenMessage::read(&path);
        let message =
            decode(&golden.frame).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(golden.dialect, "default", "{}", path.display());
        assert_eq!(message.mti(), golden.mti, "{}", path.display());
        assert_eq!(listed(&message), golden.elements, "{}", path.display());
    }
}

#[test]
fn listed_elements_encode_to_the_golden_bytes() {
    for path in golden_files() {
        let golden = GoldenMessage::read(&path);
        let mut frame = Vec::new();
        golden
            .build()
            .encode(&mut frame)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(frame, golden.frame, "{}", path.display());
    }
}

#[test]
fn golden_messages_copied_from_their_decoding_are_the_same_bytes() {
    for path in golden_files() {
        let golden = GoldenMessage::read(&path);
        let message = decode(&golden.frame).unwrap();
        let mut frame = Vec::new();
        MessageBuilder::from_message(&message).encode(&mut frame).unwrap();
        assert_eq!(frame, golden.frame, "{}", path.display());
    }
}
