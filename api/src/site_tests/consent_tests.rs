//! The consent page and its answers, for people of several companies and for apps that are stopped.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::access_token::AccessScope;
use cardswitch_engine::directory::app::{AppCommand, NewApp};
use cardswitch_engine::directory::company::{CompanyChanges, CompanyCommand};
use cardswitch_engine::domain::audit::Actor;
use cardswitch_engine::domain::company::CompanyState;
use cardswitch_engine::domain::ids::{AppId, CompanyId};
use cardswitch_engine::store::query::{AuditFilter, Page};
use uuid::Uuid;

use super::company_world::{administer_other_company, company, visitor};
use super::site_world::{EMAIL, USER, membership};
use crate::bench::{Bench, COMPANY, OTHER_COMPANY};
use crate::test_world::{by_switch, fill_with_tokens};

const APP: AppId = AppId(Uuid::from_u128(0xa55));

/// Ada administers both companies; the other one has registered an app.
async fn office() -> Bench {
    let bench = company().await;
    administer_other_company(&bench).await;
    let app = NewApp {
        id: APP,
        company: CompanyId(OTHER_COMPANY),
        name: "Books".parse().unwrap(),
        website: "https://books.example".parse().unwrap(),
        secret_digest: [7; 32],
        redirect_urls: vec!["https://books.example/back".to_owned()],
        requested: AccessScope::default(),
    };
    let command = AdminCommand::App(AppCommand::Create(app));
    by_switch(&bench.state).carry_out(command).await.unwrap();
    bench
}

fn path() -> String {
    format!("/v1/oauth/authorize?response_type=code&client_id={}", APP.0)
}

fn allowing(company: &str) -> [(&str, &str); 2] {
    [("company", company), ("decision", "allow")]
}

/// The author of a company's newest code.
fn author_of_code(bench: &Bench, company: Uuid) -> Actor {
    let action = Some("authorization_code.created".to_owned());
    let filter = AuditFilter { action, ..AuditFilter::default() };
    let events = bench.state.switch.read_at_once(|snapshot| {
        let company = snapshot.company_by_id(CompanyId(company))?.unwrap();
        snapshot.audit_events(Some(company.slot), &filter, &Page::first(1))
    });
    events.unwrap().rows[0].actor
}

/// The log of the chosen company had the id of the visitor's member elsewhere.
#[tokio::test]
async fn an_answer_is_audited_in_the_name_of_the_chosen_companys_member() {
    let bench = office().await;
    let mut ada = visitor(&bench, EMAIL).await;
    for company in [OTHER_COMPANY, COMPANY] {
        ada.get(&path()).await.expect(200);
        ada.post(&path(), &allowing(&company.to_string())).await.expect(200);
        let (_, member) = membership(&bench, company).await;
        let expected = Actor::User { id: USER, member: Some(member.id) };
        assert_eq!(author_of_code(&bench, company), expected);
    }
}

/// Browsers held the answer back until a company was chosen.
#[tokio::test]
async fn who_declines_chooses_no_company() {
    let bench = office().await;
    let mut ada = visitor(&bench, EMAIL).await;
    let page = ada.get(&path()).await.expect(200);
    assert!(page.body.contains("value=\"decline\" formnovalidate"), "{}", page.body);
    let page = ada.post(&path(), &[("decision", "decline")]).await.expect(200);
    assert!(page.body.contains("error=access_denied"), "{}", page.body);
}

/// A company was closed for abuse, and people of other companies went on to let its app in.
#[tokio::test]
async fn an_app_of_a_closed_company_asks_nobody() {
    let bench = office().await;
    let mut ada = visitor(&bench, EMAIL).await;
    ada.get(&path()).await.expect(200);
    let changes = CompanyChanges { state: Some(CompanyState::Closed), ..CompanyChanges::default() };
    let closed = CompanyCommand::Update(CompanyId(OTHER_COMPANY), changes);
    by_switch(&bench.state).carry_out(AdminCommand::Company(closed)).await.unwrap();
    let answer = ada.post(&path(), &allowing(&COMPANY.to_string())).await.expect(400);
    let question = ada.get(&path()).await.expect(400);
    for page in [answer, question] {
        assert!(page.body.contains("that registered the app is closed"), "{}", page.body);
    }
}

/// The app got a code that could not be exchanged, and said that the code was unknown.
#[tokio::test]
async fn people_learn_before_the_app_that_there_is_no_room_for_a_token() {
    let bench = office().await;
    let (company, member) = membership(&bench, COMPANY).await;
    fill_with_tokens(&bench.state, (company.id, member.id)).await;
    let mut ada = visitor(&bench, EMAIL).await;
    ada.get(&path()).await.expect(200);
    let page = ada.post(&path(), &allowing(&COMPANY.to_string())).await.expect(409);
    assert!(page.body.contains("one of them has to be revoked first"), "{}", page.body);
}
