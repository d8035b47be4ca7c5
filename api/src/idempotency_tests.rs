//! Requests with keys against a real engine on a manual clock: once, whatever the handler does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::middleware;
use axum::routing::{get, post};
use cardswitch_edge::error::ApiError;
use cardswitch_edge::idempotency_header::IDEMPOTENCY_KEY;
use cardswitch_edge::token_rate::TokenRate;
use cardswitch_edge::write_error::WriteError;
use cardswitch_engine::clock::Clock;
use cardswitch_engine::command::Command;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::keyed_command::{KeyClaim, KeyedCommand};
use cardswitch_engine::command::reply::{Rejection, Reply};
use cardswitch_engine::directory::access_token::AccessScope;
use cardswitch_engine::directory::card::{CardChanges, CardCommand};
use cardswitch_engine::directory::company::CompanyCommand;
use cardswitch_engine::directory::member::MemberCommand;
use cardswitch_engine::domain::card::CardTexts;
use cardswitch_engine::domain::ids::{
    AccessTokenId, AccountId, CardId, CompanyId, MemberId, Timestamp,
};
use cardswitch_engine::domain::keyed_answer::KeyedContent;
use cardswitch_engine::domain::money::CurrencyCode;
use cardswitch_identity::auth::{Call, check_access};
use cardswitch_identity::idempotency::claim::ClaimFate;
use cardswitch_identity::idempotency::sealed_answer::IDEMPOTENT_REPLAYED;
use cardswitch_identity::idempotency::{Claim, RouteManners, once_per_key};
use cardswitch_identity::state::AppState;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Notify;
use tower::ServiceExt;
use uuid::Uuid;

use crate::router;
use crate::test_world::{TestSwitch, access_token, by_switch, company, new_member};

const COMPANY: CompanyId = CompanyId(Uuid::from_u128(1));
const ADMIN: AccessTokenId = AccessTokenId(Uuid::from_u128(3));
const ADMIN_SCOPE: AccessScope =
    AccessScope { accountant: false, admin: true, scim: false, iam: false };
const START: Timestamp = Timestamp(1_772_654_400_000_000);

/// A switch with one company. Tokens: `admin`, `second`, and `read`, which may not change anything.
struct Bench {
    state: AppState,
    routes: Router,
    _directory: TempDir,
}

/// An answer as a client sees it.
#[derive(Clone, Debug, PartialEq)]
struct ClientAnswer {
    status: u16,
    is_replayed: bool,
    content_type: Option<String>,
    body: String,
}

impl ClientAnswer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    fn code(&self) -> String {
        self.json()["detail"]["code"].as_str().unwrap().to_owned()
    }

    /// The same as `first`, but for the mark of a repeat.
    #[track_caller]
    fn assert_repeats(&self, first: &Self) {
        assert!(self.is_replayed && !first.is_replayed, "{self:?}");
        assert_eq!(*self, Self { is_replayed: true, ..first.clone() });
    }
}

fn request(token: &str, method: &str, path: &str, key: &str, body: &Value) -> Request {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(AUTHORIZATION, format!("Token {token}"))
        .header(CONTENT_TYPE, "application/json");
    if !key.is_empty() {
        request = request.header(IDEMPOTENCY_KEY, key);
    }
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    request.body(body).unwrap()
}

async fn told(routes: &Router, request: Request) -> ClientAnswer {
    let (parts, body) = routes.clone().oneshot(request).await.unwrap().into_parts();
    let header = |name| {
        let value = parts.headers.get(name)?;
        Some(value.to_str().unwrap().to_owned())
    };
    let bytes = axum::body::to_bytes(body, 10_000_000).await.unwrap();
    ClientAnswer {
        status: parts.status.as_u16(),
        is_replayed: header(IDEMPOTENT_REPLAYED).as_deref() == Some("true"),
        content_type: header(CONTENT_TYPE),
        body: String::from_utf8(bytes.to_vec()).unwrap(),
    }
}

impl Bench {
    async fn new() -> Self {
        let token = |text: &str, id: AccessTokenId, admin| {
            let scope = AccessScope { admin, iam: admin, ..AccessScope::default() };
            access_token(id, text, COMPANY, scope)
        };
        let account = AccountId(Uuid::from_u128(2));
        let other = |number| AccessTokenId(Uuid::from_u128(number));
        let commands = vec![
            AdminCommand::Company(CompanyCommand::Create(company(
                COMPANY,
                account,
                CurrencyCode(840),
                100_000,
            ))),
            token("admin", ADMIN, true),
            token("second", other(4), true),
            token("read", other(5), false),
        ];
        let TestSwitch { state, routes, directory, .. } =
            TestSwitch::start(Clock::manual(START), commands).await;
        Self { state, routes, _directory: directory }
    }

    /// Sends a request with the token `admin`.
    async fn send(&self, method: &str, path: &str, key: &str, body: &Value) -> ClientAnswer {
        told(&self.routes, request("admin", method, path, key, body)).await
    }

    async fn card_count(&self) -> Value {
        let listed = self.send("GET", "/v1/cards", "", &Value::Null).await;
        listed.json()["count"].clone()
    }

    fn advance(&self, micros: i64) {
        self.state.switch.engine.clock.advance_to(START.plus(micros));
    }

    /// Other routes under the same keys.
    fn with_routes(&self, routes: Router<AppState>) -> Router {
        let routes = once_per_key(routes, self.state.clone(), RouteManners::V1);
        router::finish(routes.with_state(self.state.clone()), async || ApiError::not_found())
    }
}

fn member(id: u128, email: &str) -> AdminCommand {
    AdminCommand::Member(MemberCommand::Create(new_member(
        MemberId(Uuid::from_u128(id)),
        COMPANY,
        email,
    )))
}

fn card(description: &str) -> Value {
    json!({"allowance": {"amount": 100}, "description": description, "is_virtual": true})
}

#[tokio::test]
async fn a_repeat_gets_the_first_answer_and_changes_nothing() {
    let bench = Bench::new().await;
    let first = bench.send("POST", "/v1/cards", "one", &card("Lunch")).await;
    assert_eq!((first.status, first.is_replayed), (201, false));
    let path = format!("/v1/cards/{}", first.json()["id"].as_str().unwrap());
    bench.send("POST", "/v1/cards/", "one", &card("Lunch")).await.assert_repeats(&first);

    let rename = json!({"description": "Dinner"});
    let renamed = bench.send("PUT", &path, "two", &rename).await;
    assert_eq!((renamed.status, &renamed.json()["description"]), (200, &json!("Dinner")));
    assert_eq!(bench.send("PUT", &path, "", &card("Breakfast")).await.status, 200);
    bench.send("PUT", &path, "two", &rename).await.assert_repeats(&renamed);
    let shown = bench.send("GET", &path, "two", &Value::Null).await;
    assert_eq!(shown.json()["description"], "Breakfast", "a GET shows what is, key or not");
    assert!(!shown.is_replayed);

    let deleted = bench.send("DELETE", &path, "three", &Value::Null).await;
    assert_eq!((deleted.status, deleted.body.as_str()), (204, ""));
    bench.send("DELETE", &path, "three", &Value::Null).await.assert_repeats(&deleted);
    bench.send("POST", "/v1/cards", "one", &card("Lunch")).await.assert_repeats(&first);
    assert_eq!(bench.card_count().await, 1);
}

#[tokio::test]
async fn a_key_belongs_to_one_request_of_one_caller() {
    let bench = Bench::new().await;
    let first = bench.send("POST", "/v1/cards", "one", &card("Lunch")).await;
    let path = format!("/v1/cards/{}", first.json()["id"].as_str().unwrap());
    let same_text = serde_json::to_string_pretty(&card("Lunch")).unwrap();
    let spaced = Request::post("/v1/cards")
        .header(AUTHORIZATION, "Token admin")
        .header(CONTENT_TYPE, "application/json")
        .header(IDEMPOTENCY_KEY, "one")
        .body(Body::from(same_text))
        .unwrap();
    for other in [
        request("admin", "POST", "/v1/cards", "one", &card("Dinner")),
        request("admin", "POST", "/v1/cards?a=b", "one", &card("Lunch")),
        request("admin", "PUT", &path, "one", &card("Lunch")),
        request("admin", "DELETE", &path, "one", &Value::Null),
        spaced,
    ] {
        let told = told(&bench.routes, other).await;
        let is = (told.status, told.code(), told.is_replayed);
        assert_eq!(is, (400, "idempotency_key_reused".to_owned(), false));
    }
    assert_eq!(bench.card_count().await, 1);
    let second = request("second", "POST", "/v1/cards", "one", &card("Lunch"));
    let second = told(&bench.routes, second).await;
    assert_eq!((second.status, second.is_replayed), (201, false), "another caller's key");
    assert_eq!(bench.card_count().await, 2);
}

#[tokio::test]
async fn refusals_are_kept_but_for_those_that_say_nothing_of_the_request() {
    let bench = Bench::new().await;
    let refused = bench.send("POST", "/v1/cards", "one", &json!({"is_virtual": true})).await;
    assert_eq!((refused.status, refused.code().as_str()), (400, "invalid_fields"));
    let again = bench.send("POST", "/v1/cards", "one", &json!({"is_virtual": true})).await;
    again.assert_repeats(&refused);
    let other = bench.send("POST", "/v1/cards", "one", &card("Lunch")).await;
    assert_eq!(other.code(), "idempotency_key_reused", "a refused request is a request");

    let nowhere = format!("/v1/cards/{}", Uuid::from_u128(99));
    let missing = bench.send("DELETE", &nowhere, "two", &Value::Null).await;
    assert_eq!(missing.status, 404);
    bench.send("DELETE", &nowhere, "two", &Value::Null).await.assert_repeats(&missing);

    let forbidden = || request("read", "POST", "/v1/cards", "three", &card("Lunch"));
    let first = told(&bench.routes, forbidden()).await;
    assert_eq!(first.status, 403);
    let again = told(&bench.routes, forbidden()).await;
    assert_eq!((again.status, again.is_replayed), (403, false), "it uses up no key");

    let stranger = || request("nobody", "POST", "/v1/cards", "four", &card("Lunch"));
    for _ in 0..2 {
        let told = told(&bench.routes, stranger()).await;
        assert_eq!((told.status, told.is_replayed), (401, false));
    }
    assert_eq!(bench.send("POST", "/v1/cards", "no key", &card("Lunch")).await.status, 400);
    assert_eq!(bench.card_count().await, 0);
}

#[tokio::test]
async fn a_key_is_free_again_after_a_day() {
    let bench = Bench::new().await;
    let first = bench.send("POST", "/v1/cards", "one", &card("Lunch")).await;
    bench.advance(Timestamp::DAY - 1);
    bench.send("POST", "/v1/cards", "one", &card("Lunch")).await.assert_repeats(&first);
    bench.advance(Timestamp::DAY + Timestamp::SECOND);
    let other = bench.send("POST", "/v1/cards", "one", &card("Dinner")).await;
    assert_eq!((other.status, other.is_replayed), (201, false));
    assert_eq!(bench.card_count().await, 2);
}

/// The claim of a request of the token `admin`, and the request again.
async fn claim_of(bench: &Bench, request: Request) -> (Arc<Claim>, Request) {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 10_000).await.unwrap();
    let key = parts.headers[IDEMPOTENCY_KEY].as_bytes();
    let name = bench.state.secrets.idempotency.name(COMPANY, (ADMIN, ADMIN_SCOPE), key);
    let keys = &bench.state.secrets.idempotency;
    let hash = keys.request_hash(parts.method.as_str(), &parts.uri.to_string(), &body);
    let request = Request::from_parts(parts, Body::from(body));
    (Arc::new(Claim::new(name, hash, &request)), request)
}

/// Carries out a command as a request's handler does, but never answers: as if the process died.
async fn change_without_answer(
    bench: &Bench,
    request: Request,
    command: AdminCommand,
) -> Result<(), WriteError> {
    let (claim, _) = claim_of(bench, request).await;
    by_switch(&bench.state).with_claim(Some(claim)).carry_out(command).await
}

/// Answers as a request's handler does, but keeps nothing of the answer: as if the process died.
async fn answer_unkept(bench: &Bench, request: Request) -> ClientAnswer {
    let (claim, mut request) = claim_of(bench, request).await;
    request.extensions_mut().insert(claim);
    let checked = middleware::from_fn_with_state(bench.state.clone(), check_access);
    let handlers = router::v1_routes().route_layer(checked).with_state(bench.state.clone());
    let handlers = router::finish(handlers, async || ApiError::not_found());
    told(&handlers, request).await
}

#[tokio::test]
async fn whatever_was_changed_is_shown_as_it_would_have_been_answered() {
    let bench = Bench::new().await;
    let made = bench.send("POST", "/v1/cards", "", &card("Lunch")).await.json();
    let ada = json!({"first_name": "Ada", "last_name": "Byron", "email": "ada@example.com"});
    let bea = json!({"first_name": "Bea", "last_name": "Byron", "email": "bea@example.com"});
    let member = bench.send("POST", "/v1/members", "", &ada).await.json();
    let path_of =
        |kind: &str, object: &Value| format!("/v1/{kind}/{}", object["id"].as_str().unwrap());
    let (card_path, member_path) = (path_of("cards", &made), path_of("members", &member));
    let pin_path = format!("{card_path}/pin");
    let allowance_path = path_of("allowances", &made["allowance"]);
    let of_member = json!({"amount": 5, "description": "Books", "member": {"id": member["id"]}});
    let rows = [
        ("POST", "/v1/cards", card("a"), 201),
        ("POST", "/v1/cards/bulk", json!({"cards": [card("b"), card("c")]}), 201),
        ("PUT", card_path.as_str(), json!({"description": "d"}), 200),
        ("PUT", pin_path.as_str(), json!({"pin": "1234"}), 200),
        ("PUT", allowance_path.as_str(), json!({"amount": 7.5}), 200),
        ("POST", "/v1/members", bea, 201),
        ("PUT", member_path.as_str(), json!({"first_name": "Adele"}), 200),
        ("POST", "/v1/categories", json!({"name": "Travel"}), 201),
        ("POST", "/v1/departments", json!({"name": "Sales"}), 201),
        ("POST", "/v1/labels", json!({"name": "Urgent"}), 201),
        ("POST", "/v1/locations", json!({"name": "Berlin"}), 201),
        ("POST", "/v1/requisitions", of_member, 201),
        ("POST", "/v1/shared-links", json!({"card": {"id": made["id"]}}), 201),
        ("PUT", "/v1/company", json!({"sso": null}), 200),
        ("DELETE", member_path.as_str(), Value::Null, 204),
        ("DELETE", card_path.as_str(), Value::Null, 204),
    ];
    for (place, (method, path, body, status)) in rows.into_iter().enumerate() {
        let key = format!("row-{place}");
        let ask = || request("admin", method, path, &key, &body);
        let first = answer_unkept(&bench, ask()).await;
        assert_eq!(first.status, status, "{method} {path}: {}", first.body);
        told(&bench.routes, ask()).await.assert_repeats(&first);
    }
}

#[tokio::test]
async fn a_change_that_was_never_answered_is_answered_with_what_it_made() {
    let bench = Bench::new().await;
    let made = bench.send("POST", "/v1/cards", "", &card("Lunch")).await;
    let id = made.json()["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/cards/{id}");
    let rename = json!({"description": "Dinner"});
    let put = |key: &str| request("admin", "PUT", &path, key, &rename);
    let changes = CardChanges {
        texts: CardTexts { description: Some("Dinner".parse().unwrap()), ..CardTexts::default() },
        ..CardChanges::default()
    };
    let card_id = CardId(id.parse().unwrap());
    let command = AdminCommand::Card(CardCommand::Update(COMPANY, card_id, changes));
    change_without_answer(&bench, put("one"), command.clone()).await.unwrap();
    let taken = change_without_answer(&bench, put("one"), command).await;
    assert_eq!(taken, Err(WriteError::Rejected(Rejection::KeyTaken)));

    let first = told(&bench.routes, put("one")).await;
    assert_eq!((first.status, first.is_replayed), (200, true));
    assert_eq!(first.json()["description"], "Dinner");
    bench.send("PUT", &path, "", &json!({"description": "Supper"})).await;
    let again = told(&bench.routes, put("one")).await;
    assert_eq!(again, first, "once it was shown, it stays");

    let delete = || request("admin", "DELETE", &path, "two", &Value::Null);
    let command = AdminCommand::Card(CardCommand::Terminate(COMPANY, card_id));
    change_without_answer(&bench, delete(), command).await.unwrap();
    let deleted = told(&bench.routes, delete()).await;
    assert_eq!((deleted.status, deleted.is_replayed, deleted.body.as_str()), (204, true, ""));
}

#[tokio::test]
async fn what_was_made_is_shown_where_it_was_posted() {
    let bench = Bench::new().await;
    let routes = Router::new()
        .route("/v1/members", post(|| async { StatusCode::IM_A_TEAPOT }))
        .route("/v1/members/{id}", get(|uri: axum::http::Uri| async move { uri.to_string() }));
    let routes = bench.with_routes(routes);
    let ask = |key: &str| request("admin", "POST", "/v1/members", key, &Value::Null);
    change_without_answer(&bench, ask("one"), member(7, "a@example.com")).await.unwrap();
    let shown = told(&routes, ask("one")).await;
    let path = format!("/v1/members/{}", Uuid::from_u128(7));
    assert_eq!((shown.status, shown.body), (201, path));
    // Here nothing shows a member, as when it is gone since.
    change_without_answer(&bench, ask("two"), member(8, "b@example.com")).await.unwrap();
    let routes = Router::new().route("/v1/members", post(|| async { StatusCode::IM_A_TEAPOT }));
    let shown = told(&bench.with_routes(routes), ask("two")).await;
    assert_eq!((shown.status, shown.body.as_str()), (201, "{}"));
}

#[tokio::test]
async fn several_that_were_made_are_shown_in_one_list() {
    let bench = Bench::new().await;
    let (mut paths, mut bodies) = (Vec::new(), Vec::new());
    for name in ["a", "b"] {
        let made = bench.send("POST", "/v1/cards", "", &card(name)).await;
        paths.push(format!("/v1/cards/{}", made.json()["id"].as_str().unwrap()));
        bodies.push(made.body);
    }
    let body = json!({"cards": []});
    let ask = || request("admin", "POST", "/v1/cards", "one", &body);
    let keys = &bench.state.secrets.idempotency;
    let claim = KeyClaim {
        key: keys.name(COMPANY, (ADMIN, ADMIN_SCOPE), b"one"),
        request: keys.request_hash("POST", &ask().uri().to_string(), body.to_string().as_bytes()),
        status: 201,
        content: KeyedContent::Object { path: format!("results:{}", paths.join(",")) },
    };
    let command = Command::Keyed(Box::new(KeyedCommand { claim, change: None, note: None }));
    let Ok(Reply::Done(seq)) = bench.state.switch.ask(command.into()).await else {
        unreachable!("the key is free")
    };
    assert!(bench.state.switch.visible(seq).await);
    let shown = told(&bench.routes, ask()).await;
    let expected = format!("{{\"results\":[{}]}}", bodies.join(","));
    assert_eq!((shown.status, shown.is_replayed, shown.body), (201, true, expected));
}

#[tokio::test]
async fn a_claim_rides_beside_the_command_that_succeeds() {
    let bench = Bench::new().await;
    by_switch(&bench.state).carry_out(member(7, "a@example.com")).await.unwrap();
    let post = request("admin", "POST", "/v1/members", "one", &Value::Null);
    let claim = Arc::new(Claim::new([1; 32], [2; 32], &post));
    let state = by_switch(&bench.state).with_claim(Some(Arc::clone(&claim)));
    assert!(state.carry_out(member(7, "b@example.com")).await.is_err(), "the id is taken");
    assert!(state.carry_out(member(8, "a@example.com")).await.is_err(), "the address is");
    state.carry_out(member(9, "c@example.com")).await.unwrap();
    state.carry_out(member(10, "d@example.com")).await.unwrap();
    assert_eq!(claim.fate(), ClaimFate::Made);
    let row = state.switch.read(|snapshot| snapshot.keyed_answer(&[1; 32])).await.unwrap();
    let row = row.unwrap();
    let path = format!("/v1/members/{}", Uuid::from_u128(9));
    assert_eq!((row.status, row.content), (201, KeyedContent::Object { path }));
}

/// A handler that counts how often it is called and answers with a status of its own.
fn counting(calls: &Arc<AtomicU32>, status: u16) -> Router<AppState> {
    let calls = Arc::clone(calls);
    let handler = move || async move {
        let call = calls.fetch_add(1, Ordering::SeqCst);
        (StatusCode::from_u16(status).unwrap(), call.to_string())
    };
    Router::new().route("/v1/cards", post(handler))
}

#[tokio::test]
async fn failures_are_kept_and_what_may_pass_is_not() {
    let bench = Bench::new().await;
    let rows = [(200, true), (409, true), (500, true), (401, false), (429, false), (503, false)];
    for (status, is_kept) in rows {
        let calls = Arc::default();
        let routes = bench.with_routes(counting(&calls, status));
        let key = format!("status-{status}");
        let ask = || request("admin", "POST", "/v1/cards", &key, &Value::Null);
        let (first, second) = (told(&routes, ask()).await, told(&routes, ask()).await);
        assert_eq!((first.status, first.body.as_str()), (status, "0"));
        if is_kept {
            second.assert_repeats(&first);
        } else {
            assert_eq!((second.body.as_str(), second.is_replayed), ("1", false), "{status}");
        }
        assert_eq!(calls.load(Ordering::SeqCst), if is_kept { 1 } else { 2 }, "{status}");
    }
}

/// Repeats cost the switch a request each: without a bound of their own they were a way around it.
#[tokio::test]
async fn a_repeat_counts_as_a_request() {
    let mut bench = Bench::new().await;
    bench.state.token_rate = Arc::new(TokenRate::per_second(1));
    let routes = bench.with_routes(counting(&Arc::default(), 200));
    let ask = || request("admin", "POST", "/v1/cards", "one", &Value::Null);
    // Two at once: the first, and one repeat.
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(told(&routes, ask()).await.status);
    }
    assert_eq!(statuses, [200, 200, 429, 429]);
}

/// One repeat shows as many cards as were made at once. Each of them counted, so that the repeat was
/// refused however long its caller waited.
#[tokio::test]
async fn a_repeat_counts_once_however_much_it_shows() {
    let mut bench = Bench::new().await;
    let cards: Vec<_> = (0..20).map(|number| card(&number.to_string())).collect();
    let body = json!({"cards": cards});
    let ask = || request("admin", "POST", "/v1/cards/bulk", "one", &body);
    let first = answer_unkept(&bench, ask()).await;
    assert_eq!(first.status, 201, "{}", first.body);
    bench.state.token_rate = Arc::new(TokenRate::per_second(1));
    let guarded = router::v1_routes()
        .route_layer(middleware::from_fn_with_state(bench.state.clone(), check_access));
    let routes = bench.with_routes(guarded);
    // The clock of a rate is the machine's: two at once, and this is one.
    told(&routes, ask()).await.assert_repeats(&first);
}

/// Once, each key kept its refusal for a day, up to 1 MiB long: 50 KB that were sent left 0.4 MB on the disk, twice.
#[tokio::test]
async fn a_long_refusal_is_not_kept_and_a_short_one_is() {
    let bench = Bench::new().await;
    let wrong = |count: usize| json!({"cards": vec![json!({"spend_limit": "?"}); count]});
    for (key, count, is_kept) in [("short", 1, true), ("long", 100, false)] {
        let first = bench.send("POST", "/v1/cards/bulk", key, &wrong(count)).await;
        assert_eq!(first.status, 400, "{}", first.body);
        assert_eq!(first.body.len() <= 16 << 10, is_kept, "{} bytes", first.body.len());
        let again = bench.send("POST", "/v1/cards/bulk", key, &wrong(count)).await;
        assert_eq!((again.status, again.is_replayed), (400, is_kept), "{key}");
    }
}

/// A request that changed nothing kept its whole answer: a search of 200 bytes left a megabyte.
#[tokio::test]
async fn a_long_answer_is_kept_only_for_a_change() {
    let bench = Bench::new().await;
    let metadata = format!("<a>{}</a>", "x".repeat(20_000));
    let sso = json!({"sso": {"domain": "example.com", "idp_metadata": metadata}});
    for (key, body, is_kept) in [("set", &sso, true), ("unchanged", &json!({}), false)] {
        let first = bench.send("PUT", "/v1/company", key, body).await;
        assert_eq!(first.status, 200, "{}", first.body);
        assert!(first.body.len() > 16 << 10, "{} bytes prove nothing", first.body.len());
        let again = bench.send("PUT", "/v1/company", key, body).await;
        assert_eq!((again.status, again.is_replayed), (200, is_kept), "{key}");
    }
}

#[tokio::test]
async fn a_handler_that_panics_after_its_change_is_not_called_again() {
    let bench = Bench::new().await;
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let handler = async move |Call(state, _): Call| {
        counted.fetch_add(1, Ordering::SeqCst);
        state.carry_out(member(7, "a@example.com")).await.unwrap();
        panic!("after the change");
        #[expect(unreachable_code, reason = "tells the type of the answer")]
        StatusCode::OK
    };
    let routes = bench.with_routes(Router::new().route("/v1/members", post(handler)));
    let ask = || request("admin", "POST", "/v1/members", "one", &Value::Null);
    let first = told(&routes, ask()).await;
    assert_eq!((first.status, first.code().as_str()), (500, "internal"));
    told(&routes, ask()).await.assert_repeats(&first);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_key_under_way_is_refused_and_hanging_up_does_not_free_it() {
    let bench = Bench::new().await;
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, wait) = (Arc::clone(&begun), Arc::clone(&go));
    let handler = move || async move {
        tell.notify_one();
        wait.notified().await;
        "done"
    };
    let routes = bench.with_routes(Router::new().route("/v1/cards", post(handler)));
    let ask = || request("admin", "POST", "/v1/cards", "one", &Value::Null);
    let first = tokio::spawn({
        let (routes, ask) = (routes.clone(), ask());
        async move { told(&routes, ask).await }
    });
    begun.notified().await;
    first.abort();
    assert!(first.await.is_err(), "the client has hung up");
    let meanwhile = told(&routes, ask()).await;
    assert_eq!((meanwhile.status, meanwhile.code().as_str()), (409, "idempotency_key_in_flight"));
    go.notify_one();
    let answer = loop {
        let told = told(&routes, ask()).await;
        if told.status != 409 {
            break told;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!((answer.status, answer.body.as_str(), answer.is_replayed), (200, "done", true));
}

#[tokio::test]
async fn many_at_once_with_one_key_make_one_card() {
    let bench = Bench::new().await;
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let routes = bench.routes.clone();
            let ask = request("admin", "POST", "/v1/cards", "one", &card("Lunch"));
            tokio::spawn(async move { told(&routes, ask).await })
        })
        .collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.unwrap());
    }
    let made: Vec<_> = answers.iter().filter(|told| told.status == 201).collect();
    assert!(!made.is_empty() && made.iter().all(|told| told.body == made[0].body));
    assert_eq!(made.iter().filter(|told| !told.is_replayed).count(), 1);
    let others = answers.iter().filter(|told| told.status != 201);
    assert!(others.into_iter().all(|told| told.code() == "idempotency_key_in_flight"));
    assert_eq!(bench.card_count().await, 1);
}
