//! Tokens for passwords: who gets one, the questions between, and guessing.

use std::sync::mpsc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use axum::http::header;
use cardswitch_edge::client_address::ClientAddress;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::member::{MemberChanges, MemberCommand, MemberRole};
use cardswitch_engine::directory::user::UserChanges;
use cardswitch_engine::domain::ids::{AppId, CompanyId, Timestamp};
use cardswitch_identity::auth::passwords;
use cardswitch_identity::auth::second_factor::{
    AnswerOutcome, AnsweredConversation, CONVERSATION, Purpose, answer,
};
use cardswitch_identity::auth::throttle::{ExcessPolicy, Source};
use cardswitch_identity::oauth::password_grant::make_token;
use cardswitch_secrets::token_digest;
use cardswitch_v1::operations::guarded;
use serde_json::{Value, json};
use uuid::Uuid;

use super::world::{ANSWER, APP, PASSWORD, TokenWorld, email_of, secret_of};
use crate::bench::{COMPANY, OTHER_COMPANY};
use crate::test_world::{by_switch, verifications};

const NO_GOOD: (u16, &str) = (400, "invalid_grant");

#[tokio::test]
async fn administrators_and_accountants_get_tokens_that_read() {
    let world = TokenWorld::new().await;
    for (name, is_given) in [("grace", true), ("anna", true), ("rita", false), ("mia", false)] {
        let told = world.sign_in(&email_of(name), PASSWORD).await;
        if !is_given {
            assert_eq!(told.error(), NO_GOOD, "{name}");
            continue;
        }
        let token = told.token();
        let expected = json!({"access_token": token, "token_type": "Bearer", "scope": []});
        assert_eq!((told.status, told.body), (201, expected));
        assert!(world.opens(&token).await);
        assert_eq!(world.get(&token, "/v1/shared-links").await.status, 403);
    }
    let told = world.sign_in("GRACE@Example.com", PASSWORD).await;
    assert_eq!(told.status, 201, "e-mail addresses are the same in any case");
}

#[tokio::test]
async fn no_scope_may_be_asked_for() {
    let world = TokenWorld::new().await;
    let email = email_of("grace");
    let rows = [("", 201), (" ", 201), ("accountant", 400), ("admin", 400), ("none", 400)];
    for (scope, status) in rows {
        let fields = [
            ("grant_type", "password"),
            ("username", email.as_str()),
            ("password", PASSWORD),
            ("scope", scope),
        ];
        let told = world.post("/v1/oauth/token", &fields).await;
        assert_eq!(told.status, status, "{scope}");
        assert!(status == 201 || told.error().1 == "invalid_scope");
    }
}

#[tokio::test]
async fn nobody_learns_who_has_an_account() {
    let world = TokenWorld::new().await;
    world.add_user("new", None).await;
    let wrong = world.sign_in(&email_of("grace"), "wrong horse battery").await;
    assert_eq!(wrong.error(), NO_GOOD);
    let long = "x".repeat(10_000);
    for (username, password) in [
        ("nobody@example.com", PASSWORD),
        ("ada@example.com", PASSWORD),
        ("new@example.com", PASSWORD),
        ("new@example.com", "x"),
        ("not an address", PASSWORD),
        (long.as_str(), long.as_str()),
        ("grace@example.com\0", PASSWORD),
    ] {
        let told = world.sign_in(username, password).await;
        assert_eq!((told.status, &told.body), (wrong.status, &wrong.body), "{username}");
    }
}

#[tokio::test]
async fn a_right_password_counts_however_many_were_wrong() {
    let world = TokenWorld::new().await;
    let asked = Instant::now();
    for _ in 0..5 {
        assert_eq!(world.sign_in(&email_of("grace"), "wrong").await.error(), NO_GOOD);
    }
    assert!(asked.elapsed() >= Duration::from_millis(750), "wrong tries wait");
    assert_eq!(world.sign_in(&email_of("grace"), PASSWORD).await.status, 201);
}

#[tokio::test]
async fn one_of_several_companies_can_be_named() {
    let world = TokenWorld::new().await;
    world.add_member(OTHER_COMPANY, "grace", MemberRole::Administrator).await;
    let other = OTHER_COMPANY.to_string();
    let own = COMPANY.to_string();
    let rows = [
        (None, Ok(&own)),
        (Some(own.as_str()), Ok(&own)),
        (Some(other.as_str()), Ok(&other)),
        (Some("00000000-0000-0000-0000-0000000000ff"), Err((400, "invalid_grant"))),
        (Some("x"), Err((400, "invalid_request"))),
    ];
    for (named, expected) in rows {
        let email = email_of("grace");
        let mut fields =
            vec![("grant_type", "password"), ("username", &email), ("password", PASSWORD)];
        fields.extend(named.map(|named| ("company_id", named)));
        let told = world.post("/v1/oauth/token", &fields).await;
        match expected {
            Ok(company) => {
                let shown = world.get(&told.token(), "/v1/company").await;
                assert_eq!(shown.body["id"], company.as_str(), "{named:?}");
            }
            Err(error) => assert_eq!(told.error(), error, "{named:?}"),
        }
    }
}

#[tokio::test]
async fn questions_are_asked_until_none_is_left() {
    let world = TokenWorld::new().await;
    let seed = world.give_totp("grace").await;
    world.give_question("grace").await;
    let told = world.sign_in(&email_of("grace"), PASSWORD).await;
    let token = told.token();
    let challenge = json!({
        "key": "totp",
        "url": "https://cards.example.com/v1/oauth/token/challenge",
        "question": "Which six digits does your authenticator app show?",
        "expires_at": "2026-03-04T20:05:00.000000Z",
    });
    assert_eq!(told.status, 203);
    assert_eq!(told.body["scope"], json!([]));
    // The bench's clock counts on from its start.
    let mut shown = told.body["challenge"].clone();
    let expires_at = shown["expires_at"].take();
    assert!(expires_at.as_str().unwrap().starts_with("2026-03-04T20:05:00."), "{expires_at}");
    assert_eq!(shown, {
        let mut plain = challenge;
        plain["expires_at"].take();
        plain
    });

    let asked = world.get(&token, "/v1/oauth/token/challenge").await;
    assert_eq!((asked.status, &asked.body), (200, &told.body["challenge"]));
    assert_eq!(asked.headers[header::CACHE_CONTROL], "no-store");

    let code = seed.code(world.now());
    let wrong = if code == "000000" { "000001" } else { "000000" };
    assert_eq!(world.answer(&token, wrong).await.error(), (403, "access_denied"));
    assert_eq!(world.answer(&token, "").await.error(), (400, "invalid_request"));
    let (first, second) = code.split_at(3);
    let told = world.answer(&token, &format!("{first} {second}")).await;
    assert_eq!((told.status, &told.body["key"]), (203, &json!("security_question")));
    assert_eq!(told.body["question"], "First pet?");
    assert!(!world.opens(&token).await);
    assert_eq!(world.answer(&token, "Tom").await.error(), (403, "access_denied"));
    let told = world.answer(&token, &format!(" {} ", ANSWER.to_uppercase())).await;
    let expected = json!({"access_token": token, "token_type": "Bearer", "scope": []});
    assert_eq!((told.status, told.body), (200, expected));
    assert!(world.opens(&token).await);

    // The answer may have been lost: a token that was granted stays so.
    assert_eq!(world.answer(&token, "anything").await.status, 200);
    assert_eq!(world.get(&token, "/v1/oauth/token/challenge").await.status, 404);
}

#[tokio::test]
async fn a_token_that_waits_for_answers_opens_nothing() {
    let world = TokenWorld::new().await;
    world.give_totp("grace").await;
    let token = world.sign_in(&email_of("grace"), PASSWORD).await.token();
    let authorization = format!("Token {token}");
    let headers = [
        (header::AUTHORIZATION, authorization.as_str()),
        (header::CONTENT_TYPE, "application/json"),
    ];
    for row in guarded() {
        let id = "0198f2a0-1b2c-7d3e-8f40-5a6b7c8d9e0f";
        let parts = row.path.split('/').map(|part| if part.starts_with('{') { id } else { part });
        let path = parts.collect::<Vec<_>>().join("/");
        let told = world.send(row.method, &path, &headers, "{}".into()).await;
        assert_eq!(told.status, 401, "{} {path}", row.method);
    }
}

#[tokio::test]
async fn the_fifth_wrong_answer_revokes() {
    let world = TokenWorld::new().await;
    let seed = world.give_totp("grace").await;
    let token = world.sign_in(&email_of("grace"), PASSWORD).await.token();
    for place in 1..=5 {
        let expected = if place < 5 { (403, "access_denied") } else { (401, "invalid_token") };
        assert_eq!(world.answer(&token, "no code").await.error(), expected, "{place}");
    }
    let told = world.answer(&token, &seed.code(world.now())).await;
    assert_eq!(told.error(), (401, "invalid_token"));
    assert_eq!(told.headers[header::WWW_AUTHENTICATE], "Token");
    let told = world.get(&token, "/v1/oauth/token/challenge").await;
    assert_eq!(told.error(), (401, "invalid_token"));
    assert!(!world.opens(&token).await);
}

#[tokio::test]
async fn a_late_answer_revokes() {
    let world = TokenWorld::new().await;
    let seed = world.give_totp("grace").await;
    let (token, late) = (
        world.sign_in(&email_of("grace"), PASSWORD).await.token(),
        world.sign_in(&email_of("grace"), PASSWORD).await.token(),
    );
    world.advance(CONVERSATION - Timestamp::SECOND);
    assert_eq!(world.answer(&token, &seed.code(world.now())).await.status, 200);
    world.advance(Timestamp::MINUTE);
    assert_eq!(world.answer(&late, &seed.code(world.now())).await.error(), (401, "invalid_token"));
    assert!(!world.opens(&late).await);
}

#[tokio::test]
async fn a_one_time_code_works_once_whatever_token_it_is_for() {
    let world = TokenWorld::new().await;
    let seed = world.give_totp("grace").await;
    let first = world.sign_in(&email_of("grace"), PASSWORD).await.token();
    let second = world.sign_in(&email_of("grace"), PASSWORD).await.token();
    let code = seed.code(world.now());
    let told = tokio::join!(world.answer(&first, &code), world.answer(&second, &code));
    let mut told = [told.0.status, told.1.status];
    told.sort_unstable();
    assert_eq!(told, [200, 403]);
    let third = world.sign_in(&email_of("grace"), PASSWORD).await.token();
    assert_eq!(world.answer(&third, &code).await.status, 403);
    // Nor does the one before it, which is still shown to slow people.
    let before = seed.code(world.now().plus(-30 * Timestamp::SECOND));
    assert_eq!(world.answer(&third, &before).await.status, 403);
    let next = seed.code(world.now().plus(30 * Timestamp::SECOND));
    assert_eq!(world.answer(&third, &next).await.status, 200);
}

/// Whoever hung up before the answer had used up the code, and the question stood: the same code again
/// was a wrong try.
#[tokio::test]
async fn a_code_counts_where_its_client_hangs_up_before_the_answer() {
    let world = TokenWorld::new().await;
    let seed = world.give_totp("grace").await;
    let token = world.sign_in(&email_of("grace"), PASSWORD).await.token();
    let code = seed.code(world.now());
    // The tables show the next change and no more, so that the step of the code is waited for.
    let (release, released) = mpsc::channel::<()>();
    let watermark = &world.bench.state.switch.engine.watermark;
    let hold = Box::new(move || assert!(released.recv().is_err()));
    watermark.on_news(watermark.applied(), hold);
    world.give_totp("anna").await;
    let answered = tokio::time::timeout(Duration::from_millis(200), world.answer(&token, &code));
    assert!(answered.await.is_err(), "the client hangs up");
    drop(release);
    assert_eq!(world.answer(&token, &code).await.status, 200);
    assert!(world.opens(&token).await);
}

#[tokio::test]
async fn a_new_password_ends_what_waits() {
    let world = TokenWorld::new().await;
    let seed = world.give_totp("grace").await;
    let token = world.sign_in(&email_of("grace"), PASSWORD).await.token();
    let password_hash = Some(passwords::hash("another horse battery").await.unwrap());
    world.change("grace", UserChanges { password_hash, ..UserChanges::default() }).await;
    assert_eq!(world.answer(&token, &seed.code(world.now())).await.status, 401);
}

#[tokio::test]
async fn tokens_that_do_not_wait_are_told_so() {
    let world = TokenWorld::new().await;
    for token in ["", "unknown", "💳"] {
        let told = world.answer(token, "1").await;
        assert_eq!(told.error(), (401, "invalid_token"), "{token}");
        let told = world.get(token, "/v1/oauth/token/challenge").await;
        assert_eq!(told.error(), (401, "invalid_token"), "{token}");
    }
    assert_eq!(world.get("read", "/v1/oauth/token/challenge").await.status, 404);
}

#[tokio::test]
async fn an_app_takes_back_what_waits() {
    let world = TokenWorld::new().await;
    let seed = world.give_totp("grace").await;
    let company = COMPANY.to_string();
    for by_company in [false, true] {
        let token = world.sign_in(&email_of("grace"), PASSWORD).await.token();
        let named = if by_company { ("company_id", &company) } else { ("access_token", &token) };
        let told = world.post("/v1/oauth/token/revoke", &[(named.0, named.1)]).await;
        assert_eq!((told.status, told.body), (200, json!({})));
        assert_eq!(world.answer(&token, &seed.code(world.now())).await.status, 401);
    }
}

#[tokio::test]
async fn who_reviews_is_who_the_token_acts_for() {
    let world = TokenWorld::new().await;
    let code = world.code("grace", "scope=admin").await;
    let token = world.exchange(&code, &[]).await.token();
    let authorization = format!("Token {token}");
    let headers = [
        (header::AUTHORIZATION, authorization.as_str()),
        (header::CONTENT_TYPE, "application/json"),
    ];
    let members = world.get(&token, "/v1/members?email=grace@example.com").await;
    let grace = members.body["results"][0]["id"].clone();
    let mia = world.get(&token, "/v1/members?email=mia@example.com").await;
    let new = json!({"member": {"id": mia.body["results"][0]["id"]}, "amount": 10,
        "description": "Pens"});
    let made = world.send("POST", "/v1/requisitions", &headers, new.to_string()).await;
    assert_eq!(made.status, 201, "{made:?}");
    let path = format!("/v1/requisitions/{}", made.body["id"].as_str().unwrap());
    assert_eq!(made.body["reviewed_by"], Value::Null);
    let told = world.send("PUT", &path, &headers, json!({"status": "denied"}).to_string()).await;
    assert_eq!((told.status, &told.body["reviewed_by"]["id"]), (200, &grace), "{told:?}");
}

#[tokio::test]
async fn one_password_is_verified_whoever_it_is() {
    let world = TokenWorld::new().await;
    world.add_user("new", None).await;
    let found = world
        .bench
        .state
        .switch
        .read_at_once(|snapshot| Ok(snapshot.memberships(&email_of("anna"))?.remove(0).1.id));
    let changes = MemberChanges { is_active: Some(false), ..MemberChanges::default() };
    let leaves =
        AdminCommand::Member(MemberCommand::Update(CompanyId(COMPANY), found.unwrap(), changes));
    world.carry_out(leaves).await;
    let wrong = world.sign_in(&email_of("grace"), "wrong horse battery").await;
    for (name, password) in [
        ("grace", "wrong horse battery"),
        ("nobody", PASSWORD),
        ("new", PASSWORD),
        // Members who do not take part cannot log in.
        ("anna", PASSWORD),
    ] {
        let (told, verified) =
            verifications(&world.bench.state, world.sign_in(&email_of(name), password)).await;
        assert_eq!((told.status, &told.body), (wrong.status, &wrong.body), "{name}");
        assert_eq!(verified, 1, "{name}");
    }
    let (told, verified) =
        verifications(&world.bench.state, world.sign_in(&email_of("grace"), PASSWORD)).await;
    assert_eq!((told.status, verified), (201, 1));
}

#[tokio::test]
async fn an_apps_users_do_not_use_up_its_address() {
    let world = TokenWorld::new().await;
    let from = Some(ClientAddress("203.0.113.7".parse().unwrap()));
    for number in 0..101 {
        let email = format!("nobody{number}@example.com");
        let told = world.sign_in_from(from, &email, "wrong horse battery", &secret_of(APP)).await;
        assert_eq!(told.error(), NO_GOOD, "{number}");
    }
    let email = email_of("grace");
    assert_eq!(world.sign_in_from(from, &email, PASSWORD, &secret_of(APP)).await.status, 201);
    // A guess at the secret of an app proves nothing.
    for number in 0..100 {
        let told = world.sign_in_from(from, &email, PASSWORD, "guessed").await;
        assert_eq!(told.error(), (401, "invalid_client"), "{number}");
    }
    let told = world.sign_in_from(from, &email, PASSWORD, &secret_of(APP)).await;
    assert_eq!(told.error(), (429, "temporarily_unavailable"));
}

#[tokio::test]
async fn the_last_answer_counts_once_however_often_it_comes() {
    let world = TokenWorld::new().await;
    let seed = world.give_totp("grace").await;
    let token = world.sign_in(&email_of("grace"), PASSWORD).await.token();
    let code = seed.code(world.now());
    let told = tokio::join!(world.answer(&token, &code), world.answer(&token, &code));
    assert_eq!((told.0.status, told.1.status), (200, 200), "{told:?}");
    assert_eq!(told.0.body, told.1.body);
    assert!(world.opens(&token).await);
}

/// Answers the last question of grace's token, and stops before the token is made.
async fn almost(world: &TokenWorld) -> (String, AnsweredConversation) {
    world.give_question("grace").await;
    almost_with(world, ANSWER).await
}

/// The same with the answer to the only question that is asked.
async fn almost_with(world: &TokenWorld, given: &str) -> (String, AnsweredConversation) {
    let token = world.sign_in(&email_of("grace"), PASSWORD).await.token();
    let source = Source::App(AppId(Uuid::from_u128(APP)));
    let digest = token_digest(&token);
    let state = &world.bench.state;
    let answered =
        answer(&by_switch(state), &digest, given, source, ExcessPolicy::Refused).await.unwrap();
    let AnswerOutcome::Done(finishing) = answered else { panic!("{answered:?}") };
    (token, finishing)
}

#[tokio::test]
async fn what_came_between_can_be_tried_again() {
    let world = TokenWorld::new().await;
    let (token, finishing) = almost(&world).await;
    drop(finishing);
    assert!(!world.opens(&token).await);
    assert_eq!(world.get(&token, "/v1/oauth/token/challenge").await.status, 200);
    assert_eq!(world.answer(&token, ANSWER).await.status, 200);
    assert!(world.opens(&token).await);
    assert_eq!(world.get(&token, "/v1/oauth/token/challenge").await.status, 404);

    // It had been made, but nobody was told.
    let (token, finishing) = almost(&world).await;
    let Purpose::Token(pending) = finishing.purpose.clone() else { panic!() };
    let (state, digest) = (&world.bench.state, token_digest(&token));
    make_token(&by_switch(state), &finishing.proven, (digest, &pending), "Books").await.unwrap();
    drop(finishing);
    assert_eq!(world.answer(&token, ANSWER).await.status, 200);
}

#[tokio::test]
async fn no_token_is_made_for_a_password_that_is_another_by_now() {
    let world = TokenWorld::new().await;
    let (token, finishing) = almost(&world).await;
    let Purpose::Token(pending) = finishing.purpose.clone() else { panic!() };
    let set = UserChanges { password_hash: Some("another".into()), ..UserChanges::default() };
    world.change("grace", set).await;
    let (state, digest) = (&world.bench.state, token_digest(&token));
    make_token(&by_switch(state), &finishing.proven, (digest, &pending), "Books")
        .await
        .unwrap_err();
    assert!(!world.opens(&token).await);
}

/// The owner turned on one-time codes while somebody else's sign-in waited: that ended with the answers
/// it had begun with. A sign-in without any second factor ended at once.
#[tokio::test]
async fn a_second_factor_counts_for_sign_ins_that_began_before_it() {
    let world = TokenWorld::new().await;
    let email = email_of("grace");
    // The password is compared while codes are set up.
    let state = &world.bench.state;
    let (seed, verified) = verifications(state, async {
        let before = state.passwords.begun();
        let mut signing_in = Box::pin(world.sign_in(&email, PASSWORD));
        while state.passwords.begun() == before {
            let mut context = Context::from_waker(Waker::noop());
            assert!(signing_in.as_mut().poll(&mut context).is_pending(), "it is not compared yet");
            tokio::task::yield_now().await;
        }
        let seed = world.give_totp("grace").await;
        assert_eq!(signing_in.await.error(), NO_GOOD);
        seed
    })
    .await;
    assert_eq!(verified, 1);

    // A question is set up, and taken away again, between the password and the last answer.
    for is_set in [true, false] {
        let token = world.sign_in(&email, PASSWORD).await.token();
        if is_set {
            world.give_question("grace").await;
        } else {
            let security_question = Some(None);
            world.change("grace", UserChanges { security_question, ..Default::default() }).await;
        }
        let told = world.answer(&token, &seed.code(world.now())).await;
        assert_eq!(told.error(), (401, "invalid_token"), "{is_set}");
        assert!(!world.opens(&token).await);
    }

    // Codes of another generator are asked for, after the last answer.
    let (token, finishing) = almost_with(&world, &seed.code(world.now())).await;
    let Purpose::Token(pending) = finishing.purpose.clone() else { panic!() };
    let other = world.give_totp("grace").await;
    let (state, digest) = (&world.bench.state, token_digest(&token));
    make_token(&by_switch(state), &finishing.proven, (digest, &pending), "Books")
        .await
        .unwrap_err();
    assert!(!world.opens(&token).await);

    // A new sign-in succeeds.
    let token = world.sign_in(&email, PASSWORD).await.token();
    assert_eq!(world.answer(&token, &other.code(world.now())).await.status, 200);
    assert!(world.opens(&token).await);
}

#[tokio::test]
async fn a_token_that_is_being_made_is_revoked_all_the_same() {
    let world = TokenWorld::new().await;
    let company = COMPANY.to_string();
    for by_company in [false, true] {
        let (token, finishing) = almost(&world).await;
        let Purpose::Token(pending) = finishing.purpose.clone() else { panic!() };
        let named = if by_company { ("company_id", &company) } else { ("access_token", &token) };
        let named = [(named.0, named.1.as_str())];
        let mut revoking = Box::pin(world.post("/v1/oauth/token/revoke", &named));
        let mut context = Context::from_waker(Waker::noop());
        assert!(revoking.as_mut().poll(&mut context).is_pending(), "it waits for the token");
        let (state, digest) = (&world.bench.state, token_digest(&token));
        make_token(&by_switch(state), &finishing.proven, (digest, &pending), "Books")
            .await
            .unwrap();
        state.second_factors.finish(finishing);
        assert_eq!(revoking.await.status, 200);
        assert!(!world.opens(&token).await, "{by_company}");
    }
}

#[tokio::test]
async fn who_knows_the_password_cannot_keep_the_owner_out() {
    let world = TokenWorld::new().await;
    world.give_question("grace").await;
    let thief = world.sign_in(&email_of("grace"), PASSWORD).await.token();
    let owner = world.sign_in(&email_of("grace"), PASSWORD).await.token();
    let guesses = async {
        let mut told = Vec::new();
        for _ in 0..2 {
            let guess = || world.answer(&thief, "Tom");
            let (a, b, c, d, e) = tokio::join!(guess(), guess(), guess(), guess(), guess());
            told.extend([a, b, c, d, e].map(|told| told.status));
        }
        told
    };
    let (told, answered) = tokio::join!(guesses, world.answer(&owner, ANSWER));
    assert_eq!(answered.status, 200, "{answered:?}");
    let known = [403, 401, 429];
    assert!(told.iter().all(|status| known.contains(status)), "{told:?}");
    assert!(told.contains(&429), "one conversation has no more than its line");
}
