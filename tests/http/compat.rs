//! `serve --compat legacy-client`: the habits of older clients, each there with the switch and not
//! without it.

use cardswitch_harness::{HttpClient, Installation};
use serde_json::{Value, json};

const LEGACY: [&str; 2] = ["--compat", "legacy-client"];
const NOBODY: &str = "01890000-0000-7000-8000-000000000000";

#[test]
fn lists_stand_under_the_name_of_their_resource_too() {
    let installation = Installation::init(60, 881);
    let switch = installation.serve_with(&LEGACY);
    let api = switch.api();
    let lines = format!("/v1/accounts/{}/statement-lines", installation.credentials.account_id);
    let rows = [
        ("/v1/cards?limit=3", "cards"),
        ("/v1/cards/?limit=3", "cards"),
        ("/v1/transactions", "transactions"),
        ("/v1/accounts", "accounts"),
        ("/v1/shared-links", "shared_links"),
        (lines.as_str(), "statement_lines"),
    ];
    for (path, name) in rows {
        let list = api.get(path).expect(200);
        let keys: Vec<_> = list.as_object().expect("a list").keys().cloned().collect();
        assert_eq!(keys, ["count", "next", "previous", "results", name], "{path}");
        assert_eq!(list["results"], list[name], "{path}");
    }
    // Amounts keep their digits on the way through.
    let text = api.get("/v1/accounts").text();
    assert_eq!(text.matches("\"ledger_balance\":50000000.00,").count(), 2, "{text}");
    assert_eq!(api.get("/v1/company").expect(200).get("company"), None);
    api.get("/v1/cards?limit=x").expect_error(400);
    switch.stop();

    let switch = installation.serve();
    assert_eq!(switch.api().get("/v1/cards").expect(200).get("cards"), None);
}

#[test]
fn delete_answers_an_empty_object() {
    let installation = Installation::init(60, 882);
    let card = installation.cards.ordinary().card_id.clone();
    let switch = installation.serve_with(&LEGACY);
    let answer = switch.api().delete(&format!("/v1/cards/{card}"));
    assert_eq!(answer.expect(200), json!({}));
    assert!(answer.header("request-id").is_some());
    switch.api().delete(&format!("/v1/cards/{NOBODY}")).expect_error(404);
    switch.stop();
    let switch = installation.serve();
    assert_eq!(switch.api().delete(&format!("/v1/cards/{card}")).expect(204), Value::Null);
}

#[test]
fn null_lists_what_has_none() {
    let installation = Installation::init(60, 883);
    let switch = installation.serve_with(&LEGACY);
    let api = switch.api();
    let member = json!({"first_name": "Ada", "last_name": "B", "email": "ada.b@example.com"});
    let member = api.post("/v1/members", &member).expect(201)["id"].clone();
    let made: Vec<String> = (0..6).map(|number| make_card(&api, number, &member)).collect();
    // Every second card is nobody's; the newest comes first.
    let expected: Vec<_> = made.iter().step_by(2).rev().cloned().collect();
    let path = "/v1/cards?description=Legacy&assigned_to=null";
    let list = api.get(path).expect(200);
    assert_eq!((list["count"].as_u64(), ids(&list)), (Some(3), expected.clone()));
    assert_eq!(list["cards"], list["results"]);

    let page = api.get(&format!("{path}&limit=1&offset=1")).expect(200);
    assert_eq!(ids(&page), [expected[1].as_str()]);
    assert_eq!(page["count"], list["count"]);
    let next = page["next"].as_str().expect("there are more");
    assert!(next.contains("assigned_to=null") && next.ends_with("limit=1&offset=2"), "{next}");
    let next = &next[next.find("/v1/").expect("a path")..];
    assert_eq!(ids(&api.get(next).expect(200)), [expected[2].as_str()]);

    let upward = api.get(&format!("{path}&ordering=created_at")).expect(200);
    assert_eq!(ids(&upward), expected.iter().rev().cloned().collect::<Vec<_>>());
    let all = api.get("/v1/cards?description=Legacy&category=null&label=null").expect(200);
    assert_eq!(all["count"], 6);
    // Transfers have no card: the opening balance is one.
    let transfers = api.get("/v1/transactions?card=null").expect(200);
    assert_eq!(transfers["count"], 1, "{transfers:#}");
    api.get("/v1/cards?assigned_to=null&limit=-1").expect_error(400);
    let broken = api.get("/v1/cards?assigned_to=null&created_after=x").expect_error(400);
    assert_eq!(broken["errors"][0]["param"], "created_after");
    switch.stop();

    let switch = installation.serve();
    let refused = switch.api().get(path).expect_error(400);
    assert_eq!(refused["errors"][0]["param"], "assigned_to");
}

#[test]
fn repeated_filters_list_what_has_any_of_them() {
    let installation = Installation::init(60, 884);
    let switch = installation.serve_with(&LEGACY);
    let api = switch.api();
    let cards = installation.cards.with_profile("ordinary");
    for (number, at) in [0, 1, 2, 1, 0].into_iter().enumerate() {
        let body = json!({"card_number": cards[at].pan, "amount": number + 1,
            "merchant": {"mid": "1", "mcc": 5812, "name": "Cafe", "city": "Oakland", "state": "CA",
                "country": "US", "zip": "94601"}});
        switch.network_api().post("/network/v1/authorizations", &body).expect(200);
    }
    let list = |query: &str| api.get(&format!("/v1/transactions?{query}")).expect(200);
    let of = |at: usize| format!("card[]={}", cards[at].card_id);
    let single = |at: usize| ids(&list(&format!("card={}", cards[at].card_id)));
    assert_eq!(ids(&list(&of(0))), single(0));
    let both = list(&format!("{}&{}", of(0), of(1)));
    assert_eq!(both["count"], 4);
    let mut expected = [single(0), single(1)].concat();
    let found = ids(&both);
    expected.sort_by_key(|id| found.iter().position(|other| other == id));
    assert_eq!(found, expected, "every one once");
    let times: Vec<_> = rows_of(&both).iter().map(|row| row["created_at"].to_string()).collect();
    assert!(times.is_sorted_by(|left, right| left >= right), "newest first: {times:?}");
    let page = list(&format!("{}&{}&limit=2&offset=1&ordering=created_at", of(0), of(1)));
    let upward: Vec<_> = found.iter().rev().skip(1).take(2).cloned().collect();
    assert_eq!((page["count"].as_u64(), ids(&page)), (Some(4), upward));
    let with_none = list(&format!("{}&card[]=null", of(2)));
    assert_eq!(with_none["count"], 2, "one purchase and the opening balance");
    assert_eq!(list(&format!("card[]={NOBODY}&{}", of(2)))["count"], 1);

    let states = api.get("/v1/cards?limit=1&state[]=suspended&state%5B%5D=terminated").expect(200);
    let plain = api.get("/v1/cards?limit=1&state=suspended,terminated").expect(200);
    assert_eq!(states["count"], plain["count"]);
    assert!(plain["count"].as_u64() > Some(0));
    api.get("/v1/cards?state[]=sleeping").expect_error(400);
    switch.stop();
}

#[test]
fn card_of_a_shared_link_is_text() {
    let installation = Installation::init(60, 885);
    let switch = installation.serve_with(&LEGACY);
    let api = switch.api();
    let card = installation.cards.ordinary().card_id.clone();
    let link = api.post("/v1/shared-links", &json!({"card": card})).expect(201);
    assert_eq!(link["card"], card.as_str());
    let path = format!("/v1/shared-links/{}", link["id"].as_str().expect("an id"));
    assert_eq!(api.get(&path).expect(200), link);
    assert_eq!(api.put(&path, &json!({})).expect(200), link);
    let list = api.get(&format!("/v1/shared-links?card={card}")).expect(200);
    assert_eq!((&list["results"][0], &list["shared_links"][0]), (&link, &link));
    let modern = api.post("/v1/shared-links", &json!({"card": {"id": card}})).expect(201);
    assert_eq!(modern["card"], card.as_str());
    let refused = api.post("/v1/shared-links", &json!({"card": "5"})).expect_error(400);
    assert_eq!(refused["param"], "card");
    assert_eq!(api.delete(&path).expect(200), json!({}));
    switch.stop();

    let switch = installation.serve();
    switch.api().post("/v1/shared-links", &json!({"card": card})).expect_error(400);
    let list = switch.api().get("/v1/shared-links").expect(200);
    assert_eq!(list["results"][0]["card"], json!({"id": card}));
}

#[track_caller]
fn make_card(api: &HttpClient, number: usize, member: &Value) -> String {
    let mut body = json!({"description": format!("Legacy {number}"), "is_virtual": true,
        "allowance": {"amount": 10}});
    if number % 2 == 1 {
        body["assigned_to"] = json!({"id": member});
    }
    let card = api.post("/v1/cards", &body).expect(201);
    card["id"].as_str().expect("an id").to_owned()
}

fn rows_of(list: &Value) -> &[Value] {
    list["results"].as_array().map_or(&[], Vec::as_slice)
}

fn ids(list: &Value) -> Vec<String> {
    rows_of(list).iter().filter_map(|row| row["id"].as_str()).map(str::to_owned).collect()
}
