//! The site as browsers and attackers meet it, against a real engine on a manual clock: the way in,
//! what users decide for themselves, and everything that must not work.

use std::fs;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use cardswitch_engine::command::admin::{AdminCommand, CompanyChanges, MemberChanges, NewMember};
use cardswitch_engine::command::identity::{
    AppChanges, NewApp, NewUser, PasswordLinkUse, UserChanges,
};
use cardswitch_engine::domain::audit::{Actor, AuditEvent};
use cardswitch_engine::domain::company::{Company, CompanyState};
use cardswitch_engine::domain::ids::{AppId, CompanyId, MemberId, Timestamp, UserId};
use cardswitch_engine::domain::member::{AccessScope, Member, MemberRole};
use cardswitch_engine::domain::user::SecurityQuestion;
use cardswitch_engine::store::query::{AuditFilter, Page as Rows};
use uuid::Uuid;

use super::password::change_user;
use super::session::Session;
use super::visitor_tests::{ORIGIN, Page, Visitor};
use crate::auth::passwords::counted::verifications;
use crate::auth::passwords::hash;
use crate::auth::second_factor::{PendingToken, Purpose};
use crate::auth::throttle::Source;
use crate::auth::totp::Seed;
use crate::invitation::Invitation;
use crate::routes::routes_tests::{Bench, COMPANY, OTHER_COMPANY};
use crate::secrets::token_digest;

const EMAIL: &str = "ada@example.com";
const PASSWORD: &str = "difference engine no. 2";
const NEW_PASSWORD: &str = "analytical engine no. 1";
const OTHER_EMAIL: &str = "mallory@example.net";
const USER: UserId = UserId(Uuid::from_u128(0xada));
const OTHER_USER: UserId = UserId(Uuid::from_u128(0xbad));
const SESSION_COOKIE: &str = "__Host-session";

/// A switch with two users: Ada, who is a member of both companies, and Mallory, who is of none.
async fn bench() -> Bench {
    let bench = Bench::new().await;
    for (id, email) in [(USER, EMAIL), (OTHER_USER, OTHER_EMAIL)] {
        let user = NewUser {
            id,
            email: email.into(),
            first_name: "Ada".into(),
            last_name: "Byron".into(),
            password_hash: Some(hash(PASSWORD).await.unwrap()),
            developer_of: Vec::new(),
        };
        bench.state.carry_out(AdminCommand::CreateUser(user)).await.unwrap();
    }
    bench
}

async fn sign_in<'a>(bench: &'a Bench, email: &str) -> Visitor<'a> {
    let mut visitor = Visitor::new(bench);
    let fields = [("email", email), ("password", PASSWORD)];
    let page = visitor.fill("/login", &fields).await.expect(303);
    assert_eq!(page.location(), "/account");
    visitor.get("/account").await.expect(200);
    visitor
}

fn pass(bench: &Bench, seconds: i64) {
    let clock = bench.state.switch.engine().clock();
    clock.advance_to(clock.now().plus(seconds * Timestamp::SECOND));
}

/// The newest letter in the outbox after the first `known`.
async fn letter(bench: &Bench, known: usize) -> String {
    // Letters are written after the answer; the outbox is all there is to wait for.
    loop {
        let letters = letters(bench);
        if letters.len() > known {
            return letters[known].clone();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// All letters, the oldest first.
fn letters(bench: &Bench) -> Vec<String> {
    let mut paths: Vec<_> = fs::read_dir(bench.state.outbox.directory())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "eml"))
        .collect();
    paths.sort();
    paths.iter().map(|path| fs::read_to_string(path).unwrap()).collect()
}

/// The path of the link in a letter.
fn link_in(letter: &str) -> String {
    let (_, rest) = letter.split_once(ORIGIN).unwrap();
    rest.split_whitespace().next().unwrap().to_owned()
}

/// Asks for a link to set a password and takes it out of the mail.
async fn ask_for_link(bench: &Bench) -> String {
    let known = letters(bench).len();
    Visitor::new(bench).fill("/password/forgot", &[("email", EMAIL)]).await.expect(200);
    link_in(&letter(bench, known).await)
}

#[tokio::test]
async fn every_page_says_what_browsers_may_not_do_with_it() {
    let bench = bench().await;
    let mut signed_in = sign_in(&bench, EMAIL).await;
    let link = ask_for_link(&bench).await;
    let mut pages = Vec::new();
    for path in ["/", "/login", "/password/forgot", "/nothing", "/logout", "/login/second-factor"] {
        pages.push((path, Visitor::new(&bench).get(path).await));
    }
    for path in [&link, "/password/set/guessed", "/assets/none.css", "/docs"] {
        pages.push((path, Visitor::new(&bench).get(path).await));
    }
    for path in ["/account", "/account/password", "/account/totp", "/account/question"] {
        pages.push((path, signed_in.get(path).await));
        pages.push((path, Visitor::new(&bench).get(path).await.expect(303)));
    }
    pages.push(("a foreign form", Visitor::new(&bench).post("/login", &[]).await.expect(403)));
    pages.push(("no form", signed_in.send("POST", "/account", &[], "{}").await.expect(415)));
    for (path, page) in pages {
        let policy = page.header("content-security-policy");
        assert!(policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
        assert!(policy.starts_with("default-src 'none'; style-src 'self';"), "{path}: {policy}");
        assert!(!policy.contains("unsafe") && !policy.contains("script-src"), "{path}: {policy}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "same-origin"),
            ("cross-origin-opener-policy", "same-origin"),
        ] {
            assert_eq!(page.header(name), value, "{path}");
        }
        let is_kept = ["/docs"].contains(&path);
        assert!(is_kept || page.header("cache-control") == "no-store", "{path}");
        assert!(!page.body.contains("<script") && !page.body.contains(" style="), "{path}");
    }
    assert!(
        signed_in.get("/account").await.header("strict-transport-security").contains("max-age")
    );
}

#[tokio::test]
async fn unknown_paths_are_pages_for_browsers_and_bodies_for_programs() {
    let bench = bench().await;
    let mut visitor = Visitor::new(&bench);
    let page = visitor.get("/nothing").await.expect(404);
    assert!(page.body.contains("Nothing is here") && page.header("content-type").contains("html"));
    for (path, headers) in [("/nothing", &[][..]), ("/v1/nothing", &[("accept", "text/html")])] {
        let body = visitor.send("GET", path, headers, "").await.expect(404);
        assert!(body.header("content-type").starts_with("application/json"), "{path}");
    }
    let page = visitor.send("DELETE", "/login", &[], "").await.expect(405);
    assert!(page.body.contains("This did not work") && page.header("allow").contains("GET"));
}

#[tokio::test]
async fn style_and_mark_are_kept_for_ever_under_their_own_names() {
    let bench = bench().await;
    let mut visitor = Visitor::new(&bench);
    let page = visitor.get("/login").await;
    for (mark, kind) in
        [("<link rel=\"stylesheet\" href=\"", "text/css"), ("<img src=\"", "image/svg")]
    {
        let path = page.body.split_once(mark).unwrap().1.split_once('"').unwrap().0;
        let asset = visitor.get(path).await.expect(200);
        assert!(asset.header("content-type").starts_with(kind), "{path}");
        assert!(asset.header("cache-control").contains("immutable"), "{path}");
        assert_eq!(asset.header("x-content-type-options"), "nosniff");
    }
}

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
    assert_eq!(attacker.get("/account").await.expect(303).location(), "/login");

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
    assert!(visitor.get("/login").await.body.contains("You are signed out."));
    assert!(!visitor.get("/login").await.body.contains("You are signed out."), "said once");
    replay.get("/account").await.expect(303);

    let mut late = sign_in(&bench, EMAIL).await;
    pass(&bench, super::session::SESSION_S - 1);
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
async fn forms_from_elsewhere_change_nothing() {
    let bench = bench().await;
    let mut visitor = sign_in(&bench, EMAIL).await;
    let own = visitor.get("/account").await.csrf().unwrap();
    let mut other = sign_in(&bench, OTHER_EMAIL).await;
    let others = other.get("/account").await.csrf().unwrap();
    let mut anonymous = Visitor::new(&bench);
    let unsigned = anonymous.get("/login").await.csrf().unwrap();
    // What was bound to the visitor before sign-in counts no more after it.
    visitor.cookies.insert("__Host-form".into(), anonymous.cookies["__Host-form"].clone());
    let from_here = [("origin", ORIGIN), ("sec-fetch-site", "same-origin")];
    let foreign: [&[(&str, &str)]; 5] = [
        &[("origin", "https://evil.example")],
        &[("origin", "null")],
        &[("origin", ORIGIN), ("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "same-site")],
        &[("origin", "https://cards.example.com.evil.example")],
    ];
    let tail = "&first_name=Eve&last_name=Evil";
    let mut rows: Vec<(&[(&str, &str)], String)> = vec![
        (&from_here, format!("csrf={others}{tail}")),
        (&from_here, format!("csrf={unsigned}{tail}")),
        (&from_here, format!("csrf={tail}")),
        (&from_here, tail[1..].to_owned()),
        (&from_here, format!("csrf={}{tail}", &own[..own.len() - 1])),
        (&from_here, format!("csrf=wrong&csrf={own}{tail}")),
    ];
    rows.extend(foreign.map(|headers| (headers, format!("csrf={own}{tail}"))));
    for (headers, body) in rows {
        let page = visitor.post_with("/account", headers, &body).await.expect(403);
        assert!(page.body.contains("This form"), "{headers:?} {body}");
    }
    for path in ["/logout", "/company", "/account/password", "/account/totp", "/account/question"] {
        visitor.post_with(path, &from_here, "csrf=wrong").await.expect(403);
    }
    let page = visitor.get("/account").await.expect(200);
    assert!(page.body.contains("value=\"Byron\"") && !page.body.contains("Evil"));

    let right = format!("csrf={own}{tail}");
    visitor.post_with("/account", &[], &right).await.expect(303);
    assert!(visitor.get("/account").await.body.contains("value=\"Evil\""));
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
        ("//evil.example", "/account"),
        ("/\\evil.example", "/account"),
        ("https://evil.example/", "/account"),
        ("https:evil.example", "/account"),
        ("/.//evil.example", "/account"),
        ("/\t/evil.example", "/account"),
        ("javascript:alert(1)", "/account"),
        ("/x\r\nset-cookie: a=b", "/account"),
    ];
    for (next, expected) in rows {
        let mut visitor = Visitor::new(&bench);
        let encoded: String = url::form_urlencoded::byte_serialize(next.as_bytes()).collect();
        let page = visitor.get(&format!("/login?next={encoded}")).await.expect(200);
        assert_eq!(page.field("next").unwrap_or("/account".into()), expected, "{next:?}");
        let fields = [("email", EMAIL), ("password", PASSWORD), ("next", next)];
        let page = visitor.post("/login", &fields).await.expect(303);
        assert_eq!(page.location(), expected, "{next:?}");
        // Whoever is signed in goes on at once, under the same rule.
        let page = visitor.get(&format!("/login?next={encoded}")).await.expect(303);
        assert_eq!(page.location(), expected, "{next:?}");
    }
    // Who comes to a page first is brought back to it.
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

/// What is left of a page without what differs at each request.
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
        assert!(page.body.contains("do not belong together"));
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

/// A member of the company with this address.
async fn add_member(bench: &Bench, email: &str) -> MemberId {
    let member = NewMember {
        id: MemberId(Uuid::now_v7()),
        company: CompanyId(COMPANY),
        first_name: "Eve".into(),
        last_name: "Byron".into(),
        email: email.into(),
        role: MemberRole::Member,
        code: None,
        dimensions: Default::default(),
        external_id: None,
        is_active: true,
        invite: None,
    };
    let id = member.id;
    bench.state.carry_out(AdminCommand::CreateMember(member)).await.unwrap();
    id
}

async fn deactivate(bench: &Bench, member: MemberId) {
    let changes = MemberChanges { is_active: Some(false), ..MemberChanges::default() };
    let command = AdminCommand::UpdateMember(CompanyId(COMPANY), member, changes);
    bench.state.carry_out(command).await.unwrap();
}

#[tokio::test]
async fn inactive_members_cannot_sign_in_and_nobody_learns_who_they_are() {
    let bench = bench().await;
    sign_in(&bench, OTHER_EMAIL).await;
    let member = add_member(&bench, OTHER_EMAIL).await;
    sign_in(&bench, OTHER_EMAIL).await;
    deactivate(&bench, member).await;
    // What the page repeats of the form is the address.
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
        let (page, verified) = verifications(visitor.post("/login", &fields)).await;
        let page = page.expect(401);
        assert_eq!((verified, visitor.session()), (1, None), "{email}");
        // Where the caret stands follows from whether an address was typed, which is known to whoever typed.
        let shown = page.body.replace(&csrf, "").replace(" autofocus", "");
        told.push(if email.is_empty() { shown } else { shown.replace(email, "") });
    }
    told.dedup();
    assert_eq!(told.len(), 1, "{told:?}");

    let developer_of = Some(vec![CompanyId(COMPANY)]);
    let changes = UserChanges { developer_of, ..UserChanges::default() };
    bench.state.carry_out(AdminCommand::UpdateUser(OTHER_USER, changes)).await.unwrap();
    sign_in(&bench, OTHER_EMAIL).await;
}

#[tokio::test]
async fn who_leaves_between_the_steps_does_not_get_in() {
    let bench = bench().await;
    let member = add_member(&bench, OTHER_EMAIL).await;
    let answer_hash = hash("difference").await.unwrap();
    let asked = SecurityQuestion { question: "First engine?".into(), answer_hash };
    let changes = UserChanges { security_question: Some(Some(asked)), ..UserChanges::default() };
    bench.state.carry_out(AdminCommand::UpdateUser(OTHER_USER, changes)).await.unwrap();
    let mut visitor = Visitor::new(&bench);
    let fields = [("email", OTHER_EMAIL), ("password", PASSWORD)];
    visitor.fill("/login", &fields).await.expect(303);
    visitor.get("/login/second-factor").await.expect(200);
    deactivate(&bench, member).await;
    visitor.post("/login/second-factor", &[("answer", "difference")]).await.expect(401);
    assert_eq!(visitor.session(), None);
}

#[tokio::test]
async fn one_password_is_verified_whatever_is_asked() {
    let bench = bench().await;
    let mut visitor = sign_in(&bench, EMAIL).await;
    for (old, status) in [("wrong", 400), (PASSWORD, 303)] {
        visitor.get("/account/password").await;
        let fields = [("old", old), ("password", NEW_PASSWORD), ("repeated", NEW_PASSWORD)];
        let (page, verified) = verifications(visitor.post("/account/password", &fields)).await;
        page.expect(status);
        assert_eq!(verified, 1, "{old}");
    }
    for email in [EMAIL, "nobody@example.com"] {
        let asked = [("email", email)];
        let mut visitor = Visitor::new(&bench);
        let (page, verified) = verifications(visitor.fill("/password/forgot", &asked)).await;
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
        name: "Books".into(),
        website: "https://books.example.com".into(),
        secret_digest: [1; 32],
        redirect_urls: vec!["https://books.example.com/callback".into()],
        requested: AccessScope::default(),
    };
    let id = app.id.0;
    bench.state.carry_out(AdminCommand::CreateApp(app)).await.unwrap();
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

#[tokio::test]
async fn no_text_becomes_markup_or_a_header() {
    let bench = bench().await;
    let evil = "\"><script>alert(1)</script>'&<b>";
    let harmless = |page: &Page| !page.body.contains("<script") && !page.body.contains("<b>");
    let mut visitor = Visitor::new(&bench);
    let fields = [("email", evil), ("password", evil), ("next", "/\"><script>")];
    let page = visitor.fill("/login", &fields).await.expect(401);
    assert!(harmless(&page) && page.body.contains("&#60;script&#62;alert(1)"), "{}", page.body);
    assert!(harmless(&visitor.get("/login?next=/%22%3E%3Cscript%3E").await));
    assert!(harmless(&visitor.get("/%22%3E%3Cscript%3E").await));
    assert!(harmless(&visitor.get("/password/set/%22%3E%3Cscript%3E").await));
    visitor.cookies.insert("__Host-notice".into(), "You have won".into());
    assert!(!visitor.get("/login").await.body.contains("won"));

    visitor = Visitor::new(&bench);
    visitor.user_agent = evil;
    visitor.fill("/login", &[("email", EMAIL), ("password", PASSWORD)]).await.expect(303);
    visitor.get("/account").await;
    let names = [("first_name", evil), ("last_name", evil)];
    visitor.post("/account", &names).await.expect(303);
    let page = visitor.get("/account").await;
    assert!(harmless(&page) && page.body.matches("&#60;script&#62;").count() >= 4, "{}", page.body);
    let question = [("action", "set"), ("question", evil), ("answer", "rexes")];
    let question = [&question[..], &[("password", PASSWORD)]].concat();
    visitor.fill("/account/question", &question).await.expect(303);
    assert!(harmless(&visitor.get("/account/question").await));
    let mut asked = Visitor::new(&bench);
    asked.fill("/login", &[("email", EMAIL), ("password", PASSWORD)]).await.expect(303);
    assert!(harmless(&asked.get("/login/second-factor").await.expect(200)));

    // Names are one line of bounded length.
    for name in ["a\r\nset-cookie: a=b", "a\u{0}", "a\u{7f}", &"a".repeat(101)] {
        let names = [("first_name", name), ("last_name", "")];
        let page = visitor.fill("/account", &names).await.expect(400);
        assert!(page.body.contains("id=\"first_name-error\""), "{}", page.body);
    }
}

#[tokio::test]
async fn a_new_password_asks_for_the_old_one_and_ends_everything_else() {
    let bench = bench().await;
    let mut visitor = sign_in(&bench, EMAIL).await;
    let mut elsewhere = sign_in(&bench, EMAIL).await;
    let link = ask_for_link(&bench).await;
    let path = "/account/password";
    let rows = [
        ("wrong wrong wrong", NEW_PASSWORD, NEW_PASSWORD, "old-error"),
        (PASSWORD, NEW_PASSWORD, PASSWORD, "repeated-error"),
        (PASSWORD, "short", "short", "password-error"),
        (PASSWORD, EMAIL, EMAIL, "password-error"),
        (PASSWORD, "password1234", "password1234", "password-error"),
    ];
    for (old, password, repeated, fault) in rows {
        let fields = [("old", old), ("password", password), ("repeated", repeated)];
        let page = visitor.fill(path, &fields).await.expect(400);
        assert!(page.body.contains(&format!("id=\"{fault}\"")), "{fault}: {}", page.body);
        assert!(page.body.contains(&format!("aria-describedby=\"{fault}\"")), "{fault}");
        assert!(!page.body.contains(NEW_PASSWORD), "a password is never shown");
    }
    let key = visitor.session().unwrap().to_owned();
    let fields = [("old", PASSWORD), ("password", NEW_PASSWORD), ("repeated", NEW_PASSWORD)];
    visitor.fill(path, &fields).await.expect(303);
    assert!(visitor.get("/account").await.body.contains("Your password is changed."));
    assert_eq!(visitor.session(), Some(key.as_str()));
    elsewhere.get("/account").await.expect(303);
    Visitor::new(&bench).get(&link).await.expect(404);
    let old = [("email", EMAIL), ("password", PASSWORD)];
    Visitor::new(&bench).fill("/login", &old).await.expect(401);
    let new = [("email", EMAIL), ("password", NEW_PASSWORD)];
    Visitor::new(&bench).fill("/login", &new).await.expect(303);
    assert!(letters(&bench).iter().any(|letter| letter.contains("Your password was set")));
}

#[tokio::test]
async fn a_link_sets_a_password_once_within_its_hour() {
    let bench = bench().await;
    let mut elsewhere = sign_in(&bench, EMAIL).await;
    let (first, second) = (ask_for_link(&bench).await, ask_for_link(&bench).await);
    let fields = [("password", NEW_PASSWORD), ("repeated", NEW_PASSWORD)];
    let mut visitor = Visitor::new(&bench);
    let page = visitor.get(&first).await.expect(200);
    assert!(page.body.contains(EMAIL) && page.body.contains("autocomplete=\"new-password\""));
    for (password, repeated) in [("short", "short"), (NEW_PASSWORD, PASSWORD), (EMAIL, EMAIL)] {
        visitor.post(&first, &[("password", password), ("repeated", repeated)]).await.expect(400);
    }
    let page = visitor.post(&first, &fields).await.expect(303);
    assert_eq!((page.location(), visitor.session()), ("/login", None));
    elsewhere.get("/account").await.expect(303);
    for spent in [&first, &second] {
        visitor.get(spent).await.expect(404);
        visitor.get("/login").await;
        visitor.post(spent, &fields).await.expect(404);
    }
    let new = [("email", EMAIL), ("password", NEW_PASSWORD)];
    visitor.fill("/login", &new).await.expect(303);

    // An hour later, a guessed one, and the key of a session.
    let link = ask_for_link(&bench).await;
    pass(&bench, 3599);
    Visitor::new(&bench).get(&link).await.expect(200);
    pass(&bench, 1);
    let session = visitor.session().unwrap();
    for dead in [&link, &format!("{link}0"), &format!("/password/set/{session}")] {
        let mut visitor = Visitor::new(&bench);
        visitor.get("/login").await;
        visitor.get(dead).await.expect(404);
        visitor.post(dead, &fields).await.expect(404);
    }
}

#[tokio::test]
async fn of_two_who_use_a_link_at_once_one_succeeds() {
    let bench = bench().await;
    let link = ask_for_link(&bench).await;
    let (mut one, mut other) = (Visitor::new(&bench), Visitor::new(&bench));
    one.get(&link).await;
    other.get(&link).await;
    let fields = [("password", NEW_PASSWORD), ("repeated", NEW_PASSWORD)];
    let (one, other) = tokio::join!(one.post(&link, &fields), other.post(&link, &fields));
    let mut statuses = [one.status, other.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [303, 404]);
}

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
    assert!(visitor.get("/account").await.body.contains("Your authenticator app is set up."));
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

#[tokio::test]
async fn the_fifth_wrong_answer_and_five_minutes_end_a_sign_in() {
    let bench = bench().await;
    let mut visitor = sign_in(&bench, EMAIL).await;
    let question = [
        ("action", "set"),
        ("question", "First engine?"),
        ("answer", " Difference "),
        ("password", PASSWORD),
    ];
    visitor.fill("/account/question", &question).await.expect(303);
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
    let question = [
        ("action", "set"),
        ("question", "First engine?"),
        ("answer", "difference"),
        ("password", PASSWORD),
    ];
    visitor.fill("/account/question", &question).await.expect(303);
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
async fn forms_are_bounded() {
    let bench = bench().await;
    let mut visitor = Visitor::new(&bench);
    visitor.get("/login").await;
    visitor.post("/login", &[("email", &"a".repeat(70_000))]).await.expect(413);
    visitor.post("/login", &[("email", EMAIL)]).await.expect(400);
    let twice = [("email", EMAIL), ("email", OTHER_EMAIL), ("password", PASSWORD)];
    visitor.post("/login", &twice).await.expect(400);
    assert_eq!(visitor.session(), None);
}

#[tokio::test]
async fn sessions_are_listed_and_ended_one_by_one() {
    let bench = bench().await;
    let mut visitor = sign_in(&bench, EMAIL).await;
    let mut elsewhere = sign_in(&bench, EMAIL).await;
    let mut stranger = sign_in(&bench, OTHER_EMAIL).await;
    let page = visitor.get("/account").await;
    assert_eq!(page.body.matches("Firefox on Linux</strong>").count(), 2, "{}", page.body);
    assert!(page.body.contains("203.0.113.7") && page.body.contains("4 March 2026, 12:00 PST"));
    let (_, rest) = page.body.split_once("action=\"/account/sessions/").unwrap();
    let id = rest.split_once('/').unwrap().0;
    let path = format!("/account/sessions/{id}/end");
    // Another user's session does not exist for anybody else.
    stranger.fill("/account", &[]).await;
    stranger.post(&path, &[]).await.expect(404);
    elsewhere.get("/account").await.expect(200);
    visitor.post(&path, &[]).await.expect(303);
    elsewhere.get("/account").await.expect(303);
    visitor.get("/account").await.expect(200);
    visitor.post("/account/sessions/not-an-id/end", &[]).await.expect(400);

    let mut one = sign_in(&bench, EMAIL).await;
    let mut other = sign_in(&bench, EMAIL).await;
    visitor.post("/account/sessions/end-others", &[]).await.expect(303);
    one.get("/account").await.expect(303);
    other.get("/account").await.expect(303);
    visitor.get("/account").await.expect(200);
    stranger.get("/account").await.expect(200);
}

#[tokio::test]
async fn members_of_several_companies_choose_one() {
    let bench = bench().await;
    let mut visitor = sign_in(&bench, EMAIL).await;
    let (company, other) = (COMPANY.to_string(), OTHER_COMPANY.to_string());
    let current = |page: &Page| page.field("company").unwrap();
    // What can be switched to is what is not current.
    assert_eq!(current(&visitor.get("/account").await), other);
    visitor.post("/company", &[("company", &other)]).await.expect(303);
    assert_eq!(current(&visitor.get("/account").await), company);
    for unknown in [Uuid::from_u128(999).to_string(), "<b>".to_owned()] {
        visitor.post("/company", &[("company", &unknown)]).await.expect(404);
    }
    // A company of which one is no member cannot be chosen by cookie either.
    let mut stranger = sign_in(&bench, OTHER_EMAIL).await;
    stranger.cookies.insert("__Host-company".into(), company);
    assert!(stranger.get("/account").await.body.contains("No account."));
}

/// What the tables have of a visitor.
async fn session_of(bench: &Bench, visitor: &Visitor<'_>) -> Session {
    let digest = token_digest(visitor.session().unwrap());
    let found = bench.state.switch.read(move |snapshot| {
        let ticket = snapshot.ticket(&digest)?.unwrap();
        let user = snapshot.user(ticket.user)?.unwrap();
        Ok(Session { user, ticket, memberships: Vec::new(), current: None })
    });
    found.await.unwrap()
}

async fn membership(bench: &Bench, company: Uuid) -> (Company, Member) {
    let found = bench.state.switch.read(move |snapshot| {
        let company = snapshot.company_by_id(CompanyId(company))?.unwrap();
        let member = snapshot.member_by_email(company.slot, EMAIL)?.unwrap();
        Ok((company, member))
    });
    found.await.unwrap()
}

/// Somebody who got hold of a session and knows the password begins to change it; its owner resets
/// it by mail before the change is made. The change used to win.
#[tokio::test]
async fn a_change_in_flight_undoes_no_reset() {
    let bench = bench().await;
    let visitor = sign_in(&bench, EMAIL).await;
    let session = session_of(&bench, &visitor).await;
    let link = ask_for_link(&bench).await;
    let digest = token_digest(link.rsplit('/').next().unwrap());
    let reset = PasswordLinkUse { digest, password_hash: hash(NEW_PASSWORD).await.unwrap() };
    bench.state.carry_out(AdminCommand::UsePasswordLink(reset)).await.unwrap();
    let changes = [
        UserChanges { password_hash: Some("another".into()), ..UserChanges::default() },
        UserChanges { totp: Some(None), ..UserChanges::default() },
        UserChanges { security_question: Some(None), ..UserChanges::default() },
    ];
    for change in changes {
        let changed = change_user(&bench.state, &session, change).await.unwrap();
        let answer = changed.expect_err("a session that is over changes nothing");
        assert_eq!(answer.headers()["location"], "/login");
    }
    let new = [("email", EMAIL), ("password", NEW_PASSWORD)];
    Visitor::new(&bench).fill("/login", &new).await.expect(303);
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

#[tokio::test]
async fn developers_are_that_where_they_were_named_and_nowhere_else() {
    let bench = bench().await;
    let developer_of = Some(vec![CompanyId(COMPANY)]);
    let changes = UserChanges { developer_of, ..UserChanges::default() };
    bench.state.carry_out(AdminCommand::UpdateUser(USER, changes)).await.unwrap();
    let mut visitor = sign_in(&bench, EMAIL).await;
    for (company, status) in [(COMPANY, 200), (OTHER_COMPANY, 403), (COMPANY, 200)] {
        visitor.post("/company", &[("company", &company.to_string())]).await.expect(303);
        visitor.get("/apps").await.expect(status);
        visitor.get("/account").await.expect(200);
    }
}

#[tokio::test]
async fn only_an_active_company_lets_its_own_apps_in() {
    let bench = bench().await;
    let id = AppId(Uuid::from_u128(0xa99));
    let (company, member) = membership(&bench, COMPANY).await;
    let role = Some(MemberRole::Administrator);
    let app = NewApp {
        id,
        company: company.id,
        name: "Books".into(),
        website: String::new(),
        secret_digest: [7; 32],
        redirect_urls: Vec::new(),
        requested: AccessScope::default(),
    };
    for command in [
        AdminCommand::UpdateMember(
            company.id,
            member.id,
            MemberChanges { role, ..MemberChanges::default() },
        ),
        AdminCommand::CreateApp(app),
        AdminCommand::UpdateApp(
            company.id,
            id,
            AppChanges { approved: Some(AccessScope::default()), ..AppChanges::default() },
        ),
    ] {
        bench.state.carry_out(command).await.unwrap();
    }
    let mut visitor = sign_in(&bench, EMAIL).await;
    visitor.post("/company", &[("company", &COMPANY.to_string())]).await.expect(303);
    let path = format!("/apps/{}", id.0);
    for (state, status, text) in [
        (CompanyState::Pending, 403, "was not approved yet"),
        (CompanyState::Closed, 403, "is closed"),
        (CompanyState::Active, 200, "Access token"),
    ] {
        let changes = CompanyChanges { state: Some(state), ..CompanyChanges::default() };
        bench.state.carry_out(AdminCommand::SetCompany(company.id, changes)).await.unwrap();
        visitor.get(&path).await.expect(200);
        let page = visitor.post(&format!("{path}/token"), &[]).await.expect(status);
        assert!(page.body.contains(text), "{text}: {}", page.body);
    }
}

#[tokio::test]
async fn a_link_that_was_asked_for_is_noted_with_where_from() {
    let bench = bench().await;
    ask_for_link(&bench).await;
    let (company, _) = membership(&bench, COMPANY).await;
    let action = Some("password_link.created".to_owned());
    let filter = AuditFilter { action, ..AuditFilter::default() };
    let events = bench
        .state
        .switch
        .read(move |snapshot| snapshot.audit_events(Some(company.slot), &filter, &Rows::first(10)));
    let rows: Vec<AuditEvent> = events.await.unwrap().rows;
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].actor, rows[0].address.as_deref()), (Actor::Switch, Some("203.0.113.7")));
}

/// Makes somebody a member of a company, with an invitation by mail.
async fn invite(bench: &Bench, id: u128, company: Uuid, email: &str) {
    let (company, _) = membership(bench, company).await;
    let invitation = Invitation::draw(&bench.state).unwrap();
    let new = NewMember {
        id: MemberId(Uuid::from_u128(id)),
        company: company.id,
        first_name: "Grace".into(),
        last_name: "Hopper".into(),
        email: email.into(),
        role: MemberRole::Member,
        code: None,
        dimensions: Default::default(),
        external_id: None,
        is_active: true,
        invite: Some(invitation.invite.clone()),
    };
    bench.state.carry_out(AdminCommand::CreateMember(new)).await.unwrap();
    invitation.send(&bench.state, &company);
}

#[tokio::test]
async fn invitations_go_to_whom_the_link_is_for_and_not_without_end() {
    let bench = bench().await;
    invite(&bench, 101, COMPANY, "grace@example.com").await;
    assert!(letter(&bench, 0).await.contains("To: grace@example.com"));
    for id in 102..=106 {
        // Another spelling of the address is the same user, who has the one that came first.
        invite(&bench, id, OTHER_COMPANY, "GRACE@example.com").await;
        let gone =
            AdminCommand::DeleteMember(CompanyId(OTHER_COMPANY), MemberId(Uuid::from_u128(id)));
        letters_after(&bench, usize::try_from(id - 100).unwrap().min(3)).await;
        bench.state.carry_out(gone).await.unwrap();
    }
    // Somebody else's letter is written after all of those.
    invite(&bench, 107, COMPANY, "last@example.com").await;
    let letters = letters_after(&bench, 4).await;
    let to = |address: &str| letters.iter().filter(|letter| letter.contains(address)).count();
    assert_eq!(["To: grace@", "To: GRACE@", "To: last@"].map(to), [3, 0, 1]);
}

/// All letters, once there are `count`.
async fn letters_after(bench: &Bench, count: usize) -> Vec<String> {
    letter(bench, count - 1).await;
    letters(bench)
}
