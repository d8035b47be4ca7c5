//! What a decision was made from, as it was then. Kept with the transaction, so that an explanation
//! quotes facts and never guesses them from what the card is today.
//!
//! A purchase that more was asked on has a decision of its own for each increment.
//!
//! What the transaction itself says (amount, merchant, instant, rules that failed) is not repeated.
//! No credential is kept, only whether one was shown. `packed` writes this in some thirty bytes.

use crate::domain::allowance::{AllowanceTerms, CardUsage};
use serde::{Deserialize, Serialize};

use super::{KnownAmounts, RuleSet};
use crate::domain::business_date::BusinessDate;
use crate::domain::credential::{CredentialFailures, CredentialsPresent};
use crate::domain::ids::{Timestamp, TransactionSeq};
use crate::domain::merchant::Mcc;
use crate::domain::money::Minor;

/// The facts of one decision. Serialized packed: see `packed/facts.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Vec<u8>", try_from = "Vec<u8>")]
pub struct DecisionFacts {
    /// The allowance's terms.
    pub terms: AllowanceTerms,
    /// What was used before, as of the local day of the decision.
    pub usage: CardUsage,
    /// The amounts of the shard that rules compared.
    pub known: KnownAmounts,
    /// The last local date on which the card is valid.
    pub expires_on: BusinessDate,
    /// Which credentials the message and the card had.
    pub credentials: CredentialsPresent,
    /// Wrong credentials before, where some still counted.
    pub failures: Option<CredentialFailures>,
    /// Attempts before, where the company limits them and they count.
    pub velocity: Option<VelocityFacts>,
}

/// The decision on an increment: more that was asked on a pending purchase. Serialized packed, with
/// a version of its own: see `packed/increment.rs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Vec<u8>", try_from = "Vec<u8>")]
pub struct IncrementDecision {
    /// The purchase.
    pub transaction: TransactionSeq,
    /// When the increment was accepted.
    pub decided_at: Timestamp,
    /// How much more. Units: minor units of the account's currency.
    pub amount: Minor,
    /// What the purchase held before. Units: as `amount`.
    pub added_to: Minor,
    /// The merchant's category.
    pub mcc: Option<Mcc>,
    /// Every rule that failed; none of an increment that was approved.
    pub failed_rules: RuleSet,
    /// Whether the purchase itself had used the card up, which does not speak against more on it.
    pub has_used_card_up: bool,
    /// What the rules were evaluated on.
    pub facts: DecisionFacts,
}

/// Attempts before a decision, beside the limits of the company.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VelocityFacts {
    /// In the minute before.
    pub minute: AttemptWindow,
    /// In the hour before.
    pub hour: AttemptWindow,
}

/// Attempts in one sliding window before a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptWindow {
    /// How many the company allows; zero switches the limit off.
    pub limit: u16,
    /// How many there were; the shard remembers no more than decide a limit.
    pub count: u16,
    /// From when on one more would have room, this one counted; `Timestamp::MIN` where there was
    /// room for this one.
    pub room_at: Timestamp,
}

impl AttemptWindow {
    /// The window of `span` microseconds before an attempt at `at`; `before` has the oldest first.
    #[must_use]
    pub fn of(before: &[Timestamp], limit: u16, span: i64, at: Timestamp) -> Self {
        let within = before.iter().filter(|attempt| **attempt > at.plus(-span)).count();
        let count = u16::try_from(within).unwrap_or(u16::MAX);
        let is_over = limit > 0 && count >= limit;
        // The attempt that leaves last before there is room: of those that count, this one among
        // them, as many are newer as the limit leaves beside one more.
        let newer = usize::from(limit.saturating_sub(1));
        let leaves = match newer {
            0 => at,
            newer => before.len().checked_sub(newer).map_or(at, |place| before[place]),
        };
        let room_at = if is_over { leaves.plus(span) } else { Timestamp::MIN };
        Self { limit, count, room_at }
    }

    /// Whether an attempt at the instant `at` is one too many.
    #[must_use]
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
        let rows: [(&[Timestamp], u16, u16, Timestamp); 6] = [
            (&[ago(9), ago(8)], 0, 2, Timestamp::MIN),
            (&[ago(90), ago(8)], 2, 1, Timestamp::MIN),
            // With a limit of one, this attempt itself has to leave.
            (&[ago(9)], 1, 1, after(60)),
            // With two: the newest of those before.
            (&[ago(9), ago(8)], 2, 2, after(52)),
            (&[ago(50), ago(9), ago(8)], 3, 3, after(51)),
            (&[ago(50), ago(40), ago(9), ago(8)], 3, 4, after(51)),
        ];
        for (before, limit, count, room_at) in rows {
            let window = AttemptWindow::of(before, limit, Timestamp::MINUTE, AT);
            assert_eq!(window, AttemptWindow { limit, count, room_at }, "{before:?} {limit}");
            assert_eq!(window.is_over(AT), room_at > AT, "{before:?} {limit}");
            assert!(!window.is_over(room_at), "{before:?} {limit}");
        }
    }
}
