//! Explained decisions: `/v1/transactions/:id/decision` and `cardswitch explain` say the same, and
//! what they say would have approved a purchase does.

use cardswitch_harness::{Installation, Switch, TestCard, minor, run_cardswitch};
use serde_json::{Value, json};

#[test]
fn the_least_change_that_is_named_approves_and_one_cent_less_does_not() {
    let (_installation, switch, card) = day_with_a_limit(860);
    buy(&switch, &card, 34.9, true);
    let declined = buy(&switch, &card, 15.1, false);
    let change = decision(&switch, &declined)["least_change"][0].clone();
    let text = change["text"].as_str().expect("words");
    assert!(text.starts_with("raise daily_limit by 5.10, or wait until after "), "{text}");
    assert!(text.contains("T00:00-0"), "midnight by the company's clock: {text}");

    let to = minor(&change["change"]["to"]);
    set_daily_limit(&switch, &card, to - 1);
    buy(&switch, &card, 15.1, false);
    let after = change["after"].as_str().expect("an instant");
    set_clock(&switch, &just_before(after));
    buy(&switch, &card, 15.1, false);
    set_clock(&switch, after);
    buy(&switch, &card, 15.1, true);

    let (_installation, switch, card) = day_with_a_limit(861);
    buy(&switch, &card, 34.9, true);
    buy(&switch, &card, 15.1, false);
    set_daily_limit(&switch, &card, to);
    buy(&switch, &card, 15.1, true);
}

#[test]
fn later_changes_of_the_card_change_no_explanation() {
    let (_installation, switch, card) = day_with_a_limit(862);
    let declined = buy(&switch, &card, 50.0, false);
    let before = decision(&switch, &declined);
    set_daily_limit(&switch, &card, 1);
    switch.api().delete(&format!("/v1/cards/{}", card.card_id)).expect(204);
    assert_eq!(decision(&switch, &declined), before);
}

#[test]
fn a_part_is_explained_by_what_was_taken_and_what_was_missing() {
    let installation = Installation::init(60, 863);
    let company = installation.credentials.company_id.clone();
    let data = installation.data();
    let data = data.to_str().expect("a path in UTF-8");
    let set = ["company", "set", "--data", data, "--company", &company, "--partial-approval"];
    assert_eq!(run_cardswitch(&[&set[..], &["true"]].concat()).code, Some(0));
    let (switch, card) = still_switch(&installation);
    set_daily_limit(&switch, &card, 4_490);
    let mut body = purchase(&card, 50.0);
    body["partial"] = json!(true);
    let answer = switch.network_api().post("/network/v1/authorizations", &body).expect(200);
    assert_eq!(minor(&answer["approved_amount"]), 4_490, "{answer:#}");

    let explained = decision(&switch, &answer["transaction_id"]);
    assert_eq!((&explained["approved"], minor(&explained["amount"])), (&json!(true), 5_000));
    let daily_limit = rule(&explained, "daily_limit");
    assert_eq!(
        (&daily_limit["passed"], minor(&daily_limit["usage_after"])),
        (&json!(false), 4_490)
    );
    assert_eq!(explained["least_change"][0]["text"], "raise daily_limit by 5.10");
    assert_eq!(minor(&explained["approvable_amount"]), 4_490);
    assert_eq!(minor(&explained["approved_amount"]), 4_490);
    switch.kill9();
    let text = explain(&installation, &answer["transaction_id"]);
    let told = "answer       partially approved, 44.90 USD";
    assert!(text.lines().any(|line| line == told), "{text}");
}

#[test]
fn a_hold_ends_when_its_company_says() {
    let installation = Installation::init_with(60, 871, &["--hold-days", "2,7011=4"]);
    let (switch, card) = still_switch(&installation);
    let now = switch.network_api().get("/network/v1/clock").expect(200)["now"].clone();
    let now: chrono::DateTime<chrono::Utc> = now.as_str().expect("a time").parse().expect("a time");
    let mut stay = purchase(&card, 20.0);
    stay["merchant"]["mcc"] = json!(7011);
    let stay = switch.network_api().post("/network/v1/authorizations", &stay).expect(200);
    let meal = buy(&switch, &card, 10.0, true);
    let state = |id: &Value| {
        let path = format!("/v1/transactions/{}", id.as_str().expect("an id"));
        switch.api().get(&path).expect(200)["state"].clone()
    };
    let states = |days| {
        set_clock(&switch, &(now + chrono::Duration::days(days)).to_rfc3339());
        [state(&meal), state(&stay["transaction_id"])]
    };
    assert_eq!(states(1), ["pending", "pending"]);
    assert_eq!(states(3), ["canceled", "pending"]);
    assert_eq!(states(5), ["canceled", "canceled"]);
}

#[test]
fn an_advice_says_that_the_network_decided() {
    let (installation, switch, card) = day_with_a_limit(864);
    let network = switch.network_api();
    let answer = network.post("/network/v1/advices", &purchase(&card, 50.0)).expect(200);
    let explained = decision(&switch, &answer["transaction_id"]);
    assert_eq!(
        (&explained["decided_by"], &explained["approved"]),
        (&json!("network"), &json!(true))
    );
    assert_eq!(rule(&explained, "daily_limit")["passed"], false);
    assert_eq!(explained["least_change"], json!([]));

    switch.kill9();
    let text = explain(&installation, &answer["transaction_id"]);
    assert!(text.contains("by the network; the rules were evaluated but did not decide"), "{text}");
    assert!(text.contains("FAIL"), "{text}");
}

/// Once, the text named credit as the reason, which does not count.
#[test]
fn a_withdrawal_is_explained_by_the_balance_that_it_is_over() {
    let installation = Installation::init(60, 872);
    let (switch, _) = still_switch(&installation);
    let account = switch.api().get("/v1/accounts").expect(200)["results"][0]["id"].clone();
    let bank = json!({"description": "First Bank", "name": "Checking", "number": "0042"});
    let body = json!({"account_id": account, "amount": -90_000_000.0, "bank_account": bank});
    let refused = switch.network_api().post("/network/v1/transfers", &body).expect(200);
    assert_eq!(refused["response_code"], 1101);
    let explained = decision(&switch, &refused["transaction_id"]);
    let reason = "the amount is over available_balance";
    assert_eq!(rule(&explained, "available_credit")["explanation"], reason);
    switch.kill9();
    let text = explain(&installation, &refused["transaction_id"]);
    let row = text.lines().find(|line| line.starts_with("available_credit ")).expect("a row");
    assert!(row.contains(reason), "{text}");
}

#[test]
fn each_increment_is_explained_beside_the_first_decision() {
    let (installation, switch, card) = day_with_a_limit(866);
    let network = switch.network_api();
    let hotel = buy(&switch, &card, 30.0, true);
    assert_eq!(decision(&switch, &hotel)["increments"], json!([]));
    let add = |amount: f64| {
        let body = json!({"transaction_id": hotel, "amount": amount});
        network.post("/network/v1/increments", &body).expect(200)
    };
    assert_eq!(add(10.0)["response_code"], 0);
    assert_eq!(add(10.0)["response_code"], 1502);
    let explained = decision(&switch, &hotel);
    // The first decision is the one on what was asked first.
    assert_eq!((minor(&explained["amount"]), explained["approved"].clone()), (3_000, json!(true)));
    let increments = explained["increments"].as_array().expect("increments");
    let told: Vec<_> = increments
        .iter()
        .map(|one| (minor(&one["amount"]), minor(&one["added_to"]), one["response_code"].clone()))
        .collect();
    assert_eq!(told, [(1_000, 3_000, json!(0)), (1_000, 4_000, json!(1502))]);
    let limit = rule(&increments[0], "daily_limit");
    assert_eq!((minor(&limit["usage_before"]), minor(&limit["usage_after"])), (3_000, 4_000));
    assert_eq!(minor(&explained["approved_amount"]), 3_000);
    assert_eq!(minor(&increments[0]["approved_amount"]), 1_000);
    assert_eq!(increments[1]["approved_amount"], Value::Null);
    let declined = &increments[1];
    assert_eq!(minor(&declined["approvable_amount"]), 490);
    let text = declined["least_change"][0]["text"].as_str().expect("words");
    assert!(text.starts_with("raise daily_limit by 5.10"), "{text}");

    // The named change is right: so much more is approved, and a cent more is not.
    let to = minor(&declined["least_change"][0]["change"]["to"]);
    set_daily_limit(&switch, &card, to - 1);
    assert_eq!(add(10.0)["response_code"], 1502);
    set_daily_limit(&switch, &card, to);
    assert_eq!(add(10.0)["response_code"], 0);
    let told = without_addresses(&decision(&switch, &hotel));
    assert_eq!(told["increments"].as_array().map(Vec::len), Some(4));
    assert_eq!(told["increments"][1], *declined, "later changes of the card change none");

    switch.kill9();
    let data = installation.data();
    let data = data.to_str().expect("a path in UTF-8");
    let id = hotel.as_str().expect("an id");
    let output = run_cardswitch(&["explain", "--data", data, id, "--json"]);
    assert_eq!(without_addresses(&output.expect_json()), told);
    let text = run_cardswitch(&["explain", "--data", data, id]).stdout;
    for line in [
        "increment 1",
        "requested    10.00 more on 30.00 USD",
        "increment 2",
        "requested    10.00 more on 40.00 USD",
        "answer       declined, 1502",
        "increment 4",
    ] {
        assert!(text.lines().any(|found| found == line), "`{line}` in\n{text}");
    }
    installation.verify_ok();
}

#[test]
fn the_command_tells_the_same_of_a_killed_directory_and_changes_nothing() {
    let (installation, switch, card) = day_with_a_limit(865);
    buy(&switch, &card, 34.9, true);
    let declined = buy(&switch, &card, 15.1, false);
    let id = declined.as_str().expect("an id");
    let told = without_addresses(&decision(&switch, &declined));
    switch.kill9();

    let files = [installation.journal_segment(), installation.data().join("store.redb")];
    let bytes = || files.each_ref().map(|file| std::fs::read(file).expect("a file"));
    let before = bytes();
    let data = installation.data();
    let data = data.to_str().expect("a path in UTF-8");
    let output = run_cardswitch(&["explain", "--data", data, id, "--json"]);
    assert_eq!(without_addresses(&output.expect_json()), told);

    let text = run_cardswitch(&["explain", "--data", data, id]).stdout;
    let words = told["least_change"][0]["text"].as_str().expect("words");
    for line in [
        &format!("transaction  {id}"),
        "requested    15.10 USD",
        "answer       declined, 1502",
        &format!("  daily_limit: {words}"),
        "or request at most 10.00",
    ] {
        assert!(text.lines().any(|found| found == line), "`{line}` in\n{text}");
    }
    let row = text.lines().find(|line| line.starts_with("daily_limit ")).expect("the rule's row");
    let cells: Vec<_> = row.split_whitespace().collect();
    assert_eq!(cells, ["daily_limit", "FAIL", "15.10", "44.90", "34.90", "34.90"]);
    assert!(bytes() == before, "explain has written to the directory");

    let unknown = "01900000-0000-7000-8000-000000000000";
    let output = run_cardswitch(&["explain", "--data", data, unknown]);
    assert!(output.expect_one_line_error().contains(unknown));
    installation.verify_ok();
}

/// A switch whose ordinary card has a daily limit of 44.90.
#[track_caller]
fn day_with_a_limit(seed: u64) -> (Installation, Switch, TestCard) {
    let installation = Installation::init(60, seed);
    let (switch, card) = still_switch(&installation);
    set_daily_limit(&switch, &card, 4_490);
    (installation, switch, card)
}

/// A switch whose clock stands where `init` left it, and a card without limits.
#[track_caller]
fn still_switch(installation: &Installation) -> (Switch, TestCard) {
    let switch = installation.serve_with(&["--clock", "manual"]);
    (switch, installation.cards.ordinary().clone())
}

/// A second before midnight in Los Angeles.
#[track_caller]
fn just_before(midnight: &str) -> String {
    let (date, time) = midnight.split_once('T').expect("a date and a time");
    let hours = [("07:00:00.000000Z", "06"), ("08:00:00.000000Z", "07")];
    let hour = hours.iter().find(|(midnight, _)| *midnight == time);
    let (_, before) = hour.expect("a midnight in Los Angeles");
    format!("{date}T{before}:59:59Z")
}

#[track_caller]
fn set_clock(switch: &Switch, now: &str) {
    switch.network_api().post("/network/v1/clock", &json!({"now": now})).expect(200);
}

#[track_caller]
fn set_daily_limit(switch: &Switch, card: &TestCard, limit_minor: i64) {
    let limit = format!("{}.{:02}", limit_minor / 100, limit_minor % 100);
    let path = format!("/v1/allowances/{}", card.allowance_id);
    switch.api().put(&path, &json!({"daily_limit": limit})).expect(200);
}

fn purchase(card: &TestCard, amount: f64) -> Value {
    json!({"card_id": card.card_id, "amount": amount, "merchant": {"mcc": 5411, "name": "Shop"}})
}

/// Buys something; returns the transaction's id.
#[track_caller]
fn buy(switch: &Switch, card: &TestCard, amount: f64, is_approved: bool) -> Value {
    let network = switch.network_api();
    let answer = network.post("/network/v1/authorizations", &purchase(card, amount)).expect(200);
    assert_eq!(answer["approved"], is_approved, "{answer:#}");
    answer["transaction_id"].clone()
}

#[track_caller]
fn decision(switch: &Switch, transaction: &Value) -> Value {
    let id = transaction.as_str().expect("a transaction's id");
    switch.api().get(&format!("/v1/transactions/{id}/decision")).expect(200)
}

/// The text about a transaction, from a directory at rest.
#[track_caller]
fn explain(installation: &Installation, transaction: &Value) -> String {
    let data = installation.data();
    let data = data.to_str().expect("a path in UTF-8");
    let id = transaction.as_str().expect("a transaction's id");
    let output = run_cardswitch(&["explain", "--data", data, id]);
    output.expect_done();
    output.stdout
}

#[track_caller]
fn rule(decision: &Value, name: &str) -> Value {
    let rules = decision["rules"].as_array().expect("rules");
    rules.iter().find(|rule| rule["rule"] == name).expect("the rule").clone()
}

/// A decision without the address of its transaction, which has the port of the start.
fn without_addresses(decision: &Value) -> Value {
    let mut decision = decision.clone();
    decision["transaction"]["url"] = Value::Null;
    decision
}
