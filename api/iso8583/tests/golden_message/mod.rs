//! A golden file of messages, taken apart: `name: value` a line. The tests of the crate `dialects` read theirs
//! by this, too.

use std::path::{Path, PathBuf};

use cardswitch_iso8583::{Class, MessageBuilder, Mti, field};

/// The content of a golden file.
pub(crate) struct GoldenMessage {
    /// The name of its dialect.
    pub(crate) dialect: String,
    pub(crate) frame: Vec<u8>,
    pub(crate) mti: Mti,
    /// Number and value as listed, binary values as hex.
    pub(crate) elements: Vec<(u8, String)>,
}

impl GoldenMessage {
    pub(crate) fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let mut golden = Self {
            dialect: String::new(),
            frame: Vec::new(),
            mti: Mti::NETWORK_REQUEST,
            elements: Vec::new(),
        };
        for line in text.lines() {
            let (name, value) = line.split_once(": ").unwrap();
            match name {
                "dialect" => value.clone_into(&mut golden.dialect),
                "frame" => golden.frame = unhex(value),
                "mti" => golden.mti = Mti::parse(value.as_bytes()).unwrap(),
                de => golden.elements.push((de.parse().unwrap(), value.to_owned())),
            }
        }
        golden
    }

    /// The message of the elements, set from the last to the first, so that order on the wire is the encoder's doing.
    pub(crate) fn build(&self) -> MessageBuilder {
        let built = MessageBuilder::new(self.mti);
        self.elements.iter().rev().fold(built, |built, (de, value)| match is_binary(*de) {
            true => built.set(*de, &unhex(value)),
            false => built.set(*de, value.as_bytes()),
        })
    }
}

fn unhex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2));
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

pub(crate) fn is_binary(de: u8) -> bool {
    field(de).unwrap().class == Class::Binary
}

/// The golden files of a crate, at least as many as there were.
pub(crate) fn files(crate_folder: &str, least: usize) -> Vec<PathBuf> {
    let folder = Path::new(crate_folder).join("tests/golden");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= least, "golden files are missing: {} found", files.len());
    files
}
