//! The overview: what was approved and declined, why, and what was spent on each day of a month; for
//! who sees all of the company. Others see what is theirs.
//!
//! | file | what |
//! |---|---|
//! | `page` | GET /overview |
//! | `figures` | what is counted, out of quarter hours |
//! | `shown` | the figures in words, for the page and for what follows it |
//! | `live` | one computation a company and second, for all who watch |
//! | `stream` | GET /overview/live, an event stream |

mod figures;
mod live;
mod page;
mod shown;
mod stream;

use axum::Router;
use axum::routing::get;
use cardswitch_identity::state::AppState;

pub use self::live::LiveOverviews;

/// The overview.
pub(super) fn overview_routes() -> Router<AppState> {
    Router::new().route("/overview", get(page::show)).route("/overview/live", get(stream::follow))
}
