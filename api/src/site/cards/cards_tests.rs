//! The pages of cards against a real engine: who sees what, what becomes of what is typed, two people
//! at one card, and what attackers send.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::identity::NewUser;
use cardswitch_engine::domain::ids::{CompanyId, MemberId, UserId};
use cardswitch_engine::domain::member::MemberRole;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::auth::passwords::hash;
use crate::routes::routes_tests::{Bench, COMPANY, OTHER_COMPANY, order};
use crate::site::site_world::{PASSWORD, sign_in};
use crate::site::visitor_tests::{Page, Visitor};

const PEOPLE: [(&str, MemberRole); 4] = [
    ("root@example.com", MemberRole::Administrator),
    ("books@example.com", MemberRole::Accountant),
    ("review@example.com", MemberRole::Reviewer),
    ("holder@example.com", MemberRole::Member),
];

/// A switch with somebody of every role; the last one holds the card that is returned.
async fn stage() -> (Bench, String) {
    let bench = Bench::new().await;
    let password_hash = Some(hash(PASSWORD).await.unwrap());
    for (place, (email, role)) in PEOPLE.into_iter().enumerate() {
        let number = 0x100 + u128::try_from(place).unwrap();
        let user = NewUser {
            id: UserId(Uuid::from_u128(number)),
            email: email.into(),
            first_name: "Ada".into(),
            last_name: "Byron".into(),
            password_hash: password_hash.clone(),
            developer_of: Vec::new(),
        };
        bench.state.carry_out(AdminCommand::CreateUser(user)).await.unwrap();
        let member = crate::routes::routes_tests::member_of(COMPANY, number, email, role);
        bench.state.carry_out(AdminCommand::CreateMember(member)).await.unwrap();
    }
    let holder = json!({"id": Uuid::from_u128(0x103)});
    let card = order(
        &bench,
        json!({
            "description": "Travel",
            "is_virtual": true,
            "allowance": {"amount": "500", "interval": "monthly", "transaction_limit": "100"},
            "assigned_to": holder,
        }),
    );
    let id = card.await["id"].as_str().unwrap().to_owned();
    (bench, id)
}
