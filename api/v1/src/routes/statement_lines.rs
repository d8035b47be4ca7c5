//! Statement lines: every posted settlement of an account, for ever as it was written.
//! Source: spec "Accounts and statements".

use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::{Answer, ListQuery, PathId, PathIds};
use cardswitch_edge::json::Json;
use cardswitch_engine::domain::ids::{AccountId, StatementLineId};
use cardswitch_engine::domain::posting::StatementLine;
use cardswitch_engine::store::StoreError;
use cardswitch_engine::store::query::LineFilter;
use cardswitch_identity::auth::Call;
use cardswitch_statements::DateRange;
use cardswitch_wire::amount::Amount;
use cardswitch_wire::page::{Listing, PageParameters, describe_ordering, envelope, parse_page};
use cardswitch_wire::queries;
use cardswitch_wire::query::Query;
use cardswitch_wire::reference::{CardReference, DimensionReference, MemberReference};
use cardswitch_wire::time::{render_date, render_time};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::receipts::ReceiptBody;
use super::transactions::{BankAccountBody, MerchantBody, TransactionBody};
use super::view::{View, read_view};
use crate::words;

/// A statement line as responses show it. Source: spec "Statement line".
#[derive(Debug, Serialize, ToSchema)]
pub struct StatementLineBody {
    id: Uuid,
    url: String,
    amount: Amount,
    description: String,
    card: Option<CardReference>,
    member: Option<MemberReference>,
    origin: OriginBody,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    bank_account: Option<BankAccountBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    merchant: Option<MerchantBody>,
    date: String,
    time: String,
    number: u64,
    created_at: String,
}

/// The transaction a line comes from, in short. Several lines may share one.
#[derive(Debug, Serialize, ToSchema)]
pub struct OriginBody {
    id: Uuid,
    url: String,
    amount: Amount,
    #[schema(value_type = words::TransactionState)]
    state: &'static str,
    category: Option<DimensionReference>,
    department: Option<DimensionReference>,
    label: Option<DimensionReference>,
    location: Option<DimensionReference>,
    receipt: Option<ReceiptBody>,
    note: String,
    time: String,
}

impl StatementLineBody {
    /// The line as it is shown.
    /// Errors: an object that it refers to cannot be read.
    pub fn new(
        line: &StatementLine,
        account: AccountId,
        view: &View<'_>,
    ) -> Result<Self, StoreError> {
        let origin = view.snapshot.transaction(line.transaction)?.ok_or_else(|| no_origin(line))?;
        let mut origin = TransactionBody::new(&origin, view)?;
        let (bank_account, merchant) = (origin.bank_account.take(), origin.merchant.take());
        let merchant = line.merchant.as_deref().map(MerchantBody::new).or(merchant);
        Ok(Self {
            id: line.id.0,
            url: view.urls.path(&line_path(account, line.id)),
            amount: Amount::new(line.amount, view.company.currency),
            description: line.description.clone(),
            card: view.card_reference(line.card)?,
            member: view.member_reference(line.member)?,
            origin: OriginBody::new(origin),
            bank_account,
            merchant,
            date: render_date(line.posted_on),
            time: render_time(line.posted_at),
            number: line.number,
            created_at: render_time(line.posted_at),
        })
    }
}

impl OriginBody {
    fn new(transaction: TransactionBody) -> Self {
        Self {
            id: transaction.id,
            url: transaction.url,
            amount: transaction.amount,
            state: transaction.state,
            category: transaction.category,
            department: transaction.department,
            label: transaction.label,
            location: transaction.location,
            receipt: transaction.receipt,
            note: transaction.note,
            time: transaction.time,
        }
    }
}

fn no_origin(line: &StatementLine) -> StoreError {
    let what = format!("statement line {} comes from no transaction", line.seq.0);
    StoreError::Inconsistent { what }
}

fn line_path(account: AccountId, line: StatementLineId) -> String {
    format!("/v1/accounts/{}/statement-lines/{}", account.0, line.0)
}

queries! {
    /// The filters of a list of statement lines.
    StatementLineFilters |query| _ = parse_filters(query);
}

/// The filters of GET /v1/accounts/:account_id/statement-lines.
fn parse_filters(query: &mut Query) -> (DateRange, LineFilter) {
    let dates = DateRange::parse(
        query,
        [
            "Posted on this day or later, in the company's zone.",
            "Posted on this day or earlier; at most 180 days after `start_date`.",
        ],
    );
    let mut number = |name, about| query.whole_number(name, about).map(|number| number as u64);
    let filter = LineFilter {
        number: number("number", "With exactly this number."),
        number_above: number("number__gt", "With a number above this one."),
        number_below: number("number__lt", "With a number below this one."),
        ..LineFilter::default()
    };
    describe_ordering(query, "By what the list is ordered.", "number|created_at", "-number");
    (dates, filter)
}

/// List what was posted to an account.
#[utoipa::path(
    get, path = "/v1/accounts/{account_id}/statement-lines",
    params(PageParameters, StatementLineFilters),
    responses((status = 200, body = Listing<StatementLineBody>)),
)]
pub async fn list_statement_lines(
    call: Call,
    PathId(id): PathId,
    ListQuery { mut query, address }: ListQuery,
) -> Answer<Json<Listing<StatementLineBody>>> {
    let Call(state, caller) = &call;
    let page = parse_page(&mut query, &["number", "created_at"]);
    let (dates, numbers) = parse_filters(&mut query);
    query.finish()?;
    let (from, to) = dates.of_list(state.today(&caller.company))?;
    let filter = LineFilter { from, to, ..numbers };
    let listed = read_view(&call, |view| {
        let account = view.snapshot.account_by_id(view.company.slot, AccountId(id))?;
        let Some(account) = account.map(|row| row.account) else { return Ok(None) };
        let found = view.snapshot.list_statement_lines(account.slot, &filter, &page)?;
        Ok(Some(found.load(|line| StatementLineBody::new(&line, account.id, view))?))
    });
    let listed = listed.await?.ok_or_else(ApiError::not_found)?;
    Ok(Json(envelope(listed, &page, &address, state.urls())))
}

/// Retrieve a statement line.
#[utoipa::path(
    get, path = "/v1/accounts/{account_id}/statement-lines/{statement_line_id}",
    responses((status = 200, body = StatementLineBody)),
)]
pub async fn get_statement_line(
    call: Call,
    PathIds(account, line): PathIds,
) -> Answer<Json<StatementLineBody>> {
    let Call(state, _) = &call;
    let id = StatementLineId(line);
    // A forged id is told from a real one without a look-up.
    let seq = state.switch.engine.ids.open_line_id(id).ok_or_else(ApiError::not_found)?;
    let body = read_view(&call, |view| {
        let account = view.snapshot.account_by_id(view.company.slot, AccountId(account))?;
        let line = view.snapshot.statement_line(seq)?;
        let own = account
            .zip(line)
            .filter(|(row, line)| line.account == row.account.slot && line.id == id);
        own.map(|(row, line)| StatementLineBody::new(&line, row.account.id, view)).transpose()
    });
    body.await?.map(Json).ok_or_else(ApiError::not_found)
}
