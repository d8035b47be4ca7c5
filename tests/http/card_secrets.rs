//! `/v1/cards/:id/number` and `/pin`: the rights to see a number, the log's note of it, and purchases that
//! need the PIN set here.

use cardswitch_harness::{HttpClient, Installation, TestCard};
use serde_json::{Value, json};

const NOBODY: &str = "01890000-0000-7000-8000-000000000000";

#[test]
fn number_is_shown_to_administrators_and_logged_without_it() {
    let installation = Installation::init(60, 851);
    let switch = installation.serve();
    let known = installation.cards.ordinary();
    let answer = switch.api().get(&format!("/v1/cards/{}/number", known.card_id));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let shown = answer.expect(200);
    let expected = json!({"number": known.pan, "expiration": known.expiration, "cvv": known.cvv});
    assert_eq!(shown, expected);
    let log = switch.log();
    let told: Vec<_> = log.lines().filter(|line| line.contains("number was shown")).collect();
    assert_eq!(told.len(), 1, "one line for one look: {told:?}");
    assert!(told[0].contains(&known.card_id) && told[0].contains("token="), "{told:?}");
    assert!(!log.contains(&known.pan), "the number is in the log");
}

#[test]
fn number_is_not_for_others_nor_of_physical_cards() {
    let installation = Installation::init(60, 852);
    let tokens = ["", "accountant", "iam"].map(|scope| installation.add_token(scope));
    let switch = installation.serve();
    let path = |card: &TestCard| format!("/v1/cards/{}/number", card.card_id);
    let ordinary = installation.cards.ordinary();
    for token in &tokens {
        switch.api_with(token).get(&path(ordinary)).expect_error(403);
    }
    switch.anonymous().get(&path(ordinary)).expect_error(401);
    let foreign = installation.cards.first("no_funds");
    switch.api().get(&path(foreign)).expect_error(404);
    switch.api().get(&format!("/v1/cards/{NOBODY}/number")).expect_error(404);
    let physical = installation.cards.first("unactivated");
    let refused = switch.api().get(&path(physical)).expect_error(409);
    assert_eq!(refused["code"], "card_not_virtual");
    assert!(!switch.log().contains("number was shown"));
}

#[test]
fn pin_set_here_is_the_one_that_counts_and_opens_a_blocked_card() {
    let installation = Installation::init(60, 853);
    let switch = installation.serve();
    let (api, network) = (switch.api(), switch.network_api());
    let cards = installation.cards.with_profile("ordinary");
    let path = |card: &TestCard| format!("/v1/cards/{}/pin", card.card_id);
    let known = cards[0];
    assert_eq!(try_pin(&network, known, &known.pin), 0);
    let card = api.put(&path(known), &json!({"pin": "00420"})).expect(200);
    assert_eq!(card["id"], known.card_id.as_str());
    assert_eq!(try_pin(&network, known, &known.pin), 1302, "the old PIN is no more");
    assert_eq!(try_pin(&network, known, "00420"), 0);

    let blocked = cards[1];
    for _ in 0..3 {
        assert_eq!(try_pin(&network, blocked, "999999"), 1302);
    }
    assert_eq!(try_pin(&network, blocked, &blocked.pin), 1302, "three in a row block the card");
    api.put(&path(blocked), &json!({"pin": "123456789012"})).expect(200);
    assert_eq!(try_pin(&network, blocked, "123456789012"), 0);
}

#[test]
fn pins_are_4_to_12_digits_of_a_card_that_is_not_terminated() {
    let installation = Installation::init(60, 854);
    let token = installation.add_token("accountant");
    let switch = installation.serve();
    let api = switch.api();
    let known = installation.cards.ordinary();
    let path = format!("/v1/cards/{}/pin", known.card_id);
    for body in [
        json!({}),
        json!({"pin": null}),
        json!({"pin": 1234}),
        json!({"pin": "123"}),
        json!({"pin": "1234567890123"}),
        json!({"pin": "12a4"}),
    ] {
        let answer = api.put(&path, &body);
        let detail = answer.expect_error(400);
        assert_eq!(detail["errors"][0]["param"], "pin", "{body}");
        let said = body["pin"].as_str().unwrap_or("missing");
        assert!(!answer.text().contains(said), "a PIN is not repeated: {}", answer.text());
    }
    let fine = json!({"pin": "1234"});
    switch.api_with(&token).put(&path, &fine).expect_error(403);
    api.put(&format!("/v1/cards/{NOBODY}/pin"), &fine).expect_error(404);
    let foreign = &installation.cards.first("no_funds").card_id;
    api.put(&format!("/v1/cards/{foreign}/pin"), &fine).expect_error(404);
    api.delete(&format!("/v1/cards/{}", known.card_id)).expect(204);
    assert_eq!(api.put(&path, &fine).expect_error(409)["code"], "card_terminated");
}

/// The response code of a purchase with this PIN.
#[track_caller]
fn try_pin(network: &HttpClient, card: &TestCard, pin: &str) -> u64 {
    let body = json!({
        "card_number": card.pan,
        "amount": 1,
        "pin": pin,
        "merchant": {"mid": "1", "mcc": 5812, "name": "Cafe", "city": "Oakland", "state": "CA",
            "country": "US", "zip": "94601"},
    });
    let answer: Value = network.post("/network/v1/authorizations", &body).expect(200);
    answer["response_code"].as_u64().expect("a response code")
}
