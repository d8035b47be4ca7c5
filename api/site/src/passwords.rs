//! Passwords of users who cannot sign in: a link by mail, and setting a password with it.
//!
//! The answer does not tell whether an address belongs to somebody: every address gets the same
//! answer at once, and the work follows it.

use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::http::header::SET_COOKIE;
use axum::response::Response;
use cardswitch_edge::client_address::ClientAddress;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::write_error::WriteError;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::Rejection;
use cardswitch_engine::directory::ticket::{
    NewTicket, NewTicketContent, Ticket, TicketCommand, TicketContent,
};
use cardswitch_engine::directory::user::{PasswordLinkUse, User, UserCommand};
use cardswitch_engine::domain::audit::Actor;
use cardswitch_engine::domain::ids::TicketId;
use cardswitch_identity::actor_state::ActorState;
use cardswitch_identity::auth::drawn_secret::DrawnSecret;
use cardswitch_identity::auth::passwords::{check_new, hash};
use cardswitch_identity::auth::throttle::Source;
use cardswitch_identity::state::AppState;
use cardswitch_notify::mail::News;
use cardswitch_secrets::token_digest;
use serde::Deserialize;
use tokio::sync::Semaphore;

use super::csrf::csrf_of;
use super::device::Client;
use super::error_page::error_page;
use super::faults::with_status;
use super::forms::SiteForm;
use super::frame::{plain_page, small_page};
use super::fresh_id;
use super::notice::{Notice, go_on};
use super::password::NOT_REPEATED;
use super::session::{OptionalSession, Session, later};
use super::visit::Visit;

/// How long a link to set a new password is good. Units: seconds.
const LINK_S: i64 = 3600;
/// How many links may be on their way to the outbox at once; further ones are not sent.
const LINKS_AT_ONCE: usize = 64;

static LINKS: Semaphore = Semaphore::const_new(LINKS_AT_ONCE);

#[derive(Template)]
#[template(path = "password_forgot.html")]
struct ForgotContent {
    csrf: String,
}

#[derive(Template)]
#[template(path = "password_sent.html")]
struct SentContent;

#[derive(Template)]
#[template(path = "password_set.html")]
struct SetContent<'a> {
    csrf: String,
    email: &'a str,
    is_invite: bool,
    password_error: &'a str,
    repeated_error: &'a str,
}

/// The fields of the first form.
#[derive(Deserialize)]
pub(super) struct ForgotForm {
    email: String,
}

/// The fields of the second form.
#[derive(Deserialize)]
pub(super) struct SetForm {
    password: String,
    repeated: String,
}

/// GET /password/forgot.
pub(super) async fn show_forgot(
    Extension(visit): Extension<Arc<Visit>>,
    OptionalSession(state, session): OptionalSession,
) -> Response {
    let content = ForgotContent { csrf: csrf_of(&state, &visit, session.as_ref()) };
    small_page("Forgot your password?", content)
}

/// Has a link sent. POST /password/forgot.
pub(super) async fn forgot(
    ClientAddress(address): ClientAddress,
    OptionalSession(state, _): OptionalSession,
    SiteForm(form): SiteForm<ForgotForm>,
) -> Result<Response, ApiError> {
    // Every request counts, whatever becomes of it.
    state.throttle.admit_on_page(None, Source::Address(address)).await?.failed();
    let response = small_page("Check your email", SentContent);
    if let Ok(place) = LINKS.try_acquire() {
        tokio::spawn(async move {
            let _place = place;
            if let Err(error) = send_link(&state, form.email.trim(), &address.to_string()).await {
                tracing::warn!(?error, "no link to set a password was sent");
            }
        });
    }
    Ok(response)
}

/// Sends a link to the user with the address, if there is one.
/// Errors: the link was not issued.
async fn send_link(state: &ActorState, email: &str, address: &str) -> Result<(), ApiError> {
    let user = state.switch.read_at_once(|snapshot| snapshot.user_by_email(email))?;
    let Some(user) = user else { return Ok(()) };
    if !state.outbox.may_be_asked_for(&user.email, std::time::Instant::now()) {
        return Ok(());
    }
    let key = DrawnSecret::draw()?;
    let ticket = NewTicket {
        digest: key.digest,
        id: TicketId(fresh_id(state)?),
        user: user.id,
        expires_at: later(state.now(), LINK_S),
        address: address.to_owned(),
        content: NewTicketContent::PasswordLink { is_invite: false },
    };
    let news = News::NewPassword { key: key.text };
    state
        .carry_out_and_tell(AdminCommand::Ticket(TicketCommand::Issue(ticket)), Some(news))
        .await?;
    Ok(())
}

/// GET /password/set/{key}.
pub(super) async fn show_set(
    Extension(visit): Extension<Arc<Visit>>,
    OptionalSession(state, session): OptionalSession,
    Path(key): Path<String>,
) -> Result<Response, ApiError> {
    match find_link(&state, &key)? {
        Some(link) => Ok(shown_set(&state, (&visit, session.as_ref()), &link, ("", ""))),
        None => Ok(dead_link()),
    }
}

/// Sets the password. POST /password/set/{key}.
pub(super) async fn set(
    Extension(visit): Extension<Arc<Visit>>,
    client: Client,
    OptionalSession(state, session): OptionalSession,
    Path(key): Path<String>,
    SiteForm(form): SiteForm<SetForm>,
) -> Result<Response, ApiError> {
    let Some(link) = find_link(&state, &key)? else { return Ok(dead_link()) };
    let refused = |password_error: &str, repeated_error: &str| {
        let errors = (password_error, repeated_error);
        let page = shown_set(&state, (&visit, session.as_ref()), &link, errors);
        Ok(with_status(page, StatusCode::BAD_REQUEST))
    };
    if form.password != form.repeated {
        return refused("", NOT_REPEATED);
    }
    if let Err(fault) = check_new(&form.password, &link.user.email) {
        return refused(&fault.to_string(), "");
    }
    let password_hash = hash(&form.password).await?;
    let news = News::password_was_set(link.user.id, &password_hash);
    // The reader of the mail is the owner: the browser is remembered even while others guess.
    let device = client.remember(&state, link.user.id, &password_hash)?;
    let link_use = PasswordLinkUse { digest: link.ticket.digest, password_hash };
    match state
        .as_actor(Actor::User { id: link.user.id, member: None })
        .carry_out_and_tell(AdminCommand::User(UserCommand::UsePasswordLink(link_use)), Some(news))
        .await
    {
        Ok(()) => {}
        // Another request was quicker.
        Err(WriteError::Rejected(Rejection::TicketSpent)) => return Ok(dead_link()),
        Err(error) => return Err(error.into()),
    }
    let mut response = go_on(&state, "/login", Notice::PASSWORD_SET);
    response.headers_mut().append(SET_COOKIE, device);
    Ok(response)
}

/// A link that still opens something.
struct PasswordLink {
    ticket: Ticket,
    user: User,
    is_invite: bool,
}

fn find_link(state: &AppState, key: &str) -> Result<Option<PasswordLink>, ApiError> {
    let (digest, now) = (token_digest(key), state.now());
    let found = state.switch.read_at_once(|snapshot| {
        let ticket = snapshot.ticket(&digest)?.filter(|ticket| ticket.is_open(now));
        let Some(ticket) = ticket else { return Ok(None) };
        let TicketContent::PasswordLink { is_invite, .. } = ticket.content else { return Ok(None) };
        let user = snapshot.row::<User>(ticket.user)?;
        Ok(user.map(|user| PasswordLink { ticket, user, is_invite }))
    })?;
    Ok(found)
}

fn shown_set(
    state: &AppState,
    (visit, session): (&Visit, Option<&Session>),
    link: &PasswordLink,
    (password_error, repeated_error): (&str, &str),
) -> Response {
    let content = SetContent {
        csrf: csrf_of(state, visit, session),
        email: &link.user.email,
        is_invite: link.is_invite,
        password_error,
        repeated_error,
    };
    plain_page("Set your password", content)
}

/// The same whether it was used, has expired or never was.
fn dead_link() -> Response {
    let text = "It was used, has expired or was replaced by a newer one. Ask for another under \
                \"Forgot your password?\" on the sign-in page.";
    error_page(StatusCode::NOT_FOUND, "This link has expired", text)
}
