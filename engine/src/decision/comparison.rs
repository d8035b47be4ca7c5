//! One rule in a decision: the values that it compared, and what would satisfy it.

use super::case::Case;
use super::explanation::{Change, ComparedValues, Quantity};
use super::facts::{AttemptWindow, DecisionFacts, VelocityFacts};
use crate::domain::ids::Timestamp;
use crate::domain::money::Minor;

/// Finds the limit of an amount among the facts.
pub(super) type Limit = fn(&mut DecisionFacts) -> &mut Minor;
/// Finds the attempts of one window among those that were counted.
pub(super) type Window = fn(&mut VelocityFacts) -> &mut AttemptWindow;

/// The input that a change alters.
#[derive(Clone, Copy, Debug)]
pub(super) enum Alteration {
    /// The one that the change names.
    Named,
    /// A limit, which the change raises.
    Limit(Limit),
    /// A window of attempts, which the change makes fewer.
    Window(Window),
    /// What the rule objects to, beside its failure itself.
    Objection(fn(&mut Case)),
}

/// One rule in a decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Comparison {
    /// The values that the rule compared.
    pub(super) compared: ComparedValues,
    /// The least change that satisfies the rule if it failed.
    pub(super) change: Change,
    /// The input that the change alters.
    pub(super) alteration: Alteration,
    /// The instant from which the rule passes without a change.
    pub(super) opens_at: Option<Timestamp>,
}

impl Comparison {
    /// A rule that the named change satisfies.
    pub(super) const fn of(input: Quantity, change: Change) -> Self {
        let compared = ComparedValues { input, threshold: None, usage: None };
        Self { compared, change, alteration: Alteration::Named, opens_at: None }
    }

    /// A rule that objects to something, which `remove` takes away from the kept inputs.
    pub(super) const fn objection(is: bool, remove: fn(&mut Case)) -> Self {
        let alteration = Alteration::Objection(remove);
        Self { alteration, ..Self::of(Quantity::Is(is), Change::Otherwise) }
    }

    pub(super) fn against(mut self, threshold: impl Into<Option<Quantity>>) -> Self {
        self.compared.threshold = threshold.into();
        self
    }

    /// The used part of the threshold before and after the decision.
    pub(super) const fn used(mut self, [before, after]: [Quantity; 2]) -> Self {
        self.compared.usage = Some([before, after]);
        self
    }

    pub(super) fn opens_at(mut self, at: impl Into<Option<Timestamp>>) -> Self {
        self.opens_at = at.into();
        self
    }
}
