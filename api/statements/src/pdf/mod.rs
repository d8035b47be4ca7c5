//! A statement as PDF: a document one would hand to an accountant.
//!
//! `fonts` has the letters, `text` sets them, `layout` fills sheets with rows, `head` is what stands
//! above them, `drawing` puts sheets on paper, `file` and `subset` write PDF. "Page 1 of N" and the totals on the first page need
//! all lines before the first is drawn, so they are read twice: lines never change. Drawing takes a
//! thread for seconds, so it has one of those for blocking work, and few documents are drawn at a
//! time, one of a company.

mod drawing;
mod file;
mod fonts;
mod head;
mod layout;
mod subset;
mod text;

use std::sync::LazyLock;

use cardswitch_edge::company_turns::CompanyTurns;

use self::drawing::Drawing;
use self::fonts::Fonts;
use self::layout::lay_out;
use super::StatementError;
use super::export::Export;

/// How many lines a document may have; its memory grows with them.
pub const PDF_LINES_MAX: u64 = 250_000;
/// How many documents are drawn at a time; others wait.
const DRAWN_AT_ONCE: usize = 2;
/// How many of them are one company's.
const DRAWN_OF_COMPANY_MAX: usize = 1;

static TURNS: LazyLock<CompanyTurns> =
    LazyLock::new(|| CompanyTurns::new(DRAWN_AT_ONCE, DRAWN_OF_COMPANY_MAX));

/// Draws the document.
#[derive(Debug)]
pub struct PdfStatement {
    export: Export,
}

impl PdfStatement {
    /// The document of these lines, `PDF_LINES_MAX` at most.
    pub const fn new(export: Export) -> Self {
        Self { export }
    }

    /// The document as a file.
    /// Errors: the tables cannot be read, or the document cannot be drawn.
    /// Cost: O(lines), time and memory.
    pub async fn draw(self) -> Result<Vec<u8>, StatementError> {
        let failed = |what: String| StatementError::Pdf { what };
        let turn = TURNS.turn(self.export.company.slot).await;
        let turn = turn.ok_or_else(|| failed("turns have ended".to_owned()))?;
        let drawing = tokio::task::spawn_blocking(move || {
            // The thread goes on after its client hangs up, so it keeps its turn until it ends.
            let _turn = turn;
            draw(self.export)
        });
        drawing.await.map_err(|error| failed(error.to_string()))?
    }
}

fn draw(export: Export) -> Result<Vec<u8>, StatementError> {
    let fonts = Fonts::open()?;
    let mut sheets = 0;
    let totals = lay_out(&fonts, export.clone(), |_| sheets += 1)?;
    let mut drawing = Drawing::new(&fonts, &export, totals, sheets);
    lay_out(&fonts, export.clone(), |sheet| drawing.add(&sheet))?;
    drawing.finish()
}
