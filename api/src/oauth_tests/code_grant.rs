//! Codes through the endpoint: what they give, and every way in which one is no good.

use axum::http::header;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::access_token::AccessScope;
use cardswitch_engine::directory::app::AppCommand;
use cardswitch_engine::directory::company::{CompanyChanges, CompanyCommand};
use cardswitch_engine::directory::member::{MemberChanges, MemberCommand, MemberRole};
use cardswitch_engine::domain::audit::Actor;
use cardswitch_engine::domain::company::CompanyState;
use cardswitch_engine::domain::ids::{AppId, CompanyId, Timestamp};
use cardswitch_identity::oauth::authorize::CODE_LIFETIME;
use serde_json::json;
use uuid::Uuid;

use super::world::{
    APP, OTHER_APP, PASSWORD, REDIRECT, RefusalCase, TokenWorld, email_of, id_of, secret_of,
};
use crate::bench::{COMPANY, OTHER_COMPANY};
use crate::test_world::fill_with_tokens;

/// The pair of RFC 7636, appendix B.
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE: &str = "code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM\
                         &code_challenge_method=S256";
const NO_GOOD: (u16, &str) = (400, "invalid_grant");
const NO_ROOM: (u16, &str) = (409, "access_denied");
const STOPPED: (u16, &str) = (400, "unauthorized_client");

#[tokio::test]
async fn a_code_gives_a_token_of_the_scope_that_was_granted() {
    let world = TokenWorld::new().await;
    let rows = [("", json!([])), ("scope=accountant,admin", json!(["accountant", "admin"]))];
    for (query, scope) in rows {
        let code = world.code("grace", query).await;
        let told = world.exchange(&code, &[("redirect_uri", REDIRECT)]).await;
        let token = told.token();
        assert_eq!(told.status, 201);
        let expected = json!({"access_token": token, "token_type": "Bearer", "scope": scope});
        assert_eq!(told.body, expected);
        assert_eq!(told.headers[header::CACHE_CONTROL], "no-store");
        assert!(world.opens(&token).await);
        let links = world.get(&token, "/v1/shared-links").await.status;
        assert_eq!(links == 200, scope != json!([]), "{scope}");
    }
}

#[tokio::test]
async fn an_app_says_who_it_is_in_the_body_or_over_basic() {
    let world = TokenWorld::new().await;
    let code = world.code("grace", "").await;
    let basic = STANDARD.encode(format!("{}:{}", id_of(APP), secret_of(APP)));
    let basic = format!("Basic {basic}");
    let headers = [
        (header::AUTHORIZATION, basic.as_str()),
        (header::CONTENT_TYPE, "application/x-www-form-urlencoded"),
    ];
    let form = format!("grant_type=authorization_code&code={code}");
    let twice = format!("{form}&client_secret={}", secret_of(APP));
    let told = world.send("POST", "/v1/oauth/token", &headers, twice).await;
    assert_eq!(told.error(), (400, "invalid_request"));
    let other = format!("{form}&client_id={}", id_of(OTHER_APP));
    let told = world.send("POST", "/v1/oauth/token", &headers, other).await;
    assert_eq!(told.error(), (400, "invalid_request"));
    let told = world.send("POST", "/v1/oauth/token", &headers, form).await;
    assert_eq!(told.status, 201, "{told:?}");

    let code = world.code("grace", "").await;
    let body = json!({"grant_type": "authorization_code", "code": code, "client_id": id_of(APP),
        "client_secret": secret_of(APP), "redirect_uri": null, "unknown": 1});
    let headers = [(header::CONTENT_TYPE, "application/json")];
    let told = world.send("POST", "/v1/oauth/token", &headers, body.to_string()).await;
    assert_eq!(told.status, 201, "{told:?}");
}

#[tokio::test]
async fn a_code_that_comes_twice_takes_back_what_it_gave() {
    let world = TokenWorld::new().await;
    let code = world.code("grace", "").await;
    let token = world.exchange(&code, &[]).await.token();
    assert!(world.opens(&token).await);
    assert_eq!(world.exchange(&code, &[]).await.error(), NO_GOOD);
    assert!(!world.opens(&token).await);
    assert_eq!(world.exchange(&code, &[]).await.error(), NO_GOOD);

    // Also after its ten minutes.
    let code = world.code("grace", "").await;
    let token = world.exchange(&code, &[]).await.token();
    world.advance(2 * Timestamp::HOUR);
    assert!(world.opens(&token).await, "tokens do not expire");
    assert_eq!(world.exchange(&code, &[]).await.error(), NO_GOOD);
    assert!(!world.opens(&token).await);
}

#[tokio::test]
async fn of_many_at_the_same_time_none_keeps_a_token() {
    let world = TokenWorld::new().await;
    let code = world.code("grace", "").await;
    let exchange = || world.exchange(&code, &[]);
    let told = tokio::join!(exchange(), exchange(), exchange(), exchange());
    let told = [told.0, told.1, told.2, told.3];
    let given: Vec<_> = told.iter().filter(|told| told.status == 201).collect();
    assert_eq!(given.len(), 1, "{told:?}");
    assert!(!world.opens(&given[0].token()).await);
}

#[tokio::test]
async fn a_code_is_over_after_ten_minutes() {
    let world = TokenWorld::new().await;
    let (code, late) = (world.code("grace", "").await, world.code("grace", "").await);
    world.advance(CODE_LIFETIME - Timestamp::SECOND);
    assert_eq!(world.exchange(&code, &[]).await.status, 201);
    world.advance(Timestamp::SECOND);
    assert_eq!(world.exchange(&late, &[]).await.error(), NO_GOOD);
}

#[tokio::test]
async fn another_app_gets_nothing_and_spoils_nothing() {
    let world = TokenWorld::new().await;
    let code = world.code("grace", "").await;
    let (id, secret) = (id_of(OTHER_APP), secret_of(OTHER_APP));
    let other = [("client_id", id.as_str()), ("client_secret", secret.as_str())];
    assert_eq!(world.exchange(&code, &other).await.error(), NO_GOOD);
    // Nor does it with the first one's id, or the first one with the other's secret.
    let swapped = [("client_secret", secret.as_str())];
    assert_eq!(world.exchange(&code, &swapped).await.error(), (401, "invalid_client"));
    let swapped = [("client_id", id.as_str())];
    assert_eq!(world.exchange(&code, &swapped).await.error(), (401, "invalid_client"));
    let token = world.exchange(&code, &[]).await.token();
    assert_eq!(world.exchange(&code, &other).await.error(), NO_GOOD);
    assert!(world.opens(&token).await, "somebody else's replay takes nothing back");
}

#[tokio::test]
async fn a_code_is_exchanged_by_who_asked_for_it() {
    let world = TokenWorld::new().await;
    let other = "a".repeat(43);
    let rows = [
        (CHALLENGE, vec![("code_verifier", VERIFIER)], true),
        (CHALLENGE, vec![("code_verifier", other.as_str())], false),
        (CHALLENGE, vec![], false),
        (CHALLENGE, vec![("code_verifier", "")], false),
        // Somebody took the challenge out of the request on its way.
        ("", vec![("code_verifier", VERIFIER)], false),
        ("", vec![], true),
    ];
    for (query, more, is_taken) in rows {
        let code = world.code("grace", query).await;
        let told = world.exchange(&code, &more).await;
        if is_taken {
            assert_eq!(told.status, 201, "{query} {more:?}");
        } else {
            assert_eq!(told.error(), NO_GOOD, "{query} {more:?}");
        }
    }
    let code = world.code("grace", CHALLENGE).await;
    for _ in 0..3 {
        assert_eq!(world.exchange(&code, &[("code_verifier", &other)]).await.error(), NO_GOOD);
    }
    assert_eq!(world.exchange(&code, &[("code_verifier", VERIFIER)]).await.status, 201);
}

#[tokio::test]
async fn the_address_is_the_one_the_code_went_to() {
    let world = TokenWorld::new().await;
    let second = format!("{REDIRECT}/second");
    let asked = format!("redirect_uri={second}");
    let rows = [
        (asked.as_str(), Some(second.as_str()), true),
        (asked.as_str(), None, true),
        (asked.as_str(), Some(""), true),
        (asked.as_str(), Some(REDIRECT), false),
        (asked.as_str(), Some("https://books.example.com/callback/Second"), false),
        ("", Some(REDIRECT), true),
        ("", Some(second.as_str()), false),
        ("", Some("https://evil.example"), false),
    ];
    for (query, named, is_taken) in rows {
        let code = world.code("grace", query).await;
        let more: Vec<_> = named.map(|named| ("redirect_uri", named)).into_iter().collect();
        let told = world.exchange(&code, &more).await;
        if is_taken {
            assert_eq!(told.status, 201, "{query} {named:?}");
        } else {
            assert_eq!(told.error(), NO_GOOD, "{query} {named:?}");
        }
    }
}

#[tokio::test]
async fn a_code_is_worth_what_its_member_and_app_still_may() {
    let world = TokenWorld::new().await;
    let code = world.code("grace", "scope=admin").await;
    world.approve(APP, AccessScope::default()).await;
    assert_eq!(world.exchange(&code, &[]).await.error(), NO_GOOD);

    let code = world.code("anna", "scope=accountant").await;
    let email = super::world::email_of("anna");
    let found = world.bench.state.switch.read_at_once(|snapshot| snapshot.memberships(&email));
    let anna = found.unwrap().remove(0).1.id;
    let role = Some(MemberRole::Member);
    let changes = MemberChanges { role, ..MemberChanges::default() };
    world
        .carry_out(AdminCommand::Member(MemberCommand::Update(CompanyId(COMPANY), anna, changes)))
        .await;
    assert_eq!(world.exchange(&code, &[]).await.error(), NO_GOOD);

    let code = world.code("grace", "").await;
    let app = AppId(Uuid::from_u128(APP));
    world.carry_out(AdminCommand::App(AppCommand::Delete(CompanyId(OTHER_COMPANY), app))).await;
    assert_eq!(world.exchange(&code, &[]).await.error(), (401, "invalid_client"));
}

#[tokio::test]
async fn what_is_not_known_is_refused_in_words_for_programs() {
    let world = TokenWorld::new().await;
    let rows: [RefusalCase<'_>; 10] = [
        (&[("grant_type", "authorization_code"), ("code", "unknown")], NO_GOOD),
        (&[("grant_type", "authorization_code")], (400, "invalid_request")),
        (&[("grant_type", "authorization_code"), ("code", "")], (400, "invalid_request")),
        (&[("code", "a")], (400, "invalid_request")),
        (&[("grant_type", "")], (400, "invalid_request")),
        (&[("grant_type", "client_credentials")], (400, "unsupported_grant_type")),
        (&[("grant_type", "refresh_token")], (400, "unsupported_grant_type")),
        (&[("grant_type", "password"), ("grant_type", "password")], (400, "invalid_request")),
        (&[("grant_type", "password"), ("client_id", "")], (401, "invalid_client")),
        (&[("grant_type", "password"), ("client_secret", "x")], (401, "invalid_client")),
    ];
    for (fields, expected) in rows {
        let told = world.post("/v1/oauth/token", fields).await;
        assert_eq!(told.error(), expected, "{fields:?}");
        assert_eq!(told.headers[header::CACHE_CONTROL], "no-store", "{fields:?}");
        let scheme = told.headers.get(header::WWW_AUTHENTICATE);
        let is_basic = scheme.is_some_and(|scheme| scheme.as_bytes().starts_with(b"Basic "));
        assert_eq!(is_basic, expected.0 == 401);
    }
    let proof = STANDARD.encode(format!("{}:{}", id_of(APP), secret_of(APP)));
    let proof = (header::AUTHORIZATION, format!("Basic {proof}"));
    let proof = (proof.0, proof.1.as_str());
    let json = [(header::CONTENT_TYPE, "application/json"), proof.clone()];
    for body in ["", "[]", "{", "{\"grant_type\": 5}"] {
        let told = world.send("POST", "/v1/oauth/token", &json, body.to_owned()).await;
        assert_eq!(told.error(), (400, "invalid_request"), "{body}");
    }
    let proven = [proof.clone()];
    let told = world.send("POST", "/v1/oauth/token", &proven, "grant_type=password".into()).await;
    assert_eq!(told.error(), (415, "invalid_request"));
    let long = format!("grant_type={}", "x".repeat(70_000));
    let form = [(header::CONTENT_TYPE, "application/x-www-form-urlencoded"), proof];
    let told = world.send("POST", "/v1/oauth/token", &form, long).await;
    assert_eq!(told.error(), (413, "invalid_request"));
    let told = world.send("GET", "/v1/oauth/token", &[], String::new()).await;
    assert_eq!((told.status, &told.headers[header::ALLOW]), (405, &"POST".parse().unwrap()));
}

#[tokio::test]
async fn a_secret_that_is_no_text_breaks_nothing() {
    let world = TokenWorld::new().await;
    for code in ["\0", "💳", "' OR 1=1 --", "<script>", "../../etc/passwd", "%00", "a\r\nb: c"] {
        assert_eq!(world.exchange(code, &[]).await.error(), NO_GOOD, "{code:?}");
        let told = world.exchange("a", &[("client_id", code)]).await;
        assert_eq!(told.error(), (401, "invalid_client"), "{code:?}");
        assert!(!told.body.to_string().contains("<script>"));
    }
}

#[tokio::test]
async fn an_idempotency_key_counts_for_nothing() {
    let world = TokenWorld::new().await;
    let code = world.code("grace", "").await;
    let headers = [
        (header::CONTENT_TYPE, "application/x-www-form-urlencoded"),
        (header::HeaderName::from_static("idempotency-key"), "once"),
    ];
    let form = format!(
        "grant_type=authorization_code&code={code}&client_id={}&client_secret={}",
        id_of(APP),
        secret_of(APP)
    );
    let send = async || world.send("POST", "/v1/oauth/token", &headers, form.clone()).await;
    assert_eq!(send().await.status, 201);
    let again = send().await;
    assert_eq!(again.error(), NO_GOOD);
    assert!(!again.headers.contains_key("idempotent-replayed"));
}

#[tokio::test]
async fn a_code_that_comes_twice_is_taken_back_by_the_app() {
    let world = TokenWorld::new().await;
    let app = Actor::App { id: AppId(Uuid::from_u128(APP)) };
    let code = world.code("grace", "").await;
    assert_eq!(world.exchange(&code, &[]).await.status, 201);
    assert_eq!(world.exchange(&code, &[]).await.error(), NO_GOOD);
    assert_eq!(world.newest_actor(), app);

    // At the same time: who comes second never had a token, so it is none that acts.
    let code = world.code("grace", "").await;
    let told = tokio::join!(world.exchange(&code, &[]), world.exchange(&code, &[]));
    let mut told = [told.0.status, told.1.status];
    told.sort_unstable();
    assert_eq!(told, [201, 400]);
    assert_eq!(world.newest_actor(), app);
}

/// Whether a request is one is no business of who is no client.
#[tokio::test]
async fn who_is_no_client_is_told_so_before_anything_else() {
    let world = TokenWorld::new().await;
    let (json, text) = ("application/json", "text/plain");
    let basic =
        |secret: &str| format!("Basic {}", STANDARD.encode(format!("{}:{secret}", id_of(APP))));
    let (right, wrong) = (basic(&secret_of(APP)), basic("guess"));
    let nobody = (401, "invalid_client");
    let rows = [
        ("", json, "{}", nobody),
        ("", json, "{", nobody),
        ("", text, "grant_type=password", nobody),
        ("", json, r#"{"grant_type": 7}"#, nobody),
        (wrong.as_str(), json, "{", nobody),
        (wrong.as_str(), text, "", nobody),
        (right.as_str(), json, "{", (400, "invalid_request")),
        (right.as_str(), json, "{}", (400, "invalid_request")),
        (right.as_str(), text, "", (415, "invalid_request")),
        (right.as_str(), json, r#"{"grant_type": "x"}"#, (400, "unsupported_grant_type")),
    ];
    for path in ["/v1/oauth/token", "/v1/oauth/token/revoke"] {
        for (proof, kind, body, expected) in rows {
            if path.ends_with("revoke") && expected.1 == "unsupported_grant_type" {
                continue;
            }
            let mut headers = vec![(header::CONTENT_TYPE, kind)];
            headers.extend((!proof.is_empty()).then_some((header::AUTHORIZATION, proof)));
            let told = world.send("POST", path, &headers, body.to_owned()).await;
            assert_eq!(told.error(), expected, "{path} {proof} {kind} {body}");
        }
    }
}

/// The app was told that the code was unknown, and could not know what to do.
#[tokio::test]
async fn an_app_learns_that_there_is_no_room_for_a_token() {
    let world = TokenWorld::new().await;
    let code = world.code("grace", "").await;
    fill_with_tokens(&world.bench.state, world.member("grace")).await;
    let told = world.exchange(&code, &[]).await;
    assert_eq!(told.error(), NO_ROOM);
    assert_eq!(told.body["detail"]["code"], "too_many_tokens");
    let told = world.sign_in(&email_of("grace"), PASSWORD).await;
    assert_eq!(told.error(), NO_ROOM);
    assert_eq!(told.body["detail"]["code"], "too_many_tokens");
}

/// A company was closed for abuse, and its app went on to get tokens of other companies.
#[tokio::test]
async fn an_app_of_a_closed_company_gets_no_token() {
    let world = TokenWorld::new().await;
    let token = world.exchange(&world.code("grace", "").await, &[]).await.token();
    let code = world.code("grace", "").await;
    world.carry_out(in_state(CompanyState::Closed)).await;
    assert_eq!(world.exchange(&code, &[]).await.error(), STOPPED);
    assert_eq!(world.sign_in(&email_of("grace"), PASSWORD).await.error(), STOPPED);
    // It still takes back what it has.
    assert!(world.opens(&token).await);
    assert_eq!(world.post("/v1/oauth/token/revoke", &[("token", &token)]).await.status, 200);
    assert!(!world.opens(&token).await);
    world.carry_out(in_state(CompanyState::Active)).await;
    assert_eq!(world.exchange(&code, &[]).await.status, 201);
}

/// Changes the company that has registered the apps.
fn in_state(state: CompanyState) -> AdminCommand {
    let changes = CompanyChanges { state: Some(state), ..CompanyChanges::default() };
    AdminCommand::Company(CompanyCommand::Update(CompanyId(OTHER_COMPANY), changes))
}
