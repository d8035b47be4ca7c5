//! Idempotency keys on `/v1` and `/scim/v2`: a request that changes something is carried out once for each key of
//! its caller, and every repeat gets the first answer. Source: spec "Authentication", 9.
//!
//! | file | what |
//! |---|---|
//! | `in_flight` | keys of requests under way in this process |
//! | `claim` | the key on its way beside the command it protects |
//! | `answer_source` | the place of the answer to a change that was never answered |
//! | `sealed_answer` | an answer as it is kept |
//! | `form_key` | forms of the site, which are carried out once without a key of a client |
//!
//! 1. A key under way is 409. A kept key answers, or is refused for another request.
//! 2. The handler runs; its command carries the claim (`ActorState::carry_out`), so that the record of
//!    the change holds the key and the place of its answer.
//! 3. The answer is sealed and kept by a second record, and only then sent.
//!
//! A process that dies between 2 and 3 leaves the claim: the repeat is answered with the present
//! GET of the changed object, and that answer is kept.
//!
//! INVARIANT: a client that hangs up changes nothing: 1 to 3 are a task of their own. So what bounds
//! the memory of an upload goes with its request: the turn of its company, taken before it is read.

mod answer_source;
pub mod claim;
pub mod form_key;
mod in_flight;
pub mod sealed_answer;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::idempotency_header::{IDEMPOTENCY_KEY, idempotency_key};
use cardswitch_edge::input::BODY_BYTES_MAX;
use cardswitch_edge::request_body::{read_body, read_upload};
use cardswitch_edge::request_id::answer_of;
use cardswitch_edge::write_error::WriteError;
use cardswitch_engine::command::Command;
use cardswitch_engine::command::keyed_command::{KeyClaim, KeyedCommand};
use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::domain::keyed_answer::{KeyedAnswer, KeyedContent};
use tower::ServiceExt;
use tracing::Instrument;

use self::answer_source::AnswerSource;
pub use self::claim::Claim;
use self::claim::ClaimFate;
use self::in_flight::{InFlightKey, InFlightKeys};
use self::sealed_answer::{AnswerParts, IDEMPOTENT_REPLAYED};
use crate::auth::{Caller, CountedRequest, permit};
use crate::state::AppState;

/// The longest upload with a key: the largest file that is taken, and the form around it.
/// Units: bytes.
const UPLOAD_BYTES_MAX: usize = (10 << 20) + (64 << 10);

/// Who is let in at a group of routes, and how a refusal looks there.
#[derive(Clone, Copy, Debug)]
pub struct RouteManners {
    /// The caller of a request.
    /// Errors: the answer to a caller without access.
    pub permit: fn(&Parts, &AppState) -> Result<Caller, Box<Response>>,
    /// The answer to a request that failed.
    pub refuse: fn(ApiError) -> Response,
    /// The paths that take longer bodies than others, with their bounds. Units: bytes.
    pub long_bodies: &'static [(&'static str, usize)],
}

impl RouteManners {
    /// Those of `/v1`.
    pub const V1: Self = Self { permit, refuse: ApiError::into_response, long_bodies: &[] };

    /// The longest body that the path of a request takes. Units: bytes.
    fn body_bytes_max(&self, parts: &Parts) -> usize {
        let path = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
        let long = self.long_bodies.iter().find(|(long, _)| *long == path);
        long.map_or(BODY_BYTES_MAX, |(_, bytes_max)| *bytes_max)
    }
}

/// Has the routes carry out each request that comes with a key once.
pub fn once_per_key(
    routes: Router<AppState>,
    state: AppState,
    manners: RouteManners,
) -> Router<AppState> {
    let shown = routes.clone().with_state(state.clone());
    let desk = IdempotencyDesk { state, routes: shown, manners, in_flight: Arc::default() };
    routes.route_layer(middleware::from_fn_with_state(desk, take))
}

/// The desk of requests with a key.
#[derive(Clone)]
struct IdempotencyDesk {
    state: AppState,
    /// The routes without keys: their GET is the answer to a repeat.
    routes: Router,
    manners: RouteManners,
    in_flight: Arc<InFlightKeys>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct KeyedRequest {
    key: [u8; 32],
    request: [u8; 32],
}

async fn take(State(desk): State<IdempotencyDesk>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    if !takes_key(&parts) || !parts.headers.contains_key(IDEMPOTENCY_KEY) {
        return next.run(Request::from_parts(parts, body)).await;
    }
    // Who has no access, or asks too often, is refused before the body comes.
    let caller = match (desk.manners.permit)(&parts, &desk.state) {
        Ok(caller) => caller,
        Err(refusal) => return *refusal,
    };
    parts.extensions.insert(CountedRequest);
    let refuse = desk.manners.refuse;
    let answered = desk.take(&caller, parts, body, next).await;
    answered.unwrap_or_else(refuse)
}

/// Requests that change something. The others show the same however often they are asked.
fn takes_key(parts: &Parts) -> bool {
    let is_search = parts.uri.path().ends_with("/.search");
    let methods = [Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    methods.contains(&parts.method) && !is_search
}

/// Whether the body of a request is a file.
fn is_upload(parts: &Parts) -> bool {
    parts.method == Method::POST && parts.uri.path().ends_with("/receipt")
}

/// Answers that say nothing of the request itself: a repeat is carried out. A scope that is too
/// small says nothing either, and its caller is to use up no keys of the company.
fn is_kept(status: StatusCode) -> bool {
    ![
        StatusCode::UNAUTHORIZED,
        StatusCode::FORBIDDEN,
        StatusCode::PRECONDITION_FAILED,
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::SERVICE_UNAVAILABLE,
    ]
    .contains(&status)
}

impl IdempotencyDesk {
    async fn take(
        self,
        caller: &Caller,
        mut parts: Parts,
        body: Body,
        next: Next,
    ) -> Result<Response, ApiError> {
        let Some(key) = idempotency_key(&parts.headers)? else {
            return Ok(next.run(Request::from_parts(parts, body)).await);
        };
        let (keys, holder) = (&self.state.secrets.idempotency, (caller.token, caller.scope));
        let key = keys.name(caller.company.id, holder, key);
        let body = self.read(caller, &mut parts, body).await?;
        let target = parts.uri.path_and_query().map_or("", |target| target.as_str());
        let request = keys.request_hash(parts.method.as_str(), target, &body);
        let asked = KeyedRequest { key, request };
        let under_way =
            self.in_flight.enter(key).ok_or_else(ApiError::idempotency_key_in_flight)?;
        let request = Request::from_parts(parts, Body::from(body));
        let work = self.answer(asked, request, next, under_way).in_current_span();
        tokio::spawn(work)
            .await
            .unwrap_or_else(|_| Err(ApiError::internal(&"a request with a key broke off")))
    }

    /// Reads the body of a request. A file comes in a turn of its company, which goes with the
    /// request and ends with it.
    async fn read(
        &self,
        caller: &Caller,
        parts: &mut Parts,
        body: Body,
    ) -> Result<Bytes, ApiError> {
        if !is_upload(parts) {
            return read_body(body, self.manners.body_bytes_max(parts)).await;
        }
        let turn = self.state.receipts.turn(caller.company.slot).await;
        parts.extensions.insert(Arc::new(turn.ok_or_else(ApiError::busy)?));
        read_upload(body, UPLOAD_BYTES_MAX).await
    }

    async fn answer(
        self,
        asked: KeyedRequest,
        mut request: Request,
        next: Next,
        _under_way: InFlightKey,
    ) -> Result<Response, ApiError> {
        if let Some(known) = find_answer(&self.state, &asked.key)? {
            let (parts, _) = request.into_parts();
            // Access may have ended while the body came.
            if let Err(refusal) = (self.manners.permit)(&parts, &self.state) {
                return Ok(*refusal);
            }
            return self.replay(&asked, known, parts.headers.get(AUTHORIZATION).cloned()).await;
        }
        let claim = Arc::new(Claim::new(asked.key, asked.request, &request));
        request.extensions_mut().insert(Arc::clone(&claim));
        let response = answer_of(next.run(request)).await;
        // A refused claim belongs to another answer; of an unknown outcome there is none yet.
        let is_open = matches!(claim.fate(), ClaimFate::Waiting | ClaimFate::Made);
        if !is_open || !is_kept(response.status()) {
            return Ok(response);
        }
        let answer = AnswerParts::of(response).await?;
        if !(claim.fate() == ClaimFate::Waiting && answer.is_long()) {
            self.keep(&asked, &answer).await?;
        }
        Ok(answer.into_response())
    }

    async fn replay(
        &self,
        asked: &KeyedRequest,
        known: KeyedAnswer,
        authorization: Option<HeaderValue>,
    ) -> Result<Response, ApiError> {
        if known.request != asked.request {
            return Err(ApiError::idempotency_key_reused());
        }
        let answer = match &known.content {
            KeyedContent::Body(sealed) => {
                let plain = self.state.secrets.idempotency.open(&known, sealed);
                plain.and_then(|plain| AnswerParts::unpack(known.status, &plain))
            }
            KeyedContent::Object { path } => {
                let answer = match self.show(known.status, path, authorization).await {
                    Ok(answer) => answer,
                    // Its time will come: nothing is kept of this.
                    Err(response) => return Ok(*response),
                };
                self.keep(asked, &answer).await?;
                Some(answer)
            }
        };
        let answer = answer
            .ok_or_else(|| ApiError::internal(&"a kept answer is sealed with another key"))?;
        let mut response = answer.into_response();
        response.headers_mut().insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
        Ok(response)
    }

    /// The answer to a change that was made and never answered: the object as its caller sees it
    /// now.
    /// Errors: the answer of a GET that could not be carried out.
    async fn show(
        &self,
        status: u16,
        text: &str,
        authorization: Option<HeaderValue>,
    ) -> Result<AnswerParts, Box<Response>> {
        let shown = match AnswerSource::parse(text) {
            AnswerSource::Nothing => None,
            AnswerSource::Object(path) => self.get(path, &authorization).await?,
            AnswerSource::Member(path, name) => {
                let whole = self.get(path, &authorization).await?;
                whole.and_then(|whole| whole.member(name))
            }
            AnswerSource::Results(paths) => {
                let mut results = Vec::new();
                for path in paths {
                    results.extend(self.get(path, &authorization).await?);
                }
                Some(AnswerParts::of_results(&results))
            }
        };
        let shown = shown.map(|shown| shown.with_status(status));
        Ok(shown.unwrap_or_else(|| AnswerParts::without_content(status)))
    }

    /// The answer of a GET; none where the object is not there: it was deleted since.
    /// Errors: any other answer.
    async fn get(
        &self,
        path: &str,
        authorization: &Option<HeaderValue>,
    ) -> Result<Option<AnswerParts>, Box<Response>> {
        let get = Request::get(path).body(Body::empty());
        let mut get = get.map_err(|error| ApiError::internal(&error).into_response())?;
        get.headers_mut().extend(authorization.clone().map(|value| (AUTHORIZATION, value)));
        get.extensions_mut().insert(CountedRequest);
        let shown = self.routes.clone().oneshot(get).await.unwrap_or_else(|never| match never {});
        match shown.status() {
            StatusCode::OK => {
                let answer = AnswerParts::of(shown).await;
                Ok(Some(answer.map_err(IntoResponse::into_response)?))
            }
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => Ok(None),
            _ => Err(shown.into()),
        }
    }

    /// Keeps an answer, and waits until it is there for repeats.
    /// Errors: it cannot be kept, so it must not be given.
    async fn keep(&self, asked: &KeyedRequest, answer: &AnswerParts) -> Result<(), ApiError> {
        let sealed = self.state.secrets.idempotency.seal(&answer.name(asked), &answer.pack());
        let sealed = sealed.map_err(|error| ApiError::internal(&error))?;
        if sealed.len() > cardswitch_engine::limits::KEYED_ANSWER_BYTES_MAX {
            // The claim stays, and a repeat is shown the object.
            return Ok(());
        }
        keep_content(&self.state, asked, answer.status(), KeyedContent::Body(sealed)).await
    }
}

/// The answer kept under a key, unless it has expired. Its keeper waited until it shows here; if it did
/// not in time, the shard knows the key.
fn find_answer(state: &AppState, key: &[u8; 32]) -> Result<Option<KeyedAnswer>, ApiError> {
    let found = state.switch.read_at_once(|snapshot| snapshot.keyed_answer(key))?;
    Ok(found.filter(|known| known.expires_at > state.now()))
}

/// Keeps the content of an answer, and waits until it is there for repeats.
/// Errors: it cannot be kept.
async fn keep_content(
    state: &AppState,
    asked: &KeyedRequest,
    status: u16,
    content: KeyedContent,
) -> Result<(), ApiError> {
    let claim = KeyClaim { key: asked.key, request: asked.request, status, content };
    let command = Command::Keyed(Box::new(KeyedCommand { claim, change: None, note: None }));
    let reply = state.switch.ask(command.into()).await?;
    match reply {
        // Durable; if the tables are late, the shard knows the key.
        Reply::Done(seq) => {
            state.switch.visible(seq).await;
            Ok(())
        }
        Reply::Rejected(rejection) => Err(WriteError::Rejected(rejection).into()),
        Reply::OutcomeUnknown | Reply::Network(_) | Reply::Ticked => {
            Err(ApiError::outcome_unknown())
        }
    }
}
