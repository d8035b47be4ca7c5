//! Generations of the key of card numbers after the first, and the file that keeps them:
//! `pan_seal.keys` in the data directory. A directory whose key was never replaced has none.
//!
//! | line | content |
//! |---|---|
//! | 1 | `cardswitch card number keys` |
//! | 2 | `format 1` |
//! | 3 | `oldest N`: generations before it were forgotten |
//! | others | `generation N TIME KEY`: when it was made, and its 32 bytes wrapped, as hex digits |
//! | last | `sum TAG`: HMAC-SHA-256 of all lines before, first 128 bits, as hex digits |
//!
//! Wrapped is: sealed as in `seal` under a key derived from the data key, what stands before it in its
//! line as associated data. So the file shows nothing without the keys of its directory, and a file that was
//! cut, put together of two, or made in another directory is refused.
//!
//! It is written beside its place and moved there when it is durable: a crash leaves one of both.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::domain::pan_key::PanGeneration;
use cardswitch_wire::time::{parse_time, render_time};
use zeroize::Zeroizing;

use super::Secrets;
use super::seal::{SealError, fresh_nonce, open, seal};
use super::summed_text::{SummedText, SummedTextFlaw, render_summed};
use crate::hex::{from_hex, to_hex};
use crate::private_file;

/// The file's name.
const PAN_KEYS_FILE: &str = "pan_seal.keys";
const TITLE: &str = "cardswitch card number keys";
/// The longest file. Units: bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024;
/// How many generations are kept at a time, the first among them.
const PAN_GENERATIONS_MAX: usize = 128;

const _: () = assert!(PAN_GENERATIONS_MAX as u64 * 256 < FILE_BYTES_MAX);

/// A key, gone from memory with its last owner.
pub type PanKey = Zeroizing<[u8; 32]>;

/// The generations that are kept. That of number 0 has no key here: it follows from the data key.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PanKeys {
    oldest: PanGeneration,
    made: BTreeMap<PanGeneration, MadeKey>,
}

#[derive(Clone, PartialEq, Eq)]
struct MadeKey {
    at: Timestamp,
    key: PanKey,
}

/// Shows no key.
impl std::fmt::Debug for PanKeys {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.generations()).finish()
    }
}

/// Why the keys of card numbers are not there.
#[derive(Debug, thiserror::Error)]
pub enum PanKeysError {
    /// Cards are sealed under a generation that is not in the file.
    #[error(
        "`{0}` lacks generation {generation} of the key of card numbers, which is in use: take the file \
         from a backup of this directory", generation = .1.0
    )]
    Missing(PathBuf, PanGeneration),
    /// The file is not what was written.
    #[error(
        "the keys of card numbers, `{0}`, are damaged or belong to another directory ({1}): take \
         the file from a backup of this directory"
    )]
    Damaged(PathBuf, &'static str),
    /// Written by a later build.
    #[error("`{0}` was written by a later version")]
    NewerFormat(PathBuf),
    /// Two files have different keys of one generation.
    #[error("`{0}` has another key of generation {generation}: it belongs to another history", generation = .1.0)]
    Differing(PathBuf, PanGeneration),
    /// As many generations are kept as can be.
    #[error("{PAN_GENERATIONS_MAX} generations are kept already: forget the older ones first")]
    TooMany,
    /// No randomness, or the cipher refused.
    #[error(transparent)]
    Seal(SealError),
    /// The system refused.
    #[error("`{0}`: {1}")]
    Io(PathBuf, io::Error),
}

impl PanKeys {
    /// The path of the file in a data directory.
    pub fn path(data: &Path) -> PathBuf {
        data.join(PAN_KEYS_FILE)
    }

    /// The generation that seals.
    pub fn newest(&self) -> PanGeneration {
        self.made.last_key_value().map_or(PanGeneration::default(), |(generation, _)| *generation)
    }

    /// Every generation that opens something, the oldest first.
    pub fn generations(&self) -> impl Iterator<Item = PanGeneration> {
        let first = (self.oldest == PanGeneration::default()).then_some(self.oldest);
        first.into_iter().chain(self.made.keys().copied())
    }

    /// When a generation was made; none for the first, which is as old as the directory.
    pub fn made_at(&self, generation: PanGeneration) -> Option<Timestamp> {
        self.made.get(&generation).map(|made| made.at)
    }

    /// The key of a generation; none for the first.
    pub(super) fn key(&self, generation: PanGeneration) -> Option<&[u8; 32]> {
        self.made.get(&generation).map(|made| &*made.key)
    }

    /// The first of these generations that has no key here.
    pub fn lacking(
        &self,
        needed: impl IntoIterator<Item = PanGeneration>,
    ) -> Option<PanGeneration> {
        needed.into_iter().find(|needed| self.generations().all(|generation| generation != *needed))
    }

    /// Makes sure that these are the keys of a directory that needs these generations.
    /// Errors: one of them is missing.
    pub fn require(
        &self,
        needed: impl IntoIterator<Item = PanGeneration>,
        data: &Path,
    ) -> Result<(), PanKeysError> {
        match self.lacking(needed) {
            Some(missing) => Err(PanKeysError::Missing(Self::path(data), missing)),
            None => Ok(()),
        }
    }

    /// These and a next generation.
    /// Errors: there are as many as can be.
    pub fn with(&self, at: Timestamp, key: PanKey) -> Result<Self, PanKeysError> {
        if self.generations().count() >= PAN_GENERATIONS_MAX {
            return Err(PanKeysError::TooMany);
        }
        let mut keys = self.clone();
        let next = PanGeneration(self.newest().0.checked_add(1).ok_or(PanKeysError::TooMany)?);
        keys.made.insert(next, MadeKey { at, key });
        Ok(keys)
    }

    /// The newest generation alone.
    pub fn with_newest_alone(&self) -> Self {
        self.within(self.newest()..=self.newest())
    }

    /// Those of some generations alone.
    pub fn within(&self, kept: RangeInclusive<PanGeneration>) -> Self {
        let mut keys = self.clone();
        keys.oldest = keys.oldest.max(*kept.start());
        keys.made.retain(|generation, _| kept.contains(generation));
        keys
    }

    /// All generations of both.
    /// Errors: they have different keys of one.
    pub fn merged(&self, other: &Self, other_path: &Path) -> Result<Self, PanKeysError> {
        let mut keys = self.clone();
        keys.oldest = self.oldest.min(other.oldest);
        for (generation, made) in &other.made {
            let known = keys.made.entry(*generation).or_insert_with(|| made.clone());
            if known != made {
                return Err(PanKeysError::Differing(other_path.to_path_buf(), *generation));
            }
        }
        Ok(keys)
    }

    #[cfg(test)]
    pub(super) fn without_newest(&self) -> Self {
        let mut keys = self.clone();
        keys.made.pop_last();
        keys
    }
}

impl Secrets {
    /// A key for a next generation.
    /// Errors: no randomness.
    pub fn fresh_pan_key() -> Result<PanKey, PanKeysError> {
        let mut key = Zeroizing::new([0; 32]);
        getrandom::fill(key.as_mut_slice())
            .map_err(|_| PanKeysError::Seal(SealError::NoRandomness))?;
        Ok(key)
    }

    /// Reads the keys of a data directory; the first generation alone where there is no file.
    /// Errors: a file that is damaged, or of another directory.
    pub fn read_pan_keys(&self, data: &Path) -> Result<PanKeys, PanKeysError> {
        let path = PanKeys::path(data);
        let mut text = String::new();
        let read =
            File::open(&path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text));
        match read {
            Ok(_) => self.parse_pan_keys(&text, &path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(PanKeys::default()),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(PanKeysError::Damaged(path, "it is no text"))
            }
            Err(error) => Err(PanKeysError::Io(path, error)),
        }
    }

    /// Makes the keys of a data directory durable.
    /// Errors: they cannot be written; then the file has the keys before, or these.
    /// Cost: three syncs.
    pub fn write_pan_keys(&self, data: &Path, keys: &PanKeys) -> Result<(), PanKeysError> {
        let text = self.render_pan_keys(keys)?;
        let path = PanKeys::path(data);
        private_file::replace(&path, text.as_bytes()).map_err(|error| PanKeysError::Io(path, error))
    }

    /// The file of these keys, as another node of a cluster reads it, too.
    /// Errors: no randomness.
    pub fn render_pan_keys(&self, keys: &PanKeys) -> Result<String, PanKeysError> {
        let mut text = format!("oldest {}\n", keys.oldest.0);
        for (generation, made) in &keys.made {
            let head = format!("generation {} {}", generation.0, render_time(made.at));
            let nonce = fresh_nonce().map_err(PanKeysError::Seal)?;
            let key = seal(&self.pan_key_wrap, nonce, made.key.as_slice(), head.as_bytes());
            let key = key.map_err(PanKeysError::Seal)?;
            text.push_str(&format!("{head} {}\n", to_hex(&key)));
        }
        Ok(render_summed(TITLE, &text, &self.pan_keys_tag))
    }

    /// Parses a file of keys; `path` says where it comes from.
    /// Errors: as for `read_pan_keys`.
    pub fn parse_pan_keys(&self, text: &str, path: &Path) -> Result<PanKeys, PanKeysError> {
        let damaged = |what| PanKeysError::Damaged(path.to_path_buf(), what);
        let summed = SummedText::split(text, TITLE).map_err(|flaw| match flaw {
            SummedTextFlaw::Damaged(what) => damaged(what),
            SummedTextFlaw::NewerFormat => PanKeysError::NewerFormat(path.to_path_buf()),
        })?;
        if !summed.is_of(&self.pan_keys_tag) {
            return Err(damaged("its sum differs"));
        }
        let mut lines = summed.body();
        let oldest = lines.next().and_then(|line| line.strip_prefix("oldest "));
        let oldest = oldest.and_then(|number| number.parse().ok()).map(PanGeneration);
        let mut keys = PanKeys {
            oldest: oldest.ok_or_else(|| damaged("its oldest generation"))?,
            made: BTreeMap::new(),
        };
        for line in lines {
            let (generation, made) =
                self.parse_generation(line).ok_or_else(|| damaged("a generation"))?;
            keys.made.insert(generation, made);
        }
        Ok(keys)
    }

    fn parse_generation(&self, line: &str) -> Option<(PanGeneration, MadeKey)> {
        let (head, wrapped) = line.rsplit_once(' ')?;
        let (number, at) = head.strip_prefix("generation ")?.split_once(' ')?;
        let key = open(&self.pan_key_wrap, &from_hex(wrapped)?, head.as_bytes())?;
        let mut made = MadeKey { at: parse_time(at)?, key: Zeroizing::new([0; 32]) };
        if key.len() != made.key.len() {
            return None;
        }
        made.key.copy_from_slice(&key);
        Some((PanGeneration(number.parse().ok()?), made))
    }
}

#[cfg(test)]
#[path = "pan_keys_tests.rs"]
mod tests;
