//! The runs of a kind, oldest first, and the progress of their merges.
//!
//! One value a kind in `run_lists`: CRC32C over the rest, a format version, the encoded directory.
//! A group is a run, or several runs that are being merged: then entries up to the last merged one
//! are in the target, later ones in the inputs.

use redb::{ReadableTable, Table};
use serde::{Deserialize, Serialize};

use super::RunKind;
use crate::codec::{self, CodecError};
use crate::store::error::StoreError;

const FORMAT: u8 = 1;
const TABLE: &str = "run_lists";

/// One sorted run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Run {
    /// Its number, never used again.
    pub(super) run: u64,
    /// The number of merges of its entries, about.
    pub(super) level: u8,
    /// The number of its entries.
    pub(super) entries: u64,
    /// No entry has a minor below.
    pub(super) first_minor: u64,
    /// No entry has a minor above.
    pub(super) last_minor: u64,
}

/// Neighbouring runs on their way into one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Merge {
    /// The run they become; its entries are those written so far.
    pub(super) target: Run,
    /// The runs they were.
    pub(super) inputs: Vec<Run>,
    /// The newest entry taken out of the inputs, major and minor.
    pub(super) merged_until: Option<(u64, u64)>,
    /// The number of entries of this merge that are due.
    pub(super) due: u64,
}

/// A part of a kind's history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Group {
    /// One run.
    Run(Run),
    /// Several runs that are being merged.
    Merge(Merge),
}

/// All runs of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RunDirectory {
    /// The number of the next run.
    next_run: u64,
    /// Entries with a minor below this are gone.
    pub(super) floor: u64,
    /// The greatest minor ever appended.
    pub(super) newest: Option<u64>,
    /// The runs, oldest first.
    pub(super) groups: Vec<Group>,
    /// Runs that nobody reads any more, but whose chunks still stand.
    pub(super) dropped: Vec<u64>,
}

impl RunDirectory {
    /// The directory of a kind; empty if it has none yet.
    /// Errors: `Row` if it is damaged.
    pub(super) fn read(
        lists: &impl ReadableTable<u8, &'static [u8]>,
        kind: RunKind,
    ) -> Result<Self, StoreError> {
        let Some(value) = lists.get(kind.number())? else { return Ok(Self::default()) };
        let bytes = value.value();
        let Some((sum, body)) = bytes.split_at_checked(4) else {
            return Err(unreadable(kind, CodecError::Cut));
        };
        if crc32c::crc32c(body).to_le_bytes() != *sum {
            return Err(unreadable(
                kind,
                CodecError::Malformed { what: "its sum is wrong".into() },
            ));
        }
        let outcome = match body.split_first() {
            None => Err(CodecError::Cut),
            Some((&FORMAT, rest)) => codec::decode(rest),
            Some((&version, _)) => Err(CodecError::UnknownVersion { version }),
        };
        outcome.map_err(|source| unreadable(kind, source))
    }

    /// Replaces the directory of a kind.
    pub(super) fn write(
        &self,
        lists: &mut Table<'_, u8, &'static [u8]>,
        kind: RunKind,
    ) -> Result<(), StoreError> {
        let mut bytes = vec![0, 0, 0, 0, FORMAT];
        codec::encode_into(self, &mut bytes).map_err(|source| unreadable(kind, source))?;
        let sum = crc32c::crc32c(&bytes[4..]);
        bytes[0..4].copy_from_slice(&sum.to_le_bytes());
        lists.insert(kind.number(), bytes.as_slice())?;
        Ok(())
    }

    /// A number for a new run.
    pub(super) fn take_run_number(&mut self) -> u64 {
        self.next_run += 1;
        self.next_run
    }

    /// Takes a run behind all others.
    pub(super) fn append(&mut self, run: Run) {
        assert!(self.newest.is_none_or(|newest| newest < run.first_minor), "minors rise");
        self.newest = Some(run.last_minor);
        for group in &mut self.groups {
            if let Group::Merge(merge) = group {
                merge.due = merge.due.saturating_add(run.entries.saturating_mul(2));
            }
        }
        self.groups.push(Group::Run(run));
    }

    /// Lets go of everything below `minor`; runs that hold nothing else go at once.
    pub(super) fn raise_floor(&mut self, minor: u64) {
        assert!(minor > self.floor, "a floor only rises");
        self.floor = minor;
        let dropped = &mut self.dropped;
        self.groups.retain(|group| match group {
            Group::Run(run) if run.last_minor < minor => {
                dropped.push(run.run);
                false
            }
            _ => true,
        });
    }
}

/// An error that names a directory.
fn unreadable(kind: RunKind, source: CodecError) -> StoreError {
    let what = format!("key {}: {source}", kind.number());
    StoreError::Row { table: TABLE, source: CodecError::Malformed { what } }
}
