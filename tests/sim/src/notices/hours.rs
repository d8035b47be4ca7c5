//! How many letters about declines a cardholder gets, by the rules in the head of `notice_history` of `dispatch`:
//! some in an hour, then one that there are more; a warning for each card. Written anew and plainly, without bounds.

use std::collections::BTreeMap;

use cardswitch_dispatch::mail::notice_history::NoticeKind;
use cardswitch_engine::domain::response_code::ResponseCode;

use crate::model::{Decline, HOUR};

/// Letters about single declines that a cardholder gets in an hour.
const LETTERS_PER_HOUR: u64 = 10;
/// So many wrong credentials of a card in an hour are suspicious.
const WRONG_CREDENTIALS: u64 = 3;
const OF_CREDENTIALS: [ResponseCode; 4] = [
    ResponseCode::InvalidExpiration,
    ResponseCode::InvalidPin,
    ResponseCode::InvalidCvv,
    ResponseCode::InvalidZip,
];

/// The letters of cardholders, and of cards, in a running hour.
#[derive(Clone, Default)]
pub(super) struct Hours {
    /// The beginning of a member's hour, and how many letters were written.
    members: BTreeMap<usize, (i64, u64)>,
    /// The beginning of a card's hour, its wrong credentials, and whether its holder was warned.
    cards: BTreeMap<usize, (i64, u64, bool)>,
}

impl Hours {
    /// The letter about the next decline, if any; it counts as sent.
    pub(super) fn kind_of(&mut self, decline: &Decline) -> Option<NoticeKind> {
        let is_risk = decline.code == ResponseCode::Risk;
        if is_risk || OF_CREDENTIALS.contains(&decline.code) {
            let (since, wrong, is_warned) =
                self.cards.entry(decline.card).or_insert((decline.at, 0, false));
            if decline.at >= *since + HOUR {
                (*since, *wrong, *is_warned) = (decline.at, 0, false);
            }
            *wrong += u64::from(!is_risk);
            if (is_risk || *wrong >= WRONG_CREDENTIALS) && !*is_warned {
                *is_warned = true;
                return Some(NoticeKind::Alert);
            }
            if is_risk {
                return None;
            }
        }
        let (since, letters) = self.members.entry(decline.member).or_insert((decline.at, 0));
        if decline.at >= *since + HOUR {
            (*since, *letters) = (decline.at, 0);
        }
        *letters += 1;
        match *letters {
            letters if letters <= LETTERS_PER_HOUR => Some(NoticeKind::Decline),
            letters if letters == LETTERS_PER_HOUR + 1 => Some(NoticeKind::More),
            _ => None,
        }
    }
}
