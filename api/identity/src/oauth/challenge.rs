//! `/v1/oauth/token/challenge`: the questions to a user whose password was right, until none is
//! left. Source: spec "OAuth", rules 4 to 6.
//!
//! | answer | when |
//! |---|---|
//! | 200 | no question is left: the token opens the data |
//! | 203 | another question follows |
//! | 403 | the answer is wrong; another may be given |
//! | 401 | no such token, too late, or the fifth wrong answer: the token is worth nothing |

use std::net::IpAddr;

use axum::RequestExt;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use cardswitch_edge::bearer::bearer_of;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::request_id::to_the_end;
use cardswitch_engine::directory::access_token::AccessScope;
use cardswitch_engine::directory::user::ProvenPassword;
use cardswitch_engine::domain::audit::Actor;
use cardswitch_secrets::token_digest;
use serde::Serialize;

use super::address_of;
use super::parameters::Parameters;
use super::password_grant;
use super::reply::{ChallengeBody, TokenBody, reply};
use crate::actor_state::ActorState;
use crate::auth::find_caller;
use crate::auth::second_factor::{self, AnswerOutcome, PendingToken, Purpose};
use crate::auth::throttle::{ExcessPolicy, Source};
use crate::state::AppState;

/// An answer to a question.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "shows the fields to readers of the document")]
pub(crate) struct ChallengeAnswer {
    /// A one-time code, or what the question asks for in any case.
    answer: String,
}

/// The body of the reply to an answer.
#[derive(Serialize)]
#[serde(untagged)]
enum AnsweredBody {
    Token(TokenBody),
    Challenge(ChallengeBody),
}

/// Get the pending challenge.
#[utoipa::path(
    get,
    path = "/v1/oauth/token/challenge",
    tag = "OAuth",
    responses((status = 200, body = ChallengeBody)),
)]
pub async fn get_challenge(State(state): State<AppState>, request: Request) -> Response {
    let address = address_of(request.extensions());
    reply(show(&state, request.headers(), address).await)
}

async fn show(
    state: &AppState,
    headers: &HeaderMap,
    address: Option<IpAddr>,
) -> Result<(StatusCode, ChallengeBody), ApiError> {
    let attempt = state.throttle.admit(None, address.map(Source::Address)).await?;
    let Some(token) = bearer_of(headers) else {
        attempt.failed();
        return Err(ApiError::challenge_over());
    };
    let digest = token_digest(token);
    let waiting = find_pending(state, &digest);
    let challenge = waiting.and_then(|_| state.second_factors.question(&digest, state.now()));
    if let Some(challenge) = challenge {
        attempt.succeeded();
        return Ok((StatusCode::OK, ChallengeBody::new(&challenge, state)));
    }
    if find_caller(headers, state).is_ok() {
        attempt.succeeded();
        return Err(ApiError::not_found());
    }
    attempt.failed();
    Err(ApiError::challenge_over())
}

/// Answer the pending challenge.
#[utoipa::path(
    post,
    path = "/v1/oauth/token/challenge",
    tag = "OAuth",
    request_body(
        content(
            (ChallengeAnswer = "application/json", example = json!({"answer": "287082"})),
            (ChallengeAnswer = "application/x-www-form-urlencoded"),
        ),
    ),
    responses((status = 200, body = TokenBody), (status = 203, body = ChallengeBody)),
)]
pub async fn answer_challenge(State(state): State<AppState>, request: Request) -> Response {
    let address = address_of(request.extensions());
    let state = state.for_request(request.extensions(), Actor::Switch);
    let headers = request.headers().clone();
    let answered = async {
        let parameters = request.extract::<Parameters, _>().await?;
        // A code that is used up must have counted, also where the client hangs up before its answer.
        to_the_end(async move { answer(&state, &headers, &parameters, address).await }).await
    };
    reply(answered.await)
}

async fn answer(
    state: &ActorState,
    headers: &HeaderMap,
    parameters: &Parameters,
    address: Option<IpAddr>,
) -> Result<(StatusCode, AnsweredBody), ApiError> {
    let token = bearer_of(headers).ok_or_else(ApiError::challenge_over)?;
    let digest = token_digest(token);
    let given = parameters.required("answer")?;
    let Some(pending) = find_pending(state, &digest) else {
        return answer_nothing(state, headers, token, address).await;
    };
    // The app has proven itself, and only it gives out the text of a token that waits.
    let source = Source::App(pending.app);
    match second_factor::answer(state, &digest, given, source, ExcessPolicy::Refused).await? {
        AnswerOutcome::Done(finishing) => {
            finish(state, &finishing.proven, digest, &pending).await?;
            state.second_factors.finish(finishing);
            let body = TokenBody::new(token, AccessScope::default());
            Ok((StatusCode::OK, AnsweredBody::Token(body)))
        }
        AnswerOutcome::Next(challenge) => {
            let body = ChallengeBody::new(&challenge, state);
            let status = StatusCode::NON_AUTHORITATIVE_INFORMATION;
            Ok((status, AnsweredBody::Challenge(body)))
        }
        AnswerOutcome::Wrong => Err(ApiError::wrong_answer()),
        // Perhaps the same answer came twice, and the first one has ended it well.
        AnswerOutcome::Ended => granted(state, headers, token),
    }
}

/// A token that waits for answers; those of the site's own conversations are none.
fn find_pending(state: &AppState, digest: &[u8; 32]) -> Option<PendingToken> {
    match state.second_factors.purpose(digest, state.now())? {
        Purpose::Token(pending) => Some(pending),
        Purpose::SignIn { .. } => None,
    }
}

/// The reply where no question waits. A token that needs no answer any more has been granted, since
/// an answer may come twice; any other token opens nothing.
async fn answer_nothing(
    state: &AppState,
    headers: &HeaderMap,
    token: &str,
    address: Option<IpAddr>,
) -> Result<(StatusCode, AnsweredBody), ApiError> {
    let attempt = state.throttle.admit(None, address.map(Source::Address)).await?;
    let granted = granted(state, headers, token);
    attempt.judge(&granted);
    granted
}

/// Errors: the token has not been granted.
fn granted(
    state: &AppState,
    headers: &HeaderMap,
    token: &str,
) -> Result<(StatusCode, AnsweredBody), ApiError> {
    let caller = find_caller(headers, state).map_err(|_| ApiError::challenge_over())?;
    Ok((StatusCode::OK, AnsweredBody::Token(TokenBody::new(token, caller.scope))))
}

/// Makes the token, if the user may still let apps in.
async fn finish(
    state: &ActorState,
    proven: &ProvenPassword,
    digest: [u8; 32],
    pending: &PendingToken,
) -> Result<(), ApiError> {
    let (user, app) = state.switch.read_at_once(|snapshot| {
        Ok((snapshot.user_by_id(proven.user)?, snapshot.app_by_id(pending.app)?))
    })?;
    let user = user.ok_or_else(ApiError::challenge_over)?;
    let app = app.filter(|app| !app.is_deleted).ok_or_else(ApiError::challenge_over)?;
    let found = password_grant::find_membership(state, &user, Some(pending.company));
    if !found.is_ok_and(|(_, member)| member.id == pending.member) {
        return Err(ApiError::challenge_over());
    }
    password_grant::make_token(state, proven, (digest, pending), &app.name).await
}
