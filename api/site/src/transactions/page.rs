//! One transaction: its facts, the reasons of the decision, its history, and its tags. GET
//! /transactions/{id}.

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::PathId;
use cardswitch_engine::decision::IncrementDecision;
use cardswitch_engine::directory::member::Member;
use cardswitch_engine::domain::card::DimensionKind;
use cardswitch_engine::domain::ids::CardId;
use cardswitch_engine::domain::merchant::Merchant;
use cardswitch_engine::domain::transaction_tags::{Receipt, ReceiptType};
use cardswitch_engine::store::StoreError;
use cardswitch_engine::store::query::TransactionRow;
use cardswitch_v1::routes::decision::INCREMENTS_MAX;
use cardswitch_v1::routes::transaction_tags::NOTE_CHARS_MAX;
use cardswitch_v1::routes::view::View;
use cardswitch_wire::reference::DIMENSION_FIELDS;

use super::decision::{DecisionWords, IncrementWords, Teller, is_posted_only};
use super::story::{StoryStep, story};
use super::words::{flag_words, positive, size_words};
use super::{find, may_note};
use crate::cards::face::is_usable;
use crate::dimension_choices::{DimensionChoice, chosen_of};
use crate::dimensions::kind_words as dimension_words;
use crate::faults::{Faults, with_status};
use crate::form_snapshot::FormSnapshot;
use crate::forms::TypedFields;
use crate::frame;
use crate::requisitions::may_see;
use crate::rights::{ActingMember, Right};
use crate::words::{
    Badge, Moment, amount_words, card_name, kind_words, merchant_kind, moment, money, person,
    place, shown_kind, title, transaction_badge, zone_words,
};

/// The page's messages about forms that were sent, and the values typed into them.
#[derive(Clone, Debug, Default)]
pub(super) struct TransactionForms {
    /// The tags as typed; the stored ones where nothing was typed.
    pub(super) fields: Option<TypedFields>,
    /// The faults of the tags.
    pub(super) faults: Faults,
    /// The message about a receipt.
    pub(super) receipt_alert: String,
}

#[derive(Template)]
#[template(path = "transactions/page.html")]
struct TransactionContent {
    csrf: String,
    zone: String,
    id: String,
    title: String,
    kind: &'static str,
    badge: Badge,
    amount: String,
    requested: Option<String>,
    at: Moment,
    posted_at: Option<Moment>,
    merchant: Option<MerchantWords>,
    bank_account: Option<[String; 3]>,
    foreign: Option<String>,
    card: Option<ObjectLink>,
    member: Option<ObjectLink>,
    requisition: Option<ObjectLink>,
    refund_of: Option<ObjectLink>,
    flags: Vec<String>,
    allow: Option<String>,
    is_posted_only: bool,
    decision: DecisionWords,
    increments: Vec<IncrementWords>,
    story: Vec<StoryStep>,
    tags: Tags,
    receipt: Option<ReceiptWords>,
    receipt_seen: String,
    receipt_alert: String,
    may_note: bool,
}

/// An object with a page of its own, where the visitor may see that page.
struct ObjectLink {
    words: String,
    path: Option<String>,
}

struct MerchantWords {
    name: String,
    place: String,
    category: Option<String>,
    number: String,
}

/// The tags: choices for visitors who may sort, else the present ones.
struct Tags {
    may_sort: bool,
    seen: FormSnapshot,
    choices: Vec<DimensionChoice>,
    sorted: Vec<(&'static str, Option<String>)>,
    note: String,
    note_max: usize,
    faults: Faults,
}

struct ReceiptWords {
    filename: String,
    size: String,
    at: Moment,
    is_lost: bool,
    is_picture: bool,
}

/// GET /transactions/{id}.
pub(super) async fn show_transaction(
    acting: ActingMember,
    PathId(id): PathId,
) -> Result<Response, ApiError> {
    let row = find(&acting, id).await?;
    transaction_page(&acting, &row, TransactionForms::default()).await
}

/// The page again, after something that could not be taken.
pub(super) async fn refused_page(
    acting: &ActingMember,
    row: &TransactionRow,
    (status, said): (StatusCode, TransactionForms),
) -> Result<Response, ApiError> {
    Ok(with_status(transaction_page(acting, row, said).await?, status))
}

async fn transaction_page(
    acting: &ActingMember,
    row: &TransactionRow,
    said: TransactionForms,
) -> Result<Response, ApiError> {
    let csrf = acting.csrf();
    let content = acting.read(|view| {
        TransactionContent::read(&TransactionFacts { view, acting, row }, (csrf, said))
    });
    let content = content.await?;
    let title = content.title.clone();
    Ok(frame::page(&title, content))
}

/// The sources of a page.
struct TransactionFacts<'a> {
    view: &'a View<'a>,
    acting: &'a ActingMember,
    row: &'a TransactionRow,
}

impl TransactionContent {
    fn read(
        shown: &TransactionFacts<'_>,
        (csrf, said): (String, TransactionForms),
    ) -> Result<Self, StoreError> {
        let TransactionFacts { view, acting, row } = shown;
        let (record, company) = (&row.record, view.company);
        let teller = Teller::of(acting, view);
        let increments: Vec<IncrementDecision> =
            view.snapshot.increments(record.seq, INCREMENTS_MAX)?;
        let amount = row.progress.amount(record.kind, record.requested);
        let is_requested_shown = record.card.is_some() && positive(amount) != record.requested;
        let receipt_alert = said.receipt_alert.clone();
        let decision = teller.decision(row);
        Ok(Self {
            csrf,
            zone: zone_words(company.zone),
            id: record.id.0.to_string(),
            title: title(record),
            kind: kind_words(shown_kind(row)),
            badge: transaction_badge(shown_kind(row), row.progress.state),
            requested: is_requested_shown.then(|| money(record.requested, company.currency)),
            amount: amount_words(row, company.currency),
            at: moment(record.authorized_at, company.zone),
            posted_at: row.progress.shown_posted_at().map(|at| moment(at, company.zone)),
            merchant: record.merchant.as_ref().map(MerchantWords::new),
            bank_account: record
                .bank_account
                .as_ref()
                .map(|bank| [&bank.name, &bank.number, &bank.description].map(ToString::to_string))
                .filter(|texts| texts.iter().any(|text| !text.is_empty())),
            foreign: record.foreign.map(|foreign| money(foreign.amount, foreign.currency)),
            card: shown.card()?,
            member: shown.member()?,
            requisition: shown.requisition()?,
            refund_of: shown.refund_of()?,
            flags: row.progress.flags.names().map(|name| flag_words(name).to_owned()).collect(),
            allow: if decision.is_by_limits { shown.allow()? } else { None },
            is_posted_only: is_posted_only(row),
            decision,
            increments: increments.iter().map(|one| teller.increment(one)).collect(),
            story: story(view, row, &increments)?,
            tags: Tags::read(shown, said)?,
            receipt: row.receipt().map(|receipt| ReceiptWords::new(receipt, shown)),
            receipt_seen: receipt_seen(row),
            receipt_alert,
            may_note: may_note(acting, row),
        })
    }
}

impl TransactionFacts<'_> {
    /// The path on which a card manager changes the limits of its card, filled in for a purchase
    /// like this.
    fn allow(&self) -> Result<Option<String>, StoreError> {
        let Some(slot) = self.row.record.card.filter(|_| self.acting.may(Right::ManageCards))
        else {
            return Ok(None);
        };
        let card = self
            .view
            .snapshot
            .card(slot)?
            .filter(|card| is_usable(card, self.view.company, self.view.now));
        let path =
            |card: CardId| format!("/cards/{}/allowance?allow={}", card.0, self.row.record.id.0);
        Ok(card.map(|card| path(card.profile.id)))
    }

    fn card(&self) -> Result<Option<ObjectLink>, StoreError> {
        let Some(slot) = self.row.record.card else { return Ok(None) };
        let card = self.view.snapshot.card(slot)?;
        Ok(card.map(|card| {
            // A visitor who sees only their own things sees the cards they hold now.
            let own = self.acting.limited_to();
            let is_there = own.is_none() || card.profile.assigned_to == own;
            let path = is_there.then(|| format!("/cards/{}", card.profile.id.0));
            ObjectLink { words: card_name(&card.profile), path }
        }))
    }

    fn member(&self) -> Result<Option<ObjectLink>, StoreError> {
        let Some(slot) = self.row.record.member else { return Ok(None) };
        let member = self.view.snapshot.row::<Member>(slot)?;
        Ok(member.map(|member| {
            let is_there = self.acting.may(Right::SeeMembers);
            let path = is_there.then(|| format!("/members/{}", member.id.0));
            let words = person(&member.first_name, &member.last_name, &member.email);
            ObjectLink { words, path }
        }))
    }

    fn requisition(&self) -> Result<Option<ObjectLink>, StoreError> {
        let Some(slot) = self.row.record.card else { return Ok(None) };
        let requisition = self.view.snapshot.requisition_of_card(slot)?;
        // A card may have come from somebody else, whose request gave it.
        let requisition = requisition.filter(|row| may_see(self.acting, row.member));
        Ok(requisition.map(|requisition| {
            let path = Some(format!("/requisitions/{}", requisition.id.0));
            ObjectLink { words: requisition.description, path }
        }))
    }

    fn refund_of(&self) -> Result<Option<ObjectLink>, StoreError> {
        let Some(seq) = self.row.record.refund_of else { return Ok(None) };
        let purchase = self.view.snapshot.transaction(seq)?;
        Ok(purchase.map(|purchase| {
            let path = Some(format!("/transactions/{}", purchase.record.id.0));
            let at = moment(purchase.record.authorized_at, self.view.company.zone).words;
            ObjectLink { words: format!("{}, {at}", title(&purchase.record)), path }
        }))
    }
}

impl MerchantWords {
    fn new(merchant: &Merchant) -> Self {
        Self {
            name: merchant.name.to_string(),
            place: place(merchant),
            category: merchant.mcc.map(|mcc| merchant_kind(mcc.0)),
            number: merchant.card_acceptor_id.to_string(),
        }
    }
}

impl Tags {
    fn read(shown: &TransactionFacts<'_>, said: TransactionForms) -> Result<Self, StoreError> {
        let TransactionFacts { view, acting, row } = shown;
        let may_sort = acting.may(Right::TagTransactions);
        let known = chosen_of(view, &row.dimensions())?;
        let seen = seen(row, &known);
        let typed = said.fields.unwrap_or_default();
        let kinds = if may_sort { &DimensionKind::ALL[..] } else { &[] };
        let choices = typed.dimension_choices(view, kinds, Some(&row.dimensions()))?;
        let names = view.dimension_references(&row.dimensions())?;
        let named = DimensionKind::ALL.map(|kind| dimension_words(kind).label).into_iter();
        Ok(Self {
            may_sort,
            seen,
            choices,
            sorted: named.zip(names.map(|known| known.map(|known| known.name))).collect(),
            note: typed.get("note").unwrap_or(row.note()).to_owned(),
            note_max: NOTE_CHARS_MAX,
            faults: said.faults,
        })
    }
}

/// The values that a transaction's form shows: its note, and its dimensions without deleted ones.
pub(super) fn seen(row: &TransactionRow, dimensions: &[String; 4]) -> FormSnapshot {
    let named = DIMENSION_FIELDS.into_iter().zip(dimensions);
    FormSnapshot::default().field("note", row.note()).fields(named)
}

/// The id of the receipt that the page shows; blank where there is none.
pub(super) fn receipt_seen(row: &TransactionRow) -> String {
    row.receipt().map(|receipt| receipt.id.0.to_string()).unwrap_or_default()
}

impl ReceiptWords {
    fn new(receipt: &Receipt, shown: &TransactionFacts<'_>) -> Self {
        Self {
            filename: receipt.filename.to_string(),
            size: size_words(receipt.size),
            at: moment(receipt.created_at, shown.view.company.zone),
            is_lost: receipt.is_lost,
            is_picture: matches!(receipt.content_type, ReceiptType::Png | ReceiptType::Jpeg),
        }
    }
}
