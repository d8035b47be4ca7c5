//! Statement files: an account's lines over some days as CSV, OFX or PDF.
//!
//! `dates` says which days, `export` reads their lines in pages, `csv`, `ofx` and `pdf` write them,
//! `body` hands what streams to the connection.
//!
//! INVARIANT: in every format the opening balance and the lines add up to the closing balance: the
//! last number is fixed before the first page is read, and lines never change.
//! What must not live here: HTTP beyond the body, access, business rules.

mod body;
mod csv;
mod dates;
mod export;
pub mod ofx;
mod pdf;

pub use body::{StatementBody, WhileAllowed};
pub use csv::CsvStatement;
pub use dates::{DAYS_APART_MAX, DateRange, Period};
pub use export::movement;
pub use export::{Entry, Export};
pub use ofx::OfxStatement;
pub use pdf::{PDF_LINES_MAX, PdfStatement};

use bytes::Bytes;
use cardswitch_engine::store::StoreError;

use cardswitch_edge::error::ApiError;

/// Why a statement could not be written.
#[derive(Debug)]
pub enum StatementError {
    /// The tables cannot be read.
    Store(StoreError),
    /// A row of the CSV file cannot be written.
    Csv(::csv::Error),
    /// An element of the OFX file cannot be written.
    Xml(std::io::Error),
    /// The access of the caller ended meanwhile.
    AccessEnded,
    /// The document cannot be drawn.
    Pdf {
        /// What failed.
        what: String,
    },
}

impl std::fmt::Display for StatementError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Store(error) => error.fmt(formatter),
            Self::Csv(error) => write!(formatter, "cannot write a row of a statement: {error}"),
            Self::Xml(error) => write!(formatter, "cannot write a statement as XML: {error}"),
            Self::AccessEnded => formatter.write_str("whoever reads it may not see it any more"),
            Self::Pdf { what } => write!(formatter, "cannot draw a statement: {what}"),
        }
    }
}

impl std::error::Error for StatementError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Store(error) => Some(error),
            Self::Csv(error) => Some(error),
            Self::Xml(error) => Some(error),
            Self::AccessEnded | Self::Pdf { .. } => None,
        }
    }
}

impl From<StoreError> for StatementError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<StatementError> for ApiError {
    fn from(error: StatementError) -> Self {
        Self::internal(&error)
    }
}

/// Writes a statement piece by piece; one piece is what one short look at the tables gives.
pub trait StatementWriter: Send + 'static {
    /// The next piece; none at the end.
    /// Errors: the tables cannot be read, or what they say cannot be written.
    fn next_piece(&mut self) -> Result<Option<Bytes>, StatementError>;
}
