//! The rules of users, tickets, apps and tokens, row by row, and what ends when somebody leaves.

use cardswitch_engine::command::admin::{
    AdminCommand, CompanyChanges, MemberChanges, NewAccessToken, NewMember,
};
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::identity::{
    AppChanges, CodeExchange, NewApp, NewAuthorizationCode, NewInvite, NewTicket, NewTicketContent,
    NewTokenGrant, NewUser, PasswordLinkUse, UserChanges,
};
use cardswitch_engine::command::record::records;
use cardswitch_engine::command::reply::{NetworkReply, Rejection, Reply};
use cardswitch_engine::domain::company::CompanyState;
use cardswitch_engine::domain::ids::{CompanyId, CompanySlot, Timestamp};
use cardswitch_engine::domain::member::{AccessScope, MemberRole, MemberState};
use cardswitch_engine::domain::ticket::{TicketState, USED_CODE_MEMORY};
use cardswitch_engine::domain::token_grant::TokenOrigin;
use cardswitch_engine::domain::user::{SecurityQuestion, Totp};
use cardswitch_engine::limits;
use cardswitch_engine::shard::ShardState;

use crate::desk::purchase;
use crate::members::{ADA, BOB, FOREIGNER, Office, new_member};
use crate::samples::{app_id, company_id, digest, member_id, ticket_id, token_id, user_id};

const HOUR: i64 = 3_600_000_000;
const APP: u64 = 1;
const BOOKS: AccessScope = AccessScope { accountant: true, admin: false, scim: false, iam: false };

pub(crate) fn new_user(number: u64, email: &str) -> NewUser {
    NewUser {
        id: user_id(number),
        email: email.to_owned(),
        first_name: "A".to_owned(),
        last_name: "User".to_owned(),
        password_hash: Some("hash".to_owned()),
        developer_of: Vec::new(),
    }
}

fn session() -> NewTicketContent {
    NewTicketContent::Session { user_agent: "a browser".to_owned() }
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

pub(crate) fn new_app(number: u64, company: u64) -> NewApp {
    NewApp {
        id: app_id(number),
        company: company_id(company),
        name: "An app".to_owned(),
        website: "https://app.example".to_owned(),
        secret_digest: [9; 32],
        redirect_urls: vec!["https://app.example/back".to_owned()],
        requested: AccessScope { accountant: true, admin: true, scim: false, iam: false },
    }
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
        token: new_token(number, company),
        app: owners.0.map(app_id),
        member: owners.1.map(member_id),
        origin: TokenOrigin::Password,
        label: "granted".to_owned(),
    }
}

fn exchange(code: u64, token: u64, company: u64) -> AdminCommand {
    AdminCommand::ExchangeCode(Box::new(CodeExchange {
        digest: digest(1, code),
        token: new_token(token, company),
        label: "by a code".to_owned(),
    }))
}

fn use_link(number: u64) -> AdminCommand {
    AdminCommand::UsePasswordLink(PasswordLinkUse {
        digest: digest(1, number),
        password_hash: "new hash".to_owned(),
    })
}

fn leaving() -> MemberChanges {
    MemberChanges { is_active: Some(false), ..MemberChanges::default() }
}

impl Office {
    /// With Ada's (1) and Bob's (2) users, and an app (1) of the first company.
    pub(crate) fn with_people() -> Self {
        let mut office = Self::open();
        office.does(AdminCommand::CreateUser(new_user(ADA, "ada@example.com")));
        office.does(AdminCommand::CreateUser(new_user(BOB, "Bob@Example.com")));
        office.does(AdminCommand::CreateApp(new_app(APP, 0)));
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
        self.asks(AdminCommand::IssueTicket(NewTicket {
            digest: digest(1, number),
            id: ticket_id(number),
            user: user_id(user),
            expires_at,
            address: "192.0.2.1".to_owned(),
            content,
        }))
    }

    fn grant(&mut self, number: u64, origin: TokenOrigin, (app, member): (u64, u64)) {
        let new = NewTokenGrant { origin, ..grant_of(number, 0, (Some(app), Some(member))) };
        self.does(AdminCommand::GrantToken(Box::new(new)));
    }

    /// What the last record says of tickets and tokens: the number of the first ones, which were
    /// revoked.
    fn last_ends(&self) -> (Vec<(TicketState, usize)>, Vec<bool>) {
        let mut tickets: Vec<(TicketState, usize)> = Vec::new();
        let mut tokens = Vec::new();
        for effect in self.last_effects() {
            match effect {
                Effect::Ticket(ticket) => {
                    match tickets.iter_mut().find(|row| row.0 == ticket.state) {
                        Some(row) => row.1 += 1,
                        None => tickets.push((ticket.state, 1)),
                    }
                }
                Effect::AccessToken(token) => tokens.push(token.is_revoked),
                _ => {}
            }
        }
        (tickets, tokens)
    }

    /// How many entries a part of the state has.
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

#[test]
fn a_user_has_an_address_that_no_other_has() {
    let mut office = Office::with_people();
    let rows = [
        ("another id, in any case", new_user(7, "BOB@example.com"), Err(Rejection::EmailTaken)),
        ("another address", new_user(BOB, "new@example.com"), Err(Rejection::IdTaken)),
        ("both of their own", new_user(7, "new@example.com"), Ok(())),
    ];
    for (told, new, expected) in rows {
        assert_eq!(office.asks(AdminCommand::CreateUser(new)), expected, "{told}");
    }
    office.assert_replays();
}

#[test]
fn whoever_is_named_has_to_be_there() {
    let mut office = Office::with_people();
    let stranger = user_id(99);
    let unknown = Err(Rejection::UserNotFound);
    let (nobody, other) = (CompanyId(uuid::Uuid::nil()), company_id(1));
    office.issue(1, BOB, session()).unwrap();
    let changes = AppChanges::default;
    let no_app = Err(Rejection::AppNotFound);
    let rows = [
        (AdminCommand::UpdateUser(stranger, UserChanges::default()), unknown),
        (AdminCommand::UseTotpStep(stranger, 1), unknown),
        (AdminCommand::EndSessions(stranger), unknown),
        (AdminCommand::EndTicket(stranger, ticket_id(1)), unknown),
        (AdminCommand::EndTicket(user_id(ADA), ticket_id(1)), Err(Rejection::TicketNotFound)),
        (AdminCommand::EndTicket(user_id(BOB), ticket_id(2)), Err(Rejection::TicketNotFound)),
        (use_link(1), Err(Rejection::TicketSpent)),
        (use_link(99), Err(Rejection::TicketSpent)),
        (exchange(1, 1, 0), Err(Rejection::TicketSpent)),
        (exchange(99, 1, 0), Err(Rejection::TicketSpent)),
        (AdminCommand::RevokeCode(digest(1, 1)), Err(Rejection::TicketNotFound)),
        (AdminCommand::RevokeCode(digest(1, 99)), Err(Rejection::TicketNotFound)),
        (AdminCommand::RevokeToken(company_id(0), token_id(1)), Err(Rejection::TokenNotFound)),
        (AdminCommand::RevokeToken(nobody, token_id(1)), Err(Rejection::CompanyNotFound)),
        (AdminCommand::RevokeAppTokens(app_id(9), company_id(0)), no_app),
        (AdminCommand::RevokeAppTokens(app_id(APP), nobody), Err(Rejection::CompanyNotFound)),
        (AdminCommand::CreateApp(new_app(APP, 1)), Err(Rejection::IdTaken)),
        (AdminCommand::UpdateApp(other, app_id(APP), changes()), no_app),
        (AdminCommand::UpdateApp(company_id(0), app_id(9), changes()), no_app),
        (AdminCommand::DeleteApp(other, app_id(APP)), no_app),
        (AdminCommand::EndTicket(user_id(BOB), ticket_id(1)), Ok(())),
        (AdminCommand::EndTicket(user_id(BOB), ticket_id(1)), Err(Rejection::TicketNotFound)),
    ];
    for (command, expected) in rows {
        let told = format!("{command:?}");
        assert_eq!(office.asks(command), expected, "{told}");
    }
}

#[test]
fn a_ticket_is_issued_once_and_for_somebody() {
    let mut office = Office::with_people();
    office.does(AdminCommand::CreateApp(new_app(2, 0)));
    office.does(AdminCommand::DeleteApp(company_id(0), app_id(2)));
    office.does(AdminCommand::CreateMember(new_member(5, 0, "carol@example.com")));
    assert_eq!(office.update(5, leaving()), Ok(()));
    office.does(AdminCommand::CreateUser(new_user(5, "carol@example.com")));
    assert_eq!(office.issue(1, BOB, session()), Ok(()));
    let rows = [
        ("a secret that is known", 1, BOB, session(), Err(Rejection::IdTaken)),
        ("no user", 2, 99, session(), Err(Rejection::UserNotFound)),
        ("no app", 2, BOB, code_of(9, 0, BOB), Err(Rejection::AppNotFound)),
        ("a deleted app", 2, BOB, code_of(2, 0, BOB), Err(Rejection::AppNotFound)),
        ("no company", 2, BOB, code_of(APP, 9, BOB), Err(Rejection::CompanyNotFound)),
        ("no member", 2, BOB, code_of(APP, 0, 9), Err(Rejection::MemberNotFound)),
        ("another company's member", 2, BOB, code_of(APP, 1, BOB), Err(Rejection::MemberNotFound)),
        ("somebody else", 2, BOB, code_of(APP, 0, ADA), Err(Rejection::MemberNotFound)),
        ("who has left", 2, 5, code_of(APP, 0, 5), Err(Rejection::MemberNotFound)),
        ("a membership", 2, BOB, code_of(APP, 0, BOB), Ok(())),
        ("another membership, of another company", 3, BOB, code_of(APP, 1, FOREIGNER), Ok(())),
        ("a link", 4, BOB, link(), Ok(())),
    ];
    for (told, number, user, content, expected) in rows {
        assert_eq!(office.issue(number, user, content), expected, "{told}");
    }
    let past = Timestamp(office.now() + 1_000_000);
    assert_eq!(office.issue_until(5, BOB, past, session()), Err(Rejection::TicketSpent));
    office.assert_replays();
}

#[test]
fn a_code_gives_one_token_and_a_replay_takes_it_back() {
    let mut office = Office::with_people();
    office.issue(1, BOB, code_of(APP, 0, BOB)).unwrap();
    assert_eq!(office.asks(exchange(1, 1, 1)), Err(Rejection::CompanyNotFound));
    office.does(exchange(1, 1, 0));
    match office.last_effects().as_slice() {
        [Effect::AccessToken(token), Effect::TokenGrant(grant), Effect::Ticket(code)] => {
            // Not what the exchange asked for: what was allowed.
            assert_eq!((token.scope, token.is_revoked), (BOOKS, false));
            assert_eq!((grant.token, grant.digest), (token.id, token.digest));
            assert_eq!((grant.origin, grant.app.is_some()), (TokenOrigin::Code, true));
            assert_eq!(grant.label, "by a code");
            assert_eq!(code.state, TicketState::Used);
            assert_eq!(code.code().unwrap().token, Some(token.digest));
        }
        other => panic!("{other:?}"),
    }
    // The second of two who come with the same code.
    assert_eq!(office.asks(exchange(1, 2, 0)), Err(Rejection::TicketSpent));
    assert_eq!(office.entries("access tokens"), 1);
    office.does(AdminCommand::RevokeCode(digest(1, 1)));
    assert_eq!(office.last_ends(), (vec![], vec![true]));
    let records = office.driver.ends.len();
    office.does(AdminCommand::RevokeCode(digest(1, 1)));
    assert_eq!(office.driver.ends.len(), records, "there is nothing left to revoke");

    // One that was not used is ended.
    office.issue(2, BOB, code_of(APP, 0, BOB)).unwrap();
    office.does(AdminCommand::RevokeCode(digest(1, 2)));
    assert_eq!(office.last_ends(), (vec![(TicketState::Ended, 1)], vec![]));
    assert_eq!(office.asks(exchange(2, 2, 0)), Err(Rejection::TicketSpent));
    office.assert_replays();
}

#[test]
fn a_token_is_made_once() {
    let mut office = Office::with_people();
    office.does(AdminCommand::GrantToken(Box::new(grant_of(1, 0, (Some(APP), Some(BOB))))));
    let same_text = NewAccessToken { id: token_id(2), ..new_token(1, 0) };
    let same_id = NewAccessToken { digest: digest(2, 2), ..new_token(1, 0) };
    let taken = Err(Rejection::IdTaken);
    let granted = |token| NewTokenGrant { token, ..grant_of(1, 0, (None, None)) };
    let rows = [
        (AdminCommand::CreateAccessToken(same_text.clone()), taken),
        (AdminCommand::CreateAccessToken(same_id.clone()), taken),
        (AdminCommand::GrantToken(Box::new(granted(same_text))), taken),
        (AdminCommand::GrantToken(Box::new(granted(same_id))), taken),
        (
            AdminCommand::GrantToken(Box::new(grant_of(2, 9, (None, None)))),
            Err(Rejection::CompanyNotFound),
        ),
        (
            AdminCommand::GrantToken(Box::new(grant_of(2, 0, (Some(9), None)))),
            Err(Rejection::AppNotFound),
        ),
        (
            AdminCommand::GrantToken(Box::new(grant_of(2, 0, (None, Some(FOREIGNER))))),
            Err(Rejection::MemberNotFound),
        ),
        (AdminCommand::GrantToken(Box::new(grant_of(2, 0, (None, None)))), Ok(())),
        (AdminCommand::RevokeToken(company_id(1), token_id(2)), Err(Rejection::TokenNotFound)),
        (AdminCommand::RevokeToken(company_id(0), token_id(2)), Ok(())),
        (AdminCommand::RevokeToken(company_id(0), token_id(2)), Err(Rejection::TokenNotFound)),
    ];
    for (command, expected) in rows {
        let told = format!("{command:?}");
        assert_eq!(office.asks(command), expected, "{told}");
    }
    office.assert_replays();
}

#[test]
fn a_link_sets_a_password_once_and_ends_every_other_way_in() {
    let mut office = Office::with_people();
    for (number, content) in [(1, link()), (2, link()), (3, session()), (4, session())] {
        office.issue(number, BOB, content).unwrap();
    }
    office.issue(5, BOB, code_of(APP, 0, BOB)).unwrap();
    office.issue(6, ADA, session()).unwrap();
    // One that was given for the old password, and two that were not.
    office.grant(1, TokenOrigin::Password, (APP, BOB));
    office.grant(2, TokenOrigin::OwnCompany, (APP, BOB));
    office.grant(3, TokenOrigin::Password, (APP, ADA));
    office.does(use_link(1));
    let ended = vec![(TicketState::Used, 1), (TicketState::Ended, 4)];
    assert_eq!(office.last_ends(), (ended, vec![true]));
    assert_eq!(office.asks(exchange(5, 9, 0)), Err(Rejection::TicketSpent));
    // The second of two who come with the same link, and whoever has the other one.
    assert_eq!(office.asks(use_link(1)), Err(Rejection::TicketSpent));
    assert_eq!(office.asks(use_link(2)), Err(Rejection::TicketSpent));
    assert_eq!(office.asks(AdminCommand::EndTicket(user_id(ADA), ticket_id(6))), Ok(()));

    // A password set from within a session leaves that one open.
    for number in 7..10 {
        office.issue(number, BOB, session()).unwrap();
    }
    let changes = UserChanges {
        password_hash: Some("another".to_owned()),
        keep_session: Some(digest(1, 8)),
        ..UserChanges::default()
    };
    office.does(AdminCommand::UpdateUser(user_id(BOB), changes));
    assert_eq!(office.last_ends(), (vec![(TicketState::Ended, 2)], vec![]));
    office.does(AdminCommand::EndSessions(user_id(BOB)));
    assert_eq!(office.last_ends(), (vec![(TicketState::Ended, 1)], vec![]));
    office.assert_replays();
}

/// A password reset that comes between a page and what is sent from it wins.
#[test]
fn a_change_made_in_a_session_needs_that_session_to_be_open() {
    let mut office = Office::with_people();
    for (number, user) in [(1, BOB), (2, BOB), (3, ADA)] {
        office.issue(number, user, session()).unwrap();
    }
    office.issue(4, BOB, link()).unwrap();
    let question = SecurityQuestion { question: "Why?".to_owned(), answer_hash: "hash".to_owned() };
    let within = |session: u64, changes: UserChanges| {
        let keep_session = Some(digest(1, session));
        AdminCommand::UpdateUser(user_id(BOB), UserChanges { keep_session, ..changes })
    };
    let totp = |last_step| UserChanges {
        totp: Some(Some(Totp { sealed_seed: vec![1; 40], last_step })),
        ..UserChanges::default()
    };
    let asked = UserChanges { security_question: Some(Some(question)), ..UserChanges::default() };
    let spent = Err(Rejection::TicketSpent);
    for (told, session) in [("somebody else's", 3), ("a link", 4), ("none", 99)] {
        let records = office.driver.ends.len();
        assert_eq!(office.asks(within(session, totp(1))), spent, "{told}");
        assert_eq!(office.driver.ends.len(), records, "{told}");
    }
    // A second factor ends every other session, whatever the password.
    office.does(within(1, totp(1)));
    assert_eq!(office.last_ends(), (vec![(TicketState::Ended, 1)], vec![]));
    office.issue(5, BOB, session()).unwrap();
    office.does(within(1, asked.clone()));
    assert_eq!(office.last_ends(), (vec![(TicketState::Ended, 1)], vec![]));
    office.does(AdminCommand::EndSessions(user_id(BOB)));
    for changes in [totp(2), asked, UserChanges { password_hash: None, ..UserChanges::default() }] {
        assert_eq!(office.asks(within(1, changes)), spent);
    }
    office.assert_replays();
}

/// Any company may add any address. Doing so and undoing it must not sign its owner out.
#[test]
fn a_company_that_adds_an_address_and_deletes_it_ends_no_session() {
    let mut office = Office::with_people();
    office.issue(1, ADA, session()).unwrap();
    let visit = |number| AdminCommand::CreateMember(new_member(number, 1, "ADA@example.com"));
    office.does(visit(50));
    office.does(AdminCommand::DeleteMember(company_id(1), member_id(50)));
    assert_eq!(office.last_ends(), (vec![], vec![]));
    office.does(visit(51));
    let away = AdminCommand::UpdateMember(company_id(1), member_id(51), leaving());
    office.does(away);
    assert_eq!(office.last_ends(), (vec![], vec![]));
    // Nor may it be the address's last member that takes part, or that there is.
    let own = new_member(60, 0, "own@example.com");
    office.does(AdminCommand::CreateMember(own));
    office.does(AdminCommand::CreateUser(new_user(60, "own@example.com")));
    office.issue(2, 60, session()).unwrap();
    assert_eq!(office.update(60, leaving()), Ok(()));
    assert_eq!(office.last_ends(), (vec![(TicketState::Ended, 1)], vec![]));
    office.assert_replays();
}

/// Somebody new is given the address of somebody who is gone.
#[test]
fn an_address_that_is_freed_lets_nobody_in() {
    let mut office = Office::with_people();
    let question = SecurityQuestion { question: "Why?".to_owned(), answer_hash: "hash".to_owned() };
    let changes = UserChanges {
        totp: Some(Some(Totp { sealed_seed: vec![1; 40], last_step: 5 })),
        security_question: Some(Some(question)),
        developer_of: Some(vec![company_id(0)]),
        ..UserChanges::default()
    };
    office.does(AdminCommand::UpdateUser(user_id(BOB), changes));
    office.issue(1, BOB, session()).unwrap();
    office.issue(2, BOB, link()).unwrap();
    let user_in = |office: &Office| {
        office.last_effects().into_iter().find_map(|effect| match effect {
            Effect::User(user) => Some(*user),
            _ => None,
        })
    };
    // He is a member of another company still, and then away, but not deleted there.
    office.does(AdminCommand::DeleteMember(company_id(0), member_id(BOB)));
    assert_eq!((office.last_ends(), user_in(&office)), ((vec![], vec![]), None));
    let away = AdminCommand::UpdateMember(company_id(1), member_id(FOREIGNER), leaving());
    office.does(away);
    assert_eq!(office.last_ends(), (vec![(TicketState::Ended, 1)], vec![]));
    assert_eq!(user_in(&office), None);
    office.does(AdminCommand::DeleteMember(company_id(1), member_id(FOREIGNER)));
    assert_eq!(office.last_ends(), (vec![(TicketState::Ended, 1)], vec![]));
    let user = user_in(&office).unwrap();
    assert_eq!((user.password_hash, user.developer_of), (None, vec![]));
    assert!(user.totp.is_none() && user.security_question.is_none());
    assert_eq!(office.asks(use_link(2)), Err(Rejection::TicketSpent));
    // Deleting once more, after somebody has set a password, takes nothing away.
    office.issue(3, BOB, link()).unwrap();
    office.does(use_link(3));
    let records = office.driver.ends.len();
    office.does(AdminCommand::DeleteMember(company_id(1), member_id(FOREIGNER)));
    assert_eq!(office.driver.ends.len(), records);
    office.assert_replays();
}

#[test]
fn a_role_that_falls_takes_back_what_it_may_not_allow() {
    let all = AccessScope { accountant: true, admin: true, scim: true, iam: true };
    let alone = [
        AccessScope::default(),
        BOOKS,
        AccessScope { accountant: false, scim: false, iam: false, ..all },
        AccessScope { accountant: false, admin: false, iam: false, ..all },
        AccessScope { accountant: false, admin: false, scim: false, ..all },
    ];
    let (top, books, least) =
        (MemberRole::Administrator, MemberRole::Accountant, MemberRole::Member);
    // How many of the five of each stay.
    let rows = [(top, books, 2), (top, least, 0), (books, least, 0), (books, top, 5)];
    for (from, to, kept) in rows {
        let mut office = Office::with_people();
        let role = |role| MemberChanges { role: Some(role), ..MemberChanges::default() };
        assert_eq!(office.update(ADA, role(top)), Ok(()), "somebody has to be");
        assert_eq!(office.update(BOB, role(from)), Ok(()));
        for (number, scope) in (1..).zip(alone) {
            let mut content = code_of(APP, 0, BOB);
            if let NewTicketContent::AuthorizationCode(code) = &mut content {
                code.scope = scope;
            }
            office.issue(number, BOB, content).unwrap();
            let new = grant_of(number, 0, (Some(APP), Some(BOB)));
            let token = NewAccessToken { scope, ..new.token };
            let new = NewTokenGrant { token, ..new };
            office.does(AdminCommand::GrantToken(Box::new(new)));
            office.grant(100 + number, TokenOrigin::Password, (APP, ADA));
        }
        assert_eq!(office.update(BOB, role(to)), Ok(()));
        let (tickets, tokens) = office.last_ends();
        let ended: usize = tickets.iter().map(|row| row.1).sum();
        assert_eq!((ended, tokens), (5 - kept, vec![true; 5 - kept]), "{from:?} to {to:?}");
        office.assert_replays();
    }
}

fn invite(office: &Office, number: u64) -> Option<NewInvite> {
    let expires_at = Timestamp(office.now() + HOUR);
    let (user, ticket) = (user_id(number), ticket_id(number));
    Some(NewInvite { user, digest: digest(1, number), ticket, expires_at })
}

/// The names of what the newest record changed.
fn told(office: &Office) -> Vec<String> {
    let name = |effect: &Effect| format!("{effect:?}").split(['(', ' ']).next().unwrap().into();
    office.last_effects().iter().map(name).collect()
}

#[test]
fn who_takes_no_part_is_invited_on_coming_back() {
    let mut office = Office::open();
    let new = NewMember {
        is_active: false,
        role: MemberRole::Reviewer,
        invite: invite(&office, 20),
        ..new_member(20, 0, "new@example.com")
    };
    office.does(AdminCommand::CreateMember(new));
    assert_eq!(told(&office), ["Member"], "nobody is invited who takes no part");
    match office.last_effects().as_slice() {
        [Effect::Member(member)] => {
            assert_eq!((member.state, member.role), (MemberState::Inactive, MemberRole::Member));
        }
        other => panic!("{other:?}"),
    }
    let change = |is_active, invite| MemberChanges {
        is_active: Some(is_active),
        invite,
        ..MemberChanges::default()
    };
    let first = invite(&office, 20);
    assert_eq!(office.update(20, change(true, first)), Ok(()));
    assert_eq!(told(&office), ["Member", "User", "Ticket"]);
    let records = office.driver.ends.len();
    let second = invite(&office, 21);
    assert_eq!(office.update(20, change(true, second)), Ok(()));
    assert_eq!(office.driver.ends.len(), records, "whoever takes part is not invited again");
    office.does(use_link(20));
    assert_eq!(office.update(20, leaving()), Ok(()));
    let third = invite(&office, 22);
    assert_eq!(office.update(20, change(true, third)), Ok(()));
    assert_eq!(told(&office), ["Member"], "who has a password needs no link");
    office.assert_replays();
}

#[test]
fn a_step_of_one_time_passwords_is_used_once() {
    let mut office = Office::with_people();
    let bob = user_id(BOB);
    assert_eq!(office.asks(AdminCommand::UseTotpStep(bob, 7)), Err(Rejection::StepUsed));
    let totp = |totp| UserChanges { totp: Some(totp), ..UserChanges::default() };
    let set = Totp { sealed_seed: vec![1; 40], last_step: 5 };
    office.does(AdminCommand::UpdateUser(bob, totp(Some(set))));
    let used = Err(Rejection::StepUsed);
    let rows = [(5, used), (4, used), (6, Ok(())), (6, used), (9, Ok(())), (8, used), (10, Ok(()))];
    for (step, expected) in rows {
        assert_eq!(office.asks(AdminCommand::UseTotpStep(bob, step)), expected, "{step}");
    }
    match office.last_effects().as_slice() {
        [Effect::User(user)] => {
            let totp = user.totp.as_ref().unwrap();
            assert_eq!((totp.last_step, totp.sealed_seed.as_slice()), (10, [1; 40].as_slice()));
        }
        other => panic!("{other:?}"),
    }
    office.does(AdminCommand::UpdateUser(bob, totp(None)));
    assert_eq!(office.asks(AdminCommand::UseTotpStep(bob, 11)), Err(Rejection::StepUsed));
    office.assert_replays();
}

#[test]
fn what_is_not_named_of_a_user_stays() {
    let mut office = Office::with_people();
    let question = SecurityQuestion { question: "Why?".to_owned(), answer_hash: "hash".to_owned() };
    let changes = UserChanges {
        first_name: Some("Robert".to_owned()),
        security_question: Some(Some(question.clone())),
        developer_of: Some(vec![company_id(1), company_id(0), company_id(1)]),
        ..UserChanges::default()
    };
    office.does(AdminCommand::UpdateUser(user_id(BOB), changes.clone()));
    match office.last_effects().as_slice() {
        [Effect::User(user)] => {
            let names = (user.first_name.as_str(), user.last_name.as_str());
            assert_eq!(names, ("Robert", "User"));
            assert_eq!(user.developer_of, [CompanySlot(0), CompanySlot(1)]);
            assert_eq!(user.security_question, Some(question));
            assert_eq!(user.password_hash.as_deref(), Some("hash"));
        }
        other => panic!("{other:?}"),
    }
    let records = office.driver.ends.len();
    office.does(AdminCommand::UpdateUser(user_id(BOB), changes));
    assert_eq!(office.driver.ends.len(), records, "nothing has changed");
}

#[test]
fn leaving_ends_sessions_codes_and_tokens_in_its_own_record() {
    let delete = |office: &mut Office| {
        office.does(AdminCommand::DeleteMember(company_id(0), member_id(BOB)));
    };
    let deactivate = |office: &mut Office| assert_eq!(office.update(BOB, leaving()), Ok(()));
    for leave in [delete as fn(&mut Office), deactivate] {
        let mut office = Office::with_people();
        office.issue(1, BOB, session()).unwrap();
        office.issue(2, BOB, code_of(APP, 0, BOB)).unwrap();
        office.issue(3, BOB, code_of(APP, 1, FOREIGNER)).unwrap();
        office.issue(4, BOB, link()).unwrap();
        office.issue(5, ADA, session()).unwrap();
        let owners = [(0, BOB), (0, ADA), (1, FOREIGNER)];
        for (number, (company, member)) in (1..).zip(owners) {
            let new = grant_of(number, company, (Some(APP), Some(member)));
            office.does(AdminCommand::GrantToken(Box::new(new)));
        }
        leave(&mut office);
        let effects = office.last_effects();
        assert!(matches!(effects.first(), Some(Effect::Member(_))));
        // Who takes part in another company stays signed in.
        assert_eq!(office.last_ends(), (vec![(TicketState::Ended, 1)], vec![true]));
        let revoked = effects.iter().find_map(|effect| match effect {
            Effect::AccessToken(token) => Some(token.id),
            _ => None,
        });
        assert_eq!(revoked, Some(token_id(1)));
        assert_eq!(office.asks(exchange(2, 9, 0)), Err(Rejection::TicketSpent));
        assert_eq!(office.asks(exchange(3, 9, 1)), Ok(()), "the same person, another member");
        office.assert_replays();
    }
}

#[test]
fn tickets_end_at_their_instant_and_are_forgotten_then() {
    let mut office = Office::with_people();
    let start = office.now();
    // The office asks once a second.
    let at = |seconds: i64| Timestamp(start + seconds * 1_000_000);
    office.issue_until(1, BOB, at(7), link()).unwrap();
    office.issue_until(2, BOB, at(6), link()).unwrap();
    office.issue_until(3, BOB, at(7), code_of(APP, 0, BOB)).unwrap();
    office.issue_until(4, BOB, at(7), code_of(APP, 0, BOB)).unwrap();
    office.does(exchange(3, 1, 0));
    assert_eq!(office.entries("tickets"), 4);
    // The sixth second: one has ended, and a refusal makes no record, so it is remembered still.
    assert_eq!(office.asks(use_link(2)), Err(Rejection::TicketSpent));
    assert_eq!(office.entries("tickets"), 4);
    // The seventh: all of them, at that very instant.
    assert_eq!(office.asks(exchange(4, 2, 0)), Err(Rejection::TicketSpent));
    assert_eq!(office.asks(use_link(1)), Err(Rejection::TicketSpent));
    // A forgotten secret may come again.
    office.issue(2, BOB, link()).unwrap();
    assert_eq!(office.entries("tickets"), 2, "the used code, and the new link");
    office.assert_replays();

    // The used code is remembered for a day, and its token taken back until then.
    let mut late = Office::with_people();
    late.issue(1, BOB, code_of(APP, 0, BOB)).unwrap();
    let ends_at = late.now() + HOUR - 1_000_000;
    late.does(exchange(1, 1, 0));
    late.wait_until(ends_at + USED_CODE_MEMORY - 2_000_000);
    late.does(AdminCommand::RevokeCode(digest(1, 1)));
    assert_eq!(late.last_ends(), (vec![], vec![true]));
    let after = AdminCommand::RevokeCode(digest(1, 1));
    assert_eq!(late.asks(after), Err(Rejection::TicketNotFound));
    late.assert_replays();
}

#[test]
fn one_more_ticket_than_there_may_be_ends_the_oldest() {
    let mut office = Office::with_people();
    for number in 0..limits::TICKETS_OF_USER_MAX as u64 {
        office.issue(number, BOB, session()).unwrap();
        assert_eq!(office.last_ends(), (vec![(TicketState::Open, 1)], vec![]));
    }
    office.issue(500, BOB, link()).unwrap();
    assert_eq!(office.last_ends(), (vec![(TicketState::Open, 1)], vec![]), "another kind");
    office.issue(501, BOB, session()).unwrap();
    let ended = vec![(TicketState::Ended, 1), (TicketState::Open, 1)];
    assert_eq!(office.last_ends(), (ended, vec![]));
    let first = AdminCommand::EndTicket(user_id(BOB), ticket_id(0));
    assert_eq!(office.asks(first), Err(Rejection::TicketNotFound));
    office.does(AdminCommand::EndSessions(user_id(BOB)));
    let all = limits::TICKETS_OF_USER_MAX;
    assert_eq!(office.last_ends(), (vec![(TicketState::Ended, all)], vec![]));
}

/// However long the texts are that a browser or an app sends.
#[test]
fn ending_everything_fits_one_record() {
    let mut office = Office::with_people();
    for number in 0..limits::TICKETS_OF_USER_MAX as u64 {
        let content = NewTicketContent::Session { user_agent: "x".repeat(60_000) };
        office.issue(number, BOB, content).unwrap();
        let mut content = code_of(APP, 0, BOB);
        if let NewTicketContent::AuthorizationCode(code) = &mut content {
            code.redirect_uri = Some(format!("https://app.example/{}", "y".repeat(60_000)));
        }
        office.issue(1_000 + number, BOB, content).unwrap();
    }
    let elsewhere = AdminCommand::DeleteMember(company_id(1), member_id(FOREIGNER));
    office.does(elsewhere);
    assert_eq!(office.update(BOB, leaving()), Ok(()));
    let all = 2 * limits::TICKETS_OF_USER_MAX;
    assert_eq!(office.last_ends(), (vec![(TicketState::Ended, all)], vec![]));
    assert!(!format!("{:?}", office.last_effects()).contains("xx"));
}

#[test]
fn one_more_token_than_there_may_be_revokes_the_oldest() {
    let mut office = Office::with_people();
    let room = limits::TOKENS_OF_MEMBER_MAX as u64;
    for number in 0..room {
        let new = grant_of(number, 0, (Some(APP), Some(BOB)));
        office.does(AdminCommand::GrantToken(Box::new(new)));
        assert_eq!(office.last_ends().1, [false]);
    }
    for (number, revoked) in [(room, 0), (room + 1, 1)] {
        let new = grant_of(number, 0, (Some(APP), Some(BOB)));
        office.does(AdminCommand::GrantToken(Box::new(new)));
        match office.last_effects().as_slice() {
            [Effect::AccessToken(old), Effect::AccessToken(new), Effect::TokenGrant(_)] => {
                assert_eq!((old.id, old.is_revoked), (token_id(revoked), true));
                assert!(!new.is_revoked);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(office.update(BOB, leaving()), Ok(()));
    assert_eq!(office.last_ends().1, vec![true; room as usize]);
    assert_eq!((office.entries("access tokens"), office.entries("token grants")), (0, 0));
    office.assert_replays();
}

/// Whoever may sign in somewhere must not take away what others are given.
#[test]
fn a_token_displaces_only_its_own_like() {
    let room = limits::TOKENS_OF_MEMBER_MAX as u64;
    let (code, password, own) = (TokenOrigin::Code, TokenOrigin::Password, TokenOrigin::OwnCompany);
    let full = Err(Rejection::TooManyTokens);
    // What the member's room is full of, and what comes: origin and app.
    let rows = [
        ((password, APP), (password, APP), Ok(())),
        ((password, APP), (password, 2), full),
        ((code, APP), (password, APP), full),
        ((own, APP), (password, APP), full),
        ((password, APP), (code, APP), full),
        ((password, APP), (own, APP), full),
        ((code, APP), (code, APP), full),
    ];
    for ((origin, app), (comes, to), expected) in rows {
        let mut office = Office::with_people();
        office.does(AdminCommand::CreateApp(new_app(2, 0)));
        for number in 0..room {
            office.grant(number, origin, (app, BOB));
        }
        let new = grant_of(room, 0, (Some(to), Some(BOB)));
        let new = NewTokenGrant { origin: comes, ..new };
        let got = office.asks(AdminCommand::GrantToken(Box::new(new)));
        assert_eq!(got, expected, "{origin:?} {app}, then {comes:?} {to}");
        office.grant(room + 1, password, (APP, ADA));
        office.assert_replays();
    }
    // A code is not used up by a token that there is no room for.
    let mut office = Office::with_people();
    for number in 0..room {
        office.grant(number, own, (APP, BOB));
    }
    office.issue(1, BOB, code_of(APP, 0, BOB)).unwrap();
    assert_eq!(office.asks(exchange(1, 900, 0)), full);
    office.does(AdminCommand::RevokeToken(company_id(0), token_id(0)));
    assert_eq!(office.asks(exchange(1, 900, 0)), Ok(()));
    office.assert_replays();
}

/// Nobody fills the switch by signing in and out.
#[test]
fn what_is_spent_is_forgotten_at_once() {
    let mut office = Office::with_people();
    for number in 0..20 {
        office.issue(number, BOB, session()).unwrap();
        office.does(AdminCommand::EndTicket(user_id(BOB), ticket_id(number)));
        assert_eq!(office.entries("tickets"), 0);
    }
    office.issue(30, BOB, link()).unwrap();
    office.issue(31, BOB, link()).unwrap();
    office.does(use_link(30));
    assert_eq!(office.entries("tickets"), 0, "one was used, the other ended");
    office.issue(32, BOB, code_of(APP, 0, BOB)).unwrap();
    office.does(AdminCommand::RevokeCode(digest(1, 32)));
    assert_eq!(office.entries("tickets"), 0);
    // Used codes are kept, so many of them, without texts.
    let room = limits::USED_CODES_OF_USER_MAX as u64;
    for number in 100..=100 + room {
        office.issue(number, BOB, code_of(APP, 0, BOB)).unwrap();
        office.does(exchange(number, number, 0));
        assert!(!format!("{:?}", office.last_effects()).contains("app.example"));
        office.does(AdminCommand::RevokeToken(company_id(0), token_id(number)));
        let kept = (number - 99).min(room) as usize;
        assert_eq!(office.entries("tickets"), kept, "{number}");
    }
    let forgotten = AdminCommand::RevokeCode(digest(1, 100));
    assert_eq!(office.asks(forgotten), Err(Rejection::TicketNotFound));
    assert_eq!(office.asks(AdminCommand::RevokeCode(digest(1, 101))), Ok(()));
    assert_eq!(office.entries("access tokens"), 0);
    office.assert_replays();
}

/// What an app may have at most goes in one record.
#[test]
fn a_deleted_app_opens_nothing_any_more() {
    let mut office = Office::with_people();
    let (room, of_member) = (limits::TOKENS_OF_APP_MAX, limits::TOKENS_OF_MEMBER_MAX);
    let members = room.div_ceil(of_member) as u64;
    for number in 10..10 + members {
        let member = new_member(number, 0, &format!("m{number}@example.com"));
        office.does(AdminCommand::CreateMember(member));
    }
    for number in 0..=room as u64 {
        let member = 10 + number / of_member as u64 % members;
        let new = grant_of(number, 0, (Some(APP), Some(member)));
        office.does(AdminCommand::GrantToken(Box::new(new)));
    }
    assert_eq!(office.last_ends().1, [true, false], "one more than there is room for");
    office.issue(1, BOB, code_of(APP, 0, BOB)).unwrap();
    office.does(AdminCommand::DeleteApp(company_id(0), app_id(APP)));
    assert_eq!(office.last_ends(), (vec![], vec![true; room]));
    let gone = Err(Rejection::AppNotFound);
    assert_eq!(office.asks(exchange(1, 90_000, 0)), Err(Rejection::TicketSpent));
    assert_eq!(office.issue(2, BOB, code_of(APP, 0, BOB)), Err(Rejection::AppNotFound));
    let again = grant_of(90_000, 0, (Some(APP), None));
    assert_eq!(office.asks(AdminCommand::GrantToken(Box::new(again))), gone);
    assert_eq!(office.asks(AdminCommand::DeleteApp(company_id(0), app_id(APP))), gone);
}

#[test]
fn an_app_is_shut_out_of_one_company_only() {
    let mut office = Office::with_people();
    for (number, (company, member)) in (1..).zip([(0, BOB), (1, FOREIGNER), (0, ADA)]) {
        let new = grant_of(number, company, (Some(APP), Some(member)));
        office.does(AdminCommand::GrantToken(Box::new(new)));
    }
    office.issue(1, BOB, code_of(APP, 0, BOB)).unwrap();
    office.issue(2, BOB, code_of(APP, 1, FOREIGNER)).unwrap();
    office.does(AdminCommand::RevokeAppTokens(app_id(APP), company_id(1)));
    assert_eq!(office.last_ends(), (vec![(TicketState::Ended, 1)], vec![true]));
    assert_eq!(office.asks(exchange(2, 9, 1)), Err(Rejection::TicketSpent));
    assert_eq!(office.asks(exchange(1, 9, 0)), Ok(()));
    office.does(AdminCommand::RevokeAppTokens(app_id(APP), company_id(0)));
    assert_eq!(office.last_ends().1, [true; 3]);
    office.assert_replays();
}

#[test]
fn nothing_is_approved_that_an_app_does_not_wish_for() {
    let mut office = Office::with_people();
    let all = AccessScope { accountant: true, admin: true, scim: true, iam: true };
    let approve = AppChanges { approved: Some(all), ..AppChanges::default() };
    office.does(AdminCommand::UpdateApp(company_id(0), app_id(APP), approve));
    let approved = |office: &Office| match office.last_effects().as_slice() {
        [Effect::App(app)] => app.approved,
        other => panic!("{other:?}"),
    };
    assert_eq!(approved(&office), new_app(APP, 0).requested);
    let narrow = AppChanges { requested: Some(BOOKS), ..AppChanges::default() };
    office.does(AdminCommand::UpdateApp(company_id(0), app_id(APP), narrow));
    assert_eq!(approved(&office), BOOKS);
}

#[test]
fn an_invitation_makes_a_user_and_a_link_where_there_are_none() {
    let mut office = Office::with_people();
    let invited = |office: &mut Office, number: u64, company, email: &str| {
        let new = new_member(number, company, email);
        let new = NewMember { invite: invite(office, number), ..new };
        office.asks(AdminCommand::CreateMember(new))
    };
    // Nobody has the address.
    assert_eq!(invited(&mut office, 20, 0, "new@example.com"), Ok(()));
    assert_eq!(told(&office), ["Member", "User", "Ticket"]);
    // Somebody who has no password yet, in another company.
    assert_eq!(invited(&mut office, 21, 1, "New@example.com"), Ok(()));
    assert_eq!(told(&office), ["Member", "Ticket"]);
    // Somebody who has one.
    assert_eq!(invited(&mut office, 22, 1, "ada@example.com"), Ok(()));
    assert_eq!(told(&office), ["Member"]);
    // Both links open until one of them is used.
    office.does(use_link(21));
    assert_eq!(office.asks(use_link(20)), Err(Rejection::TicketSpent));
    // A user's id or a link's secret that is in use leaves no member behind.
    let member = new_member(23, 0, "third@example.com");
    let taken = NewInvite { user: user_id(ADA), ..invite(&office, 23).unwrap() };
    let taken = NewMember { invite: Some(taken), ..member };
    assert_eq!(office.asks(AdminCommand::CreateMember(taken)), Err(Rejection::IdTaken));
    assert_eq!(invited(&mut office, 23, 0, "third@example.com"), Ok(()));
    office.assert_replays();
}

#[test]
fn external_ids_are_a_companys_own() {
    let mut office = Office::open();
    let called = |id: Option<&str>| MemberChanges {
        external_id: Some(id.map(str::to_owned)),
        ..MemberChanges::default()
    };
    let taken = Err(Rejection::ExternalIdTaken);
    let new = |number: u64, company, id: &str| {
        let member = new_member(number, company, &format!("m{number}@example.com"));
        let member = NewMember { external_id: Some(id.to_owned()), ..member };
        AdminCommand::CreateMember(member)
    };
    office.does(new(10, 0, "x"));
    assert_eq!(office.asks(new(11, 0, "x")), taken);
    assert_eq!(office.asks(new(11, 1, "x")), Ok(()), "another company");
    assert_eq!(office.asks(new(12, 0, "X")), Ok(()), "another case is another id");
    assert_eq!(office.update(BOB, called(Some("x"))), taken);
    assert_eq!(office.update(10, called(Some("x"))), Ok(()), "its own");
    assert_eq!(office.update(10, called(None)), Ok(()));
    assert_eq!(office.update(BOB, called(Some("x"))), Ok(()));
    // Who is away keeps it, who was deleted does not.
    assert_eq!(office.update(BOB, leaving()), Ok(()));
    assert_eq!(office.update(10, called(Some("x"))), taken);
    office.does(AdminCommand::DeleteMember(company_id(0), member_id(BOB)));
    assert_eq!(office.update(10, called(Some("x"))), Ok(()));
    office.assert_replays();
}

#[test]
fn a_company_that_is_not_approved_yet_buys_nothing() {
    let mut office = Office::open();
    office.give_card(1, None).unwrap();
    let code = |office: &mut Office, mark| match office.run(&purchase(100, mark)) {
        Reply::Network(NetworkReply::Authorization(reply)) => reply.response_code.number(),
        other => panic!("{other:?}"),
    };
    let rows =
        [(CompanyState::Pending, 1000), (CompanyState::Active, 0), (CompanyState::Closed, 1000)];
    for (mark, (state, expected)) in (1..).zip(rows) {
        let changes = CompanyChanges { state: Some(state), ..CompanyChanges::default() };
        office.does(AdminCommand::SetCompany(company_id(0), changes));
        assert_eq!(code(&mut office, mark), expected, "{state:?}");
    }
}
