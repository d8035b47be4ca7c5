//! People's view of themselves and their companies: sessions, memberships, developers, invitations.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::access_token::AccessScope;
use cardswitch_engine::directory::app::{AppCommand, NewApp};
use cardswitch_engine::directory::company::{CompanyChanges, CompanyCommand};
use cardswitch_engine::directory::member::{MemberChanges, MemberCommand, MemberRole, NewMember};
use cardswitch_engine::directory::user::{UserChanges, UserCommand};
use cardswitch_engine::domain::company::CompanyState;
use cardswitch_engine::domain::ids::{AppId, CompanyId, MemberId};
use cardswitch_identity::invitation::Invitation;
use uuid::Uuid;

use super::company_world::{close, company, visitor};
use super::site_world::{EMAIL, OTHER_EMAIL, USER, bench, letter, letters, membership, sign_in};
use super::visitor_tests::Page;
use crate::bench::{Bench, COMPANY, OTHER_COMPANY};
use crate::test_world::{by_switch, fill_with_tokens, new_member};

#[tokio::test]
async fn sessions_are_listed_and_ended_one_by_one() {
    let bench = bench().await;
    let mut visitor = sign_in(&bench, EMAIL).await;
    let mut elsewhere = sign_in(&bench, EMAIL).await;
    let mut stranger = sign_in(&bench, OTHER_EMAIL).await;
    let page = visitor.get("/account").await;
    assert_eq!(page.body.matches("Firefox on Linux</strong>").count(), 2, "{}", page.body);
    assert!(page.body.contains("203.0.113.7") && page.body.contains("4 Mar 2026, 12:00 PST"));
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
    // The switch offers the company that is not current.
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

#[tokio::test]
async fn developers_are_that_where_they_were_named_and_nowhere_else() {
    let bench = bench().await;
    let develops = Some((CompanyId(COMPANY), true));
    let changes = UserChanges { develops, ..UserChanges::default() };
    by_switch(&bench.state)
        .carry_out(AdminCommand::User(UserCommand::Update(USER, changes)))
        .await
        .unwrap();
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
        name: "Books".parse().unwrap(),
        website: Default::default(),
        secret_digest: [7; 32],
        redirect_urls: Vec::new(),
        requested: AccessScope::default(),
    };
    for command in [
        AdminCommand::Member(MemberCommand::Update(
            company.id,
            member.id,
            MemberChanges { role, ..MemberChanges::default() },
        )),
        AdminCommand::App(AppCommand::Create(app)),
    ] {
        by_switch(&bench.state).carry_out(command).await.unwrap();
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
        by_switch(&bench.state)
            .carry_out(AdminCommand::Company(CompanyCommand::Update(company.id, changes)))
            .await
            .unwrap();
        visitor.get(&path).await.expect(200);
        let page = visitor.post(&format!("{path}/token"), &[]).await.expect(status);
        assert!(page.body.contains(text), "{text}: {}", page.body);
    }
    // People were told that something had changed in the meantime.
    fill_with_tokens(&bench.state, (company.id, member.id)).await;
    let page = visitor.post(&format!("{path}/token"), &[]).await.expect(409);
    assert!(page.body.contains("one of them has to be revoked first"), "{}", page.body);
}

/// People were told that something had changed in the meantime.
#[tokio::test]
async fn who_registers_an_app_learns_that_the_company_is_closed() {
    let bench = company().await;
    let mut ada = visitor(&bench, EMAIL).await;
    ada.get("/apps/new").await.expect(200);
    close(&bench).await;
    let site = "https://books.example";
    let fields = [("name", "Books"), ("website", site), ("redirect_urls", site)];
    let page = ada.post("/apps/new", &fields).await.expect(409);
    assert!(page.body.contains("The company is closed."), "{}", page.body);
}

/// Makes somebody a member of a company, with an invitation by mail.
async fn invite(bench: &Bench, id: u128, company: Uuid, email: &str) {
    let (company, _) = membership(bench, company).await;
    let invitation = Invitation::draw(&bench.state).unwrap();
    let invite = Some(invitation.invite.clone());
    let id = MemberId(Uuid::from_u128(id));
    let new = NewMember { invite, ..new_member(id, company.id, email) };
    let (command, news) =
        (AdminCommand::Member(MemberCommand::Create(new)), invitation.news(&company));
    by_switch(&bench.state).carry_out_and_tell(command, Some(news)).await.unwrap();
}

#[tokio::test]
async fn invitations_go_to_whom_the_link_is_for_and_not_without_end() {
    let bench = bench().await;
    invite(&bench, 101, COMPANY, "grace@example.com").await;
    assert!(letter(&bench, 0).await.contains("To: grace@example.com"));
    for id in 102..=106 {
        // Another spelling of the address is the same user, who has the one that came first; each
        // company may send some.
        invite(&bench, id, OTHER_COMPANY, "GRACE@example.com").await;
        let gone = AdminCommand::Member(MemberCommand::Delete(
            CompanyId(OTHER_COMPANY),
            MemberId(Uuid::from_u128(id)),
        ));
        letters_after(&bench, usize::try_from(id - 100).unwrap().min(4)).await;
        by_switch(&bench.state).carry_out(gone).await.unwrap();
    }
    // Somebody else's letter is written after all of those.
    invite(&bench, 107, COMPANY, "last@example.com").await;
    let letters = letters_after(&bench, 5).await;
    let to = |address: &str| letters.iter().filter(|letter| letter.contains(address)).count();
    assert_eq!(["To: grace@", "To: GRACE@", "To: last@"].map(to), [4, 0, 1]);
}

/// All letters, once there are `count`.
async fn letters_after(bench: &Bench, count: usize) -> Vec<String> {
    letter(bench, count - 1).await;
    letters(bench)
}
