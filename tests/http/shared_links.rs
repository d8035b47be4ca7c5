//! `/v1/shared-links`: the rights to see them, their end, and that no key or passphrase of one lies on the disk
//! in clear.

use std::fs;
use std::path::Path;

use cardswitch_harness::{HttpClient, Installation};
use serde_json::{Value, json};

const NOBODY: &str = "01890000-0000-7000-8000-000000000000";

#[test]
fn link_shows_what_is_set_and_leaves_out_what_is_not() {
    let installation = Installation::init(60, 841);
    let switch = installation.serve_with(&["--app-url", "https://cards.example.com/"]);
    let api = switch.api();
    let card = &installation.cards.ordinary().card_id;
    let plain = share(&api, card, &json!({}));
    assert_eq!(
        keys(&plain),
        ["id", "url", "link", "card", "hide_balance", "last_viewed_at", "created_at"]
    );
    let id = text(&plain, "id");
    assert!(text(&plain, "url").ends_with(&format!("/v1/shared-links/{id}")));
    assert_eq!(plain["card"], json!({"id": card}));
    assert_eq!((&plain["hide_balance"], &plain["last_viewed_at"]), (&json!(false), &Value::Null));
    let key = key_of(&plain, "https://cards.example.com");
    assert!(key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit()), "{key}");

    let passphrase = json!([
        {"name": "Birthday", "value": "1990-02-28", "type": "date"},
        {"name": "Pet", "value": "Rex", "type": "text"},
    ]);
    let recipient = json!({"name": "Ada", "email": "ada@example.com",
        "message": "For you\nAda", "notify": true});
    let whole = share(
        &api,
        card,
        &json!({"recipient": recipient, "passphrase_fields": passphrase, "hide_balance": true}),
    );
    assert_eq!(whole["recipient"], json!({"name": "Ada", "email": "ada@example.com"}));
    assert_eq!(whole["passphrase_fields"], passphrase);
    assert_eq!(whole["hide_balance"], true);
    assert_ne!(key_of(&whole, "https://cards.example.com"), key, "each link has its own key");
    let path = format!("/v1/shared-links/{}", text(&whole, "id"));
    let answer = api.get(&path);
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.expect(200), whole);
}

#[test]
fn links_are_listed_newest_first_and_by_card() {
    let installation = Installation::init(60, 842);
    let switch = installation.serve();
    let api = switch.api();
    let cards = installation.cards.with_profile("ordinary");
    let ids: Vec<String> = [0, 1, 0, 1, 0]
        .iter()
        .map(|at| text(&share(&api, &cards[*at].card_id, &json!({})), "id"))
        .collect();
    let found = |query: &str| {
        let list = api.get(&format!("/v1/shared-links{query}")).expect(200);
        let rows = list["results"].as_array().expect("results").clone();
        (list["count"].clone(), rows.iter().map(|row| text(row, "id")).collect::<Vec<_>>())
    };
    let at = |places: &[usize]| places.iter().map(|at| ids[*at].clone()).collect::<Vec<_>>();
    assert_eq!(found(""), (json!(5), at(&[4, 3, 2, 1, 0])));
    assert_eq!(found("?ordering=created_at&limit=2&offset=1"), (json!(5), at(&[1, 2])));
    let of_card = format!("?card={}", cards[0].card_id);
    assert_eq!(found(&of_card), (json!(3), at(&[4, 2, 0])));
    assert_eq!(found(&format!("?card={NOBODY}")), (json!(0), vec![]));
    let third = api.get(&format!("/v1/shared-links/{}", ids[2])).expect(200);
    let after = format!("?created_after={}", text(&third, "created_at"));
    assert_eq!(found(&after), (json!(3), at(&[4, 3, 2])));
    api.get("/v1/shared-links?card=5").expect_error(400);
}

#[test]
fn put_is_partial_and_null_clears() {
    let installation = Installation::init(60, 843);
    let switch = installation.serve();
    let api = switch.api();
    let given = json!({"recipient": {"name": "Ada", "email": "ada@example.com"},
        "passphrase_fields": [{"name": "Pet", "value": "Rex"}]});
    let link = share(&api, &installation.cards.ordinary().card_id, &given);
    assert_eq!(link["passphrase_fields"][0]["type"], "text", "text unless it says otherwise");
    let path = format!("/v1/shared-links/{}", text(&link, "id"));

    assert_eq!(api.put(&path, &json!({"id": NOBODY, "link": "x", "card": 5})).expect(200), link);
    let hidden = api.put(&path, &json!({"hide_balance": true})).expect(200);
    let mut expected = link.clone();
    expected["hide_balance"] = json!(true);
    assert_eq!(hidden, expected);

    let other = json!({"recipient": {"name": "Bo", "email": "bo@example.com", "notify": false},
        "passphrase_fields": [{"name": "Year", "value": "2001-01-01", "type": "date"}]});
    let changed = api.put(&path, &other).expect(200);
    assert_eq!(changed["recipient"], json!({"name": "Bo", "email": "bo@example.com"}));
    assert_eq!(changed["passphrase_fields"], other["passphrase_fields"]);
    assert_eq!(changed["link"], link["link"], "the link itself stays");

    let cleared = api.put(&path, &json!({"recipient": null, "passphrase_fields": []})).expect(200);
    assert!(cleared.get("recipient").is_none() && cleared.get("passphrase_fields").is_none());
    let detail = api.put(&path, &json!({"hide_balance": null, "recipient": 5})).expect_error(400);
    assert_eq!(detail["errors"].as_array().map(Vec::len), Some(2));
    assert_eq!(api.get(&path).expect(200), cleared);
}

#[test]
fn card_shows_its_newest_link_until_it_is_deleted() {
    let installation = Installation::init(60, 844);
    let token = installation.add_token("");
    let switch = installation.serve();
    let api = switch.api();
    let card = &installation.cards.ordinary().card_id;
    let path = format!("/v1/cards/{card}");
    let before = api.get(&path).expect(200);
    assert!(before.get("shared_link").is_none(), "the key is absent where nothing is shared");

    let (first, second) = (share(&api, card, &json!({})), share(&api, card, &json!({})));
    let reference =
        |link: &Value| json!({"id": link["id"], "url": link["url"], "link": link["link"]});
    assert_eq!(api.get(&path).expect(200)["shared_link"], reference(&second));
    let listed = api.get("/v1/cards?limit=1000").expect(200);
    let rows = listed["results"].as_array().expect("results");
    let row = rows.iter().find(|row| row["id"] == card.as_str()).expect("the card is listed");
    assert_eq!(row["shared_link"], reference(&second));
    let seen = switch.api_with(&token).get(&path).expect(200);
    assert!(seen.get("shared_link").is_none(), "a link opens the card: not for every token");

    let second_path = format!("/v1/shared-links/{}", text(&second, "id"));
    assert_eq!(api.delete(&second_path).expect(204), Value::Null);
    assert_eq!(api.get(&path).expect(200)["shared_link"], reference(&first));
    api.get(&second_path).expect_error(404);
    api.put(&second_path, &json!({})).expect_error(404);
    api.delete(&second_path).expect_error(404);
    api.delete(&format!("/v1/shared-links/{}", text(&first, "id"))).expect(204);
    assert_eq!(api.get(&path).expect(200), before, "the card itself is as it was");
    assert_eq!(api.get("/v1/shared-links").expect(200)["count"], 0);
}

#[test]
fn terminated_card_keeps_its_links_and_gets_no_new_one() {
    let installation = Installation::init(60, 845);
    let switch = installation.serve();
    let api = switch.api();
    let card = &installation.cards.ordinary().card_id;
    let link = share(&api, card, &json!({}));
    api.delete(&format!("/v1/cards/{card}")).expect(204);
    let refused = api.post("/v1/shared-links", &json!({"card": {"id": card}})).expect_error(409);
    assert_eq!(refused["code"], "card_terminated");
    let path = format!("/v1/shared-links/{}", text(&link, "id"));
    assert_eq!(api.get(&path).expect(200), link);
    assert_eq!(api.get(&format!("/v1/cards/{card}")).expect(200)["shared_link"]["id"], link["id"]);
    assert_eq!(api.put(&path, &json!({"hide_balance": true})).expect(200)["hide_balance"], true);
    api.delete(&path).expect(204);
}

#[test]
fn only_administrators_of_the_company_see_links() {
    let installation = Installation::init(60, 846);
    let tokens = ["", "accountant", "iam", "scim"].map(|scope| installation.add_token(scope));
    let switch = installation.serve();
    let link = share(&switch.api(), &installation.cards.ordinary().card_id, &json!({}));
    let path = format!("/v1/shared-links/{}", text(&link, "id"));
    for token in &tokens {
        let api = switch.api_with(token);
        api.get("/v1/shared-links").expect_error(403);
        api.post("/v1/shared-links", &json!({})).expect_error(403);
        api.get(&path).expect_error(403);
        api.put(&path, &json!({})).expect_error(403);
        api.delete(&path).expect_error(403);
    }
    switch.anonymous().get("/v1/shared-links").expect_error(401);
    // The card without funds belongs to the second company.
    let foreign = &installation.cards.first("no_funds").card_id;
    for card in [foreign.as_str(), NOBODY] {
        let body = json!({"card": {"id": card}, "hide_balance": 5});
        let detail = switch.api().post("/v1/shared-links", &body).expect_error(400);
        let errors = detail["errors"].as_array().expect("errors");
        let named: Vec<_> = errors.iter().map(|error| &error["param"]).collect();
        assert_eq!(named, ["hide_balance", "card"]);
        assert_eq!(errors[1]["code"], "not_found");
    }
    switch.api().get(&format!("/v1/shared-links/{NOBODY}")).expect_error(404);
}

#[test]
fn links_survive_kill_9_and_nothing_of_them_lies_in_clear() {
    let installation = Installation::init(60, 847);
    let switch = installation.serve();
    let api = switch.api();
    let card = installation.cards.ordinary().card_id.clone();
    let given = json!({
        "recipient": {"name": "Grace Recipient", "email": "grace@example.com",
            "message": "Kindly-Worded-Message"},
        "passphrase_fields": [
            {"name": "Mother's name", "value": "Zanzibar-Quokka-77"},
            {"name": "Wedding", "value": "1967-08-09", "type": "date"},
        ],
    });
    let link = share(&api, &card, &given);
    let gone = share(&api, &card, &given);
    api.delete(&format!("/v1/shared-links/{}", text(&gone, "id"))).expect(204);
    api.put(&format!("/v1/cards/{card}/pin"), &json!({"pin": "739104628517"})).expect(200);
    let base = format!("http://{}", switch.http);
    let keys = [key_of(&link, &base), key_of(&gone, &base)];
    switch.kill9();

    let switch = installation.serve();
    let path = format!("/v1/shared-links/{}", text(&link, "id"));
    let found = switch.api().get(&path).expect(200);
    // The port is another one now, and so are the addresses.
    let base = format!("http://{}", switch.http);
    assert_eq!(key_of(&found, &base), keys[0]);
    assert_eq!(found["passphrase_fields"], link["passphrase_fields"]);
    let list = switch.api().get("/v1/shared-links").expect(200);
    assert_eq!((&list["count"], &list["results"][0]["id"]), (&json!(1), &link["id"]));
    let log = switch.log();
    switch.stop();
    installation.verify_ok();

    assert!(is_on_disk(&installation.data(), b"Grace Recipient"), "the search finds nothing");
    let mut secrets: Vec<Vec<u8>> =
        ["Zanzibar-Quokka-77", "1967-08-09", "Kindly-Worded-Message", "739104628517"]
            .map(|secret| secret.as_bytes().to_vec())
            .into();
    for key in &keys {
        secrets.extend([key.as_bytes().to_vec(), bytes_of_hex(key)]);
    }
    for secret in &secrets {
        let shown = String::from_utf8_lossy(secret);
        assert!(!is_on_disk(&installation.data(), secret), "`{shown}` lies in clear");
        assert!(!log.as_bytes().windows(secret.len()).any(|part| part == secret), "{shown}");
    }
}

#[track_caller]
fn share(api: &HttpClient, card: &str, given: &Value) -> Value {
    let mut body = given.clone();
    body["card"] = json!({"id": card});
    api.post("/v1/shared-links", &body).expect(201)
}

/// The key in a link that leads to the site at `app_url`.
#[track_caller]
fn key_of(link: &Value, app_url: &str) -> String {
    let address = text(link, "link");
    let key = address.strip_prefix(&format!("{app_url}/s/"));
    assert!(key.is_some(), "{address} is not at {app_url}");
    key.unwrap_or_default().to_owned()
}

#[track_caller]
fn text(object: &Value, key: &str) -> String {
    assert!(object[key].is_string(), "no text `{key}` in {object:#}");
    object[key].as_str().unwrap_or_default().to_owned()
}

fn keys(object: &Value) -> Vec<String> {
    object.as_object().expect("an object").keys().cloned().collect()
}

fn bytes_of_hex(text: &str) -> Vec<u8> {
    let digit = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal digits");
    (0..text.len()).step_by(2).map(digit).collect()
}

/// Whether these bytes stand in any file of a directory, letters to read apart: without a mail
/// server those are in clear, links and all.
fn is_on_disk(directory: &Path, bytes: &[u8]) -> bool {
    let entries = fs::read_dir(directory).expect("a data directory can be read");
    entries.map(|entry| entry.expect("an entry").path()).any(|path| {
        if path.ends_with("outbox") {
            return false;
        }
        if path.is_dir() {
            return is_on_disk(&path, bytes);
        }
        let content = fs::read(&path).expect("a file of the data directory can be read");
        content.windows(bytes.len()).any(|part| part == bytes)
    })
}
