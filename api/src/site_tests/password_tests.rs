//! Passwords that are changed, and links that set them.

use std::net::Ipv4Addr;

use axum::http::HeaderMap;
use cardswitch_edge::client_address::ClientAddress;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::user::{
    PasswordLinkUse, ProvenPassword, User, UserChanges, UserCommand,
};
use cardswitch_engine::domain::audit::{Actor, AuditEvent};
use cardswitch_engine::store::query::{AuditFilter, Page as Rows};
use cardswitch_identity::auth::passwords::hash;
use cardswitch_secrets::token_digest;
use cardswitch_site::password::change_user;
use cardswitch_site::session::{Session, begin_session};

use super::site_world::{
    EMAIL, NEW_PASSWORD, PASSWORD, ask_for_link, bench, letters, membership, pass, sign_in,
};
use super::visitor_tests::Visitor;
use crate::bench::{Bench, COMPANY};
use crate::test_world::by_switch;

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
    assert!(visitor.get("/account").await.body.contains("Password changed."));
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

/// A visitor's session in the tables.
async fn session_of(bench: &Bench, visitor: &Visitor<'_>) -> Session {
    let digest = token_digest(visitor.session().unwrap());
    let found = bench.state.switch.read(move |snapshot| {
        let ticket = snapshot.ticket(&digest)?.unwrap();
        let user = snapshot.row::<User>(ticket.user)?.unwrap();
        Ok(Session { user, ticket, memberships: Vec::new(), current: None })
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
    by_switch(&bench.state)
        .carry_out(AdminCommand::User(UserCommand::UsePasswordLink(reset)))
        .await
        .unwrap();
    let changes = [
        UserChanges { password_hash: Some("another".into()), ..UserChanges::default() },
        UserChanges { totp: Some(None), ..UserChanges::default() },
        UserChanges { security_question: Some(None), ..UserChanges::default() },
    ];
    for change in changes {
        let changed = change_user(&by_switch(&bench.state), &session, change).await.unwrap();
        let answer = changed.expect_err("a session that is over changes nothing");
        assert_eq!(answer.headers()["location"], "/login");
    }
    let new = [("email", EMAIL), ("password", NEW_PASSWORD)];
    Visitor::new(&bench).fill("/login", &new).await.expect(303);
}

/// A sign-in had compared the old password while a new one was being set: the session began all the
/// same, after every other one had ended.
#[tokio::test]
async fn a_sign_in_with_the_old_password_begins_no_session_once_there_is_a_new_one() {
    let bench = bench().await;
    let user = bench.state.switch.read_at_once(|snapshot| snapshot.user_by_email(EMAIL));
    let proven = ProvenPassword::of(&user.unwrap().unwrap());
    let begin = async || {
        let (headers, address) = (HeaderMap::new(), ClientAddress(Ipv4Addr::LOCALHOST.into()));
        begin_session(&by_switch(&bench.state), &proven, &headers, address).await.unwrap()
    };
    assert!(begin().await.is_some());
    let set = UserChanges { password_hash: Some("another".into()), ..UserChanges::default() };
    by_switch(&bench.state)
        .carry_out(AdminCommand::User(UserCommand::Update(proven.user, set)))
        .await
        .unwrap();
    assert_eq!(begin().await, None);
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
