//! Statement files: an account's lines over some days as CSV, OFX or PDF.
//!
//! `dates` has the days, `export` reads their lines in pages, `csv`, `ofx` and `pdf` write them.
//!
//! INVARIANT: in every format the opening balance and the lines add up to the closing balance: the
//! last number is fixed before the first page is read, and lines never change.
//! HTTP, access and business rules live elsewhere.

mod csv;
mod dates;
mod export;
pub mod ofx;
mod pdf;

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
#[derive(Debug, thiserror::Error)]
pub enum StatementError {
    /// The tables cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A row of the CSV file cannot be written.
    #[error("cannot write a row of a statement: {0}")]
    Csv(#[source] ::csv::Error),
    /// An element of the OFX file cannot be written.
    #[error("cannot write a statement as XML: {0}")]
    Xml(#[source] std::io::Error),
    /// The document cannot be drawn.
    #[error("cannot draw a statement: {what}")]
    Pdf {
        /// The failure, in words.
        what: String,
    },
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
