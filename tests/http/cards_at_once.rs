//! POST /v1/cards/bulk: all cards or none, in order, with every fault at its place.

use std::collections::BTreeSet;

use cardswitch_harness::{HttpClient, Installation};
use serde_json::{Value, json};

const NOBODY: &str = "01890000-0000-7000-8000-000000000000";

#[test]
fn cards_are_made_in_order_and_answered_whole() {
    let installation = Installation::init(60, 861);
    let switch = installation.serve();
    let api = switch.api();
    let before = count(&api);
    let bodies: Vec<Value> = (0..100).map(|number| card(&format!("Bulk {number}"))).collect();
    let made = api.post("/v1/cards/bulk", &json!({"cards": bodies})).expect(201);
    let results = made["results"].as_array().expect("results");
    let told: Vec<_> = results.iter().filter_map(|card| card["description"].as_str()).collect();
    let expected: Vec<String> = (0..100).map(|number| format!("Bulk {number}")).collect();
    assert_eq!(told, expected);
    let ids: BTreeSet<_> = results.iter().filter_map(|card| card["id"].as_str()).collect();
    assert_eq!(ids.len(), 100);
    for card in [&results[0], &results[99]] {
        let id = card["id"].as_str().expect("an id");
        assert_eq!(&api.get(&format!("/v1/cards/{id}")).expect(200), card);
    }
    assert_eq!(count(&api), before + 100);

    switch.kill9();
    installation.verify_ok();
    let switch = installation.serve();
    assert_eq!(count(&switch.api()), before + 100);
    let newest = switch.api().get("/v1/cards?limit=1").expect(200)["results"][0].clone();
    assert_eq!(newest["description"], "Bulk 99");
    switch.stop();
    installation.verify_ok();
}

#[test]
fn one_fault_refuses_all_and_each_is_named_by_its_place() {
    let installation = Installation::init(60, 862);
    let switch = installation.serve();
    let api = switch.api();
    let before = count(&api);
    let mut assigned = card("Nobody's");
    assigned["assigned_to"] = json!({"id": NOBODY});
    assigned["label"] = json!({"id": NOBODY});
    let mut physical = card("Van");
    physical["is_virtual"] = json!(false);
    let cards = json!([
        card("Fine"),
        5,
        {"is_virtual": true, "allowance": {"amount": "x"}},
        assigned,
        physical,
    ]);
    let detail = api.post("/v1/cards/bulk", &json!({"cards": cards})).expect_error(400);
    let errors = detail["errors"].as_array().expect("errors");
    let named: Vec<_> = errors.iter().filter_map(|error| error["param"].as_str()).collect();
    let expected = [
        "cards.1",
        "cards.2.allowance.amount",
        "cards.2.description",
        "cards.4.shipping_address",
        "cards.3.assigned_to",
        "cards.3.label",
    ];
    assert_eq!(named, expected);
    assert_eq!((detail["code"].as_str(), &detail["param"]), (Some("invalid_fields"), &Value::Null));
    let many: Vec<Value> = (0..101).map(|_| card("Many")).collect();
    for (body, code) in [
        (json!({}), "required"),
        (json!({"cards": null}), "required"),
        (json!({"cards": []}), "empty"),
        (json!({"cards": {}}), "not_an_array"),
        (json!({"cards": many}), "too_many"),
    ] {
        let detail = api.post("/v1/cards/bulk", &body).expect_error(400);
        assert_eq!(
            (detail["code"].as_str(), detail["param"].as_str()),
            (Some(code), Some("cards"))
        );
    }
    assert_eq!(count(&api), before, "nothing was made");
}

/// A hundred cards with every text as long as it may be are more than a record holds.
#[test]
fn more_text_than_a_record_holds_is_refused_before_it_is_kept() {
    let installation = Installation::init(60, 863);
    let switch = installation.serve();
    let api = switch.api();
    let before = count(&api);
    let line = "\u{20ac}".repeat(200);
    let address = json!({"attn": line, "address_1": line, "address_2": line, "city": line,
        "state": line, "zip_code": line});
    let mut long = card(&"\u{20ac}".repeat(900));
    long["billing_address"] = address;
    let cards = |len: usize| json!({"cards": vec![long.clone(); len]});
    api.post("/v1/cards/bulk", &cards(100)).expect_error(413);
    let made = api.post("/v1/cards/bulk", &cards(70)).expect(201);
    assert_eq!(made["results"].as_array().map(Vec::len), Some(70));
    assert_eq!(count(&api), before + 70);
    switch.stop();
    installation.verify_ok();
}

#[test]
fn physical_and_virtual_cards_go_together_and_need_the_scope() {
    let installation = Installation::init(60, 864);
    let token = installation.add_token("accountant");
    let switch = installation.serve();
    let api = switch.api();
    let shipping = api.get("/v1/company").expect(200)["shipping_address"]["id"].clone();
    let mut physical = card("Van");
    physical["is_virtual"] = json!(false);
    physical["shipping_address"] = json!({"id": shipping});
    let body = json!({"cards": [physical, card("Lunch")]});
    switch.api_with(&token).post("/v1/cards/bulk", &body).expect_error(403);
    switch.anonymous().post("/v1/cards/bulk", &body).expect_error(401);
    let made = api.post("/v1/cards/bulk", &body).expect(201);
    let states: Vec<_> =
        made["results"].as_array().expect("results").iter().map(|card| &card["state"]).collect();
    assert_eq!(states, ["unactivated", "active"]);
}

fn card(description: &str) -> Value {
    json!({"description": description, "is_virtual": true, "allowance": {"amount": 10}})
}

#[track_caller]
fn count(api: &HttpClient) -> u64 {
    api.get("/v1/cards?limit=1").expect(200)["count"].as_u64().expect("a count")
}
