//! A shared card in words: what it may be used for, what is left where the link does not hide it, and
//! its number where somebody has asked for it.

use askama::Template;
use axum::response::Response;
use cardswitch_engine::domain::business_date::{BusinessDate, Interval};
use cardswitch_engine::domain::card::{CardState, SuspensionReason};
use cardswitch_engine::domain::company::Address;
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::domain::merchant_category;
use cardswitch_engine::domain::money::Minor;

use super::Viewing;
use super::opened::Opened;
use crate::error::ApiError;
use crate::link_secrets::PassphraseKind;
use crate::site::assets::COPY;
use crate::site::frame::{plain_page, plain_page_with_scripts};
use crate::site::words::{Badge, card_badge, day_words, moment, money};
use crate::state::AppState;

/// The title of every page here: addresses and titles are what browsers remember.
const TITLE: &str = "Shared card";

/// Digits of a number that stand together.
const GROUP_LEN: usize = 4;

#[derive(Template)]
#[template(path = "shared_card/ask.html")]
struct AskContent<'a> {
    csrf: &'a str,
    error: &'a str,
    fields: Vec<AskedField<'a>>,
}

/// A passphrase field as the form asks for it.
struct AskedField<'a> {
    name: &'a str,
    is_date: bool,
    /// Where the visitor begins.
    is_first: bool,
}

#[derive(Template)]
#[template(path = "shared_card/card.html")]
struct CardContent<'a> {
    csrf: &'a str,
    error: &'a str,
    path: &'a str,
    company: &'a str,
    description: &'a str,
    holder: &'a str,
    last_four: String,
    is_virtual: bool,
    badge: Badge,
    state_words: &'static str,
    budget: Option<Budget>,
    rules: Vec<(&'static str, String)>,
    secret: Option<Secret>,
}

/// What is left, and of what.
struct Budget {
    balance: String,
    of: String,
    limits: Vec<(&'static str, String)>,
}

/// What somebody needs to pay with a virtual card.
pub(super) struct Secret {
    number: String,
    /// In groups, as on a card.
    number_words: String,
    /// Such as `03/29`.
    expiry: String,
    cvv: String,
    address: Vec<String>,
}

impl Secret {
    /// Errors: the number was sealed with another key.
    pub(super) fn open(state: &AppState, opened: &Opened) -> Result<Self, ApiError> {
        let (profile, record) = (&opened.card.profile, &opened.card.record);
        let pan = state.secrets.open_pan(&opened.card.sealed_pan, profile.id);
        let pan = pan
            .ok_or_else(|| ApiError::internal(&"a card number cannot be opened with these keys"))?;
        let number = pan.reveal();
        let address = profile.billing_address.as_ref();
        Ok(Self {
            number_words: in_groups(&number),
            number,
            expiry: record.expires_on.to_naive().format("%m/%y").to_string(),
            cvv: state.secrets.cvv(&pan).map(char::from).iter().collect(),
            address: address_lines(address.unwrap_or(&opened.company.billing_address)),
        })
    }
}

/// The page that asks for the passphrase. It says nothing of the card, nor whose it is.
pub(super) fn ask_page(viewing: &Viewing<'_>, error: &str) -> Response {
    let fields = viewing.opened.passphrase.iter().enumerate();
    let fields = fields.map(|(place, field)| AskedField {
        name: &field.name,
        is_date: field.kind == PassphraseKind::Date,
        is_first: place == 0,
    });
    let content = AskContent { csrf: &viewing.csrf, error, fields: fields.collect() };
    plain_page(TITLE, content)
}

/// The page of the card.
pub(super) fn card_page(viewing: &Viewing<'_>, error: &str, secret: Option<Secret>) -> Response {
    let opened = viewing.opened;
    let (profile, usage) = (&opened.card.profile, &opened.card.record.usage);
    let is_hidden = opened.link.hide_balance;
    let content = CardContent {
        csrf: &viewing.csrf,
        error,
        path: &opened.path,
        company: &opened.company.name,
        description: &profile.description,
        holder: &profile.billing_name,
        last_four: profile.last_four.into_iter().map(char::from).collect(),
        is_virtual: profile.is_virtual,
        badge: card_badge(usage.state, usage.suspension),
        state_words: state_words(usage.state, usage.suspension),
        budget: (!is_hidden).then(|| budget(opened, viewing.state.today(&opened.company))),
        rules: rules(opened),
        secret,
    };
    plain_page_with_scripts(TITLE, &[&*COPY], content)
}

/// What the state means for who wants to pay.
const fn state_words(state: CardState, reason: SuspensionReason) -> &'static str {
    match (state, reason) {
        (CardState::Active, _) => "",
        (CardState::Unactivated, _) => "It has to be activated before it can be used.",
        (CardState::Suspended, SuspensionReason::SingleUse) => {
            "It was for one purchase and has been used."
        }
        (CardState::Suspended, SuspensionReason::EndTime) => "Its time is over.",
        (CardState::Suspended, _) => "New purchases are declined for now.",
        (CardState::Terminated, _) => "It is closed.",
    }
}

fn budget(opened: &Opened, today: BusinessDate) -> Budget {
    let (terms, currency) = (&opened.card.record.terms, opened.company.currency);
    let usage = opened.card.record.usage.rolled(terms.interval, today);
    let mut limits = Vec::new();
    if let Some(next) = today.next_period_start(terms.interval) {
        limits.push(("Renews", format!("{}, next on {}", every(terms.interval), day_words(next))));
    }
    if usage.day_room(terms) != Minor::UNLIMITED {
        let room = usage.day_room(terms).max(Minor::ZERO);
        let words = format!("{} of {}", money(room, currency), money(terms.daily_limit, currency));
        limits.push(("Today", words));
    }
    if terms.transaction_limit != Minor::UNLIMITED {
        limits
            .push(("Per purchase", format!("up to {}", money(terms.transaction_limit, currency))));
    }
    Budget {
        balance: money(usage.allowance_balance(terms), currency),
        of: money(terms.amount, currency),
        limits,
    }
}

const fn every(interval: Interval) -> &'static str {
    match interval {
        Interval::None => "not by itself",
        Interval::Daily => "every day",
        Interval::Weekly => "every week",
        Interval::Monthly => "every month",
        Interval::Quarterly => "every quarter",
        Interval::Yearly => "every year",
    }
}

/// What the card is for, whatever is left on it.
fn rules(opened: &Opened) -> Vec<(&'static str, String)> {
    let (terms, zone) = (&opened.card.record.terms, opened.company.zone);
    let mut rules = Vec::new();
    if terms.single_use {
        rules.push(("Works", "for one purchase".to_owned()));
    }
    if terms.starts_at != Timestamp::MIN {
        rules.push(("From", in_zone(terms.starts_at, zone)));
    }
    if terms.ends_at != Timestamp::MAX {
        rules.push(("Until", in_zone(terms.ends_at, zone)));
    }
    let names: Vec<_> =
        terms.scope.codes().iter().filter_map(|code| category_name(*code)).collect();
    if !names.is_empty() {
        rules.push(("Only at", names.join(", ")));
    }
    rules
}

/// The viewer may be in another zone than the company.
fn in_zone(at: Timestamp, zone: chrono_tz::Tz) -> String {
    format!("{} ({})", moment(at, zone).words, zone.name().replace('_', " "))
}

fn category_name(code: u16) -> Option<&'static str> {
    let group = merchant_category::group(code).map(|group| group.name);
    group.or_else(|| merchant_category::category(code).map(|category| category.name))
}

fn in_groups(number: &str) -> String {
    let mut words = String::with_capacity(number.len() * 5 / 4);
    for (place, digit) in number.chars().enumerate() {
        if place > 0 && place.is_multiple_of(GROUP_LEN) {
            words.push(' ');
        }
        words.push(digit);
    }
    words
}

/// An address as it is written on letters, without blank lines.
fn address_lines(address: &Address) -> Vec<String> {
    let place = format!("{} {} {}", address.city, address.state, address.zip_code);
    let lines = [&address.address_1, &address.address_2, &place, &address.country];
    lines.map(|line| line.trim().to_owned()).into_iter().filter(|line| !line.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_in_groups_of_four() {
        let rows = [
            ("4111111111111111", "4111 1111 1111 1111"),
            ("411111111111111", "4111 1111 1111 111"),
            ("", ""),
        ];
        for (number, expected) in rows {
            assert_eq!(in_groups(number), expected);
        }
    }

    #[test]
    fn addresses_have_no_blank_lines() {
        let mut address = Address {
            address_1: "1 Main St".into(),
            address_2: " ".into(),
            city: "Austin".into(),
            state: "TX".into(),
            zip_code: "78701".into(),
            country: "US".into(),
            ..Address::default()
        };
        assert_eq!(address_lines(&address), ["1 Main St", "Austin TX 78701", "US"]);
        address.address_2 = "Floor 2".into();
        assert_eq!(address_lines(&address).len(), 4);
        assert!(address_lines(&Address::default()).is_empty());
    }

    #[test]
    fn a_scope_is_told_by_names() {
        assert!(category_name(5812).is_some_and(|name| name.contains("estaurant")));
        let group = merchant_category::groups().first().map(|group| group.id);
        assert!(group.and_then(category_name).is_some());
        assert_eq!(category_name(9), merchant_category::group(9).map(|group| group.name));
    }
}
