//! The overview: what is approved and declined now, what was spent on each day of a month, and why
//! purchases were declined; for who sees all of the company. Others see what is theirs.
//!
//! | file | what |
//! |---|---|
//! | `page` | GET /overview |
//! | `figures` | what is counted, out of quarter hours |
//! | `recent` | what was decided in the last minutes |
//! | `latency` | how long the switch takes |
//! | `shown` | the figures in words, for the page and for what follows it |
//! | `live` | one computation a company and second, for all who watch |
//! | `stream` | GET /overview/live, an event stream |

mod figures;
mod latency;
mod live;
mod page;
mod recent;
mod shown;
mod stream;

use axum::Router;
use axum::routing::get;
use cardswitch_identity::state::AppState;

pub use self::live::{ClusterLine, LiveOverviews};

/// The overview.
pub(super) fn overview_routes() -> Router<AppState> {
    Router::new().route("/overview", get(page::show)).route("/overview/live", get(stream::follow))
}
