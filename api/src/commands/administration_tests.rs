//! The answers of commands to operators. The engine of a switch in this process carries them out.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::member::{MemberChanges, MemberCommand};
use cardswitch_engine::domain::ids::CompanyId;
use clap::Parser;

use super::super::{Cli, CliCommand};
use super::{Office, carry_out_by};
use crate::bench::{Bench, COMPANY, OTHER_COMPANY};
use crate::config::Settings;
use crate::test_world::by_switch;

const GRACE: [&str; 4] = ["user", "add", "--email", "grace@example.com"];
const NAMED: [&str; 4] = ["--first-name", "Grace", "--last-name", "Hopper"];

/// What a command prints, else why it failed.
async fn told(bench: &Bench, line: &[&str]) -> Result<String, String> {
    let line = [&["cardswitch"], line, &["--data", "unused"]].concat();
    let command = match Cli::try_parse_from(line).unwrap().command {
        CliCommand::Administer(command) => command,
        other => panic!("{other:?}"),
    };
    let urls = bench.state.config.urls.clone();
    let office = Office::new(bench.state.switch.clone(), urls, &Settings::default());
    let outcome = carry_out_by(command, &office).await;
    outcome.failure.map_or(Ok(outcome.printed), |failure| Err(failure.message))
}

async fn close(bench: &Bench, company: &str) {
    told(bench, &["company", "set", "--company", company, "--active=false"]).await.unwrap();
}

/// Operators were told `CompanyClosed`.
#[tokio::test]
async fn refusals_are_in_words() {
    let (bench, company) = (Bench::new().await, COMPANY.to_string());
    close(&bench, &company).await;
    let line = [&GRACE[..], &NAMED, &["--company", &company]].concat();
    assert_eq!(told(&bench, &line).await, Err("refused: the company is closed".to_owned()));
}

/// Somebody whom each company had deactivated was said to be able to sign in.
#[tokio::test]
async fn who_is_deactivated_is_not_said_to_sign_in() {
    let (bench, company) = (Bench::new().await, COMPANY.to_string());
    let into = ["--company", company.as_str()];
    let words = told(&bench, &[&GRACE[..], &NAMED, &into].concat()).await.unwrap();
    assert!(words.contains("can sign in"), "{words}");
    let found = bench.state.switch.read_at_once(|snapshot| snapshot.memberships(GRACE[3]));
    let (_, member) = &found.unwrap()[0];
    let changes = MemberChanges { is_active: Some(false), ..MemberChanges::default() };
    let leaves = MemberCommand::Update(CompanyId(COMPANY), member.id, changes);
    by_switch(&bench.state).carry_out(AdminCommand::Member(leaves)).await.unwrap();
    let words = told(&bench, &GRACE).await.unwrap();
    assert!(words.contains("is deactivated"), "{words}");
    let words = told(&bench, &[&GRACE[..], &into].concat()).await.unwrap();
    assert!(words.contains("can sign in"), "{words}");
}

/// Names for somebody known were left out without a word.
#[tokio::test]
async fn names_that_are_given_again_count() {
    let bench = Bench::new().await;
    told(&bench, &[&GRACE[..], &NAMED].concat()).await.unwrap();
    told(&bench, &[&GRACE[..], &["--last-name", "Murray"]].concat()).await.unwrap();
    let found = bench.state.switch.read_at_once(|snapshot| snapshot.user_by_email(GRACE[3]));
    let user = found.unwrap().unwrap();
    assert_eq!((user.first_name.as_str(), user.last_name.as_str()), ("Grace", "Murray"));
}

/// An app of a closed company kept what other companies had let it have.
#[tokio::test]
async fn an_app_is_deleted_whichever_companys_it_is() {
    let (bench, company) = (Bench::new().await, OTHER_COMPANY.to_string());
    let add = ["app", "add", "--company", &company, "--name", "Books", "--json"];
    let added = told(&bench, &add).await.unwrap();
    let added: serde_json::Value = serde_json::from_str(&added).unwrap();
    let id = added["client_id"].as_str().unwrap();
    close(&bench, &company).await;
    let words = told(&bench, &["app", "delete", "--app", id]).await.unwrap();
    assert!(words.contains("Books is deleted"), "{words}");
    assert_eq!(told(&bench, &["app", "delete", "--app", id]).await, Err(format!("no app `{id}`")));
    let listed = told(&bench, &["app", "list", "--company", &company]).await.unwrap();
    assert_eq!(listed, "");
}
