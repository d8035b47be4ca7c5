//! The words of pages for money, time, cards, transactions and requisitions: for people, by the
//! currency and the clock of their company. The forms for programs are in `wire`.
//!
//! | file | what |
//! |---|---|
//! | `money` | amounts |
//! | `times` | instants and days |
//! | `badges` | states |
//! | `declines`, `rules` | response codes, and the findings of rules |
//! | `merchants` | kinds of merchants |
//! | `transactions` | the names of transactions, and their amounts |

mod badges;
mod declines;
mod merchants;
mod money;
mod rules;
mod times;
mod transactions;

use cardswitch_engine::domain::card::CardProfile;

pub(super) use self::badges::{Badge, card_badge, requisition_badge, transaction_badge};
pub(super) use self::declines::{decline_words, outcome_words};
pub(super) use self::merchants::merchant_kind;
pub(super) use self::money::{field_amount, grouped, money, typed_amount, unsigned_amount};
pub(super) use self::rules::PageReader;
pub(super) use self::times::{
    Moment, clock_words, day_words, every, field_time, moment, moment_to_second, near_moment,
    parse_field_time, shown_moment, shown_time, zone_words,
};
pub(super) use self::transactions::{
    amount_words, ending_words, kind_words, place, shown_kind, title,
};

/// The masked number of a card, with its last four digits.
pub(super) fn last_four(digits: [u8; 4]) -> String {
    let digits: String = digits.into_iter().map(char::from).collect();
    format!("•••• {digits}")
}

/// A number or a key in groups of four, as people read and type it.
pub(super) fn in_fours(letters: &str) -> String {
    let letters: Vec<char> = letters.chars().collect();
    let groups: Vec<String> = letters.chunks(4).map(|group| group.iter().collect()).collect();
    groups.join(" ")
}

/// The name of a card where there is room for one line only.
pub(super) fn card_name(profile: &CardProfile) -> String {
    format!("{} {}", profile.texts.description, last_four(profile.last_four))
}

/// A name of a person from its parts; the e-mail address where both are blank.
pub(super) fn person(first: &str, last: &str, email: &str) -> String {
    let name = format!("{first} {last}");
    match name.trim() {
        "" => email.to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_keys_stand_in_groups_of_four() {
        let rows = [
            ("4111111111111111", "4111 1111 1111 1111"),
            ("411111111111111", "4111 1111 1111 111"),
            ("ABCDEFGHIJ", "ABCD EFGH IJ"),
            ("", ""),
        ];
        for (letters, expected) in rows {
            assert_eq!(in_fours(letters), expected);
        }
    }

    #[test]
    fn cards_and_people_are_called_by_what_is_known_of_them() {
        assert_eq!(last_four(*b"0042"), "•••• 0042");
        assert_eq!(person("Ada", "Lovelace", "ada@example.com"), "Ada Lovelace");
        assert_eq!(person("Ada", "", "ada@example.com"), "Ada");
        assert_eq!(person("", " ", "ada@example.com"), "ada@example.com");
    }
}
