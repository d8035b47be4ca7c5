//! Signing in: e-mail and password, then the second factors that the user has set up. GET and POST
//! /login.
//!
//! Neither the answer nor its time tells whether an address belongs to somebody.

use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::extract::Query;
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use cardswitch_edge::error::ApiError;
use cardswitch_engine::directory::user::{ProvenPassword, SignInProof};
use cardswitch_identity::actor_state::ActorState;
use cardswitch_identity::auth::credentials::find_user;
use cardswitch_identity::auth::drawn_secret::DrawnSecret;
use cardswitch_identity::auth::failures::note_failure;
use cardswitch_identity::auth::second_factor::Purpose;
use cardswitch_identity::auth::throttle::AttemptTarget;
use cardswitch_identity::state::AppState;
use serde::Deserialize;

use super::cookies::SiteCookie;
use super::csrf::csrf_of;
use super::device::Client;
use super::faults::with_status;
use super::forms::SiteForm;
use super::frame::{forwarding_page, plain_page};
use super::next::{START_PATH, local_path};
use super::second_factor::{FACTOR_PATH, FACTOR_S};
use super::session::{OptionalSession, begin_session};
use super::visit::Visit;

/// The same for an address that nobody has and for a wrong password.
const WRONG: &str = "Incorrect email or password.";
/// The message where the password was right, but the credentials or the membership have changed since.
const CHANGED: &str = "Your account was changed in the meantime. Sign in again.";

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInContent<'a> {
    csrf: String,
    email: &'a str,
    next: &'a str,
    error: &'a str,
}

#[derive(Template)]
#[template(path = "forward.html")]
struct ForwardContent<'a> {
    target: &'a str,
}

/// The query of the sign-in page.
#[derive(Debug, Deserialize)]
pub(super) struct SignInQuery {
    #[serde(default)]
    next: String,
}

/// The fields of the form.
#[derive(Deserialize)]
pub(super) struct SignInForm {
    email: String,
    password: String,
    #[serde(default)]
    next: String,
}

/// GET /login.
pub(super) async fn show(
    Extension(visit): Extension<Arc<Visit>>,
    OptionalSession(state, session): OptionalSession,
    Query(query): Query<SignInQuery>,
) -> Response {
    let next = local_path(&query.next);
    if session.is_some() {
        return Redirect::to(next.as_deref().unwrap_or(START_PATH)).into_response();
    }
    shown(&state, &visit, ("", &next.unwrap_or_default(), ""))
}

fn shown(state: &AppState, visit: &Visit, (email, next, error): (&str, &str, &str)) -> Response {
    let content = SignInContent { csrf: csrf_of(state, visit, None), email, next, error };
    plain_page("Sign in", content)
}

/// POST /login.
pub(super) async fn sign_in(
    Extension(visit): Extension<Arc<Visit>>,
    client: Client,
    OptionalSession(state, _): OptionalSession,
    headers: HeaderMap,
    SiteForm(form): SiteForm<SignInForm>,
) -> Result<Response, ApiError> {
    let email = form.email.trim();
    let next = local_path(&form.next);
    let owner = state.switch.read_at_once(|snapshot| snapshot.user_by_email(email))?;
    let (account, source) = (AttemptTarget::Password(email), client.source(&state, owner.as_ref()));
    let attempt = state.throttle.admit_on_page(Some(account), source).await?;
    let Some(user) = find_user(&state, source, (email, &form.password)).await? else {
        attempt.failed();
        note_failure(&state, owner.as_ref(), SignInProof::Password);
        return Ok(refused(&state, &visit, (email, next, WRONG)));
    };
    attempt.succeeded();
    let conversation = DrawnSecret::draw()?;
    let purpose = Purpose::SignIn { next: next.clone() };
    let factors = &state.second_factors;
    let asked = factors.begin(conversation.digest, &user, (purpose, source), state.now())?;
    if asked.is_none() {
        let proven = ProvenPassword::of(&user);
        let entered = enter(&state, &proven, &headers, &client, next.as_deref()).await?;
        return Ok(entered.unwrap_or_else(|| refused(&state, &visit, (email, next, CHANGED))));
    }
    let is_secure = state.urls().is_behind_tls();
    let mut response = Redirect::to(FACTOR_PATH).into_response();
    let cookie = SiteCookie::SecondFactor.set(&conversation.text, FACTOR_S, is_secure);
    response.headers_mut().append(SET_COOKIE, cookie);
    Ok(response)
}

fn refused(
    state: &AppState,
    visit: &Visit,
    (email, next, error): (&str, Option<String>, &str),
) -> Response {
    let page = shown(state, visit, (email, &next.unwrap_or_default(), error));
    with_status(page, StatusCode::UNAUTHORIZED)
}

/// Lets a user in who has proven everything, and goes on to where they wanted to be; not where
/// `begin_session` finds that something has changed meanwhile.
/// Errors: the session could not be begun.
pub(super) async fn enter(
    state: &ActorState,
    proven: &ProvenPassword,
    headers: &HeaderMap,
    client: &Client,
    next: Option<&str>,
) -> Result<Option<Response>, ApiError> {
    let Some(cookie) = begin_session(state, proven, headers, client.address).await? else {
        return Ok(None);
    };
    let hash = proven.password_hash.as_deref().unwrap_or_default();
    let device = client.remember(state, proven.user, hash)?;
    let target = next.and_then(local_path).unwrap_or_else(|| START_PATH.to_owned());
    let mut response = if may_leave_the_site(&target) {
        forwarding_page("Signed in", &target, ForwardContent { target: &target })
    } else {
        Redirect::to(&target).into_response()
    };
    response.headers_mut().append(SET_COOKIE, cookie);
    response.headers_mut().append(SET_COOKIE, device);
    Ok(Some(response))
}

/// Whether the page may send the browser on to an app. Browsers hold such a chain of redirects to
/// the policy of the form it began with, so there it begins anew, with a page.
fn may_leave_the_site(path: &str) -> bool {
    path.starts_with("/v1/oauth/")
}
