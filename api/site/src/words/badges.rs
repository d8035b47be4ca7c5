//! States as badges: a word, and how it looks. The word says it all; the look only helps.

use cardswitch_engine::directory::requisition::RequisitionStatus;
use cardswitch_engine::domain::card::{CardState, SuspensionReason};
use cardswitch_engine::domain::transaction::{TransactionKind, TransactionState};

/// A badge: `<span class="tag {{ badge.look }}">{{ badge.word }}</span>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Badge {
    pub(crate) word: &'static str,
    /// A class of the stylesheet: `good`, `bad`, `off`, `wait`.
    pub(crate) look: &'static str,
}

/// How a card stands.
pub(crate) const fn card_badge(state: CardState, reason: SuspensionReason) -> Badge {
    let (word, look) = match (state, reason) {
        (CardState::Unactivated, _) => ("Not activated", "wait"),
        (CardState::Active, _) => ("Active", "good"),
        (CardState::Suspended, SuspensionReason::SingleUse) => ("Used", "off"),
        (CardState::Suspended, SuspensionReason::EndTime) => ("Ended", "off"),
        (CardState::Suspended, _) => ("Suspended", "wait"),
        (CardState::Terminated, _) => ("Closed", "off"),
    };
    Badge { word, look }
}

/// How a transaction stands.
pub(crate) const fn transaction_badge(kind: TransactionKind, state: TransactionState) -> Badge {
    let (word, look) = match (kind, state) {
        // Nothing of an approved check of a card is left to be posted.
        (TransactionKind::Verification, TransactionState::Canceled) => ("Verified", "good"),
        (_, TransactionState::Pending) => ("Pending", "wait"),
        (_, TransactionState::Completed) => ("Completed", "good"),
        (_, TransactionState::Declined) => ("Declined", "bad"),
        (_, TransactionState::Canceled) => ("Canceled", "off"),
    };
    Badge { word, look }
}

/// How a requisition stands.
pub(crate) const fn requisition_badge(status: RequisitionStatus) -> Badge {
    let (word, look) = match status {
        RequisitionStatus::Pending => ("Pending", "wait"),
        RequisitionStatus::Approved => ("Approved", "good"),
        RequisitionStatus::Denied => ("Denied", "bad"),
        RequisitionStatus::Canceled => ("Canceled", "off"),
    };
    Badge { word, look }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suspended_cards_say_why_where_nobody_did_it() {
        let rows = [
            (SuspensionReason::Manual, "Suspended"),
            (SuspensionReason::SingleUse, "Used"),
            (SuspensionReason::EndTime, "Ended"),
        ];
        for (reason, word) in rows {
            assert_eq!(card_badge(CardState::Suspended, reason).word, word);
        }
    }

    #[test]
    fn every_look_is_one_of_the_stylesheet() {
        let style = include_str!("../../assets/site.css");
        let transactions = [
            TransactionState::Pending,
            TransactionState::Completed,
            TransactionState::Declined,
            TransactionState::Canceled,
        ];
        let badges = transactions.map(|state| transaction_badge(TransactionKind::Purchase, state));
        for badge in badges {
            assert!(style.contains(&format!(".tag.{} ", badge.look)), "{badge:?}");
        }
    }
}
