//! `/v1/company`: what it shows, and single sign-on, which the scope `iam` alone may change.

use cardswitch_harness::{Installation, run_cardswitch};
use serde_json::{Value, json};

const METADATA: &str = "<?xml version=\"1.0\"?>\n<md:EntityDescriptor \
    xmlns:md=\"urn:oasis:names:tc:SAML:2.0:metadata\" entityID=\"https://idp.example.com\">\n  \
    <md:IDPSSODescriptor protocolSupportEnumeration=\"urn:oasis:names:tc:SAML:2.0:protocol\"/>\n\
    </md:EntityDescriptor>\n";

#[test]
fn company_shows_every_field_of_the_specification() {
    let installation = Installation::init(60, 871);
    let switch = installation.serve();
    let company = switch.api().get("/v1/company").expect(200);
    for key in ["id", "name", "website", "shipping_address", "sso", "risk", "created_at"] {
        assert!(company.get(key).is_some(), "a company has `{key}`: {company:#}");
    }
    assert_eq!(company["id"], installation.credentials.company_id.as_str());
    assert_eq!(company["sso"], Value::Null);
    assert!(company["shipping_address"]["url"].as_str().is_some_and(|url| url.starts_with("http")));
}

#[test]
fn sign_on_is_set_and_cleared_and_survives_kill_9() {
    let installation = Installation::init(60, 872);
    let token = installation.add_token("iam");
    let switch = installation.serve();
    let api = switch.api_with(&token);
    let before = api.get("/v1/company").expect(200);
    let body = json!({"sso": {"domain": "Example.COM", "idp_metadata": METADATA}});
    let mut expected = before.clone();
    expected["sso"] = json!({"domain": "example.com", "idp_metadata": METADATA});
    assert_eq!(api.put("/v1/company", &body).expect(200), expected);
    let same = api.put("/v1/company", &json!({"name": "Other", "id": 5})).expect(200);
    assert_eq!(same, expected, "what cannot be changed here is ignored");
    switch.kill9();

    let switch = installation.serve();
    assert_eq!(switch.api().get("/v1/company").expect(200)["sso"], expected["sso"]);
    let cleared = switch.api_with(&token).put("/v1/company", &json!({"sso": null})).expect(200);
    assert_eq!(cleared["sso"], Value::Null);
    switch.stop();
    installation.verify_ok();
    let switch = installation.serve();
    assert_eq!(switch.api().get("/v1/company").expect(200)["sso"], Value::Null);
}

#[test]
fn only_iam_changes_sign_on_and_iam_changes_nothing_else() {
    let installation = Installation::init(60, 873);
    let tokens = ["", "accountant", "admin", "scim", "accountant,admin,scim"]
        .map(|scopes| (scopes, installation.add_token(scopes)));
    let (iam, both) = (installation.add_token("iam"), installation.add_token("admin,iam"));
    let switch = installation.serve();
    let clear = json!({"sso": null});
    for (scopes, token) in &tokens {
        let detail = switch.api_with(token).put("/v1/company", &clear).expect_error(403);
        assert_eq!(detail["code"], "insufficient_scope", "{scopes}");
    }
    switch.anonymous().put("/v1/company", &clear).expect_error(401);
    for token in [&iam, &both] {
        switch.api_with(token).put("/v1/company", &clear).expect(200);
    }
    let card = json!({"description": "x", "is_virtual": true, "allowance": {"amount": 1}});
    switch.api_with(&iam).post("/v1/cards", &card).expect_error(403);
    switch.api_with(&both).post("/v1/cards", &card).expect(201);
    switch.api_with(&iam).get("/v1/cards").expect(200);
}

#[test]
fn sign_on_is_checked_field_by_field() {
    let installation = Installation::init(60, 874);
    let token = installation.add_token("iam");
    let switch = installation.serve();
    let api = switch.api_with(&token);
    let long = format!("<a>{}</a>", "x".repeat(128 * 1024));
    let rows = [
        (json!(5), vec!["sso"]),
        (json!({}), vec!["sso.domain", "sso.idp_metadata"]),
        (json!({"domain": null, "idp_metadata": null}), vec!["sso.domain", "sso.idp_metadata"]),
        (json!({"domain": "a b", "idp_metadata": "<a>"}), vec!["sso.domain", "sso.idp_metadata"]),
        (
            json!({"domain": "a.example", "idp_metadata": "<!DOCTYPE a><a/>"}),
            vec!["sso.idp_metadata"],
        ),
        (json!({"domain": "a.example", "idp_metadata": long}), vec!["sso.idp_metadata"]),
    ];
    for (sso, expected) in rows {
        let detail = api.put("/v1/company", &json!({"sso": sso})).expect_error(400);
        let errors = detail["errors"].as_array().expect("errors");
        let named: Vec<_> = errors.iter().filter_map(|error| error["param"].as_str()).collect();
        assert_eq!(named, expected);
    }
    assert_eq!(api.get("/v1/company").expect(200)["sso"], Value::Null);
}

#[test]
fn tokens_are_added_for_companies_that_are_there() {
    let installation = Installation::init(60, 875);
    let data = installation.data();
    let data = data.to_str().expect("a path in UTF-8");
    let nobody = "01890000-0000-7000-8000-000000000000";
    let add = |company: &str, scope: &str| {
        run_cardswitch(&["token", "add", "--data", data, "--company", company, "--scope", scope])
    };
    assert!(add(nobody, "iam").expect_one_line_error().contains(nobody));
    assert_eq!(add(&installation.credentials.company_id, "everything").code, Some(2));
    let printed = add(&installation.credentials.company_id, "iam");
    assert_eq!(printed.code, Some(0), "{printed:#?}");
}

/// A company was closed for abuse, and its token went on to invite people.
#[test]
fn a_closed_company_makes_nothing_and_is_read_and_wound_up() {
    let installation = Installation::init(60, 877);
    let data = installation.data();
    let data = data.to_str().expect("a path in UTF-8");
    let company = &installation.credentials.company_id;
    let switch = installation.serve();
    let api = switch.api();
    let made = json!({"description": "x", "is_virtual": true, "allowance": {"amount": 1}});
    let card = api.post("/v1/cards", &made).expect(201)["id"].clone();
    let card = format!("/v1/cards/{}", card.as_str().expect("an id"));
    let member = json!({"first_name": "A", "last_name": "B", "email": "a@b.example"});
    let path = api.post("/v1/members", &member).expect(201)["id"].clone();
    let path = format!("/v1/members/{}", path.as_str().expect("an id"));
    let set = ["company", "set", "--data", data, "--company", company];
    run_cardswitch(&[&set[..], &["--active", "false"]].concat()).expect_done();
    let endpoint = json!({"delivery_url": "https://hooks.example.com/x"});
    let other = json!({"first_name": "C", "last_name": "D", "email": "c@d.example"});
    for (what, body) in [("cards", &made), ("members", &other), ("webhook-endpoints", &endpoint)] {
        let detail = api.post(&format!("/v1/{what}"), body).expect_error(409);
        assert_eq!(detail["code"], "company_closed", "{what}: {detail}");
    }
    api.get("/v1/cards").expect(200);
    api.put(&path, &json!({"is_active": false})).expect(200);
    assert_eq!(api.delete(&card).status, 204);
    run_cardswitch(&[&set[..], &["--active", "true"]].concat()).expect_done();
    api.post("/v1/cards", &made).expect(201);
}

#[test]
fn velocity_limits_are_set_by_admin_alone_and_bind_from_then_on() {
    let installation = Installation::init(60, 876);
    let (iam, both) = (installation.add_token("iam"), installation.add_token("admin,iam"));
    let reader = installation.add_token("");
    let switch = installation.serve();
    let (admin, network) = (switch.api(), switch.network_api());
    let put =
        |risk: Value| admin.put("/v1/company", &json!({"risk": risk})).expect(200)["risk"].clone();
    let card = installation.cards.ordinary();
    let buy = || {
        let body = json!({"card_number": card.pan, "amount": 1, "merchant": {"mcc": 5411}});
        network.post("/network/v1/authorizations", &body).expect(200)["response_code"].clone()
    };
    let none = json!({"per_minute": null, "per_hour": null});
    assert_eq!(admin.get("/v1/company").expect(200)["risk"], none);
    assert_eq!(put(json!({"per_hour": 2})), json!({"per_minute": null, "per_hour": 2}));
    assert_eq!([buy(), buy(), buy()], [0, 0, 1701]);
    assert_eq!(put(json!({"per_minute": 9})), json!({"per_minute": 9, "per_hour": 2}));
    assert_eq!(put(json!({"per_hour": null})), json!({"per_minute": 9, "per_hour": null}));
    assert_eq!(buy(), 0);
    assert_eq!(put(Value::Null), none);

    let risk = json!({"risk": {"per_hour": 5}});
    for token in [&iam, &reader] {
        let detail = switch.api_with(token).put("/v1/company", &risk).expect_error(403);
        assert_eq!(detail["code"], "insufficient_scope");
    }
    let sso = json!({"sso": {"domain": "example.com", "idp_metadata": METADATA},
        "risk": {"per_hour": 5}});
    switch.api_with(&iam).put("/v1/company", &sso).expect_error(403);
    admin.put("/v1/company", &sso).expect_error(403);
    assert_eq!(admin.get("/v1/company").expect(200)["sso"], Value::Null, "nothing of it was done");
    let changed = switch.api_with(&both).put("/v1/company", &sso).expect(200);
    assert_eq!(
        (&changed["risk"]["per_hour"], &changed["sso"]["domain"]),
        (&json!(5), &json!("example.com"))
    );

    for (risk, param) in [
        (json!(5), "risk"),
        (json!({"per_minute": 0}), "risk.per_minute"),
        (json!({"per_minute": -1}), "risk.per_minute"),
        (json!({"per_hour": 1_001}), "risk.per_hour"),
        (json!({"per_minute": 1_001}), "risk.per_minute"),
        (json!({"per_hour": 1.5}), "risk.per_hour"),
        (json!({"per_hour": "5"}), "risk.per_hour"),
    ] {
        let detail = admin.put("/v1/company", &json!({"risk": risk})).expect_error(400);
        assert_eq!(detail["param"], param, "{risk}");
    }
    let path = "/v1/audit-events?action=company.updated&limit=1";
    let noted = admin.get(path).expect(200)["results"][0].clone();
    assert_eq!(noted["fields"], json!(["risk", "sso"]), "{noted:#}");
    switch.kill9();
    let switch = installation.serve();
    assert_eq!(switch.api().get("/v1/company").expect(200)["risk"]["per_hour"], 5);
}
