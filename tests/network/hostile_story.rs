//! `feed --hostile --shrink`: a misbehaving switch is found out, and its story is a scenario that fails there at
//! the same step through both doors, and passes at a switch that behaves.

use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use cardswitch_harness::{Installation, Message, run_cardswitch};

use crate::scenarios::{doors_of, run_scenario};

type Doors = (SocketAddr, SocketAddr);

/// The messages that were answered before.
type AnsweredMessages = Arc<Mutex<HashSet<String>>>;

fn is_new(answered: &AnsweredMessages, key: String) -> bool {
    answered.lock().expect("nobody panicked").insert(key)
}

/// A switch that declines what it has approved once the message comes again: the real one, behind doors
/// that change such answers.
fn forgetful((iso8583, http): Doors) -> Doors {
    (stand_before(iso8583, pass_messages), stand_before(http, pass_requests))
}

/// Takes connections and passes each on to a door.
fn stand_before(door: SocketAddr, pass: fn(TcpStream, TcpStream, &AnsweredMessages)) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let answered = AnsweredMessages::default();
    thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.expect("a connection");
            let switch = TcpStream::connect(door).expect("the door is open");
            for stream in [&client, &switch] {
                stream.set_nodelay(true).expect("a socket takes TCP_NODELAY");
            }
            let answered = Arc::clone(&answered);
            thread::spawn(move || pass(client, switch, &answered));
        }
    });
    address
}

/// Passes ISO 8583 messages; ends with either side.
fn pass_messages(mut client: TcpStream, mut switch: TcpStream, answered: &AnsweredMessages) {
    let (mut from, mut to) = (second(&client), second(&switch));
    thread::spawn(move || {
        // The end of a connection shows on the other side.
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Write);
    });
    let mut length = [0; 2];
    while switch.read_exact(&mut length).is_ok() {
        let mut frame = vec![0; usize::from(u16::from_be_bytes(length))];
        switch.read_exact(&mut frame).expect("a whole frame");
        let mut answer = Message::decode(&frame);
        let key = format!("{} {:?}", answer.mti, [7, 11, 37].map(|field| answer.get(field)));
        if !is_new(answered, key) && answer.get(39) == Some("00") {
            answer.set(39, "05");
            answer.remove(44);
        }
        let frame = answer.encode();
        let length = u16::try_from(frame.len()).expect("a short frame").to_be_bytes();
        if client.write_all(&[&length, &frame[..]].concat()).is_err() {
            return;
        }
    }
    let _ = client.shutdown(std::net::Shutdown::Both);
}

/// Passes HTTP requests, one after the other.
fn pass_requests(mut client: TcpStream, mut switch: TcpStream, answered: &AnsweredMessages) {
    while let Some((head, body)) = read_http(&mut client) {
        switch.write_all(&[head.as_bytes(), &body].concat()).expect("an open connection");
        let Some((answer_head, mut answer)) = read_http(&mut switch) else { return };
        let key = head.lines().find(|line| line.starts_with("idempotency-key:"));
        if key.is_some_and(|key| !is_new(answered, key.to_owned())) {
            let text = String::from_utf8(answer).expect("JSON");
            answer = text.replace("\"response_code\":0", "\"response_code\":5").into_bytes();
        }
        if client.write_all(&[answer_head.as_bytes(), &answer].concat()).is_err() {
            return;
        }
    }
}

fn second(stream: &TcpStream) -> TcpStream {
    stream.try_clone().expect("a socket can be cloned")
}

/// A head and its body; none at the end of the connection.
fn read_http(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("an ASCII head");
    let lower = head.to_ascii_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length = length.map_or(0, |length| length.trim().parse().expect("a number"));
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some((head, body))
}

/// The scenario of the difference that a hostile feed finds.
fn story_of(installation: &Installation, (iso8583, http): Doors, rates: &str) -> PathBuf {
    let cards = installation.cards_file();
    let path = installation.home().join("story.toml");
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let (iso8583, http) = (iso8583.to_string(), format!("http://{http}"));
    let (cards, out) = (text(&cards), text(&path));
    let key = &installation.credentials.network_key;
    let mut arguments = vec!["feed", "--connect", &iso8583, "--cards", &cards, "--http", &http];
    arguments.extend(["--network-key", key, "--rate", "80", "--duration", "3s"]);
    arguments.extend(["--hostile", "7", "--hostile-rates", rates, "--shrink"]);
    let output = run_cardswitch(&[&arguments[..], &["--scenario-out", &out]].concat());
    assert_eq!(output.code, Some(1), "the books differ: {output:#?}");
    assert!(output.stdout.contains(&format!("scenario: {out}\n")), "{output:#?}");
    path
}

/// Plays a scenario at both doors, and returns the first line of each that went wrong.
fn wrong_steps(installation: &Installation, doors: Doors, path: &Path) -> [Option<String>; 2] {
    ["iso8583", "http"].map(|door| {
        let output = run_scenario(installation, doors, door, path);
        let wrong = output.stdout.lines().find(|line| line.trim_start().starts_with("WRONG"));
        assert_eq!(output.code, Some(i32::from(wrong.is_some())), "{door}: {output:#?}");
        wrong.map(str::to_owned)
    })
}

fn stage(seed: u64) -> Installation {
    Installation::init_with(60, seed, &["--partial-approval", "--credit-limit", "500"])
}

#[test]
fn the_story_of_a_forgetful_switch_fails_there_and_passes_elsewhere() {
    let installation = stage(961);
    let switch = installation.serve_with(&["--clock", "manual"]);
    let doors = forgetful(doors_of(&switch));
    let path = story_of(&installation, doors, "copied=100");
    for wrong in wrong_steps(&installation, doors, &path) {
        let wrong = wrong.expect("the forgetful one fails");
        assert!(wrong.contains("again purchase"), "{wrong}");
    }
    assert_eq!(wrong_steps(&installation, doors_of(&switch), &path), [None, None]);
    switch.stop();
    installation.verify_ok();
}
