//! Readers after the end of their access: polls that wait, event streams and live pages.
//!
//! Access ends in the middle of a wait. The wait ends with it, with nothing else happening, and the reader
//! learns of nothing that happens afterwards. A request whose body comes later than that changes nothing.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use cardswitch_harness::{
    Browser, HttpClient, HttpRequest, HttpResponse, Installation, Switch, hidden_field,
    run_cardswitch, run_cardswitch_reading,
};
use serde_json::{Value, json};

/// How many polls and streams of one company there may be; half of each are opened.
const PLACES: usize = 20;
/// How long a poll asks to wait. Units: seconds.
const WAIT_S: u64 = 30;

/// An answer of which the head has come, and the rest comes as it happens.
struct Stream {
    reader: BufReader<TcpStream>,
}

impl Stream {
    #[track_caller]
    fn open(address: SocketAddr, path: &str, header: &str) -> Self {
        let mut socket = TcpStream::connect(address).expect("the HTTP door is open");
        let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n{header}\r\n\r\n");
        socket.write_all(head.as_bytes()).expect("the HTTP door reads");
        let mut stream = Self { reader: BufReader::new(socket) };
        assert!(stream.line().starts_with("HTTP/1.1 200"), "{path}");
        while !stream.line().is_empty() {}
        stream
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).expect("an answer is text");
        line.trim_end().to_owned()
    }

    /// Reads on until a line begins like this.
    fn read_to(&mut self, beginning: &str) {
        while !self.line().starts_with(beginning) {}
    }

    /// Everything up to the end of the answer: the chunk that is none, or the connection.
    fn rest(mut self) -> String {
        let mut rest = String::new();
        loop {
            let mut line = String::new();
            let read = self.reader.read_line(&mut line).expect("an answer is text");
            if read == 0 || line == "0\r\n" {
                return rest;
            }
            rest.push_str(&line);
        }
    }
}

#[track_caller]
fn buy(installation: &Installation, switch: &Switch) {
    let card = installation.cards.ordinary();
    let body = json!({"card_id": card.card_id, "amount": 1, "merchant": {"mcc": "5812"}});
    let told = switch.network_api().post("/network/v1/authorizations", &body).expect(200);
    assert_eq!(told["approved"], true, "{told:#}");
}

fn streams(switch: &Switch, token: &str) -> Vec<Stream> {
    let header = format!("authorization: Token {token}");
    let open = |_| Stream::open(switch.http, "/v1/events/stream", &header);
    (0..PLACES / 2).map(open).collect()
}

fn polls(switch: &Switch, token: &str) -> Vec<JoinHandle<HttpResponse>> {
    // Behind everything that has happened so far.
    let page = switch.api().get("/v1/events?limit=1000").expect(200);
    let cursor = page["cursor"].as_str().expect("a place").to_owned();
    let poll = |_| {
        let (client, cursor) = (switch.api_with(token), cursor.clone());
        let path = format!("/v1/events?after={cursor}&wait_s={WAIT_S}");
        // The check whether all of them wait takes a place for a moment.
        thread::spawn(move || {
            loop {
                let answer = client.get(&path);
                if answer.status != 429 {
                    return answer;
                }
            }
        })
    };
    (0..PLACES / 2).map(poll).collect()
}

/// Waits until every place of the company is taken: then each poll waits.
fn wait_for_all(api: &HttpClient) {
    while api.get("/v1/events?wait_s=1&limit=0").status != 429 {
        thread::yield_now();
    }
}

/// A switch with an app, and an accountant by whose password the app gets tokens.
struct Office {
    switch: Switch,
    installation: Installation,
    /// The app's credentials, as fields of a form.
    app: String,
}

const BOOKS: &str = "books@example.com";
const PASSWORD: &str = "a-rather-long-passphrase";

impl Office {
    fn open() -> Self {
        let installation = Installation::init(60, 1_901);
        let (data, company) = (installation.data(), &installation.credentials.company_id);
        let data = data.to_str().expect("temporary paths are UTF-8");
        let of_company = ["--data", data, "--company", company, "--json"];
        let app = ["app", "add", "--name", "Books", "--redirect-url", "https://books.example/back"];
        let made = run_cardswitch(&[&app[..], &of_company].concat()).expect_json();
        let text = |key: &str| made[key].as_str().expect("app add prints it").to_owned();
        let app =
            format!("client_id={}&client_secret={}", text("client_id"), text("client_secret"));
        let user = ["user", "add", "--email", BOOKS, "--first-name", "B", "--last-name", "K"];
        let user = [&user[..], &["--role", "accountant", "--password-stdin"], &of_company].concat();
        run_cardswitch_reading(&user, PASSWORD).expect_json();
        let switch = installation.serve();
        Self { switch, installation, app }
    }

    fn post(&self, path: &str, fields: &str) -> HttpResponse {
        let headers = &[("content-type", "application/x-www-form-urlencoded")];
        let body = format!("{}&{fields}", self.app);
        let request = HttpRequest { method: "POST", path, headers, body: body.as_bytes() };
        self.switch.anonymous().send(&request)
    }

    fn token(&self) -> String {
        let fields = format!("grant_type=password&username={BOOKS}&password={PASSWORD}");
        let answer = self.post("/v1/oauth/token", &fields);
        let made: Value = serde_json::from_str(&answer.text()).expect("an answer is JSON");
        made["access_token"].as_str().expect("a token").to_owned()
    }

    /// The path of the accountant.
    fn accountant(&self) -> String {
        let listed = self.switch.api().get("/v1/members?limit=1000").expect(200);
        let rows = listed["results"].as_array().expect("results").clone();
        let row = rows.iter().find(|row| row["email"] == BOOKS).expect("an accountant");
        format!("/v1/members/{}", row["id"].as_str().expect("an id"))
    }

    /// Polls and streams wait with a new token, which ends then; afterwards something happens or not. Returns the
    /// answers to the polls, and the events of the streams.
    fn end_in_the_middle(&self, ending: &Ending, happens: bool) -> (Vec<HttpResponse>, String) {
        let (switch, token) = (&self.switch, self.token());
        let (streams, polls) = (streams(switch, &token), polls(switch, &token));
        wait_for_all(&switch.api());
        let asked = Instant::now();
        (ending.end)(self, &token);
        if happens {
            buy(&self.installation, switch);
        }
        let polls = polls.into_iter().map(|poll| poll.join().expect("an answer")).collect();
        let took = asked.elapsed();
        println!("{}: polls ended after {took:?}", ending.story);
        assert!(took < Duration::from_secs(WAIT_S), "{}: a poll waited to its end", ending.story);
        (polls, streams.into_iter().map(Stream::rest).collect())
    }
}

/// A way in which a token ends.
struct Ending {
    story: &'static str,
    end: fn(&Office, &str),
}

const ENDINGS: [Ending; 4] = [
    Ending {
        story: "an administrator revokes it",
        end: |office, _| {
            let api = office.switch.api();
            let newest = api.get("/v1/access-tokens?limit=1").expect(200)["results"][0].clone();
            assert_eq!(newest["origin"], "password", "{newest:#}");
            let id = newest["id"].as_str().expect("an id");
            api.delete(&format!("/v1/access-tokens/{id}")).expect(204);
        },
    },
    Ending {
        story: "its app gives it back",
        end: |office, token| {
            let told = office.post("/v1/oauth/token/revoke", &format!("access_token={token}"));
            assert_eq!(told.status, 200, "{}", told.text());
        },
    },
    Ending {
        story: "the role of its member falls",
        end: |office, _| {
            let body = json!({"role": "member"});
            office.switch.api().put(&office.accountant(), &body).expect(200);
        },
    },
    Ending {
        story: "its member leaves",
        end: |office, _| {
            office.switch.api().delete(&office.accountant()).expect(204);
        },
    },
];

/// Access was checked before each wait, and the outcome of the wait was told all the same: one event to a reader
/// who had lost access. A wait in which nothing happened went on to its end.
#[test]
fn polls_and_streams_end_with_their_token_and_are_told_nothing_more() {
    for happens in [false, true] {
        for ending in &ENDINGS {
            let office = Office::open();
            let (polls, streams) = office.end_in_the_middle(ending, happens);
            for poll in polls {
                assert_eq!(poll.status, 401, "{}: {}", ending.story, poll.text());
            }
            assert!(!streams.contains("data:"), "{}: {streams}", ending.story);
            let told = office.switch.api().get("/v1/events?wait_s=1&limit=0");
            assert_eq!(told.status, 200, "{}: places are free again", ending.story);
        }
    }
}

/// A page that follows what happens ends with the session of the tab beside it.
#[test]
fn live_pages_end_with_their_session() {
    let installation = Installation::init(60, 1_902);
    let switch = installation.serve();
    let credentials = &installation.credentials;
    for happens in [false, true] {
        let mut browser = Browser::new(switch.http);
        browser.sign_in(&credentials.admin_email, &credentials.admin_password);
        let session = browser.cookie("session").expect("a session").to_owned();
        let cookie = format!("cookie: session={session}");
        let mut page = Stream::open(switch.http, "/overview/live", &cookie);
        page.read_to("data: ");
        assert_eq!(browser.post("/logout", &[]).status, 303);
        if happens {
            buy(&installation, &switch);
        }
        let rest = page.rest();
        assert!(rest.contains("event: end"), "{rest}");
        assert!(!rest.contains("$1.00"), "nothing is told of the purchase: {rest}");
    }
}

/// Begins a request whose body is held back: it is let in, and its body is waited for.
#[track_caller]
fn hold_back(address: SocketAddr, path: &str, fields: &str, body_bytes: usize) -> Stream {
    let mut socket = TcpStream::connect(address).expect("the HTTP door is open");
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\n{fields}\r\n\
         content-length: {body_bytes}\r\nexpect: 100-continue\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).expect("the HTTP door reads");
    let mut answer = Stream { reader: BufReader::new(socket) };
    assert!(answer.line().starts_with("HTTP/1.1 100"));
    assert_eq!(answer.line(), "");
    answer
}

/// The same of a form: the session ends, or the role of its member falls, while the form is on its way.
#[test]
fn a_form_that_was_held_back_changes_nothing_once_a_session_or_a_role_has_ended() {
    let installation = Installation::init(60, 1_904);
    let (company, data) = (&installation.credentials.company_id, installation.data());
    let data = data.to_str().expect("temporary paths are UTF-8");
    let user = ["user", "add", "--email", BOOKS, "--first-name", "B", "--last-name", "K"];
    let of_company =
        ["--role", "accountant", "--password-stdin", "--data", data, "--company", company];
    run_cardswitch_reading(&[&user[..], &of_company[..], &["--json"]].concat(), PASSWORD)
        .expect_json();
    let switch = installation.serve();
    let api = switch.api();
    let before = api.get("/v1/departments").expect(200)["count"].clone();
    let listed = api.get("/v1/members?limit=1000").expect(200);
    let rows = listed["results"].as_array().expect("results").clone();
    let row = rows.iter().find(|row| row["email"] == BOOKS).expect("an accountant");
    let member = format!("/v1/members/{}", row["id"].as_str().expect("an id"));
    type End<'a> = &'a dyn Fn(&mut Browser);
    let ends: [(&str, End<'_>); 2] = [
        ("the session ends", &|browser| assert_eq!(browser.post("/logout", &[]).status, 303)),
        ("the role falls", &|_| drop(api.put(&member, &json!({"role": "member"})).expect(200))),
    ];
    for (story, end) in ends {
        let mut browser = Browser::new(switch.http);
        browser.sign_in(BOOKS, PASSWORD);
        let page = browser.get("/dimensions/departments");
        let csrf = hidden_field(&page.text(), "csrf").expect("a form");
        let body = format!("csrf={csrf}&name=Held+back");
        let session = browser.cookie("session").expect("a session").to_owned();
        let fields = format!(
            "cookie: session={session}\r\norigin: http://{}\r\nsec-fetch-site: same-origin\r\n\
             content-type: application/x-www-form-urlencoded",
            switch.http
        );
        let mut answer = hold_back(switch.http, "/dimensions/departments", &fields, body.len());
        end(&mut browser);
        answer.reader.get_mut().write_all(body.as_bytes()).expect("the HTTP door reads");
        let status = answer.line();
        assert!(status.starts_with("HTTP/1.1 403"), "{story}: {status}");
        assert_eq!(api.get("/v1/departments").expect(200)["count"], before, "{story}");
    }
}

/// Rights are checked by the head of a request. A client that kept the body back made the change later, up to a
/// minute after the token was revoked, or learned from a repeat what was made.
#[test]
fn a_body_that_was_held_back_changes_and_tells_nothing_once_access_has_ended() {
    let installation = Installation::init(60, 1_903);
    let tokens = ["", "idempotency-key: one\r\n"].map(|key| (installation.add_token("admin"), key));
    let switch = installation.serve();
    let api = switch.api();
    let body = r#"{"name": "Held back"}"#;
    for (token, key) in tokens.into_iter().rev() {
        let fields = format!("authorization: Token {token}\r\n{key}content-type: application/json");
        let send = |mut held: Stream| {
            held.reader.get_mut().write_all(body.as_bytes()).expect("the HTTP door reads");
            held.line()
        };
        let hold = || hold_back(switch.http, "/v1/departments", &fields, body.len());
        if !key.is_empty() {
            assert!(send(hold()).starts_with("HTTP/1.1 201"), "what there is to repeat");
        }
        let before = api.get("/v1/departments").expect(200)["count"].clone();
        let held = hold();
        let newest = api.get("/v1/access-tokens?limit=1").expect(200)["results"][0].clone();
        let id = newest["id"].as_str().expect("an id");
        api.delete(&format!("/v1/access-tokens/{id}")).expect(204);
        switch.api_with(&token).get("/v1/company").expect_error(401);
        let status = send(held);
        let made = api.get("/v1/departments").expect(200);
        assert!(status.starts_with("HTTP/1.1 401"), "{key}: {status}: {made:#}");
        assert_eq!(made["count"], before, "{key}: {made:#}");
    }
}
