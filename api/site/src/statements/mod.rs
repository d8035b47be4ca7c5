//! The postings of a company's account: its balances, its lines by month, and files of them.
//!
//! | file | what |
//! |---|---|
//! | `months` | the months of an account |
//! | `page` | one month of the account |
//! | `ranges` | the most usual days of files |
//! | `file` | a statement to be saved |

mod file;
mod months;
mod page;
mod ranges;

use axum::Router;
use axum::routing::get;

use cardswitch_identity::state::AppState;

/// Balances and lines, and the files.
pub(super) fn statement_routes() -> Router<AppState> {
    Router::new()
        .route("/statements", get(page::show_month))
        .route("/statements/file", get(file::get_file))
}
