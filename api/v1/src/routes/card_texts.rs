//! The texts of a card, an entry each: how bodies take it, how lists are filtered by it, and what it is
//! called on the pages of the site. Parsers, published document and pages follow this table.

use cardswitch_engine::domain::card::{BILLING_NAME_CHARS_MAX, CardTexts, default_billing_name};
use cardswitch_engine::domain::text::LineText;
use cardswitch_wire::body::{line, short_line};
use cardswitch_wire::fields::Fields;
use cardswitch_wire::query::{Query, any_text};

/// A text of a card: its rules for bodies and lists, and its words for people.
#[derive(Clone, Copy, Debug)]
pub struct CardText {
    /// Its name for people.
    pub label: &'static str,
    /// The hint for people who type it.
    pub hint: &'static str,
    /// Whether a card may be without it.
    pub is_optional: bool,
    /// Whether it can be changed after the card was made.
    pub is_changeable: bool,
    /// Its meaning, for developers.
    about: &'static str,
    chars_max: usize,
    /// An example, for developers.
    pub example: &'static str,
    /// The result of the filter by it, for developers; none where there is no such filter.
    filter: Option<&'static str>,
}

/// Every text.
pub static CARD_TEXTS: CardTexts<CardText> = CardTexts {
    description: CardText {
        label: "Description",
        hint: "What the card is for. Shown to everyone who can see the card.",
        is_optional: false,
        is_changeable: true,
        about: "Shown above the card.",
        chars_max: 1_000,
        example: "Team lunches",
        filter: Some("Description contains this text, in any case."),
    },
    billing_name: CardText {
        label: "Name on the card",
        hint: "Up to 40 characters. Defaults to the description.",
        is_optional: true,
        is_changeable: false,
        about: "The name on it; the description where there is none.",
        chars_max: BILLING_NAME_CHARS_MAX,
        example: "Team lunches",
        filter: None,
    },
};

impl CardText {
    /// Whether lists are filtered by it.
    pub const fn is_filter(&self) -> bool {
        self.filter.is_some()
    }

    fn order(&self, fields: &mut Fields<'_>, name: &str) -> Option<LineText> {
        match self.is_optional {
            true => fields.patch(name, self.about, short_line(self.chars_max)).flatten(),
            false => Some(fields.must(name, self.about, line(self.chars_max))),
        }
    }

    fn change(&self, fields: &mut Fields<'_>, name: &str) -> Option<LineText> {
        match self.is_optional {
            _ if !self.is_changeable => None,
            true => fields
                .patch(name, self.about, short_line(self.chars_max))
                .map(Option::unwrap_or_default),
            false => fields.may(name, self.about, line(self.chars_max)),
        }
    }
}

/// Reads the texts of a new card.
pub(super) fn parse_card_texts(fields: &mut Fields<'_>) -> CardTexts {
    let mut texts = CARD_TEXTS.map_named(|name, text| text.order(fields, name));
    let default_name = texts.description.as_ref().map(default_billing_name);
    texts.billing_name = texts.billing_name.or(default_name);
    texts.map(|text| text.clone().unwrap_or_default())
}

/// Reads what is to change about the texts of a card; null clears.
pub(super) fn parse_text_changes(fields: &mut Fields<'_>) -> CardTexts<Option<LineText>> {
    CARD_TEXTS.map_named(|name, text| text.change(fields, name))
}

/// Reads the filters by parts of texts.
pub(super) fn parse_text_parts(query: &mut Query) -> CardTexts<Option<String>> {
    CARD_TEXTS.map_named(|name, text| query.noted(name, text.filter?, any_text).map(str::to_owned))
}
