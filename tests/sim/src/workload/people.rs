//! Draws the acts of people and programs: they sign in, set passwords, let apps in and take that back.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::access_token::{
    AccessScope, AccessTokenCommand, NewAccessToken, NewTokenGrant, TokenOrigin,
};
use cardswitch_engine::directory::app::{AppChanges, AppCommand, NewApp};
use cardswitch_engine::directory::ticket::{
    CodeExchange, NewAuthorizationCode, NewTicket, NewTicketContent, TicketCommand,
};
use cardswitch_engine::directory::user::{
    NewInvite, NewUser, PasswordLinkUse, ProvenPassword, Totp, UserChanges, UserCommand,
};
use cardswitch_engine::domain::audit::{Actor, AuditNote};
use cardswitch_engine::domain::ids::{CompanyId, MemberId, Timestamp};

use super::MEMBERS_AT_FIRST;
use crate::model::{DAY, HOUR, MINUTE};
use crate::rng::Rng;
use crate::samples::{app_id, company_id, digest, member_id, ticket_id, token_id, user_id};

/// Users are the first members of the three companies, by their numbers.
const USERS: u64 = 9;
const APPS: u64 = 4;
/// The sealed seed of all users' one-time passwords.
const SEED: [u8; 20] = [1; 20];

/// How many of everything there were.
#[derive(Default)]
pub(crate) struct PeopleCounts {
    tickets: u64,
    tokens: u64,
}

/// The address of the member with this number, in a company.
pub(crate) fn email_of(number: u64, company: u64) -> String {
    format!("ada{}@{company}.example", if number.is_multiple_of(4) { 0 } else { number })
}

/// The actor of a change.
pub(crate) fn draw_note(rng: &mut Rng) -> AuditNote {
    let member = rng.chance(50).then(|| member_id(rng.below(USERS)));
    let actor = match rng.below(4) {
        0 => Actor::Operator,
        1 => Actor::Switch,
        2 => Actor::Token { id: token_id(rng.below(9)), member },
        _ => Actor::User { id: user_id(rng.below(USERS)), member },
    };
    AuditNote { actor, address: rng.chance(50).then(|| "192.0.2.1".to_owned()) }
}

impl PeopleCounts {
    pub(crate) fn draw_invite(&mut self, rng: &mut Rng, at: i64, number: u64) -> NewInvite {
        self.tickets += 1;
        NewInvite {
            user: user_id(number),
            digest: digest(1, self.tickets),
            ticket: ticket_id(self.tickets),
            expires_at: Timestamp(at + rng.between(HOUR, 9 * DAY)),
        }
    }

    pub(crate) fn draw(&mut self, rng: &mut Rng, at: i64) -> AdminCommand {
        let user = user_id(rng.below(USERS + 1));
        match rng.below(100) {
            0..14 => AdminCommand::User(UserCommand::Create(draw_user(rng))),
            14..22 => AdminCommand::User(UserCommand::Update(user, self.draw_user_changes(rng))),
            22..28 => AdminCommand::User(UserCommand::UseTotpStep(user, rng.below(20))),
            28..62 => issue(self.draw_ticket(rng, at)),
            62..64 => {
                AdminCommand::Ticket(TicketCommand::End(user, ticket_id(self.late_ticket(rng))))
            }
            64 => AdminCommand::User(UserCommand::EndSessions(user)),
            65..72 => AdminCommand::User(UserCommand::UsePasswordLink(PasswordLinkUse {
                digest: digest(1, self.late_ticket(rng)),
                password_hash: "another".to_owned(),
            })),
            72..86 => self.draw_exchange(rng),
            86..88 => {
                AdminCommand::Ticket(TicketCommand::RevokeCode(digest(1, self.late_ticket(rng))))
            }
            88..90 => self.draw_grant(rng),
            90..92 => AdminCommand::AccessToken(AccessTokenCommand::Revoke(
                company_id(rng.below(4)),
                token_id(rng.below(self.tokens + 1)),
            )),
            92 => AdminCommand::App(AppCommand::RevokeTokens(
                app_id(rng.below(APPS)),
                company_id(rng.below(4)),
            )),
            93 => AdminCommand::AccessToken(AccessTokenCommand::Create(
                self.draw_token(rng, company_id(0)),
            )),
            _ => draw_app_command(rng),
        }
    }

    /// One of the last tickets.
    fn late_ticket(&self, rng: &mut Rng) -> u64 {
        self.tickets.saturating_sub(rng.below(5))
    }

    fn draw_user_changes(&self, rng: &mut Rng) -> UserChanges {
        let totp = Totp { sealed_seed: SEED.to_vec(), last_step: rng.below(5) };
        UserChanges {
            first_name: rng.chance(30).then(|| "Grace".parse().unwrap()),
            password_hash: rng.chance(30).then(|| "a new one".to_owned()),
            totp: rng.chance(60).then(|| rng.chance(85).then_some(totp)),
            keep_session: rng.chance(20).then(|| digest(1, self.late_ticket(rng))),
            ..UserChanges::default()
        }
    }

    fn draw_ticket(&mut self, rng: &mut Rng, at: i64) -> NewTicket {
        self.tickets += 1;
        let number = if rng.chance(97) { self.tickets } else { self.late_ticket(rng) };
        let who = rng.below(USERS);
        let content = match rng.below(10) {
            0..2 => NewTicketContent::Session { user_agent: "a browser".parse().unwrap() },
            2..4 => NewTicketContent::PasswordLink { is_invite: false },
            _ => {
                let member = if rng.chance(90) { who } else { rng.below(USERS) };
                NewTicketContent::AuthorizationCode(Box::new(NewAuthorizationCode {
                    app: app_id(rng.below(APPS)),
                    company: company_id(member / MEMBERS_AT_FIRST),
                    member: member_id(member),
                    redirect_uri: Some("https://app.example/back".to_owned()),
                    scope: AccessScope { accountant: true, ..AccessScope::default() },
                    code_challenge: None,
                }))
            }
        };
        let life = rng.between(-MINUTE, 3 * DAY);
        NewTicket {
            digest: digest(1, number),
            id: ticket_id(number),
            user: user_id(who),
            expires_at: Timestamp(at + life),
            address: "192.0.2.1".to_owned(),
            content,
        }
    }

    fn draw_token(&mut self, rng: &mut Rng, company: CompanyId) -> NewAccessToken {
        self.tokens += 1;
        let number = if rng.chance(95) { self.tokens } else { rng.below(self.tokens) };
        let scope = AccessScope { admin: true, ..AccessScope::default() };
        NewAccessToken { id: token_id(number), digest: digest(2, number), company, scope }
    }

    fn draw_exchange(&mut self, rng: &mut Rng) -> AdminCommand {
        let code = digest(1, self.late_ticket(rng));
        // The right company a third of the time.
        let company = company_id(rng.below(3));
        let (token, label) = (self.draw_token(rng, company), "by a code".parse().unwrap());
        AdminCommand::Ticket(TicketCommand::ExchangeCode(Box::new(CodeExchange {
            digest: code,
            token,
            label,
        })))
    }

    fn draw_grant(&mut self, rng: &mut Rng) -> AdminCommand {
        let member = rng.below(USERS);
        let token = self.draw_token(rng, company_id(member / MEMBERS_AT_FIRST));
        AdminCommand::AccessToken(AccessTokenCommand::Grant(Box::new(NewTokenGrant {
            token,
            app: rng.chance(80).then(|| app_id(rng.below(APPS))),
            member: rng.chance(80).then(|| draw_member_id(rng, member)),
            origin: TokenOrigin::Password,
            label: "granted".parse().unwrap(),
        })))
    }
}

/// Sessions are for a password and a second factor, which are not always the present ones.
fn issue(ticket: NewTicket) -> AdminCommand {
    let user = ticket.user;
    let hashes = [Some("the first one"), Some("a new one"), Some("another"), None];
    let hash = hashes[usize::from(ticket.digest[0] % 4)].map(str::to_owned);
    let totp_seed = ticket.digest[1].is_multiple_of(2).then(|| SEED.to_vec());
    let is_session = matches!(ticket.content, NewTicketContent::Session { .. });
    let command = AdminCommand::Ticket(TicketCommand::Issue(ticket));
    if !is_session {
        return command;
    }
    let proven = ProvenPassword { user, password_hash: hash, totp_seed, answer_hash: None };
    AdminCommand::WithPassword(proven, Box::new(command))
}

fn draw_member_id(rng: &mut Rng, number: u64) -> MemberId {
    member_id(if rng.chance(90) { number } else { rng.below(USERS) })
}

fn draw_user(rng: &mut Rng) -> NewUser {
    let number = rng.below(USERS);
    let email = email_of(number, number / MEMBERS_AT_FIRST);
    NewUser {
        id: user_id(if rng.chance(95) { number } else { rng.below(USERS) }),
        email: if rng.chance(50) { email.to_uppercase() } else { email },
        first_name: "Ada".parse().unwrap(),
        last_name: "Lovelace".parse().unwrap(),
        password_hash: rng.chance(50).then(|| "the first one".to_owned()),
        developer_of: Vec::new(),
    }
}

fn draw_app_command(rng: &mut Rng) -> AdminCommand {
    let number = rng.below(APPS);
    // Apps of a number are its company's.
    let company = company_id(if rng.chance(80) { number % 3 } else { rng.below(4) });
    match rng.below(10) {
        0..7 => AdminCommand::App(AppCommand::Create(NewApp {
            id: app_id(number),
            company,
            name: "An app".parse().unwrap(),
            website: Default::default(),
            secret_digest: [1; 32],
            redirect_urls: Vec::new(),
            requested: AccessScope::default(),
        })),
        7..9 => {
            let name = Some("Another name".parse().unwrap());
            let changes = AppChanges { name, ..AppChanges::default() };
            AdminCommand::App(AppCommand::Update(company, app_id(number), changes))
        }
        // Seldom, since there are few.
        _ if rng.chance(30) => AdminCommand::App(AppCommand::Delete(company, app_id(number))),
        _ => AdminCommand::App(AppCommand::Delete(company, app_id(APPS))),
    }
}
