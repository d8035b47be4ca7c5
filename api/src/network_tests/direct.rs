//! The direct way against the router: the same requests, answered in the same words.

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::request::{Builder, Request};
use axum::response::Response;
use cardswitch_edge::input::BODY_BYTES_MAX;
use cardswitch_network::http::{answer_directly, is_direct};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::world::{Card, DoorBench, purchase};

/// A request, to be made twice.
struct RepeatedRequest {
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: String,
}

impl RepeatedRequest {
    fn to(path: &str, body: impl Into<String>) -> Self {
        let headers = [("authorization", "Bearer key"), ("content-type", "application/json")];
        Self {
            method: "POST",
            path: format!("/network/v1/{path}"),
            headers: headers.map(|(name, value)| (name, value.to_owned())).into(),
            body: body.into(),
        }
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.retain(|(other, _)| *other != name);
        self.headers.push((name, value.into()));
        self
    }

    fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(other, _)| *other != name);
        self
    }

    fn request(&self) -> Request<Body> {
        let request = Request::builder().method(self.method).uri(&self.path);
        let add = |request: Builder, (name, value): &(&str, String)| request.header(*name, value);
        self.headers.iter().fold(request, add).body(Body::from(self.body.clone())).unwrap()
    }
}

/// Status, headers and body of an answer, without what no two answers share and what the server adds.
async fn answer_of(response: Response) -> (u16, Vec<(String, String)>, Value) {
    let (parts, body) = response.into_parts();
    let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
    let mut headers: Vec<_> =
        parts.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    headers.retain(|(name, _)| !["request-id", "content-length"].contains(&name.as_str()));
    headers.sort();
    assert!(parts.headers.contains_key("request-id"));
    let bytes = axum::body::to_bytes(body, 10_000_000).await.unwrap();
    let mut body: Value = serde_json::from_slice(&bytes).unwrap();
    if let Some(object) = body.as_object_mut() {
        object.remove("transaction_id");
        object.remove("authorization_id");
    }
    (parts.status.as_u16(), headers, body)
}

#[tokio::test]
async fn the_direct_way_answers_in_the_words_of_the_router() {
    let bench = DoorBench::new().await;
    let card = bench.card(1_000).await;
    let verification = || purchase(&card, json!(0)).to_string();
    let unknown = Card { number: "5500000000000004".into(), ..bench.card(1).await };
    let key = |len: usize| "k".repeat(len);
    let rows = [
        (RepeatedRequest::to("authorizations", verification()), 200),
        (RepeatedRequest::to("authorizations?x=1", verification()), 200),
        (
            RepeatedRequest::to("authorizations", verification()).with("idempotency-key", "once"),
            200,
        ),
        (RepeatedRequest::to("authorizations", "{}").with("idempotency-key", "once"), 400),
        (
            RepeatedRequest::to("authorizations", verification()).with("idempotency-key", key(255)),
            200,
        ),
        (
            RepeatedRequest::to("authorizations", verification()).with("idempotency-key", key(256)),
            400,
        ),
        (RepeatedRequest::to("authorizations", purchase(&unknown, json!(1)).to_string()), 200),
        (RepeatedRequest::to("authorizations", purchase(&card, json!("ten")).to_string()), 400),
        (RepeatedRequest::to("authorizations", "[]"), 400),
        (RepeatedRequest::to("authorizations", "{"), 400),
        (RepeatedRequest::to("authorizations", ""), 400),
        (RepeatedRequest::to("authorizations", " ".repeat(BODY_BYTES_MAX + 1)), 413),
        (RepeatedRequest::to("authorizations", " ".repeat(BODY_BYTES_MAX)), 400),
        (RepeatedRequest::to("authorizations", verification()).without("content-type"), 415),
        (
            RepeatedRequest::to("authorizations", verification())
                .with("content-type", "text/plain"),
            415,
        ),
        (RepeatedRequest::to("authorizations", verification()).without("authorization"), 401),
        (RepeatedRequest::to("authorizations", "{").with("authorization", "Bearer no"), 401),
        (
            RepeatedRequest::to("reversals", json!({"card_id": card.id, "rrn": "1"}).to_string()),
            200,
        ),
        (
            RepeatedRequest::to(
                "reversals",
                r#"{"transaction_id": "01890000-0000-7000-8000-000000000000"}"#,
            ),
            404,
        ),
        (RepeatedRequest::to("advices", "{}"), 400),
        (RepeatedRequest::to("presentments", "{}"), 400),
        (RepeatedRequest::to("refunds", "{}"), 400),
    ];
    for (sent, status) in rows {
        assert!(is_direct(&sent.request()), "{}", sent.path);
        let routed = bench.routes.clone().oneshot(sent.request()).await.unwrap();
        let routed = answer_of(routed).await;
        let direct =
            answer_of(answer_directly(&bench.state.network_door(), sent.request()).await).await;
        assert_eq!((direct.0, &direct), (status, &routed), "{} {:?}", sent.path, sent.headers);
    }
    for path in ["batch", "clock", "authorizations/", "authorizations/x", "nothing"] {
        assert!(!is_direct(&RepeatedRequest::to(path, "").request()), "{path}");
    }
    let read = RepeatedRequest { method: "GET", ..RepeatedRequest::to("authorizations", "") };
    assert!(!is_direct(&read.request()));
}
