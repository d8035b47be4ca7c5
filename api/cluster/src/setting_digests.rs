//! Digests of the settings that the nodes of a cluster need alike, so that each can name those in which another differs.
//!
//! INVARIANT: etcd learns no setting by them: they are made under a key that nodes alone have.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// The digests of a node's settings, by the settings' names. One that is not set is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingDigests {
    /// Keys: with other ones than the leader's a node does not follow.
    pub keys: BTreeMap<String, String>,
    /// All others.
    pub others: BTreeMap<String, String>,
}

impl SettingDigests {
    /// The names of the keys in which two nodes differ.
    pub fn differing_keys<'a>(&'a self, other: &'a Self) -> BTreeSet<&'a str> {
        differing(&self.keys, &other.keys).collect()
    }

    /// The names of all settings in which two nodes differ.
    pub fn differing<'a>(&'a self, other: &'a Self) -> BTreeSet<&'a str> {
        differing(&self.keys, &other.keys).chain(differing(&self.others, &other.others)).collect()
    }
}

fn differing<'a>(
    own: &'a BTreeMap<String, String>,
    other: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = &'a str> {
    let names = own.keys().chain(other.keys());
    names.filter(|name| own.get(*name) != other.get(*name)).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(digests: &[(&str, &str)]) -> BTreeMap<String, String> {
        digests.iter().map(|(name, digest)| ((*name).to_owned(), (*digest).to_owned())).collect()
    }

    #[test]
    fn settings_differ_where_values_do_or_one_is_missing() {
        let own = SettingDigests {
            keys: set(&[("zone of a", "1"), ("zone of b", "2")]),
            others: set(&[("bin", "3"), ("compat", "4")]),
        };
        let other = SettingDigests {
            keys: set(&[("zone of a", "1"), ("zone of c", "2")]),
            others: set(&[("bin", "5"), ("compat", "4")]),
        };
        for (one, another) in [(&own, &other), (&other, &own)] {
            let keys = BTreeSet::from(["zone of b", "zone of c"]);
            assert_eq!(one.differing_keys(another), keys);
            assert_eq!(one.differing(another), keys.into_iter().chain(["bin"]).collect());
        }
        assert!(own.differing(&own).is_empty());
    }
}
