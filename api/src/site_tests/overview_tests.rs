//! The overview against a real engine: what each role sees of it, what is counted, and the stream that
//! follows it.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, header};
use cardswitch_edge::client_address::ClientAddress;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::member::{MemberChanges, MemberCommand, MemberRole};
use cardswitch_engine::domain::ids::{CompanyId, MemberId};
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;
use uuid::Uuid;

use super::roles_world::{BOOKS, HOLDER, REVIEWER, ROOT, stage, visit};
use super::site_world::{OTHER_EMAIL, bench, sign_in};
use super::visitor_tests::Visitor;
use crate::bench::{Bench, COMPANY, amount};
use crate::test_world::by_switch;

/// How long a message is waited for: far longer than any takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A stream that is being read.
struct Stream {
    body: Body,
}

impl Stream {
    /// Asks for the stream with the cookies of a visitor.
    async fn open(bench: &Bench, visitor: &Visitor<'_>) -> Result<Self, u16> {
        let cookies: Vec<_> =
            visitor.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let request = Request::get("/overview/live")
            .extension(ClientAddress("203.0.113.7".parse().unwrap()))
            .header(header::COOKIE, cookies.join("; "))
            .body(Body::empty());
        let response = bench.routes.clone().oneshot(request.unwrap()).await.unwrap();
        match response.status().as_u16() {
            200 => {
                assert_eq!(response.headers()["content-type"], "text/event-stream");
                assert_eq!(response.headers()["cache-control"], "no-store");
                Ok(Self { body: response.into_body() })
            }
            status => Err(status),
        }
    }

    /// The next message; none at the end.
    async fn next(&mut self) -> Option<String> {
        let frame = tokio::time::timeout(PATIENCE, self.body.frame()).await.unwrap();
        let frame = frame.map(|frame| frame.unwrap().into_data().unwrap());
        frame.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
    }

    /// The next message that has figures.
    async fn figures(&mut self) -> Value {
        loop {
            let message = self.next().await.unwrap();
            if let Some(json) = message.strip_prefix("data: ") {
                return serde_json::from_str(json).unwrap();
            }
        }
    }

    /// Reads to the end and returns what was said last.
    async fn last_words(mut self) -> String {
        let mut last = String::new();
        while let Some(message) = self.next().await {
            last = message;
        }
        last
    }
}

fn text<'a>(figures: &'a Value, name: &str) -> &'a str {
    let texts = figures["texts"].as_array().unwrap();
    texts.iter().find(|pair| pair[0] == name).unwrap()[1].as_str().unwrap()
}

#[tokio::test]
async fn the_start_page_shows_each_role_what_is_theirs() {
    let (bench, card) = stage().await;
    assert!(bench.authorize(&card, amount(2_050)).await);
    assert!(!bench.authorize(&card, amount(10_001)).await);
    for email in [ROOT, BOOKS] {
        let page = visit(&bench, email).await.get("/overview").await.expect(200);
        for words in [
            "Authorized today",
            "$20.50",
            "Over the per-transaction limit",
            "1503",
            "data-day=\"2026-03-04\"",
        ] {
            assert!(page.body.contains(words), "{email} {words}: {}", page.body);
        }
        assert!(page.body.contains("50.0% of today’s attempts"), "{email}");
        let policy = page.header("content-security-policy");
        assert!(policy.contains("script-src 'self';") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(page.body.matches("data-day=").count(), 30);
    }
    let page = visit(&bench, HOLDER).await.get("/overview").await.expect(200);
    assert!(page.body.contains("Travel") && page.body.contains("$479.50"), "{}", page.body);
    assert!(!page.body.contains("data-live"), "figures of the company are not for everybody");
    let page = visit(&bench, REVIEWER).await.get("/overview").await.expect(200);
    assert!(!page.body.contains("Travel") && !page.body.contains("$20.50"));
    let sent = Visitor::new(&bench).get("/overview").await.expect(303);
    assert_eq!(sent.location(), "/login");
}

#[tokio::test]
async fn who_is_a_member_of_nothing_begins_at_the_account() {
    let bench = bench().await;
    let mut stranger = sign_in(&bench, OTHER_EMAIL).await;
    assert_eq!(stranger.get("/overview").await.expect(303).location(), "/account");
}

#[tokio::test]
async fn the_stream_tells_what_happens_and_ends_with_the_session() {
    let (bench, card) = stage().await;
    let mut root = visit(&bench, ROOT).await;
    let mut stream = Stream::open(&bench, &root).await.unwrap();
    let mut other = Stream::open(&bench, &visit(&bench, BOOKS).await).await.unwrap();
    let first = stream.figures().await;
    assert_eq!(text(&first, "approved-today"), "0");
    // By the company's clock, whatever clock and zone the browser has.
    assert_eq!(text(&first, "taken-at"), "4 Mar 2026, 12:00:00");
    let page = root.get("/overview").await.expect(200);
    assert!(page.body.contains("As of 4 Mar 2026, 12:00:00."), "{}", page.body);
    assert!(bench.authorize(&card, amount(2_050)).await);
    for watching in [&mut stream, &mut other] {
        loop {
            let figures = watching.figures().await;
            if text(&figures, "approved-today") == "1" {
                assert_eq!(text(&figures, "authorized-today"), "$20.50");
                assert!(figures["rows"].to_string().contains("Luigi"));
                break;
            }
        }
    }
    root.get("/overview").await;
    root.post("/logout", &[]).await.expect(303);
    // Nothing has to happen for that.
    assert_eq!(stream.last_words().await, "event: end\ndata: {}\n\n");
    // The switch stops: streams end of themselves.
    bench.overviews.close();
    other.last_words().await;
    assert_eq!(Stream::open(&bench, &visit(&bench, BOOKS).await).await.err(), Some(429));
}

#[tokio::test]
async fn streams_are_for_who_sees_the_company_and_end_when_that_ends() {
    let (bench, _) = stage().await;
    for (email, status) in [(HOLDER, 403), (REVIEWER, 403)] {
        let visitor = visit(&bench, email).await;
        assert_eq!(Stream::open(&bench, &visitor).await.err(), Some(status), "{email}");
    }
    assert_eq!(Stream::open(&bench, &Visitor::new(&bench)).await.err(), Some(303));
    let (company, member) = (CompanyId(COMPANY), MemberId(Uuid::from_u128(0x101)));
    let update = |role| {
        let changes = MemberChanges { role: Some(role), ..MemberChanges::default() };
        AdminCommand::Member(MemberCommand::Update(company, member, changes))
    };
    let endings =
        [update(MemberRole::Member), AdminCommand::Member(MemberCommand::Delete(company, member))];
    for ending in endings {
        by_switch(&bench.state).carry_out(update(MemberRole::Accountant)).await.unwrap();
        let mut stream = Stream::open(&bench, &visit(&bench, BOOKS).await).await.unwrap();
        stream.figures().await;
        by_switch(&bench.state).carry_out(ending).await.unwrap();
        assert_eq!(stream.last_words().await, "event: end\ndata: {}\n\n");
    }
}

#[tokio::test]
async fn tabs_of_one_user_are_bounded_and_closed_ones_make_room() {
    let (bench, _) = stage().await;
    let root = visit(&bench, ROOT).await;
    let mut streams = Vec::new();
    let refused = loop {
        match Stream::open(&bench, &root).await {
            Ok(stream) => streams.push(stream),
            Err(status) => break status,
        }
    };
    assert_eq!((refused, streams.len()), (429, 6));
    assert!(Stream::open(&bench, &visit(&bench, BOOKS).await).await.is_ok(), "others have room");
    drop(streams);
    // The task that writes notices a client that hung up; there is nothing else to wait for.
    while Stream::open(&bench, &root).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A reviewer's own requests were counted among those that waited for their review.
#[tokio::test]
async fn reviewers_are_told_of_requests_that_they_may_review() {
    let (bench, _) = stage().await;
    let ask = async |email| {
        let mut visitor = visit(&bench, email).await;
        let wish = [("description", "Chairs"), ("amount", "120.50")];
        visitor.fill("/requisitions/new", &wish).await.expect(303);
    };
    ask(REVIEWER).await;
    let shown = async |email| visit(&bench, email).await.get("/overview").await.expect(200).body;
    assert!(!shown(REVIEWER).await.contains("for review"));
    ask(HOLDER).await;
    assert!(shown(REVIEWER).await.contains("1 request</a> is waiting for review"));
    ask(ROOT).await;
    assert!(shown(ROOT).await.contains("3 requests</a> are waiting for review"));
}
