//! `/v1/members`: lists of members, changes to them, and everything that ends when one leaves.

use cardswitch_harness::{HttpClient, Installation, Switch};
use serde_json::{Value, json};

#[test]
fn lists_are_filtered_and_cut_into_pages() {
    let installation = Installation::init(60, 842);
    let switch = installation.serve();
    let api = switch.api();
    let emails: Vec<_> = (0..5).map(|number| format!("m{number}@example.com")).collect();
    let made: Vec<_> = emails.iter().map(|email| create(&api, email)).collect();
    api.put(&path_of(&made[1]), &json!({"is_active": false})).expect(200);
    assert_eq!(api.delete(&path_of(&made[4])).status, 204);

    let listed = |query: &str| emails_of(&api.get(&format!("/v1/members?{query}")).expect(200));
    assert_eq!(listed("limit=3"), ["m3@example.com", "m2@example.com", "m1@example.com"]);
    assert_eq!(listed("limit=2&offset=1"), ["m2@example.com", "m1@example.com"]);
    let oldest = listed("ordering=created_at&limit=2&offset=1");
    assert_eq!(oldest, ["m0@example.com", "m1@example.com"]);
    assert_eq!(listed("is_active=false"), ["m1@example.com"]);
    assert!(!listed("is_active=true").contains(&"m1@example.com".to_owned()));
    assert_eq!(listed("email=M2%40Example.COM"), ["m2@example.com"], "in any case");
    assert_eq!(listed("email=m2"), [""; 0], "only the whole address");
    assert_eq!(listed("email=m1%40example.com&is_active=true"), [""; 0]);
    assert_eq!(listed("email=m4%40example.com"), [""; 0], "deleted members are in no list");
    let since = made[2]["created_at"].as_str().expect("a time");
    assert_eq!(listed(&format!("created_after={since}")), ["m3@example.com", "m2@example.com"]);
    assert_eq!(listed(&format!("created_before={since}&limit=1")), ["m1@example.com"]);
    let by_email = format!("email=m2%40example.com&created_before={since}");
    assert_eq!(listed(&by_email), [""; 0]);

    let page = api.get("/v1/members?limit=2&is_active=true").expect(200);
    assert_eq!(page["count"], 4, "the administrator and three others");
    assert!(page["next"].as_str().is_some_and(|next| next.contains("is_active=true")));
    for (query, param) in [("is_active=yes", "is_active"), ("ordering=email", "ordering")] {
        let detail = api.get(&format!("/v1/members?{query}")).expect_error(400);
        assert_eq!(detail["param"], param, "{detail:#}");
    }
}

#[test]
fn addresses_and_codes_are_unique_while_their_members_are_there() {
    let installation = Installation::init(60, 843);
    let switch = installation.serve();
    let api = switch.api();
    let ada = create(&api, "Ada@Example.com");
    assert_eq!(ada["email"], "Ada@Example.com", "an address is shown as it was written");
    let conflict = |detail: Value, code: &str| assert_eq!(detail["code"], code, "{detail:#}");
    conflict(api.post("/v1/members", &body("ada@example.COM")).expect_error(409), "email_taken");

    let coded = api.put(&path_of(&ada), &json!({"code": 42})).expect(200);
    assert_eq!(coded["code"], "42", "a number is taken and text is shown");
    let bob = create(&api, "bob@example.com");
    conflict(api.put(&path_of(&bob), &json!({"code": "42"})).expect_error(409), "code_taken");
    let mut third = body("carol@example.com");
    third["code"] = json!(42);
    conflict(api.post("/v1/members", &third).expect_error(409), "code_taken");
    api.put(&path_of(&bob), &json!({"code": "042"})).expect(200);
    api.put(&path_of(&ada), &json!({"code": "42", "first_name": "Augusta"})).expect(200);

    // An inactive member keeps both, a deleted one neither.
    api.put(&path_of(&ada), &json!({"is_active": false})).expect(200);
    conflict(api.post("/v1/members", &body("ada@example.com")).expect_error(409), "email_taken");
    conflict(api.put(&path_of(&bob), &json!({"code": "42"})).expect_error(409), "code_taken");
    assert_eq!(api.delete(&path_of(&ada)).status, 204);
    create(&api, "ada@example.com");
    api.put(&path_of(&bob), &json!({"code": "42"})).expect(200);
}

/// One address in two compositions of its letters was two accounts.
#[test]
fn addresses_are_one_however_their_letters_are_composed() {
    let installation = Installation::init(60, 849);
    let switch = installation.serve();
    let api = switch.api();
    let body = |email: &str| json!({"first_name": "J", "last_name": "B", "email": email});
    let made = api.post("/v1/members", &body("j\u{fc}rgen@example.com")).expect(201);
    assert_eq!(made["email"], "j\u{fc}rgen@example.com", "as it was written");
    for other in ["ju\u{308}rgen@example.com", "JU\u{308}RGEN@EXAMPLE.COM"] {
        let refused = api.post("/v1/members", &body(other)).expect_error(409);
        assert_eq!(refused["code"], "email_taken", "{other}");
    }
}

#[test]
fn put_is_partial_and_never_changes_the_address() {
    let installation = Installation::init(60, 844);
    let switch = installation.serve();
    let api = switch.api();
    let before = create(&api, "grace@example.com");
    let change = json!({
        "first_name": "Grace B.", "email": "other@example.com", "id": 7, "role": "reviewer",
        "code": null,
    });
    let mut expected = before.clone();
    expected["first_name"] = json!("Grace B.");
    expected["role"] = json!("reviewer");
    assert_eq!(api.put(&path_of(&before), &change).expect(200), expected);
    // A body can be sent back as it was read, an administrator's too.
    assert_eq!(api.put(&path_of(&before), &expected).expect(200), expected);
    let admin = administrator(&api);
    assert_eq!(api.put(&path_of(&admin), &admin).expect(200), admin);

    let rows = [
        (json!({"first_name": ""}), "first_name"),
        (json!({"last_name": null}), "last_name"),
        (json!({"role": "administrator"}), "role"),
        (json!({"role": "boss"}), "role"),
        (json!({"is_active": 1}), "is_active"),
        (json!({"code": "4x"}), "code"),
        (json!({"department": {"id": NOBODY}}), "department"),
    ];
    for (change, param) in rows {
        let detail = api.put(&path_of(&before), &change).expect_error(400);
        assert_eq!(detail["param"], param, "{detail:#}");
    }
    assert_eq!(api.get(&path_of(&before)).expect(200), expected, "nothing has changed");
    api.put(&format!("/v1/members/{NOBODY}"), &json!({})).expect_error(404);
}

#[test]
fn leaving_ends_everything_at_once_and_coming_back_undoes_nothing() {
    let installation = Installation::init(60, 846);
    let switch = installation.serve();
    let api = switch.api();
    let member = create(&api, "grace@example.com");
    let path = path_of(&member);
    api.put(&path, &json!({"role": "reviewer"})).expect(200);
    let cards = [card_of(&api, &member), card_of(&api, &member)];
    let other = card_of(&api, &create(&api, "bob@example.com"));
    let pending = request(&api, &member);
    assert!(is_approved(&switch, &cards[0]));
    let links = ["GRACE@Example.com", "bob@example.com"].map(|email| share(&api, &other, email));

    let left = api.put(&path, &json!({"is_active": false})).expect(200);
    assert_eq!((&left["is_active"], &left["role"]), (&json!(false), &json!("member")));
    assert_left(&switch, &cards, &pending);
    assert_eq!(state_of(&api, &other), "active", "others stay as they are");
    api.get(&links[0]).expect_error(404);
    api.get(&links[1]).expect(200);
    let again = api.put(&path, &json!({"is_active": false})).expect(200);
    assert_eq!(again, left, "a second time changes nothing");
    // A role for somebody who takes no part was dropped without a word.
    let refused = api.put(&path, &json!({"role": "reviewer"})).expect_error(409);
    assert_eq!(refused["code"], "member_inactive");
    let both = json!({"role": "reviewer", "is_active": false});
    assert_eq!(api.put(&path, &both).expect_error(409)["code"], "member_inactive");
    assert_eq!(api.put(&path, &json!({"role": "member"})).expect(200), left);

    let back = api.put(&path, &json!({"is_active": true})).expect(200);
    assert_eq!((&back["is_active"], &back["role"]), (&json!(true), &json!("member")));
    assert_left(&switch, &cards, &pending);
    let fresh = card_of(&api, &member);
    assert!(is_approved(&switch, &fresh));

    // All of it is there after a crash, too.
    switch.kill9();
    installation.verify_ok();
    let switch = installation.serve();
    // The address is another one each time it is served.
    let again = switch.api().get(&path).expect(200);
    for key in ["id", "is_active", "role", "email", "created_at"] {
        assert_eq!(again[key], back[key], "{key}");
    }
    assert_left(&switch, &cards, &pending);
    assert!(is_approved(&switch, &fresh));
    assert_eq!(switch.api().delete(&path).status, 204);
    assert_left(&switch, &[fresh], &pending);
}

#[test]
fn deleted_member_is_gone_from_lists_and_stays_on_cards_and_transactions() {
    let installation = Installation::init(60, 847);
    let switch = installation.serve();
    let api = switch.api();
    let member = create(&api, "grace@example.com");
    let (path, id) = (path_of(&member), &member["id"]);
    let card = card_of(&api, &member);
    let pending = request(&api, &member);
    assert!(is_approved(&switch, &card));
    assert_eq!((api.delete(&path).status, api.delete(&path).status), (204, 204));

    assert_left(&switch, std::slice::from_ref(&card), &pending);
    let gone = api.get(&path).expect(200);
    assert_eq!((&gone["id"], &gone["is_active"]), (id, &json!(false)));
    assert!(!emails_of(&api.get("/v1/members").expect(200)).contains(&"grace@example.com".into()));
    let shown = api.get(&path_of_card(&card)).expect(200);
    assert_eq!(&shown["assigned_to"]["id"], id);
    // A terminated card stays with its last holder; everything else may still change.
    let renamed = json!({"description": "Old", "assigned_to": {"id": id}, "department": null});
    api.put(&path_of_card(&card), &renamed).expect(200);
    api.put(&path_of_card(&card), &json!({"assigned_to": null})).expect_error(409);
    let text = id.as_str().expect("an id");
    let bought = api.get(&format!("/v1/transactions?member={text}")).expect(200);
    // One was approved, one declined since.
    assert_eq!((&bought["count"], &bought["results"][0]["member"]["id"]), (&json!(2), id));

    for change in [json!({"is_active": true}), json!({"first_name": "Late"})] {
        assert_eq!(api.put(&path, &change).expect_error(409)["code"], "member_deleted");
    }
    let mut card = card_body(&member);
    assert_eq!(api.post("/v1/cards", &card).expect_error(400)["param"], "assigned_to");
    card["assigned_to"] = Value::Null;
    let unheld = api.post("/v1/cards", &card).expect(201);
    let give = json!({"assigned_to": {"id": id}});
    let detail = api.put(&path_of_card(&unheld), &give).expect_error(400);
    assert_eq!(detail["param"], "assigned_to");
}

#[test]
fn somebody_always_administers_the_company() {
    let installation = Installation::init(60, 848);
    let switch = installation.serve();
    let api = switch.api();
    let admin = administrator(&api);
    let path = path_of(&admin);
    for change in [json!({"is_active": false}), json!({"role": "member"})] {
        assert_eq!(api.put(&path, &change).expect_error(409)["code"], "last_administrator");
    }
    assert_eq!(api.delete(&path).expect_error(409)["code"], "last_administrator");
    assert_eq!(api.get(&path).expect(200), admin, "nothing has changed");
    let renamed = api.put(&path, &json!({"last_name": "Byron", "is_active": true})).expect(200);
    assert_eq!(
        (&renamed["last_name"], &renamed["role"]),
        (&json!("Byron"), &json!("administrator"))
    );
}

const NOBODY: &str = "01890000-0000-7000-8000-000000000000";

/// Asserts that cards are closed, to the network too, and that a request was denied.
#[track_caller]
fn assert_left(switch: &Switch, cards: &[Value], requisition: &Value) {
    let api = switch.api();
    for card in cards {
        assert_eq!(state_of(&api, card), "terminated");
        assert!(!is_approved(switch, card));
    }
    let path = format!("/v1/requisitions/{}", requisition["id"].as_str().expect("an id"));
    let denied = api.get(&path).expect(200);
    assert_eq!((&denied["status"], &denied["reviewed_by"]), (&json!("denied"), &Value::Null));
}

/// Whether a purchase with a card is approved; declines must be as for a closed card.
#[track_caller]
fn is_approved(switch: &Switch, card: &Value) -> bool {
    let purchase = json!({"card_id": card["id"], "amount": 1, "merchant": {"mcc": 5411}});
    let answer = switch.network_api().post("/network/v1/authorizations", &purchase).expect(200);
    assert!(answer["approved"] == true || answer["response_code"] == 1000, "{answer:#}");
    answer["approved"] == true
}

#[track_caller]
fn state_of(api: &HttpClient, card: &Value) -> Value {
    api.get(&path_of_card(card)).expect(200)["state"].clone()
}

#[track_caller]
fn administrator(api: &HttpClient) -> Value {
    let all = api.get("/v1/members?ordering=created_at&limit=1").expect(200);
    assert_eq!(all["results"][0]["role"], "administrator");
    all["results"][0].clone()
}

#[track_caller]
fn create(api: &HttpClient, email: &str) -> Value {
    api.post("/v1/members", &body(email)).expect(201)
}

fn body(email: &str) -> Value {
    json!({"first_name": "Grace", "last_name": "Hopper", "email": email})
}

#[track_caller]
fn card_of(api: &HttpClient, member: &Value) -> Value {
    api.post("/v1/cards", &card_body(member)).expect(201)
}

fn card_body(member: &Value) -> Value {
    json!({
        "description": "Travel", "is_virtual": true, "allowance": {"amount": 500},
        "assigned_to": {"id": member["id"]},
    })
}

#[track_caller]
fn request(api: &HttpClient, member: &Value) -> Value {
    let body = json!({"amount": 20, "description": "Books", "member": {"id": member["id"]}});
    api.post("/v1/requisitions", &body).expect(201)
}

/// Shares a card with an address; the path of the link.
#[track_caller]
fn share(api: &HttpClient, card: &Value, email: &str) -> String {
    let recipient = json!({"name": "Somebody", "email": email, "notify": false});
    let link = json!({"card": {"id": card["id"]}, "recipient": recipient});
    let link = api.post("/v1/shared-links", &link).expect(201);
    format!("/v1/shared-links/{}", link["id"].as_str().expect("an id"))
}

fn emails_of(page: &Value) -> Vec<String> {
    let results = page["results"].as_array().expect("results");
    results.iter().filter_map(|row| row["email"].as_str()).map(str::to_owned).collect()
}

fn path_of(member: &Value) -> String {
    format!("/v1/members/{}", member["id"].as_str().expect("an id"))
}

fn path_of_card(card: &Value) -> String {
    format!("/v1/cards/{}", card["id"].as_str().expect("an id"))
}
