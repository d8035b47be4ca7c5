//! What operators are told of their commands, carried out on the engine of a switch in this process.

use clap::Parser;

use super::super::{Cli, CliCommand};
use super::{Administration, Office, carry_out_by};
use crate::bench::{Bench, COMPANY, OTHER_COMPANY};
use crate::config::Settings;

const GRACE: [&str; 4] = ["user", "add", "--email", "grace@example.com"];
const NAMED: [&str; 4] = ["--first-name", "Grace", "--last-name", "Hopper"];

/// What a command prints, else why it failed.
async fn told(bench: &Bench, line: &[&str]) -> Result<String, String> {
    let line = [&["cardswitch"], line, &["--data", "unused"]].concat();
    let command = match Cli::try_parse_from(line).unwrap().command {
        CliCommand::App(command) => Administration::App(command),
        CliCommand::Company(command) => Administration::Company(command),
        CliCommand::User(command) => Administration::User(command),
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
