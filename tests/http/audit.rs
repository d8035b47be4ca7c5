//! `/v1/audit-events`: the actor, the change and the address; `/v1/access-tokens`: rights to see them, and their
//! end.

use cardswitch_harness::{HttpClient, HttpRequest, Installation, run_cardswitch};
use serde_json::{Value, json};

#[track_caller]
fn events(api: &HttpClient, query: &str) -> Vec<Value> {
    let page = api.get(&format!("/v1/audit-events?{query}")).expect(200);
    page["results"].as_array().expect("results").clone()
}

fn id_of(object: &Value) -> &str {
    object["id"].as_str().expect("an id")
}

#[test]
fn a_change_is_noted_with_who_what_and_where_but_never_with_values() {
    let installation = Installation::init(60, 1_201);
    let switch = installation.serve();
    let api = switch.api();
    let card = format!("/v1/cards/{}", installation.cards.ordinary().card_id);
    let secret = "Very private description";
    let headers = &[("content-type", "application/json"), ("x-forwarded-for", "203.0.113.7")];
    let body = json!({"description": secret}).to_string();
    let sent = HttpRequest { method: "PUT", path: &card, headers, body: body.as_bytes() };
    api.send(&sent).expect(200);
    let page = api.get("/v1/audit-events?limit=1").expect(200);
    let event = &page["results"][0];
    let tokens = api.get("/v1/access-tokens").expect(200);
    let expected = json!({
        "action": "card.updated",
        // The token of `init` acts for the administrator.
        "actor": {"kind": "access_token", "id": tokens["results"][0]["id"],
            "member_id": tokens["results"][0]["member"]["id"]},
        // The proxy is not configured as trusted.
        "address": "127.0.0.1",
        "object": {"kind": "card", "id": installation.cards.ordinary().card_id},
        "fields": ["description"],
        "values": [],
        "created_at": event["created_at"],
    });
    assert_eq!(event, &expected);
    assert!(!api.get("/v1/audit-events?limit=1000").text().contains(secret));

    // A refused change changed nothing, and neither did one to the present value.
    let count = page["count"].as_u64();
    api.put(&card, &json!({"state": "bent"})).expect_error(400);
    api.put(&card, &json!({"description": secret})).expect(200);
    assert_eq!(api.get("/v1/audit-events").expect(200)["count"].as_u64(), count);
}

#[test]
fn a_repeat_under_a_key_is_one_event() {
    let installation = Installation::init(60, 1_202);
    let switch = installation.serve();
    let api = switch.api();
    let body = json!({"name": "Research"}).to_string();
    let headers = &[("content-type", "application/json"), ("idempotency-key", "k")];
    let sent =
        HttpRequest { method: "POST", path: "/v1/departments", headers, body: body.as_bytes() };
    let made = api.send(&sent).expect(201);
    assert_eq!(api.send(&sent).expect(201), made);
    let noted = events(&api, &format!("object={}", id_of(&made)));
    assert_eq!(noted.len(), 1, "{noted:#?}");
    assert_eq!(noted[0]["actor"]["kind"], "access_token");
    assert_eq!(noted[0]["address"], "127.0.0.1");
}

#[test]
fn events_are_filtered_ordered_and_cut_into_pages_and_outlive_a_crash() {
    let installation = Installation::init(60, 1_203);
    let scim_token = installation.add_token("scim");
    let switch = installation.serve();
    let (api, scim) = (switch.api(), switch.api_with(&scim_token));
    let user =
        json!({"userName": "ada@example.com", "name": {"givenName": "A", "familyName": "B"}});
    let user = scim.post("/scim/v2/Users", &user).expect(201);
    let member = format!("/v1/members/{}", id_of(&user));
    api.put(&member, &json!({"code": "7", "first_name": "Ada"})).expect(200);
    assert_eq!(api.delete(&member).status, 204);

    let of_member = events(&api, &format!("object={}", id_of(&user)));
    let actions: Vec<_> = of_member.iter().map(|event| event["action"].clone()).collect();
    assert_eq!(actions, ["member.deleted", "member.updated", "member.created"]);
    assert_eq!(of_member[1]["fields"], json!(["first_name", "code"]));
    let by_scim = &of_member[2]["actor"]["id"];
    assert_ne!(by_scim, &of_member[0]["actor"]["id"], "each token is somebody else");
    let by_scim = by_scim.as_str().expect("an id");
    assert_eq!(events(&api, &format!("actor={by_scim}")), of_member[2..]);
    assert_eq!(events(&api, "action=member.updated"), of_member[1..2]);
    assert_eq!(events(&api, &format!("actor={by_scim}&action=member.updated")), [Value::Null; 0]);
    let since = of_member[1]["created_at"].as_str().expect("a time");
    assert_eq!(events(&api, &format!("created_after={since}")), of_member[..2]);
    let oldest =
        events(&api, &format!("created_after={since}&ordering=created_at&limit=1&offset=1"));
    assert_eq!(oldest, of_member[..1]);
    for query in ["actor=me", "object=x", "ordering=action", "limit=-1", "created_after=now"] {
        api.get(&format!("/v1/audit-events?{query}")).expect_error(400);
    }

    let all = events(&api, "limit=1000");
    switch.kill9();
    installation.verify_ok();
    let switch = installation.serve();
    assert_eq!(events(&switch.api(), "limit=1000"), all);
}

#[test]
fn a_log_is_its_companys_and_for_administrators() {
    let installation = Installation::init(60, 1_204);
    let others = ["", "accountant", "iam,scim"].map(|scopes| installation.add_token(scopes));
    let data = installation.data();
    let data = data.to_str().expect("a path");
    let added = ["company", "add", "--data", data, "--name", "Other", "--json"];
    let added = run_cardswitch(&added).expect_json();
    let switch = installation.serve();
    let stranger = switch.api_with(added["access_token"].as_str().expect("a token"));
    let api = switch.api();
    let made = api.post("/v1/labels", &json!({"name": "Red"})).expect(201);
    assert_eq!(events(&api, &format!("object={}", id_of(&made))).len(), 1);
    assert_eq!(events(&stranger, &format!("object={}", id_of(&made))).len(), 0);
    // The operator's acts for the other company stand in that company's log.
    let founded = events(&stranger, "action=company.created");
    assert_eq!((founded.len(), &founded[0]["actor"]["kind"]), (1, &json!("operator")));
    assert_eq!(founded[0]["address"], Value::Null);
    for token in &others {
        switch.api_with(token).get("/v1/audit-events").expect_error(403);
        switch.api_with(token).get("/v1/access-tokens").expect_error(403);
    }
}

#[test]
fn a_revoked_token_opens_nothing_from_then_on() {
    let installation = Installation::init(60, 1_205);
    let extra = installation.add_token("accountant,iam");
    let data = installation.data();
    let data = data.to_str().expect("a path");
    let added = ["company", "add", "--data", data, "--name", "Other", "--json"];
    let added = run_cardswitch(&added).expect_json();
    let switch = installation.serve();
    let (api, bearer) = (switch.api(), switch.api_with(&extra));
    let stranger = switch.api_with(added["access_token"].as_str().expect("a token"));
    let listed = api.get("/v1/access-tokens").expect(200);
    assert_eq!(listed["count"], 2, "{listed:#}");
    assert!(!listed.to_string().contains(&extra), "a token's text is nowhere");
    let token = &listed["results"][0];
    assert_eq!(token["scope"], json!(["accountant", "iam"]));
    assert_eq!((&token["origin"], &token["app"]), (&json!("operator"), &Value::Null));
    let path = format!("/v1/access-tokens/{}", id_of(token));
    assert_eq!(&api.get(&path).expect(200), token);
    stranger.get(&path).expect_error(404);
    stranger.delete(&path).expect_error(404);
    bearer.get("/v1/company").expect(200);

    assert_eq!(api.delete(&path).status, 204);
    bearer.get("/v1/company").expect_error(401);
    api.get(&path).expect_error(404);
    assert_eq!(api.get("/v1/access-tokens").expect(200)["count"], 1);
    let noted = events(&api, &format!("object={}", id_of(token)));
    assert_eq!(noted[0]["action"], "access_token.revoked", "{noted:#?}");
    switch.kill9();
    let switch = installation.serve();
    switch.api_with(&extra).get("/v1/company").expect_error(401);
}
