//! The shared world of tests of a company's pages: people of every role, and their belongings.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::company::{CompanyChanges, CompanyCommand};
use cardswitch_engine::directory::member::{
    Member, MemberChanges, MemberCommand, MemberRole, NewMember,
};
use cardswitch_engine::directory::user::{NewUser, UserCommand};
use cardswitch_engine::domain::company::CompanyState;
use cardswitch_engine::domain::ids::{CompanyId, MemberId, UserId};
use cardswitch_identity::auth::passwords::hash;
use serde_json::{Value, json};
use uuid::Uuid;

use super::site_world::{EMAIL, PASSWORD, bench, membership, sign_in};
use super::visitor_tests::Visitor;
use crate::bench::{Bench, COMPANY, OTHER_COMPANY};
use crate::test_world::{by_switch, new_member};

pub(super) const REVIEWER: &str = "grace@example.com";
pub(super) const ACCOUNTANT: &str = "luca@example.com";
pub(super) const MEMBER: &str = "mary@example.com";

/// A text in a single line that no page may take for markup.
pub(super) const EVIL: &str = "\"><script>alert(1)</script>'&<b>\u{200f}🦊";

/// A company in which Ada is the administrator, with a reviewer, an accountant and a member.
pub(super) async fn company() -> Bench {
    let bench = bench().await;
    let (company, ada) = membership(&bench, COMPANY).await;
    let role = Some(MemberRole::Administrator);
    let changes = MemberChanges { role, ..MemberChanges::default() };
    by_switch(&bench.state)
        .carry_out(AdminCommand::Member(MemberCommand::Update(company.id, ada.id, changes)))
        .await
        .unwrap();
    let password_hash = hash(PASSWORD).await.unwrap();
    for (number, email, role) in [
        (201, REVIEWER, MemberRole::Reviewer),
        (202, ACCOUNTANT, MemberRole::Accountant),
        (203, MEMBER, MemberRole::Member),
    ] {
        add_member(&bench, number, email, role).await;
        let user = NewUser {
            id: UserId(Uuid::from_u128(number)),
            email: email.to_owned(),
            first_name: "Some".parse().unwrap(),
            last_name: "Body".parse().unwrap(),
            password_hash: Some(password_hash.clone()),
            developer_of: Vec::new(),
        };
        by_switch(&bench.state)
            .carry_out(AdminCommand::User(UserCommand::Create(user)))
            .await
            .unwrap();
    }
    bench
}

/// Makes Ada an administrator of the other company, too.
pub(super) async fn administer_other_company(bench: &Bench) {
    let (other, elsewhere) = membership(bench, OTHER_COMPANY).await;
    let role = Some(MemberRole::Administrator);
    let changes = MemberChanges { role, ..MemberChanges::default() };
    let command = AdminCommand::Member(MemberCommand::Update(other.id, elsewhere.id, changes));
    by_switch(&bench.state).carry_out(command).await.unwrap();
}

/// Closes the company.
pub(super) async fn close(bench: &Bench) {
    let changes = CompanyChanges { state: Some(CompanyState::Closed), ..CompanyChanges::default() };
    let closed = CompanyCommand::Update(CompanyId(COMPANY), changes);
    by_switch(&bench.state).carry_out(AdminCommand::Company(closed)).await.unwrap();
}

/// A member of the company who cannot sign in.
pub(super) async fn add_member(bench: &Bench, number: u128, email: &str, role: MemberRole) {
    let id = MemberId(Uuid::from_u128(number));
    let new = NewMember {
        first_name: "Some".parse().unwrap(),
        last_name: "Body".parse().unwrap(),
        role,
        ..new_member(id, CompanyId(COMPANY), email)
    };
    by_switch(&bench.state)
        .carry_out(AdminCommand::Member(MemberCommand::Create(new)))
        .await
        .unwrap();
}

/// Somebody of the company, signed in for it.
pub(super) async fn visitor<'a>(bench: &'a Bench, email: &str) -> Visitor<'a> {
    let mut visitor = sign_in(bench, email).await;
    if email == EMAIL {
        // Ada is a member of another company, too.
        visitor.post("/company", &[("company", &COMPANY.to_string())]).await;
    }
    visitor
}

/// A member of the company as the tables have it.
pub(super) async fn member(bench: &Bench, email: &str) -> Member {
    let email = email.to_owned();
    let found = bench.state.switch.read(move |snapshot| {
        let company = snapshot.company_by_id(CompanyId(COMPANY))?.unwrap();
        snapshot.member_by_email(company.slot, &email)
    });
    found.await.unwrap().unwrap()
}

/// Makes an object over the API and returns its id.
pub(super) async fn make(bench: &Bench, path: &str, body: Value) -> String {
    let (status, made) = bench.ask("POST", path, body).await;
    assert_eq!(status, 201, "{path}: {made}");
    made["id"].as_str().unwrap().to_owned()
}

/// A virtual card of a member.
pub(super) async fn card_of(bench: &Bench, email: &str, description: &str) -> String {
    let holder = member(bench, email).await.id.0;
    let body = json!({
        "allowance": {"amount": 100}, "description": description, "is_virtual": true,
        "assigned_to": {"id": holder},
    });
    make(bench, "/v1/cards", body).await
}

/// An object as the API shows it.
pub(super) async fn shown(bench: &Bench, path: &str) -> Value {
    let (status, body) = bench.ask("GET", path, Value::Null).await;
    assert_eq!(status, 200, "{path}: {body}");
    body
}
