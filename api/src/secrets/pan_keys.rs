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
//! Wrapped is: sealed as in `seal` under a key derived from the master, what stands before it in its
//! line as associated data. So the file shows nothing without the master key, and a file that was
//! cut, put together of two, or made under another master key is refused.
//!
//! It is written beside its place and moved there when it is durable: a crash leaves one of both.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::domain::pan_key::PanGeneration;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::Secrets;
use super::seal::{SealError, fresh_nonce, open, seal};
use crate::master_key::create_private;
use crate::wire::time::{parse_time, render_time};

/// The file's name.
const PAN_KEYS_FILE: &str = "pan_seal.keys";
/// It while it is written.
const UNFINISHED: &str = "pan_seal.keys.new";
const FIRST_LINE: &str = "cardswitch card number keys";
const FORMAT: u32 = 1;
/// The longest file. Units: bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024;
/// How many generations are kept at a time, the first among them.
const PAN_GENERATIONS_MAX: usize = 128;

const _: () = assert!(PAN_GENERATIONS_MAX as u64 * 256 < FILE_BYTES_MAX);

/// A key, gone from memory with its last owner.
pub type PanKey = Zeroizing<[u8; 32]>;

/// The generations that are kept. That of number 0 has no key here: it follows from the master.
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
#[derive(Debug)]
pub enum PanKeysError {
    /// Cards are sealed under a generation that is not in the file.
    Missing(PathBuf, PanGeneration),
    /// The file is not what was written.
    Damaged(PathBuf, &'static str),
    /// Written by a later build.
    NewerFormat(PathBuf),
    /// Two files have different keys of one generation.
    Differing(PathBuf, PanGeneration),
    /// As many generations are kept as can be.
    TooMany,
    /// No randomness, or the cipher refused.
    Seal(SealError),
    /// The system refused.
    Io(PathBuf, io::Error),
}

impl std::fmt::Display for PanKeysError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing(path, PanGeneration(generation)) => write!(
                formatter,
                "`{}` lacks generation {generation} of the key of card numbers, which is in use: \
                 take the file from a backup of this directory",
                path.display()
            ),
            Self::Damaged(path, what) => write!(
                formatter,
                "the keys of card numbers, `{}`, are damaged or belong to another master key \
                 ({what}): take the file from a backup of this directory",
                path.display()
            ),
            Self::NewerFormat(path) => {
                write!(formatter, "`{}` was written by a later version", path.display())
            }
            Self::Differing(path, PanGeneration(generation)) => write!(
                formatter,
                "`{}` has another key of generation {generation}: it belongs to another history",
                path.display()
            ),
            Self::TooMany => write!(
                formatter,
                "{PAN_GENERATIONS_MAX} generations are kept already: forget the older ones first"
            ),
            Self::Seal(error) => error.fmt(formatter),
            Self::Io(path, error) => write!(formatter, "`{}`: {error}", path.display()),
        }
    }
}

impl std::error::Error for PanKeysError {}

impl PanKeys {
    /// Where the file of a data directory is.
    #[must_use]
    pub fn path(data: &Path) -> PathBuf {
        data.join(PAN_KEYS_FILE)
    }

    /// The generation that seals.
    #[must_use]
    pub fn newest(&self) -> PanGeneration {
        self.made.last_key_value().map_or(PanGeneration::default(), |(generation, _)| *generation)
    }

    /// Every generation that opens something, the oldest first.
    pub fn generations(&self) -> impl Iterator<Item = PanGeneration> {
        let first = (self.oldest == PanGeneration::default()).then_some(self.oldest);
        first.into_iter().chain(self.made.keys().copied())
    }

    /// When a generation was made; none for the first, which is as old as the directory.
    #[must_use]
    pub fn made_at(&self, generation: PanGeneration) -> Option<Timestamp> {
        self.made.get(&generation).map(|made| made.at)
    }

    /// The key of a generation; none for the first.
    pub(super) fn key(&self, generation: PanGeneration) -> Option<&[u8; 32]> {
        self.made.get(&generation).map(|made| &*made.key)
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
    #[must_use]
    pub fn with_newest_alone(&self) -> Self {
        let newest = self.newest();
        let mut keys = self.clone();
        keys.oldest = newest;
        keys.made.retain(|generation, _| *generation == newest);
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
    /// Errors: a file that is damaged, or of another master key.
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
    /// Errors: they cannot be written; what was there before is as it was, or these are there.
    /// Cost: two syncs.
    pub fn write_pan_keys(&self, data: &Path, keys: &PanKeys) -> Result<(), PanKeysError> {
        let text = self.render_pan_keys(keys).map_err(PanKeysError::Seal)?;
        let path = PanKeys::path(data);
        replace_file(&data.join(UNFINISHED), &path, text.as_bytes())
            .and_then(|()| File::open(data)?.sync_all())
            .map_err(|error| PanKeysError::Io(path, error))
    }

    fn render_pan_keys(&self, keys: &PanKeys) -> Result<String, SealError> {
        let mut text = format!("{FIRST_LINE}\nformat {FORMAT}\noldest {}\n", keys.oldest.0);
        for (generation, made) in &keys.made {
            let head = format!("generation {} {}", generation.0, render_time(made.at));
            let key =
                seal(&self.pan_key_wrap, fresh_nonce()?, made.key.as_slice(), head.as_bytes())?;
            text.push_str(&format!("{head} {}\n", to_hex(&key)));
        }
        let tag = self.pan_keys_tag.half_tag(&[text.as_bytes()]);
        text.push_str(&format!("sum {}\n", to_hex(&tag)));
        Ok(text)
    }

    fn parse_pan_keys(&self, text: &str, path: &Path) -> Result<PanKeys, PanKeysError> {
        let damaged = |what| PanKeysError::Damaged(path.to_path_buf(), what);
        let rest = text.strip_prefix(FIRST_LINE).and_then(|rest| rest.strip_prefix("\nformat "));
        let (format, _) =
            rest.and_then(|rest| rest.split_once('\n')).ok_or_else(|| damaged("its head"))?;
        match format.parse::<u32>() {
            Ok(FORMAT) => {}
            Ok(newer) if newer > FORMAT => {
                return Err(PanKeysError::NewerFormat(path.to_path_buf()));
            }
            _ => return Err(damaged("its format")),
        }
        let (lines, sum) = text.rsplit_once("sum ").ok_or_else(|| damaged("its sum is missing"))?;
        let sum = sum.strip_suffix('\n').and_then(from_hex).ok_or_else(|| damaged("its sum"))?;
        let tag = self.pan_keys_tag.half_tag(&[lines.as_bytes()]);
        if !bool::from(tag.ct_eq(sum.as_slice())) {
            return Err(damaged("its sum differs"));
        }
        let mut lines = lines.lines().skip(2);
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

/// Errors: one of the steps fails; then the file that was there is there.
fn replace_file(unfinished: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    match fs::remove_file(unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = create_private(unfinished)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(unfinished, path)
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(digits: &str) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(2) || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let pairs = digits.as_bytes().chunks_exact(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
#[path = "pan_keys_tests.rs"]
mod tests;
