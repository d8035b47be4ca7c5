//! Users: people who sign in, with their proofs. Source: spec "Authentication".
//!
//! A user and a member belong together by their e-mail address: the *memberships* of a user are the
//! active members with that address, in any company. Passwords and second factors belong to the
//! user, roles to the membership. Hashes and seals are made at the edge and unreadable here.
//! A new password ends all access that the old one may have opened.
//!
//! An account that develops for no other company closes with the last member of its address, for good:
//! nothing but its id finds it, and whoever gets the address later is another user.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::access_token::{AccessToken, revoke};
use super::change::{PartitionView, StateChange};
use super::company::find_company;
use super::row::indexes;
use super::ticket::{Ticket, TicketContent, TicketKind, TicketState, end, issue};
use crate::command::Moment;
use crate::command::audit_line::{AuditLine, AuditTarget, AuditedPlace};
use crate::command::reply::Rejection;
use crate::command::resource::commands;
use crate::directory::member::Member;
use crate::domain::changes::{changes, replace};
use crate::domain::email::email_key;
use crate::domain::ids::{CompanyId, CompanySlot, TicketId, Timestamp, UserId, UserSlot};
use crate::domain::text::LineText;

/// A user.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// The row's slot.
    pub slot: UserSlot,
    /// Its public id.
    pub id: UserId,
    /// E-mail address, unique over the whole switch. Never changes.
    pub email: String,
    /// First name.
    pub first_name: String,
    /// Last name.
    pub last_name: String,
    /// An encoded Argon2id hash of the password, once one is set.
    pub password_hash: Option<String>,
    /// The generator of one-time passwords, where it is in use.
    pub totp: Option<Totp>,
    /// The additional question, where it is in use.
    pub security_question: Option<SecurityQuestion>,
    /// The companies for which it may register apps without administering them, in their order.
    pub developer_of: Vec<CompanySlot>,
    /// Whether the account is closed: nobody gets into it any more.
    pub is_closed: bool,
    /// The time of creation.
    pub created_at: Timestamp,
}

/// A generator of one-time passwords. Source: RFC 6238.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totp {
    /// The seed of the generator, sealed.
    pub sealed_seed: Vec<u8>,
    /// The newest step of the clock that was used: no step is accepted twice.
    pub last_step: u64,
}

/// A question only the user knows the answer to.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecurityQuestion {
    /// The text of the question.
    pub question: LineText,
    /// An encoded Argon2id hash of the answer, trimmed and in lower case.
    pub answer_hash: String,
}

impl std::fmt::Debug for User {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "User({}, {})", self.slot.0, self.id.0)
    }
}

impl std::fmt::Debug for Totp {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Totp(step {})", self.last_step)
    }
}

crate::opaque!(SecurityQuestion, UserChanges, PasswordLinkUse);

indexes! {
    User(user), CHANGES_ACCESS: true, found if !user.is_closed;
    /// The user with an e-mail address, by its `email_key`.
    BY_EMAIL = 1: String => email_key(&user.email);
}

commands! {
    /// The commands on users.
    #[derive(Clone, Debug)]
    pub enum UserCommand(change) {
        /// Makes a user.
        Create(new: NewUser) makes new.id.0 =>
            AuditLine::new(AuditedPlace::Email(&new.email), "user.created", AuditTarget::One(new.id.0)),
            create(change, new).map(drop);
        /// Changes a user.
        Update(id: UserId, changes: UserChanges) =>
            line_of_update(*id, changes),
            update(change, *id, changes);
        /// Sets a password by a link.
        UsePasswordLink(used: PasswordLinkUse) =>
            AuditLine::new(AuditedPlace::Ticket(used.digest), "user.password_set", AuditTarget::Holder)
                .with(vec!["password"]),
            set_password_by_link(change, used);
        /// Uses up a step of a user's one-time passwords, and all before it.
        UseTotpStep(id: UserId, step: u64) =>
            AuditLine::of_user(*id, "user.totp_used", id.0),
            use_totp_step(change, *id, *step);
        /// Ends all sessions of a user.
        EndSessions(id: UserId) =>
            AuditLine::of_user(*id, "user.sessions_ended", id.0),
            end_sessions(change, *id);
        /// Notes a failed sign-in as a user; changes nothing.
        NoteSignInFailed(id: UserId, proof: SignInProof) =>
            AuditLine::of_user(*id, "user.sign_in_failed", id.0).with(vec![proof.name()]),
            find_user(change.state, *id).map(drop);
    }
}

/// A user to make.
#[derive(Clone)]
pub struct NewUser {
    /// Its id.
    pub id: UserId,
    /// E-mail address.
    pub email: String,
    /// First name.
    pub first_name: LineText,
    /// Last name.
    pub last_name: LineText,
    /// An encoded Argon2id hash of the password.
    pub password_hash: Option<String>,
    /// The companies for which it may register apps without administering them.
    pub developer_of: Vec<CompanyId>,
}

impl std::fmt::Debug for NewUser {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "NewUser({})", self.id.0)
    }
}

changes! {
    /// Changes of a user; absent fields stay.
    #[derive(Clone, Default)]
    pub struct UserChanges {
        /// First name.
        first_name: Option<LineText>,
        /// Last name.
        last_name: Option<LineText>,
        /// A new password, as an encoded Argon2id hash: ends all access that the old one may have
        /// opened.
        password_hash as "password": Option<String>,
        /// One-time passwords; ends the user's other sessions.
        totp: Option<Option<Totp>>,
        /// The additional question; ends the user's other sessions.
        security_question: Option<Option<SecurityQuestion>>,
        /// Whether it may register apps for a company without administering it.
        develops as "developer_of": Option<(CompanyId, bool)>,
        | /// The session in which it is changed, which goes on. Has to be open: whatever ended it in the
        /// meantime wins.
        keep_session: Option<[u8; 32]>,
    }
}

/// Who may develop for a company is told to that company, whatever else changes.
fn line_of_update(id: UserId, changes: &UserChanges) -> AuditLine<'_> {
    let place = match changes.develops {
        Some((company, _)) => AuditedPlace::Company(company),
        None => AuditedPlace::User(id),
    };
    AuditLine::new(place, "user.updated", AuditTarget::One(id.0)).with(changes.names())
}

/// The use of a link to set a password.
#[derive(Clone)]
pub struct PasswordLinkUse {
    /// SHA-256 of the key in the link.
    pub digest: [u8; 32],
    /// An encoded Argon2id hash of the new password.
    pub password_hash: String,
}

/// A verified password, with the second factors that it was verified with. Verification takes long,
/// and so do replies: an action that follows it is done only if all these factors are still
/// current. The last step of one-time passwords is left out, since each use moves it.
#[derive(Clone, PartialEq, Eq)]
pub struct ProvenPassword {
    /// The user.
    pub user: UserId,
    /// The encoded hash that the password was compared with.
    pub password_hash: Option<String>,
    /// The sealed seed of one-time passwords, where they are in use.
    pub totp_seed: Option<Vec<u8>>,
    /// The encoded hash of the answer, where a security question is in use.
    pub answer_hash: Option<String>,
}

impl ProvenPassword {
    /// The current factors of a user.
    pub fn of(user: &User) -> Self {
        Self {
            user: user.id,
            password_hash: user.password_hash.clone(),
            totp_seed: user.totp.as_ref().map(|totp| totp.sealed_seed.clone()),
            answer_hash: user.security_question.as_ref().map(|asked| asked.answer_hash.clone()),
        }
    }
}

impl std::fmt::Debug for ProvenPassword {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "ProvenPassword({})", self.user.0)
    }
}

/// The proof of a sign-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignInProof {
    /// The password.
    Password,
    /// A one-time code.
    Totp,
    /// The answer to the security question.
    SecurityQuestion,
}

/// A company's link by which a member sets a password.
#[derive(Clone, Debug)]
pub struct NewInvite {
    /// The id of the user to make, if no user has the member's address.
    pub user: UserId,
    /// SHA-256 of the key in the link.
    pub digest: [u8; 32],
    /// The id of the link's ticket.
    pub ticket: TicketId,
    /// The time at which the link expires.
    pub expires_at: Timestamp,
}

impl SignInProof {
    const fn name(self) -> &'static str {
        match self {
            Self::Password => "password",
            Self::Totp => "totp",
            Self::SecurityQuestion => "security_question",
        }
    }
}

fn end_sessions(change: &mut StateChange<'_>, id: UserId) -> Result<(), Rejection> {
    let user = find_user(change.state, id)?.slot;
    end_open(change, (user, TicketKind::Session), None);
    Ok(())
}

fn create(change: &mut StateChange<'_>, new: &NewUser) -> Result<UserSlot, Rejection> {
    let users = &change.state.directory().users;
    let slot = users.slot_for(new.id.0)?;
    if find_user_by_email(change.state, &new.email).is_some() {
        return Err(Rejection::EmailTaken);
    }
    change.put(User {
        slot,
        id: new.id,
        email: new.email.clone(),
        first_name: new.first_name.to_string(),
        last_name: new.last_name.to_string(),
        password_hash: new.password_hash.clone(),
        totp: None,
        security_question: None,
        developer_of: developer_of(change.state, &new.developer_of)?,
        is_closed: false,
        created_at: change.moment.at,
    });
    Ok(slot)
}

/// Lets a new member sign in: makes a user if none has the address, and issues a link if the user
/// has no password.
pub(crate) fn invite(
    change: &mut StateChange<'_>,
    member: &Member,
    invite: &NewInvite,
) -> Result<(), Rejection> {
    let known = find_user_by_email(change.state, &member.email);
    let has_password = known.is_some_and(|user| user.password_hash.is_some());
    if has_password { Ok(()) } else { issue_link_to(change, member, invite) }
}

/// Issues a link of a member's company to the member's user, who is made if there is none.
pub(crate) fn issue_link_to(
    change: &mut StateChange<'_>,
    member: &Member,
    invite: &NewInvite,
) -> Result<(), Rejection> {
    let known = find_user_by_email(change.state, &member.email);
    let is_invite = known.is_none_or(|user| user.password_hash.is_none());
    let user = match known {
        Some(user) => user.slot,
        None => {
            let user = NewUser {
                id: invite.user,
                email: member.email.clone(),
                first_name: LineText::spaced(&member.first_name),
                last_name: LineText::spaced(&member.last_name),
                password_hash: None,
                developer_of: Vec::new(),
            };
            create(change, &user)?
        }
    };
    let ticket = Ticket {
        digest: invite.digest,
        id: invite.ticket,
        user,
        created_at: change.moment.at,
        expires_at: invite.expires_at,
        address: String::new(),
        state: TicketState::Open,
        content: TicketContent::PasswordLink { is_invite, sent_by: Some(member.company) },
    };
    issue(change, ticket)
}

/// The slots of a developer's companies. Errors: no such company.
fn developer_of(
    state: &dyn PartitionView,
    ids: &[CompanyId],
) -> Result<Vec<CompanySlot>, Rejection> {
    let found: Result<BTreeSet<_>, _> = ids.iter().map(|id| find_company(state, *id)).collect();
    Ok(found?.into_iter().collect())
}

/// Errors: `TicketSpent` if the digest is no open session of the user.
fn check_session(
    state: &dyn PartitionView,
    moment: &Moment<'_>,
    user: UserSlot,
    digest: &[u8; 32],
) -> Result<(), Rejection> {
    let mut open = state.directory().tickets.open_of(user, TicketKind::Session, moment.at);
    if open.any(|ticket| ticket.digest == *digest) { Ok(()) } else { Err(Rejection::TicketSpent) }
}

/// Changes a user. Errors: `TicketSpent` if the session to keep is not open any more; a company of
/// a developer does not exist.
fn update(
    change: &mut StateChange<'_>,
    id: UserId,
    changes: &UserChanges,
) -> Result<(), Rejection> {
    let known = find_user(change.state, id)?;
    let kept = changes.keep_session.as_ref();
    if let Some(digest) = kept {
        check_session(change.state, change.moment, known.slot, digest)?;
    }
    let mut user = known.clone();
    replace(&mut user.first_name, &changes.first_name);
    replace(&mut user.last_name, &changes.last_name);
    replace(&mut user.totp, &changes.totp);
    replace(&mut user.security_question, &changes.security_question);
    if let Some((company, develops)) = changes.develops {
        let company = find_company(change.state, company)?;
        let others = known.developer_of.iter().copied().filter(|other| *other != company);
        let developer_of: BTreeSet<_> = others.chain(develops.then_some(company)).collect();
        user.developer_of = developer_of.into_iter().collect();
    }
    if let Some(hash) = &changes.password_hash {
        user.password_hash = Some(hash.clone());
        end_ways_in(change, known, kept)?;
    } else if changes.totp.is_some() || changes.security_question.is_some() {
        end_open(change, (known.slot, TicketKind::Session), kept);
    }
    change.put_changed(user, known);
    Ok(())
}

/// Uses up a step of the clock. Errors: `StepUsed` if this step or a later one was used, or
/// one-time passwords are off.
fn use_totp_step(change: &mut StateChange<'_>, id: UserId, step: u64) -> Result<(), Rejection> {
    let known = find_user(change.state, id)?;
    let totp = known.totp.as_ref().filter(|totp| step > totp.last_step);
    let totp = totp.ok_or(Rejection::StepUsed)?;
    let totp = Some(Totp { last_step: step, ..totp.clone() });
    change.put(User { totp, ..known.clone() });
    Ok(())
}

/// Sets a password by a link, which opens nothing afterwards. Errors: `TicketSpent`.
fn set_password_by_link(
    change: &mut StateChange<'_>,
    used: &PasswordLinkUse,
) -> Result<(), Rejection> {
    let ticket = change.state.directory().tickets.get(&used.digest);
    let is_link = |ticket: &&Ticket| {
        ticket.kind() == TicketKind::PasswordLink && ticket.is_open(change.moment.at)
    };
    let ticket = ticket.filter(is_link).ok_or(Rejection::TicketSpent)?;
    let user = change.state.directory().users.get(ticket.user);
    let password_hash = Some(used.password_hash.clone());
    change.put(User { password_hash, ..user.clone() });
    change.put(Ticket { state: TicketState::Used, ..ticket.clone() });
    end_ways_in(change, user, Some(&used.digest))
}

/// Closes an account without members. Its sessions ended with the last active member of its
/// address.
pub(crate) fn close_account(change: &mut StateChange<'_>, known: &User) {
    let closed = User {
        password_hash: None,
        totp: None,
        security_question: None,
        developer_of: Vec::new(),
        is_closed: true,
        ..known.clone()
    };
    change.put(closed);
    end_open(change, (known.slot, TicketKind::PasswordLink), None);
}

/// Ends the access that the old password of a user may have opened, but for one ticket: sessions,
/// password links, codes, and tokens granted for a password.
/// Errors: `TooMuchAtOnce` if the user's memberships are more than fit one record.
fn end_ways_in(
    change: &mut StateChange<'_>,
    user: &User,
    kept: Option<&[u8; 32]>,
) -> Result<(), Rejection> {
    for kind in [TicketKind::Session, TicketKind::PasswordLink, TicketKind::AuthorizationCode] {
        end_open(change, (user.slot, kind), kept);
    }
    let tokens = &change.state.directory().access_tokens;
    for member in memberships(change.state, &user.email) {
        let of_member = tokens.under(&AccessToken::OF_MEMBER, &member.slot);
        of_member.filter(|token| token.is_of_password()).for_each(|token| revoke(change, token));
    }
    change.check_room()
}

/// Ends a user's tickets of a kind, but for one.
fn end_open(
    change: &mut StateChange<'_>,
    (user, kind): (UserSlot, TicketKind),
    kept: Option<&[u8; 32]>,
) {
    let open = change.state.directory().tickets.open_of(user, kind, change.moment.at);
    open.filter(|ticket| Some(&ticket.digest) != kept).for_each(|ticket| end(change, ticket));
}

/// Errors: `PasswordChanged` if the password, or a second factor, was changed since it was
/// verified, or the account was closed.
pub(crate) fn check_password(
    state: &dyn PartitionView,
    proven: &ProvenPassword,
) -> Result<(), Rejection> {
    let user = state.directory().users.find(proven.user.0).ok_or(Rejection::UserNotFound)?;
    let is_current = !user.is_closed && ProvenPassword::of(user) == *proven;
    if is_current { Ok(()) } else { Err(Rejection::PasswordChanged) }
}

/// Errors: `MemberInactive` if all members of the user were deactivated, unless the user develops
/// apps. A user who never was a member passes.
// SPEC: "Members", deactivation: an inactive member cannot use any function including login.
pub(crate) fn check_takes_part(state: &dyn PartitionView, user: &User) -> Result<(), Rejection> {
    let mut members = memberships(state, &user.email).peekable();
    let is_member = members.peek().is_some();
    if is_member && user.developer_of.is_empty() && !members.any(Member::takes_part) {
        return Err(Rejection::MemberInactive);
    }
    Ok(())
}

/// A user whose account is not closed.
pub(crate) fn find_user(state: &dyn PartitionView, id: UserId) -> Result<&User, Rejection> {
    let user = state.directory().users.find(id.0).filter(|user| !user.is_closed);
    user.ok_or(Rejection::UserNotFound)
}

/// The user with an e-mail address, in any case.
pub(crate) fn find_user_by_email<'a>(
    state: &'a dyn PartitionView,
    email: &str,
) -> Option<&'a User> {
    state.directory().users.first(&User::BY_EMAIL, &email_key(email))
}

/// The members of any company with an e-mail address, in any case, without deleted ones.
pub(crate) fn memberships<'a>(
    state: &'a dyn PartitionView,
    email: &str,
) -> impl Iterator<Item = &'a Member> + use<'a> {
    state.directory().members.under(&Member::OF_PERSON, &email_key(email))
}
