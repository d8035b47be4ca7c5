//! The load generator as it is started.

use std::net::SocketAddr;
use std::process::{Command, Output};

use cardswitch_load::echo;
use serde_json::Value;

const CARD: &str = r#"{"card_id":"0199b6f4-71f1-7c5e-8d55-3a9f5c0a1b2c","pan":"9999990000000003","expiration":"2030-01-31","cvv":"123"}"#;

/// Loads a counterpart on the loopback for a moment.
fn load(address: SocketAddr, further: &[&str]) -> Output {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let cards = directory.path().join("cards.jsonl");
    std::fs::write(&cards, CARD).expect("a cards file");
    Command::new(env!("CARGO_BIN_EXE_load"))
        .args(["iso", "--rate", "2000", "--seconds", "0.5", "--warmup", "0.1"])
        .args(["--address", &address.to_string(), "--cards"])
        .arg(&cards)
        .args(further)
        .output()
        .expect("the program starts")
}

#[test]
fn a_load_on_an_echo_is_told_as_json() {
    let output = load(echo::start(echo::send_back).expect("a free port"), &["--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let run = &serde_json::from_slice::<Value>(&output.stdout).unwrap()["run"];
    let counts = &run["counts"];
    assert_eq!((&counts["messages"], &counts["answered"]), (&1_200.into(), &1_000.into()), "{run}");
    assert_eq!(counts["codes"][0][0], "echo", "{run}");
    let percentile = |name: &str| run["latency_us"][name].as_f64().unwrap();
    assert!(0.0 < percentile("p50") && percentile("p50") <= percentile("max"), "{run}");
}

/// Once, this was a success, of as many messages a second as there were answers.
#[test]
fn a_load_that_nobody_answers_is_a_failure() {
    let address = echo::start(|_| Ok(())).expect("a free port");
    for further in [&["--json"][..], &["--knee", "5"]] {
        let output = load(address, further);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains("messages was answered"), "{error}");
        assert!(output.stdout.is_empty(), "{output:?}");
    }
}
