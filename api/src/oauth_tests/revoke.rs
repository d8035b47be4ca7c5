//! Giving tokens back: an app's own, and nobody else's.

use cardswitch_engine::command::reply::Rejection;
use cardswitch_engine::domain::audit::Actor;
use cardswitch_engine::domain::ids::AppId;
use cardswitch_identity::oauth::revoke::is_nothing;
use serde_json::json;
use uuid::Uuid;

use super::world::{APP, OTHER_APP, RefusalCase, TokenWorld, id_of, secret_of};
use crate::bench::{COMPANY, OTHER_COMPANY};

const REVOKE: &str = "/v1/oauth/token/revoke";

async fn token(world: &TokenWorld) -> String {
    let code = world.code("grace", "").await;
    world.exchange(&code, &[]).await.token()
}

#[tokio::test]
async fn an_app_revokes_one_token() {
    let world = TokenWorld::new().await;
    for name in ["access_token", "token"] {
        let (one, other) = (token(&world).await, token(&world).await);
        let told = world.post(REVOKE, &[(name, &one)]).await;
        assert_eq!((told.status, told.body), (200, json!({})));
        assert_eq!((world.opens(&one).await, world.opens(&other).await), (false, true));
        assert_eq!(world.post(REVOKE, &[(name, &one)]).await.status, 200, "twice is once");
    }
}

#[tokio::test]
async fn an_app_revokes_all_tokens_of_a_company() {
    let world = TokenWorld::new().await;
    let tokens = [token(&world).await, token(&world).await];
    let waiting = world.code("grace", "").await;
    let (own, other) = (COMPANY.to_string(), OTHER_COMPANY.to_string());
    assert_eq!(world.post(REVOKE, &[("company_id", &other)]).await.status, 200);
    assert!(world.opens(&tokens[0]).await);
    assert_eq!(world.post(REVOKE, &[("company_id", &own)]).await.status, 200);
    for token in &tokens {
        assert!(!world.opens(token).await);
    }
    assert_eq!(world.exchange(&waiting, &[]).await.error(), (400, "invalid_grant"));
    assert!(world.opens("read").await && world.opens("admin").await, "not the app's");
}

#[tokio::test]
async fn what_is_anothers_stays_and_the_answer_does_not_tell() {
    let world = TokenWorld::new().await;
    let own = token(&world).await;
    let (id, secret) = (id_of(OTHER_APP), secret_of(OTHER_APP));
    let other = [("client_id", id.as_str()), ("client_secret", secret.as_str())];
    let company = COMPANY.to_string();
    for named in [
        ("access_token", own.as_str()),
        ("access_token", "read"),
        ("access_token", "unknown"),
        ("access_token", "💳"),
        ("company_id", company.as_str()),
        ("company_id", "00000000-0000-0000-0000-0000000000ff"),
    ] {
        let told = world.post(REVOKE, &[&other[..], &[named]].concat()).await;
        assert_eq!((told.status, told.body), (200, json!({})), "{named:?}");
    }
    assert!(world.opens(&own).await && world.opens("read").await);
}

#[tokio::test]
async fn one_of_the_two_is_named_by_a_known_app() {
    let world = TokenWorld::new().await;
    let own = token(&world).await;
    let company = COMPANY.to_string();
    let rows: [RefusalCase<'_>; 5] = [
        (&[], (400, "invalid_request")),
        (&[("access_token", "")], (400, "invalid_request")),
        (&[("access_token", &own), ("company_id", &company)], (400, "invalid_request")),
        (&[("company_id", "x")], (400, "invalid_request")),
        (&[("access_token", &own), ("client_secret", "x")], (401, "invalid_client")),
    ];
    for (fields, expected) in rows {
        assert_eq!(world.post(REVOKE, fields).await.error(), expected, "{fields:?}");
    }
    assert!(world.opens(&own).await);
}

#[test]
fn only_where_nothing_is_there_nothing_needs_revoking() {
    let rows = [
        (Rejection::CompanyNotFound, true),
        (Rejection::AppNotFound, true),
        (Rejection::TokenNotFound, true),
        (Rejection::TooMuchAtOnce, false),
        (Rejection::TicketSpent, false),
        (Rejection::IdTaken, false),
    ];
    for (rejection, expected) in rows {
        assert_eq!(is_nothing(rejection), expected, "{rejection:?}");
    }
}

#[tokio::test]
async fn it_is_the_app_that_takes_back() {
    let world = TokenWorld::new().await;
    let own = token(&world).await;
    world.post(REVOKE, &[("access_token", &own)]).await;
    assert_eq!(world.newest_actor(), Actor::App { id: AppId(Uuid::from_u128(APP)) });
}
