//! Operators' commands on a data directory at rest: users, apps, tokens and companies.

use std::fs;

use cardswitch_harness::{
    Browser, HttpClient, Installation, Switch, run_cardswitch, run_cardswitch_reading,
};
use serde_json::{Value, json};

/// Runs a command on the data directory of an installation.
#[track_caller]
fn run(installation: &Installation, arguments: &[&str]) -> Value {
    run_cardswitch(&with_data(installation, arguments).each_ref_str()).expect_json()
}

/// Arguments that are owned for as long as they are passed on.
pub(crate) struct Arguments(Vec<String>);

impl Arguments {
    pub(crate) fn each_ref_str(&self) -> Vec<&str> {
        self.0.iter().map(String::as_str).collect()
    }
}

/// The two words of the command, the directory, and the rest.
pub(crate) fn with_data(installation: &Installation, arguments: &[&str]) -> Arguments {
    let data = installation.data().to_str().expect("a path").to_owned();
    let (command, rest) = arguments.split_at(2);
    let mut all: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
    all.extend(["--data".to_owned(), data, "--json".to_owned()]);
    all.extend(rest.iter().map(|word| (*word).to_owned()));
    Arguments(all)
}

#[track_caller]
fn refused(installation: &Installation, arguments: &[&str]) -> String {
    let output = run_cardswitch(&with_data(installation, arguments).each_ref_str());
    assert_ne!(output.code, Some(0), "{output:#?}");
    assert!(!output.stderr.contains("panicked"), "{output:#?}");
    output.stderr
}

#[test]
fn somebody_new_gets_a_role_and_a_link() {
    let installation = Installation::init(60, 1_301);
    let company = installation.credentials.company_id.as_str();
    let named = ["--first-name", "Grace", "--last-name", "Hopper", "--company", company];
    let mut arguments = vec!["user", "add", "--email", "grace@example.com", "--role", "accountant"];
    arguments.extend(named);
    let added = run(&installation, &arguments);
    // A second time: another role; there is no password yet, so there is another link.
    let again = [
        "user",
        "add",
        "--email",
        "GRACE@example.com",
        "--role",
        "administrator",
        "--company",
        company,
    ];
    let again = run(&installation, &again);
    assert_eq!(again["user_id"], added["user_id"]);

    let switch = installation.serve();
    let found = switch.api().get("/v1/members?email=grace%40example.com").expect(200);
    assert_eq!(found["results"][0]["role"], "administrator", "{found:#}");
    assert_eq!(found["count"], 1);
    for added in [added, again] {
        let link = added["password_link"].as_str().expect("a link");
        let key = link.split("/password/set/").nth(1).expect("a key");
        let page = switch.anonymous().get(&format!("/password/set/{key}"));
        assert_eq!(page.status, 200, "a fresh link: {link}");
    }
    let events = switch.api().get("/v1/audit-events?action=member.created").expect(200);
    assert_eq!(events["results"][0]["actor"]["kind"], "operator");
}

/// Once, the first network key was the only one for good, and no command showed the audit of keys.
#[test]
fn the_network_key_is_replaced_and_the_audit_of_the_switch_has_it() {
    let installation = Installation::init(1, 1_332);
    let opens = |switch: &Switch, key: &str| {
        let network = HttpClient::with_authorization(switch.http, &format!("Bearer {key}"));
        let card = &installation.cards.all()[0].card_id;
        network.get(&format!("/network/v1/cards/{card}")).status
    };
    let replaced = || {
        let printed = run(&installation, &["network-key", "replace"]);
        printed["network_key"].as_str().expect("a key").to_owned()
    };
    let sets = || {
        let listed = run(&installation, &["audit", "list"]);
        let events = listed["events"].as_array().expect("events").clone();
        let actors: Vec<_> = events
            .iter()
            .filter(|event| event["action"] == "network_key.set")
            .map(|event| event["actor"].as_str().expect("an actor").to_owned())
            .collect();
        actors
    };
    let first = installation.credentials.network_key.clone();
    let at_rest = replaced();
    assert_eq!(sets(), ["operator"; 2], "that of `init` and this one");
    let switch = installation.serve();
    assert_eq!([&first, &at_rest].map(|key| opens(&switch, key)), [401, 200]);
    let running = replaced();
    assert_eq!([&first, &at_rest, &running].map(|key| opens(&switch, key)), [401, 401, 200]);
    assert_eq!(sets(), ["operator"; 3]);
    run(&installation, &["rotate-pan-key", "--no-wait"]);
    let data = installation.data();
    let listed = run_cardswitch(&["audit", "list", "--data", data.to_str().expect("a path")]);
    let last = listed.stdout.lines().last().expect("a line");
    assert!(last.contains("  operator  pan_key.rotated"), "{listed:?}");
}

/// Once, the audit of the switch told neither of a copy of everything nor of another master key.
#[test]
fn the_audit_of_the_switch_has_what_is_done_with_files_while_it_runs() {
    let installation = Installation::init(1, 1_333);
    let data = installation.data();
    let at = ["--data", data.to_str().expect("a path")];
    let events = || {
        let listed = run_cardswitch(&[&["audit", "list", "--json"], &at[..]].concat());
        listed.expect_json()["events"].as_array().expect("events").clone()
    };
    let acts = |backup: &str| {
        let before = events().len();
        let to = installation.home().join(backup);
        let back_up = ["backup", "--to", to.to_str().expect("a path")];
        run_cardswitch(&[&back_up, &at[..]].concat()).expect_done();
        run_cardswitch(&[&["rotate-master-key"], &at[..]].concat()).expect_done();
        fs::remove_file(data.join("master.key.old")).expect("the key before");
        let text = |event: &Value, key: &str| event[key].as_str().expect("a text").to_owned();
        let made = events().split_off(before);
        made.iter().map(|event| ["actor", "action"].map(|key| text(event, key))).collect::<Vec<_>>()
    };
    assert!(acts("at_rest").is_empty(), "nobody writes to the journal");
    let switch = installation.serve();
    let expected = ["backup.made", "master_key.rotated"].map(|action| ["operator", action]);
    assert_eq!(acts("running"), expected);
    switch.kill9();
    installation.verify_ok();
}

#[test]
fn a_password_can_be_given_and_is_judged() {
    let installation = Installation::init(60, 1_302);
    let arguments = [
        "user",
        "add",
        "--email",
        "dev@example.com",
        "--first-name",
        "D",
        "--last-name",
        "V",
        "--password-stdin",
    ];
    let arguments = with_data(&installation, &arguments);
    for weak in ["", "short", "dev@example.com", "password1234"] {
        let output = run_cardswitch_reading(&arguments.each_ref_str(), weak);
        output.expect_one_line_error();
    }
    let good = run_cardswitch_reading(&arguments.each_ref_str(), "a rather long passphrase\n");
    assert_eq!(good.expect_json()["password_link"], Value::Null);
    assert!(!good.stdout.contains("passphrase") && !good.stderr.contains("passphrase"));
}

#[test]
fn mistakes_are_told() {
    let installation = Installation::init(60, 1_303);
    let nobody = "01890000-0000-7000-8000-000000000000";
    let rows: [&[&str]; 9] = [
        &["user", "add", "--email", "nobody"],
        &["user", "add", "--email", "a@example.com"],
        &["user", "add", "--email", "a@example.com", "--role", "administrator"],
        &["user", "add", "--email", "a@example.com", "--first-name", "A\nB", "--last-name", "C"],
        &[
            "user",
            "add",
            "--email",
            "a@example.com",
            "--first-name",
            "A",
            "--last-name",
            "C",
            "--company",
            nobody,
        ],
        &["app", "add", "--company", nobody, "--name", "Books"],
        &["app", "approve", "--app", nobody],
        &["token", "list", "--company", nobody],
        &["token", "revoke", "--company", &installation.credentials.company_id, "--token", nobody],
    ];
    for arguments in rows {
        refused(&installation, arguments);
    }
    let company = installation.credentials.company_id.as_str();
    for url in [
        "http://example.com/cb",
        "https://a@example.com/cb",
        "https://example.com/#x",
        "javascript:alert(1)",
    ] {
        let arguments =
            ["app", "add", "--company", company, "--name", "Books", "--redirect-url", url];
        assert!(refused(&installation, &arguments).contains("--redirect-url"), "{url}");
    }
    assert_eq!(run(&installation, &["app", "list", "--company", company])["apps"], json!([]));
    installation.verify_ok();
}

/// Once, they were taken in silence.
#[test]
fn no_company_has_an_empty_name() {
    let installation = Installation::init(1, 1_333);
    let company = installation.credentials.company_id.as_str();
    let new = installation.home().join("new");
    let init = ["init", "--data", new.to_str().expect("UTF-8"), "--name", ""];
    let set = with_data(&installation, &["company", "set", "--company", company, "--name", " "]);
    for arguments in [&init[..], &set.each_ref_str()] {
        let output = run_cardswitch(arguments);
        assert_eq!(output.code, Some(2), "{output:#?}");
        assert!(output.stderr.contains("--name"), "{output:#?}");
    }
    assert!(!new.exists());
}

#[test]
fn apps_are_registered_approved_and_listed() {
    let installation = Installation::init(60, 1_304);
    let company = installation.credentials.company_id.as_str();
    let url = "https://books.example.com/callback";
    let added = ["app", "add", "--company", company, "--name", "Books", "--redirect-url", url];
    let added = run(&installation, &added);
    let id = added["client_id"].as_str().expect("an id");
    let secret = added["client_secret"].as_str().expect("a secret");
    assert_eq!(secret.len(), 64);
    let listed = run(&installation, &["app", "list", "--company", company]);
    let app = &listed["apps"][0];
    assert_eq!((&app["client_id"], &app["redirect_urls"]), (&added["client_id"], &json!([url])));
    assert_eq!(app["approved"], json!([]));
    assert!(!listed.to_string().contains(secret));
    refused(&installation, &["app", "approve", "--app", id, "--scope", "admin"]);

    // An app that an operator registers is approved; its scopes can be narrowed and given back.
    let wide = ["app", "add", "--company", company, "--name", "Wide", "--scope", "admin,scim"];
    let wide = run(&installation, &wide);
    let id = wide["client_id"].as_str().expect("an id");
    let approved = |further: &[&str]| {
        run(&installation, &[&["app", "approve", "--app", id], further].concat())["approved"]
            .clone()
    };
    let listed = || run(&installation, &["app", "list", "--company", company])["apps"][1].clone();
    assert_eq!(listed()["approved"], json!(["admin", "scim"]));
    assert_eq!(approved(&["--scope", "scim"]), json!(["scim"]));
    assert_eq!(listed()["approved"], json!(["scim"]));
    refused(&installation, &["app", "approve", "--app", id, "--scope", "scim,iam"]);
    assert_eq!(approved(&[]), json!(["admin", "scim"]));
    assert_eq!(listed()["requested"], listed()["approved"]);
    installation.verify_ok();
}

#[test]
fn tokens_are_listed_and_revoked() {
    let installation = Installation::init(60, 1_305);
    let company = installation.credentials.company_id.as_str();
    let token = installation.add_token("accountant");
    let listed = run(&installation, &["token", "list", "--company", company]);
    let tokens = listed["tokens"].as_array().expect("tokens");
    assert_eq!(tokens.len(), 2);
    assert_eq!(
        (&tokens[0]["scope"], &tokens[1]["scope"]),
        (&json!(["admin"]), &json!(["accountant"]))
    );
    let id = tokens[1]["token_id"].as_str().expect("an id");
    run(&installation, &["token", "revoke", "--company", company, "--token", id]);
    let listed = run(&installation, &["token", "list", "--company", company]);
    assert_eq!(listed["tokens"].as_array().map(Vec::len), Some(1));
    let switch = installation.serve();
    switch.api_with(&token).get("/v1/company").expect_error(401);
    switch.api().get("/v1/company").expect(200);
}

#[test]
fn the_companys_billing_address_is_that_of_cards_without_their_own() {
    let installation = Installation::init(60, 1_306);
    let company = installation.credentials.company_id.as_str();
    let switch = installation.serve();
    let api = switch.api();
    let new = |address: Value| {
        let body = json!({
            "description": "Travel", "is_virtual": true, "allowance": {"amount": 500},
            "billing_address": address,
        });
        api.post("/v1/cards", &body).expect(201)["id"].clone()
    };
    let own = json!({"address_1": "2 Side Street", "city": "Chicago", "state": "IL", "zip_code": "60601"});
    let cards = [new(Value::Null), new(own)];
    switch.stop();
    let address = json!({"address_1": "5 Wall Street", "city": "New York", "state": "NY", "zip_code": "10005"});
    let address = address.to_string();
    let set = ["company", "set", "--company", company, "--billing-address", &address];
    run(
        &installation,
        &[&set[..], &["--funding-source", "First Bank", "--funding-verified", "true"]].concat(),
    );
    for wrong in ["{", "[]", "{}", r#"{"address_1": "x", "city": "y", "state": "z"}"#] {
        refused(
            &installation,
            &["company", "set", "--company", company, "--billing-address", wrong],
        );
    }
    installation.verify_ok();

    let switch = installation.serve();
    let code = |card: &Value, zip: &str| {
        let purchase = json!({"card_id": card, "amount": 1, "zip": zip, "merchant": {"mcc": 5411}});
        let answer = switch.network_api().post("/network/v1/authorizations", &purchase).expect(200);
        answer["response_code"].clone()
    };
    let codes = cards.each_ref().map(|card| ["94105", "10005", "60601"].map(|zip| code(card, zip)));
    assert_eq!(codes, [[json!(1304), json!(0), json!(1304)], [json!(1304), json!(1304), json!(0)]]);
    let shown = |card: &Value| {
        let path = format!("/v1/cards/{}", card.as_str().expect("an id"));
        switch.api().get(&path).expect(200)["billing_address"]["city"].clone()
    };
    assert_eq!(cards.each_ref().map(shown), [json!("New York"), json!("Chicago")]);
    let account = switch.api().get("/v1/accounts").expect(200)["results"][0].clone();
    assert_eq!(account["funding_source"]["name"], "First Bank", "{account:#}");
    assert_eq!(account["funding_source"]["is_verified"], true, "{account:#}");
}

/// Once, only `company set` had these options.
#[test]
fn a_new_company_has_what_it_is_made_with() {
    let address = json!({"address_1": "5 Wall Street", "city": "New York", "state": "NY", "zip_code": "10005"});
    let address = address.to_string();
    let options = ["--billing-address", &address, "--funding-source", "First Bank"];
    let installation = Installation::init_with(60, 1_320, &options);
    let pending = [&["company", "add", "--name", "Other", "--approved", "false"], &options[..]];
    let other =
        run(&installation, &[&pending.concat()[..], &["--funding-verified", "true"]].concat());
    refused(&installation, &["company", "add", "--name", "Third", "--billing-address", "{"]);
    let switch = installation.serve();
    let token = other["access_token"].as_str().expect("a token");
    let apis = [(switch.api(), false, 0), (switch.api_with(token), true, 1000)];
    for (api, is_verified, code) in apis {
        let account = api.get("/v1/accounts").expect(200)["results"][0].clone();
        let expected = json!({"name": "First Bank", "is_verified": is_verified});
        assert_eq!(account["funding_source"], expected, "{account:#}");
        let new =
            json!({"description": "Travel", "is_virtual": true, "allowance": {"amount": 500}});
        let card = api.post("/v1/cards", &new).expect(201);
        assert_eq!(card["billing_address"]["zip_code"], "10005", "{card:#}");
        let purchase =
            json!({"card_id": card["id"], "amount": 1, "zip": "10005", "merchant": {"mcc": 5411}});
        let told = switch.network_api().post("/network/v1/authorizations", &purchase).expect(200);
        assert_eq!(told["response_code"], code, "{told:#}");
    }
    let test_card = installation.cards.ordinary();
    assert_eq!(test_card.zip, "10005");
}

#[test]
fn a_company_that_is_not_approved_spends_nothing() {
    let installation = Installation::init(60, 1_307);
    let company = installation.credentials.company_id.as_str();
    let card = installation.cards.ordinary().card_id.clone();
    for (approved, code) in [("false", 1000), ("true", 0)] {
        run(&installation, &["company", "set", "--company", company, "--approved", approved]);
        let switch = installation.serve();
        let purchase = json!({"card_id": card, "amount": 1, "merchant": {"mcc": 5411}});
        let answer = switch.network_api().post("/network/v1/authorizations", &purchase).expect(200);
        assert_eq!(answer["response_code"], code, "{approved}: {answer:#}");
        switch.stop();
    }
}

/// Nobody could help a user who lost a phone and forgot an answer.
#[test]
fn an_operator_takes_away_second_factors_and_ends_sessions() {
    let installation = Installation::init(60, 1_308);
    let credentials = &installation.credentials;
    let (email, password) = (credentials.admin_email.as_str(), credentials.admin_password.as_str());
    let switch = installation.serve();
    let mut browser = Browser::new(switch.http);
    browser.sign_in(email, password);
    let question = [
        ("action", "set"),
        ("question", "First pet?"),
        ("answer", "Rex the dog"),
        ("password", password),
    ];
    assert_eq!(browser.fill("/account/question", &question).status, 303);
    let in_two_steps = Browser::new(switch.http)
        .fill("/login", &[("email", email), ("password", password)])
        .header("location")
        .map(str::to_owned);
    assert_eq!(in_two_steps.as_deref(), Some("/login/second-factor"));
    switch.stop();

    refused(&installation, &["user", "reset-second-factor", "--email", "nobody@example.com"]);
    let reset = run(&installation, &["user", "reset-second-factor", "--email", email]);
    assert_eq!(reset["email"], email);
    let switch = installation.serve();
    let mut browser = browser.moved_to(switch.http);
    assert_eq!(browser.get("/account").header("location"), Some("/login?next=%2Faccount"));
    Browser::new(switch.http).sign_in(email, password);
    let events = switch.api().get("/v1/audit-events?action=user.updated").expect(200);
    let event = &events["results"][0];
    assert_eq!(event["actor"]["kind"], "operator", "{event:#}");
    assert_eq!(event["fields"], json!(["totp", "security_question"]), "{event:#}");
    switch.stop();
    installation.verify_ok();
}

#[test]
fn an_app_gets_a_token_of_its_own_company_unless_that_does_no_business() {
    let installation = Installation::init(60, 1_309);
    let company = installation.credentials.company_id.as_str();
    let add = ["app", "add", "--company", company, "--name", "Books", "--scope", "accountant"];
    let add = [&add[..], &["--token"]].concat();
    let set = |option: &str, value: &str| {
        run(&installation, &["company", "set", "--company", company, option, value]);
    };
    for option in ["--approved", "--active"] {
        set(option, "false");
        assert!(refused(&installation, &add).contains("no app can be let in"));
        set(option, "true");
    }
    assert_eq!(run(&installation, &["app", "list", "--company", company])["apps"], json!([]));

    let added = run(&installation, &add);
    let token = added["access_token"].as_str().expect("a token");
    assert!(added["client_secret"].is_string());
    let listed = run(&installation, &["token", "list", "--company", company]);
    let granted = &listed["tokens"][1];
    assert_eq!((&granted["scope"], &granted["label"]), (&json!(["accountant"]), &json!("Books")));
    let switch = installation.serve();
    switch.api_with(token).get("/v1/company").expect(200);
    let shown = switch.api().get("/v1/access-tokens").expect(200)["results"][0].clone();
    assert_eq!(shown["app"]["id"], added["client_id"], "{shown:#}");
    assert_eq!(shown["origin"], "own_company", "{shown:#}");
    switch.stop();
    installation.verify_ok();
}

#[test]
fn developers_are_named_for_a_company() {
    let installation = Installation::init(60, 1_310);
    let company = installation.credentials.company_id.as_str();
    let named = ["user", "add", "--email", "dev@example.com", "--first-name", "D"];
    let named = [&named[..], &["--last-name", "V", "--developer"]].concat();
    refused(&installation, &named);
    let password = "a rather long passphrase";
    let all = [&named[..], &["--company", company, "--password-stdin"]].concat();
    let all = with_data(&installation, &all);
    run_cardswitch_reading(&all.each_ref_str(), password).expect_json();
    let other = ["company", "add", "--name", "Other"];
    let other = run(&installation, &other)["company_id"].as_str().expect("an id").to_owned();
    run(&installation, &["user", "add", "--email", "dev@example.com", "--company", &other]);

    let switch = installation.serve();
    let mut browser = Browser::new(switch.http);
    browser.sign_in("dev@example.com", password);
    for (company, status) in [(company, 200), (&other, 403)] {
        browser.get("/account");
        assert_eq!(browser.post("/company", &[("company", company)]).status, 303);
        assert_eq!(browser.get("/apps").status, status, "{company}");
    }
    let withdrawn = ["user", "add", "--email", "dev@example.com", "--company", company];
    run(&installation, &[&withdrawn[..], &["--developer=false"]].concat());
    browser.get("/account");
    assert_eq!(browser.post("/company", &[("company", company)]).status, 303);
    assert_eq!(browser.get("/apps").status, 403, "withdrawn");
}

#[test]
fn what_operators_do_is_in_the_audit_as_theirs() {
    let installation = Installation::init(60, 1_311);
    let company = installation.credentials.company_id.as_str();
    let address = json!({"address_1": "5 Wall Street", "city": "New York", "state": "NY", "zip_code": "10005"});
    let address = address.to_string();
    run(&installation, &["company", "set", "--company", company, "--billing-address", &address]);
    let switch = installation.serve();
    let events = |action: &str| {
        let path = format!("/v1/audit-events?action={action}&limit=1000");
        switch.api().get(&path).expect(200)["results"].as_array().expect("events").clone()
    };
    for action in
        ["company.created", "member.created", "user.created", "card.created", "card.updated"]
    {
        let noted = events(action);
        assert!(!noted.is_empty(), "{action}");
        assert!(noted.iter().all(|event| event["actor"]["kind"] == "operator"), "{action}");
    }
}
