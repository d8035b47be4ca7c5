//! The transactions of a company, or the visitor's own. GET /transactions.

use askama::Template;
use axum::extract::Query;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_engine::directory::member::Member;
use cardswitch_engine::domain::ids::MemberSlot;
use cardswitch_engine::store::StoreError;
use cardswitch_engine::store::query::{ListPage, Page, TransactionRow};
use cardswitch_v1::routes::transactions::ListTransactionsRequest;
use cardswitch_v1::routes::view::View;

use super::filter::{FilterChoices, fields_of_form, is_detailed, request, with_ids};
use crate::faults::{Faults, with_status};
use crate::frame;
use crate::pager::{ListForm, Pager};
use crate::rights::ActingMember;
use crate::words::{
    Badge, Moment, amount_words, decline_words, kind_words, last_four, near_moment, person,
    shown_kind, title, transaction_badge, zone_words,
};

#[derive(Template)]
#[template(path = "transactions/list.html")]
struct TransactionListContent<'a> {
    company: &'a str,
    zone: String,
    is_whole: bool,
    asked: &'a ListForm,
    /// The filters that the form does not show.
    kept: Vec<(&'a str, &'a str)>,
    is_detailed: bool,
    is_filtered: bool,
    offered: FilterChoices,
    faults: &'a Faults,
    rows: Vec<TransactionLine>,
    pager: Pager,
}

pub(crate) struct TransactionLine {
    pub(crate) id: String,
    pub(crate) at: Moment,
    pub(crate) title: String,
    pub(crate) more: String,
    pub(crate) card: Option<[String; 2]>,
    pub(crate) member: Option<String>,
    pub(crate) amount: String,
    pub(crate) badge: Badge,
    pub(crate) has_receipt: bool,
    pub(crate) has_note: bool,
}

/// GET /transactions.
pub(super) async fn list_transactions(
    acting: ActingMember,
    Query(asked): Query<ListForm>,
) -> Result<Response, ApiError> {
    let own = acting.limited_to();
    let asked = match own {
        Some(_) => asked,
        None => acting.read(|view| with_ids(asked, view)).await?,
    };
    let fields = fields_of_form(own);
    let (request, faults) = match request(&asked, acting.company.zone, &fields) {
        Ok(request) => (Some(request), Faults::default()),
        Err(faults) => (None, faults),
    };
    let found = acting.read_lists(|view| {
        let offered = match own {
            Some(own) => FilterChoices::of_member(view, &asked, own)?,
            None => FilterChoices::of_company(view, &asked)?,
        };
        let listed = match &request {
            Some(request) => read_rows(view, request, own)?,
            None => None,
        };
        Ok((offered, listed.unwrap_or(ListPage::EMPTY)))
    });
    let (offered, listed) = found.await?;
    let pairs = asked.pairs();
    let mut kept = asked.besides(&fields);
    // The form sent again is right, without what nobody can mend in it.
    kept.retain(|(name, _)| faults.of(name).is_empty());
    let content = TransactionListContent {
        company: &acting.company.name,
        zone: zone_words(acting.company.zone),
        is_whole: own.is_none(),
        asked: &asked,
        kept,
        is_detailed: is_detailed(&asked),
        is_filtered: pairs.iter().any(|(_, text)| !text.is_empty()),
        offered,
        faults: &faults,
        pager: Pager::new(asked.part(), listed.rows.len(), listed.count, "/transactions", &pairs),
        rows: listed.rows,
    };
    let page = frame::page("Transactions", content);
    Ok(with_status(page, faults.status))
}

/// None where the filter names something unknown.
fn read_rows(
    view: &View<'_>,
    (request, page): &(ListTransactionsRequest, Page),
    own: Option<MemberSlot>,
) -> Result<Option<ListPage<TransactionLine>>, StoreError> {
    let Some(mut filter) = request.resolve(view)? else { return Ok(None) };
    // A visitor limited to their own transactions sees those alone, whatever the filter says.
    filter.member = own.or(filter.member);
    let found = view.snapshot.list_transactions(view.company.slot, &filter, page)?;
    found.load(|row| TransactionLine::of(&row, view)).map(Some)
}

impl TransactionLine {
    /// The transaction as it stands.
    /// Errors: the tables cannot be read.
    pub(crate) fn of(row: &TransactionRow, view: &View<'_>) -> Result<Self, StoreError> {
        let record = &row.record;
        let card = record.card.map(|slot| view.snapshot.card(slot)).transpose()?.flatten();
        let member =
            record.member.map(|slot| view.snapshot.row::<Member>(slot)).transpose()?.flatten();
        let is_approved = record.response_code.is_approved();
        Ok(Self {
            id: record.id.0.to_string(),
            at: near_moment(record.authorized_at, view.now, view.company.zone),
            title: title(record),
            more: if is_approved {
                kind_words(shown_kind(row)).to_owned()
            } else {
                decline_words(record)
            },
            card: card
                .map(|card| [card.profile.texts.description, last_four(card.profile.last_four)]),
            member: member
                .map(|member| person(&member.first_name, &member.last_name, &member.email)),
            amount: amount_words(row, view.company.currency),
            badge: transaction_badge(record.kind, row.progress.state),
            has_receipt: row.receipt().is_some_and(|receipt| !receipt.is_lost),
            has_note: !row.note().is_empty(),
        })
    }
}
