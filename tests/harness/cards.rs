//! The cards file of `init`: test cards with their secrets, each with the profile it was made for.

use std::fs;
use std::path::Path;

use serde_json::Value;

/// One test card, as a cardholder and a terminal know it.
#[derive(Debug, Clone)]
pub struct TestCard {
    /// Its id in `/v1`.
    pub card_id: String,
    /// Its allowance's id in `/v1`.
    pub allowance_id: String,
    /// The card number.
    pub pan: String,
    /// The last day it is valid, `yyyy-mm-dd`.
    pub expiration: String,
    /// The card verification value; empty if it has none.
    pub cvv: String,
    /// The PIN; empty if it has none.
    pub pin: String,
    /// The billing ZIP; empty if it has none.
    pub zip: String,
    /// Its purpose: `ordinary`, or the cause of a decline.
    pub profile: String,
}

impl TestCard {
    /// The expiration as a terminal sends it.
    /// Source: ISO DE14, YYMM.
    pub fn expiry_yymm(&self) -> String {
        let digits: String = self.expiration.chars().filter(char::is_ascii_digit).collect();
        assert_eq!(digits.len(), 8, "`{}` is no yyyy-mm-dd", self.expiration);
        digits[2..6].to_owned()
    }
}

/// All test cards of an installation.
#[derive(Debug, Clone)]
pub struct Portfolio {
    cards: Vec<TestCard>,
}

impl Portfolio {
    /// Reads a cards file: one JSON object a line.
    #[track_caller]
    pub(crate) fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).expect("init writes the cards file");
        let cards: Vec<TestCard> = text.lines().map(parse_card).collect();
        assert!(!cards.is_empty(), "the cards file is empty");
        Self { cards }
    }

    /// Every card.
    pub fn all(&self) -> &[TestCard] {
        &self.cards
    }

    /// The cards made for `profile`, of which there must be one at least.
    #[track_caller]
    pub fn with_profile(&self, profile: &str) -> Vec<&TestCard> {
        let found: Vec<_> = self.cards.iter().filter(|card| card.profile == profile).collect();
        assert!(!found.is_empty(), "init made no card with profile `{profile}`");
        found
    }

    /// The first card made for `profile`.
    #[track_caller]
    pub fn first(&self, profile: &str) -> &TestCard {
        self.with_profile(profile)[0]
    }

    /// A card on which nothing declines.
    #[track_caller]
    pub fn ordinary(&self) -> &TestCard {
        self.first("ordinary")
    }
}

#[track_caller]
fn parse_card(line: &str) -> TestCard {
    let card: Value = serde_json::from_str(line).expect("each line of the cards file is JSON");
    let text = |key: &str| card[key].as_str().unwrap_or_default().to_owned();
    let required = |key: &str| {
        let value = text(key);
        assert!(!value.is_empty(), "a card without `{key}`");
        value
    };
    TestCard {
        card_id: required("card_id"),
        allowance_id: required("allowance_id"),
        pan: required("pan"),
        expiration: required("expiration"),
        cvv: required("cvv"),
        pin: text("pin"),
        zip: text("zip"),
        profile: required("profile"),
    }
}
