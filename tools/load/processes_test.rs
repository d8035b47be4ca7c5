//! The load generator as it is started: several processes share a load and bring it together.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::thread;

use serde_json::Value;

const CARD: &str = r#"{"card_id":"0199b6f4-71f1-7c5e-8d55-3a9f5c0a1b2c","pan":"9999990000000003","expiration":"2030-01-31","cvv":"123"}"#;

/// Sends back whatever comes on any connection.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let mut bytes = vec![0; 4_096];
                while let Ok(came @ 1..) = stream.read(&mut bytes) {
                    if stream.write_all(&bytes[..came]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// Runs the program on an echo server and one card. Returns whether it worked, and what it printed.
fn load(arguments: &[&str]) -> (bool, String, String) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let cards = directory.path().join("cards.jsonl");
    std::fs::write(&cards, CARD).expect("a cards file");
    let address = echo().to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_load"))
        .args(arguments)
        .args(["--address", &address, "--cards"])
        .arg(&cards)
        .output()
        .expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn processes_share_a_rate_and_bring_their_answers_together() {
    for processes in ["1", "2"] {
        let (is_success, out, errors) = load(&[
            "iso",
            "--rate",
            "2000",
            "--seconds",
            "0.5",
            "--warmup",
            "0.1",
            "--connections",
            "3",
            "--threads",
            "1",
            "--processes",
            processes,
            "--json",
        ]);
        assert!(is_success, "{errors}");
        let run = &serde_json::from_str::<Value>(&out).unwrap()["run"];
        assert_eq!(run["messages"], 1_200, "{run}");
        assert_eq!(run["answered"], 1_000, "{run}");
        assert_eq!(run["codes"][0][0], "echo", "{run}");
        assert_eq!(run["codes"][0][1], 1_000, "{run}");
        let percentile = |name: &str| run["latency_us"][name].as_f64().unwrap();
        assert!(0.0 < percentile("p50") && percentile("p50") <= percentile("max"), "{run}");
    }
}

#[test]
fn a_sweep_draws_a_chart_and_prints_a_table() {
    let directory = tempfile::tempdir().unwrap();
    let svg = directory.path().join("load.svg");
    let (is_success, out, errors) = load(&[
        "sweep",
        "iso",
        "--from",
        "500",
        "--to",
        "2000",
        "--steps",
        "3",
        "--seconds",
        "0.2",
        "--warmup",
        "0",
        "--bound-ms",
        "10000",
        "--svg",
        svg.to_str().unwrap(),
    ]);
    assert!(is_success, "{errors}");
    for rate in ["     500  ", "    1000  ", "    2000  ", "knee "] {
        assert!(out.contains(rate), "{rate} in {out}");
    }
    assert!(std::fs::read_to_string(svg).unwrap().ends_with("</svg>\n"));
}

#[test]
fn a_load_that_cannot_be_is_refused_in_one_line() {
    for (arguments, expected) in [
        (
            &["iso", "--rate", "1", "--connections", "1", "--threads", "2"][..],
            "as many connections",
        ),
        (&["http", "--rate", "1", "--processes", "2", "--connections", "1"], "as many connections"),
    ] {
        let (is_success, _, errors) = load(arguments);
        assert!(!is_success && errors.contains(expected), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
}
