//! The visitor's session: the one that a cookie opens, the facts of its user, and how sessions
//! begin and end.
//!
//! The cookie holds 256 random bits, of which only the SHA-256 is kept. INVARIANT: a session's key is
//! drawn when somebody has signed in, never before, so nobody can prepare one for somebody else.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::header::{COOKIE, SET_COOKIE, USER_AGENT};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use cardswitch_edge::client_address::ClientAddress;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::write_error::WriteError;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::Rejection;
use cardswitch_engine::directory::member::{Member, MemberRole};
use cardswitch_engine::directory::ticket::{
    NewTicket, NewTicketContent, Ticket, TicketCommand, TicketKind,
};
use cardswitch_engine::directory::user::{ProvenPassword, User};
use cardswitch_engine::domain::audit::Actor;
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::ids::{CompanyId, TicketId, Timestamp, UserId};
use cardswitch_engine::domain::text::LineText;
use cardswitch_engine::store::{Snapshot, StoreError};
use cardswitch_identity::actor_state::ActorState;
use cardswitch_identity::auth::drawn_secret::DrawnSecret;
use cardswitch_identity::state::AppState;
use cardswitch_secrets::{FormBond, token_digest};
use serde::Deserialize;
use serde::de::IgnoredAny;
use uuid::Uuid;

use super::cookies::SiteCookie;
use super::csrf::page_before;
use super::error_page::failure_page;
use super::forms::SiteForm;
use super::fresh_id;
use super::next::{START_PATH, login_path};
use super::notice::{Notice, go_on};
use super::visit::Visit;

/// How long a session lives. Units: seconds.
pub const SESSION_S: i64 = 12 * 3600;
/// How long the choice of a company is remembered. Units: seconds.
const COMPANY_S: i64 = 365 * 24 * 3600;
/// How much of a browser's name is kept. Units: bytes.
const USER_AGENT_BYTES_MAX: usize = 200;

/// An open session and its user.
#[derive(Clone, Debug)]
pub struct Session {
    /// The user who has signed in.
    pub user: User,
    /// The session itself.
    pub ticket: Ticket,
    /// The user's companies, each with its member.
    pub memberships: Vec<(Company, Member)>,
    /// The membership the user acts by; none where there is none.
    pub current: Option<(Company, Member)>,
}

impl Session {
    /// The value that forms about the user carry.
    pub fn csrf(&self, state: &AppState) -> String {
        state.secrets.form_tag(FormBond::Session, &self.ticket.digest)
    }

    /// The value that forms about a company carry: out of date once the user acts for another one.
    pub fn company_csrf(&self, state: &AppState, CompanyId(company): CompanyId) -> String {
        let bound_to = [&self.ticket.digest[..], company.as_bytes()].concat();
        state.secrets.form_tag(FormBond::Company, &bound_to)
    }

    /// Whether it is still open and allows what it did when it was found: rights are checked by the
    /// head of a request, and its body may be held back, or a password be compared, for long.
    /// Errors: the tables cannot be read.
    pub(super) fn stands(&self, state: &AppState) -> Result<bool, ApiError> {
        let now = state.now();
        let stands = state.switch.read_at_once(|snapshot| {
            let ticket = snapshot.ticket(&self.ticket.digest)?;
            let user = snapshot.row::<User>(self.ticket.user)?;
            let is_same_member = match &self.current {
                None => true,
                Some((_, known)) => snapshot
                    .row::<Member>(known.slot)?
                    .is_some_and(|member| (member.role, member.state) == (known.role, known.state)),
            };
            let is_same_user = user.is_some_and(|user| user.developer_of == self.user.developer_of);
            Ok(ticket.is_some_and(|ticket| ticket.is_open(now)) && is_same_user && is_same_member)
        })?;
        Ok(stands)
    }

    /// The user as an audit names them.
    pub fn actor(&self) -> Actor {
        let member = self.current.as_ref().map(|(_, member)| member.id);
        Actor::User { id: self.user.id, member }
    }

    /// The same in the audit of a company; none where the user is no member of it.
    pub(super) fn actor_in(&self, id: CompanyId) -> Option<Actor> {
        let (_, member) = self.memberships.iter().find(|(company, _)| company.id == id)?;
        Some(Actor::User { id: self.user.id, member: Some(member.id) })
    }

    /// Whether the user administers the current company.
    pub fn is_administrator(&self) -> bool {
        let current = self.current.as_ref();
        current.is_some_and(|(_, member)| member.role == MemberRole::Administrator)
    }
}

/// The state, and the visitor's session where there is one. The state acts for nobody, even with a
/// session: a visitor may try another person's account.
#[derive(Clone, Debug)]
pub struct OptionalSession(pub ActorState, pub Option<Session>);

/// The state in the visitor's hands, and their session; a visitor without one is sent to sign in.
#[derive(Clone, Debug)]
pub struct RequiredSession(pub ActorState, pub Session);

impl FromRequestParts<AppState> for OptionalSession {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let session = match parts.extensions.get() {
            Some(SessionLookup(session)) => session.as_deref().cloned(),
            None => {
                let session = find_session(&parts.headers, state)?;
                if let Some((visit, session)) = Visit::find(&parts.extensions).zip(session.as_ref())
                {
                    visit.note_visitor(session, state);
                }
                parts.extensions.insert(SessionLookup(session.clone().map(Arc::new)));
                session
            }
        };
        Ok(Self(state.for_request(&parts.extensions, Actor::Switch), session))
    }
}

/// The result of the first lookup, for later extractors of the request.
#[derive(Clone)]
struct SessionLookup(Option<Arc<Session>>);

impl FromRequestParts<AppState> for RequiredSession {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Response> {
        let OptionalSession(state, session) = OptionalSession::from_request_parts(parts, state)
            .await
            .map_err(IntoResponse::into_response)?;
        session.map(|session| Self(state.as_actor(session.actor()), session)).ok_or_else(|| {
            if parts.method == Method::GET {
                let next = parts.uri.path_and_query().map_or("", |next| next.as_str());
                return Redirect::to(&login_path(next)).into_response();
            }
            // What was typed is lost: sign-in leads back to the page with the form.
            let next = page_before(&parts.headers, &state.urls().app);
            go_on(&state, &login_path(&next), Notice::SIGN_IN_LOST)
        })
    }
}

/// The session that the cookie in these headers opens.
/// Errors: the tables cannot be read.
pub(super) fn find_session(
    headers: &HeaderMap,
    state: &AppState,
) -> Result<Option<Session>, ApiError> {
    // Most requests of programs have none.
    if !headers.contains_key(COOKIE) {
        return Ok(None);
    }
    let is_secure = state.urls().is_behind_tls();
    let Some(key) = SiteCookie::Session.find(headers, is_secure) else { return Ok(None) };
    let company = SiteCookie::Company.find(headers, is_secure);
    let company = company.and_then(|text| Uuid::parse_str(&text).ok()).map(CompanyId);
    let (digest, now) = (token_digest(&key), state.now());
    // The answer to a session's beginning or end waits until the tables show it: this read need not
    // wait.
    let found = state.switch.read_at_once(|snapshot| {
        let ticket = snapshot.ticket(&digest)?;
        let is_open = |ticket: &Ticket| ticket.kind() == TicketKind::Session && ticket.is_open(now);
        let open = ticket.filter(is_open);
        open.map(|ticket| session_of(snapshot, ticket, company)).transpose()
    })?;
    Ok(found.flatten())
}

fn session_of(
    snapshot: &Snapshot,
    ticket: Ticket,
    chosen: Option<CompanyId>,
) -> Result<Option<Session>, StoreError> {
    let Some(user) = snapshot.row::<User>(ticket.user)? else { return Ok(None) };
    let memberships = snapshot.memberships(&user.email)?;
    let is_chosen = |(company, _): &&(Company, Member)| Some(company.id) == chosen;
    let current = memberships.iter().find(is_chosen).or_else(|| memberships.first()).cloned();
    Ok(Some(Session { user, ticket, memberships, current }))
}

/// Begins a session of a user who has proven their password, and gives the header that hands over
/// its key. None where the password or a second factor was changed meanwhile, or the user was
/// deactivated. The session that the browser had before is ended.
/// Errors: no randomness, or the change was not made.
pub async fn begin_session(
    state: &ActorState,
    proven: &ProvenPassword,
    headers: &HeaderMap,
    ClientAddress(address): ClientAddress,
) -> Result<Option<HeaderValue>, ApiError> {
    if let Some(old) = find_session(headers, state)? {
        end_ticket(&state.as_actor(old.actor()), old.user.id, old.ticket.id).await?;
    }
    let key = DrawnSecret::draw()?;
    let now = state.now();
    let ticket = NewTicket {
        digest: key.digest,
        id: TicketId(fresh_id(state)?),
        user: proven.user,
        expires_at: later(now, SESSION_S),
        address: address.to_string(),
        content: NewTicketContent::Session { user_agent: user_agent_of(headers) },
    };
    let state = state.as_actor(Actor::User { id: proven.user, member: None });
    let issue = Box::new(AdminCommand::Ticket(TicketCommand::Issue(ticket)));
    match state.carry_out(AdminCommand::WithPassword(proven.clone(), issue)).await {
        Err(WriteError::Rejected(Rejection::PasswordChanged | Rejection::MemberInactive)) => {
            return Ok(None);
        }
        result => result?,
    }
    Ok(Some(SiteCookie::Session.set(&key.text, SESSION_S, state.urls().is_behind_tls())))
}

/// Ends one ticket of a user; one that is gone is as good as ended.
pub(super) async fn end_ticket(
    state: &ActorState,
    user: UserId,
    ticket: TicketId,
) -> Result<(), ApiError> {
    match state.carry_out(AdminCommand::Ticket(TicketCommand::End(user, ticket))).await {
        Ok(()) | Err(WriteError::Rejected(Rejection::TicketNotFound)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The header that makes the browser forget its session.
pub(super) fn forget_session(state: &AppState) -> HeaderValue {
    SiteCookie::Session.clear(state.urls().is_behind_tls())
}

/// `seconds` after `now`.
pub(super) const fn later(now: Timestamp, seconds: i64) -> Timestamp {
    now.plus(seconds * 1_000_000)
}

/// The browser's own name for itself, as far as it is kept.
fn user_agent_of(headers: &HeaderMap) -> LineText {
    let said = headers.get(USER_AGENT).map_or(&b""[..], HeaderValue::as_bytes);
    let kept = said.iter().take(USER_AGENT_BYTES_MAX);
    let plain = |byte: &u8| if (b' '..=b'~').contains(byte) { char::from(*byte) } else { '?' };
    LineText::spaced(&kept.map(plain).collect::<String>())
}

/// The form of `POST /company`.
#[derive(Debug, Deserialize)]
pub(super) struct CompanyForm {
    company: String,
}

/// Changes the company the user acts for. POST /company.
pub(super) async fn choose_company(
    RequiredSession(state, session): RequiredSession,
    SiteForm(form): SiteForm<CompanyForm>,
) -> Response {
    let id = Uuid::parse_str(&form.company).ok().map(CompanyId);
    if !session.memberships.iter().any(|(company, _)| Some(company.id) == id) {
        return failure_page(StatusCode::NOT_FOUND);
    }
    let is_secure = state.urls().is_behind_tls();
    let cookie = SiteCookie::Company.set(&form.company.to_lowercase(), COMPANY_S, is_secure);
    let mut response = go_on(&state, START_PATH, Notice::COMPANY_CHANGED);
    response.headers_mut().append(SET_COOKIE, cookie);
    response
}

/// Ends the session. POST /logout.
pub(super) async fn sign_out(
    OptionalSession(state, session): OptionalSession,
    _: SiteForm<IgnoredAny>,
) -> Result<Response, ApiError> {
    if let Some(session) = session {
        let state = state.as_actor(session.actor());
        end_ticket(&state, session.user.id, session.ticket.id).await?;
    }
    let mut response = go_on(&state, "/login", Notice::SIGNED_OUT);
    response.headers_mut().append(SET_COOKIE, forget_session(&state));
    // The browser's cached pages go, too.
    response.headers_mut().insert("clear-site-data", HeaderValue::from_static("\"cache\""));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_browsers_name_only_plain_text_is_kept() {
        let mut headers = HeaderMap::new();
        assert_eq!(user_agent_of(&headers), "");
        let said = b"Mozilla/5.0 <b>\xc3\xa9\tx".as_slice();
        headers.insert(USER_AGENT, HeaderValue::from_bytes(said).unwrap());
        assert_eq!(user_agent_of(&headers), "Mozilla/5.0 <b>???x");
        headers.insert(USER_AGENT, HeaderValue::from_str(&"x".repeat(5_000)).unwrap());
        assert_eq!(user_agent_of(&headers).len(), USER_AGENT_BYTES_MAX);
    }
}
