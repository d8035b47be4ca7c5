//! A company with somebody of every role, and a visitor of the site for each.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::member::{MemberCommand, MemberRole, NewMember};
use cardswitch_engine::directory::user::{NewUser, UserCommand};
use cardswitch_engine::domain::ids::{CompanyId, MemberId, UserId};
use cardswitch_identity::auth::passwords::hash;
use serde_json::{Value, json};
use uuid::Uuid;

use super::site_world::PASSWORD;
use super::visitor_tests::Visitor;
use crate::bench::{Bench, COMPANY, OTHER_COMPANY};
use crate::test_world::{by_switch, new_member};

pub(super) const ROOT: &str = "root@example.com";
pub(super) const BOOKS: &str = "books@example.com";
pub(super) const HOLDER: &str = "holder@example.com";
pub(super) const REVIEWER: &str = "review@example.com";
pub(super) const OUTSIDER: &str = "outside@example.net";

/// A switch with somebody of every role, and an administrator of the other company; a card is held by
/// `HOLDER`.
pub(super) async fn stage() -> (Bench, Value) {
    let bench = Bench::new().await;
    let password_hash = Some(hash(PASSWORD).await.unwrap());
    let people = [
        (0x100, COMPANY, ROOT, MemberRole::Administrator),
        (0x101, COMPANY, BOOKS, MemberRole::Accountant),
        (0x102, COMPANY, REVIEWER, MemberRole::Reviewer),
        (0x103, COMPANY, HOLDER, MemberRole::Member),
        (0x104, OTHER_COMPANY, OUTSIDER, MemberRole::Administrator),
    ];
    for (number, company, email, role) in people {
        let user = NewUser {
            id: UserId(Uuid::from_u128(number)),
            email: email.into(),
            first_name: "Ada".parse().unwrap(),
            last_name: "Byron".parse().unwrap(),
            password_hash: password_hash.clone(),
            developer_of: Vec::new(),
        };
        by_switch(&bench.state)
            .carry_out(AdminCommand::User(UserCommand::Create(user)))
            .await
            .unwrap();
        let id = MemberId(Uuid::from_u128(number));
        let new = NewMember { role, ..new_member(id, CompanyId(company), email) };
        by_switch(&bench.state)
            .carry_out(AdminCommand::Member(MemberCommand::Create(new)))
            .await
            .unwrap();
    }
    let card = json!({
        "description": "Travel",
        "is_virtual": true,
        "allowance": {"amount": "500", "interval": "monthly", "transaction_limit": "100"},
        "assigned_to": {"id": Uuid::from_u128(0x103)},
    });
    let card = bench.order(card).await;
    (bench, card)
}

pub(super) async fn visit<'a>(bench: &'a Bench, email: &str) -> Visitor<'a> {
    let mut visitor = Visitor::new(bench);
    visitor.fill("/login", &[("email", email), ("password", PASSWORD)]).await.expect(303);
    visitor
}
