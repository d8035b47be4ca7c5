//! The overview: present approvals and declines, authorized amounts by day of a month, and the causes of
//! declines; for visitors who see the whole company. Others see their own purchases and cards.
//!
//! | file | what |
//! |---|---|
//! | `page` | GET /overview |
//! | `figures` | the figures, out of quarter hours |
//! | `recent_decisions` | the decisions of the last minutes |
//! | `latency` | how long the switch takes |
//! | `figure_words` | the figures in words, for the page and for the stream after it |
//! | `live` | one computation a company and second, for all watchers |
//! | `stream` | GET /overview/live, an event stream |

mod figure_words;
mod figures;
mod latency;
mod live;
mod page;
mod recent_decisions;
mod stream;

use axum::Router;
use axum::routing::get;
use cardswitch_identity::state::AppState;

pub use self::live::{ClusterLine, LiveOverviews};

pub(super) fn overview_routes() -> Router<AppState> {
    Router::new().route("/overview", get(page::show)).route("/overview/live", get(stream::follow))
}
