//! The changes since the last checkpoint, in memory: sorted layers, which merge as they grow.

use std::ops::Range;
use std::sync::Arc;

/// A change since the last checkpoint.
pub(super) trait LayerChange: Copy {
    /// This change and an earlier one as one.
    fn after(self, earlier: Self) -> Self;
}

/// Changes of one kind by key, newest layer last. A layer is half as long as the one before it, or
/// shorter, so there are few of them.
#[derive(Clone, Debug)]
pub(super) struct Layers<K, T>(Vec<Arc<[(K, T)]>>);

impl<K, T> Default for Layers<K, T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Copy + Ord, T: LayerChange> Layers<K, T> {
    /// Whether nothing changed.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// The change of a key.
    pub(super) fn get(&self, key: K) -> Option<T> {
        let found = self.0.iter().filter_map(|layer| {
            let place = layer.binary_search_by_key(&key, |(key, _)| *key).ok()?;
            Some(layer[place].1)
        });
        found.reduce(|earlier, change| change.after(earlier))
    }

    /// Puts the changes of one commit on top: one for each key, in their order.
    pub(super) fn push(&mut self, mut changes: Vec<(K, T)>) {
        debug_assert!(changes.is_sorted_by(|one, other| one.0 < other.0), "keys rise");
        if changes.is_empty() {
            return;
        }
        while let Some(below) = self.0.pop_if(|below| below.len() <= 2 * changes.len()) {
            changes = merged(&below, &changes);
        }
        self.0.push(changes.into());
    }

    /// The changes of all keys, in their order.
    pub(super) fn all(&self) -> Vec<(K, T)> {
        let layers = self.0.iter();
        layers.fold(Vec::new(), |below, layer| merged(&below, layer))
    }

    /// The changes within a range of keys, a key once for each layer that has it.
    pub(super) fn within(&self, keys: Range<K>) -> impl Iterator<Item = (K, T)> {
        self.0.iter().flat_map(move |layer| {
            let start = layer.partition_point(|(key, _)| *key < keys.start);
            let end = layer.partition_point(|(key, _)| *key < keys.end).max(start);
            layer[start..end].iter().copied()
        })
    }
}

/// Two layers as one.
fn merged<K: Copy + Ord, T: LayerChange>(below: &[(K, T)], above: &[(K, T)]) -> Vec<(K, T)> {
    let mut changes = Vec::with_capacity(below.len() + above.len());
    let mut below = below.iter().peekable();
    for (key, change) in above {
        while let Some(earlier) = below.next_if(|earlier| earlier.0 < *key) {
            changes.push(*earlier);
        }
        let same = below.next_if(|earlier| earlier.0 == *key);
        changes.push((*key, same.map_or(*change, |same| change.after(same.1))));
    }
    changes.extend(below);
    changes
}
