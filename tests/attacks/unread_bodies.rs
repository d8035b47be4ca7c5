//! Answers to requests whose bodies nobody reads: a kept connection takes the next request, or was said to end;
//! and a client that is still sending gets the answer, not a reset.

use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;

use cardswitch_harness::{HttpResponse, Installation, Random, Switch, read_response, seed_for};

/// How a body is sent.
#[derive(Clone, Copy, Debug)]
enum Framing {
    Length,
    Chunks,
    /// With a length, head and body in one write.
    Whole,
}

/// A request that is refused before, or however, its body is read.
struct Refusal {
    /// Everything of the head but the framing of the body.
    head: String,
    statuses: &'static [u16],
}

fn refusals(installation: &Installation, poor_token: &str) -> Vec<Refusal> {
    let admin = &installation.credentials.access_token;
    let json = "content-type: application/json";
    let form = "content-type: application/x-www-form-urlencoded";
    let nobody = "0198f2a0-1b2c-7d3e-8f40-5a6b7c8d9e0f";
    let row = |statuses, head: String| Refusal { head, statuses };
    vec![
        row(&[401], format!("POST /v1/cards\n{json}")),
        row(&[401], format!("POST /v1/cards\n{json}\nidempotency-key: a")),
        row(&[401], format!("POST /v1/transactions/{nobody}/receipt\ncontent-type: image/png")),
        row(&[401], format!("POST /network/v1/authorizations\n{json}")),
        row(&[401], format!("POST /network/v1/batch\n{json}")),
        row(&[401], "POST /scim/v2/Users\ncontent-type: application/scim+json".to_owned()),
        row(&[403], format!("POST /v1/members\n{json}\nauthorization: Token {poor_token}")),
        row(&[403], format!("POST /login\n{form}\norigin: http://elsewhere.example")),
        row(&[404], "POST /v1/nothing".to_owned()),
        row(&[404], "PUT /nothing".to_owned()),
        row(
            &[404],
            format!(
                "POST /v1/transactions/{nobody}/receipt\ncontent-type: image/png\nauthorization: Token {admin}"
            ),
        ),
        row(&[405], format!("POST /v1/company\nauthorization: Token {admin}")),
        row(&[405], "PUT /login".to_owned()),
        row(&[400, 413], format!("POST /v1/cards\n{json}\nauthorization: Token {admin}")),
        row(&[400, 401, 413], format!("POST /v1/oauth/token\n{form}")),
        row(&[403, 413], format!("POST /login\n{form}")),
        row(
            &[415],
            format!("POST /v1/cards\ncontent-type: text/plain\nauthorization: Token {admin}"),
        ),
        row(&[200], "POST /healthz".to_owned()),
        row(&[200], "GET /healthz".to_owned()),
        row(&[200], format!("GET /v1/company\nauthorization: Token {admin}")),
    ]
}

fn bytes_of(refusal: &Refusal, framing: Framing, len: usize) -> (Vec<u8>, Vec<u8>) {
    let (line, fields) = refusal.head.split_once('\n').unwrap_or((&refusal.head, ""));
    let mut head = format!("{line} HTTP/1.1\r\nhost: a\r\n");
    for field in fields.lines() {
        head.push_str(&format!("{field}\r\n"));
    }
    let body = vec![b'x'; len];
    match framing {
        Framing::Chunks => {
            head.push_str("transfer-encoding: chunked\r\n\r\n");
            let mut chunks = Vec::new();
            for piece in body.chunks(5_000) {
                chunks.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
                chunks.extend_from_slice(piece);
                chunks.extend_from_slice(b"\r\n");
            }
            (head.into_bytes(), [&chunks[..], b"0\r\n\r\n"].concat())
        }
        Framing::Length | Framing::Whole => {
            head.push_str(&format!("content-length: {len}\r\n\r\n"));
            (head.into_bytes(), body)
        }
    }
}

/// Sends head and body as a client that reads nothing before all is sent, and returns the answer. The
/// stream is left where the next request may follow; none where it was said to end, and has.
fn ask(
    mut stream: TcpStream,
    (head, body): (Vec<u8>, Vec<u8>),
    pieces: &[usize],
) -> (HttpResponse, Option<TcpStream>) {
    let whole = [head, body].concat();
    let mut rest = &whole[..];
    for piece in pieces {
        let (now, later) = rest.split_at((*piece).min(rest.len()));
        stream.write_all(now).expect("a switch that refuses goes on reading");
        thread::yield_now();
        rest = later;
    }
    stream.write_all(rest).expect("a switch that refuses goes on reading");
    let mut reader = BufReader::new(stream);
    let answer = read_response(&mut reader);
    if answer.header("connection") == Some("close") {
        let mut more = Vec::new();
        reader.read_to_end(&mut more).expect("an end, and no reset");
        assert!(more.is_empty(), "something came after the last answer");
        return (answer, None);
    }
    (answer, Some(reader.into_inner()))
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the door is open");
    stream.set_nodelay(true).expect("a socket takes TCP_NODELAY");
    stream
}

/// Every refusal, with bodies of every size, in one segment and in many, on connections that are kept
/// as long as the switch keeps them.
#[test]
fn a_kept_connection_takes_the_next_request_or_was_said_to_end() {
    let installation = Installation::init(1, 871);
    let poor = installation.add_token("");
    let switch = installation.serve_with(&["--token-requests-per-s", "0"]);
    let mut random = Random::new(seed_for("unread_bodies"));
    let (mut kept, mut ended) = (0, 0);
    for refusal in refusals(&installation, &poor) {
        let mut stream = None;
        for len in [0, 1, 10_000, 60_000, 70_000, 200_000, 1 << 20] {
            for framing in [Framing::Length, Framing::Chunks, Framing::Whole] {
                let pieces = match framing {
                    Framing::Whole => vec![],
                    _ => (0..5).map(|_| 1 + random.index(len / 4 + 200)).collect(),
                };
                let shown = format!("{} with {len} bytes by {framing:?}", refusal.head);
                let open = stream.take().unwrap_or_else(|| connect(switch.http));
                let (answer, left) = ask(open, bytes_of(&refusal, framing, len), &pieces);
                assert!(refusal.statuses.contains(&answer.status), "{shown}: {}", answer.status);
                // A body in pieces may come too late on a busy machine.
                let may_end = len > 64 << 10 || !matches!(framing, Framing::Whole);
                assert!(left.is_some() || may_end, "{shown} ended the connection");
                if left.is_some() {
                    kept += 1
                } else {
                    ended += 1
                }
                stream = left;
            }
        }
    }
    assert!(kept > 70 && ended > 100, "{kept} kept, {ended} ended");
    assert_serves(&switch);
}

/// A body that does not come: the answer is there after a moment, and says that the connection ends.
#[test]
fn nobody_waits_for_a_body_that_does_not_come() {
    let installation = Installation::init(1, 872);
    let switch = installation.serve();
    for length in ["content-length: 10", "content-length: 100000000", "transfer-encoding: chunked"]
    {
        for expect in ["", "expect: 100-continue\r\n"] {
            let mut stream = connect(switch.http);
            let head = format!("POST /v1/cards HTTP/1.1\r\nhost: a\r\n{expect}{length}\r\n\r\n");
            stream.write_all(head.as_bytes()).expect("the door reads");
            let mut reader = BufReader::new(stream);
            let answer = read_response(&mut reader);
            assert_eq!(answer.status, 401, "{head}: never a `100 Continue` for what nobody reads");
            assert_eq!(answer.header("connection"), Some("close"), "{head}");
            // Sent into the void, late: nothing of it is taken for a request.
            let late = b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n".repeat(1_000);
            reader.get_mut().write_all(&late).expect("the door goes on reading");
            reader.get_mut().shutdown(Shutdown::Write).expect("still there");
            let mut more = Vec::new();
            reader.read_to_end(&mut more).expect("an end, and no reset");
            assert!(more.is_empty(), "{}", String::from_utf8_lossy(&more));
        }
    }
    assert_serves(&switch);
}

/// A body that breaks the rules of chunks has no end that could be known.
#[test]
fn a_broken_body_ends_its_connection_in_words() {
    let installation = Installation::init(1, 873);
    let switch = installation.serve();
    let token = &installation.credentials.access_token;
    for authorization in [String::new(), format!("authorization: Token {token}\r\n")] {
        let head = format!(
            "POST /v1/cards HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n{authorization}\
             transfer-encoding: chunked\r\n\r\nnonsense\r\n{}",
            "x".repeat(100_000)
        );
        let mut stream = connect(switch.http);
        stream.write_all(head.as_bytes()).expect("the door goes on reading");
        let mut reader = BufReader::new(stream);
        let answer = read_response(&mut reader);
        assert!([400, 401].contains(&answer.status), "{}", answer.status);
        assert_eq!(answer.header("connection"), Some("close"));
        let mut more = Vec::new();
        reader.read_to_end(&mut more).expect("an end, and no reset");
        assert!(more.is_empty(), "{}", String::from_utf8_lossy(&more));
    }
    assert_serves(&switch);
}

#[track_caller]
fn assert_serves(switch: &Switch) {
    assert_eq!(switch.api().get("/v1/company").status, 200);
    assert!(!switch.log().contains("panicked"), "{}", switch.log());
}
