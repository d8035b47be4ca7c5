//! The HTTP door: the same operations as JSON, with a network key and never an API token.

use cardswitch_harness::{
    HttpClient, Installation, Switch, TestCard, minor, next_stan, transactions_of_card,
};
use serde_json::{Value, json};

#[test]
fn needs_the_network_key_and_nothing_else_will_do() {
    let installation = Installation::init(60, 601);
    let switch = installation.serve();
    let body = purchase(installation.cards.ordinary(), 1.0);
    let path = "/network/v1/authorizations";
    switch.anonymous().post(path, &body).expect_error(401);
    switch.api().post(path, &body).expect_error(401);
    let token = format!("Bearer {}", installation.credentials.access_token);
    HttpClient::with_authorization(switch.http, &token).post(path, &body).expect_error(401);
    switch.network_api().post(path, &body).expect(200);

    let key = format!("Bearer {}", installation.credentials.network_key);
    HttpClient::with_authorization(switch.http, &key).get("/v1/cards").expect_error(401);
}

#[test]
fn approval_tells_what_it_decided() {
    let installation = Installation::init(60, 602);
    let switch = installation.serve();
    let card = installation.cards.ordinary();
    let network = switch.network_api();
    let answer = network.post("/network/v1/authorizations", &purchase(card, 12.5)).expect(200);
    assert_eq!(answer["approved"], true);
    assert_eq!(answer["response_code"], 0);
    assert_eq!(minor(&answer["approved_amount"]), 1_250);
    assert_eq!(answer["failed_rules"], json!([]));
    assert_eq!(answer["authorization_id"].as_str().map(str::len), Some(6));
    let allowance = switch.api().get(&format!("/v1/allowances/{}", card.allowance_id)).expect(200);
    assert_eq!(minor(&answer["allowance_balance"]), minor(&allowance["balance"]));

    let id = answer["transaction_id"].as_str().expect("a transaction id");
    let transaction = switch.api().get(&format!("/v1/transactions/{id}")).expect(200);
    assert_eq!(transaction["state"], "pending");
    assert_eq!(minor(&transaction["amount"]), -1_250);
}

/// Amounts went through a binary fraction once: 12.50 was printed as 12.5.
#[test]
fn amounts_keep_their_digits() {
    let installation = Installation::init(60, 612);
    let switch = installation.serve();
    let card = installation.cards.ordinary();
    let network = switch.network_api();
    let answer = network.post("/network/v1/authorizations", &purchase(card, 12.5)).text();
    assert!(answer.contains(r#""approved_amount":12.50,"#), "{answer}");
}

#[test]
fn decline_is_an_answer_and_keeps_every_failed_rule() {
    let installation = Installation::init(60, 603);
    let switch = installation.serve();
    let card = installation.cards.first("suspended");
    let mut body = purchase(card, 1.0);
    body["cvv"] = json!(if card.cvv == "000" { "001" } else { "000" });
    let network = switch.network_api();
    let answer = network.post("/network/v1/authorizations", &body).expect(200);
    assert_eq!(answer["approved"], false);
    assert_eq!(answer["response_code"], 1202, "the first failed rule speaks");
    let failed = answer["failed_rules"].as_array().expect("failed rules");
    assert_eq!(failed.len(), 2, "the wrong CVV is kept too: {answer:#}");
}

#[test]
fn card_is_named_by_number_or_by_id() {
    let installation = Installation::init(60, 604);
    let switch = installation.serve();
    let card = installation.cards.ordinary();
    let mut by_id = purchase(card, 1.0);
    by_id.as_object_mut().expect("an object").remove("card_number");
    by_id["card_id"] = json!(card.card_id);
    let network = switch.network_api();
    let answer = network.post("/network/v1/authorizations", &by_id).expect(200);
    assert_eq!(answer["approved"], true, "{answer:#}");
}

#[test]
fn reversal_and_presentment_follow_the_authorization() {
    let installation = Installation::init(60, 605);
    let switch = installation.serve();
    let network = switch.network_api();
    let card = installation.cards.ordinary();
    let state_of = |id: &Value| {
        let path = format!("/v1/transactions/{}", id.as_str().expect("an id"));
        switch.api().get(&path).expect(200)["state"].clone()
    };
    let approve = || {
        let answer = network.post("/network/v1/authorizations", &purchase(card, 20.0)).expect(200);
        assert_eq!(answer["approved"], true, "{answer:#}");
        answer["transaction_id"].clone()
    };

    let reversed = approve();
    let part = json!({"transaction_id": reversed, "amount": 5.0});
    network.post("/network/v1/reversals", &part).expect(200);
    assert_eq!(state_of(&reversed), "pending");
    network.post("/network/v1/reversals", &json!({"transaction_id": reversed})).expect(200);
    assert_eq!(state_of(&reversed), "canceled");

    let presented = approve();
    let body = json!({"transaction_id": presented, "amount": 20.0});
    network.post("/network/v1/presentments", &body).expect(200);
    assert_eq!(state_of(&presented), "completed");

    // Posting nothing would use the presentment up, and lose the network's own.
    let named = json!({"transaction_id": reversed});
    let detail = network.post("/network/v1/presentments", &named).expect_error(400);
    assert_eq!(detail["param"], "amount");
    assert_eq!(state_of(&reversed), "canceled");
    let body = json!({"transaction_id": reversed, "amount": 20.0});
    network.post("/network/v1/presentments", &body).expect(200);
    assert_eq!(state_of(&reversed), "completed");

    let both = json!({"transaction_id": approve(), "amount": 1.0, "remaining": 1.0});
    network.post("/network/v1/reversals", &both).expect_error(400);
}

#[test]
fn increment_adds_to_what_is_held_and_expires_with_it() {
    let installation = Installation::init(60, 613);
    let switch = installation.serve();
    let card = installation.cards.ordinary();
    let network = switch.network_api();
    let approved = network.post("/network/v1/authorizations", &purchase(card, 20.0)).expect(200);
    let left = minor(&approved["allowance_balance"]);
    let named =
        |amount: f64| json!({"transaction_id": approved["transaction_id"], "amount": amount});

    let more = network.post("/network/v1/increments", &named(5.5)).expect(200);
    assert_eq!((&more["approved"], minor(&more["approved_amount"])), (&json!(true), 550));
    assert_eq!(more["transaction_id"], approved["transaction_id"]);
    assert_eq!(minor(&more["allowance_balance"]), left - 550);
    let rows = transactions_of_card(&network, &card.card_id);
    assert_eq!((rows.len(), rows[0].held_minor), (1, 2_550), "one purchase of both");

    let too_much = network.post("/network/v1/increments", &named(900_000.0)).expect(200);
    assert_eq!(
        (&too_much["approved"], minor(&too_much["allowance_balance"])),
        (&json!(false), left - 550)
    );
    network.post("/network/v1/reversals", &named(25.5)).expect(200);
    let late = network.post("/network/v1/increments", &named(1.0)).expect(200);
    assert_eq!(
        (&late["response_code"], &late["sub_reason"]),
        (&json!(1000), &json!("not_pending"))
    );
    let zero = network.post("/network/v1/increments", &named(0.0)).expect_error(400);
    assert_eq!(zero["errors"][0]["code"], "not_positive");
    installation_verifies(&installation, switch);
}

#[test]
fn transfers_are_in_transit_until_they_settle_or_come_back() {
    let installation = Installation::init(60, 614);
    let switch = installation.serve();
    let (api, network) = (switch.api(), switch.network_api());
    let account = || api.get("/v1/accounts").expect(200)["results"][0].clone();
    let figures = || {
        let account = account();
        ["ledger_balance", "available_balance", "pending_credits"].map(|name| minor(&account[name]))
    };
    let [ledger, available, credits] = figures();
    let id = account()["id"].clone();
    let ask = |amount: f64| {
        let bank = json!({"description": "First Bank", "name": "Checking", "number": "0042"});
        let body = json!({"account_id": id, "amount": amount, "bank_account": bank});
        network.post("/network/v1/transfers", &body).expect(200)
    };
    let conclude = |transfer: &Value, how: &str| {
        let id = transfer["transaction_id"].as_str().expect("a transfer");
        network.post(&format!("/network/v1/transfers/{id}/{how}"), &json!({}))
    };

    let deposit = ask(300.0);
    assert_eq!(deposit["outcome"], "in_transit");
    assert_eq!(figures(), [ledger, available, credits + 30_000]);
    for _ in 0..2 {
        assert_eq!(conclude(&deposit, "settle").expect(200)["outcome"], "settled");
        assert_eq!(figures(), [ledger + 30_000, available + 30_000, credits], "settled once");
    }

    let withdrawal = ask(-120.0);
    assert_eq!(figures(), [ledger + 30_000, available + 18_000, credits]);
    assert_eq!(conclude(&withdrawal, "return").expect(200)["outcome"], "returned");
    assert_eq!(figures(), [ledger + 30_000, available + 30_000, credits]);
    let settled = conclude(&withdrawal, "settle").expect_error(409);
    assert_eq!(settled["code"], "transfer_concluded");

    assert_eq!(conclude(&deposit, "return").expect(200)["outcome"], "returned");
    assert_eq!(figures(), [ledger, available, credits]);
    let refused = ask(-90_000_000.0);
    assert_eq!(
        (&refused["outcome"], &refused["response_code"]),
        (&json!("declined"), &json!(1101))
    );
    conclude(&refused, "settle").expect_error(409);
    conclude(&json!({"transaction_id": NOBODY}), "settle").expect_error(404);
    let path = "/network/v1/transfers";
    network.post(path, &json!({"account_id": id, "amount": 0})).expect_error(400);
    network.post(path, &json!({"account_id": id, "amount": 1.001})).expect_error(400);
    assert_eq!(figures(), [ledger, available, credits]);
    installation_verifies(&installation, switch);
}

/// A presentment that cannot be posted changes nothing; an unusual one is posted and flagged.
#[test]
fn bad_presentments_and_refunds_lose_nothing_and_post_nothing_twice() {
    let installation = Installation::init(60, 615);
    let switch = installation.serve();
    let (api, network) = (switch.api(), switch.network_api());
    let card = installation.cards.ordinary();
    let ledger = || minor(&api.get("/v1/accounts").expect(200)["results"][0]["ledger_balance"]);
    let flags_of = |id: &Value| {
        let path = format!("/v1/transactions/{}", id.as_str().expect("an id"));
        api.get(&path).expect(200)["flags"].clone()
    };
    let before = ledger();
    let approved = network.post("/network/v1/authorizations", &purchase(card, 20.0)).expect(200);
    let present = |changes: &[(&str, Value)]| {
        let mut body = json!({"transaction_id": approved["transaction_id"], "amount": 20.0});
        for (key, value) in changes {
            body[key] = value.clone();
        }
        network.post("/network/v1/presentments", &body)
    };

    let refused = [
        ("amount", json!("1000000000000.01"), "amount"),
        ("amount", json!("20.001"), "amount"),
        ("amount", json!(-20), "amount"),
        ("amount", json!(0), "amount"),
        ("currency", json!("EUR"), "billing_amount"),
        ("billing_amount", json!("20.01"), "billing_amount"),
        ("currency", json!("XXQ"), "currency"),
        ("time", json!("tomorrow"), "time"),
    ];
    for (key, value, param) in refused {
        let detail = present(&[(key, value.clone())]).expect_error(400);
        assert_eq!(detail["errors"][0]["param"], param, "{key} = {value}: {detail:#}");
    }
    assert_eq!(ledger(), before, "nothing of it was posted");

    // The largest amounts there are: the ledger takes what it can count, and no more.
    let huge = [("amount", json!("1000000000000"))];
    let outcome = |answer: &Value| answer["outcome"].as_str().map(str::to_owned);
    let largest = json!({"type": "presentment", "card_id": card.card_id, "amount": "1000000000000",
        "merchant": {"mid": 424_242, "mcc": 5812, "name": "ACME"}});
    let batch = json!(vec![largest; 500]);
    let mut posted = 0;
    loop {
        let answers = network.post("/network/v1/batch", &batch).expect(200);
        let answers = answers.as_array().expect("an array");
        let taken = answers.iter().filter(|answer| outcome(answer).as_deref() == Some("posted"));
        posted += 100_000_000_000_000 * i64::try_from(taken.count()).expect("few");
        assert_eq!(ledger(), before - posted);
        if outcome(&answers[499]).as_deref() == Some("out_of_bounds") {
            break;
        }
        assert_eq!(flags_of(&answers[0]["transaction_id"]), json!(["forced"]));
    }
    assert_eq!(outcome(&present(&huge).expect(200)).as_deref(), Some("out_of_bounds"));
    assert_eq!(ledger(), before - posted);

    // A time of the message's own moves only a manual clock; this posts once, and today.
    for (said, taken) in [("posted", 2_000), ("already_posted", 0)] {
        let answer = present(&[("time", json!("2099-01-01T00:00:00Z"))]).expect(200);
        assert_eq!((outcome(&answer).as_deref(), minor(&answer["posted"])), (Some(said), taken));
    }
    let unknown = json!({"card_number": "4000000000000002", "amount": 1, "merchant": {"mid": 1}});
    let nobody = network.post("/network/v1/presentments", &unknown).expect(200);
    assert_eq!(outcome(&nobody).as_deref(), Some("unknown_card"));
    assert_eq!(ledger(), before - posted - 2_000);

    let refund = json!({"transaction_id": approved["transaction_id"], "amount": 50.0});
    let refund = network.post("/network/v1/refunds", &refund).expect(200);
    assert_eq!(flags_of(&refund["transaction_id"]), json!(["over_refunded"]));
    assert_eq!(ledger(), before - posted + 3_000);
    installation_verifies(&installation, switch);
}

/// Ends the switch and lets `verify` add up its books.
#[track_caller]
fn installation_verifies(installation: &Installation, switch: Switch) {
    switch.stop();
    installation.verify_ok();
}

#[test]
fn advice_is_recorded_without_the_rules() {
    let installation = Installation::init(60, 606);
    let switch = installation.serve();
    let body = purchase(installation.cards.first("suspended"), 3.0);
    let answer = switch.network_api().post("/network/v1/advices", &body).expect(200);
    let id = answer["transaction_id"].as_str().expect("an advice makes a transaction");
    let transaction = switch.api().get(&format!("/v1/transactions/{id}")).expect(200);
    assert_eq!(transaction["state"], "pending");
}

#[test]
fn batch_answers_in_order() {
    let installation = Installation::init(60, 607);
    let switch = installation.serve();
    let typed = |kind: &str, mut body: Value| {
        body["type"] = json!(kind);
        body
    };
    let approved = purchase(installation.cards.ordinary(), 2.0);
    let reversal = json!({
        "card_number": approved["card_number"],
        "rrn": approved["rrn"],
        "acquirer": approved["acquirer"],
    });
    let batch = json!([
        typed("authorization", approved),
        typed("authorization", purchase(installation.cards.first("suspended"), 2.0)),
        typed("reversal", reversal),
    ]);
    let answers = switch.network_api().post("/network/v1/batch", &batch).expect(200);
    let answers = answers.as_array().expect("a batch is answered by an array");
    assert_eq!(answers.len(), 3);
    assert_eq!(answers[0]["response_code"], 0);
    assert_eq!(answers[1]["response_code"], 1202);
    assert_eq!(answers[2]["response_code"], 0, "the reversal found the first: {:#}", answers[2]);
}

#[test]
fn bad_bodies_are_told_apart() {
    let installation = Installation::init(60, 608);
    let switch = installation.serve();
    let network = switch.network_api();
    let good = purchase(installation.cards.ordinary(), 1.0);
    let rows = [
        ("amount", json!("ten")),
        ("amount", json!(-1)),
        ("amount", json!(1.005)),
        ("amount", Value::Null),
        ("card_number", Value::Null),
    ];
    for (param, value) in rows {
        let mut body = good.clone();
        body[param] = value.clone();
        let detail = network.post("/network/v1/authorizations", &body).expect_error(400);
        assert_eq!(detail["errors"][0]["param"], param, "{param} = {value}: {detail:#}");
    }
}

/// A transfer for an unknown account spoke of a path, and named no field.
#[test]
fn an_unknown_reference_is_named() {
    let installation = Installation::init(1, 623);
    let switch = installation.serve();
    let rows = [
        ("transfers", json!({"account_id": NOBODY, "amount": 5}), "account_id"),
        ("reversals", json!({"transaction_id": NOBODY}), "transaction_id"),
    ];
    for (path, body, param) in rows {
        let answer = switch.network_api().post(&format!("/network/v1/{path}"), &body);
        let detail = answer.expect_error(404);
        assert_eq!((&detail["code"], &detail["param"]), (&json!("not_found"), &json!(param)));
    }
    let body = json!({"account_id": NOBODY, "amount": 0});
    let detail = switch.network_api().post("/network/v1/transfers", &body).expect_error(400);
    assert_eq!(detail["param"], "amount", "what is wrong with the body comes first");
}

/// An id that no transaction has.
const NOBODY: &str = "01890000-0000-7000-8000-000000000000";

fn purchase(card: &TestCard, amount: f64) -> Value {
    let stan = next_stan();
    json!({
        "card_number": card.pan,
        "amount": amount,
        "merchant": {
            "mid": 424_242, "mcc": 5411, "name": "HARNESS GROCERY", "city": "SAN FRANCISCO",
            "state": "CA", "country": "US", "zip": "94103",
        },
        "stan": format!("{stan:06}"),
        "rrn": format!("RRN{stan:09}"),
        "acquirer": "400001",
    })
}
