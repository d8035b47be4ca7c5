//! Keys that doors were given by exchange, and the file that keeps them: `zone_exchange.keys` in the data
//! directory. Where no key was ever exchanged there is none.
//!
//! | line | content |
//! |---|---|
//! | 1 | `cardswitch exchanged zone keys` |
//! | 2 | `format 1` |
//! | others | `key DOOR USE TIME BASE SECRET`: time of the exchange, check value of the key in the door's own file, and what is secret of the key, sealed, as hex digits |
//! | last | `sum TAG`: HMAC-SHA-256 of all lines before, first 128 bits, as hex digits |
//!
//! A secret is sealed as in `seal`, what stands before it in its line as associated data: the file shows nothing
//! without the keys of its directory, and one that was cut or put together of two is refused.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::Secrets;
use super::seal::{SealError, fresh_nonce, open, seal};
use super::summed_text::{Flaw, SummedText, render_summed};
use crate::hex::{from_hex, to_hex};
use crate::private_file;

const ZONE_KEYS_FILE: &str = "zone_exchange.keys";
const TITLE: &str = "cardswitch exchanged zone keys";

/// A key that a door was given.
#[derive(Clone, PartialEq, Eq)]
pub struct ExchangedKey {
    /// The time that its message had. Units: seconds since 1970.
    pub sent_at: i64,
    /// The check value of the key in the door's own file, in hex digits.
    pub base: String,
    /// The key, and whatever else is secret of it.
    pub secret: Zeroizing<Vec<u8>>,
}

impl std::fmt::Debug for ExchangedKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ExchangedKey")
            .field("sent_at", &self.sent_at)
            .finish_non_exhaustive()
    }
}

/// The newest exchanged key of each door and use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExchangedKeys(BTreeMap<(String, String), ExchangedKey>);

impl ExchangedKeys {
    /// That of a door for a use.
    #[must_use]
    pub fn get(&self, door: &str, usage: &str) -> Option<&ExchangedKey> {
        self.0.get(&(door.to_owned(), usage.to_owned()))
    }

    /// These with another key of a door for a use. Neither has a space in it.
    #[must_use]
    pub fn with(&self, door: &str, usage: &str, key: ExchangedKey) -> Self {
        let mut keys = self.clone();
        keys.0.insert((door.to_owned(), usage.to_owned()), key);
        keys
    }
}

/// Why exchanged keys cannot be read or kept.
#[derive(Debug, thiserror::Error)]
pub enum ExchangedKeysError {
    /// The file is not what was written.
    #[error(
        "the exchanged zone keys, `{0}`, are damaged or belong to another directory ({1}): remove the file and \
         exchange keys again"
    )]
    Damaged(PathBuf, &'static str),
    /// Written by a later build.
    #[error("`{0}` was written by a later version")]
    NewerFormat(PathBuf),
    /// No randomness, or the cipher refused.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// The system refused.
    #[error("`{0}`: {1}")]
    Io(PathBuf, io::Error),
}

impl Secrets {
    /// Reads the exchanged keys of a data directory; none where there is no file.
    /// Errors: a file that is damaged, or of another directory.
    pub fn read_zone_keys(&self, data: &Path) -> Result<ExchangedKeys, ExchangedKeysError> {
        let path = data.join(ZONE_KEYS_FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(ExchangedKeys::default());
            }
            Err(error) => return Err(ExchangedKeysError::Io(path, error)),
        };
        self.parse_zone_keys(&text).map_err(|flaw| match flaw {
            Flaw::Damaged(what) => ExchangedKeysError::Damaged(path, what),
            Flaw::NewerFormat => ExchangedKeysError::NewerFormat(path),
        })
    }

    /// Makes the exchanged keys of a data directory durable.
    /// Errors: they cannot be written; what was there before is as it was, or these are there.
    /// Cost: three syncs.
    pub fn write_zone_keys(
        &self,
        data: &Path,
        keys: &ExchangedKeys,
    ) -> Result<(), ExchangedKeysError> {
        let mut text = String::new();
        for ((door, usage), key) in &keys.0 {
            let head = format!("key {door} {usage} {} {}", key.sent_at, key.base);
            let sealed = seal(&self.zone_seal, fresh_nonce()?, &key.secret, head.as_bytes())?;
            text.push_str(&format!("{head} {}\n", to_hex(&sealed)));
        }
        let text = render_summed(TITLE, &text, &self.zone_keys_tag);
        let path = data.join(ZONE_KEYS_FILE);
        private_file::replace(&path, text.as_bytes())
            .map_err(|error| ExchangedKeysError::Io(path, error))
    }

    fn parse_zone_keys(&self, text: &str) -> Result<ExchangedKeys, Flaw> {
        let summed = SummedText::split(text, TITLE)?;
        if !summed.is_of(&self.zone_keys_tag) {
            return Err(Flaw::Damaged("its sum differs"));
        }
        let keys = summed.body().map(|line| self.parse_zone_key(line));
        let keys: Option<BTreeMap<_, _>> = keys.collect();
        keys.map(ExchangedKeys).ok_or(Flaw::Damaged("a key"))
    }

    fn parse_zone_key(&self, line: &str) -> Option<((String, String), ExchangedKey)> {
        let (head, sealed) = line.rsplit_once(' ')?;
        let mut words = head.strip_prefix("key ")?.split(' ');
        let name = (words.next()?.to_owned(), words.next()?.to_owned());
        let (sent_at, base) = (words.next()?.parse().ok()?, words.next()?.to_owned());
        let secret = open(&self.zone_seal, &from_hex(sealed)?, head.as_bytes())?;
        Some((name, ExchangedKey { sent_at, base, secret }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(sent_at: i64) -> ExchangedKey {
        let secret = Zeroizing::new(b"sixteen bytes ..".to_vec());
        ExchangedKey { sent_at, base: "08d7b4".to_owned(), secret }
    }

    #[test]
    fn what_is_written_is_read_and_shows_nothing() {
        let (home, secrets) = (tempfile::tempdir().unwrap(), Secrets::from_root([7; 32]));
        assert_eq!(secrets.read_zone_keys(home.path()).unwrap(), ExchangedKeys::default());
        let keys =
            ExchangedKeys::default().with("iso8583", "M3", key(1)).with("other", "P0", key(2));
        let keys = keys.with("iso8583", "M3", key(3));
        secrets.write_zone_keys(home.path(), &keys).unwrap();
        let read = secrets.read_zone_keys(home.path()).unwrap();
        assert_eq!(read, keys);
        assert_eq!(read.get("iso8583", "M3").unwrap().sent_at, 3);
        assert!(read.get("iso8583", "P0").is_none());
        let text = std::fs::read_to_string(home.path().join(ZONE_KEYS_FILE)).unwrap();
        assert!(
            !text.contains(&to_hex(b"sixteen bytes ..")) && !format!("{keys:?}").contains("six")
        );
    }

    #[test]
    fn a_file_that_was_changed_or_is_of_another_directory_is_refused() {
        let (home, secrets) = (tempfile::tempdir().unwrap(), Secrets::from_root([7; 32]));
        let keys = ExchangedKeys::default().with("iso8583", "M3", key(1));
        secrets.write_zone_keys(home.path(), &keys).unwrap();
        let path = home.path().join(ZONE_KEYS_FILE);
        let text = std::fs::read_to_string(&path).unwrap();
        let error = Secrets::from_root([8; 32]).read_zone_keys(home.path()).unwrap_err();
        assert!(error.to_string().contains("zone_exchange.keys"), "{error}");
        for changed in [
            text.replace(" 1 08d7b4", " 0 08d7b4"),
            text.replace("iso8583", "other"),
            text[..text.len() - 2].to_owned(),
            text.lines()
                .filter(|line| !line.starts_with("key"))
                .map(|l| format!("{l}\n"))
                .collect(),
            text.replace("format 1", "format 2"),
            String::new(),
        ] {
            std::fs::write(&path, &changed).unwrap();
            assert!(secrets.read_zone_keys(home.path()).is_err(), "{changed}");
        }
    }
}
