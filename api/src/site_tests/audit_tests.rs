//! The audit log on the site: whom its filter and its events name.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::access_token::{
    AccessScope, AccessTokenCommand, NewAccessToken, NewTokenGrant, TokenOrigin,
};
use cardswitch_engine::directory::user::{NewUser, UserCommand};
use cardswitch_engine::domain::ids::{AccessTokenId, CompanyId, UserId};
use cardswitch_secrets::token_digest;
use serde_json::{Value, json};
use uuid::Uuid;

use super::company_world::{MEMBER, company, visitor};
use super::site_world::{EMAIL, USER};
use crate::bench::{Bench, COMPANY, OTHER_COMPANY};
use crate::test_world::by_switch;

const STRANGER: Uuid = Uuid::from_u128(301);
const OWN_TOKEN: Uuid = Uuid::from_u128(302);
const OTHER_TOKEN: Uuid = Uuid::from_u128(303);
const OWN_LABEL: &str = "Own books";

/// Makes a user of no company.
async fn make_stranger(bench: &Bench) {
    let user = NewUser {
        id: UserId(STRANGER),
        email: "eve@example.net".into(),
        first_name: "Eve".parse().unwrap(),
        last_name: "Stranger".parse().unwrap(),
        password_hash: None,
        developer_of: Vec::new(),
    };
    let command = AdminCommand::User(UserCommand::Create(user));
    by_switch(&bench.state).carry_out(command).await.unwrap();
}

/// Makes a token with a label, whose text is that, too.
async fn make_token(bench: &Bench, (id, company): (Uuid, Uuid), label: &str) {
    let token = NewAccessToken {
        id: AccessTokenId(id),
        digest: token_digest(label),
        company: CompanyId(company),
        scope: AccessScope { admin: true, ..AccessScope::default() },
    };
    let origin = TokenOrigin::Operator;
    let label = label.parse().unwrap();
    let grant = NewTokenGrant { token, app: None, member: None, origin, label };
    let command = AdminCommand::AccessToken(AccessTokenCommand::Grant(Box::new(grant)));
    by_switch(&bench.state).carry_out(command).await.unwrap();
}

/// The filter told an administrator who any user and what any token was, by its id.
#[tokio::test]
async fn the_filter_names_only_actors_of_the_companys_events() {
    let bench = company().await;
    make_stranger(&bench).await;
    make_token(&bench, (OTHER_TOKEN, OTHER_COMPANY), "Foreign books").await;
    make_token(&bench, (OWN_TOKEN, COMPANY), OWN_LABEL).await;
    let named = json!({"name": "Research"});
    let made = bench.ask_as(&format!("Token {OWN_LABEL}"), "POST", "/v1/departments", named).await;
    assert_eq!(made.0, 201, "{}", made.1);
    // Revoked, the list of tokens does not offer it any more.
    let revoked = format!("/v1/access-tokens/{OWN_TOKEN}");
    let (status, _) = bench.ask("DELETE", &revoked, Value::Null).await;
    assert!((200..300).contains(&status), "{status}");

    let mut ada = visitor(&bench, EMAIL).await;
    let rows = [
        (STRANGER, None),
        (OTHER_TOKEN, None),
        (Uuid::from_u128(304), None),
        (OWN_TOKEN, Some("Own books (token)")),
        (USER.0, Some("Ada Byron")),
    ];
    for (id, name) in rows {
        let page = ada.get(&format!("/audit?actor={id}")).await.expect(200);
        let option = format!("<option value=\"{id}\" selected>");
        let shown = page.body.split_once(&option).map(|(_, rest)| rest.split_once('<').unwrap().0);
        assert_eq!(shown, name, "{id}: {}", page.body);
        assert!(!page.body.contains("Stranger") && !page.body.contains("Foreign"), "{id}");
    }
}

/// The page of the audit log, without tags.
async fn log(bench: &Bench) -> String {
    let page = visitor(bench, EMAIL).await.get("/audit").await.expect(200).body;
    let texts = page.split('<').filter_map(|part| part.split_once('>'));
    texts.map(|(_, text)| text).collect()
}

/// A user took an administrator's name at `/account`, and the log gave it to their deeds.
#[tokio::test]
async fn the_log_names_users_as_the_company_does() {
    let bench = company().await;
    let names = [("first_name", "Ada"), ("last_name", "Admin")];
    visitor(&bench, MEMBER).await.fill("/account", &names).await.expect(303);
    let page = log(&bench).await;
    assert!(page.contains("Some Body") && !page.contains("Ada Admin"), "{page}");
}

/// Every field of the form was said to be changed.
#[tokio::test]
async fn only_what_was_changed_is_in_the_log() {
    let bench = company().await;
    let mut ada = visitor(&bench, EMAIL).await;
    let shown =
        [("description", "Chairs"), ("amount", "120.50"), ("note", "two"), ("end_time", "")];
    let path = ada.fill("/requisitions/new", &shown).await.expect(303).location().to_owned();
    let seen = ada.get(&path).await.expect(200).field("seen").unwrap();
    let mut dearer = shown;
    dearer[1].1 = "130";
    ada.post(&path, &[&dearer[..], &[("seen", &seen)]].concat()).await.expect(303);
    let page = log(&bench).await;
    assert!(page.contains("changed the requisition Chairs") && page.contains("amount: "), "{page}");
    assert!(!page.contains("description") && !page.contains("end time"), "{page}");
    let seen = ada.get(&path).await.expect(200).field("seen").unwrap();
    let approve = [("verdict", "approve"), ("seen", &*seen)];
    ada.post(&format!("{path}/review"), &approve).await.expect(303);
    let page = log(&bench).await;
    assert!(page.contains("approved the requisition Chairs"), "{page}");
    let body = bench.get(&format!("/v1{path}")).await;
    assert_eq!(body["note"], "two", "{body}");
}
