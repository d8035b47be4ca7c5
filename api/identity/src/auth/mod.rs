//! The caller of a request, and its access. Requests are checked against the table in
//! `operations.rs` before any handler sees them; a handler takes the caller by extractor.
//!
//! A token is looked up by the SHA-256 of its text; nothing here keeps or logs the text itself.

pub mod callers;
pub mod credentials;
pub mod drawn_secret;
pub mod failures;
pub mod lasting_body;
pub mod link_guesses;
pub mod passwords;
pub mod second_factor;
pub mod throttle;
pub mod totp;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::Body;
use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::header::ALLOW;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use cardswitch_edge::bearer::bearer_of;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::lasting_access::LastingAccess;
use cardswitch_edge::required_access::RequiredAccess;
use cardswitch_edge::switch::Switch;
use cardswitch_engine::directory::access_token::AccessScope;
use cardswitch_engine::directory::app::App;
use cardswitch_engine::directory::member::Member;
use cardswitch_engine::domain::audit::Actor;
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::ids::{AccessTokenId, AppId, MemberId};
use cardswitch_engine::store::{Snapshot, StoreError};
use cardswitch_secrets::token_digest;

use self::lasting_body::LastingBody;
use crate::actor_state::ActorState;
use crate::state::AppState;

/// The holder of an access token.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The company whose data the token opens.
    pub company: Arc<Company>,
    /// The token.
    pub token: AccessTokenId,
    /// The scope of the token.
    pub scope: AccessScope,
    /// The member it acts for, where it was given by a member.
    pub member: Option<MemberId>,
    /// The app that holds it, if one does.
    pub app: Option<AppId>,
}

impl Caller {
    /// The access of this caller while an answer waits or is being sent: it ends with the token.
    pub fn lasting_access(&self, switch: &Switch) -> LastingAccess {
        let (company, token) = (self.company.slot, self.token);
        LastingAccess::new(switch, None, move |snapshot| {
            let token = snapshot.access_token_by_id(company, token)?;
            Ok(token.is_some_and(|token| !token.is_revoked))
        })
    }

    /// The caller as an audit names it.
    pub const fn actor(&self) -> Actor {
        Actor::Token { id: self.token, member: self.member }
    }
}

/// Lets a request of `/v1` through to its handler where the table has a row for it and the token
/// the scope. Stands around every route; handlers find the caller with the request.
pub async fn check_access(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    match permit(&parts, &state) {
        Ok(caller) => answer_to(&state, caller, Request::from_parts(parts, body), next).await,
        Err(refusal) => *refusal,
    }
}

/// Has a request answered for its caller, whom handlers find with it. A request whose
/// access ends before its body has come is not carried out.
pub async fn answer_to(
    state: &AppState,
    caller: Caller,
    mut request: Request,
    next: Next,
) -> Response {
    let access = caller.lasting_access(&state.switch);
    request.extensions_mut().insert(caller);
    let (parts, body) = request.into_parts();
    let (body, has_ended) = LastingBody::new(body, access);
    let request = Request::from_parts(parts, Body::new(body));
    let answer = next.run(request).await;
    if has_ended.load(Ordering::Acquire) {
        return ApiError::unauthorized().into_response();
    }
    answer
}

/// The mark of a request that counted already: it is checked once more, or the switch makes it itself
/// to answer another one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountedRequest;

/// Counts a request towards the rate of its token, unless it counted already.
/// Errors: the token has asked too often; when to come back.
pub fn count_request(parts: &Parts, caller: &Caller, state: &AppState) -> Result<(), ApiError> {
    match parts.extensions.get::<CountedRequest>() {
        Some(_) => Ok(()),
        None => check_rate(caller, state),
    }
}

/// The caller of a request, if its token has the scope.
/// Errors: the answer to a caller without access, or to an operation that is not served.
pub fn permit(parts: &Parts, state: &AppState) -> Result<Caller, Box<Response>> {
    let refused = |error: ApiError| Box::new(error.into_response());
    let needed = needed_for(parts, state).ok_or_else(|| Box::new(not_served(parts, state)))?;
    let caller = find_caller(&parts.headers, state).map_err(refused)?;
    count_request(parts, &caller, state).map_err(refused)?;
    match needed.scopes() {
        [first, ..] if !needed.is_met_by(caller.scope) => {
            Err(refused(ApiError::scope_too_small(first)))
        }
        _ => Ok(caller),
    }
}

/// Lets a caller through whose token keeps to its rate.
/// Errors: the token has asked too often; when to come back.
pub fn check_rate(caller: &Caller, state: &AppState) -> Result<(), ApiError> {
    state.token_rate.take(caller.token).map_err(|retry_after_s| {
        let refused = state.token_rate.refused.now();
        if refused.is_power_of_two() {
            tracing::warn!(token = %caller.token.0, refused, "a token asks too often");
        }
        ApiError::too_many_requests(retry_after_s)
    })
}

fn needed_for(parts: &Parts, state: &AppState) -> Option<RequiredAccess> {
    state.access.needed(parts.method.as_str(), matched_path(parts)?)
}

fn matched_path(parts: &Parts) -> Option<&str> {
    parts.extensions.get::<MatchedPath>().map(MatchedPath::as_str)
}

/// The answer to an operation without a row.
fn not_served(parts: &Parts, state: &AppState) -> Response {
    let Some(methods) = matched_path(parts).and_then(|path| state.access.allowed_methods(path))
    else {
        return ApiError::not_found().into_response();
    };
    let mut response = ApiError::method_not_allowed().into_response();
    // INVARIANT: names of methods and commas are a header's characters.
    let methods = HeaderValue::try_from(methods).unwrap_or(HeaderValue::from_static(""));
    response.headers_mut().insert(ALLOW, methods);
    response
}

/// The holder of the token in these headers.
/// Errors: there is none, or it opens nothing; the tables cannot be read.
pub fn find_caller(headers: &HeaderMap, state: &AppState) -> Result<Caller, ApiError> {
    let token = bearer_of(headers).ok_or_else(ApiError::unauthorized)?;
    let digest = token_digest(token);
    // Tokens change rarely, and the answer to a change waits until the tables show it.
    let read = || state.switch.read_at_once(|snapshot| read_caller(snapshot, &digest));
    let found = state.callers.find(digest, state.switch.newest_access_change(), read)?;
    found.ok_or_else(ApiError::unauthorized)
}

fn read_caller(snapshot: &Snapshot, digest: &[u8; 32]) -> Result<Option<Caller>, StoreError> {
    let Some(token) = snapshot.access_token(digest)?.filter(|token| !token.is_revoked) else {
        return Ok(None);
    };
    let Some(company) = snapshot.company(token.company)?.map(Arc::new) else { return Ok(None) };
    let member = token.member().map_or(Ok(None), |member| snapshot.row::<Member>(member))?;
    let member = member.map(|member| member.id);
    let app = token.app().map_or(Ok(None), |app| snapshot.row::<App>(app))?.map(|app| app.id);
    Ok(Some(Caller { company, token: token.id, scope: token.scope, member, app }))
}

impl FromRequestParts<AppState> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        // Layers around the check look up the caller themselves.
        match parts.extensions.get::<Self>() {
            Some(caller) => Ok(caller.clone()),
            None => find_caller(&parts.headers, state),
        }
    }
}

/// The arguments of every handler: the state in the caller's hands, and the caller.
#[derive(Clone)]
pub struct Call(pub ActorState, pub Caller);

impl FromRequestParts<AppState> for Call {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let caller = Caller::from_request_parts(parts, state).await?;
        let state = state.for_request(&parts.extensions, caller.actor());
        Ok(Self(state.with_claim(parts.extensions.get().cloned()), caller))
    }
}
