//! Statement files of an account. Source: spec "Accounts and statements".

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::{Answer, ListQuery, PathId};
use cardswitch_edge::lasting_access::LastingAccess;
use cardswitch_edge::lasting_file::lasting_file;
use cardswitch_engine::domain::ids::AccountId;
use cardswitch_identity::auth::Call;
use cardswitch_statements::{
    CsvStatement, DateRange, Export, OfxStatement, PDF_LINES_MAX, PdfStatement, StatementError,
    StatementWriter,
};
use cardswitch_wire::queries;
use cardswitch_wire::query::Query;
use cardswitch_wire::time::render_date;

use super::view::Reader;
use crate::words;

/// The file format of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A row a line.
    Csv,
    /// For accounting programs.
    Ofx,
    /// For people.
    Pdf,
}

impl Format {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Csv, Self::Ofx, Self::Pdf];

    /// How the names of its files end.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Ofx => "ofx",
            Self::Pdf => "pdf",
        }
    }

    const fn content_type(self) -> &'static str {
        match self {
            Self::Csv => "text/csv; charset=utf-8; header=present",
            Self::Ofx => "application/x-ofx",
            Self::Pdf => "application/pdf",
        }
    }
}

queries! {
    /// The days of a statement.
    StatementDays |query| _ = parse_days(query);
}

fn parse_days(query: &mut Query) -> DateRange {
    let start = "The first day; the first of the last day's month where there is none.";
    let end = "The last day, at most 180 after the first; today where there is none.";
    DateRange::parse(query, [start, end])
}

/// The parts of a request for a statement.
type StatementRequest = (Call, PathId, ListQuery);

/// Download a statement as CSV, a row a line.
#[utoipa::path(
    get, path = "/v1/accounts/{account_id}/statement.csv", params(StatementDays),
    responses((status = 200, body = String, content_type = "text/csv")),
)]
pub async fn get_csv_statement(request: StatementRequest) -> Answer<Response> {
    get_statement(request, Format::Csv).await
}

/// Download a statement as OFX, for accounting programs.
#[utoipa::path(
    get, path = "/v1/accounts/{account_id}/statement.ofx", params(StatementDays),
    responses((status = 200, body = String, content_type = "application/x-ofx")),
)]
pub async fn get_ofx_statement(request: StatementRequest) -> Answer<Response> {
    get_statement(request, Format::Ofx).await
}

/// Download a statement as PDF, for people.
#[utoipa::path(
    get, path = "/v1/accounts/{account_id}/statement.pdf", params(StatementDays),
    responses((status = 200, body = words::File, content_type = "application/pdf")),
)]
pub async fn get_pdf_statement(request: StatementRequest) -> Answer<Response> {
    get_statement(request, Format::Pdf).await
}

async fn get_statement(
    (call, PathId(account), ListQuery { mut query, .. }): StatementRequest,
    format: Format,
) -> Answer<Response> {
    let dates = parse_days(&mut query);
    query.finish()?;
    let access = call.1.lasting_access(&call.0.switch);
    statement_file(((&call).into(), access), AccountId(account), (dates, format)).await
}

/// The statement of an account of a company over these days, as a file to be saved.
/// Errors: the days are no period, there is no such account, or it cannot be written.
pub async fn statement_file(
    (reader, mut access): (Reader<'_>, LastingAccess),
    account: AccountId,
    (dates, format): (DateRange, Format),
) -> Result<Response, ApiError> {
    let period = dates.of_statement(reader.state.today(reader.company))?;
    let export = Export::prepare(&reader.state.switch, reader.company, account, period).await?;
    let export = export.ok_or_else(ApiError::not_found)?;
    let disposition = disposition(&export, format);
    let body = match format {
        Format::Csv => body_of(CsvStatement::new(export), access),
        Format::Ofx => body_of(OfxStatement::new(export), access),
        Format::Pdf if export.lines_left() > PDF_LINES_MAX => {
            return Err(ApiError::statement_too_long(PDF_LINES_MAX));
        }
        Format::Pdf => {
            let drawn = access.during(PdfStatement::new(export).draw()).await;
            Body::from(drawn.ok_or_else(ApiError::unauthorized)??)
        }
    };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(format.content_type())),
        (header::CONTENT_DISPOSITION, disposition),
    ];
    Ok((headers, body).into_response())
}

fn body_of<W: StatementWriter>(writer: W, access: LastingAccess) -> Body {
    lasting_file("a statement", (writer, access), |mut writer| async move {
        let piece = writer.next_piece()?;
        Ok::<_, StatementError>(piece.map(|piece| (piece, writer)))
    })
}

/// The file name under which browsers save the statement.
fn disposition(export: &Export, format: Format) -> HeaderValue {
    let name = format!(
        "statement-{}-{}-to-{}.{}",
        export.account.number,
        render_date(export.period.start),
        render_date(export.period.end),
        format.extension()
    );
    let text = format!("attachment; filename=\"{name}\"");
    // INVARIANT: digits, dates and an extension are a header's characters.
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("attachment"))
}
