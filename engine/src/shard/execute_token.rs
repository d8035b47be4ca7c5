//! Access tokens: made, given for a code, revoked. Source: RFC 6749, 4.1; RFC 7009.
//!
//! So many of a member, and of an app, open anything at a time, so that whatever revokes all of them
//! fits one record.

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
use crate::domain::ids::{AccessTokenId, CompanyId, UserSlot};
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
        grant: None,
    })
}

pub(super) fn grant_token(
    state: &ShardState,
    moment: &Moment<'_>,
    new: &NewTokenGrant,
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let token = token_of(state, moment, &new.token, new.token.scope)?;
    let app = new.app.map(|id| find_any_app(state, id)).transpose()?.map(|app| app.slot);
    let member = new.member.map(|id| find_active_member(state, token.company, id)).transpose()?;
    let member = member.map(|member| member.slot);
    let grant = TokenGrant { app, member, origin: new.origin, label: new.label.clone().into() };
    push_granted(state, token, grant, effects)
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
    if state.directory.apps.get(code.app).is_deleted {
        return Err(Rejection::TicketSpent);
    }
    let token = token_of(state, moment, &exchange.token, code.scope)?;
    if token.company != code.company {
        return Err(Rejection::CompanyNotFound);
    }
    let digest = token.digest;
    let (app, member, label) = (Some(code.app), Some(code.member), exchange.label.clone());
    let grant = TokenGrant { app, member, origin: TokenOrigin::Code, label: label.into() };
    push_granted(state, token, grant, effects)?;
    // What it was asked with is of no use any more.
    let (redirect_uri, code_challenge, token) = (None, None, Some(digest));
    let code = AuthorizationCode { redirect_uri, code_challenge, token, ..code.clone() };
    forget_used_code(state, ticket.user, effects);
    effects.push(Effect::Ticket(Box::new(Ticket {
        state: TicketState::Used,
        address: String::new(),
        content: TicketContent::AuthorizationCode(Box::new(code)),
        ..ticket.clone()
    })));
    Ok(())
}

/// Forgets the oldest of a user's used codes where there are so many.
fn forget_used_code(state: &ShardState, user: UserSlot, effects: &mut Vec<Effect>) {
    let mut used = state.identity.tickets.used_codes_of(user);
    let Some(oldest) = used.next() else { return };
    if used.count() + 1 >= limits::USED_CODES_OF_USER_MAX {
        let ended = Ticket { state: TicketState::Ended, ..oldest.clone() };
        effects.push(Effect::Ticket(Box::new(ended)));
    }
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

/// Revokes a token of a company. Errors: no such token, or it is revoked.
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

/// Revokes a token.
pub(super) fn revoke(token: &AccessToken, effects: &mut Vec<Effect>) {
    assert!(!token.is_revoked, "a token is revoked once");
    let token = AccessToken { is_revoked: true, ..token.clone() };
    effects.push(Effect::AccessToken(Box::new(token)));
}

/// Adds a token with what it is given for. Errors: `TooManyTokens`.
fn push_granted(
    state: &ShardState,
    token: AccessToken,
    grant: TokenGrant,
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    make_room(state, &grant, effects)?;
    effects.push(Effect::AccessToken(Box::new(AccessToken { grant: Some(grant), ..token })));
    Ok(())
}

/// Makes room for a token of these owners, where there is none. Who signs a member in to an app over
/// and over displaces what that gave before, and nothing else: no app takes tokens from another, and
/// nobody who may only sign in takes any from other people.
/// Errors: `TooManyTokens`. Cost: O(tokens of the owners), which are bounded.
fn make_room(
    state: &ShardState,
    &TokenGrant { app, member, origin, .. }: &TokenGrant,
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let identity = &state.identity;
    let of_app = app.map_or(0, |app| identity.tokens_of_app(app).count());
    let of_member = member.map_or(0, |member| identity.tokens_of_member(member).count());
    if of_app < limits::TOKENS_OF_APP_MAX && of_member < limits::TOKENS_OF_MEMBER_MAX {
        return Ok(());
    }
    let is_of_same = |token: &&AccessToken| token.app() == app && token.is_of_password();
    let tokens = member.into_iter().flat_map(|member| identity.tokens_of_member(member));
    let oldest = tokens.map(|digest| &state.tokens[&digest]).find(|token| is_of_same(token));
    let oldest = oldest.filter(|_| origin == TokenOrigin::Password);
    revoke(oldest.ok_or(Rejection::TooManyTokens)?, effects);
    Ok(())
}
