//! `/v1/allowances`: reading and changing a budget, and that the very next purchase obeys it.

use cardswitch_harness::{HttpClient, Installation, Purchase, TestCard, minor};
use serde_json::{Value, json};

#[test]
fn purchase_right_after_a_change_sees_it() {
    let installation = Installation::init(60, 832);
    let switch = installation.serve();
    let api = switch.api();
    let mut acquirer = switch.acquirer();
    let card = installation.cards.ordinary();
    let path = path_of(card);
    let card_path = format!("/v1/cards/{}", card.card_id);
    for _ in 0..20 {
        let ask = |acquirer: &mut cardswitch_harness::Acquirer| {
            acquirer.ask(&Purchase::of(card, 1_000).request())
        };
        api.put(&path, &json!({"transaction_limit": 9.99})).expect(200);
        ask(&mut acquirer).expect_declined(1503);
        api.put(&path, &json!({"transaction_limit": 10})).expect(200);
        ask(&mut acquirer).expect_approved();
        api.put(&card_path, &json!({"state": "suspended"})).expect(200);
        ask(&mut acquirer).expect_declined(1202);
        api.put(&card_path, &json!({"state": "active"})).expect(200);
        ask(&mut acquirer).expect_approved();
    }
    api.put(&path, &json!({"scope": [5812]})).expect(200);
    acquirer.ask(&Purchase::of(card, 1_000).request()).expect_declined(1501);
    api.put(&path, &json!({"scope": [], "end_time": "2001-01-01T00:00:00Z"})).expect(200);
    acquirer.ask(&Purchase::of(card, 1_000).request()).expect_declined(1501);
    let body = api.get(&card_path).expect(200);
    assert_eq!(
        (&body["state"], &body["suspension_reason"]),
        (&json!("suspended"), &json!("end_time"))
    );
    api.put(&card_path, &json!({"state": "active"})).expect_error(409);
}

/// An allowance that would start after it ends could never be used, and was taken without a word.
#[test]
fn a_window_that_ends_before_it_starts_is_refused_whichever_end_moves() {
    let installation = Installation::init(60, 838);
    let switch = installation.serve();
    let (api, card) = (switch.api(), installation.cards.ordinary());
    let path = path_of(card);
    let (early, late) = ("2030-01-01T00:00:00Z", "2030-06-01T00:00:00Z");
    let window = json!({"start_time": early, "end_time": late});
    api.put(&path, &window).expect(200);
    let rows = [
        json!({"start_time": late, "end_time": early}),
        json!({"start_time": "2030-06-01T00:00:00.000001Z"}),
        json!({"end_time": "2029-12-31T23:59:59Z"}),
        json!({"amount": 5, "end_time": "2029-12-31T23:59:59Z"}),
    ];
    for body in rows {
        let error = api.put(&path, &body).expect_error(400);
        let text = error.to_string();
        assert!(text.contains("start_time") && text.contains("end_time"), "{body}: {text}");
        let now = get(&api, card);
        assert_eq!(
            (&now["start_time"], &now["end_time"]),
            (&json!("2030-01-01T00:00:00.000000Z"), &json!("2030-06-01T00:00:00.000000Z"),)
        );
    }
    api.put(&path, &json!({"start_time": late})).expect(200);
    api.put(&path, &json!({"start_time": early, "end_time": null})).expect(200);
    api.put(&path, &json!({"start_time": null, "end_time": early})).expect(200);

    let mut allowance = window.clone();
    allowance["amount"] = json!(5);
    let mut card = json!({"description": "Trip", "is_virtual": true, "allowance": allowance});
    api.post("/v1/cards", &card).expect(201);
    card["allowance"]["start_time"] = json!("2031-01-01T00:00:00Z");
    let text = api.post("/v1/cards", &card).expect_error(400).to_string();
    assert!(text.contains("allowance.start_time") && text.contains("allowance.end_time"), "{text}");
}

#[test]
fn usage_tells_what_is_spent_held_and_left() {
    let installation = Installation::init(60, 837);
    // Without midnights in between.
    let switch = installation.serve_with(&["--clock", "manual"]);
    let (api, card) = (switch.api(), installation.cards.ordinary());
    api.put(&path_of(card), &json!({"amount": 500, "interval": "weekly", "daily_limit": 200}))
        .expect(200);
    let before = get(&api, card)["usage"].clone();
    assert_eq!((minor(&before["spent"]), minor(&before["held"])), (0, 0));
    let mut acquirer = switch.acquirer();
    acquirer.ask(&Purchase::of(card, 12_000).request()).expect_approved();
    acquirer.ask(&Purchase::of(card, 12_000).request()).expect_declined(1502);
    let allowance = get(&api, card);
    let usage = &allowance["usage"];
    assert_eq!((minor(&usage["spent"]), minor(&usage["spent_today"])), (12_000, 12_000));
    assert_eq!((minor(&usage["held"]), minor(&usage["daily_balance"])), (12_000, 8_000));
    assert_eq!(usage["period_end"], allowance["next_reset_at"]);
    assert!(usage["period_start"].as_str() < usage["period_end"].as_str(), "{usage}");
    let shown = api.get(&format!("/v1/cards/{}", card.card_id)).expect(200);
    assert_eq!(&shown["allowance"]["usage"], usage);
    let listed = api.get("/v1/cards?limit=1000").expect(200);
    let listed = listed["results"].as_array().unwrap().iter().find(|row| row["id"] == shown["id"]);
    let listed = &listed.unwrap()["allowance"]["usage"];
    assert_eq!(listed, usage);
}

#[test]
fn new_amount_keeps_what_was_spent_unless_reset() {
    let installation = Installation::init(60, 833);
    let switch = installation.serve();
    let api = switch.api();
    let card = installation.cards.ordinary();
    let path = path_of(card);
    api.put(&path, &json!({"amount": 500, "interval": null, "reset": true})).expect(200);
    switch.acquirer().ask(&Purchase::of(card, 12_000).request()).expect_approved();
    assert_eq!(minor(&get(&api, card)["balance"]), 38_000);

    let lower = api.put(&path, &json!({"amount": 100})).expect(200);
    assert_eq!((minor(&lower["amount"]), minor(&lower["balance"])), (10_000, -2_000));
    switch.acquirer().ask(&Purchase::of(card, 1).request()).expect_declined(1502);

    let reset = api.put(&path, &json!({"reset": true})).expect(200);
    assert_eq!((minor(&reset["amount"]), minor(&reset["balance"])), (10_000, 10_000));
}

#[test]
fn reset_is_refused_where_the_interval_resets() {
    let installation = Installation::init(60, 834);
    let switch = installation.serve();
    let api = switch.api();
    let path = path_of(installation.cards.ordinary());
    api.put(&path, &json!({"interval": "weekly"})).expect(200);
    let detail = api.put(&path, &json!({"reset": true})).expect_error(400);
    assert_eq!(detail["errors"][0]["param"], "reset");
    api.put(&path, &json!({"reset": true, "interval": "monthly"})).expect_error(400);
    api.put(&path, &json!({"reset": true, "interval": null})).expect(200);
}

#[test]
fn card_and_allowance_agree() {
    let installation = Installation::init(60, 836);
    let switch = installation.serve();
    let api = switch.api();
    let card = installation.cards.ordinary();
    switch.acquirer().ask(&Purchase::of(card, 300).request()).expect_approved();
    let embedded = api.get(&format!("/v1/cards/{}", card.card_id)).expect(200);
    assert_eq!(embedded["allowance"], get(&api, card));
}

fn path_of(card: &TestCard) -> String {
    format!("/v1/allowances/{}", card.allowance_id)
}

#[track_caller]
fn get(api: &HttpClient, card: &TestCard) -> Value {
    api.get(&path_of(card)).expect(200)
}
