//! Texts with characters that steer terminals, pages, files and mail, through every way in that is not
//! described by a published document: ISO 8583, SCIM, the forms of the site, names of files, the command
//! line. (What the documents describe is tested from them, beside the code.) Each is refused, or leaves
//! nothing but spaces.

use std::collections::BTreeSet;

use cardswitch_harness::{
    Browser, HttpClient, HttpRequest, Installation, Message, Purchase, Switch, run_cardswitch,
};
use serde_json::{Value, json};

/// One of each kind: C0, DEL, C1, separators, overrides.
const STEERING: [char; 8] =
    ['\0', '\u{8}', '\u{1b}', '\u{7f}', '\u{85}', '\u{2028}', '\u{202e}', '\u{2066}'];
/// Pages that a crawl looks at, at most.
const PAGES_MAX: usize = 150;

/// Whether a text has what no answer may have; ends of lines lay out answers.
fn steers(text: &str) -> bool {
    text.contains(|letter: char| {
        (letter.is_control() && !['\n', '\t'].contains(&letter))
            || ('\u{202a}'..='\u{202e}').contains(&letter)
            || ('\u{2066}'..='\u{2069}').contains(&letter)
            || ['\u{2028}', '\u{2029}'].contains(&letter)
    })
}

/// The same of JSON, whose texts may hide them behind escapes.
fn value_steers(value: &Value) -> bool {
    match value {
        Value::String(text) => steers(text),
        Value::Array(values) => values.iter().any(value_steers),
        Value::Object(fields) => {
            fields.iter().any(|(key, value)| steers(key) || value_steers(value))
        }
        _ => false,
    }
}

/// Asserts that no list of the API shows such a text.
#[track_caller]
fn assert_clean(api: &HttpClient) {
    let lists = [
        "transactions",
        "cards",
        "members",
        "labels",
        "requisitions",
        "shared-links",
        "audit-events",
    ];
    for list in lists {
        let shown = api.get(&format!("/v1/{list}?limit=1000")).expect(200);
        assert!(!value_steers(&shown), "{list}: {shown:#}");
    }
    let company = api.get("/v1/company").expect(200);
    assert!(!value_steers(&company), "{company:#}");
}

/// DE43 with this byte within the merchant's name.
fn location(byte: u8) -> [u8; 40] {
    let mut content = *b"BAD NAME              SAN FRANCISCOCA US";
    content[3] = byte;
    content
}

#[test]
fn iso8583_requests_are_refused_and_what_has_happened_keeps_its_money() {
    let installation = Installation::init(60, 1_901);
    let switch = installation.serve_logging("warn", &[]);
    let card = installation.cards.ordinary();
    let mut acquirer = switch.acquirer();
    let bytes = [0, 0x0a, 0x0d, 0x1b, 0x7f, 0x85, 0xe9, 0xff];
    for byte in bytes {
        let told = |message: Message| {
            let mut message = message;
            message.set_bytes(43, &location(byte));
            message
        };
        let request = Purchase::of(card, 100).request();
        assert_eq!(acquirer.ask(&told(request)).response(), "30", "0100, {byte:#x}");

        let purchase = Purchase::of(card, 100);
        let id = acquirer.ask(&purchase.request()).expect_approved();
        let presentment = told(purchase.presentment(&id, 100));
        assert_eq!(acquirer.ask(&presentment).response(), "00", "0220, {byte:#x}");
        assert_eq!(acquirer.ask(&presentment).response(), "00", "its repeat, {byte:#x}");

        let purchase = Purchase::of(card, 200);
        let id = acquirer.ask(&purchase.request()).expect_approved();
        let reversal = told(purchase.reversal(&id));
        assert_eq!(acquirer.ask(&reversal).response(), "00", "0400, {byte:#x}");

        let mut advice = Purchase::of(card, 300).request();
        advice.mti = "0120".to_owned();
        assert_eq!(acquirer.ask(&told(advice)).response(), "00", "0120, {byte:#x}");
    }
    let api = switch.api();
    let path = format!("/v1/transactions?limit=1000&card={}", card.card_id);
    let listed = api.get(&path).expect(200);
    let listed = listed["results"].as_array().expect("a list");
    let named = |amount: f64| {
        let of = |row: &&Value| row["amount"] == amount && row["merchant"]["name"] == "BAD NAME";
        listed.iter().filter(of).count()
    };
    assert_eq!(named(-3.0), bytes.len(), "each advice holds its money: {listed:#?}");
    let account = &installation.credentials.account_id;
    let lines = api.get(&format!("/v1/accounts/{account}/statement-lines?limit=1000")).expect(200);
    let posted = lines["results"].as_array().expect("a list").iter();
    let posted = posted.filter(|line| line["amount"] == -1.0).count();
    assert_eq!(posted, bytes.len(), "each presentment posts once: {lines:#}");
    assert_clean(&api);
    assert!(switch.log().contains("became spaces"), "{}", switch.log());
}

#[test]
fn nothing_that_a_directory_of_identities_may_write_steers() {
    let installation = Installation::init(1, 1_902);
    let token = installation.add_token("scim");
    let switch = installation.serve();
    let scim = switch.api_with(&token);
    let mut sent = 0;
    let good = |number: u32| {
        json!({
            "schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"],
            "userName": format!("user{number}@example.com"),
            "name": {"givenName": "Grace", "familyName": "Hopper"},
        })
    };
    let known = scim.post("/scim/v2/Users", &good(0)).expect(201);
    let known = format!("/scim/v2/Users/{}", known["id"].as_str().expect("an id"));
    for path in writable_texts(&scim.get("/scim/v2/Schemas").expect(200)) {
        for letter in STEERING {
            sent += 1;
            let mut body = good(sent);
            let place = path.iter().fold(&mut body, |inner, key| {
                if !inner[key].is_object() && !inner[key].is_string() {
                    inner[key] = json!({});
                }
                &mut inner[key]
            });
            *place = json!(format!("a{letter}b"));
            let name = path.join(".");
            let value = &json!(format!("a{letter}b"));
            let change = json!({
                "schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
                "Operations": [{"op": "replace", "path": name.replace("2.0:User.", "2.0:User:"), "value": value}],
            });
            let mut replacement = body.clone();
            if name != "userName" {
                replacement["userName"] = json!("user0@example.com");
            }
            for answer in [
                scim.post("/scim/v2/Users", &body),
                scim.put(&known, &replacement),
                scim.patch(&known, &change),
            ] {
                let is_refused = answer.status == 400;
                let is_clean = answer.status < 300 && !value_steers(&answer.json());
                assert!(is_refused || is_clean, "{name}: {} {}", answer.status, answer.text());
            }
        }
    }
    assert!(
        usize::try_from(sent).is_ok_and(|sent| sent >= 5 * STEERING.len()),
        "{sent} texts were sent"
    );
    assert!(!value_steers(&scim.get("/scim/v2/Users?count=1000").expect(200)));
    assert_clean(&switch.api());
}

/// The keys that lead to each text that the schemas let a client write.
fn writable_texts(schemas: &Value) -> Vec<Vec<String>> {
    let name = |value: &Value| value.as_str().expect("a name").to_owned();
    let is_text = |attribute: &Value| {
        attribute["type"] == "string"
            && attribute["mutability"] != "readOnly"
            && attribute["multiValued"] != true
    };
    let mut texts = Vec::new();
    for schema in schemas["Resources"].as_array().expect("schemas") {
        let id = name(&schema["id"]);
        if !id.ends_with(":User") {
            continue;
        }
        let above = if id.contains(":extension:") { vec![id] } else { Vec::new() };
        for attribute in schema["attributes"].as_array().expect("attributes") {
            let path = [above.clone(), vec![name(&attribute["name"])]].concat();
            if is_text(attribute) {
                texts.push(path.clone());
            }
            if attribute["multiValued"] != true {
                let within = attribute["subAttributes"].as_array().into_iter().flatten();
                let within = within.filter(|within| is_text(within));
                texts.extend(
                    within.map(|within| [path.clone(), vec![name(&within["name"])]].concat()),
                );
            }
        }
    }
    texts
}

/// A form of a page, with what its fields hold.
#[derive(Debug)]
struct Form {
    action: String,
    /// Name and value; whether a person types into it.
    fields: Vec<(String, String, bool)>,
}

#[test]
fn no_form_of_the_site_takes_a_text_that_steers() {
    let installation = Installation::init(3, 1_903);
    let switch = installation.serve();
    let card = installation.cards.all()[0].card_id.clone();
    let bought = json!({"card_id": card, "amount": 1, "merchant": {"name": "Diner"}});
    switch.network_api().post("/network/v1/authorizations", &bought).expect(200);
    let api = switch.api();
    api.post("/v1/labels", &json!({"name": "Travel"})).expect(201);
    let mut browser = Browser::new(switch.http);
    let credentials = &installation.credentials;
    browser.sign_in(&credentials.admin_email, &credentials.admin_password);

    let mut tried = BTreeSet::new();
    for path in crawl(&mut browser) {
        let page = browser.get(&path).text();
        for form in forms_of(&page, &path) {
            for (at, (name, _, _)) in form.fields.iter().enumerate().filter(|(_, field)| field.2) {
                if !tried.insert((shape(&form.action), name.clone())) {
                    continue;
                }
                for letter in STEERING {
                    let hostile = format!("a{letter}b");
                    let value_of = |(place, field): (usize, &(String, String, bool))| {
                        (
                            field.0.clone(),
                            if place == at { hostile.clone() } else { field.1.clone() },
                        )
                    };
                    let fields: Vec<_> = form.fields.iter().enumerate().map(value_of).collect();
                    let fields: Vec<_> = fields
                        .iter()
                        .map(|(name, value)| (name.as_str(), value.as_str()))
                        .collect();
                    let answer = browser.post(&form.action, &fields);
                    assert!(answer.status < 500, "{} {name}: {}", form.action, answer.text());
                }
            }
        }
    }
    assert!(tried.len() >= 12, "few texts were tried: {tried:?}");
    for path in crawl(&mut browser) {
        let page = browser.get(&path).text();
        assert!(
            !steers(&page),
            "{path} shows {:?}",
            page.matches(steers_letter).collect::<Vec<_>>()
        );
    }
    assert_clean(&api);
}

fn steers_letter(letter: char) -> bool {
    steers(&letter.to_string())
}

/// A path without the ids in it: the same page of another object is the same page.
fn shape(path: &str) -> String {
    let path = path.split('?').next().unwrap_or_default();
    let part = |part: &str| if part.len() == 36 { "{id}".to_owned() } else { part.to_owned() };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

/// The pages of somebody who is signed in, one of each shape, but the documentation, which asks for nothing.
fn crawl(browser: &mut Browser) -> Vec<String> {
    let (mut pages, mut waiting) = (Vec::new(), vec!["/overview".to_owned()]);
    let mut shapes = BTreeSet::new();
    while let Some(path) = waiting.pop() {
        if pages.len() >= PAGES_MAX || !shapes.insert(shape(&path)) {
            continue;
        }
        let answer = browser.get(&path);
        let is_page =
            answer.header("content-type").is_some_and(|kind| kind.starts_with("text/html"));
        if answer.status != 200 || !is_page {
            continue;
        }
        let page = answer.text();
        let links = page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
        let own = links.filter(|link| link.starts_with('/') && !link.starts_with("//"));
        let own = own.filter(|link| !link.starts_with("/docs"));
        waiting.extend(own.map(|link| link.replace("&amp;", "&")));
        pages.push(path);
    }
    assert!(pages.len() >= 12, "a small site: {pages:?}");
    pages
}

/// The forms of a page that people type texts into, but those that ask for a password or end things.
fn forms_of(page: &str, path: &str) -> Vec<Form> {
    let mut forms = Vec::new();
    for rest in page.split("<form").skip(1) {
        let (form, _) = rest.split_once("</form>").expect("a form ends");
        let (head, body) = form.split_once('>').expect("a tag ends");
        let is_own = attribute(head, "method").is_some_and(|method| method == "post")
            && attribute(head, "enctype").is_none()
            && !body.contains("type=\"password\"");
        let action = attribute(head, "action").unwrap_or_else(|| path.to_owned());
        if !is_own || action.contains("logout") {
            continue;
        }
        let mut fields = Vec::new();
        for (tag, is_area) in [("<input", false), ("<textarea", true), ("<select", false)] {
            for rest in body.split(tag).skip(1) {
                let head = rest.split('>').next().unwrap_or_default();
                let Some(name) = attribute(head, "name").filter(|name| name != "csrf") else {
                    continue;
                };
                let kind = attribute(head, "type").unwrap_or_else(|| "text".to_owned());
                if ["submit", "file"].contains(&kind.as_str()) {
                    continue;
                }
                let is_off =
                    ["checkbox", "radio"].contains(&kind.as_str()) && !head.contains("checked");
                if is_off {
                    continue;
                }
                let chosen = rest
                    .split("selected")
                    .next()
                    .and_then(|before| before.rsplit("value=\"").next());
                let value = match tag {
                    "<select" => {
                        chosen.and_then(|value| value.split('"').next()).map(str::to_owned)
                    }
                    _ => attribute(head, "value"),
                };
                let is_typed = is_area
                    || (tag == "<input"
                        && ["text", "search", "url", "email"].contains(&kind.as_str()));
                fields.push((name, value.unwrap_or_default(), is_typed));
            }
        }
        forms.push(Form { action, fields });
    }
    forms
}

fn attribute(head: &str, name: &str) -> Option<String> {
    let (_, rest) = head.split_once(&format!(" {name}=\""))?;
    Some(rest.split('"').next()?.replace("&amp;", "&"))
}

#[test]
fn names_of_receipts_are_refused_in_each_form() {
    let installation = Installation::init(60, 1_904);
    let switch = installation.serve();
    let api = switch.api();
    let receipt = format!("{}/receipt", newest_purchase(&installation, &switch));
    let png: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01";
    for (name, encoded) in [("\u{202e}gnp.exe", "%E2%80%AEgnp.exe"), ("a\u{1b}b.png", "a%1Bb.png")]
    {
        let form = format!(
            "--x\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n"
        );
        let form = [form.as_bytes(), png, b"\r\n--x--\r\n"].concat();
        let disposition = format!("attachment; filename*=UTF-8''{encoded}");
        type Fields<'a> = &'a [(&'a str, &'a str)];
        let rows: [(Fields<'_>, &[u8]); 2] = [
            (&[("content-type", "multipart/form-data; boundary=x")], &form),
            (&[("content-type", "image/png"), ("content-disposition", &disposition)], png),
        ];
        for (headers, body) in rows {
            let request = HttpRequest { method: "POST", path: &receipt, headers, body };
            let refused = api.send(&request);
            assert_eq!(refused.status, 400, "{name:?} {headers:?}: {}", refused.text());
        }
    }
    api.get(&receipt).expect_error(404);
}

/// The path of a transaction.
fn newest_purchase(installation: &Installation, switch: &Switch) -> String {
    let purchase = Purchase::of(installation.cards.ordinary(), 100);
    switch.acquirer().ask(&purchase.request()).expect_approved();
    let listed = switch.api().get("/v1/transactions?limit=1").expect(200);
    format!("/v1/transactions/{}", listed["results"][0]["id"].as_str().expect("an id"))
}

#[test]
fn no_flag_of_a_command_takes_a_text_that_steers() {
    let installation = Installation::init(1, 1_905);
    let data = installation.data();
    let data = data.to_str().expect("a path is text");
    let company = installation.credentials.company_id.as_str();
    let of = ["--data", data, "--company", company];
    for letter in STEERING.into_iter().filter(|letter| *letter != '\0') {
        let hostile = format!("a{letter}b");
        let hostile = hostile.as_str();
        let address = json!({"address_1": hostile, "city": "B", "state": "CA", "zip_code": "1"});
        let address = address.to_string();
        let fresh = installation.home().join("fresh");
        let fresh = fresh.to_str().expect("a path is text");
        let user = ["--email", "x@example.com", "--password-stdin", "--role", "member"];
        let rows: [(&[&str], &[&str]); 11] = [
            (&["company", "set"], &["--name", hostile]),
            (&["company", "set"], &["--website", hostile]),
            (&["company", "set"], &["--funding-source", hostile]),
            (&["company", "set"], &["--billing-address", &address]),
            (&["app", "add"], &["--name", hostile]),
            (&["app", "add"], &["--name", "A", "--website", hostile]),
            (&["app", "add"], &["--name", "A", "--redirect-url", hostile]),
            (&["user", "add"], &["--first-name", hostile, "--last-name", "B"]),
            (&["user", "add"], &["--first-name", "A", "--last-name", hostile]),
            (&["user", "add"], &["--first-name", "A", "--last-name", "B", "--email", hostile]),
            (&["token", "add"], &["--scope", hostile]),
        ];
        for (command, flags) in rows {
            let is_user = command[0] == "user";
            let user: &[&str] = if !is_user {
                &[]
            } else if flags.contains(&"--email") {
                &user[2..]
            } else {
                &user
            };
            let ran = run_cardswitch(&[command, &of, flags, user].concat());
            assert_eq!(ran.code, Some(2), "{command:?} {flags:?}: {}", ran.stderr);
        }
        for (command, at) in [("init", fresh), ("company", data)] {
            for flag in ["--name", "--website"] {
                let add: &[&str] =
                    if command == "company" { &["company", "add"] } else { &["init"] };
                let ran = run_cardswitch(&[add, &["--data", at, flag, hostile]].concat());
                assert_eq!(ran.code, Some(2), "{command} {flag}: {}", ran.stderr);
            }
        }
        assert!(!std::path::Path::new(fresh).exists(), "nothing was installed");
    }
    let switch = installation.serve();
    assert_clean(&switch.api());
}
