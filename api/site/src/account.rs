//! The user's own account: name, companies, sessions. The page leads on to those of password,
//! authenticator app and security question.

use askama::Template;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use cardswitch_edge::error::ApiError;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::ticket::{Ticket, TicketContent};
use cardswitch_engine::directory::user::{UserChanges, UserCommand};
use cardswitch_engine::domain::ids::TicketId;
use cardswitch_engine::domain::text::LineText;
use cardswitch_identity::state::AppState;
use serde::Deserialize;
use serde::de::IgnoredAny;
use uuid::Uuid;

use super::browser::browser_of;
use super::error_page::failure_page;
use super::faults::with_status;
use super::forms::SiteForm;
use super::frame::page;
use super::members::role_words;
use super::next::ACCOUNT_PATH;
use super::notice::{Notice, go_on};
use super::session::{RequiredSession, Session, end_ticket};
use super::words::shown_time;

/// The longest first or last name. Units: characters.
const NAME_CHARS_MAX: usize = 100;

#[derive(Template)]
#[template(path = "account.html")]
struct AccountContent<'a> {
    csrf: String,
    email: &'a str,
    first_name: &'a str,
    first_name_error: &'a str,
    last_name: &'a str,
    last_name_error: &'a str,
    has_totp: bool,
    has_question: bool,
    companies: Vec<ShownCompany<'a>>,
    sessions: Vec<ShownSession>,
}

struct ShownCompany<'a> {
    id: Uuid,
    name: &'a str,
    role: &'static str,
    is_current: bool,
}

struct ShownSession {
    id: Uuid,
    browser: String,
    address: String,
    since: String,
    is_current: bool,
}

/// The fields of the profile's form.
#[derive(Debug, Deserialize)]
pub(super) struct ProfileForm {
    first_name: String,
    last_name: String,
}

/// GET /account.
pub(super) async fn show(
    RequiredSession(state, session): RequiredSession,
) -> Result<Response, ApiError> {
    let (first_name, last_name) = (session.user.first_name.clone(), session.user.last_name.clone());
    shown(&state, &session, &ProfileForm { first_name, last_name }, ["", ""])
}

/// Changes the name. POST /account.
pub(super) async fn save_profile(
    RequiredSession(state, session): RequiredSession,
    SiteForm(form): SiteForm<ProfileForm>,
) -> Result<Response, ApiError> {
    let form = ProfileForm {
        first_name: form.first_name.trim().to_owned(),
        last_name: form.last_name.trim().to_owned(),
    };
    let errors = [name_error(&form.first_name), name_error(&form.last_name)];
    if errors != ["", ""] {
        let page = shown(&state, &session, &form, errors)?;
        return Ok(with_status(page, StatusCode::BAD_REQUEST));
    }
    let changes = UserChanges {
        first_name: Some(LineText::spaced(&form.first_name)),
        last_name: Some(LineText::spaced(&form.last_name)),
        ..UserChanges::default()
    };
    state.carry_out(AdminCommand::User(UserCommand::Update(session.user.id, changes))).await?;
    Ok(go_on(&state, ACCOUNT_PATH, Notice::PROFILE_SAVED))
}

fn name_error(name: &str) -> &'static str {
    if name.chars().count() > NAME_CHARS_MAX {
        "A name has at most 100 characters."
    } else if LineText::new(name).is_err() {
        "A name is one line of plain text."
    } else {
        ""
    }
}

fn shown(
    state: &AppState,
    session: &Session,
    form: &ProfileForm,
    [first_name_error, last_name_error]: [&str; 2],
) -> Result<Response, ApiError> {
    let user = &session.user;
    let tickets = state.switch.read_at_once(|snapshot| snapshot.sessions_of(user.slot))?;
    let now = state.now();
    let mut open: Vec<_> = tickets.iter().filter(|ticket| ticket.is_open(now)).collect();
    // The newest first, and the visitor's own before all.
    open.sort_by_key(|ticket| std::cmp::Reverse((is_current(session, ticket), ticket.created_at)));
    let content = AccountContent {
        csrf: session.csrf(state),
        email: &user.email,
        first_name: &form.first_name,
        first_name_error,
        last_name: &form.last_name,
        last_name_error,
        has_totp: user.totp.is_some(),
        has_question: user.security_question.is_some(),
        companies: companies_of(session),
        sessions: open.into_iter().map(|ticket| shown_session(session, ticket)).collect(),
    };
    Ok(page("Your account", content))
}

fn is_current(session: &Session, ticket: &Ticket) -> bool {
    ticket.id == session.ticket.id
}

fn companies_of(session: &Session) -> Vec<ShownCompany<'_>> {
    let current = session.current.as_ref().map(|(company, _)| company.id);
    let companies = session.memberships.iter().map(|(company, member)| ShownCompany {
        id: company.id.0,
        name: &company.name,
        role: role_words(member.role),
        is_current: Some(company.id) == current,
    });
    companies.collect()
}

fn shown_session(session: &Session, ticket: &Ticket) -> ShownSession {
    let user_agent = match &ticket.content {
        TicketContent::Session { user_agent } => user_agent,
        TicketContent::PasswordLink { .. } | TicketContent::AuthorizationCode(_) => "",
    };
    ShownSession {
        id: ticket.id.0,
        browser: browser_of(user_agent),
        address: ticket.address.clone(),
        since: shown_time(ticket.created_at, session),
        is_current: is_current(session, ticket),
    }
}

/// Ends a session of the user's. POST /account/sessions/{id}/end.
pub(super) async fn end_session(
    RequiredSession(state, session): RequiredSession,
    Path(id): Path<Uuid>,
    _: SiteForm<IgnoredAny>,
) -> Result<Response, ApiError> {
    let user = &session.user;
    let tickets = state.switch.read_at_once(|snapshot| snapshot.sessions_of(user.slot))?;
    // Another user's session does not exist for this one.
    if !tickets.iter().any(|ticket| ticket.id == TicketId(id)) {
        return Ok(failure_page(StatusCode::NOT_FOUND).into_response());
    }
    end_ticket(&state, user.id, TicketId(id)).await?;
    Ok(go_on(&state, ACCOUNT_PATH, Notice::SESSION_ENDED))
}

/// Ends every session of the user's but the visitor's own. POST /account/sessions/end-others.
pub(super) async fn end_other_sessions(
    RequiredSession(state, session): RequiredSession,
    _: SiteForm<IgnoredAny>,
) -> Result<Response, ApiError> {
    let user = &session.user;
    let tickets = state.switch.read_at_once(|snapshot| snapshot.sessions_of(user.slot))?;
    let now = state.now();
    for ticket in tickets.iter().filter(|ticket| ticket.is_open(now)) {
        if !is_current(&session, ticket) {
            end_ticket(&state, user.id, ticket.id).await?;
        }
    }
    Ok(go_on(&state, ACCOUNT_PATH, Notice::SESSIONS_ENDED))
}
