//! The second part of signing in, for users who have set up more than a password. GET and POST
//! /login/second-factor.
//!
//! The cookie holds the secret of a conversation, which is no session: it opens nothing but the next
//! question.

use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use cardswitch_edge::error::ApiError;
use cardswitch_engine::domain::audit::Actor;
use cardswitch_identity::actor_state::ActorState;
use cardswitch_identity::auth::credentials::may_sign_in;
use cardswitch_identity::auth::second_factor::{
    AnswerOutcome, AnsweredConversation, Challenge, Factor, Purpose, answer,
};
use cardswitch_identity::auth::throttle::ExcessPolicy;
use cardswitch_identity::state::AppState;
use cardswitch_secrets::token_digest;
use serde::Deserialize;

use super::cookies::SiteCookie;
use super::csrf::csrf_of;
use super::device::Client;
use super::error_page::error_page;
use super::faults::with_status;
use super::forms::SiteForm;
use super::frame::plain_page;
use super::session::OptionalSession;
use super::sign_in::enter;
use super::visit::Visit;

/// The page on which questions are asked.
pub(super) const FACTOR_PATH: &str = "/login/second-factor";
/// How long the browser keeps the conversation's secret. Units: seconds.
pub(super) const FACTOR_S: i64 = 5 * 60;

const WRONG_CODE: &str = "Incorrect code, or already used. Wait for the next one.";
const WRONG_ANSWER: &str = "Incorrect answer.";

#[derive(Template)]
#[template(path = "second_factor.html")]
struct FactorContent<'a> {
    csrf: String,
    question: Option<&'a str>,
    error: &'a str,
}

/// The fields of the form.
#[derive(Deserialize)]
pub(super) struct FactorForm {
    answer: String,
}

/// GET /login/second-factor.
pub(super) async fn show(
    Extension(visit): Extension<Arc<Visit>>,
    OptionalSession(state, session): OptionalSession,
    headers: HeaderMap,
) -> Response {
    let digest = conversation_of(&state, &headers);
    match digest.and_then(|digest| state.second_factors.question(&digest, state.now())) {
        Some(challenge) if session.is_none() => shown(&state, &visit, &challenge, ""),
        _ => Redirect::to("/login").into_response(),
    }
}

/// The digest of the secret that the browser holds, where it is that of a sign-in.
fn conversation_of(state: &AppState, headers: &HeaderMap) -> Option<[u8; 32]> {
    let key = SiteCookie::SecondFactor.find(headers, state.urls().is_behind_tls())?;
    let digest = token_digest(&key);
    // An app's conversation ends in a token for that app, never in a session.
    let purpose = state.second_factors.purpose(&digest, state.now())?;
    matches!(purpose, Purpose::SignIn { .. }).then_some(digest)
}

fn shown(state: &AppState, visit: &Visit, challenge: &Challenge, error: &str) -> Response {
    let question = match challenge.factor {
        Factor::Totp => None,
        Factor::SecurityQuestion => Some(challenge.question.as_str()),
    };
    let content = FactorContent { csrf: csrf_of(state, visit, None), question, error };
    plain_page("Verify it’s you", content)
}

/// POST /login/second-factor.
pub(super) async fn answer_question(
    Extension(visit): Extension<Arc<Visit>>,
    client: Client,
    OptionalSession(state, _): OptionalSession,
    headers: HeaderMap,
    SiteForm(form): SiteForm<FactorForm>,
) -> Result<Response, ApiError> {
    let Some(digest) = conversation_of(&state, &headers) else { return Ok(over(&state)) };
    let asked = state.second_factors.question(&digest, state.now());
    let user = state.second_factors.user(&digest, state.now());
    let user =
        user.map_or(Ok(None), |id| state.switch.read_at_once(|snapshot| snapshot.user_by_id(id)))?;
    let source = client.source(&state, user.as_ref());
    match answer(&state, &digest, &form.answer, source, ExcessPolicy::Waits).await? {
        AnswerOutcome::Done(finishing) => finish(&state, &headers, &client, finishing).await,
        AnswerOutcome::Next(_) => Ok(Redirect::to(FACTOR_PATH).into_response()),
        AnswerOutcome::Wrong => {
            Ok(asked.map_or_else(|| over(&state), |asked| wrong(&state, &visit, &asked)))
        }
        AnswerOutcome::Ended => Ok(over(&state)),
    }
}

/// Lets the user in, if they still may.
/// Errors: the session could not be begun; the answer can be given again.
async fn finish(
    state: &ActorState,
    headers: &HeaderMap,
    client: &Client,
    finishing: AnsweredConversation,
) -> Result<Response, ApiError> {
    let is_allowed = state.switch.read_at_once(|snapshot| {
        let user = snapshot.user_by_id(finishing.proven.user)?;
        user.map_or(Ok(false), |user| may_sign_in(snapshot, &user))
    })?;
    let (Purpose::SignIn { next }, true) = (&finishing.purpose, is_allowed) else {
        return Ok(over(state));
    };
    let user = state.as_actor(Actor::User { id: finishing.proven.user, member: None });
    let entered = enter(&user, &finishing.proven, headers, client, next.as_deref()).await?;
    let Some(mut response) = entered else { return Ok(over(state)) };
    state.second_factors.finish(finishing);
    forget_conversation(state, &mut response);
    Ok(response)
}

fn wrong(state: &AppState, visit: &Visit, asked: &Challenge) -> Response {
    let error = match asked.factor {
        Factor::Totp => WRONG_CODE,
        Factor::SecurityQuestion => WRONG_ANSWER,
    };
    with_status(shown(state, visit, asked, error), StatusCode::UNAUTHORIZED)
}

/// The answer to a visitor who was too late or wrong too often, or whose credentials have changed.
fn over(state: &AppState) -> Response {
    let text = "It took longer than five minutes, too many answers were wrong, or your password or \
                second step was changed in the meantime. Sign in again from the start.";
    let mut response = error_page(StatusCode::UNAUTHORIZED, "This sign-in is over", text);
    forget_conversation(state, &mut response);
    response
}

fn forget_conversation(state: &AppState, response: &mut Response) {
    let cookie = SiteCookie::SecondFactor.clear(state.urls().is_behind_tls());
    response.headers_mut().append(SET_COOKIE, cookie);
}
