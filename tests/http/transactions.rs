//! `/v1/transactions`, `/v1/accounts`, `/v1/company`: the traces of purchases.

use cardswitch_harness::{HttpClient, Installation, Purchase, Random, Switch, TestCard, minor};
use serde_json::{Value, json};

#[test]
fn purchase_is_listed_at_once_with_every_field() {
    let installation = Installation::init(60, 841);
    let switch = installation.serve();
    let card = installation.cards.ordinary();
    let purchase = Purchase::of(card, 4_321);
    let authorization_id = switch.acquirer().ask(&purchase.request()).expect_approved();

    let listed = newest_of(&switch.api(), card);
    for key in [
        "id",
        "url",
        "amount",
        "foreign_amount",
        "foreign_currency_code",
        "state",
        "card",
        "member",
        "category",
        "department",
        "location",
        "label",
        "receipt",
        "note",
        "merchant",
        "time",
        "posted_at",
        "created_at",
    ] {
        assert!(listed.get(key).is_some(), "a transaction has `{key}`: {listed:#}");
    }
    assert_eq!((minor(&listed["amount"]), &listed["state"]), (-4_321, &json!("pending")));
    assert_eq!(listed["card"]["id"], card.card_id.as_str());
    assert_eq!(listed["merchant"]["mcc"], 5411);
    assert_eq!(listed["merchant"]["mid"], 424_242);
    assert_eq!(listed["merchant"]["name"], purchase.merchant_name.as_str());
    assert_eq!(listed["posted_at"], Value::Null);
    assert_eq!(by_id(&switch.api(), &listed), listed);

    let presentment = purchase.presentment(&authorization_id, 4_321);
    assert_eq!(switch.acquirer().ask(&presentment).response(), "00");
    let posted = by_id(&switch.api(), &listed);
    assert_eq!((minor(&posted["amount"]), &posted["state"]), (-4_321, &json!("completed")));
    assert!(posted["posted_at"].is_string(), "{posted:#}");
    assert_eq!(posted["time"], listed["time"], "the moment of the authorization stays");
}

#[test]
fn decline_is_listed_with_its_code_and_amount() {
    let installation = Installation::init(60, 842);
    let switch = installation.serve();
    let card = installation.cards.first("suspended");
    switch.acquirer().ask(&Purchase::of(card, 999).request()).expect_declined(1202);
    let listed = newest_of(&switch.api(), card);
    assert_eq!((&listed["state"], &listed["response_code"]), (&json!("declined"), &json!(1202)));
    assert_eq!(minor(&listed["amount"]), -999);
    assert_eq!(listed["posted_at"], Value::Null);
}

#[test]
fn purchase_with_an_unknown_card_leaves_no_transaction() {
    let installation = Installation::init(60, 843);
    let switch = installation.serve();
    let count = || switch.api().get("/v1/transactions?limit=1").expect(200)["count"].clone();
    let before = count();
    let mut purchase = Purchase::of(installation.cards.ordinary(), 100);
    purchase.pan = "4111111111111111".to_owned();
    assert_eq!(switch.acquirer().ask(&purchase.request()).response(), "14");
    assert_eq!(count(), before);
}

#[test]
fn reversed_purchase_shows_canceled_and_zero() {
    let installation = Installation::init(60, 844);
    let switch = installation.serve();
    let card = installation.cards.ordinary();
    let purchase = Purchase::of(card, 500);
    let mut acquirer = switch.acquirer();
    let authorization_id = acquirer.ask(&purchase.request()).expect_approved();
    assert_eq!(acquirer.ask(&purchase.reversal(&authorization_id)).response(), "00");
    let listed = newest_of(&switch.api(), card);
    assert_eq!((minor(&listed["amount"]), &listed["state"]), (0, &json!("canceled")));
}

#[test]
fn filters_by_card_and_time_find_what_they_name() {
    let installation = Installation::init(60, 845);
    let switch = installation.serve();
    let api = switch.api();
    let cards = installation.cards.with_profile("ordinary");
    let mut acquirer = switch.acquirer();
    for amount_minor in [101, 102, 103] {
        acquirer.ask(&Purchase::of(cards[0], amount_minor).request()).expect_approved();
        acquirer.ask(&Purchase::of(cards[1], amount_minor + 100).request()).expect_approved();
    }
    let amounts = |query: &str| -> Vec<i64> {
        let page = api.get(&format!("/v1/transactions?limit=100&{query}")).expect(200);
        page["results"]
            .as_array()
            .expect("results")
            .iter()
            .map(|row| -minor(&row["amount"]))
            .collect()
    };
    let of_first = format!("card={}", cards[0].card_id);
    assert_eq!(amounts(&of_first), [103, 102, 101], "newest first");
    assert_eq!(amounts(&format!("{of_first}&ordering=time")), [101, 102, 103]);
    assert_eq!(amounts(&format!("{of_first}&ordering=created_at&offset=1")), [102, 103]);

    let page = api.get(&format!("/v1/transactions?limit=100&{of_first}")).expect(200);
    let middle = page["results"][1]["time"].as_str().expect("a time");
    assert_eq!(amounts(&format!("{of_first}&after={middle}")), [103, 102], "on or after");
    assert_eq!(amounts(&format!("{of_first}&before={middle}")), [101], "before");
    assert_eq!(amounts(&format!("{of_first}&after={middle}&before={middle}")), [] as [i64; 0]);
    for query in ["before=noon", "card=not-an-id", "ordering=amount"] {
        api.get(&format!("/v1/transactions?{query}")).expect_error(400);
    }
}

/// Purchases in every state, on two cards and on a suspended one.
fn make_every_state(installation: &Installation, switch: &Switch) {
    let cards = installation.cards.with_profile("ordinary");
    let mut acquirer = switch.acquirer();
    for card in &cards[..2] {
        for amount_minor in [210, 220, 230, 240] {
            let purchase = Purchase::of(card, amount_minor);
            let authorization_id = acquirer.ask(&purchase.request()).expect_approved();
            let follow_up = match amount_minor {
                210 => purchase.presentment(&authorization_id, amount_minor),
                220 => purchase.reversal(&authorization_id),
                _ => continue,
            };
            assert_eq!(acquirer.ask(&follow_up).response(), "00");
        }
        acquirer.ask(&Purchase::of(card, 0).request()).expect_approved();
    }
    let verification = Purchase::of(cards[0], 0);
    let authorization_id = acquirer.ask(&verification.request()).expect_approved();
    assert_eq!(acquirer.ask(&verification.presentment(&authorization_id, 260)).response(), "00");
    let suspended = installation.cards.first("suspended");
    for amount_minor in [0, 250] {
        acquirer.ask(&Purchase::of(suspended, amount_minor).request()).expect_declined(1202);
    }
}

/// All transactions, newest first.
fn everything(api: &HttpClient) -> Vec<Value> {
    let page = api.get("/v1/transactions?limit=1000").expect(200);
    page["results"].as_array().expect("results").clone()
}

/// The transactions that a query lists, and how many it counts.
fn listed(api: &HttpClient, query: &str) -> (Vec<Value>, u64) {
    let page = api.get(&format!("/v1/transactions?{query}")).expect(200);
    let rows = page["results"].as_array().expect("results").clone();
    (rows, page["count"].as_u64().expect("a count"))
}

#[test]
fn filters_by_state_and_kind_combine_with_all_others() {
    let seed = 850;
    println!("seed {seed}");
    let installation = Installation::init(60, seed);
    let switch = installation.serve();
    make_every_state(&installation, &switch);
    let api = switch.api();
    let all = everything(&api);
    for state in ["pending", "completed", "declined", "canceled"] {
        assert!(all.iter().any(|row| row["state"] == state), "there is one {state}");
    }
    let verifications = all.iter().filter(|row| row["kind"] == "verification").count();
    assert_eq!(verifications, 4, "three that went well, and one that was declined");
    let card = installation.cards.with_profile("ordinary")[0].card_id.clone();
    let middle = all[all.len() / 2]["time"].as_str().expect("a time").to_owned();
    let mut random = Random::new(seed);
    for turn in 0..200 {
        let limit = usize::try_from(random.between(1, 7)).expect("small");
        let (mut query, mut rows) = (format!("limit={limit}"), all.clone());
        if random.between(0, 2) == 0 {
            let states = [
                "pending",
                "completed",
                "declined",
                "canceled",
                "declined,%20canceled",
                "pending,completed,declined,canceled",
            ];
            let states = states[usize::try_from(random.between(0, 6)).expect("small")];
            query += &format!("&state={states}");
            rows.retain(|row| states.contains(row["state"].as_str().expect("a state")));
        }
        if random.between(0, 2) == 0 {
            query += "&exclude_declines=true";
            rows.retain(|row| row["state"] != "declined");
        }
        if random.between(0, 2) == 0 {
            query += "&exclude_verifications=true";
            // A presentment was posted upon one of them.
            rows.retain(|row| row["kind"] != "verification" || row["state"] == "completed");
        }
        if random.between(0, 3) == 0 {
            query += &format!("&card={card}");
            rows.retain(|row| row["card"]["id"] == card.as_str());
        }
        match random.between(0, 4) {
            0 => {
                query += &format!("&after={middle}");
                rows.retain(|row| row["time"].as_str() >= Some(middle.as_str()));
            }
            1 => {
                query += &format!("&created_before={middle}");
                rows.retain(|row| row["time"].as_str() < Some(middle.as_str()));
            }
            _ => {}
        }
        if random.between(0, 2) == 0 {
            query += ["&ordering=created_at", "&ordering=time"][turn % 2];
            rows.reverse();
        }
        let offset = usize::try_from(random.between(0, 4)).expect("small");
        query += &format!("&offset={offset}");
        let (found, count) = listed(&api, &query);
        assert_eq!(count, rows.len() as u64, "{query}");
        let expected: Vec<_> = rows.iter().skip(offset).take(limit).collect();
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{query}");
    }
}

#[test]
fn lists_of_dimensions_follow_what_is_set_by_hand() {
    let seed = 854;
    println!("seed {seed}");
    let installation = Installation::init(60, seed);
    let switch = installation.serve();
    let api = switch.api();
    let make = |kind: &str, name: &str| -> String {
        let made = api.post(&format!("/v1/{kind}"), &json!({"name": name})).expect(201);
        made["id"].as_str().expect("an id").to_owned()
    };
    let categories = ["Travel", "Food", "Tools"].map(|name| make("categories", name));
    let labels = ["A", "B"].map(|name| make("labels", name));
    let cards = installation.cards.with_profile("ordinary");
    for (card, category) in cards.iter().zip(&categories[..2]) {
        let body = json!({"category": {"id": category}, "label": {"id": labels[0]}});
        api.put(&format!("/v1/cards/{}", card.card_id), &body).expect(200);
    }
    make_every_state(&installation, &switch);
    let mut random = Random::new(seed);
    for _ in 0..20 {
        let all = everything(&api);
        let row = &all[usize::try_from(random.between(0, all.len() as u64)).expect("small")];
        let (field, ids) = if random.between(0, 2) == 0 {
            ("category", &categories[..])
        } else {
            ("label", &labels[..])
        };
        let place = usize::try_from(random.between(0, ids.len() as u64 + 1)).expect("small");
        let tag = ids.get(place).map_or(Value::Null, |id| json!({"id": id}));
        let path = format!("/v1/transactions/{}", row["id"].as_str().expect("an id"));
        api.put(&path, &json!({field: tag})).expect(200);

        let all = everything(&api);
        let carries = |row: &Value, field: &str, id: &str| row[field]["id"] == id;
        for category in &categories {
            let mut rows = all.clone();
            rows.retain(|row| carries(row, "category", category));
            let expected = (rows.clone(), rows.len() as u64);
            assert_eq!(listed(&api, &format!("limit=100&category={category}")), expected);
            rows.retain(|row| carries(row, "label", &labels[0]));
            let expected = (rows.clone(), rows.len() as u64);
            let query = format!("limit=100&category={category}&label={}", labels[0]);
            assert_eq!(listed(&api, &query), expected);
            rows.retain(|row| row["state"] == "pending");
            rows.reverse();
            let expected = (rows.clone(), rows.len() as u64);
            let query = format!("{query}&state=pending&ordering=created_at");
            assert_eq!(listed(&api, &query), expected);
        }
    }
    // A dimension that is gone is on nothing; an id of another kind names nothing.
    assert_eq!(api.delete(&format!("/v1/categories/{}", categories[0])).status, 204);
    for query in [format!("category={}", categories[0]), format!("category={}", labels[0])] {
        assert_eq!(listed(&api, &query), (Vec::new(), 0), "{query}");
    }
}

#[test]
fn next_and_previous_lead_through_all_that_fits() {
    let installation = Installation::init(60, 851);
    let switch = installation.serve();
    make_every_state(&installation, &switch);
    let api = switch.api();
    let expected: Vec<_> = everything(&api)
        .into_iter()
        .filter(|row| row["state"] != "declined" && row["state"] != "completed")
        .collect();
    let query = "state=pending,declined,canceled&exclude_declines=true&limit=3";
    let mut found = Vec::new();
    let mut path = format!("/v1/transactions?{query}");
    let mut last;
    loop {
        last = api.get(&path).expect(200);
        assert_eq!(last["count"], expected.len(), "{path}");
        found.extend(last["results"].as_array().expect("results").clone());
        let Some(next) = last["next"].as_str() else { break };
        path = path_of(next);
        assert!(path.contains("state=pending,declined,canceled&exclude_declines=true"), "{path}");
    }
    assert_eq!(found, expected);
    let mut pages = 1;
    while let Some(previous) = last["previous"].as_str() {
        last = api.get(&path_of(previous)).expect(200);
        pages += 1;
    }
    assert_eq!(pages, expected.len().div_ceil(3));
    assert_eq!(last["results"][0], expected[0]);
}

/// The path and query of a whole address.
fn path_of(address: &str) -> String {
    let at = address.find("/v1/").expect("an address of the API");
    address[at..].to_owned()
}

#[test]
fn every_unknown_value_of_a_filter_is_named() {
    let installation = Installation::init(60, 852);
    let switch = installation.serve();
    let api = switch.api();
    for (query, params) in [
        ("state=open", &["state"][..]),
        ("state=pending,open", &["state"]),
        ("state=Pending", &["state"]),
        ("exclude_declines=1", &["exclude_declines"]),
        ("exclude_verifications=null", &["exclude_verifications"]),
        ("ordering=amount", &["ordering"]),
        (
            "limit=x&created_after=noon&ordering=-&card=7&label=7&state=x&exclude_declines=x\
             &exclude_verifications=x",
            &[
                "limit",
                "created_after",
                "ordering",
                "card",
                "label",
                "state",
                "exclude_declines",
                "exclude_verifications",
            ],
        ),
    ] {
        let error = api.get(&format!("/v1/transactions?{query}")).expect_error(400);
        let mut named: Vec<_> = error["errors"]
            .as_array()
            .expect("errors")
            .iter()
            .map(|fault| fault["param"].as_str().expect("a param").to_owned())
            .collect();
        let mut params = params.to_vec();
        named.sort();
        params.sort_unstable();
        assert_eq!(named, params, "{query}");
    }
    for query in ["state=", "state=,", "exclude_declines=", "exclude_declines=false", "unknown=5"] {
        api.get(&format!("/v1/transactions?{query}")).expect(200);
    }
}

#[test]
fn an_id_of_nothing_lists_nothing() {
    let installation = Installation::init(60, 853);
    let switch = installation.serve();
    make_every_state(&installation, &switch);
    let nobody = "00000000-0000-4000-8000-000000000000";
    for name in ["card", "member", "category", "department", "location", "label"] {
        for more in ["", "&state=pending", "&exclude_declines=true&ordering=time"] {
            let (rows, count) = listed(&switch.api(), &format!("{name}={nobody}{more}"));
            assert_eq!((rows.len(), count), (0, 0), "{name}{more}");
        }
    }
}

#[test]
fn account_shows_holds_and_postings() {
    let installation = Installation::init(60, 846);
    let switch = installation.serve();
    let before = account(&switch);
    for key in [
        "id",
        "url",
        "name",
        "number",
        "currency",
        "ledger_balance",
        "available_balance",
        "available_credit",
        "pending_credits",
        "credit_limit",
        "funding_source",
        "created_at",
    ] {
        assert!(before.get(key).is_some(), "an account has `{key}`: {before:#}");
    }
    assert_eq!(before["id"], installation.credentials.account_id.as_str());
    assert_eq!(before["number"].as_str().map(str::len), Some(12));

    let purchase = Purchase::of(installation.cards.ordinary(), 2_500);
    let authorization_id = switch.acquirer().ask(&purchase.request()).expect_approved();
    let held = account(&switch);
    assert_eq!(change(&before, &held, "ledger_balance"), 0);
    assert_eq!(change(&before, &held, "available_balance"), -2_500);
    assert_eq!(change(&before, &held, "available_credit"), -2_500);

    let presentment = purchase.presentment(&authorization_id, 2_500);
    assert_eq!(switch.acquirer().ask(&presentment).response(), "00");
    let posted = account(&switch);
    assert_eq!(change(&before, &posted, "ledger_balance"), -2_500);
    assert_eq!(change(&before, &posted, "available_balance"), -2_500);
    let path = format!("/v1/accounts/{}", installation.credentials.account_id);
    assert_eq!(switch.api().get(&path).expect(200), posted);
}

#[test]
fn company_is_the_one_that_init_made() {
    let installation = Installation::init(60, 847);
    let switch = installation.serve();
    let company = switch.api().get("/v1/company").expect(200);
    assert_eq!(company["id"], installation.credentials.company_id.as_str());
    for key in ["name", "website", "shipping_address", "created_at"] {
        assert!(company.get(key).is_some(), "a company has `{key}`: {company:#}");
    }
}

#[test]
fn everything_is_still_there_after_a_restart() {
    let installation = Installation::init(60, 848);
    let switch = installation.serve();
    let mut acquirer = switch.acquirer();
    for card in installation.cards.with_profile("ordinary") {
        acquirer.ask(&Purchase::of(card, 777).request()).expect_approved();
    }
    let snapshot = |switch: &Switch| {
        ["/v1/transactions", "/v1/cards", "/v1/accounts", "/v1/company"].map(|path| {
            let body = switch.api().get(&format!("{path}?limit=1000")).expect(200);
            without_addresses(&body)
        })
    };
    let before = snapshot(&switch);
    switch.stop();
    let again = installation.serve();
    assert_eq!(snapshot(&again), before);
}

/// The port differs from one start to the next, and with it each address.
fn without_addresses(body: &Value) -> Value {
    let mut text = body.to_string();
    while let Some(at) = text.find("http://127.0.0.1:") {
        let digits = text[at + 17..].bytes().take_while(u8::is_ascii_digit).count();
        text.replace_range(at..at + 17 + digits, "BASE");
    }
    serde_json::from_str(&text).expect("still JSON")
}

#[track_caller]
fn newest_of(api: &HttpClient, card: &TestCard) -> Value {
    let path = format!("/v1/transactions?limit=1&card={}", card.card_id);
    api.get(&path).expect(200)["results"][0].clone()
}

#[track_caller]
fn by_id(api: &HttpClient, transaction: &Value) -> Value {
    let id = transaction["id"].as_str().expect("an id");
    api.get(&format!("/v1/transactions/{id}")).expect(200)
}

#[track_caller]
fn account(switch: &Switch) -> Value {
    switch.api().get("/v1/accounts").expect(200)["results"][0].clone()
}

fn change(before: &Value, after: &Value, key: &str) -> i64 {
    minor(&after[key]) - minor(&before[key])
}
