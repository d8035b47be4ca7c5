//! The state that programs of fixed seeds lead to: a change that is to leave the state as it is shows
//! here that it does. One that means to change it writes the file anew with `UPDATE_GOLDEN=1`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use cardswitch_engine::shard::{ShardState, StateHash};
use sha2::{Digest, Sha256};

/// Hashes of each part of the state over many programs, one after the other.
#[derive(Default)]
pub(crate) struct StateHashes {
    parts: BTreeMap<&'static str, (usize, Sha256)>,
}

impl StateHashes {
    pub(crate) fn add(&mut self, state: &ShardState) {
        for part in state.part_hashes() {
            let (entries, sha) = self.parts.entry(part.name).or_default();
            *entries += part.entries;
            sha.update(part.hash.0);
        }
    }

    /// Compares with the file.
    pub(crate) fn check(self) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/state_hashes.txt");
        let mut found = String::new();
        for (name, (entries, sha)) in self.parts {
            writeln!(found, "{name}: {entries} {}", StateHash(sha.finalize().into())).unwrap();
        }
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, &found).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap();
        assert_eq!(found, expected, "the state differs, see the head of this file");
    }
}
