//! Messages of the shipped dialects that another codec wrote: `make_golden.py` makes the files with pyiso8583.
//!
//! Each must be read to exactly the listed elements of the default dialect, and these must be written to exactly the
//! listed bytes.

#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::path::{Path, PathBuf};

use cardswitch_iso8583::{Dialect, MessageBuilder, RepeatedFields, decode};

use golden_message::GoldenMessage;

#[path = "../../iso8583/tests/golden_message/mod.rs"]
mod golden_message;

/// A golden file, in terms of its dialect and of the default one.
struct GoldenFile {
    dialect: Dialect,
    frame: Vec<u8>,
    /// In the default dialect.
    plain: Vec<u8>,
}

impl GoldenFile {
    fn read(path: &Path) -> Self {
        let listed = GoldenMessage::read(path);
        let dialect = cardswitch_dialects::find(&listed.dialect).unwrap();
        let mut plain = Vec::new();
        listed.build().encode(&mut plain).unwrap();
        Self { dialect, frame: listed.frame, plain }
    }
}

fn golden_files() -> Vec<PathBuf> {
    golden_message::files(env!("CARGO_MANIFEST_DIR"), 48)
}

#[test]
fn golden_messages_are_read_and_written_as_another_codec_has_them() {
    for path in golden_files() {
        let GoldenFile { dialect, frame, plain } = GoldenFile::read(&path);
        let translation = dialect.translation.unwrap();
        let (mut read, mut repeated, mut written) = (Vec::new(), RepeatedFields::NONE, Vec::new());
        let fault = translation.read(&frame, &mut read, &mut repeated).err();
        assert_eq!(fault, None, "{}", path.display());
        let shown = |message: &[u8]| message.escape_ascii().to_string();
        assert_eq!(shown(&read), shown(&plain), "{}", path.display());
        decode(&read).unwrap();
        translation.write(&plain, &repeated, &mut written).unwrap();
        assert_eq!(shown(&written), shown(&frame), "{}", path.display());
    }
}

/// A message that answers no request is written as it is read. The default dialect lacks only the year, and the
/// function code of a reversal follows from its amounts.
#[test]
fn reversals_of_1993_are_written_without_a_request() {
    for (file, function) in [("1400_reversal_by_56", "400"), ("1421_partial_reversal", "401")] {
        let path =
            golden_files().into_iter().find(|path| path.ends_with(format!("{file}.1993.txt")));
        let GoldenFile { dialect, plain, .. } = GoldenFile::read(&path.unwrap());
        let translation = dialect.translation.unwrap();
        let message = decode(&plain).unwrap();
        let mut untold = MessageBuilder::new(message.mti());
        for de in message.present().elements().filter(|de| *de != 70) {
            untold = untold.set(de, message.get(de).unwrap());
        }
        let (mut told, mut written, mut read) = (Vec::new(), Vec::new(), Vec::new());
        untold.encode(&mut told).unwrap();
        translation.write(&told, &RepeatedFields::NONE, &mut written).unwrap();
        assert!(written.escape_ascii().to_string().contains(function), "{file}");
        translation.read(&written, &mut read, &mut RepeatedFields::default()).unwrap();
        assert_eq!(decode(&read).unwrap().get_text(70), Some(function));
        assert_eq!(read, plain, "{file}");
    }
}

/// Every part of a message has a fault, and nothing is read beyond its end.
#[test]
fn every_truncation_of_a_golden_message_is_told() {
    for path in golden_files() {
        let GoldenFile { dialect, frame, .. } = GoldenFile::read(&path);
        let translation = dialect.translation.unwrap();
        for end in 0..frame.len() {
            let mut plain = Vec::new();
            let read = translation.read(&frame[..end], &mut plain, &mut RepeatedFields::default());
            assert!(read.is_err(), "{} cut at {end}", path.display());
            assert!(plain.is_empty() || decode(&plain).is_ok(), "{} cut at {end}", path.display());
        }
    }
}
