//! Statement files of an account. Source: spec "Accounts and statements".

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use cardswitch_engine::domain::ids::AccountId;

use super::input::ListQuery;
use crate::auth::ReadAccess;
use crate::error::ApiError;
use crate::state::AppState;
use crate::statements::{
    CsvStatement, DateRange, Export, OfxStatement, PDF_LINES_MAX, PdfStatement, StatementBody,
};
use crate::wire::fields;
use crate::wire::time::render_date;

/// What a statement can be had as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Csv,
    Ofx,
    Pdf,
}

impl Format {
    /// The format in the last part of the path.
    fn parse(file: &str) -> Option<Self> {
        match file.strip_prefix("statement.")? {
            "csv" => Some(Self::Csv),
            "ofx" => Some(Self::Ofx),
            "pdf" => Some(Self::Pdf),
            _ => None,
        }
    }

    const fn extension(self) -> &'static str {
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

/// GET /v1/accounts/:account_id/statement.<format>
pub async fn get_statement(
    State(state): State<AppState>,
    ReadAccess(caller): ReadAccess,
    Path((account, file)): Path<(String, String)>,
    ListQuery { mut query, .. }: ListQuery,
) -> Result<Response, ApiError> {
    let format = Format::parse(&file).ok_or_else(ApiError::not_found)?;
    let account = fields::parse_id(&account).ok_or_else(ApiError::not_found)?;
    let dates = DateRange::parse(&mut query);
    query.finish()?;
    let period = dates.of_statement(state.today(&caller.company))?;
    let export = Export::prepare(&state, &caller, AccountId(account), period).await?;
    let export = export.ok_or_else(ApiError::not_found)?;
    let disposition = disposition(&export, format);
    let body = match format {
        Format::Csv => Body::new(StatementBody::new(CsvStatement::new(export))),
        Format::Ofx => Body::new(StatementBody::new(OfxStatement::new(export))),
        Format::Pdf if export.lines_left() > PDF_LINES_MAX => {
            return Err(ApiError::statement_too_long(PDF_LINES_MAX));
        }
        Format::Pdf => Body::from(PdfStatement::new(export).draw().await?),
    };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(format.content_type())),
        (header::CONTENT_DISPOSITION, disposition),
    ];
    Ok((headers, body).into_response())
}

/// What browsers save the file as.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_three_and_nothing_else() {
        let rows = [
            ("statement.csv", Some(Format::Csv)),
            ("statement.ofx", Some(Format::Ofx)),
            ("statement.pdf", Some(Format::Pdf)),
            ("statement.CSV", None),
            ("statement.xlsx", None),
            ("statement.", None),
            ("statement", None),
            ("statement.csv.pdf", None),
            ("other.csv", None),
        ];
        for (file, expected) in rows {
            assert_eq!(Format::parse(file), expected, "{file}");
        }
    }
}
