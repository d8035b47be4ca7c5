//! `/v1/requisitions`: asking, approving with a card, denying, taking back, and what stays decided.

use cardswitch_harness::{HttpClient, HttpRequest, Installation, Switch, minor, run_cardswitch};
use serde_json::{Value, json};

/// The member was once required, though a token acts for one.
#[test]
fn a_token_asks_for_its_own_member_where_no_other_is_named() {
    let (installation, switch, member) = stage(859);
    let api = switch.api();
    let own = api.get("/v1/members?ordering=created_at").expect(200)["results"][0].clone();
    assert_ne!(own["id"], member["id"]);
    let body = json!({"amount": 5, "description": "A lamp"});
    let asked = api.post("/v1/requisitions", &body).expect(201);
    assert_eq!(asked["member"]["id"], own["id"]);
    let named = api.post("/v1/requisitions", &asking(&member, 5.0)).expect(201);
    assert_eq!(named["member"]["id"], member["id"]);
    switch.stop();

    let nobodys = installation.add_token("admin");
    let switch = installation.serve();
    let api = switch.api_with(&nobodys);
    let refused = api.post("/v1/requisitions", &body).expect_error(400);
    assert_eq!((&refused["param"], &refused["code"]), (&json!("member"), &json!("required")));
    let named = api.post("/v1/requisitions", &asking(&member, 5.0)).expect(201);
    assert_eq!(named["member"]["id"], member["id"]);
}

#[test]
fn approval_makes_a_card_for_one_purchase_within_the_amount() {
    let (installation, switch, member) = stage(853);
    let api = switch.api();
    let admin = &api.get("/v1/members?ordering=created_at").expect(200)["results"][0].clone();
    let mut body = asking(&member, 30.0);
    body["end_time"] = json!("2099-01-01T00:00:00Z");
    let path = path_of(&api.post("/v1/requisitions", &body).expect(201));
    let yes = json!({"status": "approved", "amount": 25, "reviewed_by": {"id": admin["id"]}});
    let approved = api.put(&path, &yes).expect(200);
    assert_eq!((&approved["status"], minor(&approved["amount"])), (&json!("approved"), 2_500));
    assert!(approved["approved_at"].is_string(), "{approved:#}");
    assert_eq!(approved["reviewed_by"]["id"], admin["id"]);

    let card = api.get(&path_of_card(&approved["card"])).expect(200);
    assert_eq!(card["assigned_to"]["id"], member["id"]);
    assert_eq!((&card["description"], &card["is_virtual"]), (&json!("A chair"), &json!(true)));
    let allowance = &card["allowance"];
    assert_eq!((minor(&allowance["amount"]), &allowance["single_use"]), (2_500, &json!(true)));
    assert_eq!(allowance["end_time"], "2099-01-01T00:00:00.000000Z");

    assert_eq!(buy(&switch, &card, 25.01)["response_code"], 1502);
    let bought = buy(&switch, &card, 25.0);
    assert_eq!(bought["approved"], true, "{bought:#}");
    assert_eq!(buy(&switch, &card, 1.0)["response_code"], 1202, "it was for one purchase");
    let transaction =
        format!("/v1/transactions/{}", bought["transaction_id"].as_str().expect("id"));
    let shown = api.get(&transaction).expect(200)["requisition"].clone();
    let expected = json!({
        "id": approved["id"], "status": "approved", "description": "A chair",
        "amount": approved["amount"],
    });
    assert_eq!(shown, expected);

    switch.kill9();
    installation.verify_ok();
    let switch = installation.serve();
    let api = switch.api();
    let again = api.get(&path).expect(200);
    assert_eq!((&again["id"], &again["status"]), (&approved["id"], &json!("approved")));
    assert_eq!(api.get(&transaction).expect(200)["requisition"], expected);
    for change in [json!({"status": "denied"}), json!({"amount": 1})] {
        assert_eq!(api.put(&path, &change).expect_error(409)["code"], "requisition_decided");
    }
    assert_eq!(api.delete(&path).expect_error(409)["code"], "requisition_decided");
    assert_eq!(api.put(&path, &json!({})).expect(200), again);
}

#[test]
fn approval_takes_a_card_of_the_company_that_is_open() {
    let (installation, switch, member) = stage(854);
    let api = switch.api();
    let own = installation.cards.ordinary();
    let foreign = installation.cards.first("no_funds");
    let path = path_of(&ask(&api, &member, 5.0));
    let yes = |id: &str| json!({"status": "approved", "card": {"id": id}});
    for id in [NOBODY, &foreign.card_id] {
        let detail = api.put(&path, &yes(id)).expect_error(400);
        assert_eq!((&detail["param"], &detail["code"]), (&json!("card"), &json!("not_found")));
    }
    let only = json!({"card": {"id": own.card_id}});
    assert_eq!(api.put(&path, &only).expect_error(400)["param"], "card");
    let before = api.get(&format!("/v1/cards/{}", own.card_id)).expect(200);
    let approved = api.put(&path, &yes(&own.card_id)).expect(200);
    assert_eq!(approved["card"]["id"], own.card_id.as_str());
    let admin = api.get("/v1/members?ordering=created_at").expect(200)["results"][0].clone();
    assert_eq!(approved["reviewed_by"]["id"], admin["id"], "whom the token acts for");
    let after = api.get(&format!("/v1/cards/{}", own.card_id)).expect(200);
    assert_eq!(after, before, "a card that was there stays as it is");
    let by_card = api.get(&format!("/v1/requisitions?card={}", own.card_id)).expect(200);
    assert_eq!((&by_card["count"], &by_card["results"][0]), (&json!(1), &approved));

    assert_eq!(api.delete(&format!("/v1/cards/{}", own.card_id)).status, 204);
    let path = path_of(&ask(&api, &member, 5.0));
    let closed = api.put(&path, &yes(&own.card_id)).expect_error(409);
    assert_eq!(closed["code"], "card_terminated");
    assert_eq!(api.get(&path).expect(200)["status"], "pending", "nothing has changed");
}

#[test]
fn pending_ones_change_and_only_they_can_be_taken_back() {
    let (installation, switch, member) = stage(855);
    let api = switch.api();
    let asked = ask(&api, &member, 5.0);
    let path = path_of(&asked);
    // A body can be sent back as it was read, but for the status: only a verdict can be set.
    for status in ["pending", "Approved", ""] {
        let detail = api.put(&path, &json!({"status": status})).expect_error(400);
        assert_eq!(detail["param"], "status", "{status}");
    }
    let mut read = asked.clone();
    read.as_object_mut().expect("an object").remove("status");
    assert_eq!(api.put(&path, &read).expect(200), asked);
    let change = json!({
        "amount": 7, "description": "Two chairs", "note": "cheap", "end_time": "2099-01-01T00:00:00Z",
        "member": {"id": NOBODY}, "approved_at": "x", "reviewed_by": null, "card": null,
    });
    let changed = api.put(&path, &change).expect(200);
    let mut expected = asked;
    for key in ["description", "note"] {
        expected[key] = change[key].clone();
    }
    expected["amount"] = changed["amount"].clone();
    expected["end_time"] = json!("2099-01-01T00:00:00.000000Z");
    assert_eq!((&changed, minor(&changed["amount"])), (&expected, 700));
    assert_eq!(api.put(&path, &json!({"status": "canceled"})).expect_error(400)["param"], "status");
    let reviewer = json!({"status": "denied", "reviewed_by": {"id": member["id"]}});
    assert_eq!(api.put(&path, &reviewer).expect_error(400)["param"], "reviewed_by");

    assert_eq!((api.delete(&path).status, api.delete(&path).status), (204, 409));
    assert_eq!(api.get(&path).expect(200)["status"], "canceled");
    api.put(&path, &json!({"status": "approved"})).expect_error(409);
    let path = path_of(&ask(&api, &member, 5.0));
    api.put(&path_of_member(&member), &json!({"role": "reviewer"})).expect(200);
    let in_their_name = api.put(&path, &reviewer).expect_error(400);
    assert_eq!(in_their_name["param"], "reviewed_by", "the token acts for somebody else");
    switch.stop();
    let nobodys = installation.add_token("admin");
    let switch = installation.serve();
    let nobodys = switch.api_with(&nobodys);
    let denied = nobodys.put(&path, &reviewer).expect(200);
    assert_eq!((&denied["status"], &denied["approved_at"]), (&json!("denied"), &Value::Null));
    assert_eq!(denied["reviewed_by"]["id"], member["id"]);
    assert_eq!(denied["card"], Value::Null);
}

/// A program approved a requisition that its member had made dearer after the program's look.
#[test]
fn an_approval_with_the_tag_of_what_was_seen_approves_nothing_else() {
    let (_installation, switch, member) = stage(861);
    let api = switch.api();
    let path = path_of(&ask(&api, &member, 100.0));
    let read = api.get(&path);
    let seen = read.header("etag").expect("a tag").to_owned();
    let cards = api.get("/v1/cards").expect(200)["count"].clone();
    let dearer = api.put(&path, &json!({"amount": 9_000, "description": "A boat"}));
    let changed = dearer.header("etag").expect("a tag").to_owned();
    assert_eq!(api.get(&path).header("etag"), Some(changed.as_str()));
    let with = |tag: &str, body: Value| {
        let json = ("content-type", "application/json");
        let headers = [json, ("if-match", tag), ("idempotency-key", "an-approval")];
        let body = body.to_string();
        let request =
            HttpRequest { method: "PUT", path: &path, headers: &headers, body: body.as_bytes() };
        api.send(&request)
    };
    let refused = with(&seen, json!({"status": "approved"})).expect_error(412);
    assert_eq!(refused["code"], "precondition_failed");
    assert_eq!(api.get(&path).expect(200)["status"], "pending");
    assert_eq!(api.get("/v1/cards").expect(200)["count"], cards, "no card was made");
    // The refusal does not stick to the key, and each answer has the tag.
    let answers = [(); 2].map(|()| with(&changed, json!({"status": "approved"})));
    let tag = api.get(&path).header("etag").expect("a tag").to_owned();
    assert_eq!(answers.each_ref().map(|answer| answer.header("etag")), [Some(tag.as_str()); 2]);
    let [approved, _] = answers.map(|answer| answer.expect(200));
    let card = api.get(&path_of_card(&approved["card"])).expect(200);
    assert_eq!(
        (minor(&card["allowance"]["amount"]), &card["description"]),
        (900_000, &json!("A boat"))
    );
    let path = path_of(&ask(&api, &member, 5.0));
    assert_eq!(api.put(&path, &json!({"status": "approved"})).expect(200)["status"], "approved");
}

#[test]
fn a_requisition_that_ended_needs_a_later_end_to_be_approved() {
    let installation = Installation::init(60, 856);
    let switch = installation.serve_with(&["--clock", "manual"]);
    let api = switch.api();
    let path = path_of(&ask(&api, &create_member(&api), 5.0));
    let past = api.put(&path, &json!({"end_time": "2001-01-01T00:00:00Z"})).expect_error(400);
    assert_eq!((&past["param"], &past["code"]), (&json!("end_time"), &json!("past")));
    api.put(&path, &json!({"end_time": "2100-01-01T00:00:00Z"})).expect(200);
    let clock = json!({"now": "2100-01-01T00:00:01Z"});
    switch.network_api().post("/network/v1/clock", &clock).expect(200);
    let yes = json!({"status": "approved"});
    let cards = api.get("/v1/cards").expect(200)["count"].clone();
    assert_eq!(api.put(&path, &yes).expect_error(409)["code"], "requisition_ended");
    assert_eq!(api.get("/v1/cards").expect(200)["count"], cards, "no card was made");
    let later = json!({"status": "approved", "end_time": null});
    assert_eq!(api.put(&path, &later).expect(200)["status"], "approved");
}

#[test]
fn lists_are_filtered_by_member_and_statuses() {
    let (_installation, switch, ada) = stage(857);
    let api = switch.api();
    let bob = json!({"first_name": "Bob", "last_name": "Ross", "email": "bob@example.com"});
    let bob = api.post("/v1/members", &bob).expect(201);
    let asked: Vec<_> = [&ada, &bob, &ada, &bob].map(|member| ask(&api, member, 5.0)).into();
    let ids: Vec<_> = asked.iter().map(|one| one["id"].as_str().expect("an id")).collect();
    api.put(&path_of(&asked[0]), &json!({"status": "denied"})).expect(200);
    api.put(&path_of(&asked[1]), &json!({"status": "approved"})).expect(200);
    let listed = |query: &str| -> Vec<String> {
        let page = api.get(&format!("/v1/requisitions?{query}")).expect(200);
        let results = page["results"].as_array().expect("results").clone();
        results.iter().filter_map(|one| one["id"].as_str()).map(str::to_owned).collect()
    };
    let member = |member: &Value| member["id"].as_str().expect("an id").to_owned();
    let rows = [
        ("limit=10".to_owned(), vec![3, 2, 1, 0]),
        ("ordering=created_at&limit=2&offset=1".to_owned(), vec![1, 2]),
        (format!("member={}", member(&ada)), vec![2, 0]),
        (format!("member={}&status=denied", member(&ada)), vec![0]),
        (format!("member={NOBODY}"), vec![]),
        (format!("card={NOBODY}"), vec![]),
        ("status=pending".to_owned(), vec![3, 2]),
        ("status=approved,denied".to_owned(), vec![1, 0]),
        ("status=canceled".to_owned(), vec![]),
    ];
    for (query, places) in rows {
        let expected: Vec<_> = places.into_iter().map(|place: usize| ids[place]).collect();
        assert_eq!(listed(&query), expected, "{query}");
    }
    for (query, param) in [("status=lost", "status"), ("member=x", "member"), ("card=x", "card")] {
        let detail = api.get(&format!("/v1/requisitions?{query}")).expect_error(400);
        assert_eq!(detail["param"], param, "{detail:#}");
    }
}

#[test]
fn another_companys_requisition_does_not_exist() {
    let (installation, switch, member) = stage(858);
    let path = path_of(&ask(&switch.api(), &member, 5.0));
    switch.stop();
    let data = installation.data();
    let data = data.to_str().expect("a path in UTF-8");
    let added = run_cardswitch(&["company", "add", "--data", data, "--name", "Other", "--json"]);
    let added = added.expect_json();
    let switch = installation.serve();
    let token = added["access_token"].as_str().expect("a token");
    let other = HttpClient::with_authorization(switch.http, &format!("Token {token}"));
    for (path, field) in [(path, "status"), (path_of_member(&member), "first_name")] {
        other.get(&path).expect_error(404);
        other.put(&path, &json!({field: "denied"})).expect_error(404);
        other.delete(&path).expect_error(404);
    }
    let detail = other.post("/v1/requisitions", &asking(&member, 5.0)).expect_error(400);
    assert_eq!(detail["param"], "member");
    assert_eq!(other.get("/v1/requisitions").expect(200)["count"], 0);
}

#[test]
fn only_cards_of_the_configured_network_have_requisitions() {
    let installation = Installation::init(60, 859);
    let config = installation.data().join("cardswitch.toml");
    let kept = std::fs::read_to_string(&config).unwrap_or_default();
    std::fs::write(&config, format!("requisition_network = \"mastercard\"\n{kept}"))
        .expect("written");
    let switch = installation.serve();
    let member = create_member(&switch.api());
    let refused = switch.api().post("/v1/requisitions", &asking(&member, 5.0)).expect_error(400);
    assert_eq!(
        (&refused["code"], &refused["param"]),
        (&json!("network_not_supported"), &Value::Null)
    );
}

const NOBODY: &str = "01890000-0000-7000-8000-000000000000";

/// A switch with a member besides the administrator.
#[track_caller]
fn stage(seed: u64) -> (Installation, Switch, Value) {
    let installation = Installation::init(60, seed);
    let switch = installation.serve();
    let member = create_member(&switch.api());
    (installation, switch, member)
}

#[track_caller]
fn create_member(api: &HttpClient) -> Value {
    let body = json!({"first_name": "Ada", "last_name": "Byron", "email": "ada@example.com"});
    api.post("/v1/members", &body).expect(201)
}

fn asking(member: &Value, amount: f64) -> Value {
    json!({"member": {"id": member["id"]}, "amount": amount, "description": "A chair"})
}

#[track_caller]
fn ask(api: &HttpClient, member: &Value, amount: f64) -> Value {
    api.post("/v1/requisitions", &asking(member, amount)).expect(201)
}

#[track_caller]
fn buy(switch: &Switch, card: &Value, amount: f64) -> Value {
    let purchase = json!({"card_id": card["id"], "amount": amount, "merchant": {"mcc": 5411}});
    switch.network_api().post("/network/v1/authorizations", &purchase).expect(200)
}

fn path_of(requisition: &Value) -> String {
    format!("/v1/requisitions/{}", requisition["id"].as_str().expect("an id"))
}

fn path_of_member(member: &Value) -> String {
    format!("/v1/members/{}", member["id"].as_str().expect("an id"))
}

fn path_of_card(card: &Value) -> String {
    format!("/v1/cards/{}", card["id"].as_str().expect("an id"))
}
