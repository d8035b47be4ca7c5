//! Tickets of the model: sessions, links for a password and codes of apps.

use cardswitch_engine::command::reply::Rejection;
use cardswitch_engine::directory::access_token::AccessScope;
use cardswitch_engine::directory::member::MemberState;
use cardswitch_engine::directory::ticket::{
    CodeExchange, NewTicket, NewTicketContent, TicketCommand, TicketKind, TicketState,
};
use cardswitch_engine::domain::ids::TicketId;

use super::{DAY, Model};

#[derive(Clone)]
pub struct Ticket {
    pub digest: [u8; 32],
    pub(super) id: TicketId,
    pub(super) user: usize,
    pub(super) kind: TicketKind,
    pub(super) expires_at: i64,
    pub state: TicketState,
    pub(super) code: Option<Code>,
    /// The company that sent the link.
    pub(super) sent_by: Option<usize>,
}

/// App, company and member, and the token it gave.
#[derive(Clone, Copy)]
pub(super) struct Code {
    pub(super) app: usize,
    pub(super) company: usize,
    pub(super) member: usize,
    pub(super) scope: AccessScope,
    pub(super) token: Option<usize>,
}

impl Ticket {
    pub(super) fn is_open(&self, at: i64) -> bool {
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

    pub(super) fn put_ticket(&mut self, at: i64, ticket: Ticket) -> Result<(), Rejection> {
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

    pub(super) fn end_tickets(&mut self, at: i64, is_meant: impl Fn(&Ticket) -> bool) {
        for ticket in self.tickets.iter_mut().filter(|ticket| ticket.is_open(at)) {
            if is_meant(ticket) {
                ticket.state = TicketState::Ended;
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
}
