//! One month of the account: its balances now, its postings, and the form for files.
//! GET /statements.

use askama::Template;
use axum::extract::Query;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_engine::domain::business_date::date_at;
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::posting::StatementLine;
use cardswitch_engine::store::StoreError;
use cardswitch_engine::store::query::{AccountRow, LineFilter};
use cardswitch_statements::{DAYS_APART_MAX, movement};
use cardswitch_v1::routes::view::View;
use cardswitch_wire::currency::render_currency;
use cardswitch_wire::time::render_date;
use serde::Deserialize;
use uuid::Uuid;

use super::months::Month;
use super::ranges::{Range, ranges};
use crate::choices::Choice;
use crate::faults::Faults;
use crate::frame;
use crate::pager::{Pager, Part};
use crate::rights::{ActingMember, StatementReader};
use crate::words::{day_words, money, zone_words};

/// How many lines of a month are added up for its page; of more the files have the sums.
const SUMMED_LINES_MAX: u64 = 5_000;
/// How many of them at a time.
const SUM_LINES: usize = 1_000;

/// The requested month, as typed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct MonthQuery {
    month: String,
    offset: usize,
}

/// The days of a file, as typed.
#[derive(Clone, Debug)]
pub(super) struct Days {
    /// The first.
    pub(super) start_date: String,
    /// The last.
    pub(super) end_date: String,
}

#[derive(Template)]
#[template(path = "statements/page.html")]
struct MonthContent<'a> {
    company: Uuid,
    account: String,
    currency: String,
    zone: String,
    figures: Vec<StatementFigure>,
    month: String,
    months: Vec<Choice>,
    earlier: Option<String>,
    later: Option<String>,
    sums: Option<[String; 2]>,
    rows: Vec<StatementRow>,
    pager: Pager,
    ranges: Vec<Range>,
    days: Days,
    faults: &'a Faults,
    days_max: i32,
}

struct StatementFigure {
    name: &'static str,
    value: String,
    more: &'static str,
}

struct StatementRow {
    number: u64,
    day: String,
    exact_day: String,
    description: String,
    transaction: String,
    amount: String,
    is_credit: bool,
}

/// The data of a month's page.
struct StatementMonth {
    account: AccountRow,
    rows: Vec<StatementRow>,
    count: u64,
    sums: Option<[Minor; 2]>,
}

/// GET /statements.
pub(super) async fn show_month(
    StatementReader(acting): StatementReader,
    Query(asked): Query<MonthQuery>,
) -> Result<Response, ApiError> {
    let part = Part { offset: asked.offset };
    let month = Month::parse(asked.month.trim());
    let faults = match (&month, asked.month.trim()) {
        (None, text) if !text.is_empty() => Faults::alert_only("Choose a month."),
        _ => Faults::default(),
    };
    month_page(&acting, (month, part), (None, &faults)).await
}

/// The page of a month, the present one where there is none.
pub(super) async fn month_page(
    acting: &ActingMember,
    (asked, part): (Option<Month>, Part),
    (days, faults): (Option<Days>, &Faults),
) -> Result<Response, ApiError> {
    let company = &acting.company;
    let today = acting.state.today(company);
    let newest = Month::of(today);
    let month = asked.unwrap_or(newest);
    let found = acting.read(|view| read_month(view, month, part)).await?;
    let AccountRow { account, .. } = &found.account;
    let made_on = date_at(company.zone, account.created_at);
    let oldest = Month::of(made_on);
    let amount = |minor| money(minor, account.currency);
    let path = |month: Month| format!("/statements?month={}", month.text());
    let text = month.text();
    let filters = [("month", text.as_str())];
    let content = MonthContent {
        company: company.id.0,
        account: format!("{} {}", account.name, account.number),
        currency: render_currency(account.currency),
        zone: zone_words(company.zone),
        figures: figures(&found.account),
        month: month.words(),
        months: Month::between(oldest, newest).into_iter().map(|one| choice(one, month)).collect(),
        earlier: (month.first.0 > oldest.first.0).then(|| path(month.before())),
        later: (month.first.0 < newest.first.0).then(|| path(month.after())),
        sums: found.sums.map(|[credits, debits]| [credits, -debits].map(amount)),
        pager: Pager::new(part, found.rows.len(), found.count, "/statements", &filters),
        rows: found.rows,
        ranges: ranges(month, made_on, today),
        days: days.unwrap_or_else(|| Days {
            start_date: render_date(month.first),
            end_date: render_date(month.last()),
        }),
        faults,
        days_max: DAYS_APART_MAX + 1,
    };
    Ok(frame::page("Statements", content))
}

fn choice(month: Month, shown: Month) -> Choice {
    Choice { value: month.text(), label: month.words(), is_chosen: month == shown }
}

fn figures(AccountRow { account, balances }: &AccountRow) -> Vec<StatementFigure> {
    let figure =
        |name, minor, more| StatementFigure { name, value: money(minor, account.currency), more };
    let mut figures = vec![
        figure("Ledger balance", balances.ledger, "Posted balance"),
        figure("Available", balances.available_balance(), "After holds and pending transfers"),
        figure("Held", balances.held, "Pending purchases"),
    ];
    if account.credit_limit.is_positive() {
        let credit = balances.available_credit(account.credit_limit);
        figures.push(figure("With credit", credit, "Available to spend"));
    }
    if balances.credits_in_transit.is_positive() {
        figures.push(figure(
            "Incoming transfers",
            balances.credits_in_transit,
            "transfers to the account",
        ));
    }
    figures
}

/// The account of the company.
/// Errors: it has none, which no company is without.
pub(super) fn account_of(view: &View<'_>) -> Result<AccountRow, StoreError> {
    let accounts = view.snapshot.accounts(view.company.slot)?;
    accounts.into_iter().next().ok_or_else(|| StoreError::Inconsistent {
        what: format!("company {} has no account", view.company.slot.0),
    })
}

fn read_month(view: &View<'_>, month: Month, part: Part) -> Result<StatementMonth, StoreError> {
    let account = account_of(view)?;
    let filter =
        LineFilter { from: Some(month.first), to: Some(month.last()), ..LineFilter::default() };
    let slot = account.account.slot;
    let listed = view.snapshot.list_statement_lines(slot, &filter, &part.page())?;
    let sums = if listed.count <= SUMMED_LINES_MAX { sums(view, &account, &filter)? } else { None };
    let rows = listed.rows.iter().map(|line| StatementRow::of(line, view));
    Ok(StatementMonth { rows: rows.collect::<Result<_, _>>()?, count: listed.count, sums, account })
}

/// The sums of incoming and of outgoing amounts; none where one is beyond what an amount can be.
fn sums(
    view: &View<'_>,
    account: &AccountRow,
    filter: &LineFilter,
) -> Result<Option<[Minor; 2]>, StoreError> {
    let mut span = view.snapshot.line_span(account.account.slot, filter)?;
    let mut sums = [Minor::ZERO; 2];
    loop {
        let lines = view.snapshot.next_lines(&mut span, SUM_LINES)?;
        if lines.is_empty() {
            return Ok(Some(sums));
        }
        for line in lines {
            let sum = &mut sums[usize::from(!line.amount.is_positive())];
            let Some(beyond) = sum.0.checked_add(line.amount.0) else { return Ok(None) };
            *sum = Minor(beyond);
        }
    }
}

impl StatementRow {
    fn of(line: &StatementLine, view: &View<'_>) -> Result<Self, StoreError> {
        let origin = view.snapshot.transaction(line.transaction)?.ok_or_else(|| {
            let what = format!("statement line {} comes from no transaction", line.seq.0);
            StoreError::Inconsistent { what }
        })?;
        let description = match line.description.trim() {
            "" => movement(origin.record.kind, line.amount).to_owned(),
            text => text.to_owned(),
        };
        Ok(Self {
            number: line.number,
            day: day_words(line.posted_on),
            exact_day: render_date(line.posted_on),
            description,
            transaction: origin.record.id.0.to_string(),
            amount: money(line.amount, view.company.currency),
            is_credit: line.amount.is_positive(),
        })
    }
}
