//! Idempotency keys as clients use them: parallel requests, restarts, kills, and a day that passes.

use std::thread;

use cardswitch_harness::{HttpClient, HttpRequest, HttpResponse, Installation, minor};
use serde_json::{Value, json};

/// Sends a request under a key.
#[track_caller]
fn send(client: &HttpClient, method: &str, path: &str, key: &str, body: &Value) -> HttpResponse {
    let headers = &[("content-type", "application/json"), ("idempotency-key", key)];
    let body = if body.is_null() { String::new() } else { body.to_string() };
    client.send(&HttpRequest { method, path, headers, body: body.as_bytes() })
}

fn is_replayed(response: &HttpResponse) -> bool {
    response.header("idempotent-replayed") == Some("true")
}

/// The same answer as the first, marked as a repeat's.
#[track_caller]
fn assert_repeats(again: &HttpResponse, first: &HttpResponse) {
    assert_eq!((again.status, again.text()), (first.status, first.text()));
    assert_eq!(again.header("content-type"), first.header("content-type"));
    assert!(is_replayed(again) && !is_replayed(first), "{again:?}");
}

fn card(description: &str) -> Value {
    json!({"allowance": {"amount": 100}, "description": description, "is_virtual": true})
}

#[track_caller]
fn cards_named(client: &HttpClient, description: &str) -> Value {
    client.get(&format!("/v1/cards?description={description}")).expect(200)["count"].clone()
}

#[test]
fn fifty_requests_at_once_with_one_key_make_one_card() {
    let installation = Installation::init(60, 1_001);
    let switch = installation.serve();
    let client = switch.api();
    let answers: Vec<HttpResponse> = thread::scope(|scope| {
        let ask = |_| scope.spawn(|| send(&client, "POST", "/v1/cards", "at-once", &card("once")));
        let asked: Vec<_> = (0..50).map(ask).collect();
        asked.into_iter().map(|one| one.join().expect("a request is answered")).collect()
    });
    let made: Vec<_> = answers.iter().filter(|answer| answer.status == 201).collect();
    assert!(!made.is_empty() && made.iter().all(|answer| answer.text() == made[0].text()));
    assert_eq!(made.iter().filter(|answer| !is_replayed(answer)).count(), 1);
    for other in answers.iter().filter(|answer| answer.status != 201) {
        assert_eq!(other.expect_error(409)["code"], "idempotency_key_in_flight");
    }
    assert_eq!(cards_named(&client, "once"), 1);
    assert!(is_replayed(&send(&client, "POST", "/v1/cards", "at-once", &card("once"))));
}

#[test]
fn answers_are_kept_across_a_stop_and_a_kill() {
    let installation = Installation::init(60, 1_002);
    let switch = installation.serve();
    let made = send(&switch.api(), "POST", "/v1/cards", "make", &card("kept"));
    let path = format!("/v1/cards/{}", made.expect(201)["id"].as_str().expect("an id"));
    let rename = json!({"description": "renamed"});
    let renamed = send(&switch.api(), "PUT", &path, "rename", &rename);
    let deleted = send(&switch.api(), "DELETE", &path, "delete", &Value::Null);
    let refused = send(&switch.api(), "PUT", &path, "reopen", &json!({"state": "active"}));
    let statuses = [&made, &renamed, &deleted, &refused].map(|answer| answer.status);
    assert_eq!(statuses, [201, 200, 204, 409]);
    let assert_kept = |client: &HttpClient| {
        assert_repeats(&send(client, "POST", "/v1/cards", "make", &card("kept")), &made);
        assert_repeats(&send(client, "PUT", &path, "rename", &rename), &renamed);
        assert_repeats(&send(client, "DELETE", &path, "delete", &Value::Null), &deleted);
        let reopen = json!({"state": "active"});
        assert_repeats(&send(client, "PUT", &path, "reopen", &reopen), &refused);
        let other = send(client, "POST", "/v1/cards", "make", &card("other"));
        assert_eq!(other.expect_error(400)["code"], "idempotency_key_reused");
    };
    assert_kept(&switch.api());
    switch.stop();
    let switch = installation.serve();
    assert_kept(&switch.api());
    switch.kill9();
    installation.verify_ok();
    let switch = installation.serve();
    assert_kept(&switch.api());
    switch.stop();
    installation.verify_ok();
}

#[test]
fn a_key_is_forgotten_after_a_day_of_the_switch() {
    let installation = Installation::init(60, 1_003);
    let switch = installation.serve_with(&["--clock", "manual"]);
    let (api, network) = (switch.api(), switch.network_api());
    let advance = |span: &str| network.post("/network/v1/clock", &json!({"advance": span}));
    let first = send(&api, "POST", "/v1/cards", "daily", &card("tomorrow-again"));
    first.expect(201);
    advance("1439m").expect(200);
    assert_repeats(&send(&api, "POST", "/v1/cards", "daily", &card("tomorrow-again")), &first);
    advance("2m").expect(200);
    let second = send(&api, "POST", "/v1/cards", "daily", &card("tomorrow-again"));
    assert!(second.status == 201 && !is_replayed(&second), "{second:?}");
    assert_eq!(cards_named(&api, "tomorrow-again"), 2);
    switch.stop();
    installation.verify_ok();
}

#[test]
fn malformed_keys_are_named() {
    let installation = Installation::init(60, 1_004);
    let switch = installation.serve();
    let client = switch.api();
    let (longest, too_long) = ("k".repeat(255), "k".repeat(256));
    for key in ["", "two words", "schl\u{fc}ssel", &too_long] {
        let detail = send(&client, "POST", "/v1/cards", key, &card("never")).expect_error(400);
        assert_eq!(detail["param"], "Idempotency-Key", "{key}");
        let path = "/network/v1/authorizations";
        let detail = send(&switch.network_api(), "POST", path, key, &json!({})).expect_error(400);
        assert_eq!(detail["param"], "Idempotency-Key", "{key}");
    }
    assert_eq!(cards_named(&client, "never"), 0);
    send(&client, "POST", "/v1/cards", &longest, &card("longest")).expect(201);
    let stranger = HttpClient::with_authorization(switch.http, "Token unknown");
    send(&stranger, "POST", "/v1/cards", "two words", &card("never")).expect_error(401);
}

/// There the engine itself remembers what it answered, in the record of what it did.
#[test]
fn the_network_door_answers_a_key_once_and_across_a_kill() {
    let installation = Installation::init(60, 1_005);
    let switch = installation.serve();
    let card = installation.cards.ordinary();
    let body = json!({"card_number": card.pan, "amount": 1});
    let path = "/network/v1/authorizations";
    let first = send(&switch.network_api(), "POST", path, "buy", &body);
    assert_eq!(first.expect(200)["approved"], true);
    assert_eq!(send(&switch.network_api(), "POST", path, "buy", &body).text(), first.text());
    switch.kill9();
    let switch = installation.serve();
    let network = switch.network_api();
    assert_eq!(send(&network, "POST", path, "buy", &body).text(), first.text());
    let other = json!({"card_number": card.pan, "amount": 2});
    for (path, body) in [(path, &other), ("/network/v1/advices", &body)] {
        let refused = send(&network, "POST", path, "buy", body);
        assert_eq!(refused.expect_error(400)["code"], "idempotency_key_reused");
    }
    let second = send(&network, "POST", path, "buy more", &body);
    assert_eq!(second.expect_error(400)["param"], "Idempotency-Key");
    let second = send(&network, "POST", path, "buy-more", &body).expect(200);
    let spent = minor(&first.json()["allowance_balance"]) - minor(&second["allowance_balance"]);
    assert_eq!(spent, 100, "one purchase of 1.00 for each key");
}
