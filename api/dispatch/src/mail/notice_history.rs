//! The number of letters about declines: one for each of the first few in an hour, then one that
//! says that there are more, then none until the hour is over. Suspicious declines bring a warning
//! instead, once an hour for each card.
//!
//! Hours are those of the switch's clock, and begin with the first decline.

use cardswitch_bounds::{BLOCKING, BoundedTable, TableEntry, share};
use cardswitch_engine::domain::ids::{CardSlot, MemberSlot, Timestamp};
use cardswitch_engine::store::query::DeclineRow;

use super::limits::{CARDHOLDERS_MAX, DECLINES_PER_HOUR_MAX, WRONG_CREDENTIALS_MAX};

/// The kind of letter about a decline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeKind {
    /// It was declined.
    Decline,
    /// More were declined, and no letters follow for a while.
    More,
    /// Somebody else may be using the card.
    Alert,
}

/// Cardholders who were notified lately.
#[derive(Clone, Debug)]
pub(super) struct NoticeHistory {
    members: BoundedTable<MemberSlot, Hour>,
    cards: BoundedTable<CardSlot, CardHour>,
}

impl Default for NoticeHistory {
    fn default() -> Self {
        let (members, cards) = (CARDHOLDERS_MAX, CARDHOLDERS_MAX);
        Self { members: BoundedTable::new(members), cards: BoundedTable::new(cards) }
    }
}

#[derive(Clone, Copy, Debug)]
struct Hour {
    since: Timestamp,
    letters: u32,
}

#[derive(Clone, Copy, Debug)]
struct CardHour {
    since: Timestamp,
    wrong_credentials: u32,
    is_alerted: bool,
}

impl TableEntry for Hour {
    type Time = Timestamp;

    fn ends_at(&self) -> Option<Timestamp> {
        Some(self.since.plus(Timestamp::HOUR))
    }

    fn weight(&self) -> u64 {
        share(self.letters, DECLINES_PER_HOUR_MAX + 1)
    }
}

impl TableEntry for CardHour {
    type Time = Timestamp;

    fn ends_at(&self) -> Option<Timestamp> {
        Some(self.since.plus(Timestamp::HOUR))
    }

    fn weight(&self) -> u64 {
        if self.is_alerted { BLOCKING } else { share(self.wrong_credentials, u32::MAX) }
    }
}

impl NoticeHistory {
    /// The letter about a decline, if any; it counts as sent.
    pub(super) fn notice(&mut self, decline: &DeclineRow) -> Option<NoticeKind> {
        if is_suspicious(decline.response_number) {
            let is_first = self.is_news_of_card(decline);
            if is_first {
                return Some(NoticeKind::Alert);
            }
            // The warning was about this, too.
            if decline.response_number == RISK {
                return None;
            }
        }
        self.notice_of_member(decline)
    }

    /// Whether a card's holder is to be warned now. If there is no room to remember the card, a
    /// risk brings a warning: a letter too many does less harm. Wrong credentials cannot be counted
    /// then.
    fn is_news_of_card(&mut self, decline: &DeclineRow) -> bool {
        let (at, is_risk) = (decline.authorized_at, decline.response_number == RISK);
        let fresh = || CardHour { since: at, wrong_credentials: 0, is_alerted: false };
        let told = self.cards.change(decline.card, at, fresh, |hour| {
            hour.wrong_credentials = hour.wrong_credentials.saturating_add(u32::from(!is_risk));
            let is_reason = is_risk || hour.wrong_credentials >= WRONG_CREDENTIALS_MAX;
            let is_first = is_reason && !hour.is_alerted;
            hour.is_alerted |= is_reason;
            is_first
        });
        told.unwrap_or(is_risk)
    }

    fn notice_of_member(&mut self, decline: &DeclineRow) -> Option<NoticeKind> {
        let at = decline.authorized_at;
        let fresh = || Hour { since: at, letters: 0 };
        let letters = self.members.change(decline.member, at, fresh, |hour| {
            hour.letters = hour.letters.saturating_add(1);
            hour.letters
        });
        match letters.unwrap_or(1) {
            letters if letters <= DECLINES_PER_HOUR_MAX => Some(NoticeKind::Decline),
            letters if letters == DECLINES_PER_HOUR_MAX + 1 => Some(NoticeKind::More),
            _ => None,
        }
    }
}

/// "Risk monitoring decline." Source: spec "Response codes".
const RISK: u16 = 1701;
/// Wrong expiration, PIN, CVV or ZIP. Source: spec "Response codes".
const WRONG_CREDENTIALS: std::ops::RangeInclusive<u16> = 1301..=1304;

fn is_suspicious(response_number: u16) -> bool {
    response_number == RISK || WRONG_CREDENTIALS.contains(&response_number)
}

#[cfg(test)]
mod tests {
    use cardswitch_engine::domain::ids::TransactionSeq;

    use super::*;

    const LIMIT: u16 = 1503;

    fn decline(card: u32, member: u32, response_number: u16, at_s: i64) -> DeclineRow {
        DeclineRow {
            seq: TransactionSeq(1),
            card: CardSlot(card),
            member: MemberSlot(member),
            response_number,
            authorized_at: Timestamp(at_s * Timestamp::SECOND),
        }
    }

    #[test]
    fn some_letters_an_hour_then_one_that_there_are_more() {
        let mut told = NoticeHistory::default();
        for number in 0..DECLINES_PER_HOUR_MAX {
            let at_s = i64::from(number);
            assert_eq!(told.notice(&decline(number, 7, LIMIT, at_s)), Some(NoticeKind::Decline));
        }
        assert_eq!(told.notice(&decline(1, 7, LIMIT, 100)), Some(NoticeKind::More));
        assert_eq!(told.notice(&decline(1, 7, LIMIT, 3_599)), None);
        assert_eq!(told.notice(&decline(1, 8, LIMIT, 3_599)), Some(NoticeKind::Decline), "another");
        assert_eq!(told.notice(&decline(1, 7, LIMIT, 3_600)), Some(NoticeKind::Decline));
    }

    #[test]
    fn warnings_come_once_an_hour_for_each_card() {
        let mut told = NoticeHistory::default();
        assert_eq!(told.notice(&decline(1, 7, RISK, 0)), Some(NoticeKind::Alert));
        assert_eq!(told.notice(&decline(1, 7, RISK, 1)), None);
        assert_eq!(told.notice(&decline(2, 7, RISK, 2)), Some(NoticeKind::Alert), "another card");
        assert_eq!(
            told.notice(&decline(1, 7, LIMIT, 3)),
            Some(NoticeKind::Decline),
            "another cause"
        );
        assert_eq!(told.notice(&decline(1, 7, RISK, 3_600)), Some(NoticeKind::Alert));
    }

    #[test]
    fn wrong_credentials_are_declines_until_there_are_many() {
        let mut told = NoticeHistory::default();
        let codes = [1301, 1302, 1303, 1304];
        for number in 1..WRONG_CREDENTIALS_MAX {
            let code = codes[number as usize % codes.len()];
            assert_eq!(told.notice(&decline(1, 7, code, 0)), Some(NoticeKind::Decline), "{number}");
        }
        assert_eq!(told.notice(&decline(1, 7, 1303, 1)), Some(NoticeKind::Alert));
        assert_eq!(told.notice(&decline(1, 7, 1303, 2)), Some(NoticeKind::Decline));
        assert_eq!(told.notice(&decline(1, 7, RISK, 3)), None, "warned already");
        let spread = |told: &mut NoticeHistory, at_s| told.notice(&decline(2, 8, 1302, at_s));
        for at_s in [0, 1_800, 3_600, 5_400, 7_200] {
            assert_eq!(spread(&mut told, at_s), Some(NoticeKind::Decline), "two an hour at {at_s}");
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut told = NoticeHistory::default();
        for number in 0..3 * u32::try_from(CARDHOLDERS_MAX).unwrap() {
            told.notice(&decline(number, number, RISK, 0));
            told.notice(&decline(number, number, LIMIT, i64::from(number)));
        }
        assert!(told.cards.len() <= CARDHOLDERS_MAX && told.members.len() <= CARDHOLDERS_MAX);
    }
}
