//! Changing one's password, for which the old one is asked. GET and POST /account/password.

use askama::Template;
use axum::http::StatusCode;
use axum::http::header::SET_COOKIE;
use axum::response::{IntoResponse, Redirect, Response};
use cardswitch_edge::error::ApiError;
use cardswitch_edge::write_error::WriteError;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::Rejection;
use cardswitch_engine::directory::user::{SignInProof, User, UserChanges, UserCommand};
use cardswitch_identity::actor_state::ActorState;
use cardswitch_identity::auth::failures::note_failure;
use cardswitch_identity::auth::passwords::{check_new, hash};
use cardswitch_identity::auth::throttle::AttemptTarget;
use cardswitch_identity::state::AppState;
use cardswitch_notify::mail::News;
use serde::Deserialize;

use super::device::Client;
use super::faults::with_status;
use super::forms::SiteForm;
use super::frame::page;
use super::next::ACCOUNT_PATH;
use super::notice::{Notice, go_on};
use super::session::{RequiredSession, Session};

/// The message for a password that is not the user's.
pub(super) const WRONG_PASSWORD: &str = "This is not your current password.";
/// The message for two passwords that should be equal.
pub(super) const NOT_REPEATED: &str = "The two passwords differ.";

#[derive(Template, Default)]
#[template(path = "account_password.html")]
struct PasswordContent {
    csrf: String,
    email: String,
    old_error: &'static str,
    password_error: String,
    repeated_error: &'static str,
}

/// The fields of the form.
#[derive(Deserialize)]
pub(super) struct ChangeForm {
    old: String,
    password: String,
    repeated: String,
}

/// GET /account/password.
pub(super) async fn show(RequiredSession(state, session): RequiredSession) -> Response {
    shown(&state, &session, PasswordContent::default())
}

fn shown(state: &AppState, session: &Session, content: PasswordContent) -> Response {
    let (csrf, email) = (session.csrf(state), session.user.email.clone());
    page("Change your password", PasswordContent { csrf, email, ..content })
}

/// POST /account/password.
pub(super) async fn change(
    client: Client,
    RequiredSession(state, session): RequiredSession,
    SiteForm(form): SiteForm<ChangeForm>,
) -> Result<Response, ApiError> {
    let refused =
        |content| Ok(with_status(shown(&state, &session, content), StatusCode::BAD_REQUEST));
    if form.password != form.repeated {
        return refused(PasswordContent { repeated_error: NOT_REPEATED, ..Default::default() });
    }
    if let Err(fault) = check_new(&form.password, &session.user.email) {
        let password_error = fault.to_string();
        return refused(PasswordContent { password_error, ..Default::default() });
    }
    if !is_password_of(&state, &session.user, &client, &form.old).await? {
        return refused(PasswordContent { old_error: WRONG_PASSWORD, ..Default::default() });
    }
    let password_hash = hash(&form.password).await?;
    let device = client.remember(&state, session.user.id, &password_hash)?;
    let changes = UserChanges { password_hash: Some(password_hash), ..UserChanges::default() };
    if let Err(signed_out) = change_user(&state, &session, changes).await? {
        return Ok(signed_out);
    }
    let mut response = go_on(&state, ACCOUNT_PATH, Notice::PASSWORD_CHANGED);
    response.headers_mut().append(SET_COOKIE, device);
    Ok(response)
}

/// The outcome of a change; the way to sign-in where the session was ended meanwhile.
pub(super) type ChangeResult = Result<(), Response>;

/// Changes the credentials of a user, within a session and ending all others. Between the question
/// for the password and the change, a link by mail may have set another: that ended the session,
/// and the change is then not made. The user gets a letter about a new password.
/// Errors: the change was not made, or may not have been.
pub async fn change_user(
    state: &ActorState,
    session: &Session,
    changes: UserChanges,
) -> Result<ChangeResult, ApiError> {
    let user = session.user.id;
    let news = changes.password_hash.as_ref().map(|hash| News::password_was_set(user, hash));
    let changes = UserChanges { keep_session: Some(session.ticket.digest), ..changes };
    match state
        .carry_out_and_tell(AdminCommand::User(UserCommand::Update(user, changes)), news)
        .await
    {
        Ok(()) => Ok(Ok(())),
        Err(WriteError::Rejected(Rejection::TicketSpent)) => {
            Ok(Err(Redirect::to("/login").into_response()))
        }
        Err(error) => Err(error.into()),
    }
}

/// Whether `password` is the user's: a session alone does not change the credentials it was opened
/// with. Wrong ones slow down the next.
/// Errors: too many tries, or too many wait.
pub(super) async fn is_password_of(
    state: &ActorState,
    user: &User,
    client: &Client,
    password: &str,
) -> Result<bool, ApiError> {
    let account = AttemptTarget::Password(&user.email);
    let source = client.source(state, Some(user));
    let attempt = state.throttle.admit_on_page(Some(account), source).await?;
    let fits = state.passwords.verify(source, user.password_hash.clone(), password).await?;
    if fits {
        attempt.succeeded();
    } else {
        attempt.failed();
        note_failure(state, Some(user), SignInProof::Password);
    }
    Ok(fits)
}
