//! `/scim/v2`: members as an identity provider sees and keeps them. The standard's demands on every server are
//! tested from outside; these tests hold their effects on members.

use std::fs;

use cardswitch_harness::{
    HttpClient, HttpRequest, HttpResponse, Installation, Switch, run_cardswitch,
};
use serde_json::{Value, json};

const USER: &str = "urn:ietf:params:scim:schemas:core:2.0:User";
const ENTERPRISE: &str = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";
const PATCH: &str = "urn:ietf:params:scim:api:messages:2.0:PatchOp";
const ERROR: &str = "urn:ietf:params:scim:api:messages:2.0:Error";
const NOBODY: &str = "01890000-0000-7000-8000-000000000000";

/// An installation with a token of the scope; both clients of the running switch.
fn provider(installation: &Installation) -> (Switch, HttpClient) {
    let token = installation.add_token("scim");
    let switch = installation.serve();
    let scim = switch.api_with(&token);
    (switch, scim)
}

fn user(user_name: &str) -> Value {
    json!({
        "schemas": [USER],
        "userName": user_name,
        "name": {"givenName": "Grace", "familyName": "Hopper"},
    })
}

#[track_caller]
fn create(scim: &HttpClient, user_name: &str) -> Value {
    scim.post("/scim/v2/Users", &user(user_name)).expect(201)
}

fn path_of(user: &Value) -> String {
    format!("/scim/v2/Users/{}", user["id"].as_str().expect("an id"))
}

fn patch(operations: &Value) -> Value {
    json!({"schemas": [PATCH], "Operations": operations})
}

/// Asserts a refusal in the shape of SCIM, for this cause.
#[track_caller]
fn assert_refused(answer: &HttpResponse, status: u16, scim_type: Option<&str>) {
    let body = answer.expect(status);
    assert_eq!(body["schemas"], json!([ERROR]), "{body:#}");
    assert_eq!(body["status"], status.to_string(), "{body:#}");
    assert_eq!(body["scimType"].as_str(), scim_type, "{body:#}");
    assert!(body["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{body:#}");
    assert_eq!(answer.header("content-type"), Some("application/scim+json"));
    assert!(answer.header("request-id").is_some());
}

/// Keys once had no effect here: a repeated POST was refused for the address it had made itself.
#[test]
fn requests_with_a_key_are_carried_out_once() {
    let installation = Installation::init(60, 1_112);
    let (_switch, scim) = provider(&installation);
    let send = |method: &str, path: &str, key: &str, body: &Value| {
        let headers = &[("content-type", "application/scim+json"), ("idempotency-key", key)];
        let body = if body.is_null() { String::new() } else { body.to_string() };
        scim.send(&HttpRequest { method, path, headers, body: body.as_bytes() })
    };
    let repeat = |method: &str, path: &str, key: &str, body: &Value| {
        let [first, again] = [(); 2].map(|()| send(method, path, key, body));
        assert_eq!((again.status, again.text()), (first.status, first.text()), "{method}");
        assert_eq!(again.header("content-type"), first.header("content-type"), "{method}");
        let marks = [&first, &again].map(|answer| answer.header("idempotent-replayed"));
        assert_eq!(marks, [None, Some("true")], "{method}");
        first
    };
    let users = "/scim/v2/Users";
    let made = repeat("POST", users, "make", &user("grace@example.com")).expect(201);
    let reused = send("POST", users, "make", &user("ada@example.com"));
    assert_refused(&reused, 400, Some("invalidValue"));
    assert_refused(&send("POST", users, "", &user("ada@example.com")), 400, Some("invalidValue"));
    let path = path_of(&made);
    let off = patch(&json!([{"op": "replace", "path": "active", "value": false}]));
    assert_eq!(repeat("PATCH", &path, "off", &off).expect(200)["active"], false);
    let mut whole = user("grace@example.com");
    whole["active"] = json!(true);
    assert_eq!(repeat("PUT", &path, "on", &whole).expect(200)["active"], true);
    let taken = repeat("POST", users, "taken", &user("grace@example.com"));
    assert_refused(&taken, 409, Some("uniqueness"));
    assert_eq!(repeat("DELETE", &path, "gone", &Value::Null).status, 204);
    scim.get(&path).expect(404);
}

#[test]
fn a_user_is_a_member() {
    let installation = Installation::init(60, 1_101);
    let (switch, scim) = provider(&installation);
    let department = json!({"name": "Research", "code": "77"});
    let department = switch.api().post("/v1/departments", &department).expect(201);
    let mut body = user("Grace@Example.com");
    body["externalId"] = json!("00u1a2b3");
    body["userType"] = json!("reviewer");
    body["password"] = json!("is thrown away");
    body[ENTERPRISE] = json!({"employeeNumber": "0042", "department": "research"});
    let answer = scim.post("/scim/v2/Users", &body);
    let made = answer.expect(201);
    assert_eq!(answer.header("location"), made["meta"]["location"].as_str());
    assert_eq!(answer.header("content-type"), Some("application/scim+json"));

    let id = made["id"].as_str().expect("an id");
    let expected = json!({
        "schemas": [USER, ENTERPRISE],
        "id": id,
        "externalId": "00u1a2b3",
        "userName": "Grace@Example.com",
        "name": {"givenName": "Grace", "familyName": "Hopper"},
        "displayName": "Grace Hopper",
        "active": true,
        "userType": "reviewer",
        "emails": [{"value": "Grace@Example.com", "type": "work", "primary": true}],
        ENTERPRISE: {"employeeNumber": "0042", "department": "Research"},
        "meta": {
            "resourceType": "User",
            "created": made["meta"]["created"],
            "location": format!("http://{}/scim/v2/Users/{id}", switch.http),
        },
    });
    assert_eq!(made, expected);
    assert_eq!(scim.get(&path_of(&made)).expect(200), expected);

    let member = switch.api().get(&format!("/v1/members/{id}")).expect(200);
    assert_eq!((&member["email"], &member["role"]), (&made["userName"], &json!("reviewer")));
    assert_eq!((&member["code"], &member["is_active"]), (&json!("0042"), &json!(true)));
    assert_eq!(member["department"]["id"], department["id"]);
    assert_eq!(member["created_at"], made["meta"]["created"]);
}

#[test]
fn only_tokens_of_the_scope_get_in_and_whatever_is_refused_has_one_shape() {
    let installation = Installation::init(60, 1_102);
    let others = ["admin,accountant,iam", ""].map(|scopes| installation.add_token(scopes));
    let (switch, scim) = provider(&installation);
    let paths = ["/scim/v2/Users", "/scim/v2/Schemas", "/scim/v2/nothing", "/scim/v2"];
    for path in paths {
        assert_refused(&switch.anonymous().get(path), 401, None);
        for token in &others {
            assert_refused(&switch.api_with(token).get(path), 403, None);
        }
    }
    assert_refused(&switch.api_with(&others[0]).post(paths[0], &user("a@example.com")), 403, None);
    for path in ["/scim/v2/nothing", "/scim/v2/Users/nobody", "/scim/v2/Groups"] {
        assert_refused(&scim.get(path), 404, None);
    }
    assert_refused(&scim.delete("/scim/v2/Users"), 405, None);
    assert_refused(&scim.put("/scim/v2/Schemas", &json!({})), 405, None);
    // The scope opens nothing else.
    scim.post("/v1/members", &json!({})).expect_error(403);
}

#[test]
fn lists_are_filtered_and_cut_into_pages() {
    let installation = Installation::init(60, 1_103);
    let (_switch, scim) = provider(&installation);
    for number in 0..5 {
        let made = create(&scim, &format!("m{number}@example.com"));
        if number == 1 {
            let off = patch(&json!([{"op": "replace", "value": {"active": false}}]));
            scim.patch(&path_of(&made), &off).expect(200);
        }
        if number == 4 {
            assert_eq!(scim.delete(&path_of(&made)).status, 204);
            assert_refused(&scim.get(&path_of(&made)), 404, None);
            assert_refused(&scim.delete(&path_of(&made)), 404, None);
        }
    }
    let listed = |query: &str| {
        let page = scim.get(&format!("/scim/v2/Users?{query}")).expect(200);
        let users = page["Resources"].as_array().expect("Resources");
        assert_eq!(page["itemsPerPage"], users.len(), "{page:#}");
        let names = users.iter().map(|user| user["userName"].as_str().unwrap_or("?").to_owned());
        (page["totalResults"].as_u64().expect("a number"), names.collect::<Vec<_>>())
    };
    let admin = installation.credentials.admin_email.as_str();
    let rows: [(&str, u64, &[&str]); 12] = [
        ("count=2", 5, &[admin, "m0@example.com"]),
        ("startIndex=3&count=5", 5, &["m1@example.com", "m2@example.com", "m3@example.com"]),
        ("startIndex=-1&count=0", 5, &[]),
        ("startIndex=50", 5, &[]),
        ("filter=userName%20eq%20%22M2%40EXAMPLE.com%22", 1, &["m2@example.com"]),
        ("filter=userName%20eq%20%22m4%40example.com%22", 0, &[]),
        ("filter=active%20eq%20false", 1, &["m1@example.com"]),
        ("filter=userType%20eq%20%22administrator%22", 1, &[admin]),
        (
            "filter=userName%20sw%20%22m%22%20and%20not%20(active%20eq%20false)&count=1",
            3,
            &["m0@example.com"],
        ),
        ("filter=userName+sw+%22m%22&startIndex=2&count=1", 4, &["m1@example.com"]),
        ("filter=emails%5Btype+eq+%22work%22+and+value+co+%22m0%22%5D", 1, &["m0@example.com"]),
        ("filter=externalId%20pr", 0, &[]),
    ];
    for (query, count, names) in rows {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(listed(query), (count, names), "{query}");
    }
    let search = json!({"filter": "userName eq \"m3@example.com\"", "attributes": ["userName"]});
    for path in ["/scim/v2/.search", "/scim/v2/Users/.search"] {
        let found = scim.post(path, &search).expect(200);
        let keys: Vec<_> = found["Resources"][0].as_object().expect("a user").keys().collect();
        assert_eq!((found["totalResults"].as_u64(), keys.len()), (Some(1), 3), "{found:#}");
    }
    for query in ["filter=userName", "filter=((((", "filter=%00"] {
        let answer = scim.get(&format!("/scim/v2/Users?{query}"));
        assert_refused(&answer, 400, Some("invalidFilter"));
    }
    assert_refused(&scim.get("/scim/v2/Users?count=many"), 400, Some("invalidValue"));
}

#[test]
fn names_ids_and_numbers_are_unique_while_their_users_are_there() {
    let installation = Installation::init(60, 1_104);
    let (_switch, scim) = provider(&installation);
    let mut first = user("ada@example.com");
    first["externalId"] = json!("ext-1");
    first[ENTERPRISE] = json!({"employeeNumber": "1"});
    let ada = scim.post("/scim/v2/Users", &first).expect(201);
    assert_refused(&scim.post("/scim/v2/Users", &user("ADA@example.com")), 409, Some("uniqueness"));
    for (key, value) in
        [("externalId", json!("ext-1")), (ENTERPRISE, json!({"employeeNumber": "1"}))]
    {
        let mut second = user("bob@example.com");
        second[key] = value.clone();
        assert_refused(&scim.post("/scim/v2/Users", &second), 409, Some("uniqueness"));
    }
    let bob = create(&scim, "bob@example.com");
    let taken = patch(&json!([{"op": "add", "path": "externalId", "value": "ext-1"}]));
    assert_refused(&scim.patch(&path_of(&bob), &taken), 409, Some("uniqueness"));
    assert_eq!(scim.delete(&path_of(&ada)).status, 204);
    scim.patch(&path_of(&bob), &taken).expect(200);
    let again = create(&scim, "ada@example.com");
    assert_ne!(again["id"], ada["id"], "somebody else of that address");
}

#[test]
fn replacing_takes_away_what_is_not_sent_and_patching_does_not() {
    let installation = Installation::init(60, 1_105);
    let (_switch, scim) = provider(&installation);
    let mut body = user("grace@example.com");
    body["externalId"] = json!("ext-1");
    body["userType"] = json!("reviewer");
    body[ENTERPRISE] = json!({"employeeNumber": "42"});
    let made = scim.post("/scim/v2/Users", &body).expect(201);
    let path = path_of(&made);
    assert_eq!(scim.put(&path, &made).expect(200), made, "what was read can be sent back");

    let rename = patch(&json!([{"op": "Replace", "path": "name.givenName", "value": "Amazing"}]));
    let renamed = scim.patch(&path, &rename).expect(200);
    assert_eq!(
        (&renamed["displayName"], &renamed["externalId"]),
        (&json!("Amazing Hopper"), &json!("ext-1"))
    );
    assert_eq!(renamed[ENTERPRISE], made[ENTERPRISE]);

    let replaced = scim.put(&path, &user("GRACE@example.com")).expect(200);
    assert_eq!(replaced["userName"], "grace@example.com", "the address is the same in any case");
    assert_eq!((replaced.get("externalId"), replaced.get(ENTERPRISE)), (None, None));
    assert_eq!((&replaced["userType"], &replaced["active"]), (&json!("reviewer"), &json!(true)));
    assert_refused(&scim.put(&path, &user("other@example.com")), 400, Some("mutability"));
    assert_refused(&scim.put(&path, &json!({"name": {}})), 400, Some("invalidValue"));
    assert_eq!(scim.get(&path).expect(200), replaced, "nothing has changed");
}

#[test]
fn whoever_is_deactivated_leaves_with_everything() {
    let installation = Installation::init(60, 1_106);
    let (switch, scim) = provider(&installation);
    let api = switch.api();
    let made = create(&scim, "grace@example.com");
    let card = json!({
        "description": "Travel", "is_virtual": true, "allowance": {"amount": 500},
        "assigned_to": {"id": made["id"]},
    });
    let card = api.post("/v1/cards", &card).expect(201);
    let card = format!("/v1/cards/{}", card["id"].as_str().expect("an id"));
    // As Azure AD says it.
    let off = patch(&json!([{"op": "Replace", "path": "active", "value": "False"}]));
    let left = scim.patch(&path_of(&made), &off).expect(200);
    assert_eq!((&left["active"], &left["userType"]), (&json!(false), &json!("member")));
    assert_eq!(api.get(&card).expect(200)["state"], "terminated");
    let back = patch(&json!([{"op": "replace", "value": {"active": true}}]));
    assert_eq!(scim.patch(&path_of(&made), &back).expect(200)["active"], true);
    assert_eq!(api.get(&card).expect(200)["state"], "terminated", "coming back undoes nothing");

    let filter = "/scim/v2/Users?filter=userType%20eq%20%22administrator%22";
    let admin = scim.get(filter).expect(200)["Resources"][0].clone();
    assert_refused(&scim.patch(&path_of(&admin), &off), 409, None);
    assert_refused(&scim.delete(&path_of(&admin)), 409, None);
    assert_eq!(scim.get(&path_of(&admin)).expect(200), admin);
}

#[test]
fn nobody_is_given_more_than_the_api_gives() {
    let installation = Installation::init(60, 1_107);
    let (_switch, scim) = provider(&installation);
    for role in ["administrator", "accountant", "root"] {
        let mut body = user("eve@example.com");
        body["userType"] = json!(role);
        assert_refused(&scim.post("/scim/v2/Users", &body), 400, Some("invalidValue"));
    }
    let made = create(&scim, "eve@example.com");
    for role in ["administrator", "Accountant"] {
        let raise = patch(&json!([{"op": "replace", "path": "userType", "value": role}]));
        assert_refused(&scim.patch(&path_of(&made), &raise), 400, Some("invalidValue"));
    }
    assert_eq!(scim.get(&path_of(&made)).expect(200), made);
}

#[test]
fn another_companys_users_are_not_there() {
    let installation = Installation::init(60, 1_108);
    let data = installation.data();
    let data = data.to_str().expect("a path");
    let added = ["company", "add", "--data", data, "--name", "Other", "--json"];
    let other = run_cardswitch(&added).expect_json()["company_id"].clone();
    let other = other.as_str().expect("an id");
    let added = ["token", "add", "--data", data, "--company", other, "--scope", "scim", "--json"];
    let token = run_cardswitch(&added).expect_json()["access_token"].clone();
    let (switch, scim) = provider(&installation);
    let made = create(&scim, "grace@example.com");
    let stranger = switch.api_with(token.as_str().expect("a token"));
    assert_eq!(stranger.get("/scim/v2/Users").expect(200)["totalResults"], 0);
    let by_id =
        format!("/scim/v2/Users?filter=id%20eq%20%22{}%22", made["id"].as_str().expect("an id"));
    assert_eq!(stranger.get(&by_id).expect(200)["totalResults"], 0);
    let off = patch(&json!([{"op": "replace", "value": {"active": false}}]));
    for path in [path_of(&made), format!("/scim/v2/Users/{NOBODY}")] {
        assert_refused(&stranger.get(&path), 404, None);
        assert_refused(&stranger.put(&path, &user("grace@example.com")), 404, None);
        assert_refused(&stranger.patch(&path, &off), 404, None);
        assert_refused(&stranger.delete(&path), 404, None);
    }
    assert_eq!(scim.get(&path_of(&made)).expect(200), made);
    // The same address in another company is another user.
    create(&stranger, "grace@example.com");
}

#[test]
fn bodies_are_bounded_and_read_carefully() {
    let installation = Installation::init(60, 1_109);
    let (_switch, scim) = provider(&installation);
    let send = |content_type: &str, body: &str| {
        let headers = &[("content-type", content_type)];
        let (method, path) = ("POST", "/scim/v2/Users");
        scim.send(&HttpRequest { method, path, headers, body: body.as_bytes() })
    };
    let deep = format!("{}{}", "[".repeat(30_000), "]".repeat(30_000));
    let long = json!({"userName": "x".repeat(70_000)}).to_string();
    assert_refused(&send("text/plain", "{}"), 415, None);
    assert_refused(&send("application/scim+json", "{"), 400, Some("invalidSyntax"));
    assert_refused(&send("application/json", "[]"), 400, Some("invalidSyntax"));
    assert_refused(&send("application/json", &deep), 400, Some("invalidSyntax"));
    assert_refused(&send("application/json", &long), 413, None);
    assert_refused(&send("application/json", "{}"), 400, Some("invalidValue"));
    let whole = user("ada@example.com").to_string();
    send("application/scim+json; charset=utf-8", &whole).expect(201);

    let wrong = [
        ("userName", json!("ada\r\nBcc: eve@example.com")),
        ("userName", json!("\"><script>@example.com")),
        ("name", json!({"givenName": "A\nB", "familyName": "C"})),
        ("externalId", json!("\u{0}")),
        (ENTERPRISE, json!({"department": "Nowhere"})),
        (ENTERPRISE, json!({"employeeNumber": "E1"})),
    ];
    for (key, value) in wrong {
        let mut body = user("eve@example.com");
        body[key] = value;
        assert_refused(&scim.post("/scim/v2/Users", &body), 400, Some("invalidValue"));
    }
}

#[test]
fn new_users_are_invited_once_and_those_who_do_not_take_part_are_not() {
    let installation = Installation::init(60, 1_110);
    let (switch, scim) = provider(&installation);
    let mut idle = user("idle@example.com");
    idle["active"] = json!("False");
    assert_eq!(scim.post("/scim/v2/Users", &idle).expect(201)["active"], false);
    create(&scim, "grace@example.com");
    let member = json!({"first_name": "B", "last_name": "B", "email": "bob@example.com"});
    switch.api().post("/v1/members", &member).expect(201);
    let letters = letters(&installation, 2);
    let to = |address: &str| {
        letters.iter().filter(|letter| letter.contains(&format!("To: {address}"))).count()
    };
    assert_eq!(["grace@example.com", "bob@example.com", "idle@example.com"].map(to), [1, 1, 0]);
    let letter = letters.iter().find(|letter| letter.contains("To: grace")).expect("a letter");
    let link = letter.split("/password/set/").nth(1).expect("a link");
    let key: String = link.chars().take_while(char::is_ascii_alphanumeric).collect();
    let page = switch.anonymous().get(&format!("/password/set/{key}"));
    assert_eq!(page.status, 200);
    assert!(page.text().contains("grace@example.com"), "{}", page.text());
    assert!(!switch.log().contains(&key), "links are in no log");
}

/// A role that came with `active: false` was dropped without a word.
#[test]
fn a_role_for_who_takes_no_part_is_refused_and_leaving_is_not() {
    let installation = Installation::init(60, 1_112);
    let (switch, scim) = provider(&installation);
    let mut idle = user("grace@example.com");
    idle["active"] = json!(false);
    idle["userType"] = json!("reviewer");
    assert_refused(&scim.post("/scim/v2/Users", &idle), 409, None);
    let made = create(&scim, "grace@example.com");
    let promoted = patch(&json!([{"op": "replace", "path": "userType", "value": "reviewer"}]));
    assert_eq!(scim.patch(&path_of(&made), &promoted).expect(200)["userType"], "reviewer");
    // The provider sends all of it, with the role: leaving succeeds, and the answer says what is left.
    let left = scim.put(&path_of(&made), &idle).expect(200);
    assert_eq!((&left["active"], &left["userType"]), (&json!(false), &json!("member")));
    assert_refused(&scim.patch(&path_of(&made), &promoted), 409, None);
    assert_refused(&scim.put(&path_of(&made), &idle), 409, None);
    drop(switch);
}

/// A member that was made inactive used to be two records and was never invited afterwards.
#[test]
fn whoever_takes_part_for_the_first_time_is_invited_then() {
    let installation = Installation::init(60, 1_111);
    let (switch, scim) = provider(&installation);
    let idle = |user_name: &str| {
        let mut body = user(user_name);
        body["active"] = json!(false);
        scim.post("/scim/v2/Users", &body).expect(201)
    };
    let [by_patch, by_put] = ["grace@example.com", "bob@example.com"].map(idle);
    let made = switch.api().get("/v1/audit-events?limit=2").expect(200);
    let actions = made["results"].as_array().expect("events").iter();
    let actions: Vec<_> = actions.map(|event| event["action"].clone()).collect();
    assert_eq!(actions, ["member.created", "member.created"], "one record each");

    let activate = patch(&json!([{"op": "replace", "path": "active", "value": true}]));
    assert_eq!(scim.patch(&path_of(&by_patch), &activate).expect(200)["active"], true);
    letters(&installation, 1);
    let member = format!("/v1/members/{}", by_put["id"].as_str().expect("an id"));
    for is_active in [false, true, true] {
        switch.api().put(&member, &json!({"is_active": is_active})).expect(200);
    }
    let letters = letters(&installation, 2);
    for address in ["grace@example.com", "bob@example.com"] {
        let mine = letters.iter().filter(|letter| letter.contains(&format!("To: {address}")));
        assert_eq!(mine.count(), 1, "{address}");
    }
}

/// The letters in the outbox once there are `count`, with their lines put together again. Nobody is
/// told when they are written.
fn letters(installation: &Installation, count: usize) -> Vec<String> {
    let outbox = installation.data().join("outbox");
    let finished = || {
        let files =
            fs::read_dir(&outbox).expect("an outbox").map(|file| file.expect("a file").path());
        files.filter(|path| path.extension().is_some()).collect::<Vec<_>>()
    };
    while finished().len() < count {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let texts = finished().into_iter().map(|path| fs::read_to_string(path).expect("text"));
    texts.map(|text| text.replace("=\r\n", "")).collect()
}
