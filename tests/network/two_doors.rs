//! The differential test: the same purchases through either door get the same answers.
//!
//! Two switches are made from one seed, so their cards and limits agree. One hears ISO 8583, the
//! other JSON; after every step both must have said the same, at the end hold the same balances.

use cardswitch_harness::{
    Acquirer, HttpClient, Installation, Message, Purchase, Random, Switch, TestCard,
    campaign_scaled, de39_of, seed_for,
};
use serde_json::{Value, json};

#[test]
fn either_door_gives_the_same_answers_and_balances() {
    let seed = seed_for("either_door_gives_the_same_answers_and_balances");
    let mut random = Random::new(seed);
    let (by_iso, by_http) = (Installation::init(120, 701), Installation::init(120, 701));
    let (iso_switch, http_switch) = (by_iso.serve(), by_http.serve());
    let mut acquirer = iso_switch.acquirer();
    let network = http_switch.network_api();

    // Not velocity: its window slides by the wall clock, and the doors are not equally fast.
    let cards: Vec<_> =
        by_iso.cards.all().iter().filter(|card| card.profile != "velocity").collect();
    for step in 0..campaign_scaled(400, 20_000) {
        let card = cards[random.index(cards.len())];
        let purchase = any_purchase(card, &mut random);
        let answer = acquirer.ask(&purchase.request());
        let body = network.post("/network/v1/authorizations", &as_json(&purchase)).expect(200);
        assert_same(&answer, &body, &format!("step {step}, {}, {purchase:?}", card.profile));
        if answer.response() == "00" && random.between(0, 3) == 0 {
            follow_up(&purchase, &answer, &body, (&mut acquirer, &network));
        }
    }

    for card in by_iso.cards.with_profile("ordinary") {
        let twin = by_http.cards.all().iter().find(|other| other.pan == card.pan);
        let twin = twin.expect("one seed makes the same cards");
        assert_eq!(balance(&iso_switch, card), balance(&http_switch, twin), "of {}", card.card_id);
    }
}

/// A purchase of any amount, sometimes with credentials, sometimes with wrong ones.
fn any_purchase(card: &TestCard, random: &mut Random) -> Purchase {
    let mut purchase = Purchase::of(card, random.between(1, 20_000));
    let categories = [5411, 5812, 7995, 6011, 4121, 5999];
    purchase.mcc = Some(categories[random.index(categories.len())]);
    match random.between(0, 12) {
        0 => purchase.cvv = Some(card.cvv.clone()),
        1 => purchase.expiry_yymm = Some(card.expiry_yymm()),
        2 => purchase.cvv = Some("000".to_owned()),
        3 => purchase.expiry_yymm = Some("2001".to_owned()),
        4 => purchase.zip = Some("00000".to_owned()),
        5 if !card.pin.is_empty() => purchase.pin = Some(card.pin.clone()),
        6 => purchase.pin = Some("0000".to_owned()),
        7 => purchase.processing_code = "010000".to_owned(),
        _ => {}
    }
    purchase
}

/// Reverses or presents what both have approved.
#[track_caller]
fn follow_up(
    purchase: &Purchase,
    answer: &Message,
    body: &Value,
    (acquirer, network): (&mut Acquirer, &HttpClient),
) {
    let authorization_id = answer.expect_approved();
    let named = json!({"transaction_id": body["transaction_id"]});
    if purchase.stan.is_multiple_of(2) {
        assert_eq!(acquirer.ask(&purchase.reversal(&authorization_id)).response(), "00");
        network.post("/network/v1/reversals", &named).expect(200);
    } else {
        let presentment = purchase.presentment(&authorization_id, purchase.amount_minor);
        assert_eq!(acquirer.ask(&presentment).response(), "00");
        network.post("/network/v1/presentments", &named).expect(200);
    }
}

#[track_caller]
fn assert_same(answer: &Message, body: &Value, what: &str) {
    let code = body["response_code"].to_string();
    assert_eq!(Some(answer.response()), de39_of(&code), "{what}: {answer:?} against {body}");
    if code != "0" {
        assert_eq!(answer.exact_code(), Some(code.as_str()), "{what}: {answer:?}");
    }
}

#[track_caller]
fn balance(switch: &Switch, card: &TestCard) -> Value {
    let path = format!("/v1/allowances/{}", card.allowance_id);
    switch.api().get(&path).expect(200)["balance"].clone()
}

fn as_json(purchase: &Purchase) -> Value {
    let amount = format!("{}.{:02}", purchase.amount_minor / 100, purchase.amount_minor % 100);
    let kind = if purchase.processing_code.starts_with("01") { "cash" } else { "purchase" };
    let mut body = json!({
        "card_number": purchase.pan,
        "amount": amount,
        "kind": kind,
        "merchant": {
            "mid": 424_242, "mcc": purchase.mcc, "name": purchase.merchant_name,
            "city": "SAN FRANCISCO", "state": "CA", "country": "US",
        },
        "stan": format!("{:06}", purchase.stan),
        "rrn": purchase.rrn,
        "acquirer": "400001",
    });
    let expiration = purchase.expiry_yymm.as_ref().map(|yymm| last_day_of(yymm));
    let optional = [
        ("expiration", &expiration),
        ("cvv", &purchase.cvv),
        ("zip", &purchase.zip),
        ("pin", &purchase.pin),
    ];
    for (key, value) in optional {
        if let Some(value) = value {
            body[key] = json!(value);
        }
    }
    body
}

/// A card's expiration is the last day of its month.
fn last_day_of(yymm: &str) -> String {
    let (year, month) = (format!("20{}", &yymm[..2]), &yymm[2..]);
    let is_leap = year.parse::<u32>().expect("digits").is_multiple_of(4);
    let day = match month {
        "04" | "06" | "09" | "11" => 30,
        "02" if is_leap => 29,
        "02" => 28,
        _ => 31,
    };
    format!("{year}-{month}-{day}")
}
