//! Users of the model: a list that is looked through from end to end.

use cardswitch_engine::command::reply::Rejection;
use cardswitch_engine::directory::member::{MemberRole, MemberState};
use cardswitch_engine::directory::ticket::{TicketKind, TicketState};
use cardswitch_engine::directory::user::{NewInvite, NewUser, Totp, UserChanges, UserCommand};
use cardswitch_engine::domain::ids::UserId;

use super::Model;
use super::tickets::Ticket;
use super::tokens::is_beyond;

#[derive(Clone)]
pub struct Person {
    pub id: UserId,
    pub(super) email: String,
    pub password: Option<String>,
    pub totp: Option<Totp>,
    pub is_closed: bool,
}

impl Model {
    pub(crate) fn user_command(&mut self, at: i64, command: &UserCommand) -> Result<(), Rejection> {
        match command {
            UserCommand::NoteSignInFailed(id, _) => self.user(*id).map(drop),
            UserCommand::Create(new) => self.create_user(new),
            UserCommand::Update(id, changes) => self.update_user(at, *id, changes),
            UserCommand::UseTotpStep(id, step) => {
                let user = self.user(*id)?;
                let totp = self.users[user].totp.as_mut().ok_or(Rejection::StepUsed)?;
                if *step <= totp.last_step {
                    return Err(Rejection::StepUsed);
                }
                totp.last_step = *step;
                Ok(())
            }
            UserCommand::EndSessions(user) => {
                let user = self.user(*user)?;
                self.end_tickets(at, |ticket| {
                    ticket.user == user && ticket.kind == TicketKind::Session
                });
                Ok(())
            }
            UserCommand::UsePasswordLink(used) => {
                let is_it = |ticket: &&mut Ticket| {
                    ticket.digest == used.digest
                        && ticket.kind == TicketKind::PasswordLink
                        && ticket.is_open(at)
                };
                let ticket = self.tickets.iter_mut().find(is_it).ok_or(Rejection::TicketSpent)?;
                ticket.state = TicketState::Used;
                let user = ticket.user;
                self.set_password(at, user, &used.password_hash, None);
                Ok(())
            }
        }
    }

    fn create_user(&mut self, new: &NewUser) -> Result<(), Rejection> {
        if self.users.iter().any(|user| user.id == new.id) {
            return Err(Rejection::IdTaken);
        }
        if self.find_person(&new.email).is_some() {
            return Err(Rejection::EmailTaken);
        }
        self.users.push(Person {
            id: new.id,
            email: new.email.to_lowercase(),
            password: new.password_hash.clone(),
            totp: None,
            is_closed: false,
        });
        Ok(())
    }

    fn update_user(&mut self, at: i64, id: UserId, changes: &UserChanges) -> Result<(), Rejection> {
        let user = self.user(id)?;
        let is_kept = |ticket: &Ticket| {
            ticket.user == user
                && ticket.kind == TicketKind::Session
                && Some(ticket.digest) == changes.keep_session
                && ticket.is_open(at)
        };
        if changes.keep_session.is_some() && !self.tickets.iter().any(is_kept) {
            return Err(Rejection::TicketSpent);
        }
        if changes.totp.is_some() || changes.security_question.is_some() {
            self.end_tickets(at, |ticket| {
                ticket.user == user
                    && ticket.kind == TicketKind::Session
                    && Some(ticket.digest) != changes.keep_session
            });
        }
        if let Some(totp) = &changes.totp {
            self.users[user].totp.clone_from(totp);
        }
        if let Some(hash) = &changes.password_hash {
            self.set_password(at, user, hash, changes.keep_session);
        }
        Ok(())
    }

    fn set_password(&mut self, at: i64, user: usize, hash: &str, kept: Option<[u8; 32]>) {
        self.users[user].password = Some(hash.to_owned());
        self.end_tickets(at, |ticket| ticket.user == user && Some(ticket.digest) != kept);
        let email = self.users[user].email.clone();
        let own: Vec<_> = self.members_of_address(&email).collect();
        self.revoke_tokens(|token| {
            token.is_by_password && token.member.is_some_and(|member| own.contains(&member))
        });
    }

    /// The consequences of an invitation of a new member: a user, and a ticket for a password.
    pub(crate) fn invite(
        &mut self,
        at: i64,
        (company, email): (usize, &str),
        invite: &NewInvite,
    ) -> Result<(), Rejection> {
        let known = self.find_person(email);
        if known.is_some_and(|user| self.users[user].password.is_some()) {
            return Ok(());
        }
        self.send_link(at, (company, email), invite)
    }

    /// A company's link to a person, who is made if there is none.
    pub(crate) fn send_link(
        &mut self,
        at: i64,
        (company, email): (usize, &str),
        invite: &NewInvite,
    ) -> Result<(), Rejection> {
        let users = self.users.len();
        if self.find_person(email).is_none() {
            self.create_user(&NewUser {
                id: invite.user,
                email: email.to_owned(),
                first_name: Default::default(),
                last_name: Default::default(),
                password_hash: None,
                developer_of: Vec::new(),
            })?;
        }
        let Some(user) = self.find_person(email) else { unreachable!("it was just made") };
        let ticket = Ticket {
            digest: invite.digest,
            id: invite.ticket,
            user,
            kind: TicketKind::PasswordLink,
            expires_at: invite.expires_at.0,
            state: TicketState::Open,
            code: None,
            sent_by: Some(company),
        };
        let sent = self.put_ticket(at, ticket);
        if sent.is_err() {
            // A link that cannot be issued leaves no user behind.
            self.users.truncate(users);
        }
        sent
    }

    /// Ends the tickets and tokens of a member who leaves.
    pub(crate) fn shut_out(&mut self, at: i64, member: usize) {
        let email = self.members[member].email.clone();
        let user = self.find_person(&email);
        let is_elsewhere = self
            .members_of_address(&email)
            .any(|other| other != member && self.members[other].state == MemberState::Active);
        self.end_tickets(at, |ticket| match ticket.code {
            Some(code) => code.member == member,
            None => {
                ticket.kind == TicketKind::Session && Some(ticket.user) == user && !is_elsewhere
            }
        });
        self.revoke_tokens(|token| token.member == Some(member));
    }

    /// Ends password, second factor and tickets of a user when the last member with its address is deleted.
    pub(crate) fn free_address(&mut self, at: i64, email: &str) {
        if self.members_of_address(email).next().is_some() {
            return;
        }
        let Some(user) = self.find_person(email) else { return };
        self.users[user].password = None;
        self.users[user].totp = None;
        self.users[user].is_closed = true;
        self.end_tickets(at, |ticket| ticket.user == user && ticket.code.is_none());
    }

    /// Ends the tickets and tokens that a new role may not allow.
    pub(crate) fn narrow(&mut self, at: i64, member: usize, role: MemberRole) {
        self.end_tickets(at, |ticket| {
            ticket.code.is_some_and(|code| code.member == member && is_beyond(role, code.scope))
        });
        self.revoke_tokens(|token| token.member == Some(member) && is_beyond(role, token.scope));
    }

    /// Members that are not deleted.
    pub(super) fn members_of_address(&self, email: &str) -> impl Iterator<Item = usize> {
        let is_one = |member: &super::Member| {
            member.state != MemberState::Deleted
                && member.email.to_lowercase() == email.to_lowercase()
        };
        (0..self.members.len()).filter(move |number| is_one(&self.members[*number]))
    }

    pub(crate) fn user(&self, id: UserId) -> Result<usize, Rejection> {
        let is_it = |user: &Person| user.id == id && !user.is_closed;
        self.users.iter().position(is_it).ok_or(Rejection::UserNotFound)
    }

    pub(super) fn find_person(&self, email: &str) -> Option<usize> {
        let is_theirs = |user: &Person| user.email == email.to_lowercase() && !user.is_closed;
        self.users.iter().position(is_theirs)
    }
}
