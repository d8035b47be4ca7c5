//! The overview as an event stream. GET /overview/live.
//!
//! Each message is one JSON object with what the page shows; a comment now and then keeps proxies from
//! hanging up. INVARIANT: a stream ends with the session and the right that it was asked with.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use cardswitch_engine::store::{Snapshot, StoreError};
use hyper::body::Frame;
use tokio::sync::{mpsc, watch};

use super::live::{Place, Told};
use crate::error::ApiError;
use crate::site::rights::{Acting, CompanyReader, Right};
use crate::state::AppState;

/// How often something is said where nothing is new.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// How long a reader may take a message.
const SLOW_MAX: Duration = Duration::from_secs(20);
/// When a client may come again where there is no room. Units: seconds.
const FULL_RETRY_S: u32 = 30;

/// GET /overview/live.
pub(super) async fn follow(
    State(state): State<AppState>,
    CompanyReader(acting): CompanyReader,
) -> Result<Response, ApiError> {
    let place = state.overviews.enter(acting.session.user.id);
    let place = place.ok_or_else(|| ApiError::too_many_requests(FULL_RETRY_S))?;
    let news = state.overviews.follow(&state, &acting.company)?;
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(tell(state, acting, news, Written { sender, _place: place }));
    let headers = [(CONTENT_TYPE, "text/event-stream")];
    Ok((headers, Body::new(Messages(receiver))).into_response())
}

/// Where messages are written, and the place that is taken meanwhile.
struct Written {
    sender: mpsc::Sender<Bytes>,
    _place: Place,
}

impl Written {
    /// Whether the reader took it.
    async fn write(&self, message: String) -> bool {
        let sent = tokio::time::timeout(SLOW_MAX, self.sender.send(message.into())).await;
        matches!(sent, Ok(Ok(())))
    }
}

/// Writes what is new until the session ends, the reader goes, or the switch stops.
async fn tell(state: AppState, acting: Acting, mut news: watch::Receiver<Told>, written: Written) {
    let mut is_new = true;
    while is_still_allowed(&state, &acting).unwrap_or(false) {
        let message = if is_new {
            format!("data: {}\n\n", &*news.borrow_and_update())
        } else {
            ": still here\n\n".to_owned()
        };
        if !written.write(message).await {
            return;
        }
        is_new = tokio::select! {
            changed = tokio::time::timeout(HEARTBEAT, news.changed()) => match changed {
                Ok(Ok(())) => true,
                // The switch stops.
                Ok(Err(_)) => return,
                Err(_) => false,
            },
            () = written.sender.closed() => return,
        };
    }
    // Whoever reads this does not come again by itself.
    written.write("event: end\ndata: {}\n\n".to_owned()).await;
}

/// Whether the session is open and its member still sees the company.
fn is_still_allowed(state: &AppState, acting: &Acting) -> Result<bool, StoreError> {
    let (digest, now) = (acting.session.ticket.digest, state.now());
    state.switch.read_at_once(|snapshot: &Snapshot| {
        let is_open = snapshot.ticket(&digest)?.is_some_and(|ticket| ticket.is_open(now));
        let member = snapshot.member(acting.member.slot)?;
        Ok(is_open
            && member.is_some_and(|member| {
                member.takes_part() && Right::SeeCompany.is_of(member.role, false)
            }))
    })
}

/// Messages as the body of an answer.
struct Messages(mpsc::Receiver<Bytes>);

impl HttpBody for Messages {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let message = self.get_mut().0.poll_recv(context);
        message.map(|message| message.map(|message| Ok(Frame::data(message))))
    }
}
