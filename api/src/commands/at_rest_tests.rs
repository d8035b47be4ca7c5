//! Commands on a directory at rest leave it to the switch that serves it what time it is, and what is kept.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cardswitch_edge::switch::Switch;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::directory::allowance::{AllowanceChanges, AllowanceCommand};
use cardswitch_engine::directory::company::{CompanyCommand, NewCompany};
use cardswitch_engine::domain::ids::{
    AccountId, CardSlot, CompanyId, CompanySlot, RecordSeq, Timestamp,
};
use cardswitch_engine::domain::money::CurrencyCode;
use cardswitch_engine::domain::text::LineText;
use cardswitch_engine::engine::Engine;
use cardswitch_engine::limits::CHECKPOINT_INTERVAL_MS;
use cardswitch_engine::recovery_progress::RecoveryProgress;
use cardswitch_secrets::token_digest;
use clap::Parser;
use uuid::Uuid;

use super::{Cli, run};
use crate::config::{CONFIG_FILE, ClockSetting, RetentionSetting};
use crate::install::by_operator;
use crate::opening::{open_at_rest, open_engine};
use crate::test_world::{company, make_keyed_directory};

/// The time that installations record.
const START: &str = "2026-01-05T08:00:00Z";

async fn done(line: &[&str]) {
    let cli = Cli::try_parse_from([&["cardswitch"], line].concat()).unwrap();
    run(cli).await.unwrap();
}

/// Makes a directory with settings. The window of a card's allowance ends an hour later: a timer.
async fn install(data: &Path, settings: &str) {
    let options = ["--seed", "1", "--cards", "1", "--time", START, "--json"];
    done(&[&["init", "--data", data.to_str().unwrap()][..], &options].concat()).await;
    fs::write(data.join(CONFIG_FILE), settings).unwrap();
    let switch = Switch::new(Arc::new(open(data)));
    let card = switch.read(|snapshot| snapshot.card(CardSlot::default())).await.unwrap().unwrap();
    let company = switch.read(|snapshot| snapshot.company(CompanySlot(0))).await.unwrap().unwrap();
    let ends_at = Some(switch.engine.clock.now().plus(Timestamp::DAY / 24));
    let changes = AllowanceChanges { ends_at, ..AllowanceChanges::default() };
    let update = AllowanceCommand::Update(company.id, card.profile.allowance_id, changes);
    change(&switch, AdminCommand::Allowance(update)).await;
    switch.engine.shut_down();
}

async fn change(switch: &Switch, command: AdminCommand) {
    let reply = switch.ask(by_operator(command)).await.unwrap();
    assert!(matches!(reply, Reply::Done(_)), "{reply:?}");
}

fn open(data: &Path) -> Engine {
    open_at_rest(data, ClockSetting::Manual).unwrap().unwrap().0
}

/// The newest record, and the time of a manual clock.
fn end_of(data: &Path) -> (RecordSeq, Timestamp) {
    let engine = open(data);
    let end = (engine.durable_seq(), engine.clock.now());
    engine.shut_down();
    end
}

/// Once, they ran on the system's clock: every hold that was due by then was released, and a manual clock never goes
/// back.
#[tokio::test]
async fn a_manual_clock_stands_where_it_stood() {
    let rows: [(&[&str], bool); 3] = [
        (&["rotate-pan-key", "--status"], false),
        (&["rotate-pan-key"], true),
        (
            &["user", "add", "--email", "b@example.com", "--first-name", "B", "--last-name", "C"],
            true,
        ),
    ];
    let home = tempfile::tempdir().unwrap();
    for (place, (command, is_change)) in rows.into_iter().enumerate() {
        let data = home.path().join(place.to_string());
        install(&data, "clock = \"manual\"\n").await;
        let (seq, time) = end_of(&data);
        done(&[command, &["--data", data.to_str().unwrap(), "--json"]].concat()).await;
        let (seq_after, time_after) = end_of(&data);
        assert_eq!(seq_after > seq, is_change, "{command:?}");
        assert!(time_after < time.plus(Timestamp::DAY), "{command:?}: {time_after:?}");
    }
}

/// Once, the file in the directory was read, also where the switch is served with another one.
#[tokio::test]
async fn the_settings_are_those_of_the_file_that_is_named() {
    let home = tempfile::tempdir().unwrap();
    let (data, named) = (home.path().join("data"), home.path().join("named.toml"));
    install(&data, "clock = \"system\"\n").await;
    fs::write(&named, "clock = \"manual\"\n").unwrap();
    let (_, time) = end_of(&data);
    let [data_text, named] = [&data, &named].map(|path| path.to_str().unwrap());
    done(&["rotate-pan-key", "--data", data_text, "--config", named, "--json"]).await;
    assert!(end_of(&data).1 < time.plus(Timestamp::DAY));
}

/// Once, a question made all timers run that were due by the system's clock.
#[tokio::test]
async fn a_question_changes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    install(&data, "").await;
    let before = end_of(&data);
    done(&["rotate-pan-key", "--status", "--data", data.to_str().unwrap(), "--json"]).await;
    assert_eq!(end_of(&data), before);
}

/// Once, a command trimmed it as the file of settings says, also where the switch is served with `--retention forever`.
#[tokio::test]
async fn the_journal_stays_whole() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    make_keyed_directory(&data);
    let segments = || {
        let found = fs::read_dir(data.join("journal")).unwrap().map(|entry| entry.unwrap().path());
        let mut found: Vec<_> =
            found.filter(|path| path.extension().is_some_and(|end| end == "segment")).collect();
        found.sort();
        found
    };
    let (retention, progress) = (RetentionSetting::Bytes(4 << 20), RecoveryProgress::default());
    let place = data.as_path().into();
    let engine = open_engine(place, ClockSetting::System, retention, &progress).unwrap().0;
    let switch = Switch::new(Arc::new(engine));
    for number in 0..6 {
        let (id, account) = (Uuid::from_u128(number), Uuid::from_u128(number + 100));
        let name = LineText::spaced(&"x".repeat(500_000));
        let company = company(CompanyId(id), AccountId(account), CurrencyCode(840), 0);
        let company = NewCompany { name, ..company };
        change(&switch, AdminCommand::Company(CompanyCommand::Create(company))).await;
    }
    switch.engine.shut_down();
    drop(switch);
    let before = segments();
    assert!(before.len() > 2, "{before:?}");
    let (engine, _) = open_at_rest(data.as_path(), ClockSetting::System).unwrap().unwrap();
    let switch = Switch::new(Arc::new(engine));
    // Changes until the tables have a checkpoint: what is before it may go.
    for number in 0..CHECKPOINT_INTERVAL_MS / 100 + 10 {
        change(&switch, AdminCommand::SetNetworkKey(token_digest(&number.to_string()))).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    switch.engine.shut_down();
    assert!(segments().starts_with(&before), "{before:?} {:?}", segments());
}
