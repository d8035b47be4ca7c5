//! The facts of a decision, at its time. They are kept with the transaction, so that an explanation
//! quotes facts and never guesses them from the card's present state.
//!
//! A purchase with increments has a decision of its own for each increment.
//!
//! The transaction's own fields (amount, merchant, instant, rules that failed) are not repeated. No
//! credential is kept, only whether one was shown. `packed` writes this in some thirty bytes.

use crate::domain::allowance::{AllowanceTerms, CardUsage};
use serde::{Deserialize, Serialize};

use super::{KnownAmounts, RuleSet};
use crate::domain::business_date::BusinessDate;
use crate::domain::credential::{CredentialFailures, CredentialPresence};
use crate::domain::ids::{Timestamp, TransactionSeq};
use crate::domain::merchant::Mcc;
use crate::domain::money::Minor;

/// The facts of one decision. Serialized packed: see `packed/facts.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Vec<u8>", try_from = "Vec<u8>")]
pub struct DecisionFacts {
    /// The allowance's terms.
    pub terms: AllowanceTerms,
    /// The usage before, on the local day of the decision.
    pub usage: CardUsage,
    /// The amounts of the shard that rules compared.
    pub known: KnownAmounts,
    /// The last local date on which the card is valid.
    pub expires_on: BusinessDate,
    /// The credentials that the message and the card had.
    pub credentials: CredentialPresence,
    /// Wrong credentials before, if some still counted.
    pub failures: Option<CredentialFailures>,
    /// Attempts before, if the company limits them and they count.
    pub velocity: Option<VelocityFacts>,
}

/// The decision on an increment of a purchase. Serialized packed, with a version of its
/// own: see `packed/increment.rs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Vec<u8>", try_from = "Vec<u8>")]
pub struct IncrementDecision {
    /// The purchase.
    pub transaction: TransactionSeq,
    /// The time of the increment's acceptance.
    pub decided_at: Timestamp,
    /// The additional amount. Units: minor units of the account's currency.
    pub amount: Minor,
    /// The amount that the purchase held before. Units: as `amount`.
    pub added_to: Minor,
    /// The merchant's category.
    pub mcc: Option<Mcc>,
    /// Every rule that failed; empty for an approved increment.
    pub failed_rules: RuleSet,
    /// Whether the purchase itself had used the card up, which does not forbid its increments.
    pub has_used_card_up: bool,
    /// The facts on which the rules were evaluated.
    pub facts: DecisionFacts,
}

/// Attempts before a decision, beside the limits of the company.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VelocityFacts {
    /// The window of the minute before.
    pub minute: AttemptWindow,
    /// The window of the hour before.
    pub hour: AttemptWindow,
}

impl VelocityFacts {
    /// The windows before the next attempt, at any later instant.
    pub const fn after_this_one(self) -> Self {
        let Self { minute, hour } = self;
        Self { minute: minute.after_this_one(), hour: hour.after_this_one() }
    }
}

/// Attempts in one sliding window before a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptWindow {
    /// The number that the company allows; zero switches the limit off.
    pub limit: u16,
    /// The number of attempts; the shard remembers no more than decide a limit.
    pub count: u16,
    /// The first instant with room for one more attempt, this one counted; `Timestamp::MIN` if
    /// there is room at once.
    pub room_at: Timestamp,
}

impl AttemptWindow {
    /// The window of `span` microseconds before an attempt at `at`; `before` has the oldest first.
    pub fn of(before: &[Timestamp], limit: u16, span: i64, at: Timestamp) -> Self {
        let within = before.iter().filter(|attempt| **attempt > at.plus(-span)).count();
        let count = u16::try_from(within).unwrap_or(u16::MAX);
        // The attempt whose leaving makes room: among the counted attempts, this one included, the
        // number of newer ones is the limit less one.
        let newer = usize::from(limit.saturating_sub(1));
        let leaves = match newer {
            0 => at,
            newer => before.len().checked_sub(newer).map_or(at, |place| before[place]),
        };
        let has_room = limit == 0 || count.saturating_add(1) < limit;
        let room_at = if has_room { Timestamp::MIN } else { leaves.plus(span) };
        Self { limit, count, room_at }
    }

    const fn after_this_one(self) -> Self {
        Self { count: self.count.saturating_add(1), ..self }
    }

    /// Whether an attempt at the instant `at` is one too many.
    pub fn is_over(&self, at: Timestamp) -> bool {
        self.limit > 0 && self.count >= self.limit && at < self.room_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_tells_when_it_has_room_again() {
        const AT: Timestamp = Timestamp(10 * Timestamp::HOUR);
        let ago = |seconds: i64| AT.plus(-seconds * Timestamp::SECOND);
        let after = |seconds: i64| AT.plus(seconds * Timestamp::SECOND);
        let rows: [(&[Timestamp], u16, u16, Timestamp); 7] = [
            (&[ago(9), ago(8)], 0, 2, Timestamp::MIN),
            (&[ago(90), ago(8)], 3, 1, Timestamp::MIN),
            // The last one that there is room for.
            (&[ago(90), ago(8)], 2, 1, after(52)),
            // With a limit of one, this attempt itself must leave the window.
            (&[ago(9)], 1, 1, after(60)),
            // With a limit of two, the newest of the earlier attempts must leave.
            (&[ago(9), ago(8)], 2, 2, after(52)),
            (&[ago(50), ago(9), ago(8)], 3, 3, after(51)),
            (&[ago(50), ago(40), ago(9), ago(8)], 3, 4, after(51)),
        ];
        for (before, limit, count, room_at) in rows {
            let window = AttemptWindow::of(before, limit, Timestamp::MINUTE, AT);
            assert_eq!(window, AttemptWindow { limit, count, room_at }, "{before:?} {limit}");
            assert_eq!(window.is_over(AT), limit > 0 && count >= limit, "{before:?} {limit}");
            let next = window.after_this_one();
            assert!(!next.is_over(room_at), "{before:?} {limit}");
            assert_eq!(next.is_over(room_at.plus(-1)), room_at > AT, "{before:?} {limit}");
        }
    }
}
