//! A switch that is asked to stop before it has recovered: it leaves at once and in order, and the next
//! start finds everything.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus};
use std::thread;

use cardswitch_harness::{HttpClient, Installation, Purchase, free_addresses};

/// How many purchases are to be read again by each start.
const PURCHASES: usize = 5_000;
/// How many of them are sent before answers are taken.
const WINDOW: usize = 250;
/// How often it is stopped: each time somewhere else on its way.
const ROUNDS: usize = 6;

/// Waits for the health answer, and returns it; none where the process has ended.
fn first_word(address: SocketAddr, child: &mut Child) -> Option<String> {
    while child.try_wait().expect("it can be waited for").is_none() {
        if TcpStream::connect(address).is_err() {
            thread::yield_now();
            continue;
        }
        let answer = HttpClient::anonymous(address).get("/readyz");
        let body: serde_json::Value = serde_json::from_str(&answer.text()).expect("JSON");
        return Some(body["status"].as_str().expect("a word").to_owned());
    }
    None
}

fn signal(child: &Child, name: &str) {
    let kill = format!("kill -{name} {}", child.id());
    Command::new("sh").args(["-c", &kill]).status().expect("sh is there");
}

fn terminate(mut child: Child) -> ExitStatus {
    signal(&child, "TERM");
    child.wait().expect("it can be waited for")
}

fn count(installation: &Installation) -> u64 {
    let switch = installation.serve();
    let found = switch.api().get("/v1/transactions?limit=1").expect(200)["count"].clone();
    switch.stop();
    found.as_u64().expect("a count")
}

/// The key is read on the way: as long as nothing is written into the pipe behind it, there is no end. Once,
/// SIGHUP ended a switch there, and a node did not hear of a stop.
#[test]
fn a_stop_during_recovery_is_in_order_and_loses_nothing() {
    let installation = Installation::init(60, 8_701);
    let before = count(&installation);
    let pipe = installation.home().join("key");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there");
    assert!(made.success());
    let command = format!("cat '{}'", pipe.display());
    let keyed = ["--master-key-command", &command];
    // Nobody is asked at that address before the files are open.
    let [etcd, alone, in_cluster] = free_addresses();
    let journal = format!("etcd://{etcd}/none");
    let node = ["--journal", &journal, "--node", "a"];
    let rows = [(alone, keyed.to_vec()), (in_cluster, [&keyed[..], &node].concat())];
    for (address, further) in rows {
        let mut child = installation.begin_to_serve_with(address, &further);
        assert_eq!(first_word(address, &mut child).as_deref(), Some("recovering"));
        signal(&child, "HUP");
        assert_eq!(first_word(address, &mut child).as_deref(), Some("recovering"));
        let status = terminate(child);
        assert!(status.success(), "a stop is none of its failures: {status}");
    }
    // The commands that wait still read its end.
    drop(fs::File::options().read(true).write(true).open(&pipe).expect("a pipe"));
    assert_eq!(count(&installation), before);
    installation.verify_ok();
}

#[test]
fn stops_anywhere_in_a_recovery_lose_nothing() {
    let installation = Installation::init(60, 8_702);
    let before = count(&installation);
    let card = installation.cards.ordinary();
    let switch = installation.serve();
    switch.signal("HUP");
    let mut acquirer = switch.acquirer();
    for _ in 0..PURCHASES / WINDOW {
        for _ in 0..WINDOW {
            acquirer.send(&Purchase::of(card, 1).request()).expect("the door is open");
        }
        for _ in 0..WINDOW {
            let _ = acquirer.receive().expect("an answer").expect_approved();
        }
    }
    switch.kill9();
    // However slow this machine is to ask, the recovery is slower.
    let segment = installation.journal_segment();
    let slow = format!("-P '{}' -e inject=pread64:delay_enter=50000", segment.display());
    let slow_reads = format!("set -- strace -D -f -qq -o /dev/null {slow} \"$@\"");
    let [address, ..] = free_addresses();
    let mut words = Vec::new();
    for round in 0..ROUNDS {
        let mut child = installation.begin_to_serve_after(&slow_reads, address);
        // Later each time, as long as it recovers.
        for _ in 0..=round * 20 {
            let word = first_word(address, &mut child).expect("nobody has stopped it");
            let is_over = word != "recovering";
            words.push(word);
            if is_over {
                break;
            }
        }
        let status = terminate(child);
        assert!(status.success(), "round {round}: {status}");
    }
    assert!(words.contains(&"recovering".to_owned()), "nothing was tested");
    assert_eq!(count(&installation), before + PURCHASES as u64);
    installation.verify_ok();
}
