//! Receivers of webhooks that are gone, hostile or on this machine.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use cardswitch_harness::{HookReceiver, HttpClient, Installation, Manner, Switch, run_cardswitch};
use serde_json::{Value, json};

const LOCAL: [&str; 1] = ["--allow-local-webhooks"];

#[track_caller]
fn endpoint(api: &HttpClient, url: &str) -> String {
    let made = api.post("/v1/webhook-endpoints", &json!({"delivery_url": url})).expect(201);
    format!("/v1/webhook-endpoints/{}", made["id"].as_str().expect("an id"))
}

#[track_caller]
fn buy(installation: &Installation, switch: &Switch) {
    let card = installation.cards.ordinary();
    let body = json!({"card_id": card.card_id, "amount": 1, "merchant": {"mcc": "5812"}});
    switch.network_api().post("/network/v1/authorizations", &body).expect(200);
}

/// Buys until a receiver that takes everything was told twice, one purchase after the other. By then every other
/// receiver of the same events was told of the first.
#[track_caller]
fn buy_and_tell(installation: &Installation, switch: &Switch, good: &HookReceiver) {
    for _ in 0..2 {
        let known = good.hooks().len();
        buy(installation, switch);
        good.wait_until(|hooks| hooks.len() > known);
    }
}

#[track_caller]
fn wait_for(is_so: impl Fn() -> bool) {
    while !is_so() {
        thread::sleep(Duration::from_millis(20));
    }
}

/// The lane of a receiver that was gone was turned on again by the next look at the tables, which did
/// not show yet what was decided, and stayed on until the one after that.
#[test]
fn a_receiver_that_is_gone_is_told_nothing_until_a_person_turns_it_on() {
    const ROUNDS: usize = 15;
    let installation = Installation::init(60, 1_911);
    let mut switch = installation.serve_with(&LOCAL);
    let receivers = [Manner::Answers(410), Manner::Answers(204)].map(HookReceiver::start);
    let [gone, good] = &receivers;
    let path = endpoint(&switch.api(), &gone.url());
    let other = endpoint(&switch.api(), &good.url());
    let mut told_after = Vec::new();
    for round in 0..ROUNDS {
        let api = switch.api();
        let known = gone.hooks().len();
        // In every other round all endpoints are looked at anew, over and over, while the receiver says
        // that it is gone; else only for that.
        let reloads = {
            let (api, other, changes) = (api.clone(), other.clone(), round % 2 * 10);
            thread::spawn(move || {
                for change in 0..changes {
                    let body = json!({"description": format!("change {change}")});
                    api.put(&other, &body).expect(200);
                }
            })
        };
        buy(&installation, &switch);
        gone.wait_until(|hooks| hooks.len() > known);
        wait_for(|| api.get(&path).expect(200)["state"] == "gone");
        let at_end = gone.hooks().len();
        buy_and_tell(&installation, &switch, good);
        reloads.join().expect("changes are made");
        buy_and_tell(&installation, &switch, good);
        if round % 5 == 2 {
            switch.kill9();
            switch = installation.serve_with(&LOCAL);
            buy_and_tell(&installation, &switch, good);
        }
        let shown = switch.api().get(&path).expect(200);
        assert_eq!((&shown["state"], &shown["is_enabled"]), (&json!("gone"), &json!(false)));
        told_after.push(gone.hooks().len() - at_end);
        // A person turns it on: it is told of what happens from then on, and is gone once more.
        switch.api().put(&path, &json!({"is_enabled": true})).expect(200);
    }
    println!("told after it was gone, by round: {told_after:?}");
    assert_eq!(told_after, [0; ROUNDS]);
    gone.behave(Manner::Answers(200));
    let known = gone.hooks().len();
    buy(&installation, &switch);
    gone.wait_until(|hooks| hooks.len() > known);
    switch.stop();
    installation.verify_ok();
}

/// A company's administrator learned which ports of the machine were open, by what became of tries.
#[test]
fn this_machine_and_private_networks_are_reached_only_where_that_is_allowed() {
    let installation = Installation::init(60, 1_912);
    let receiver = HookReceiver::start(Manner::Answers(200));
    let near = [
        receiver.url(),
        "https://127.0.0.1/".into(),
        "https://10.0.0.1/".into(),
        "https://[fd00::1]/".into(),
    ];
    let switch = installation.serve();
    for url in &near {
        let refused = switch.api().post("/v1/webhook-endpoints", &json!({"delivery_url": url}));
        let refused = refused.expect_error(400);
        assert_eq!(refused["param"], "delivery_url", "{refused:#}");
        assert_eq!(refused["errors"][0]["code"], "not_public", "{refused:#}");
        let message = refused["message"].as_str().expect("a message");
        assert!(message.contains("--allow-local-webhooks"), "{message}");
    }
    switch.stop();

    let switch = installation.serve_with(&LOCAL);
    let [path, ..] = near.each_ref().map(|url| endpoint(&switch.api(), url));
    for url in ["http://169.254.169.254/", "https://[::ffff:127.0.0.1]/", "https://0.0.0.0/"] {
        let never = switch.api().post("/v1/webhook-endpoints", &json!({"delivery_url": url}));
        never.expect_error(400);
    }
    buy(&installation, &switch);
    receiver.wait_until(|hooks| !hooks.is_empty());
    switch.stop();

    // An earlier permission does not count: every connection is judged by the present settings of the switch.
    let switch = installation.serve();
    let known = receiver.hooks().len();
    let sent = switch.api().post(&format!("{path}/test"), &Value::Null).expect(200);
    assert_eq!((&sent["is_delivered"], &sent["failure"]), (&json!(false), &json!("not_public")));
    assert_eq!(receiver.hooks().len(), known);
    switch.stop();

    let data = installation.data();
    let data = data.to_str().expect("temporary paths are UTF-8");
    let shown = |further: &[&str]| {
        run_cardswitch(&[&["serve", "--data", data, "--print-config"], further].concat()).stdout
    };
    assert!(shown(&[]).contains("allow_local_webhooks = false"));
    assert!(shown(&LOCAL).contains("allow_local_webhooks = true"));
    std::fs::write(installation.data().join("cardswitch.toml"), "allow_local_webhooks = true\n")
        .expect("a configuration can be written");
    assert!(shown(&[]).contains("allow_local_webhooks = true"));
    assert!(shown(&["--allow-local-webhooks=false"]).contains("allow_local_webhooks = false"));
}

/// The answers of hostile receivers, for as long as anybody reads: the first part, and the part sent over and
/// over.
const FLOODS: [(&str, &str, &str); 7] = [
    ("a body by its length", "HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n", "x"),
    ("a body without length", "HTTP/1.1 500 No\r\n\r\n", "x"),
    ("chunks", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "1\r\nx\r\n"),
    ("trailers", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n", "x: y\r\n"),
    ("headers", "HTTP/1.1 200 OK\r\n", "x-header: value\r\n"),
    ("one header", "HTTP/1.1 200 OK\r\nx: ", "y"),
    ("a status", "HTTP/1.1 200 ", "z"),
];

/// A receiver that floods each client until it stops reading.
fn flood((first, over_and_over): (&'static str, &'static str)) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || drop(flood_one(socket, first, &over_and_over.repeat(4_096))));
        }
    });
    url
}

fn flood_one(socket: TcpStream, first: &str, again: &str) -> std::io::Result<()> {
    let mut reader = BufReader::new(socket);
    let (mut line, mut length) = (String::new(), 0);
    while line != "\r\n" {
        line.clear();
        reader.read_line(&mut line)?;
        let value = line.strip_prefix("content-length: ").and_then(|text| text.trim().parse().ok());
        length = value.unwrap_or(length);
    }
    reader.read_exact(&mut vec![0; length])?;
    let mut socket = reader.into_inner();
    socket.write_all(first.as_bytes())?;
    loop {
        socket.write_all(again.as_bytes())?;
    }
}

/// Every answer is cut off: answers cost a bounded amount of memory, however many receivers send them.
#[test]
fn answers_that_never_end_take_no_memory() {
    const EACH: usize = 8;
    /// The memory of an answer: 64 KiB are read of its body, as much is kept of its head, and twice that is on
    /// its way. Units: bytes.
    const ANSWER_BYTES_MAX: u64 = 512 * 1024;
    let installation = Installation::init(60, 1_913);
    let switch = installation.serve_with(&LOCAL);
    let api = switch.api();
    let mut paths = Vec::new();
    for (_, first, again) in FLOODS {
        let url = flood((first, again));
        paths.extend((0..EACH).map(|_| endpoint(&api, &url)));
    }
    let before = switch.resident_bytes();
    let mut largest = before;
    buy(&installation, &switch);
    for path in &paths {
        let attempts = format!("{path}/attempts");
        while api.get(&attempts).expect(200)["count"] == 0 {
            largest = largest.max(switch.resident_bytes());
        }
    }
    let grown = largest - before;
    println!("{} answers without an end: {grown} bytes more", paths.len());
    assert!(grown < ANSWER_BYTES_MAX * paths.len() as u64, "{grown} bytes more");
    switch.stop();
}
