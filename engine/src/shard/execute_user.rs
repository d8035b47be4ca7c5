//! Users: made, invited, changed. Source: spec "Authentication".
//!
//! A new password ends every other way in that the old one may have opened.

use std::collections::BTreeSet;

use super::execute::Moment;
use super::execute_admin::{find_company, replace};
use super::execute_member::check_room_in_record;
use super::execute_ticket::{end, issue};
use super::execute_token::revoke;
use super::state::ShardState;
use crate::command::effect::Effect;
use crate::command::identity::{NewInvite, NewUser, PasswordLinkUse, ProvenPassword, UserChanges};
use crate::command::reply::Rejection;
use crate::domain::ids::{CompanyId, CompanySlot, UserId, UserSlot};
use crate::domain::member::{Member, email_key};
use crate::domain::text::LineText;
use crate::domain::ticket::{Ticket, TicketContent, TicketKind, TicketState};
use crate::domain::user::{Totp, User};

pub(super) fn create_user(
    state: &ShardState,
    moment: &Moment<'_>,
    new: &NewUser,
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let users = &state.directory.users;
    if users.find(new.id.0).is_some() {
        return Err(Rejection::IdTaken);
    }
    if find_user_by_email(state, &new.email).is_some() {
        return Err(Rejection::EmailTaken);
    }
    effects.push(Effect::row(User {
        slot: users.next_slot().ok_or(Rejection::Full)?,
        id: new.id,
        email: new.email.clone(),
        first_name: new.first_name.to_string(),
        last_name: new.last_name.to_string(),
        password_hash: new.password_hash.clone(),
        totp: None,
        security_question: None,
        developer_of: developer_of(state, &new.developer_of)?,
        created_at: moment.at,
    }));
    Ok(())
}

/// Lets a new member sign in: makes a user where none has the address, and issues a link where the
/// user has no password.
pub(super) fn invite(
    state: &ShardState,
    moment: &Moment<'_>,
    invite: &NewInvite,
    (email, first_name, last_name): (&str, &str, &str),
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let known = find_user_by_email(state, email);
    let user = match known {
        Some(user) if user.password_hash.is_some() => return Ok(()),
        Some(user) => user.slot,
        None => {
            let user = NewUser {
                id: invite.user,
                email: email.to_owned(),
                first_name: LineText::spaced(first_name),
                last_name: LineText::spaced(last_name),
                password_hash: None,
                developer_of: Vec::new(),
            };
            create_user(state, moment, &user, effects)?;
            state.directory.users.next_slot().ok_or(Rejection::Full)?
        }
    };
    let ticket = Ticket {
        digest: invite.digest,
        id: invite.ticket,
        user,
        made_at: moment.at,
        expires_at: invite.expires_at,
        address: String::new(),
        state: TicketState::Open,
        content: TicketContent::PasswordLink { is_invite: true },
    };
    issue(state, moment, ticket, effects)
}

/// Errors: no such company.
fn developer_of(state: &ShardState, ids: &[CompanyId]) -> Result<Vec<CompanySlot>, Rejection> {
    let found: Result<BTreeSet<_>, _> = ids.iter().map(|id| find_company(state, *id)).collect();
    Ok(found?.into_iter().collect())
}

/// Errors: `TicketSpent` where it is no open session of the user.
fn check_session(
    state: &ShardState,
    moment: &Moment<'_>,
    user: UserSlot,
    digest: &[u8; 32],
) -> Result<(), Rejection> {
    let mut open = state.identity.tickets.open_of(user, TicketKind::Session, moment.at);
    if open.any(|ticket| ticket.digest == *digest) { Ok(()) } else { Err(Rejection::TicketSpent) }
}

/// Changes a user. Errors: `TicketSpent` where the session it is done in is not open any more; a
/// company of a developer is not there.
pub(super) fn update_user(
    state: &ShardState,
    moment: &Moment<'_>,
    id: UserId,
    changes: &UserChanges,
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let known = find_user(state, id)?;
    let kept = changes.keep_session.as_ref();
    if let Some(digest) = kept {
        check_session(state, moment, known.slot, digest)?;
    }
    let mut user = known.clone();
    replace(&mut user.first_name, &changes.first_name);
    replace(&mut user.last_name, &changes.last_name);
    replace(&mut user.totp, &changes.totp);
    replace(&mut user.security_question, &changes.security_question);
    if let Some(companies) = &changes.developer_of {
        user.developer_of = developer_of(state, companies)?;
    }
    if let Some(hash) = &changes.password_hash {
        user.password_hash = Some(hash.clone());
        end_ways_in(state, moment, known, kept, effects)?;
    } else if changes.totp.is_some() || changes.security_question.is_some() {
        end_open(state, moment, (known.slot, TicketKind::Session), kept, effects);
    }
    if user != *known {
        effects.push(Effect::row(user));
    }
    Ok(())
}

/// Uses up a step of the clock. Errors: `StepUsed` where it or a later one was, or where no one-time
/// passwords are asked for any more.
pub(super) fn use_totp_step(
    state: &ShardState,
    id: UserId,
    step: u64,
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let known = find_user(state, id)?;
    let totp = known.totp.as_ref().filter(|totp| step > totp.last_step);
    let totp = totp.ok_or(Rejection::StepUsed)?;
    let totp = Some(Totp { last_step: step, ..totp.clone() });
    effects.push(Effect::row(User { totp, ..known.clone() }));
    Ok(())
}

/// Sets a password by a link, which opens nothing afterwards. Errors: `TicketSpent`.
pub(super) fn use_password_link(
    state: &ShardState,
    moment: &Moment<'_>,
    used: &PasswordLinkUse,
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let ticket = state.identity.tickets.get(&used.digest);
    let is_link =
        |ticket: &&Ticket| ticket.kind() == TicketKind::PasswordLink && ticket.is_open(moment.at);
    let ticket = ticket.filter(is_link).ok_or(Rejection::TicketSpent)?;
    let user = state.directory.users.get(ticket.user);
    let password_hash = Some(used.password_hash.clone());
    effects.push(Effect::row(User { password_hash, ..user.clone() }));
    effects.push(Effect::Ticket(Box::new(Ticket { state: TicketState::Used, ..ticket.clone() })));
    end_ways_in(state, moment, user, Some(&used.digest), effects)
}

/// Takes away all that opens an account that is nobody's any more. Its sessions end with the last
/// member of its address.
pub(super) fn close_account(
    state: &ShardState,
    moment: &Moment<'_>,
    known: &User,
    effects: &mut Vec<Effect>,
) {
    let closed = User {
        password_hash: None,
        totp: None,
        security_question: None,
        developer_of: Vec::new(),
        ..known.clone()
    };
    if closed != *known {
        effects.push(Effect::row(closed));
    }
    end_open(state, moment, (known.slot, TicketKind::PasswordLink), None, effects);
}

/// Ends what the old password of a user may have opened, but for one ticket: sessions, password
/// links, codes, and tokens that were given for a password.
/// Errors: `TooMuchAtOnce` where somebody is a member of more than fits one record.
fn end_ways_in(
    state: &ShardState,
    moment: &Moment<'_>,
    user: &User,
    kept: Option<&[u8; 32]>,
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    for kind in [TicketKind::Session, TicketKind::PasswordLink, TicketKind::AuthorizationCode] {
        end_open(state, moment, (user.slot, kind), kept, effects);
    }
    let identity = &state.identity;
    let members = memberships(state, &user.email);
    for digest in members.flat_map(|member| identity.tokens_of_member(member.slot)) {
        let token = &state.tokens[&digest];
        if token.is_of_password() {
            revoke(token, effects);
        }
    }
    check_room_in_record(state, moment, effects)
}

/// Ends a user's tickets of a kind, but for one.
fn end_open(
    state: &ShardState,
    moment: &Moment<'_>,
    (user, kind): (UserSlot, TicketKind),
    kept: Option<&[u8; 32]>,
    effects: &mut Vec<Effect>,
) {
    let open = state.identity.tickets.open_of(user, kind, moment.at);
    open.filter(|ticket| Some(&ticket.digest) != kept).for_each(|ticket| end(ticket, effects));
}

/// Errors: `PasswordChanged` since it was proven.
pub(super) fn check_password(state: &ShardState, proven: &ProvenPassword) -> Result<(), Rejection> {
    if ProvenPassword::of(find_user(state, proven.user)?) == *proven {
        return Ok(());
    }
    Err(Rejection::PasswordChanged)
}

pub(super) fn find_user(state: &ShardState, id: UserId) -> Result<&User, Rejection> {
    state.directory.users.find(id.0).ok_or(Rejection::UserNotFound)
}

/// The user with an e-mail address, in any case.
pub(super) fn find_user_by_email<'a>(state: &'a ShardState, email: &str) -> Option<&'a User> {
    state.directory.users.first(&User::BY_EMAIL, &email_key(email))
}

/// The members of any company with an e-mail address, in any case, without deleted ones.
pub(super) fn memberships<'a>(
    state: &'a ShardState,
    email: &str,
) -> impl Iterator<Item = &'a Member> + use<'a> {
    state.directory.members.under(&Member::OF_PERSON, &email_key(email))
}
