//! The cards that the feed uses, as `init --cards` wrote them: one JSON object a line.
//!
//! Keys this file does not know are passed over. `profile` says what a card was made for, so that
//! the traffic can bring about every response code; without it all cards are treated alike.

use std::collections::BTreeMap;
use std::path::Path;

use chrono::{Datelike, NaiveDate};
use serde::{Deserialize, Serialize};

use super::FeedError;

/// The purpose that a card of the portfolio was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Approved as long as its limits allow.
    Ordinary,
    /// Declined 1202.
    Suspended,
    /// Declined 1201.
    Unactivated,
    /// Declined 1000.
    Terminated,
    /// Declined 1203.
    Expired,
    /// Declined 1501 outside a few merchant categories.
    Scoped,
    /// Declined 1501: its window has not begun.
    WindowedFuture,
    /// Declined 1501: its window is over.
    WindowedPast,
    /// Declined 1503 above a small amount.
    TinyTransactionLimit,
    /// Declined 1502: hardly any allowance.
    TinyAllowance,
    /// Declined 1502 once the day's limit is spent.
    DailyLimited,
    /// Approves once, then declined 1202.
    SingleUse,
    /// Declined 1101: a company without funds.
    NoFunds,
    /// Declined 1701: a company that limits velocity.
    Velocity,
    /// A profile that this version does not know.
    #[serde(other)]
    Other,
}

/// A card and the credentials that its holder would know.
#[derive(Clone, Deserialize)]
pub struct Card {
    /// Identifier under `/v1`.
    pub card_id: String,
    /// Identifier of its allowance.
    #[serde(default)]
    pub allowance_id: String,
    /// The card number.
    pub pan: String,
    /// Last day of validity.
    pub expiration: NaiveDate,
    /// Card verification value, if known.
    #[serde(default)]
    pub cvv: Option<String>,
    /// Personal number, if one is set.
    #[serde(default)]
    pub pin: Option<String>,
    /// Billing ZIP, if one is set.
    #[serde(default)]
    pub zip: Option<String>,
    /// The purpose that the card was made for, if the file names it.
    #[serde(default)]
    pub profile: Option<Profile>,
    /// The interval at which its allowance starts over, if the file names it.
    #[serde(default)]
    pub interval: Option<String>,
}

/// Shows the identifier alone: the rest is card data.
impl std::fmt::Debug for Card {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Card").field("card_id", &self.card_id).finish_non_exhaustive()
    }
}

impl Card {
    /// The expiry as a message carries it, YYMM. Source: ISO DE14.
    pub fn expiry_yymm(&self) -> String {
        format!("{:02}{:02}", self.expiration.year().rem_euclid(100), self.expiration.month())
    }

    /// Tells whether the allowance may start over during a run, so that its balance proves nothing.
    pub(super) fn resets(&self) -> bool {
        self.interval.is_some()
    }

    fn is_ordinary(&self) -> bool {
        matches!(self.profile, None | Some(Profile::Ordinary))
    }
}

/// All cards, and which of them were made for what.
#[derive(Debug, Clone)]
pub struct Portfolio {
    /// The cards, in the order of their file.
    pub cards: Vec<Card>,
    /// Slots of the cards without anything special.
    pub ordinary: Vec<u32>,
    /// Slots of the cards made for one purpose, and the purposes that occur.
    pub(super) special: BTreeMap<Profile, Vec<u32>>,
}

impl Portfolio {
    /// Reads a cards file.
    /// Errors: unreadable file, a line that is not a card, no card at all.
    pub fn read(path: &Path) -> Result<Self, FeedError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| FeedError::Read { path: path.to_owned(), source })?;
        Self::parse(&text)
    }

    /// Parses the lines of a cards file. A bad line is named by its number, never shown.
    /// Errors: a line that is not a card, no card at all.
    pub fn parse(text: &str) -> Result<Self, FeedError> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let cards = lines
            .map(|(at, line)| parse_card(line).ok_or(FeedError::CardLine { line: at + 1 }))
            .collect::<Result<Vec<Card>, _>>()?;
        Self::new(cards)
    }

    /// Sorts cards by what they were made for.
    /// Errors: no card at all.
    pub fn new(cards: Vec<Card>) -> Result<Self, FeedError> {
        let (mut ordinary, mut special) = (Vec::new(), BTreeMap::<_, Vec<u32>>::new());
        for (slot, card) in (0_u32..).zip(&cards) {
            match card.profile {
                Some(profile) if !card.is_ordinary() => {
                    special.entry(profile).or_default().push(slot);
                }
                _ => ordinary.push(slot),
            }
        }
        if cards.is_empty() {
            return Err(FeedError::NoCards);
        }
        Ok(Self { cards, ordinary, special })
    }

    /// The card in a slot.
    pub fn card(&self, slot: u32) -> Option<&Card> {
        self.cards.get(usize::try_from(slot).ok()?)
    }

    /// Number of cards.
    pub fn len(&self) -> usize {
        self.cards.len()
    }

    /// Tells whether there is no card; never true of a portfolio that was made.
    pub fn is_empty(&self) -> bool {
        self.cards.is_empty()
    }

    /// A card number under the same prefix that belongs to no card here.
    /// Its check digit is right, so only a look-up can refuse it.
    pub(super) fn stranger(&self, draw: u64) -> String {
        let like = self.cards.first().map_or("9999990000000000", |card| card.pan.as_str());
        let prefix: String = like.chars().take(6).collect();
        (0..)
            .map(|step| with_check_digit(&format!("{prefix}{:09}", (draw + step) % 1_000_000_000)))
            .find(|pan| !self.cards.iter().take(STRANGER_CHECKS_MAX).any(|card| card.pan == *pan))
            .unwrap_or_default()
    }
}

/// The number of cards that an invented number is compared with; one in a thousand million can
/// clash.
const STRANGER_CHECKS_MAX: usize = 64;

/// Parses a line. A parsed card fits the messages that will carry it.
fn parse_card(line: &str) -> Option<Card> {
    let card: Card = serde_json::from_str(line).ok()?;
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_zip = |zip: &str| zip.len() <= 10 && zip.bytes().all(|b| (b' '..=b'~').contains(&b));
    let pan_fits = is_digits(&card.pan) && (12..=19).contains(&card.pan.len());
    let cvv_fits = card.cvv.as_deref().is_none_or(|cvv| is_digits(cvv) && cvv.len() <= 4);
    let pin_fits = card.pin.as_deref().is_none_or(|pin| is_digits(pin) && pin.len() <= 12);
    let zip_fits = card.zip.as_deref().is_none_or(is_zip);
    (pan_fits && cvv_fits && pin_fits && zip_fits).then_some(card)
}

/// Appends the Luhn check digit.
fn with_check_digit(digits: &str) -> String {
    let sum: u32 = digits
        .bytes()
        .rev()
        .zip([2, 1].into_iter().cycle())
        .map(|(byte, factor)| u32::from(byte - b'0') * factor)
        .map(|product| product / 10 + product % 10)
        .sum();
    format!("{digits}{}", (10 - sum % 10) % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"card_id":"c1","allowance_id":"a1","pan":"9999990000000003","expiration":"2028-02-29","cvv":"123","pin":null,"zip":"94107","colour":"red"}"#;

    #[test]
    fn a_card_line_is_read_and_unknown_keys_are_passed_over() {
        let portfolio = Portfolio::parse(&format!("{LINE}\n\n")).unwrap();
        let card = portfolio.card(0).unwrap();
        assert_eq!(card.expiry_yymm(), "2802");
        assert_eq!(card.pin, None);
        assert_eq!(portfolio.ordinary, [0]);
        assert!(!format!("{portfolio:?}").contains("9999990000000003"), "card data is never shown");
    }

    #[test]
    fn profiles_sort_the_cards() {
        let velocity = LINE.replace(r#""colour":"red""#, r#""profile":"velocity""#);
        let novel = LINE.replace(r#""colour":"red""#, r#""profile":"something_new""#);
        let portfolio = Portfolio::parse(&format!("{LINE}\n{velocity}\n{novel}")).unwrap();
        assert_eq!(portfolio.ordinary, [0]);
        assert_eq!(portfolio.special[&Profile::Velocity], [1]);
        assert_eq!(portfolio.special[&Profile::Other], [2]);
    }

    #[test]
    fn a_bad_line_is_named_by_its_number() {
        let bad = LINE.replace("9999990000000003", "99x");
        let error = Portfolio::parse(&format!("{LINE}\n{bad}")).unwrap_err();
        assert!(matches!(error, FeedError::CardLine { line: 2 }), "{error}");
        assert!(matches!(Portfolio::parse("\n"), Err(FeedError::NoCards)));
    }

    #[test]
    fn check_digits_are_right() {
        assert_eq!(with_check_digit("453957804962831"), "4539578049628313");
        assert_eq!(with_check_digit("7992739871"), "79927398713");
    }
}
