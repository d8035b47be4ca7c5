//! The way in: accepted and refused sign-ins, the page after them, and the facts that trying does not reveal.

use std::net::Ipv4Addr;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use axum::http::HeaderMap;
use cardswitch_edge::client_address::ClientAddress;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::access_token::AccessScope;
use cardswitch_engine::directory::app::{AppCommand, NewApp};
use cardswitch_engine::directory::member::{MemberChanges, MemberCommand};
use cardswitch_engine::directory::user::{
    ProvenPassword, SecurityQuestion, UserChanges, UserCommand,
};
use cardswitch_engine::domain::audit::{Actor, AuditEvent};
use cardswitch_engine::domain::ids::{AppId, CompanyId, MemberId};
use cardswitch_engine::store::query::{AuditFilter, Page as ListPage};
use cardswitch_identity::auth::passwords::hash;
use cardswitch_identity::auth::throttle::Source;
use cardswitch_site::session::begin_session;
use uuid::Uuid;

use super::site_world::{
    EMAIL, NEW_PASSWORD, OTHER_EMAIL, OTHER_USER, PASSWORD, SESSION_COOKIE, USER, ask_for_link,
    bench, letter, letters, pass, sign_in,
};
use super::visitor_tests::{Page, Visitor};
use crate::bench::{Bench, COMPANY};
use crate::test_world::{by_switch, new_member, verifications};

#[tokio::test]
async fn who_signs_in_gets_a_key_that_nobody_knew_before() {
    let bench = bench().await;
    let mut visitor = Visitor::new(&bench);
    let planted = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    visitor.cookies.insert(SESSION_COOKIE.into(), planted.into());
    let fields = [("email", EMAIL), ("password", PASSWORD)];
    visitor.fill("/login", &fields).await.expect(303);
    let first = visitor.session().unwrap().to_owned();
    assert!(first != planted && first.len() == 64);

    let mut attacker = Visitor::new(&bench);
    attacker.cookies.insert(SESSION_COOKIE.into(), planted.into());
    assert_eq!(attacker.get("/account").await.expect(303).location(), "/login?next=%2Faccount");

    // Signing in again, in the same browser, ends what was before. The form is one of a session now.
    visitor.get("/account").await.expect(200);
    visitor.post("/login", &fields).await.expect(303);
    let second = visitor.session().unwrap().to_owned();
    assert_ne!(first, second);
    attacker.cookies.insert(SESSION_COOKIE.into(), first);
    attacker.get("/account").await.expect(303);
    visitor.get("/account").await.expect(200);
}

#[tokio::test]
async fn only_open_sessions_open_pages() {
    let bench = bench().await;
    let mut visitor = sign_in(&bench, EMAIL).await;
    let mut replay = visitor.copy();
    let left = visitor.post("/logout", &[]).await.expect(303);
    assert_eq!(left.location(), "/login");
    assert_eq!(visitor.session(), None);
    assert!(visitor.get("/login").await.body.contains("Signed out."));
    assert!(!visitor.get("/login").await.body.contains("Signed out."), "said once");
    replay.get("/account").await.expect(303);
    let events = events_of_company(&bench);
    let ended = events.iter().find(|event| event.action == "session.ended").unwrap();
    assert!(matches!(ended.actor, Actor::User { id, .. } if id == USER), "{ended:?}");

    let mut late = sign_in(&bench, EMAIL).await;
    pass(&bench, cardswitch_site::session::SESSION_S - 1);
    late.get("/account").await.expect(200);
    pass(&bench, 1);
    late.get("/account").await.expect(303);
    // A link to set a password is no session, whatever name it goes by.
    let link = ask_for_link(&bench).await;
    let key = link.rsplit('/').next().unwrap();
    late.cookies.insert(SESSION_COOKIE.into(), key.into());
    late.get("/account").await.expect(303);
}

#[tokio::test]
async fn nobody_is_signed_in_by_a_form_from_elsewhere() {
    let bench = bench().await;
    let credentials = format!("email={EMAIL}&password={}", PASSWORD.replace(' ', "+"));
    let mut victim = Visitor::new(&bench);
    let mut attacker = Visitor::new(&bench);
    let csrf = attacker.get("/login").await.csrf().unwrap();
    let body = format!("csrf={csrf}&{credentials}");
    victim.post_with("/login", &[], &body).await.expect(403);
    victim.get("/login").await;
    victim.post_with("/login", &[], &body).await.expect(403);
    assert_eq!(victim.session(), None);
    attacker.post_with("/login", &[], &body).await.expect(303);
}

#[tokio::test]
async fn after_sign_in_nobody_is_sent_elsewhere() {
    let bench = bench().await;
    let rows = [
        ("/account/password?a=b", "/account/password?a=b"),
        ("//evil.example", "/overview"),
        ("/\\evil.example", "/overview"),
        ("https://evil.example/", "/overview"),
        ("https:evil.example", "/overview"),
        ("/.//evil.example", "/overview"),
        ("/\t/evil.example", "/overview"),
        ("javascript:alert(1)", "/overview"),
        ("/x\r\nset-cookie: a=b", "/overview"),
    ];
    for (next, expected) in rows {
        let mut visitor = Visitor::new(&bench);
        let encoded: String = url::form_urlencoded::byte_serialize(next.as_bytes()).collect();
        let page = visitor.get(&format!("/login?next={encoded}")).await.expect(200);
        assert_eq!(page.field("next").unwrap_or("/overview".into()), expected, "{next:?}");
        let fields = [("email", EMAIL), ("password", PASSWORD), ("next", next)];
        let page = visitor.post("/login", &fields).await.expect(303);
        assert_eq!(page.location(), expected, "{next:?}");
        // A visitor who is signed in goes on at once, under the same rule.
        let page = visitor.get(&format!("/login?next={encoded}")).await.expect(303);
        assert_eq!(page.location(), expected, "{next:?}");
    }
    // A visitor who comes to a page before sign-in is brought back to it.
    let page = Visitor::new(&bench).get("/account/totp?a=b").await.expect(303);
    assert_eq!(page.location(), "/login?next=%2Faccount%2Ftotp%3Fa%3Db");
}

#[tokio::test]
async fn apps_that_wait_for_a_sign_in_are_gone_on_to_from_a_page() {
    let bench = bench().await;
    let next = "/v1/oauth/authorize?client_id=1&state=\"><script>";
    let fields = [("email", EMAIL), ("password", PASSWORD), ("next", next)];
    let mut visitor = Visitor::new(&bench);
    let page = visitor.fill("/login", &fields).await.expect(200);
    let target = "/v1/oauth/authorize?client_id=1&#38;state=%22%3E%3Cscript%3E";
    assert!(page.body.contains(&format!("content=\"0; url={target}\"")), "{}", page.body);
    assert!(visitor.session().is_some());
}

/// A page without the parts that differ at each request.
fn stripped(page: &Page, email: &str) -> String {
    page.body.replace(&page.csrf().unwrap_or_default(), "").replace(email, "")
}

#[tokio::test]
async fn whether_somebody_has_an_address_cannot_be_told_by_the_answers() {
    let bench = bench().await;
    let mut answers = Vec::new();
    for email in [EMAIL, "nobody@example.com", "no address", ""] {
        let mut visitor = Visitor::new(&bench);
        let fields = [("email", email), ("password", "wrong wrong wrong")];
        let page = visitor.fill("/login", &fields).await.expect(401);
        assert!(page.body.contains("Incorrect email or password"));
        assert_eq!(visitor.session(), None);
        let sent = visitor.fill("/password/forgot", &[("email", email)]).await.expect(200);
        let headers: Vec<_> = page.headers.keys().chain(sent.headers.keys()).cloned().collect();
        let pages = (stripped(&page, email).replace(" autofocus", ""), stripped(&sent, email));
        answers.push((pages, headers));
    }
    answers.dedup_by(|one, other| one.0.1 == other.0.1 && one.1 == other.1);
    assert_eq!(answers.len(), 1, "the answers differ: {answers:?}");
    letter(&bench, 0).await;
    assert_eq!(letters(&bench).len(), 1);
    assert!(letters(&bench)[0].contains(&format!("To: {EMAIL}")));
}

/// A visitor's tries at other accounts stood in the audit log of the visitor's own company, so that its
/// administrators learned who has an account.
#[tokio::test]
async fn a_try_at_another_account_is_no_act_of_the_visitors_company() {
    let bench = bench().await;
    let mut visitor = sign_in(&bench, EMAIL).await;
    let known = letters(&bench).len();
    visitor.fill("/password/forgot", &[("email", OTHER_EMAIL)]).await.expect(200);
    assert!(letter(&bench, known).await.contains(&format!("To: {OTHER_EMAIL}")));
    let links = events_of_company(&bench).into_iter().filter(|event| event.action.contains("link"));
    assert_eq!(links.count(), 0);
}

fn events_of_company(bench: &Bench) -> Vec<AuditEvent> {
    let events = bench.state.switch.read_at_once(|snapshot| {
        let company = snapshot.company_by_id(CompanyId(COMPANY))?.unwrap();
        snapshot.audit_events(Some(company.slot), &AuditFilter::default(), &ListPage::first(100))
    });
    events.unwrap().rows
}

/// A member of the company with this address.
async fn add_member(bench: &Bench, email: &str) -> MemberId {
    let id = MemberId(Uuid::now_v7());
    let new = new_member(id, CompanyId(COMPANY), email);
    by_switch(&bench.state)
        .carry_out(AdminCommand::Member(MemberCommand::Create(new)))
        .await
        .unwrap();
    id
}

async fn deactivate(bench: &Bench, member: MemberId) {
    let changes = MemberChanges { is_active: Some(false), ..MemberChanges::default() };
    let command = AdminCommand::Member(MemberCommand::Update(CompanyId(COMPANY), member, changes));
    by_switch(&bench.state).carry_out(command).await.unwrap();
}

#[tokio::test]
async fn inactive_members_cannot_sign_in_and_nobody_learns_who_they_are() {
    let bench = bench().await;
    sign_in(&bench, OTHER_EMAIL).await;
    let member = add_member(&bench, OTHER_EMAIL).await;
    sign_in(&bench, OTHER_EMAIL).await;
    deactivate(&bench, member).await;
    // The page repeats only the address of the form.
    let mut told = Vec::new();
    for (email, password) in [
        (OTHER_EMAIL, PASSWORD),
        (OTHER_EMAIL, "difference engine no. 3"),
        (EMAIL, "difference engine no. 3"),
        ("nobody@example.com", PASSWORD),
        ("", PASSWORD),
    ] {
        let mut visitor = Visitor::new(&bench);
        visitor.get("/login").await;
        let csrf = visitor.get("/login").await.csrf().unwrap();
        let fields = [("email", email), ("password", password)];
        let (page, verified) = verifications(&bench.state, visitor.post("/login", &fields)).await;
        let page = page.expect(401);
        assert_eq!((verified, visitor.session()), (1, None), "{email}");
        // The place of the caret follows from whether an address was typed, which its typist knows.
        let shown = page.body.replace(&csrf, "").replace(" autofocus", "");
        told.push(if email.is_empty() { shown } else { shown.replace(email, "") });
    }
    told.dedup();
    assert_eq!(told.len(), 1, "{told:?}");

    let develops = Some((CompanyId(COMPANY), true));
    let changes = UserChanges { develops, ..UserChanges::default() };
    by_switch(&bench.state)
        .carry_out(AdminCommand::User(UserCommand::Update(OTHER_USER, changes)))
        .await
        .unwrap();
    sign_in(&bench, OTHER_EMAIL).await;
}

#[tokio::test]
async fn who_leaves_between_the_steps_does_not_get_in() {
    let bench = bench().await;
    let member = add_member(&bench, OTHER_EMAIL).await;
    let answer_hash = hash("difference").await.unwrap();
    let asked = SecurityQuestion { question: "First engine?".parse().unwrap(), answer_hash };
    let changes = UserChanges { security_question: Some(Some(asked)), ..UserChanges::default() };
    by_switch(&bench.state)
        .carry_out(AdminCommand::User(UserCommand::Update(OTHER_USER, changes)))
        .await
        .unwrap();
    let mut visitor = Visitor::new(&bench);
    let fields = [("email", OTHER_EMAIL), ("password", PASSWORD)];
    visitor.fill("/login", &fields).await.expect(303);
    visitor.get("/login/second-factor").await.expect(200);
    deactivate(&bench, member).await;
    visitor.post("/login/second-factor", &[("answer", "difference")]).await.expect(401);
    assert_eq!(visitor.session(), None);
}

/// The password was being compared while its user was deactivated.
#[tokio::test]
async fn who_leaves_while_the_password_is_compared_does_not_get_in() {
    let bench = bench().await;
    let member = add_member(&bench, OTHER_EMAIL).await;
    let user = bench.state.switch.read_at_once(|snapshot| snapshot.user_by_email(OTHER_EMAIL));
    let proven = ProvenPassword::of(&user.unwrap().unwrap());
    let (headers, address) = (HeaderMap::new(), ClientAddress(Ipv4Addr::LOCALHOST.into()));
    deactivate(&bench, member).await;
    let begun = begin_session(&by_switch(&bench.state), &proven, &headers, address).await;
    assert_eq!(begun.unwrap(), None);
}

#[tokio::test]
async fn one_password_is_verified_whatever_is_asked() {
    let bench = bench().await;
    let mut visitor = sign_in(&bench, EMAIL).await;
    for (old, status) in [("wrong", 400), (PASSWORD, 303)] {
        visitor.get("/account/password").await;
        let fields = [("old", old), ("password", NEW_PASSWORD), ("repeated", NEW_PASSWORD)];
        let (page, verified) =
            verifications(&bench.state, visitor.post("/account/password", &fields)).await;
        page.expect(status);
        assert_eq!(verified, 1, "{old}");
    }
    for email in [EMAIL, "nobody@example.com"] {
        let asked = [("email", email)];
        let mut visitor = Visitor::new(&bench);
        let (page, verified) =
            verifications(&bench.state, visitor.fill("/password/forgot", &asked)).await;
        page.expect(200);
        assert_eq!(verified, 0, "{email}");
    }
}

#[tokio::test]
async fn an_app_is_told_nothing_of_people_who_have_not_signed_in() {
    let bench = bench().await;
    let app = NewApp {
        id: AppId(Uuid::from_u128(101)),
        company: CompanyId(COMPANY),
        name: "Books".parse().unwrap(),
        website: "https://books.example.com".parse().unwrap(),
        secret_digest: [1; 32],
        redirect_urls: vec!["https://books.example.com/callback".into()],
        requested: AccessScope::default(),
    };
    let id = app.id.0;
    by_switch(&bench.state).carry_out(AdminCommand::App(AppCommand::Create(app))).await.unwrap();
    for flaw in ["response_type=token", "response_type=code&scope=everything", "scope=admin"] {
        let asked = format!("/v1/oauth/authorize?client_id={id}&{flaw}");
        let mut stranger = Visitor::new(&bench);
        let page = stranger.get(&asked).await.expect(303);
        assert!(page.location().starts_with("/login?next="), "{flaw}: {}", page.location());
        let mut known = sign_in(&bench, EMAIL).await;
        let page = known.get(&asked).await.expect(303);
        let told = "https://books.example.com/callback?error=";
        assert!(page.location().starts_with(told), "{flaw}: {}", page.location());
    }
}

#[tokio::test]
async fn who_guesses_is_slowed_down() {
    let bench = bench().await;
    let address = Some(Source::Address("203.0.113.7".parse().unwrap()));
    while let Ok(attempt) = bench.state.throttle.admit(None, address).await {
        attempt.failed();
    }
    let asked = Instant::now();
    sign_in(&bench, EMAIL).await;
    assert!(asked.elapsed() >= Duration::from_secs(5), "people wait");
}

#[tokio::test]
async fn where_too_many_wait_the_next_is_refused() {
    let bench = bench().await;
    let address = Some(Source::Address("203.0.113.7".parse().unwrap()));
    let mut under_way = Vec::new();
    for _ in 0..100 {
        let mut admitted = Box::pin(bench.state.throttle.admit(None, address));
        // Begun is what counts.
        let begun = admitted.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        under_way.push((admitted, begun));
    }
    for (path, fields) in [
        ("/login", &[("email", EMAIL), ("password", PASSWORD)][..]),
        ("/password/forgot", &[("email", EMAIL)][..]),
    ] {
        let page = Visitor::new(&bench).fill(path, fields).await.expect(429);
        assert!(page.body.contains("Too many tries") && !page.header("retry-after").is_empty());
    }
    drop(under_way);
    sign_in(&bench, EMAIL).await;
}

/// A form that was sent after its session had ended was lost, and no page said so.
#[tokio::test]
async fn a_form_of_an_ended_session_is_said_to_be_lost() {
    let bench = bench().await;
    let rows = [
        (
            "https://cards.example.com/cards/7?from=list#top",
            "/login?next=%2Fcards%2F7%3Ffrom%3Dlist",
        ),
        ("https://evil.example/cards/7", "/login"),
        ("", "/login"),
    ];
    for (before, expected) in rows {
        let mut visitor = Visitor::new(&bench);
        let page = visitor.post_with("/account", &[("referer", before)], "").await.expect(303);
        assert_eq!(page.location(), expected, "{before}");
        let page = visitor.get(expected).await.expect(200);
        assert!(
            page.body.contains("You were signed out. Your changes were not saved."),
            "{before}"
        );
    }
    let page = Visitor::new(&bench).get("/account").await.expect(303);
    assert_eq!((page.location(), page.header("set-cookie")), ("/login?next=%2Faccount", ""));
}
