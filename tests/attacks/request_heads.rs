//! Heads that a proxy and the switch could read in two ways, heads that are too much, bytes that are no
//! text, and bodies whose keys come twice: each is refused in words, and none of them stops anything.

use cardswitch_harness::{
    HttpRequest, HttpResponse, Installation, Random, Switch, campaign_scaled, exchange_raw,
    seed_for,
};

/// A switch that is sent heads as they are.
struct Heads {
    switch: Switch,
    installation: Installation,
}

impl Heads {
    fn new(seed: u64) -> Self {
        let installation = Installation::init(1, seed);
        let switch = installation.serve();
        Self { switch, installation }
    }

    fn token(&self) -> &str {
        &self.installation.credentials.access_token
    }

    /// The only answer to a head of these lines, which ends with its connection.
    #[track_caller]
    fn ask(&self, lines: &[&[u8]]) -> HttpResponse {
        let mut head = lines.join(&b"\r\n"[..]);
        head.extend_from_slice(b"\r\nconnection: close\r\n\r\n");
        self.only_answer(&head)
    }

    #[track_caller]
    fn only_answer(&self, bytes: &[u8]) -> HttpResponse {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
        let answers = exchange_raw(self.switch.http, bytes);
        let mut answers =
            answers.unwrap_or_else(|| unreachable!("a reset instead of an answer: {shown}"));
        assert_eq!(answers.len(), 1, "{shown} is answered {answers:?}");
        answers.remove(0)
    }

    #[track_caller]
    fn assert_unharmed(&self) {
        assert_eq!(self.switch.api().get("/v1/company").status, 200);
        let log = self.switch.log();
        assert!(!log.contains("panicked"), "{log}");
    }
}

const GET: &[u8] = b"GET /v1/company HTTP/1.1";
const HOST: &[u8] = b"host: switch.example";

#[test]
fn a_head_that_can_be_read_in_two_ways_is_refused() {
    let heads = Heads::new(861);
    let token = format!("authorization: Token {}", heads.token());
    let token = token.as_bytes();
    let rows: [(&[&[u8]], u16, &str); 13] = [
        (&[GET, HOST, token], 200, ""),
        (&[b"GET /v1/company HTTP/1.0", token], 200, ""),
        (&[GET, token], 400, "malformed_host"),
        (&[GET, b"host:", token], 400, "malformed_host"),
        (&[GET, b"host: a/b", token], 400, "malformed_host"),
        (&[b"GET http://a/v1/company HTTP/1.1", token], 400, "malformed_host"),
        (&[GET, HOST, HOST, token], 400, "repeated_header"),
        (&[GET, HOST, b"HOST: other.example", token], 400, "repeated_header"),
        (&[GET, HOST, token, token], 400, "repeated_header"),
        (&[GET, HOST, token, b"Authorization: Token x"], 400, "repeated_header"),
        (&[GET, HOST, b"content-type: a/b", b"content-type: a/b", token], 400, "repeated_header"),
        (&[b"GET /healthz HTTP/1.1"], 400, "malformed_host"),
        (&[b"GET /network/v1/clock HTTP/1.1", HOST, HOST], 400, "repeated_header"),
    ];
    for (lines, status, code) in rows {
        let shown = String::from_utf8_lossy(&lines.join(&b'\n')).into_owned();
        let answer = heads.ask(lines);
        assert_eq!(answer.status, status, "{shown}: {}", answer.text());
        if status == 400 {
            assert_eq!(answer.json()["detail"]["code"], code, "{shown}");
        }
    }
    // The address for operators takes no other heads than the API.
    let answers =
        exchange_raw(heads.switch.metrics, b"GET /metrics HTTP/1.1\r\nconnection: close\r\n\r\n");
    assert_eq!(answers.expect("an answer")[0].status, 400);
    heads.assert_unharmed();
}

/// A request smuggled behind such a body would be answered: two answers, not one.
#[test]
fn bodies_whose_end_is_open_to_doubt_smuggle_nothing() {
    const SMUGGLED: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n";
    let heads = Heads::new(862);
    // Fields, what follows them, and the status.
    type Row<'a> = (&'a [&'a [u8]], &'a [u8], u16);
    let rows: [Row<'_>; 11] = [
        // Chunks win, and nothing behind them is taken for a request (RFC 9112, 6.3).
        (&[b"content-length: 5", b"transfer-encoding: chunked"], b"0\r\n\r\n", 401),
        (&[b"transfer-encoding: chunked", b"content-length: 5"], b"0\r\n\r\n", 401),
        (&[b"content-length: 5", b"content-length: 6"], b"", 400),
        (&[b"content-length: 5, 5"], b"", 400),
        (&[b"content-length: +5"], b"", 400),
        (&[b"content-length: -5"], b"", 400),
        (&[b"transfer-encoding: gzip, chunked"], b"0\r\n\r\n", 400),
        (&[b"transfer-encoding: identity", b"transfer-encoding: chunked"], b"0\r\n\r\n", 400),
        (&[b"transfer-encoding: chunked, identity"], b"0\r\n\r\n", 400),
        (&[b"transfer-encoding : chunked"], b"0\r\n\r\n", 400),
        (&[b"x: a", b" folded: b"], b"", 400),
    ];
    for (lines, body, status) in rows {
        let mut bytes = b"POST /v1/cards HTTP/1.1\r\nhost: a\r\n".to_vec();
        bytes.extend_from_slice(&lines.join(&b"\r\n"[..]));
        bytes.extend_from_slice(b"\r\n\r\n");
        bytes.extend_from_slice(body);
        bytes.extend_from_slice(SMUGGLED);
        let answer = heads.only_answer(&bytes);
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        assert_eq!(answer.status, status, "{shown}");
        assert_eq!(answer.header("connection"), Some("close"), "{shown}");
    }
    heads.assert_unharmed();
}

#[test]
fn heads_are_bounded_in_bytes_and_fields() {
    const HEAD_BYTES_MAX: usize = 16 * 1024;
    const FIELDS_MAX: usize = 100;
    let heads = Heads::new(863);
    let head_of = |bytes: usize| {
        let start = b"GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\nx: ".to_vec();
        let filler = vec![b'x'; bytes - start.len() - 4];
        [start, filler, b"\r\n\r\n".to_vec()].concat()
    };
    assert_eq!(heads.only_answer(&head_of(HEAD_BYTES_MAX)).status, 200);
    for bytes in [HEAD_BYTES_MAX + 1, 2 * HEAD_BYTES_MAX, 400_000, 8 << 20] {
        assert_eq!(heads.only_answer(&head_of(bytes)).status, 431, "{bytes} bytes");
    }
    let fields_of = |count: usize| {
        let start = "GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n".to_owned();
        (start + &"x: y\r\n".repeat(count - 2) + "\r\n").into_bytes()
    };
    assert_eq!(heads.only_answer(&fields_of(FIELDS_MAX)).status, 200);
    for count in [FIELDS_MAX + 1, 2_000] {
        assert_eq!(heads.only_answer(&fields_of(count)).status, 431, "{count} fields");
    }
    heads.assert_unharmed();
}

/// Bytes that are no text, wherever a head is parsed for something: refused, never a panic.
#[test]
fn bytes_that_are_no_text_are_refused_in_every_field_that_is_parsed() {
    let heads = Heads::new(864);
    let paths: [&[u8]; 8] = [
        b"GET /v1/company",
        b"GET /v1/events",
        b"POST /v1/cards",
        b"POST /network/v1/authorizations",
        b"POST /v1/oauth/token",
        b"GET /scim/v2/Users",
        b"POST /v1/transactions/0198f2a0-1b2c-7d3e-8f40-5a6b7c8d9e0f/receipt",
        b"GET /login",
    ];
    let fields: [&[u8]; 11] = [
        b"authorization",
        b"content-type",
        b"content-disposition",
        b"cookie",
        b"idempotency-key",
        b"last-event-id",
        b"x-forwarded-for",
        b"accept",
        b"origin",
        b"user-agent",
        b"expect",
    ];
    let values: [(&[u8], bool); 9] = [
        (b"Token a\0b", false),
        (b"\0", false),
        (b"Token \x01\x02", false),
        (b"a\x7fb", false),
        (b"Token \xff\xfe", true),
        (b"Basic \xff\xff", true),
        (b"Basic AAAA", true),
        (b"Basic /////w==", true),
        (b"attachment; filename=\"\xc3\x28\"; filename*=UTF-8''%ff%00", true),
    ];
    for path in paths {
        for field in fields {
            for (value, is_http) in values {
                let line = [field, b": ", value].concat();
                let start = [path, b" HTTP/1.1"].concat();
                let answer = heads.ask(&[&start, HOST, &line]);
                let shown = String::from_utf8_lossy(&[path, b" ", &line].concat()).into_owned();
                let may_pass = is_http && (200..500).contains(&answer.status);
                assert!(answer.status == 400 || may_pass, "{shown}: {}", answer.status);
                assert!(
                    !is_http
                        || field != b"authorization"
                        || answer.status != 200
                        || path.ends_with(b"/login"),
                    "{shown}"
                );
            }
        }
    }
    let answer = heads.ask(&[GET, b"host: \xff"]);
    assert_eq!(answer.json()["detail"]["code"], "malformed_host");
    heads.assert_unharmed();
}

#[test]
fn random_heads_are_answered_or_left_and_harm_nothing() {
    let heads = Heads::new(865);
    let mut random = Random::new(seed_for("random_heads"));
    let good = format!(
        "POST /v1/cards HTTP/1.1\r\nhost: a\r\nauthorization: Token {}\r\nexpect: 100-continue\r\n\
         content-type: application/json\r\ncontent-length: 9\r\nidempotency-key: a\r\n\r\n{{\"a\": 12}}",
        heads.token()
    );
    for _ in 0..campaign_scaled(400, 40_000) {
        let mut bytes = good.clone().into_bytes();
        for _ in 0..=random.index(4) {
            let at = random.index(bytes.len());
            match random.index(3) {
                0 => bytes[at] = random.bytes(1)[0],
                1 => drop(bytes.splice(at..at, b"\r\n".iter().copied())),
                _ => bytes.truncate(at.max(1)),
            }
        }
        let mut stream = std::net::TcpStream::connect(heads.switch.http).expect("the door is open");
        std::io::Write::write_all(&mut stream, &bytes).expect("the door reads");
        stream.shutdown(std::net::Shutdown::Write).expect("the door is still there");
        let mut answer = Vec::new();
        let read = std::io::Read::read_to_end(&mut stream, &mut answer);
        assert!(read.is_ok(), "a reset after {}", String::from_utf8_lossy(&bytes));
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."), "{bytes:?}");
        assert!(!answer.starts_with(b"HTTP/1.1 500"), "{}", String::from_utf8_lossy(&bytes));
    }
    heads.assert_unharmed();
}

/// HTTP/2 is not served: its clients are told so in their own words, and HTTP/1.1 goes on as if they
/// had not asked.
#[test]
fn http2_is_refused_in_words_that_its_clients_understand() {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
    const HTTP_1_1_REQUIRED: u8 = 0x0d;
    let heads = Heads::new(866);
    for address in [heads.switch.http, heads.switch.metrics] {
        let mut stream = std::net::TcpStream::connect(address).expect("the door is open");
        let asked = [PREFACE, SETTINGS, &vec![0; 100_000]].concat();
        std::io::Write::write_all(&mut stream, &asked).expect("the door reads");
        let mut answer = Vec::new();
        std::io::Read::read_to_end(&mut stream, &mut answer).expect("an end, and no reset");
        let goaway = answer.strip_prefix(SETTINGS).expect("SETTINGS come first");
        assert_eq!(goaway[..9], *b"\0\0\x08\x07\0\0\0\0\0", "then GOAWAY");
        assert_eq!(goaway[9..], [0, 0, 0, 0, 0, 0, 0, HTTP_1_1_REQUIRED], "and nothing more");
    }
    let upgrade =
        [&b"GET /healthz HTTP/1.1"[..], HOST, b"upgrade: h2c", b"http2-settings: AAMAAABk"];
    assert_eq!(heads.ask(&upgrade).status, 200, "an offer need not be taken");
    heads.assert_unharmed();
}

/// Two equal keys leave it open which one counts, through any door.
#[test]
fn a_key_that_comes_twice_is_named_and_refused() {
    let installation = Installation::init(1, 867);
    let scim = installation.add_token("scim");
    let switch = installation.serve();
    let card = installation.cards.ordinary();
    let purchase = format!("{{\"pan\": \"{}\", \"amount\": 1, \"amount\": 900}}", card.pan);
    let batch = format!("[{purchase}]");
    let rows = [
        (switch.api(), "/v1/cards", r#"{"description": "a", "description": "b"}"#, "description"),
        (
            switch.api(),
            "/v1/cards",
            r#"{"allowance": {"amount": 1, "\u0061mount": 2}}"#,
            "allowance.amount",
        ),
        (switch.api(), "/v1/cards", r#"{"x": [{"y": {"z": 1, "z": 2}}]}"#, "x.0.y.z"),
        (switch.network_api(), "/network/v1/authorizations", &purchase, "amount"),
        (switch.network_api(), "/network/v1/authorizations/", &purchase, "amount"),
        (switch.network_api(), "/network/v1/batch", &batch, "0.amount"),
        (
            switch.api_with(&scim),
            "/scim/v2/Users",
            r#"{"userName": "a", "userName": "b"}"#,
            "userName",
        ),
    ];
    for (client, path, body, param) in rows {
        let headers = &[("content-type", "application/json")];
        let body = body.as_bytes();
        let answer = client.send(&HttpRequest { method: "POST", path, headers, body });
        assert_eq!(answer.status, 400, "{path}: {}", answer.text());
        assert!(answer.text().contains(&format!("`{param}` must come once")), "{}", answer.text());
    }
    switch.stop();
}
