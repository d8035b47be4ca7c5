//! `/v1/cards`: creation, change, termination, and the list with its pages and filters.

use std::collections::BTreeSet;

use cardswitch_harness::{HttpClient, Installation, minor};
use serde_json::{Value, json};

const NOBODY: &str = "01890000-0000-7000-8000-000000000000";

#[test]
fn created_card_is_there_at_once_with_what_was_asked() {
    let installation = Installation::init(60, 812);
    let switch = installation.serve();
    let api = switch.api();
    let created = create(&api, "Lunches");
    assert_eq!(created["description"], "Lunches");
    assert_eq!(created["is_virtual"], true);
    assert_eq!(created["state"], "active", "virtual cards start active");
    let allowance = &created["allowance"];
    assert_eq!((minor(&allowance["amount"]), minor(&allowance["balance"])), (25_050, 25_050));
    assert_eq!(allowance["interval"], "weekly");
    assert_eq!(minor(&allowance["transaction_limit"]), 10_000);
    assert_eq!(allowance["daily_limit"], Value::Null);
    assert_eq!(allowance["scope"], json!([5812, 5814]));
    assert_eq!(allowance["single_use"], false);

    let id = created["id"].as_str().expect("an id");
    assert_eq!(api.get(&format!("/v1/cards/{id}")).expect(200), created);
    let newest = api.get("/v1/cards?limit=1").expect(200)["results"][0].clone();
    assert_eq!(newest, created, "the default order is newest first");
}

#[test]
fn physical_card_needs_a_shipping_address_and_starts_unactivated() {
    let installation = Installation::init(60, 813);
    let switch = installation.serve();
    let api = switch.api();
    let mut body = card_body("Fleet");
    body["is_virtual"] = json!(false);
    let detail = api.post("/v1/cards", &body).expect_error(400);
    assert_eq!(detail["errors"][0]["param"], "shipping_address");

    body["shipping_address"] = json!({
        "address_1": "1 Market St", "city": "San Francisco", "state": "CA", "zip_code": "94105",
    });
    let card = api.post("/v1/cards", &body).expect(201);
    assert_eq!((&card["state"], &card["is_virtual"]), (&json!("unactivated"), &json!(false)));
    let path = format!("/v1/cards/{}", card["id"].as_str().expect("an id"));
    api.put(&path, &json!({"state": "active"})).expect_error(400);
}

#[test]
fn physical_card_is_activated_for_whom_it_is_assigned_to() {
    let installation = Installation::init(60, 822);
    let switch = installation.serve();
    let (api, network) = (switch.api(), switch.network_api());
    let shipping = api.get("/v1/company").expect(200)["shipping_address"]["id"].clone();
    let mut body = card_body("Fleet");
    body["is_virtual"] = json!(false);
    for (shipping, param) in [
        (json!(null), "shipping_address"),
        (json!(5), "shipping_address"),
        (json!({"id": NOBODY}), "shipping_address.id"),
        (json!({"id": "x"}), "shipping_address.id"),
    ] {
        body["shipping_address"] = shipping;
        assert_eq!(api.post("/v1/cards", &body).expect_error(400)["param"], param);
    }
    body["shipping_address"] = json!({"id": shipping});
    let card = api.post("/v1/cards", &body).expect(201);
    assert_eq!((&card["state"], &card["assigned_to"]), (&json!("unactivated"), &Value::Null));
    assert_eq!(buy(&network, &card, None), 1201);

    let path = format!("/v1/cards/{}", card["id"].as_str().expect("an id"));
    let refused = api.put(&path, &json!({"state": "active"})).expect_error(400);
    assert_eq!((&refused["param"], &refused["code"]), (&json!("assigned_to"), &json!("required")));
    api.put(&path, &json!({"state": "suspended"})).expect(200);
    let refused = api.put(&path, &json!({"state": "active"})).expect_error(400);
    assert_eq!(refused["param"], "assigned_to", "a suspension is no way around it");
    assert_eq!(buy(&network, &card, None), 1202);
    let member = json!({"first_name": "Ada", "last_name": "B", "email": "ada.b@example.com"});
    let member = api.post("/v1/members", &member).expect(201)["id"].clone();
    let assigned = api.put(&path, &json!({"assigned_to": {"id": member}})).expect(200);
    assert_eq!(
        (&assigned["state"], &assigned["assigned_to"]["id"]),
        (&json!("suspended"), &member)
    );
    let active = api.put(&path, &json!({"state": "active"})).expect(200);
    assert_eq!(active["state"], "active");
    assert_eq!(buy(&network, &card, None), 0);

    // Both in one request, too, and the assignee may be there from the start.
    body["assigned_to"] = json!({"id": member});
    let card = api.post("/v1/cards", &body).expect(201);
    assert_eq!(card["state"], "unactivated", "an assignee alone activates nothing");
    body["assigned_to"] = json!(null);
    let card = api.post("/v1/cards", &body).expect(201);
    let path = format!("/v1/cards/{}", card["id"].as_str().expect("an id"));
    let change = json!({"state": "active", "assigned_to": {"id": member}});
    assert_eq!(api.put(&path, &change).expect(200)["state"], "active");
}

#[test]
fn billing_address_is_the_companys_unless_the_card_has_its_own() {
    let installation = Installation::init(60, 823);
    let switch = installation.serve();
    let (api, network) = (switch.api(), switch.network_api());
    let plain = create(&api, "Plain");
    let default = plain["billing_address"].clone();
    let zip = default["zip_code"].as_str().expect("a ZIP").to_owned();
    let own = json!({"address_1": "2 Side St", "address_2": "", "city": "Berkeley", "state": "CA",
        "zip_code": "94704"});
    let mut body = card_body("Own");
    body["billing_address"] = own.clone();
    let card = api.post("/v1/cards", &body).expect(201);
    assert_eq!(card["billing_address"], own);
    assert_eq!(buy(&network, &plain, Some(&zip)), 0);
    assert_eq!((buy(&network, &card, Some("94704")), buy(&network, &card, Some(&zip))), (0, 1304));

    let path = format!("/v1/cards/{}", card["id"].as_str().expect("an id"));
    let cleared = api.put(&path, &json!({"billing_address": null})).expect(200);
    assert_eq!(cleared["billing_address"], default);
    assert_eq!((buy(&network, &card, Some(&zip)), buy(&network, &card, Some("94704"))), (0, 1304));
    let set = api.put(&path, &json!({"billing_address": own})).expect(200);
    assert_eq!(set["billing_address"], own);
    assert_eq!(buy(&network, &card, Some("94704")), 0);
    let refused = api.put(&path, &json!({"billing_address": {"city": "X"}})).expect_error(400);
    assert_eq!(refused["errors"].as_array().map(Vec::len), Some(3));
    body["billing_address"] = json!(null);
    assert_eq!(api.post("/v1/cards", &body).expect(201)["billing_address"], default);
}

#[test]
fn deleted_card_is_terminated_for_good() {
    let installation = Installation::init(60, 817);
    let switch = installation.serve();
    let api = switch.api();
    let path = format!("/v1/cards/{}", installation.cards.ordinary().card_id);
    let deleted = api.delete(&path);
    assert_eq!((deleted.status, deleted.text().as_str()), (204, ""));
    assert_eq!(api.get(&path).expect(200)["state"], "terminated");
    assert_eq!(api.delete(&path).status, 204, "a second time changes nothing");
    api.put(&path, &json!({"state": "active"})).expect_error(409);
    let renamed = api.put(&path, &json!({"description": "Late"})).expect(200);
    assert_eq!(renamed["description"], "Late");
}

#[test]
fn pages_hold_every_card_once_in_order() {
    let installation = Installation::init(60, 818);
    let switch = installation.serve();
    let api = switch.api();
    let first = api.get("/v1/cards?limit=7").expect(200);
    assert_eq!(first["previous"], Value::Null);
    assert_eq!(api.get("/v1/cards").expect(200)["results"].as_array().map(Vec::len), Some(10));

    let newest_first = all_pages(&api, "/v1/cards?limit=7");
    let oldest_first = all_pages(&api, "/v1/cards?limit=7&ordering=created_at");
    assert_eq!(Some(newest_first.len() as u64), first["count"].as_u64());
    assert_eq!(newest_first, oldest_first.iter().rev().cloned().collect::<Vec<_>>());
    assert_eq!(newest_first, all_pages(&api, "/v1/cards?limit=7&ordering=-created_at"));
    let distinct: BTreeSet<_> = newest_first.iter().collect();
    assert_eq!(distinct.len(), newest_first.len(), "no card is on two pages");

    let beyond = api.get("/v1/cards?offset=100000").expect(200);
    assert_eq!((&beyond["results"], &beyond["next"]), (&json!([]), &Value::Null));
    assert_eq!(beyond["count"], first["count"]);
}

#[test]
fn creation_time_bounds_are_on_or_after_and_before() {
    let installation = Installation::init(60, 820);
    let switch = installation.serve();
    let api = switch.api();
    let card = create(&api, "Boundary");
    let at = card["created_at"].as_str().expect("a timestamp");
    assert!(at.ends_with('Z'), "UTC with a Z: {at}");
    let ids = |query: &str| all_pages(&api, &format!("/v1/cards?limit=100&{query}={at}"));
    let id = card["id"].as_str().expect("an id").to_owned();
    assert!(ids("created_after").contains(&id));
    assert!(!ids("created_before").contains(&id));
}

#[test]
fn filters_by_state_and_description_find_what_they_name() {
    let installation = Installation::init(60, 821);
    let switch = installation.serve();
    let api = switch.api();
    let created = create(&api, "Quarterly Zebra Feed");
    let id = created["id"].as_str().expect("an id").to_owned();
    for query in ["description=zebra", "description=ZEBRA%20feed", "description=Zebra&state=active"]
    {
        assert_eq!(
            all_pages(&api, &format!("/v1/cards?limit=5&{query}")),
            [id.as_str()],
            "{query}"
        );
    }
    assert!(all_pages(&api, "/v1/cards?limit=5&description=zebra&state=suspended").is_empty());

    let both = all_pages(&api, "/v1/cards?limit=5&state=suspended,terminated");
    let each: usize = ["suspended", "terminated"]
        .iter()
        .map(|state| all_pages(&api, &format!("/v1/cards?limit=5&state={state}")).len())
        .sum();
    assert!(each > 0 && both.len() == each, "{} and {each}", both.len());
}

/// The ids on all pages, by following `next`.
#[track_caller]
fn all_pages(api: &HttpClient, first: &str) -> Vec<String> {
    let mut ids = Vec::new();
    let mut path = first.to_owned();
    loop {
        let page = api.get(&path).expect(200);
        let keys: Vec<_> = page.as_object().expect("a list").keys().cloned().collect();
        assert_eq!(keys, ["count", "next", "previous", "results"]);
        let results = page["results"].as_array().expect("results");
        ids.extend(results.iter().filter_map(|card| card["id"].as_str()).map(str::to_owned));
        let Some(next) = page["next"].as_str() else {
            assert_eq!(page["count"].as_u64(), Some(ids.len() as u64), "of {first}");
            return ids;
        };
        let at = next.find("/v1/").expect("next is an address of the API");
        path = next[at..].to_owned();
    }
}

#[track_caller]
fn create(api: &HttpClient, description: &str) -> Value {
    api.post("/v1/cards", &card_body(description)).expect(201)
}

fn card_body(description: &str) -> Value {
    json!({
        "description": description,
        "is_virtual": true,
        "billing_name": "Harness",
        "allowance": {
            "amount": 250.5,
            "interval": "weekly",
            "transaction_limit": 100,
            "daily_limit": null,
            "single_use": false,
            "end_time": null,
            "scope": [5812, 5814],
        },
    })
}

/// The response code of a purchase with this billing ZIP.
#[track_caller]
fn buy(network: &HttpClient, card: &Value, zip: Option<&str>) -> u64 {
    let mut body = json!({"card_id": card["id"], "amount": 1, "merchant": {"mid": "1", "mcc": 5812,
        "name": "Cafe", "city": "Oakland", "state": "CA", "country": "US", "zip": "94601"}});
    if let Some(zip) = zip {
        body["zip"] = json!(zip);
    }
    let answer = network.post("/network/v1/authorizations", &body).expect(200);
    answer["response_code"].as_u64().expect("a response code")
}
