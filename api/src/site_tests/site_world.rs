//! The shared world of tests of the site: a real engine on a manual clock, its users, and their letters.

use std::fs;
use std::time::Duration;

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::member::Member;
use cardswitch_engine::directory::user::{NewUser, UserCommand};
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::ids::{CompanyId, Timestamp, UserId};
use cardswitch_identity::auth::passwords::hash;
use uuid::Uuid;

use super::visitor_tests::{ORIGIN, Visitor};
use crate::bench::Bench;
use crate::test_world::by_switch;

pub(super) const EMAIL: &str = "ada@example.com";
pub(super) const PASSWORD: &str = "difference engine no. 2";
pub(super) const NEW_PASSWORD: &str = "analytical engine no. 1";
pub(super) const OTHER_EMAIL: &str = "mallory@example.net";
pub(super) const USER: UserId = UserId(Uuid::from_u128(0xada));
pub(super) const OTHER_USER: UserId = UserId(Uuid::from_u128(0xbad));
pub(super) const SESSION_COOKIE: &str = "__Host-session";

/// A switch with two users: Ada, who is a member of both companies, and Mallory, who is of none.
pub(super) async fn bench() -> Bench {
    let bench = Bench::new().await;
    for (id, email) in [(USER, EMAIL), (OTHER_USER, OTHER_EMAIL)] {
        let user = NewUser {
            id,
            email: email.into(),
            first_name: "Ada".parse().unwrap(),
            last_name: "Byron".parse().unwrap(),
            password_hash: Some(hash(PASSWORD).await.unwrap()),
            developer_of: Vec::new(),
        };
        by_switch(&bench.state)
            .carry_out(AdminCommand::User(UserCommand::Create(user)))
            .await
            .unwrap();
    }
    bench
}

pub(super) async fn sign_in<'a>(bench: &'a Bench, email: &str) -> Visitor<'a> {
    let mut visitor = Visitor::new(bench);
    let fields = [("email", email), ("password", PASSWORD)];
    let page = visitor.fill("/login", &fields).await.expect(303);
    assert_eq!(page.location(), "/overview");
    visitor.get("/account").await.expect(200);
    visitor
}

pub(super) fn pass(bench: &Bench, seconds: i64) {
    let clock = &bench.state.switch.engine.clock;
    clock.advance_to(clock.now().plus(seconds * Timestamp::SECOND));
}

/// The newest letter in the outbox after the first `known`.
pub(super) async fn letter(bench: &Bench, known: usize) -> String {
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
pub(super) fn letters(bench: &Bench) -> Vec<String> {
    let mut paths: Vec<_> = fs::read_dir(&bench.state.outbox.directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "eml"))
        .collect();
    paths.sort();
    paths.iter().map(|path| fs::read_to_string(path).unwrap()).collect()
}

/// The path of the link in a letter.
pub(super) fn link_in(letter: &str) -> String {
    let (_, rest) = letter.split_once(ORIGIN).unwrap();
    rest.split_whitespace().next().unwrap().to_owned()
}

/// Asks for a link to set a password and takes it out of the mail.
pub(super) async fn ask_for_link(bench: &Bench) -> String {
    let known = letters(bench).len();
    Visitor::new(bench).fill("/password/forgot", &[("email", EMAIL)]).await.expect(200);
    link_in(&letter(bench, known).await)
}

pub(super) async fn membership(bench: &Bench, company: Uuid) -> (Company, Member) {
    let found = bench.state.switch.read(move |snapshot| {
        let company = snapshot.company_by_id(CompanyId(company))?.unwrap();
        let member = snapshot.member_by_email(company.slot, EMAIL)?.unwrap();
        Ok((company, member))
    });
    found.await.unwrap()
}
