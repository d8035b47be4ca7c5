//! `PUT /v1/transactions/:id`: dimensions and a note, set by hand on what was bought.

use cardswitch_harness::{HttpClient, Installation, Purchase, Switch, TestCard};
use serde_json::{Value, json};

const NOBODY: &str = "01890000-0000-7000-8000-000000000000";

#[test]
fn tags_are_set_one_by_one_and_show_everywhere() {
    let installation = Installation::init(60, 1_201);
    let switch = installation.serve();
    let api = switch.api();
    let card = installation.cards.ordinary();
    let category = make(&api, "categories", "Travel");
    let label = make(&api, "labels", "Client A");
    let path = buy(&switch, card);
    let made = api.get(&path).expect(200);
    assert_eq!((&made["note"], &made["receipt"]), (&json!(""), &Value::Null));

    let tagged = api.put(&path, &json!({"category": {"id": category}})).expect(200);
    assert_eq!(tagged["category"]["name"], "Travel");
    let body = json!({"label": {"id": label}, "note": "Lunch\n\twith A", "amount": 5});
    let tagged = api.put(&path, &body).expect(200);
    assert_eq!(tagged["category"]["name"], "Travel", "what is absent stays");
    assert_eq!(tagged["label"]["name"], "Client A");
    assert_eq!((&tagged["note"], &tagged["amount"]), (&json!("Lunch\n\twith A"), &made["amount"]));
    assert_eq!(api.get(&path).expect(200), tagged);
    let listed = api.get(&format!("/v1/transactions?card={}", card.card_id)).expect(200);
    assert_eq!(listed["results"][0], tagged);

    // Nothing but what was tagged has changed.
    let mut plain = tagged.clone();
    for field in ["category", "label", "note"] {
        plain[field] = made[field].clone();
    }
    assert_eq!(plain, made);

    let cleared = api.put(&path, &json!({"category": null, "note": ""})).expect(200);
    assert_eq!((&cleared["category"], &cleared["note"]), (&Value::Null, &json!("")));
    assert_eq!(cleared["label"]["name"], "Client A");
    assert_eq!(api.put(&path, &json!({})).expect(200), cleared, "nothing asked, nothing changed");
}

#[test]
fn a_dimension_taken_off_by_hand_stays_off_though_its_card_has_it() {
    let installation = Installation::init(60, 1_202);
    let switch = installation.serve();
    let api = switch.api();
    let card = installation.cards.ordinary();
    let (ours, theirs) = (make(&api, "departments", "Ours"), make(&api, "departments", "Theirs"));
    let body = json!({"department": {"id": ours}});
    api.put(&format!("/v1/cards/{}", card.card_id), &body).expect(200);
    let path = buy(&switch, card);
    assert_eq!(api.get(&path).expect(200)["department"]["name"], "Ours");
    for (department, name) in [
        (json!(null), Value::Null),
        (json!({"id": theirs}), json!("Theirs")),
        (json!({"id": ours}), json!("Ours")),
        (json!({"id": theirs}), json!("Theirs")),
    ] {
        let tagged = api.put(&path, &json!({"department": department})).expect(200);
        assert_eq!(tagged["department"]["name"], name);
    }
    // It goes with its dimension, and what the transaction was made with does not come back.
    api.delete(&format!("/v1/departments/{theirs}")).expect(204);
    assert_eq!(api.get(&path).expect(200)["department"], Value::Null);
}

#[test]
fn every_state_of_a_transaction_can_be_tagged() {
    let installation = Installation::init(60, 1_203);
    let switch = installation.serve();
    let api = switch.api();
    let card = installation.cards.ordinary();
    let suspended = installation.cards.first("suspended");
    switch.acquirer().ask(&Purchase::of(suspended, 100).request()).expect_declined(1202);
    let purchase = Purchase::of(card, 300);
    let authorization_id = switch.acquirer().ask(&purchase.request()).expect_approved();
    let path = newest(&api, card);
    api.put(&path, &json!({"note": "pending"})).expect(200);
    assert_eq!(
        switch.acquirer().ask(&purchase.presentment(&authorization_id, 300)).response(),
        "00"
    );
    let completed = api.get(&path).expect(200);
    assert_eq!((&completed["state"], &completed["note"]), (&json!("completed"), &json!("pending")));
    let category = make(&api, "categories", "Travel");
    let tags = json!({"note": "posted", "category": {"id": category}});
    let tagged = api.put(&path, &tags).expect(200);
    assert_eq!((&tagged["state"], &tagged["note"]), (&json!("completed"), &json!("posted")));

    let account = installation.credentials.account_id.as_str();
    let lines = api.get(&format!("/v1/accounts/{account}/statement-lines?limit=1")).expect(200);
    let origin = &lines["results"][0]["origin"];
    assert_eq!(origin["id"], tagged["id"]);
    assert_eq!((&origin["note"], &origin["category"]), (&tagged["note"], &tagged["category"]));

    let declined = newest(&api, suspended);
    let tagged = api.put(&declined, &json!({"note": "why?"})).expect(200);
    assert_eq!((&tagged["state"], &tagged["note"]), (&json!("declined"), &json!("why?")));
}

#[test]
fn notes_are_bounded_and_bodies_at_fault_name_every_field() {
    let installation = Installation::init(60, 1_204);
    let switch = installation.serve();
    let api = switch.api();
    let path = buy(&switch, installation.cards.ordinary());
    let label = make(&api, "labels", "A label");
    let longest = "é".repeat(1_000);
    assert_eq!(api.put(&path, &json!({"note": longest})).expect(200)["note"], longest.as_str());
    let rows = [
        (json!({"note": "é".repeat(1_001)}), vec![("note", "too_long")]),
        (json!({"note": null}), vec![("note", "null")]),
        (json!({"note": 5}), vec![("note", "not_text")]),
        (json!({"note": "a\u{0}b"}), vec![("note", "control_character")]),
        (json!({"note": "a\u{1b}[0m"}), vec![("note", "control_character")]),
        (json!({"category": label}), vec![("category", "not_a_reference")]),
        (json!({"category": {"id": label}}), vec![("category", "not_found")]),
        (json!({"location": {"id": NOBODY}}), vec![("location", "not_found")]),
        (
            json!({"note": [], "label": {}, "department": {"id": NOBODY}}),
            vec![("label", "not_a_reference"), ("note", "not_text"), ("department", "not_found")],
        ),
    ];
    for (body, expected) in rows {
        let detail = api.put(&path, &body).expect_error(400);
        let errors = detail["errors"].as_array().expect("errors");
        let faults: Vec<_> = errors
            .iter()
            .map(|error| {
                (
                    error["param"].as_str().unwrap_or_default(),
                    error["code"].as_str().unwrap_or_default(),
                )
            })
            .collect();
        assert_eq!(faults, expected, "{body}");
    }
    assert_eq!(api.get(&path).expect(200)["note"], longest.as_str(), "nothing changed");
}

#[test]
fn what_is_not_there_is_404_and_the_token_is_asked_for() {
    let installation = Installation::init(60, 1_205);
    let switch = installation.serve();
    let path = buy(&switch, installation.cards.ordinary());
    let body = json!({"note": "x"});
    for id in [NOBODY, "nothing", "00000000-0000-0000-0000-000000000000"] {
        switch.api().put(&format!("/v1/transactions/{id}"), &body).expect_error(404);
    }
    switch.anonymous().put(&path, &body).expect_error(401);
    assert_eq!(switch.api().get(&path).expect(200)["note"], "");
}

#[test]
fn tags_survive_kill_9_and_a_restart() {
    let installation = Installation::init(60, 1_206);
    let switch = installation.serve();
    let api = switch.api();
    let card = installation.cards.ordinary();
    let category = make(&api, "categories", "Travel");
    let paths: Vec<_> = (0..5).map(|_| buy(&switch, card)).collect();
    for (number, path) in paths.iter().enumerate() {
        let note = format!("note {number}");
        let body = json!({"note": note, "category": {"id": category}});
        api.put(path, &body).expect(200);
    }
    api.put(&paths[0], &json!({"note": "changed"})).expect(200);
    switch.kill9();
    installation.verify_ok();
    let assert_tags = |switch: &Switch| {
        for (number, path) in paths.iter().enumerate() {
            let row = switch.api().get(path).expect(200);
            let note = if number == 0 { "changed".to_owned() } else { format!("note {number}") };
            assert_eq!((&row["note"], &row["category"]["name"]), (&json!(note), &json!("Travel")));
        }
    };
    let switch = installation.serve();
    assert_tags(&switch);
    switch.stop();
    let switch = installation.serve();
    assert_tags(&switch);
    switch.stop();
    installation.verify_ok();
}

/// Buys something and returns the path of the transaction.
#[track_caller]
fn buy(switch: &Switch, card: &TestCard) -> String {
    switch.acquirer().ask(&Purchase::of(card, 100).request()).expect_approved();
    newest(&switch.api(), card)
}

#[track_caller]
fn newest(api: &HttpClient, card: &TestCard) -> String {
    let page = api.get(&format!("/v1/transactions?limit=1&card={}", card.card_id)).expect(200);
    format!("/v1/transactions/{}", page["results"][0]["id"].as_str().expect("a transaction"))
}

#[track_caller]
fn make(api: &HttpClient, plural: &str, name: &str) -> String {
    let made = api.post(&format!("/v1/{plural}"), &json!({"name": name})).expect(201);
    made["id"].as_str().expect("an id").to_owned()
}
