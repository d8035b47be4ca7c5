//! The memory of the switch under clients without credentials: thousands of connections with half heads,
//! and with bodies that nobody asked for. Each attack is held while it is measured, and made twice: the second
//! finds room in the memory that the first has left. And under a client that takes none of its answers.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use cardswitch_harness::{HttpRequest, Installation, Purchase, Switch, crowd};

/// How many connections an attack with heads opens, and how many one with bodies does.
const HEADS: usize = 5_000;
const BODIES: usize = 1_000;
/// The memory that a connection may cost: the longest head, and the state of serving it. Units: bytes.
const CONNECTION_BYTES_MAX: u64 = 28 << 10;
/// How many requests of one address may be at work, and what the body of each may cost while it
/// grows. Units: bytes.
const BODIES_MAX: u64 = 128;
const BODY_BYTES_MAX: u64 = 2 * (64 << 10);
/// The growth of everything else meanwhile. Units: bytes.
const SLACK_BYTES: u64 = 32 << 20;

/// One connection, and how much of its bytes the switch has taken.
struct Peer {
    stream: TcpStream,
    sent: usize,
}

impl Peer {
    fn connect(switch: &Switch) -> Option<Self> {
        let stream = TcpStream::connect(switch.http).ok()?;
        stream.set_nonblocking(true).expect("a socket need not block");
        Some(Self { stream, sent: 0 })
    }

    /// Sends as much as the switch takes now; false where it takes nothing.
    fn send(&mut self, bytes: &[u8]) -> bool {
        match self.stream.write(&bytes[self.sent..]) {
            Ok(written) => {
                self.sent += written;
                written > 0
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(_) => {
                self.sent = bytes.len();
                false
            }
        }
    }
}

struct Attack {
    what: &'static str,
    connections: usize,
    bytes: Vec<u8>,
}

/// Opens connections, sends `bytes` on each as long as the switch takes any, and looks at its memory all
/// the while, until a purchase and a request of somebody else are answered beside them. Returns
/// the most that it had.
fn resident_under(switch: &Switch, installation: &Installation, attack: &Attack) -> u64 {
    let Attack { what, connections, bytes } = attack;
    let mut peers = crowd(switch.http, *connections, |_| Peer::connect(switch));
    let mut most = switch.resident_bytes();
    loop {
        let mut is_taking = false;
        for (place, peer) in peers.iter_mut().enumerate() {
            is_taking |= peer.send(bytes);
            if place % 250 == 0 {
                most = most.max(switch.resident_bytes());
            }
        }
        if !is_taking {
            break;
        }
    }
    let delay = slowest_answer(switch, installation);
    most = most.max(switch.resident_bytes());
    let count = peers.len();
    drop(peers);
    while !switch.watcher().get("/metrics").text().contains("\ncardswitch_http_connections 0\n") {
        std::thread::sleep(Duration::from_millis(20));
    }
    let left = switch.resident_bytes();
    println!(
        "{what}: {count} connections, {} MiB at most, {} MiB left, others waited {delay:?} at most",
        most >> 20,
        left >> 20
    );
    most
}

/// How long others wait at most, of a few purchases and questions about health.
fn slowest_answer(switch: &Switch, installation: &Installation) -> Duration {
    let card = installation.cards.ordinary();
    let mut acquirer = switch.acquirer();
    let asked = (0..50).map(|_| {
        let since = Instant::now();
        let _ = acquirer.ask(&Purchase::of(card, 1).request()).expect_approved();
        assert_eq!(switch.watcher().get("/readyz").status, 200);
        since.elapsed()
    });
    asked.max().unwrap_or_default()
}

/// A head, and so much of its body.
fn request(head: &str, content_length: usize, sent: usize) -> Vec<u8> {
    let head = format!("{head}\r\nhost: a\r\ncontent-length: {content_length}\r\n\r\n");
    [head.into_bytes(), vec![b'x'; sent]].concat()
}

#[test]
fn what_strangers_send_is_kept_within_bounds() {
    let installation = Installation::init(60, 881);
    let switch = installation.serve();
    let half_head = |bytes: usize| {
        let start = b"GET /v1/cards HTTP/1.1\r\nhost: a\r\nx: ".to_vec();
        [start, vec![b'x'; bytes]].concat()
    };
    let form = "content-type: application/x-www-form-urlencoded";
    let receipt = "POST /v1/transactions/0198f2a0-1b2c-7d3e-8f40-5a6b7c8d9e0f/receipt HTTP/1.1";
    let multipart = format!("{receipt}\r\ncontent-type: multipart/form-data; boundary=a");
    let json = "content-type: application/json";
    let (almost, whole) = ((64 << 10) - 1, 64 << 10);
    let heads = |what, bytes| Attack { what, connections: HEADS, bytes };
    let bodies = |what, head: &str, content_length, sent| {
        let bytes = request(head, content_length, sent);
        Attack { what, connections: BODIES, bytes }
    };
    let keyed = format!("POST /v1/cards HTTP/1.1\r\n{json}\r\nidempotency-key: a");
    let attacks = [
        heads("half heads as long as they may be", half_head(16_000)),
        heads("heads of 400 KB", half_head(400_000)),
        bodies("forms", &format!("POST /login HTTP/1.1\r\n{form}"), whole, almost),
        bodies("sign-ins", &format!("POST /v1/oauth/token HTTP/1.1\r\n{json}"), whole, almost),
        bodies("bodies with a key", &keyed, whole, almost),
        bodies("uploads", &multipart, 10 << 20, 256 << 10),
        bodies(
            "batches",
            &format!("POST /network/v1/batch HTTP/1.1\r\n{json}"),
            2 << 20,
            256 << 10,
        ),
    ];
    let before = switch.resident_bytes();
    let heads_bytes = HEADS as u64 * CONNECTION_BYTES_MAX;
    let bound = heads_bytes + BODIES_MAX * BODY_BYTES_MAX + SLACK_BYTES;
    for attack in &attacks {
        for _ in 0..2 {
            let grown = resident_under(&switch, &installation, attack).saturating_sub(before);
            assert!(grown < bound, "{}: {grown} bytes grown, not {bound}", attack.what);
        }
    }
    switch.stop();
}

/// Each answer was in memory as a whole, and once its head was out its request kept no place: an address had as
/// many as connections.
#[test]
fn answers_that_nobody_takes_are_kept_within_bounds() {
    let installation = Installation::init(60, 882);
    let switch = installation.serve();
    let api = switch.api();
    let purchase = Purchase::of(installation.cards.ordinary(), 100);
    let _ = switch.acquirer().ask(&purchase.request()).expect_approved();
    let newest = api.get("/v1/transactions?limit=1").expect(200)["results"][0]["id"].clone();
    let path = format!("/v1/transactions/{}/receipt", newest.as_str().expect("an id"));
    let mut file = b"%PDF-1.7\n".to_vec();
    file.resize(10 << 20, b'x');
    let headers = &[("content-type", "application/pdf")];
    api.send(&HttpRequest { method: "POST", path: &path, headers, body: &file }).expect(201);
    let before = switch.resident_bytes();
    let token = &installation.credentials.access_token;
    let head = format!("GET {path} HTTP/1.1\r\nhost: a\r\nauthorization: Token {token}\r\n\r\n");
    let ask = |_| {
        let mut stream = TcpStream::connect(switch.http).expect("the HTTP door is open");
        stream.write_all(head.as_bytes()).expect("the HTTP door reads");
        let mut status = [0; 12];
        stream.read_exact(&mut status).expect("an answer");
        assert_eq!(&status, b"HTTP/1.1 200");
        stream
    };
    let readers: Vec<TcpStream> = (0..BODIES_MAX).map(ask).collect();
    let grown = switch.resident_bytes().saturating_sub(before);
    println!("{} answers that nobody takes: {} MiB grown", readers.len(), grown >> 20);
    let bound = BODIES_MAX * BODY_BYTES_MAX + SLACK_BYTES;
    assert!(grown < bound, "{grown} bytes grown, not {bound}");
    api.get("/v1/company").expect_error(503);
    drop(readers);
    while api.get("/v1/company").status != 200 {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(api.get(&path).bytes() == file, "who takes the answer gets all of it");
    switch.stop();
}
