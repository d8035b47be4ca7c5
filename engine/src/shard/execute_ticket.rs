//! Tickets: issued, ended. Source: spec "Authentication".
//!
//! So many of a kind are open for a user at most; one more ends the oldest, so that nobody is locked
//! out and whatever ends all of them fits one record.

use super::execute::Moment;
use super::execute_admin::find_company;
use super::execute_app::find_any_app;
use super::execute_member::find_active_member;
use super::execute_user::find_user;
use super::state::ShardState;
use crate::command::effect::Effect;
use crate::command::identity::{NewAuthorizationCode, NewTicket, NewTicketContent};
use crate::command::reply::Rejection;
use crate::domain::ids::{TicketId, UserId};
use crate::domain::member::email_key;
use crate::domain::ticket::{AuthorizationCode, Ticket, TicketContent, TicketKind, TicketState};
use crate::domain::user::User;
use crate::limits;

pub(super) fn issue_ticket(
    state: &ShardState,
    moment: &Moment<'_>,
    new: &NewTicket,
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let user = find_user(state, new.user)?;
    let content = match &new.content {
        NewTicketContent::Session { user_agent } => {
            TicketContent::Session { user_agent: user_agent.to_string() }
        }
        NewTicketContent::PasswordLink { is_invite } => {
            TicketContent::PasswordLink { is_invite: *is_invite }
        }
        NewTicketContent::AuthorizationCode(code) => {
            TicketContent::AuthorizationCode(Box::new(code_for(state, user, code)?))
        }
    };
    let ticket = Ticket {
        digest: new.digest,
        id: new.id,
        user: user.slot,
        made_at: moment.at,
        expires_at: new.expires_at,
        address: new.address.clone(),
        state: TicketState::Open,
        content,
    };
    issue(state, moment, ticket, effects)
}

/// Issues a ticket. Errors: its secret is known, it has expired, or there are too many.
pub(super) fn issue(
    state: &ShardState,
    moment: &Moment<'_>,
    ticket: Ticket,
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let tickets = &state.identity.tickets;
    if tickets.find(&ticket.digest, moment.at).is_some() {
        return Err(Rejection::IdTaken);
    }
    if ticket.expires_at <= moment.at {
        return Err(Rejection::TicketSpent);
    }
    // What has ended since the last record goes with this one.
    if tickets.len() >= limits::TICKETS_MAX && tickets.first_end() > moment.at {
        return Err(Rejection::Full);
    }
    let open: Vec<_> = tickets.open_of(ticket.user, ticket.kind(), moment.at).collect();
    if open.len() >= limits::TICKETS_OF_USER_MAX {
        end(open[0], effects);
    }
    effects.push(Effect::Ticket(Box::new(ticket)));
    Ok(())
}

/// What an app is given. Errors: no such app or company, or a member of somebody else.
fn code_for(
    state: &ShardState,
    user: &User,
    new: &NewAuthorizationCode,
) -> Result<AuthorizationCode, Rejection> {
    let app = find_any_app(state, new.app)?.slot;
    let company = find_company(state, new.company)?;
    let member = find_active_member(state, company, new.member)?;
    if email_key(&member.email) != email_key(&user.email) {
        return Err(Rejection::MemberNotFound);
    }
    Ok(AuthorizationCode {
        app,
        company,
        member: member.slot,
        redirect_uri: new.redirect_uri.clone(),
        scope: new.scope,
        code_challenge: new.code_challenge.clone(),
        token: None,
    })
}

/// Ends one of a user's tickets. Errors: none of them that is open has this id.
pub(super) fn end_ticket(
    state: &ShardState,
    moment: &Moment<'_>,
    (user, id): (UserId, TicketId),
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let user = find_user(state, user)?.slot;
    let kinds = [TicketKind::Session, TicketKind::PasswordLink, TicketKind::AuthorizationCode];
    let tickets = &state.identity.tickets;
    let mut open = kinds.into_iter().flat_map(|kind| tickets.open_of(user, kind, moment.at));
    end(open.find(|ticket| ticket.id == id).ok_or(Rejection::TicketNotFound)?, effects);
    Ok(())
}

/// Ends all sessions of a user.
pub(super) fn end_sessions(
    state: &ShardState,
    moment: &Moment<'_>,
    user: UserId,
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let user = find_user(state, user)?.slot;
    let sessions = state.identity.tickets.open_of(user, TicketKind::Session, moment.at);
    sessions.for_each(|ticket| end(ticket, effects));
    Ok(())
}

/// Ends an open ticket. Its texts go, so that however long they were, ending all fits one record.
pub(super) fn end(ticket: &Ticket, effects: &mut Vec<Effect>) {
    assert!(ticket.state == TicketState::Open, "a ticket ends once");
    let content = match &ticket.content {
        TicketContent::Session { .. } => TicketContent::Session { user_agent: String::new() },
        TicketContent::PasswordLink { is_invite } => {
            TicketContent::PasswordLink { is_invite: *is_invite }
        }
        TicketContent::AuthorizationCode(code) => {
            let (redirect_uri, code_challenge) = (None, None);
            let code = AuthorizationCode { redirect_uri, code_challenge, ..(**code).clone() };
            TicketContent::AuthorizationCode(Box::new(code))
        }
    };
    let (address, state) = (String::new(), TicketState::Ended);
    effects.push(Effect::Ticket(Box::new(Ticket { address, state, content, ..ticket.clone() })));
}
