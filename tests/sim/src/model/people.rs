//! Users, tickets, apps and tokens of the model: lists that are looked through from end to end.

use cardswitch_engine::command::reply::Rejection;
use cardswitch_engine::directory::access_token::{
    AccessScope, AccessTokenCommand, NewAccessToken, NewTokenGrant, TokenOrigin,
};
use cardswitch_engine::directory::app::AppCommand;
use cardswitch_engine::directory::member::{MemberRole, MemberState};
use cardswitch_engine::directory::ticket::{
    CodeExchange, NewTicket, NewTicketContent, TicketCommand, TicketKind, TicketState,
};
use cardswitch_engine::directory::user::{NewInvite, NewUser, Totp, UserChanges, UserCommand};
use cardswitch_engine::domain::ids::{AccessTokenId, AppId, CompanyId, MemberId, TicketId, UserId};
use cardswitch_engine::domain::text::LineText;

use super::{DAY, Model};

#[derive(Clone)]
pub struct Person {
    pub id: UserId,
    email: String,
    pub password: Option<String>,
    pub totp: Option<Totp>,
    pub is_closed: bool,
}

#[derive(Clone)]
pub struct Ticket {
    pub digest: [u8; 32],
    id: TicketId,
    user: usize,
    kind: TicketKind,
    expires_at: i64,
    pub state: TicketState,
    code: Option<Code>,
    /// The company that sent the link.
    sent_by: Option<usize>,
}

/// App, company and member, and the token it gave.
#[derive(Clone, Copy)]
struct Code {
    app: usize,
    company: usize,
    member: usize,
    scope: AccessScope,
    token: Option<usize>,
}

#[derive(Clone)]
pub(crate) struct App {
    id: AppId,
    company: usize,
    is_deleted: bool,
}

#[derive(Clone)]
pub struct Token {
    id: AccessTokenId,
    pub digest: [u8; 32],
    company: usize,
    app: Option<usize>,
    member: Option<usize>,
    scope: AccessScope,
    is_by_password: bool,
    pub is_revoked: bool,
}

impl Token {
    pub(super) const fn member(&self) -> Option<usize> {
        self.member
    }
}

impl Ticket {
    fn is_open(&self, at: i64) -> bool {
        self.state == TicketState::Open && at < self.expires_at
    }

    pub fn is_known(&self, at: i64) -> bool {
        match self.state {
            TicketState::Open => at < self.expires_at,
            TicketState::Used => self.code.is_some() && at < self.expires_at + DAY,
            TicketState::Ended => false,
        }
    }
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

    pub(crate) fn ticket_command(
        &mut self,
        at: i64,
        command: &TicketCommand,
    ) -> Result<(), Rejection> {
        match command {
            TicketCommand::Issue(new) => self.issue_ticket(at, new),
            TicketCommand::End(user, id) => {
                let user = self.user(*user)?;
                let is_it = |ticket: &&mut Ticket| {
                    ticket.user == user && ticket.id == *id && ticket.is_open(at)
                };
                let ticket = self.tickets.iter_mut().find(is_it);
                ticket.ok_or(Rejection::TicketNotFound)?.state = TicketState::Ended;
                Ok(())
            }
            TicketCommand::ExchangeCode(exchange) => self.exchange_code(at, exchange),
            TicketCommand::RevokeCode(digest) => {
                let is_it = |ticket: &&mut Ticket| {
                    ticket.digest == *digest && ticket.code.is_some() && ticket.is_known(at)
                };
                let ticket = self.tickets.iter_mut().find(is_it);
                let ticket = ticket.ok_or(Rejection::TicketNotFound)?;
                if ticket.is_open(at) {
                    ticket.state = TicketState::Ended;
                }
                if let Some(token) = ticket.code.and_then(|code| code.token) {
                    // By its text, which only a test gives out twice.
                    let digest = self.tokens[token].digest;
                    self.revoke_tokens(|token| token.digest == digest);
                }
                Ok(())
            }
        }
    }

    pub(crate) fn token_command(&mut self, command: &AccessTokenCommand) -> Result<(), Rejection> {
        match command {
            AccessTokenCommand::Create(new) => self.make_token(new, (None, None)).map(drop),
            AccessTokenCommand::Grant(new) => self.grant_token(new),
            AccessTokenCommand::Revoke(company, id) => {
                let company = self.company(*company)?;
                let is_it = |token: &&mut Token| {
                    token.id == *id && token.company == company && !token.is_revoked
                };
                let token = self.tokens.iter_mut().find(is_it);
                token.ok_or(Rejection::TokenNotFound)?.is_revoked = true;
                Ok(())
            }
        }
    }

    pub(crate) fn app_command(&mut self, at: i64, command: &AppCommand) -> Result<(), Rejection> {
        match command {
            AppCommand::RevokeTokens(app, company) => {
                let company = self.company(*company)?;
                let app = self.app(*app)?;
                self.end_tickets(at, |ticket| {
                    ticket.code.is_some_and(|code| code.app == app && code.company == company)
                });
                self.revoke_tokens(|token| token.app == Some(app) && token.company == company);
                Ok(())
            }
            AppCommand::Create(new) => {
                let company = self.open_company(new.company)?;
                if self.apps.iter().any(|app| app.id == new.id) {
                    return Err(Rejection::IdTaken);
                }
                self.apps.push(App { id: new.id, company, is_deleted: false });
                Ok(())
            }
            AppCommand::Update(company, id, _) => {
                let app = self.own_app(*company, *id)?;
                self.check_open(self.apps[app].company)
            }
            // No decision reads the page of an app: see `people::apps`.
            AppCommand::Approve(company, id, _) => self.own_app(*company, *id).map(drop),
            AppCommand::Delete(company, id) => {
                let app = self.own_app(*company, *id)?;
                self.apps[app].is_deleted = true;
                self.revoke_tokens(|token| token.app == Some(app));
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

    fn issue_ticket(&mut self, at: i64, new: &NewTicket) -> Result<(), Rejection> {
        let user = self.user(new.user)?;
        let (kind, code) = match &new.content {
            NewTicketContent::Session { .. } => {
                let email = &self.users[user].email;
                let members = self.members.iter();
                let theirs = members.filter(|member| member.email.to_lowercase() == *email);
                let states: Vec<_> = theirs.map(|member| member.state).collect();
                let is_member = states.iter().any(|state| *state != MemberState::Deleted);
                let is_shut_out = is_member && !states.contains(&MemberState::Active);
                if is_shut_out {
                    return Err(Rejection::MemberInactive);
                }
                (TicketKind::Session, None)
            }
            NewTicketContent::PasswordLink { .. } => (TicketKind::PasswordLink, None),
            NewTicketContent::AuthorizationCode(code) => {
                let app = self.admissible_app(code.app)?;
                let company = self.open_company(code.company)?;
                let member = self.granting_member(company, code.member, code.scope)?;
                if self.members[member].email.to_lowercase() != self.users[user].email {
                    return Err(Rejection::MemberNotFound);
                }
                let code = Code { app, company, member, scope: code.scope, token: None };
                (TicketKind::AuthorizationCode, Some(code))
            }
        };
        let (digest, id, expires_at) = (new.digest, new.id, new.expires_at.0);
        let (state, sent_by) = (TicketState::Open, None);
        self.put_ticket(at, Ticket { digest, id, user, kind, expires_at, state, code, sent_by })
    }

    fn put_ticket(&mut self, at: i64, ticket: Ticket) -> Result<(), Rejection> {
        if self.tickets.iter().any(|known| known.digest == ticket.digest && known.is_known(at)) {
            return Err(Rejection::IdTaken);
        }
        if ticket.expires_at <= at {
            return Err(Rejection::TicketSpent);
        }
        // One link of a company to a user.
        self.end_tickets(at, |known| {
            known.user == ticket.user && known.sent_by.is_some() && known.sent_by == ticket.sent_by
        });
        self.tickets.retain(|known| known.is_known(at));
        self.tickets.push(ticket);
        Ok(())
    }

    fn end_tickets(&mut self, at: i64, is_meant: impl Fn(&Ticket) -> bool) {
        for ticket in self.tickets.iter_mut().filter(|ticket| ticket.is_open(at)) {
            if is_meant(ticket) {
                ticket.state = TicketState::Ended;
            }
        }
    }

    fn revoke_tokens(&mut self, is_meant: impl Fn(&Token) -> bool) {
        for token in self.tokens.iter_mut().filter(|token| is_meant(token)) {
            token.is_revoked = true;
        }
    }

    fn make_token(
        &mut self,
        new: &NewAccessToken,
        (app, member): (Option<usize>, Option<usize>),
    ) -> Result<usize, Rejection> {
        let company = self.open_company(new.company)?;
        let is_taken =
            |known: &Token| !known.is_revoked && (known.id == new.id || known.digest == new.digest);
        if self.tokens.iter().any(is_taken) {
            return Err(Rejection::IdTaken);
        }
        let (id, digest) = (new.id, new.digest);
        let (is_by_password, is_revoked) = (false, false);
        self.tokens.push(Token {
            id,
            digest,
            company,
            app,
            member,
            scope: new.scope,
            is_by_password,
            is_revoked,
        });
        Ok(self.tokens.len() - 1)
    }

    fn grant_token(&mut self, new: &NewTokenGrant) -> Result<(), Rejection> {
        let made = self.make_token(&new.token, (None, None))?;
        let owners = new.app.map(|id| self.admissible_app(id)).transpose().and_then(|app| {
            let company = self.tokens[made].company;
            let member = new.member.map(|id| self.granting_member(company, id, new.token.scope));
            let member = member.transpose()?;
            Ok((app, member))
        });
        match owners {
            Ok((app, member)) => {
                let token = &mut self.tokens[made];
                (token.app, token.member) = (app, member);
                token.is_by_password = new.origin == TokenOrigin::Password;
                Ok(())
            }
            Err(rejection) => {
                self.tokens.pop();
                Err(rejection)
            }
        }
    }

    fn exchange_code(&mut self, at: i64, exchange: &CodeExchange) -> Result<(), Rejection> {
        let is_it = |ticket: &Ticket| ticket.digest == exchange.digest && ticket.is_open(at);
        let place = self.tickets.iter().position(is_it).ok_or(Rejection::TicketSpent)?;
        let code = self.tickets[place].code.ok_or(Rejection::TicketSpent)?;
        if self.apps[code.app].is_deleted {
            return Err(Rejection::TicketSpent);
        }
        self.check_open(self.apps[code.app].company)?;
        let made = self.make_token(&exchange.token, (Some(code.app), Some(code.member)))?;
        if self.tokens[made].company != code.company {
            self.tokens.pop();
            return Err(Rejection::CompanyNotFound);
        }
        self.tokens[made].scope = code.scope;
        let ticket = &mut self.tickets[place];
        ticket.state = TicketState::Used;
        ticket.code = Some(Code { token: Some(made), ..code });
        Ok(())
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

    fn granting_member(
        &self,
        company: usize,
        id: MemberId,
        scope: AccessScope,
    ) -> Result<usize, Rejection> {
        let member = self.active_member(company, id)?;
        match is_beyond(self.members[member].role, scope) {
            true => Err(Rejection::ScopeNotAllowed),
            false => Ok(member),
        }
    }

    /// Members that are not deleted.
    fn members_of_address(&self, email: &str) -> impl Iterator<Item = usize> {
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

    fn find_person(&self, email: &str) -> Option<usize> {
        let is_theirs = |user: &Person| user.email == email.to_lowercase() && !user.is_closed;
        self.users.iter().position(is_theirs)
    }

    fn app(&self, id: AppId) -> Result<usize, Rejection> {
        let is_it = |app: &App| app.id == id && !app.is_deleted;
        self.apps.iter().position(is_it).ok_or(Rejection::AppNotFound)
    }

    /// One whose company is not closed.
    fn admissible_app(&self, id: AppId) -> Result<usize, Rejection> {
        let app = self.app(id)?;
        self.check_open(self.apps[app].company).map(|()| app)
    }

    fn own_app(&self, company: CompanyId, id: AppId) -> Result<usize, Rejection> {
        let company = self.company(company)?;
        let app = self.app(id)?;
        if self.apps[app].company == company { Ok(app) } else { Err(Rejection::AppNotFound) }
    }

    /// Whether no other member of the company, that is not deleted, has this external id.
    pub(crate) fn check_external_id(
        &self,
        company: usize,
        owner: Option<usize>,
        id: Option<&LineText>,
    ) -> Result<(), Rejection> {
        let Some(id) = id else { return Ok(()) };
        let has_it = |(number, member): (usize, &super::Member)| {
            member.company == company
                && Some(number) != owner
                && member.external_id.as_ref() == Some(id)
        };
        let is_taken = self.members.iter().enumerate().any(has_it);
        if is_taken { Err(Rejection::ExternalIdTaken) } else { Ok(()) }
    }
}

/// Whether a scope is more than a role may give.
fn is_beyond(role: MemberRole, scope: AccessScope) -> bool {
    match role {
        MemberRole::Administrator => false,
        MemberRole::Accountant => scope.admin || scope.scim || scope.iam,
        MemberRole::Reviewer | MemberRole::Member => true,
    }
}
