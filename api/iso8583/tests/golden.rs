//! Messages that another codec wrote: `tools/golden/make_iso8583.py` makes the files with pyiso8583.
//!
//! Each must decode to exactly the listed elements, and those elements must encode to exactly the listed bytes. Those of
//! other dialects are beside the crate `dialects`.

#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::path::{Path, PathBuf};

use cardswitch_iso8583::{Class, Message, MessageBuilder, Mti, decode, field};

/// A golden file, taken apart.
struct Golden {
    frame: Vec<u8>,
    mti: Mti,
    /// Number and value as listed, binary values as hex.
    elements: Vec<(u8, String)>,
}

impl Golden {
    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let mut golden =
            Self { frame: Vec::new(), mti: Mti::NETWORK_REQUEST, elements: Vec::new() };
        for line in text.lines() {
            let (name, value) = line.split_once(": ").unwrap();
            match name {
                "dialect" => assert_eq!(value, "default"),
                "frame" => golden.frame = unhex(value),
                "mti" => golden.mti = Mti::parse(value.as_bytes()).unwrap(),
                de => golden.elements.push((de.parse().unwrap(), value.to_owned())),
            }
        }
        golden
    }
}

fn unhex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2));
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

fn is_binary(de: u8) -> bool {
    field(de).unwrap().class == Class::Binary
}

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
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 14, "golden files are missing: {} found", files.len());
    files
}

#[test]
fn golden_messages_decode_to_their_listed_elements() {
    for path in golden_files() {
        let golden = Golden::read(&path);
        let message =
            decode(&golden.frame).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(message.mti(), golden.mti, "{}", path.display());
        assert_eq!(listed(&message), golden.elements, "{}", path.display());
    }
}

#[test]
fn listed_elements_encode_to_the_golden_bytes() {
    for path in golden_files() {
        let golden = Golden::read(&path);
        // Set from the last to the first, so that order on the wire is the encoder's doing.
        let built = golden.elements.iter().rev().fold(
            MessageBuilder::new(golden.mti),
            |built, (de, value)| {
                if is_binary(*de) {
                    built.set(*de, &unhex(value))
                } else {
                    built.set(*de, value.as_bytes())
                }
            },
        );
        let mut frame = Vec::new();
        built.encode(&mut frame).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(frame, golden.frame, "{}", path.display());
    }
}

#[test]
fn golden_messages_copied_from_their_decoding_are_the_same_bytes() {
    for path in golden_files() {
        let golden = Golden::read(&path);
        let message = decode(&golden.frame).unwrap();
        let mut frame = Vec::new();
        MessageBuilder::from_message(&message).encode(&mut frame).unwrap();
        assert_eq!(frame, golden.frame, "{}", path.display());
    }
}
