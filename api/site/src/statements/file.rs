//! A statement as a file. GET /statements/file.
//!
//! The file is that of `/v1` for the same days; the page shows the faults of the days.

use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_statements::{DAYS_APART_MAX, DateRange};
use cardswitch_v1::routes::statements::{Format, statement_file};
use cardswitch_v1::routes::view::Reader;
use cardswitch_wire::fault::{Fault, Flaw};
use cardswitch_wire::query;
use cardswitch_wire::time::render_date;
use serde::Deserialize;

use super::months::Month;
use super::page::{Days, account_of, month_page};
use crate::faults::{Faults, with_status};
use crate::forms::stale_form;
use crate::pager::Part;
use crate::rights::{CompanyQuery, Right, StatementReader};

/// Request.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FileQuery {
    start_date: String,
    end_date: String,
    /// A whole month instead of days, `yyyy-mm`.
    month: String,
    format: String,
}

impl FileQuery {
    /// The same with the days of the month, where one is requested.
    fn with_days(self) -> Self {
        let Some(month) = Month::parse(self.month.trim()) else { return self };
        let (start_date, end_date) = (render_date(month.first), render_date(month.last()));
        Self { start_date, end_date, ..self }
    }
}

/// GET /statements/file.
pub(super) async fn get_file(
    StatementReader(acting): StatementReader,
    Query(of): Query<CompanyQuery>,
    Query(asked): Query<FileQuery>,
) -> Result<Response, ApiError> {
    if !of.is_current(&acting) {
        return Ok(stale_form());
    }
    let format = Format::ALL.into_iter().find(|format| format.extension() == asked.format);
    let format = format.ok_or_else(ApiError::not_found)?;
    let asked = asked.with_days();
    let error = match parse_days(&asked) {
        Ok(dates) => {
            let account = acting.read(account_of).await?.account.id;
            let access = acting.lasting_access(Right::SeeStatements);
            let reader = (Reader::from(&acting), access);
            let file = statement_file(reader, account, (dates, format));
            match file.await {
                Ok(file) => return Ok(file),
                Err(error) => error,
            }
        }
        Err(error) => error,
    };
    let faults = faults_of(error)?;
    let days = Days { start_date: asked.start_date, end_date: asked.end_date };
    let shown = (None, Part::default());
    let page = month_page(&acting, shown, (Some(days), &faults)).await?;
    Ok(with_status(page, StatusCode::BAD_REQUEST))
}

/// The faults of the days, in the words of the form.
fn faults_of(error: ApiError) -> Result<Faults, ApiError> {
    let mut faults = error.faults.to_vec();
    for Fault { flaw, .. } in &mut faults {
        *flaw = match flaw.code {
            "after_end_date" => Flaw::new("after_last_day", "must not be after “To”"),
            "range_too_long" => {
                let message = format!("must be at most {DAYS_APART_MAX} days before “To”");
                Flaw::new("too_early", message)
            }
            _ => continue,
        };
    }
    if faults.is_empty() { Faults::of_refusal(error) } else { Ok(Faults::new(&faults)) }
}

fn parse_days(asked: &FileQuery) -> Result<DateRange, ApiError> {
    let days = [("start_date", &asked.start_date), ("end_date", &asked.end_date)];
    let pairs = days.map(|(name, text)| (name.to_owned(), text.trim().to_owned()));
    let mut query = query::Query::new(pairs.into());
    let dates = DateRange::parse(&mut query, [""; 2]);
    query.finish()?;
    Ok(dates)
}
