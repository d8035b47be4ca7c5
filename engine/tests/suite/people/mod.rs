//! The rules of users, tickets, apps and tokens, row by row, and what ends when somebody leaves.
//! The common beginning of all of them is here, with the people that any of them needs.

mod apps;
mod companies;
mod leaving;
mod tickets;
mod tokens;
mod users;

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::record::records;
use cardswitch_engine::command::reply::Rejection;
use cardswitch_engine::directory::DirectoryRow;
use cardswitch_engine::directory::access_token::{
    AccessScope, AccessTokenCommand, NewAccessToken, NewTokenGrant, TokenOrigin,
};
use cardswitch_engine::directory::app::{AppChanges, AppCommand, NewApp};
use cardswitch_engine::directory::member::{MemberCommand, MemberRole};
use cardswitch_engine::directory::ticket::{
    CodeExchange, NewAuthorizationCode, NewTicket, NewTicketContent, TicketCommand, TicketState,
};
use cardswitch_engine::directory::user::{NewUser, PasswordLinkUse, UserChanges, UserCommand};
use cardswitch_engine::domain::ids::{CompanyId, Timestamp};
use cardswitch_engine::shard::ShardState;
use uuid::Uuid;

use crate::model::HOUR;
use crate::office::{ADA, BOB, FOREIGNER, Office, with_role};
use crate::samples::{app_id, company_id, digest, member_id, ticket_id, token_id, user_id};

const APP: u64 = 1;
const BOOKS: AccessScope = AccessScope { accountant: true, admin: false, scim: false, iam: false };

impl Office {
    /// With Ada's (1) and Bob's (2) users, and an app (1) of the first company. Bob is an accountant of
    /// both companies.
    pub(crate) fn with_people() -> Self {
        let mut office = Self::open();
        let accountant = || with_role(MemberRole::Accountant);
        assert_eq!(office.update(BOB, accountant()), Ok(()));
        let elsewhere = MemberCommand::Update(company_id(1), member_id(FOREIGNER), accountant());
        office.does(AdminCommand::Member(elsewhere));
        office.does(AdminCommand::User(UserCommand::Create(new_user(ADA, "ada@example.com"))));
        office.does(AdminCommand::User(UserCommand::Create(new_user(BOB, "Bob@Example.com"))));
        office.does(AdminCommand::App(AppCommand::Create(new_app(APP, 0))));
        office
    }

    fn issue(
        &mut self,
        number: u64,
        user: u64,
        content: NewTicketContent,
    ) -> Result<(), Rejection> {
        let expires_at = Timestamp(self.now() + HOUR);
        self.issue_until(number, user, expires_at, content)
    }

    fn issue_until(
        &mut self,
        number: u64,
        user: u64,
        expires_at: Timestamp,
        content: NewTicketContent,
    ) -> Result<(), Rejection> {
        self.asks(AdminCommand::Ticket(TicketCommand::Issue(NewTicket {
            digest: digest(1, number),
            id: ticket_id(number),
            user: user_id(user),
            expires_at,
            address: "192.0.2.1".to_owned(),
            content,
        })))
    }

    fn grant(&mut self, number: u64, origin: TokenOrigin, (app, member): (u64, u64)) {
        let new = NewTokenGrant { origin, ..grant_of(number, 0, (Some(app), Some(member))) };
        self.does(AdminCommand::AccessToken(AccessTokenCommand::Grant(Box::new(new))));
    }

    /// The tickets and tokens of the last record: the number of tickets by state, and whether each
    /// token was revoked.
    fn last_ends(&self) -> (Vec<(TicketState, usize)>, Vec<bool>) {
        let mut tickets: Vec<(TicketState, usize)> = Vec::new();
        let mut tokens = Vec::new();
        for effect in self.last_effects() {
            match effect {
                Effect::Row(DirectoryRow::Ticket(ticket)) => {
                    match tickets.iter_mut().find(|row| row.0 == ticket.state) {
                        Some(row) => row.1 += 1,
                        None => tickets.push((ticket.state, 1)),
                    }
                }
                Effect::Row(DirectoryRow::AccessToken(token)) => tokens.push(token.is_revoked),
                _ => {}
            }
        }
        (tickets, tokens)
    }

    /// The number of entries of a part of the state.
    fn entries(&self, part: &str) -> usize {
        let parts = self.driver.state.part_hashes();
        parts.iter().find(|found| found.name == part).unwrap().entries
    }

    /// The journal, folded again, is the state.
    pub(crate) fn assert_replays(&self) {
        let mut replayed = ShardState::default();
        for record in records(&self.driver.payload) {
            let record = record.unwrap();
            replayed.apply_record(record.seq, record.at, &record.effects);
        }
        assert_eq!(replayed.part_hashes(), self.driver.state.part_hashes());
    }
}

pub(crate) fn new_user(number: u64, email: &str) -> NewUser {
    NewUser {
        id: user_id(number),
        email: email.to_owned(),
        first_name: "A".parse().unwrap(),
        last_name: "User".parse().unwrap(),
        password_hash: Some("hash".to_owned()),
        developer_of: Vec::new(),
    }
}

pub(crate) fn new_app(number: u64, company: u64) -> NewApp {
    NewApp {
        id: app_id(number),
        company: company_id(company),
        name: "An app".parse().unwrap(),
        website: "https://app.example".parse().unwrap(),
        secret_digest: [9; 32],
        redirect_urls: vec!["https://app.example/back".to_owned()],
        requested: AccessScope { accountant: true, admin: true, scim: false, iam: false },
    }
}

fn session() -> NewTicketContent {
    NewTicketContent::Session { user_agent: "a browser".parse().unwrap() }
}

fn link() -> NewTicketContent {
    NewTicketContent::PasswordLink { is_invite: false }
}

fn code_of(app: u64, company: u64, member: u64) -> NewTicketContent {
    NewTicketContent::AuthorizationCode(Box::new(NewAuthorizationCode {
        app: app_id(app),
        company: company_id(company),
        member: member_id(member),
        redirect_uri: Some("https://app.example/back".to_owned()),
        scope: BOOKS,
        code_challenge: Some("challenge".to_owned()),
    }))
}

fn new_token(number: u64, company: u64) -> NewAccessToken {
    let scope = AccessScope { admin: true, ..AccessScope::default() };
    let (id, digest) = (token_id(number), digest(2, number));
    NewAccessToken { id, digest, company: company_id(company), scope }
}

pub(crate) fn grant_of(
    number: u64,
    company: u64,
    owners: (Option<u64>, Option<u64>),
) -> NewTokenGrant {
    NewTokenGrant {
        token: NewAccessToken { scope: BOOKS, ..new_token(number, company) },
        app: owners.0.map(app_id),
        member: owners.1.map(member_id),
        origin: TokenOrigin::Password,
        // The longest name of an app.
        label: "\u{10348}".repeat(100).parse().unwrap(),
    }
}

fn exchange(code: u64, token: u64, company: u64) -> AdminCommand {
    AdminCommand::Ticket(TicketCommand::ExchangeCode(Box::new(CodeExchange {
        digest: digest(1, code),
        token: new_token(token, company),
        label: "by a code".parse().unwrap(),
    })))
}

fn use_link(number: u64) -> AdminCommand {
    AdminCommand::User(UserCommand::UsePasswordLink(PasswordLinkUse {
        digest: digest(1, number),
        password_hash: "new hash".to_owned(),
    }))
}

#[test]
fn whoever_is_named_has_to_be_there() {
    let mut office = Office::with_people();
    let stranger = user_id(99);
    let unknown = Err(Rejection::UserNotFound);
    let (nobody, other) = (CompanyId(Uuid::nil()), company_id(1));
    office.issue(1, BOB, session()).unwrap();
    let changes = AppChanges::default;
    let no_app = Err(Rejection::AppNotFound);
    let rows = [
        (AdminCommand::User(UserCommand::Update(stranger, UserChanges::default())), unknown),
        (AdminCommand::User(UserCommand::UseTotpStep(stranger, 1)), unknown),
        (AdminCommand::User(UserCommand::EndSessions(stranger)), unknown),
        (AdminCommand::Ticket(TicketCommand::End(stranger, ticket_id(1))), unknown),
        (
            AdminCommand::Ticket(TicketCommand::End(user_id(ADA), ticket_id(1))),
            Err(Rejection::TicketNotFound),
        ),
        (
            AdminCommand::Ticket(TicketCommand::End(user_id(BOB), ticket_id(2))),
            Err(Rejection::TicketNotFound),
        ),
        (use_link(1), Err(Rejection::TicketSpent)),
        (use_link(99), Err(Rejection::TicketSpent)),
        (exchange(1, 1, 0), Err(Rejection::TicketSpent)),
        (exchange(99, 1, 0), Err(Rejection::TicketSpent)),
        (
            AdminCommand::Ticket(TicketCommand::RevokeCode(digest(1, 1))),
            Err(Rejection::TicketNotFound),
        ),
        (
            AdminCommand::Ticket(TicketCommand::RevokeCode(digest(1, 99))),
            Err(Rejection::TicketNotFound),
        ),
        (
            AdminCommand::AccessToken(AccessTokenCommand::Revoke(company_id(0), token_id(1))),
            Err(Rejection::TokenNotFound),
        ),
        (
            AdminCommand::AccessToken(AccessTokenCommand::Revoke(nobody, token_id(1))),
            Err(Rejection::CompanyNotFound),
        ),
        (AdminCommand::App(AppCommand::RevokeTokens(app_id(9), company_id(0))), no_app),
        (
            AdminCommand::App(AppCommand::RevokeTokens(app_id(APP), nobody)),
            Err(Rejection::CompanyNotFound),
        ),
        (AdminCommand::App(AppCommand::Create(new_app(APP, 1))), Err(Rejection::IdTaken)),
        (AdminCommand::App(AppCommand::Update(other, app_id(APP), changes())), no_app),
        (AdminCommand::App(AppCommand::Update(company_id(0), app_id(9), changes())), no_app),
        (AdminCommand::App(AppCommand::Delete(other, app_id(APP))), no_app),
        (AdminCommand::Ticket(TicketCommand::End(user_id(BOB), ticket_id(1))), Ok(())),
        (
            AdminCommand::Ticket(TicketCommand::End(user_id(BOB), ticket_id(1))),
            Err(Rejection::TicketNotFound),
        ),
    ];
    for (command, expected) in rows {
        let told = format!("{command:?}");
        assert_eq!(office.asks(command), expected, "{told}");
    }
}
