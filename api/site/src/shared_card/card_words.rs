//! A shared card in words: the rules of its use, the amount left where the link does not hide it,
//! and its number once the viewer has asked for it.

use askama::Template;
use axum::response::Response;
use cardswitch_engine::domain::business_date::BusinessDate;
use cardswitch_engine::domain::card::{CardState, SuspensionReason};
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::domain::money::Minor;
use cardswitch_secrets::link_secrets::PassphraseKind;
use cardswitch_wire::glossary::Audience;

use super::SharedCardView;
use super::linked_card::LinkedCard;
use crate::assets::COPY;
use crate::cards::face::CardFace;
use crate::cards::secret::CardSecret;
use crate::frame::{plain_page, plain_page_with_scripts};
use crate::words::{PageReader, day_words, every, moment, money, zone_words};

/// The title of every page here, the same for all since browsers remember titles.
const TITLE: &str = "Shared card";

#[derive(Template)]
#[template(path = "shared_card/ask.html")]
struct PassphraseContent<'a> {
    csrf: &'a str,
    error: &'a str,
    fields: Vec<PassphraseInput<'a>>,
}

/// A passphrase field as the form asks for it.
struct PassphraseInput<'a> {
    name: &'a str,
    is_date: bool,
    /// Whether it is the first field, in which the visitor begins.
    is_first: bool,
}

#[derive(Template)]
#[template(path = "shared_card/card.html")]
struct SharedCardContent<'a> {
    csrf: &'a str,
    error: &'a str,
    path: &'a str,
    face: CardFace,
    is_virtual: bool,
    state_words: &'static str,
    budget: Option<BudgetLeft>,
    rules: Vec<(&'static str, String)>,
    secret: Option<CardSecret>,
}

/// The amount left, and the budget it is left of.
struct BudgetLeft {
    balance: String,
    of: String,
    limits: Vec<(&'static str, String)>,
}

/// The page that asks for the passphrase. It says nothing of the card, nor of its company.
pub(super) fn ask_page(view: &SharedCardView<'_>, error: &str) -> Response {
    let fields = view.opened.passphrase.iter().enumerate();
    let fields = fields.map(|(place, field)| PassphraseInput {
        name: &field.name,
        is_date: field.kind == PassphraseKind::Date,
        is_first: place == 0,
    });
    let content = PassphraseContent { csrf: &view.csrf, error, fields: fields.collect() };
    plain_page(TITLE, content)
}

pub(super) fn card_page(
    view: &SharedCardView<'_>,
    error: &str,
    secret: Option<CardSecret>,
) -> Response {
    let opened = view.opened;
    let (profile, usage) = (&opened.card.profile, &opened.card.record.usage);
    let face = CardFace::new(&opened.card, &opened.company, view.state.now());
    let is_shown = face.is_spendable && !opened.link.hide_balance;
    let content = SharedCardContent {
        csrf: &view.csrf,
        error,
        path: &opened.path,
        face,
        is_virtual: profile.is_virtual,
        state_words: state_words(usage.state, usage.suspension),
        budget: is_shown.then(|| budget(opened, view.state.today(&opened.company))),
        rules: rules(opened),
        secret,
    };
    plain_page_with_scripts(TITLE, &[&*COPY], content)
}

/// The meaning of the state for somebody who wants to pay.
const fn state_words(state: CardState, reason: SuspensionReason) -> &'static str {
    match (state, reason) {
        (CardState::Active, _) => "",
        (CardState::Unactivated, _) => "It is not activated yet.",
        (CardState::Suspended, SuspensionReason::SingleUse) => {
            "It was for one purchase and has been used."
        }
        (CardState::Suspended, SuspensionReason::EndTime) => "It has expired.",
        (CardState::Suspended, _) => "New purchases are declined for now.",
        (CardState::Terminated, _) => "It is closed.",
    }
}

fn budget(opened: &LinkedCard, today: BusinessDate) -> BudgetLeft {
    let (terms, currency) = (&opened.card.record.terms, opened.company.currency);
    let usage = opened.card.record.usage.rolled(terms.interval, today);
    let mut limits = Vec::new();
    if let Some(next) = today.next_period_start(terms.interval) {
        limits.push(("Renews", format!("{}, next on {}", every(terms.interval), day_words(next))));
    }
    if usage.day_room(terms) != Minor::UNLIMITED {
        let room = usage.day_room(terms).max(Minor::ZERO);
        let words = format!("{} of {}", money(room, currency), money(terms.daily_limit, currency));
        limits.push(("Left today", words));
    }
    if terms.transaction_limit != Minor::UNLIMITED {
        limits
            .push(("Per purchase", format!("up to {}", money(terms.transaction_limit, currency))));
    }
    BudgetLeft {
        balance: money(usage.allowance_balance(terms), currency),
        of: money(terms.amount, currency),
        limits,
    }
}

/// The rules of the card's use, apart from the amount left.
fn rules(opened: &LinkedCard) -> Vec<(&'static str, String)> {
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
    if !terms.scope.codes().is_empty() {
        rules
            .push(("Allowed merchants", PageReader::of(&opened.company).scope(&terms.scope, "; ")));
    }
    rules
}

/// The viewer may be in another zone than the company.
fn in_zone(at: Timestamp, zone: chrono_tz::Tz) -> String {
    format!("{} ({})", moment(at, zone).words, zone_words(zone))
}
