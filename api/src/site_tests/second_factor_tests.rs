//! Codes and questions: set up, asked at sign-in, used once, turned off.

use std::net::Ipv4Addr;
use std::time::Duration;

use axum::http::HeaderMap;
use cardswitch_edge::client_address::ClientAddress;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::user::{
    ProvenPassword, SecurityQuestion, UserChanges, UserCommand,
};
use cardswitch_engine::domain::ids::{AppId, CompanyId, MemberId};
use cardswitch_engine::store::query::{AuditFilter, Page};
use cardswitch_identity::auth::passwords::hash;
use cardswitch_identity::auth::second_factor::{PendingToken, Purpose};
use cardswitch_identity::auth::throttle::Source;
use cardswitch_identity::auth::totp::Seed;
use cardswitch_secrets::token_digest;
use cardswitch_site::session::begin_session;
use uuid::Uuid;

use super::site_world::{EMAIL, PASSWORD, USER, bench, letter, letters, pass, sign_in};
use super::visitor_tests::Visitor;
use crate::bench::{Bench, COMPANY};
use crate::test_world::by_switch;

/// Sets up an authenticator app and gives its seed.
async fn set_up_totp(bench: &Bench, visitor: &mut Visitor<'_>) -> Seed {
    let page = visitor.get("/account/totp").await.expect(200);
    assert!(page.body.contains("<svg") && page.body.contains("autocomplete=\"one-time-code\""));
    let sealed = page.field("seed").unwrap();
    let bytes: Vec<u8> = (0..sealed.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&sealed[at..at + 2], 16).unwrap())
        .collect();
    let seed = Seed::open(&bench.state.secrets, USER, &bytes).unwrap();
    let typed = page.body.replace(' ', "");
    assert!(typed.contains(&seed.base32()), "the key to type is the picture's");
    let code = seed.code(bench.state.now());
    let sent = |password, code, seed| {
        [("action", "on"), ("password", password), ("code", code), ("seed", seed)]
    };
    visitor.post("/account/totp", &sent("wrong", &code, &sealed)).await.expect(400);
    visitor.post("/account/totp", &sent(PASSWORD, "000000", &sealed)).await.expect(400);
    let page = visitor.post("/account/totp", &sent(PASSWORD, &code, "00ff")).await.expect(303);
    assert_eq!(page.location(), "/account/totp");
    assert!(visitor.get("/account").await.body.contains("Set up"));
    visitor.post("/account/totp", &sent(PASSWORD, &code, &sealed)).await.expect(303);
    assert!(visitor.get("/account").await.body.contains("Authenticator app set up."));
    seed
}

#[tokio::test]
async fn a_code_is_asked_at_sign_in_and_works_once() {
    let bench = bench().await;
    let mut visitor = sign_in(&bench, EMAIL).await;
    let seed = set_up_totp(&bench, &mut visitor).await;
    let fields = [("email", EMAIL), ("password", PASSWORD), ("next", "/account/password")];

    let mut again = Visitor::new(&bench);
    let page = again.fill("/login", &fields).await.expect(303);
    assert_eq!((page.location(), again.session()), ("/login/second-factor", None));
    again.get("/account").await.expect(303);
    // The code that set it up was used, and so is each that lets somebody in.
    let used = seed.code(bench.state.now());
    let path = "/login/second-factor";
    again.fill(path, &[("answer", &used)]).await.expect(401);
    pass(&bench, 30);
    let code = seed.code(bench.state.now());
    let page = again.fill(path, &[("answer", &code)]).await.expect(303);
    assert_eq!(page.location(), "/account/password");
    again.get("/account").await.expect(200);

    let mut replay = Visitor::new(&bench);
    replay.fill("/login", &fields).await.expect(303);
    replay.fill(path, &[("answer", &code)]).await.expect(401);
    assert_eq!(replay.session(), None);
    // Turning it off asks for the password.
    again.fill("/account/totp", &[("action", "off"), ("password", "wrong")]).await.expect(400);
    again.fill("/account/totp", &[("action", "off"), ("password", PASSWORD)]).await.expect(303);
    sign_in(&bench, EMAIL).await;
}

/// Asks for the first engine at each sign-in from now on.
async fn set_question(visitor: &mut Visitor<'_>, answer: &str) {
    let fields = [
        ("action", "set"),
        ("question", "First engine?"),
        ("answer", answer),
        ("password", PASSWORD),
    ];
    visitor.fill("/account/question", &fields).await.expect(303);
}

#[tokio::test]
async fn the_fifth_wrong_answer_and_five_minutes_end_a_sign_in() {
    let bench = bench().await;
    let mut visitor = sign_in(&bench, EMAIL).await;
    set_question(&mut visitor, " Difference ").await;
    let (path, fields) = ("/login/second-factor", [("email", EMAIL), ("password", PASSWORD)]);
    let mut guesser = Visitor::new(&bench);
    guesser.fill("/login", &fields).await.expect(303);
    for _ in 0..4 {
        let page = guesser.fill(path, &[("answer", "wrong")]).await.expect(401);
        assert!(page.body.contains("First engine?"));
    }
    let page = guesser.fill(path, &[("answer", "wrong")]).await.expect(401);
    assert!(page.body.contains("This sign-in is over"));
    guesser.get("/login").await;
    guesser.post(path, &[("answer", "difference")]).await.expect(401);
    assert_eq!(guesser.session(), None);

    let mut late = Visitor::new(&bench);
    late.fill("/login", &fields).await.expect(303);
    late.get(path).await.expect(200);
    pass(&bench, 300);
    late.post(path, &[("answer", "difference")]).await.expect(401);
    assert_eq!(late.get(path).await.expect(303).location(), "/login");

    let mut right = Visitor::new(&bench);
    right.fill("/login", &fields).await.expect(303);
    right.fill(path, &[("answer", "DIFFERENCE")]).await.expect(303);
    right.get("/account").await.expect(200);
}

#[tokio::test]
async fn what_an_app_waits_for_never_becomes_a_session() {
    let bench = bench().await;
    let mut visitor = sign_in(&bench, EMAIL).await;
    set_question(&mut visitor, "difference").await;
    let user = bench.state.switch.read_at_once(|snapshot| snapshot.user_by_id(USER));
    let user = user.unwrap().unwrap();
    let token = "0123456789abcdef";
    let pending = PendingToken {
        app: AppId(Uuid::from_u128(1)),
        company: CompanyId(COMPANY),
        member: MemberId(Uuid::from_u128(3)),
    };
    let (factors, now) = (&bench.state.second_factors, bench.state.now());
    let (purpose, source) = (Purpose::Token(pending.clone()), Source::App(pending.app));
    factors.begin(token_digest(token), &user, (purpose, source), now).unwrap().unwrap();
    let mut thief = Visitor::new(&bench);
    thief.cookies.insert("__Host-second-factor".into(), token.into());
    thief.get("/login").await;
    assert_eq!(thief.get("/login/second-factor").await.expect(303).location(), "/login");
    thief.cookies.insert("__Host-second-factor".into(), token.into());
    thief.post("/login/second-factor", &[("answer", "difference")]).await.expect(401);
    assert_eq!(thief.session(), None);
    assert!(factors.question(&token_digest(token), now).is_some(), "the app's try is its own");
}

#[tokio::test]
async fn setting_a_second_factor_ends_all_other_sessions() {
    let bench = bench().await;
    let mut visitor = sign_in(&bench, EMAIL).await;
    let question = [
        ("action", "set"),
        ("question", "First pet?"),
        ("answer", "Rex the dog"),
        ("password", PASSWORD),
    ];
    let mut elsewhere = sign_in(&bench, EMAIL).await;
    assert!(visitor.get("/account/question").await.body.contains("signs you out everywhere else"));
    visitor.post("/account/question", &question).await.expect(303);
    elsewhere.get("/account").await.expect(303);
    assert!(visitor.get("/account").await.body.contains("You are signed out everywhere else."));

    let removed = [("action", "remove"), ("password", PASSWORD)];
    visitor.fill("/account/question", &removed).await.expect(303);
    let mut elsewhere = sign_in(&bench, EMAIL).await;
    assert!(visitor.get("/account/totp").await.body.contains("signs you out everywhere else"));
    set_up_totp(&bench, &mut visitor).await;
    elsewhere.get("/account").await.expect(303);
    visitor.get("/account").await.expect(200);
}

/// A thief with password and authenticator app guessed the answer: each right code took the wrong
/// answers before it back, so its owner never learned of them.
#[tokio::test]
async fn a_right_code_takes_no_wrong_answer_back() {
    let bench = bench().await;
    let mut visitor = sign_in(&bench, EMAIL).await;
    set_question(&mut visitor, "difference").await;
    let seed = set_up_totp(&bench, &mut visitor).await;
    let known = letters(&bench).len();
    let path = "/login/second-factor";
    for _ in 0..5 {
        pass(&bench, 30);
        let mut thief = Visitor::new(&bench);
        thief.fill("/login", &[("email", EMAIL), ("password", PASSWORD)]).await.expect(303);
        thief.fill(path, &[("answer", &seed.code(bench.state.now()))]).await.expect(303);
        thief.fill(path, &[("answer", "analytical")]).await.expect(401);
    }
    let told = letter(&bench, known).await;
    assert!(told.contains("Someone knows your password"), "{told}");
}

/// A thief of the password guessed second factors, and its owner learned nothing of it.
#[tokio::test]
async fn five_wrong_factors_after_a_right_password_are_a_letter_and_stand_in_the_audit_log() {
    let bench = bench().await;
    let answer_hash = hash("difference").await.unwrap();
    let asked = SecurityQuestion { question: "First engine?".parse().unwrap(), answer_hash };
    let changes = UserChanges { security_question: Some(Some(asked)), ..UserChanges::default() };
    by_switch(&bench.state)
        .carry_out(AdminCommand::User(UserCommand::Update(USER, changes)))
        .await
        .unwrap();
    let mut visitor = Visitor::new(&bench);
    let fields = [("email", EMAIL), ("password", PASSWORD)];
    visitor.fill("/login", &fields).await.expect(303);
    visitor.get("/login/second-factor").await.expect(200);
    for _ in 0..5 {
        visitor.post("/login/second-factor", &[("answer", "analytical")]).await.expect(401);
    }
    let told = letter(&bench, 0).await;
    assert!(told.contains("Someone knows your password") && told.contains(EMAIL), "{told}");
    // The first, second and fourth: they are written after the answers.
    loop {
        let events = bench.state.switch.read_at_once(|snapshot| {
            let company = snapshot.company_by_id(CompanyId(COMPANY))?.unwrap();
            snapshot.audit_events(Some(company.slot), &AuditFilter::default(), &Page::first(100))
        });
        let rows = events.unwrap().rows;
        let failed: Vec<_> =
            rows.iter().filter(|event| event.action == "user.sign_in_failed").collect();
        assert!(failed.len() <= 3, "{failed:?}");
        if failed.len() == 3 {
            assert!(failed.iter().all(|event| event.fields == ["security_question"]));
            assert!(failed.iter().all(|event| event.address.as_deref() == Some("203.0.113.7")));
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A thief who knew the password had begun to sign in when the owner set up codes, or another answer:
/// that sign-in ended as it had begun.
#[tokio::test]
async fn a_sign_in_that_began_before_a_second_factor_was_set_up_is_over() {
    let bench = bench().await;
    let mut owner = sign_in(&bench, EMAIL).await;
    let fields = [("email", EMAIL), ("password", PASSWORD)];
    // The password was compared before, and the session is begun after.
    let user = bench.state.switch.read_at_once(|snapshot| snapshot.user_by_id(USER));
    let proven = ProvenPassword::of(&user.unwrap().unwrap());
    set_question(&mut owner, "difference").await;
    let (headers, address) = (HeaderMap::new(), ClientAddress(Ipv4Addr::LOCALHOST.into()));
    let begun = begin_session(&by_switch(&bench.state), &proven, &headers, address).await;
    assert_eq!(begun.unwrap(), None);

    let path = "/login/second-factor";
    let mut thief = Visitor::new(&bench);
    thief.fill("/login", &fields).await.expect(303);
    thief.get(path).await.expect(200);
    set_up_totp(&bench, &mut owner).await;
    let page = thief.post(path, &[("answer", "difference")]).await.expect(401);
    assert!(page.body.contains("This sign-in is over"));
    assert_eq!(thief.session(), None);
    assert_eq!(thief.fill("/login", &fields).await.expect(303).location(), path);
    assert!(thief.get(path).await.body.contains("authenticator"), "a code is asked for");
}
