//! Access tokens: made, given for a code, revoked. Source: RFC 6749, 4.1; RFC 7009.
//!
//! So many of a member, and of an app, open anything at a time; one more revokes the oldest, so that
//! whatever revokes all of them fits one record.

use super::execute::Moment;
use super::execute_admin::find_company;
use super::execute_app::find_any_app;
use super::execute_member::find_active_member;
use super::execute_ticket::end;
use super::state::ShardState;
use crate::command::admin::NewAccessToken;
use crate::command::effect::Effect;
use crate::command::identity::{CodeExchange, NewTokenGrant};
use crate::command::reply::Rejection;
use crate::domain::ids::{AccessTokenId, AppSlot, CompanyId, MemberSlot};
use crate::domain::member::{AccessScope, AccessToken};
use crate::domain::ticket::{AuthorizationCode, Ticket, TicketContent, TicketState};
use crate::domain::token_grant::{TokenGrant, TokenOrigin};
use crate::limits;

pub(super) fn create_token(
    state: &ShardState,
    moment: &Moment<'_>,
    new: &NewAccessToken,
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    effects.push(Effect::AccessToken(Box::new(token_of(state, moment, new, new.scope)?)));
    Ok(())
}

/// A token, made now. Errors: no such company, or the id or text is in use.
fn token_of(
    state: &ShardState,
    moment: &Moment<'_>,
    new: &NewAccessToken,
    scope: AccessScope,
) -> Result<AccessToken, Rejection> {
    let company = find_company(state, new.company)?;
    if state.identity.token_by_id.contains_key(&new.id) || state.tokens.contains_key(&new.digest) {
        return Err(Rejection::IdTaken);
    }
    Ok(AccessToken {
        digest: new.digest,
        id: new.id,
        company,
        scope,
        is_revoked: false,
        created_at: moment.at,
    })
}

pub(super) fn grant_token(
    state: &ShardState,
    moment: &Moment<'_>,
    new: &NewTokenGrant,
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let token = token_of(state, moment, &new.token, new.token.scope)?;
    let app = new.app.map(|id| find_any_app(state, id)).transpose()?;
    let member = new.member.map(|id| find_active_member(state, token.company, id)).transpose()?;
    let member = member.map(|member| member.slot);
    push_grant(state, &token, (app, member), (new.origin, &new.label), effects);
    Ok(())
}

/// Makes the token that a code is for; the code opens nothing afterwards.
/// Errors: `TicketSpent`; the code is for another company's data; the id or text is in use.
pub(super) fn exchange_code(
    state: &ShardState,
    moment: &Moment<'_>,
    exchange: &CodeExchange,
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let ticket = state.identity.tickets.get(&exchange.digest);
    let ticket = ticket.filter(|ticket| ticket.is_open(moment.at)).ok_or(Rejection::TicketSpent)?;
    let code = ticket.code().ok_or(Rejection::TicketSpent)?;
    if state.identity.apps[code.app.index()].is_deleted {
        return Err(Rejection::TicketSpent);
    }
    let token = token_of(state, moment, &exchange.token, code.scope)?;
    if token.company != code.company {
        return Err(Rejection::CompanyNotFound);
    }
    let owners = (Some(code.app), Some(code.member));
    push_grant(state, &token, owners, (TokenOrigin::Code, &exchange.label), effects);
    let code = AuthorizationCode { token: Some(token.digest), ..code.clone() };
    effects.push(Effect::Ticket(Box::new(Ticket {
        state: TicketState::Used,
        content: TicketContent::AuthorizationCode(Box::new(code)),
        ..ticket.clone()
    })));
    Ok(())
}

/// Takes a code back, with the token it gave: somebody has come with it who should not have it.
/// Source: RFC 6749, 4.1.2. Errors: no such code.
pub(super) fn revoke_code(
    state: &ShardState,
    moment: &Moment<'_>,
    digest: &[u8; 32],
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let ticket = state.identity.tickets.find(digest, moment.at);
    let ticket = ticket.ok_or(Rejection::TicketNotFound)?;
    let code = ticket.code().ok_or(Rejection::TicketNotFound)?;
    if ticket.is_open(moment.at) {
        end(ticket, effects);
    }
    if let Some(token) = code.token.and_then(|digest| state.tokens.get(&digest)) {
        revoke(token, effects);
    }
    Ok(())
}

/// Revokes a token of a company; a second time changes nothing. Errors: no such token.
pub(super) fn revoke_token(
    state: &ShardState,
    (company, id): (CompanyId, AccessTokenId),
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let company = find_company(state, company)?;
    let digest = state.identity.token_by_id.get(&id).ok_or(Rejection::TokenNotFound)?;
    let token = &state.tokens[digest];
    if token.company != company {
        return Err(Rejection::TokenNotFound);
    }
    revoke(token, effects);
    Ok(())
}

/// Revokes a token, where it is not revoked.
pub(super) fn revoke(token: &AccessToken, effects: &mut Vec<Effect>) {
    if !token.is_revoked {
        let token = AccessToken { is_revoked: true, ..token.clone() };
        effects.push(Effect::AccessToken(Box::new(token)));
    }
}

/// A token with what it is given for, in the room that its owners have.
fn push_grant(
    state: &ShardState,
    token: &AccessToken,
    (app, member): (Option<AppSlot>, Option<MemberSlot>),
    (origin, label): (TokenOrigin, &str),
    effects: &mut Vec<Effect>,
) {
    let identity = &state.identity;
    let of_app =
        app.and_then(|app| oldest_beyond(identity.tokens_of_app(app), limits::TOKENS_OF_APP_MAX));
    let of_member = member.and_then(|member| {
        oldest_beyond(identity.tokens_of_member(member), limits::TOKENS_OF_MEMBER_MAX)
    });
    for digest in of_app.into_iter().chain(of_member.filter(|found| Some(*found) != of_app)) {
        revoke(&state.tokens[&digest], effects);
    }
    effects.push(Effect::AccessToken(Box::new(token.clone())));
    effects.push(Effect::TokenGrant(Box::new(TokenGrant {
        token: token.id,
        digest: token.digest,
        company: token.company,
        app,
        member,
        origin,
        label: label.to_owned(),
    })));
}

/// The oldest of so many that there is no room for another one.
fn oldest_beyond(mut tokens: impl Iterator<Item = [u8; 32]>, room: usize) -> Option<[u8; 32]> {
    let oldest = tokens.next()?;
    (tokens.count() + 1 >= room).then_some(oldest)
}
