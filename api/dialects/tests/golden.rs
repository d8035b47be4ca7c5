//! Messages of the shipped dialects that another codec wrote: `tools/golden/make_iso8583.py` makes the files with
//! pyiso8583.
//!
//! Each must be read to exactly the listed elements of the default dialect, and these must be written to exactly the
//! listed bytes.

#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::path::{Path, PathBuf};

use cardswitch_iso8583::{Class, Dialect, MessageBuilder, Mti, decode, field};

/// A golden file, taken apart.
struct Golden {
    dialect: Dialect,
    frame: Vec<u8>,
    /// In the default dialect.
    plain: Vec<u8>,
}

impl Golden {
    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let (mut dialect, mut frame) = (Dialect::default(), Vec::new());
        let mut built = MessageBuilder::new(Mti::NETWORK_REQUEST);
        for line in text.lines() {
            let (name, value) = line.split_once(": ").unwrap();
            built = match name {
                "dialect" => {
                    dialect = cardswitch_dialects::find(value).unwrap();
                    built
                }
                "frame" => {
                    frame = unhex(value);
                    built
                }
                "mti" => built.with_mti(Mti::parse(value.as_bytes()).unwrap()),
                element => {
                    let element = element.parse().unwrap();
                    match field(element).unwrap().class {
                        Class::Binary => built.set(element, &unhex(value)),
                        _ => built.set(element, value.as_bytes()),
                    }
                }
            };
        }
        let mut plain = Vec::new();
        built.encode(&mut plain).unwrap();
        Self { dialect, frame, plain }
    }
}

fn unhex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2));
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

fn golden_files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 47, "golden files are missing: {} found", files.len());
    files
}

#[test]
fn golden_messages_are_read_and_written_as_another_codec_has_them() {
    for path in golden_files() {
        let Golden { dialect, frame, plain } = Golden::read(&path);
        let translation = dialect.translation.unwrap();
        let (mut read, mut kept, mut written) = (Vec::new(), Vec::new(), Vec::new());
        let fault = translation.read(&frame, &mut read, &mut kept).err();
        assert_eq!(fault, None, "{}", path.display());
        let shown = |message: &[u8]| message.escape_ascii().to_string();
        assert_eq!(shown(&read), shown(&plain), "{}", path.display());
        decode(&read).unwrap();
        translation.write(&plain, &kept, &mut written).unwrap();
        assert_eq!(shown(&written), shown(&frame), "{}", path.display());
    }
}

/// What nobody has sent before is written as it is read: the year alone is not told in the default dialect, and the
/// function code of a reversal follows from its amounts.
#[test]
fn reversals_of_1993_are_written_without_a_request() {
    for (file, function) in [("1400_reversal_by_56", "400"), ("1421_partial_reversal", "401")] {
        let path =
            golden_files().into_iter().find(|path| path.ends_with(format!("{file}.1993.txt")));
        let Golden { dialect, plain, .. } = Golden::read(&path.unwrap());
        let translation = dialect.translation.unwrap();
        let message = decode(&plain).unwrap();
        let mut untold = MessageBuilder::new(message.mti());
        for de in message.present().elements().filter(|de| *de != 70) {
            untold = untold.set(de, message.get(de).unwrap());
        }
        let (mut told, mut written, mut read) = (Vec::new(), Vec::new(), Vec::new());
        untold.encode(&mut told).unwrap();
        translation.write(&told, &[], &mut written).unwrap();
        assert!(written.escape_ascii().to_string().contains(function), "{file}");
        translation.read(&written, &mut read, &mut Vec::new()).unwrap();
        assert_eq!(decode(&read).unwrap().get_text(70), Some(function));
        assert_eq!(read, plain, "{file}");
    }
}

/// Whatever part of a message comes, its fault is told and nothing is read that is not there.
#[test]
fn every_truncation_of_a_golden_message_is_told() {
    for path in golden_files() {
        let Golden { dialect, frame, .. } = Golden::read(&path);
        let translation = dialect.translation.unwrap();
        for end in 0..frame.len() {
            let mut plain = Vec::new();
            let read = translation.read(&frame[..end], &mut plain, &mut Vec::new());
            assert!(read.is_err(), "{} cut at {end}", path.display());
            assert!(plain.is_empty() || decode(&plain).is_ok(), "{} cut at {end}", path.display());
        }
    }
}
