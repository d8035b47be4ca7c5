//! The overview as an event stream. GET /overview/live.
//!
//! Each message is one JSON object with the figures of the page; a comment now and then keeps
//! proxies from hanging up. A stream ends with the session and the right that it was opened with.
//! The page gets a last event then, and does not come again by itself.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::Query;
use axum::http::header::{CONTENT_TYPE, HeaderName};
use axum::response::{IntoResponse, Response};
use cardswitch_edge::error::ApiError;
use cardswitch_edge::lasting_access::LastingAccess;
use futures_util::stream;
use tokio::sync::watch;

use super::live::{FeedMessage, LiveOverviews, LivePlace};
use crate::rights::{CompanyQuery, CompanyReader, Right};

/// How often something is said where nothing is new.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// The time to come back after when there is no room. Units: seconds.
const FULL_RETRY_S: u32 = 30;

/// The last event: the page does not come again.
const END: &str = "event: end\ndata: {}\n\n";

/// GET /overview/live.
pub(super) async fn follow(
    Extension(overviews): Extension<Arc<LiveOverviews>>,
    CompanyReader(acting): CompanyReader,
    Query(of): Query<CompanyQuery>,
) -> Result<Response, ApiError> {
    if !of.is_current(&acting) {
        return Ok((headers(), END).into_response());
    }
    let place = overviews.enter(acting.session.user.id);
    let place = place.ok_or_else(|| ApiError::too_many_requests(FULL_RETRY_S))?;
    let mut news = overviews.follow(&acting.state, &acting.company)?;
    // The present figures are the first message.
    news.mark_changed();
    let access = acting.lasting_access(Right::SeeCompany);
    let follower = StreamFollower { news, access, has_ended: false, _place: place };
    let messages = stream::unfold(follower, |mut follower| async move {
        let message = follower.next_message().await?;
        Some((Ok::<_, Infallible>(message), follower))
    });
    Ok((headers(), Body::from_stream(messages)).into_response())
}

const fn headers() -> [(HeaderName, &'static str); 1] {
    [(CONTENT_TYPE, "text/event-stream")]
}

/// A reader of a stream, and the place that it takes meanwhile.
struct StreamFollower {
    news: watch::Receiver<FeedMessage>,
    access: LastingAccess,
    /// Whether the end was sent.
    has_ended: bool,
    _place: LivePlace,
}

impl StreamFollower {
    /// The next message; none behind the last one, and where the switch stops.
    async fn next_message(&mut self) -> Option<String> {
        if self.has_ended {
            return None;
        }
        let news = tokio::time::timeout(HEARTBEAT, self.news.changed());
        match self.access.during(news).await {
            Some(Ok(Ok(()))) => Some(format!("data: {}\n\n", &*self.news.borrow_and_update())),
            Some(Ok(Err(_))) => None,
            Some(Err(_)) => Some(": still here\n\n".to_owned()),
            None => {
                self.has_ended = true;
                Some(END.to_owned())
            }
        }
    }
}
