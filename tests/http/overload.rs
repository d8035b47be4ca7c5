//! Floods and slow clients at a real switch: each is bounded, told so, and harms nobody else; purchases
//! over ISO 8583 are answered all the while.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cardswitch_harness::{
    Acquirer, HookReceiver, HttpClient, Installation, Manner, Purchase, Switch, TestCard,
};
use serde_json::json;

/// How many purchases are sent while something goes on.
const PURCHASES: usize = 300;

fn buy(acquirer: &mut Acquirer, card: &TestCard, count: usize) {
    for _ in 0..count {
        let _ = acquirer.ask(&Purchase::of(card, 1).request()).expect_approved();
    }
}

/// The value of a figure.
#[track_caller]
fn figure(switch: &Switch, name: &str) -> u64 {
    let text = switch.watcher().get("/metrics").text();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    assert!(value.is_some(), "no figure `{name}`");
    value.unwrap_or_default().parse().expect("a number")
}

#[test]
fn a_token_that_floods_is_refused_and_all_others_are_served() {
    let installation = Installation::init(60, 891);
    let other = installation.add_token("");
    let switch = installation.serve_with(&["--token-requests-per-s", "20"]);
    let (is_over, refused) = (AtomicBool::new(false), AtomicU64::new(0));
    let flood = |client: HttpClient| {
        while !is_over.load(Ordering::Relaxed) {
            let answer = client.get("/v1/transactions?limit=1000");
            match answer.status {
                200 => {}
                429 => {
                    assert_eq!(answer.expect_error(429)["code"], "too_many_requests");
                    let wait = answer.header("retry-after").expect("when to come back");
                    assert!((1..=3).contains(&wait.parse::<u32>().expect("seconds")), "{wait}");
                    refused.fetch_add(1, Ordering::Relaxed);
                }
                status => panic!("a flood is answered {status}: {}", answer.text()),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| flood(switch.api()));
        }
        while refused.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        buy(&mut switch.acquirer(), installation.cards.ordinary(), PURCHASES);
        let others = switch.api_with(&other);
        for _ in 0..10 {
            assert_eq!(others.get("/v1/company").status, 200, "another token has its own rate");
        }
        assert_eq!(switch.anonymous().get("/readyz").status, 200);
        is_over.store(true, Ordering::Relaxed);
    });
    let told = figure(&switch, "cardswitch_http_refused_total{why=\"token\"}");
    assert_eq!(told, refused.load(Ordering::Relaxed));
    let log = switch.log();
    assert!(log.contains("a token asks too often"), "{log}");
    assert!(log.lines().count() < 100, "a flood of requests is none of lines");
    switch.stop();
    installation.verify_ok();
}

#[test]
fn a_rate_of_nought_is_none() {
    let installation = Installation::init(1, 892);
    let switch = installation.serve_with(&["--token-requests-per-s", "0"]);
    let api = switch.api();
    assert!((0..200).all(|_| api.get("/v1/company").status == 200));
}

fn connect(address: SocketAddr, bytes: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the door is open");
    stream.write_all(bytes.as_bytes()).expect("the door reads");
    stream
}

/// The bytes of a connection until it ends.
fn rest_of(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    // A connection that is reset has ended, too.
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Half a head, a head without its body, nothing at all: hundreds of each.
#[test]
fn slow_clients_hold_up_nobody_and_are_let_go_of() {
    let installation = Installation::init(60, 893);
    let switch = installation.serve();
    let card = installation.cards.ordinary();
    let body = format!(
        "POST /v1/cards HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n\
         authorization: Token {}\r\ncontent-length: 100\r\n\r\n{{",
        installation.credentials.access_token
    );
    let starts = ["", "GET /v1/cards HTTP/1.1\r\nhost: a\r\nx-slow: ", &body];
    let slow: Vec<(&str, TcpStream)> = (0..300)
        .map(|number| starts[number % 3])
        .map(|start| (start, connect(switch.http, start)))
        .collect();
    while figure(&switch, "cardswitch_http_connections") < 300 {
        std::thread::yield_now();
    }
    buy(&mut switch.acquirer(), card, PURCHASES);
    assert_eq!(switch.api().get("/v1/company").status, 200);
    for (start, stream) in slow {
        let said = rest_of(stream);
        match start {
            "" => assert_eq!(said, "", "silence is answered by silence"),
            body if body.starts_with("POST") => assert!(said.starts_with("HTTP/1.1 408"), "{said}"),
            _ => assert!(said.is_empty() || said.starts_with("HTTP/1.1 408"), "{said}"),
        }
    }
    switch.stop();
}

/// A connection that rests after an answer is let go of as well: its place is somebody else's.
#[test]
fn connections_at_rest_are_closed() {
    let installation = Installation::init(1, 894);
    let switch = installation.serve();
    let stream = connect(switch.http, "GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n");
    let said = rest_of(stream);
    assert!(said.starts_with("HTTP/1.1 200") && said.matches("HTTP/1.1").count() == 1, "{said}");
}

/// A client that asks for much and takes nothing of it is given no more than its socket holds.
#[test]
fn clients_that_take_no_answers_hold_up_nobody() {
    let installation = Installation::init(60, 895);
    let switch = installation.serve_with(&["--token-requests-per-s", "0"]);
    let request = format!(
        "GET /openapi.json HTTP/1.1\r\nhost: a\r\nauthorization: Token {}\r\n\r\n",
        installation.credentials.access_token
    );
    let before = switch.resident_bytes();
    let deaf: Vec<TcpStream> =
        (0..50).map(|_| connect(switch.http, &request.repeat(100))).collect();
    buy(&mut switch.acquirer(), installation.cards.ordinary(), PURCHASES);
    assert_eq!(switch.api().get("/v1/company").status, 200);
    let grown = switch.resident_bytes().saturating_sub(before);
    assert!(grown < 200 << 20, "50 deaf clients cost {grown} bytes");
    drop(deaf);
    switch.stop();
}

/// Has as many endpoints as a company may have told of something, all by one receiver.
fn endpoints_at(switch: &Switch, receiver: &HookReceiver, count: usize) {
    for _ in 0..count {
        let endpoint = json!({"delivery_url": receiver.url(), "description": "held"});
        switch.api().post("/v1/webhook-endpoints", &endpoint).expect(201);
    }
}

/// Every endpoint of a company waits for an answer that never comes, and purchases are answered as
/// long as all of them do.
#[test]
fn receivers_that_never_answer_hold_up_no_purchase() {
    const ENDPOINTS: usize = 100;
    let installation = Installation::init(60, 896);
    let switch = installation.serve_with(&["--allow-local-webhooks"]);
    let card = installation.cards.ordinary();
    let receiver = HookReceiver::start(Manner::Silent);
    endpoints_at(&switch, &receiver, ENDPOINTS);
    let mut acquirer = switch.acquirer();
    buy(&mut acquirer, card, 1);
    receiver.wait_until(|hooks| hooks.len() >= ENDPOINTS);
    buy(&mut acquirer, card, PURCHASES);
    assert_eq!(figure(&switch, "cardswitch_webhook_delivered_total"), 0, "none was answered");
    // Events that are not delivered are still pending.
    while figure(&switch, "cardswitch_webhook_pending_deliveries") < (ENDPOINTS * 100) as u64 {
        std::thread::yield_now();
    }
    assert_eq!(switch.api().get("/v1/company").status, 200);
    switch.stop();
}

/// How long a purchase takes, of so many the one in the middle.
fn median(acquirer: &mut Acquirer, card: &TestCard) -> Duration {
    let mut times: Vec<Duration> = (0..PURCHASES)
        .map(|_| {
            let asked = Instant::now();
            buy(acquirer, card, 1);
            asked.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[PURCHASES / 2]
}

/// Long lists asked for without end, bodies that never come, answers that nobody takes, receivers that
/// say nothing: all at once. They take the machine's time, as any work does, and no turn before a
/// purchase: one that waited behind them would take as long as they do.
#[test]
fn purchases_keep_their_pace_beside_everything_that_is_slow() {
    const SLOWER_MAX: u32 = 50;
    let installation = Installation::init(60, 897);
    let unbounded = ["--allow-local-webhooks", "--token-requests-per-s", "0"];
    let switch = installation.serve_with(&unbounded);
    let card = installation.cards.ordinary();
    let mut acquirer = switch.acquirer();
    // These purchases make the lists long.
    buy(&mut acquirer, card, 1_000);
    let before = median(&mut acquirer, card);
    let receiver = HookReceiver::start(Manner::Silent);
    endpoints_at(&switch, &receiver, 20);
    let token = &installation.credentials.access_token;
    let slow = format!("POST /v1/cards HTTP/1.1\r\nhost: a\r\nauthorization: Token {token}\r\n");
    let slow = format!("{slow}content-length: 100\r\n\r\n{{");
    let deaf = format!("GET /openapi.json HTTP/1.1\r\nhost: a\r\nauthorization: Token {token}");
    let deaf = format!("{deaf}\r\n\r\n").repeat(100);
    let held: Vec<TcpStream> = (0..200)
        .map(|number| connect(switch.http, if number % 4 == 0 { &deaf } else { &slow }))
        .collect();
    let (is_over, lists) = (AtomicBool::new(false), AtomicU64::new(0));
    let after = std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    // Too many at once are told so.
                    let answer = switch.api().get("/v1/transactions?limit=1000");
                    assert!([200, 429, 503].contains(&answer.status), "{}", answer.status);
                    lists.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        while lists.load(Ordering::Relaxed) < 8 {
            std::thread::yield_now();
        }
        let after = median(&mut acquirer, card);
        is_over.store(true, Ordering::Relaxed);
        after
    });
    println!("a purchase takes {before:?} alone, {after:?} beside {} lists", lists.into_inner());
    let bound = before.max(Duration::from_millis(1)) * SLOWER_MAX;
    assert!(after < bound, "{after:?} beside everything that is slow, {before:?} alone");
    drop(held);
    switch.stop();
    installation.verify_ok();
}
