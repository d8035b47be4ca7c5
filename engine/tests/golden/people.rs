//! Records of people and programs, as they were first written: an invitation with an external id, a
//! password, a sign-in, a code and its token, one-time passwords, and who did all that.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::{Command, NotedCommand};
use cardswitch_engine::directory::DirectoryRow;
use cardswitch_engine::directory::access_token::{AccessScope, NewAccessToken};
use cardswitch_engine::directory::app::{AppCommand, NewApp};
use cardswitch_engine::directory::company::CompanyCommand;
use cardswitch_engine::directory::member::{MemberChanges, MemberCommand, MemberRole, NewMember};
use cardswitch_engine::directory::ticket::{
    CodeExchange, NewAuthorizationCode, NewTicket, NewTicketContent, TicketCommand,
};
use cardswitch_engine::directory::user::{
    NewInvite, PasswordLinkUse, SecurityQuestion, Totp, UserChanges, UserCommand,
};
use cardswitch_engine::domain::audit::{Actor, AuditNote};
use cardswitch_engine::domain::ids::{AccessTokenId, AppId, CompanyId, MemberId, TicketId, UserId};
use uuid::Uuid;

use super::{START, Timestamp, UNLIMITED, admin, company, effects_of};

const COMPANY: CompanyId = CompanyId(Uuid::from_u128(1));
const MEMBER: MemberId = MemberId(Uuid::from_u128(20));
const USER: UserId = UserId(Uuid::from_u128(21));
const APP: AppId = AppId(Uuid::from_u128(22));
const SCOPE: AccessScope = AccessScope { accountant: true, admin: false, scim: false, iam: true };

#[test]
fn records_of_people_cover_each_kind_of_row() {
    let mut kinds: Vec<_> = effects_of("people").map(|effect| kind_of(&effect)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds, ["app", "audit", "member", "other", "ticket", "token", "user"]);
}

fn kind_of(effect: &Effect) -> &'static str {
    match effect {
        Effect::Row(DirectoryRow::User(_)) => "user",
        Effect::Row(DirectoryRow::Ticket(_)) => "ticket",
        Effect::Row(DirectoryRow::App(_)) => "app",
        Effect::Row(DirectoryRow::AccessToken(_)) => "token",
        Effect::Row(DirectoryRow::Member(_)) => "member",
        Effect::Audit(_) => "audit",
        _ => "other",
    }
}

pub(super) fn life_of_a_user() -> Vec<Command> {
    vec![
        admin(AdminCommand::Company(CompanyCommand::Create(company(UNLIMITED)))),
        noted(Actor::Operator, AdminCommand::Member(MemberCommand::Create(member()))),
        noted(
            Actor::Switch,
            AdminCommand::User(UserCommand::UsePasswordLink(PasswordLinkUse {
                digest: [1; 32],
                password_hash: "$argon2id$golden".to_owned(),
            })),
        ),
        noted(
            Actor::User { id: USER, member: Some(MEMBER) },
            AdminCommand::User(UserCommand::Update(USER, factors())),
        ),
        admin(AdminCommand::User(UserCommand::UseTotpStep(USER, 58_920_001))),
        admin(AdminCommand::App(AppCommand::Create(app()))),
        noted(
            Actor::User { id: USER, member: None },
            ticket(
                2,
                NewTicketContent::Session {
                    user_agent: "Golden/1.0".parse().expect("a plain text"),
                },
            ),
        ),
        admin(ticket(3, NewTicketContent::AuthorizationCode(Box::new(code())))),
        noted(
            Actor::Switch,
            AdminCommand::Ticket(TicketCommand::ExchangeCode(Box::new(exchange()))),
        ),
        noted(
            Actor::Token { id: AccessTokenId(Uuid::from_u128(24)), member: Some(MEMBER) },
            AdminCommand::Member(MemberCommand::Update(
                COMPANY,
                MEMBER,
                MemberChanges {
                    external_id: Some(Some("golden-2".parse().expect("a plain text"))),
                    ..MemberChanges::default()
                },
            )),
        ),
    ]
}

fn noted(actor: Actor, change: AdminCommand) -> Command {
    let note = AuditNote { actor, address: Some("192.0.2.1".to_owned()) };
    Command::Noted(Box::new(NotedCommand { note, change }))
}

fn member() -> NewMember {
    NewMember {
        id: MEMBER,
        company: COMPANY,
        first_name: "Ada".parse().expect("a plain text"),
        last_name: "Golden".parse().expect("a plain text"),
        email: "Ada@golden.example".to_owned(),
        role: MemberRole::Administrator,
        code: None,
        dimensions: [None; 4],
        external_id: Some("golden-1".parse().expect("a plain text")),
        is_active: true,
        invite: Some(NewInvite {
            user: USER,
            digest: [1; 32],
            ticket: TicketId(Uuid::from_u128(30)),
            expires_at: START.plus(Timestamp::DAY),
        }),
    }
}

fn factors() -> UserChanges {
    UserChanges {
        totp: Some(Some(Totp { sealed_seed: vec![8; 48], last_step: 58_920_000 })),
        security_question: Some(Some(SecurityQuestion {
            question: "Which door?".parse().expect("a plain text"),
            answer_hash: "$argon2id$blue".to_owned(),
        })),
        develops: Some((COMPANY, true)),
        ..UserChanges::default()
    }
}

fn app() -> NewApp {
    NewApp {
        id: APP,
        company: COMPANY,
        name: "Golden books".parse().expect("a plain text"),
        website: "https://books.example".parse().expect("a plain text"),
        secret_digest: [5; 32],
        redirect_urls: vec!["https://books.example/back".to_owned()],
        requested: SCOPE,
    }
}

fn ticket(number: u8, content: NewTicketContent) -> AdminCommand {
    AdminCommand::Ticket(TicketCommand::Issue(NewTicket {
        digest: [number; 32],
        id: TicketId(Uuid::from_u128(30 + u128::from(number))),
        user: USER,
        expires_at: START.plus(Timestamp::DAY),
        address: "192.0.2.1".to_owned(),
        content,
    }))
}

fn code() -> NewAuthorizationCode {
    NewAuthorizationCode {
        app: APP,
        company: COMPANY,
        member: MEMBER,
        redirect_uri: Some("https://books.example/back".to_owned()),
        scope: SCOPE,
        code_challenge: Some("E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM".to_owned()),
    }
}

fn exchange() -> CodeExchange {
    CodeExchange {
        digest: [3; 32],
        token: NewAccessToken {
            id: AccessTokenId(Uuid::from_u128(24)),
            digest: [6; 32],
            company: COMPANY,
            scope: SCOPE,
        },
        label: "Golden books".parse().expect("a plain text"),
    }
}
