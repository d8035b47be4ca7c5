//! The peers that the ISO 8583 door admits where it listens to more than this machine, as in a container.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use cardswitch_harness::{Installation, cardswitch_after, run_cardswitch_with};

const PEERS: &str = "CARDSWITCH_ISO8583_PEERS";

fn serve(installation: &Installation) -> [String; 9] {
    let data = installation.data().to_str().expect("UTF-8").to_owned();
    let anywhere = "0.0.0.0:0";
    let [serve, data_flag, http_flag, iso_flag, metrics_flag] =
        ["serve", "--data", "--http", "--iso8583", "--metrics"].map(str::to_owned);
    let [http, metrics] = ["127.0.0.1:0", "127.0.0.1:0"].map(str::to_owned);
    [serve, data_flag, data, http_flag, http, iso_flag, anywhere.to_owned(), metrics_flag, metrics]
}

/// Serves with these peers until it is ready, ends it, and returns its log.
fn log_with(installation: &Installation, peers: Option<&str>) -> String {
    let arguments = serve(installation);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut command = cardswitch_after(":", &arguments);
    command.envs(peers.map(|peers| (PEERS, peers)));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("cardswitch starts");
    let mut ready = String::new();
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    stdout.read_line(&mut ready).expect("a line");
    child.kill().expect("it runs");
    let mut log = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut log).expect("text");
    child.wait().expect("it ends");
    assert!(ready.starts_with("ready "), "{ready}{log}");
    log
}

#[test]
fn a_door_beyond_loopback_admits_the_world_only_if_told_so() {
    const SHUT: &str = "takes this machine's connections alone";
    let installation = Installation::init(3, 1_701);
    let arguments = serve(&installation);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    for (peers, told) in [
        ("0.0.0.0/0", "`0.0.0.0/0` is no value for iso8583_peers (beyond loopback, `any`"),
        ("10.0.0.0/8,::/0", "`::/0` is no value for iso8583_peers"),
        ("everybody", "`everybody` is no value for iso8583_peers"),
    ] {
        let refused = run_cardswitch_with(&arguments, &[(PEERS, peers)]).expect_one_line_error();
        assert!(refused.contains(told), "{refused}");
    }
    assert!(log_with(&installation, None).contains(SHUT));
    for peers in ["any", "10.0.0.0/8,127.0.0.0/8"] {
        let log = log_with(&installation, Some(peers));
        assert!(!log.contains(SHUT), "{peers}: {log}");
    }
}
