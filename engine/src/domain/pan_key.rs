//! Generations of the key that card numbers are sealed under. The keys themselves belong to the
//! edge. The engine holds only their numbers, and refuses a number sealed under a forgotten key.

use serde::{Deserialize, Serialize};

/// A generation of the key, counted from 0, which every directory begins with.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct PanGeneration(pub u32);

/// The generations in use. INVARIANT: the oldest is not above the newest, and neither ever falls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PanGenerations {
    /// The oldest generation that a card may be sealed under; earlier ones were forgotten.
    pub oldest: PanGeneration,
    /// The newest, under which cards are re-sealed.
    pub newest: PanGeneration,
}

impl PanGenerations {
    /// Whether a card may be sealed under `generation`. The edge may have a newer one already,
    /// which the next rotation announces here.
    pub fn admits(self, generation: PanGeneration) -> bool {
        generation >= self.oldest
    }
}
