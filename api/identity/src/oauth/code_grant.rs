//! A token for an authorization code. Source: RFC 6749, 4.1.3; RFC 7636, 4.6.
//!
//! A code works once: the exchange is one record. A second exchange takes back the tokens of the
//! first, since one of the two clients has stolen the code. All faults of a code get the same
//! answer.

use axum::http::StatusCode;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::write_error::WriteError;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::Rejection;
use cardswitch_engine::directory::access_token::NewAccessToken;
use cardswitch_engine::directory::app::App;
use cardswitch_engine::directory::member::{Member, MemberState};
use cardswitch_engine::directory::ticket::{
    AuthorizationCode, CodeExchange, Ticket, TicketCommand, TicketState,
};
use cardswitch_engine::domain::audit::Actor;
use cardswitch_engine::domain::company::{Company, CompanyState};
use cardswitch_engine::domain::ids::AccessTokenId;
use cardswitch_engine::domain::text::LineText;
use cardswitch_secrets::issuing::RandomSource;
use cardswitch_secrets::token_digest;

use super::parameters::Parameters;
use super::reply::TokenBody;
use super::{pkce, scope};
use crate::actor_state::ActorState;
use crate::auth::drawn_secret::DrawnSecret;
use crate::state::AppState;

/// A code with its company and member.
struct GrantedCode {
    ticket: Ticket,
    code: AuthorizationCode,
    company: Company,
    member: Member,
}

/// Errors: the code is not the app's, not proven, used, or over.
pub(super) async fn give(
    state: &ActorState,
    app: &App,
    parameters: &Parameters,
) -> Result<(StatusCode, TokenBody), ApiError> {
    let digest = token_digest(parameters.required("code")?);
    let redirect_uri = parameters.text("redirect_uri")?;
    let verifier = parameters.text("code_verifier")?;
    let grant = find(state, &digest)?.filter(|grant| grant.code.app == app.slot);
    let grant = grant.ok_or_else(no_good)?;
    if grant.ticket.state == TicketState::Used {
        take_back(state, app, digest).await?;
        return Err(no_good());
    }
    let is_right = is_allowed(&grant, app)
        && is_redirect(&grant.code, redirect_uri, app)
        && pkce::is_proven(grant.code.code_challenge.as_deref(), verifier)
        && grant.ticket.is_open(state.now());
    if !is_right {
        return Err(no_good());
    }
    exchange(state, &grant, app).await
}

fn no_good() -> ApiError {
    ApiError::invalid_grant(
        "the code is unknown, used, expired, of another app, or was asked for in another way",
    )
}

fn find(state: &AppState, digest: &[u8; 32]) -> Result<Option<GrantedCode>, ApiError> {
    let found = state.switch.read_at_once(|snapshot| {
        let Some(ticket) = snapshot.ticket(digest)? else { return Ok(None) };
        let Some(code) = ticket.code().cloned() else { return Ok(None) };
        let company = snapshot.company(code.company)?;
        let member = snapshot.row::<Member>(code.member)?;
        Ok(company.zip(member).map(|(company, member)| GrantedCode {
            ticket,
            code,
            company,
            member,
        }))
    });
    Ok(found?)
}

/// Whether the company, the member and the app still have the rights that the code needs.
fn is_allowed(grant: &GrantedCode, app: &App) -> bool {
    grant.company.state == CompanyState::Active
        && grant.member.state == MemberState::Active
        && scope::may_give(grant.member.role, grant.code.scope)
        && scope::check_approved(grant.code.scope, app.approved).is_ok()
}

/// Whether the app names the address that the code went to.
// SPEC: "OAuth": redirect_uri is optional here, also where the request had one; the code went to an
// address of the app's list all the same.
fn is_redirect(code: &AuthorizationCode, named: Option<&str>, app: &App) -> bool {
    let sent_to = code.redirect_uri.as_ref().or_else(|| app.redirect_urls.first());
    named.is_none_or(|named| sent_to.is_some_and(|sent_to| sent_to == named))
}

async fn exchange(
    state: &ActorState,
    grant: &GrantedCode,
    app: &App,
) -> Result<(StatusCode, TokenBody), ApiError> {
    let secret = DrawnSecret::draw_token(&state.switch)?;
    let digest = grant.ticket.digest;
    let exchange = CodeExchange {
        digest,
        token: NewAccessToken {
            id: AccessTokenId(state.switch.random().id(state.now())?),
            digest: secret.digest,
            company: grant.company.id,
            scope: grant.code.scope,
        },
        label: LineText::spaced(&app.name),
    };
    let actor = Actor::Token { id: exchange.token.id, member: Some(grant.member.id) };
    match state
        .as_actor(actor)
        .carry_out(AdminCommand::Ticket(TicketCommand::ExchangeCode(Box::new(exchange))))
        .await
    {
        Ok(()) => Ok((StatusCode::CREATED, TokenBody::new(&secret.text, grant.code.scope))),
        Err(WriteError::Rejected(Rejection::TicketSpent)) => {
            // Another exchange was quicker.
            take_back(state, app, digest).await?;
            Err(no_good())
        }
        // Nothing is wrong with the code, and it is good until a token is revoked.
        Err(WriteError::Rejected(rejection)) if rejection != Rejection::TooManyTokens => {
            Err(no_good())
        }
        Err(error) => Err(error.into()),
    }
}

/// Revokes the tokens of a code that came a second time.
/// Errors: the switch cannot tell.
async fn take_back(state: &ActorState, app: &App, digest: [u8; 32]) -> Result<(), ApiError> {
    let state = state.as_actor(Actor::App { id: app.id });
    match state.carry_out(AdminCommand::Ticket(TicketCommand::RevokeCode(digest))).await {
        // Forgotten or expired meanwhile: it gives nothing any more.
        Ok(()) | Err(WriteError::Rejected(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
