//! Commands of operators on a running switch: the same words and the same output as at rest, and their
//! effect is there at once.

use std::fs;
use std::os::unix::fs::MetadataExt;

use cardswitch_harness::{Browser, CommandOutput, Installation, run_cardswitch_reading};
use serde_json::{Value, json};

const PASSWORD: &str = "a rather long passphrase";

/// Runs a command on the data directory of an installation.
#[track_caller]
fn run(installation: &Installation, arguments: &[&str]) -> CommandOutput {
    let data = installation.data();
    let (command, rest) = arguments.split_at(2);
    let data = ["--data", data.to_str().expect("a path")];
    run_cardswitch_reading(&[command, &data, rest].concat(), PASSWORD)
}

/// The output without the parts that differ from run to run: ids, secrets, times and addresses.
fn shape(text: &str) -> String {
    const RUN_LEN_MIN: usize = 12;
    let is_drawn = |letter: char| letter.is_ascii_hexdigit() || "-:.TZ".contains(letter);
    let mut shape = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|letter| !is_drawn(letter)).unwrap_or(rest.len());
        shape.push_str(if end < RUN_LEN_MIN { &rest[..end] } else { "#" });
        let mut after = rest[end..].chars();
        shape.extend(after.next());
        rest = after.as_str();
    }
    shape
}

/// Every command once, and some that are refused. Returns the shape of what each printed.
fn play(installation: &Installation) -> Vec<String> {
    let company = installation.credentials.company_id.as_str();
    let address = json!({"address_1": "5 Wall Street", "city": "New York", "state": "NY", "zip_code": "10005"});
    let address = address.to_string();
    let mut shapes = Vec::new();
    let mut told = |arguments: &[&str]| {
        let output = run(installation, arguments);
        shapes.push(format!(
            "{arguments:?} {:?} {} {}",
            output.code,
            shape(&output.stdout),
            shape(&output.stderr)
        ));
        output.stdout
    };
    for json in [&[][..], &["--json"]] {
        let last_id = |listed: &str| {
            let mut ids = listed.split(|letter: char| !letter.is_ascii_hexdigit() && letter != '-');
            ids.rfind(|id| id.len() == 36).expect("an id").to_owned()
        };
        let mut all = |arguments: &[&str]| told(&[arguments, json].concat());
        all(&["token", "add", "--company", company, "--scope", "admin,iam"]);
        let token = last_id(&all(&["token", "list", "--company", company]));
        all(&["company", "add", "--name", "Other", "--velocity-per-minute", "3"]);
        all(&["company", "set", "--company", company, "--credit-limit", "none"]);
        all(&["company", "set", "--company", company, "--hold-days", "10,7011=14"]);
        all(&["company", "set", "--company", company, "--hold-days", "10,hotels=14"]);
        all(&[
            "company",
            "set",
            "--company",
            company,
            "--name",
            "Renamed",
            "--billing-address",
            &address,
        ]);
        let named =
            ["user", "add", "--email", "g@example.com", "--first-name", "G", "--last-name", "H"];
        all(&[&named[..], &["--company", company, "--role", "accountant"]].concat());
        all(&[&named[..], &["--password-stdin"]].concat());
        all(&["user", "add", "--email", "nobody"]);
        all(&["user", "reset-second-factor", "--email", "g@example.com"]);
        all(&["user", "reset-second-factor", "--email", "nobody@example.com"]);
        all(&[
            "app",
            "add",
            "--company",
            company,
            "--name",
            "Books",
            "--scope",
            "accountant",
            "--token",
        ]);
        let app = last_id(&all(&["app", "list", "--company", company]));
        all(&["app", "approve", "--app", &app, "--scope", "accountant"]);
        all(&["app", "approve", "--app", &app, "--scope", "scim"]);
        all(&["token", "revoke", "--company", company, "--token", &token]);
        all(&["token", "revoke", "--company", company, "--token", &token]);
    }
    // Drawn values stand among the arguments, too.
    shapes.iter().map(|told| shape(told)).collect()
}

#[test]
fn commands_print_the_same_whether_the_switch_runs_or_not() {
    let (at_rest, running) = (Installation::init(3, 1_501), Installation::init(3, 1_501));
    let switch = running.serve();
    let (expected, found) = (play(&at_rest), play(&running));
    assert_eq!(found, expected);
    let socket = fs::metadata(running.data().join("control.sock")).expect("a socket");
    assert_eq!(socket.mode() & 0o777, 0o600);
    switch.stop();
    running.verify_ok();
}

#[test]
fn what_operators_change_on_a_running_switch_holds_at_once() {
    let installation = Installation::init(60, 1_502);
    let company = installation.credentials.company_id.as_str();
    let switch = installation.serve();
    let printed =
        |arguments: &[&str]| run(&installation, &[arguments, &["--json"]].concat()).expect_json();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();

    let added = printed(&["token", "add", "--company", company]);
    let token = text(&added["access_token"]);
    switch.api_with(&token).get("/v1/company").expect(200);
    let id = text(&added["token_id"]);
    printed(&["token", "revoke", "--company", company, "--token", &id]);
    switch.api_with(&token).get("/v1/company").expect_error(401);

    printed(&[
        "company",
        "set",
        "--company",
        company,
        "--name",
        "Renamed",
        "--velocity-per-minute",
        "2",
    ]);
    assert_eq!(switch.api().get("/v1/company").expect(200)["name"], "Renamed");
    let card = installation.cards.ordinary().card_id.clone();
    let buy = || {
        let purchase = json!({"card_id": card, "amount": 1, "merchant": {"mcc": 5411}});
        let answer = switch.network_api().post("/network/v1/authorizations", &purchase).expect(200);
        answer["response_code"].clone()
    };
    assert_eq!([buy(), buy(), buy()], [json!(0), json!(0), json!(1701)]);

    let named =
        ["user", "add", "--email", "ada@example.com", "--first-name", "A", "--last-name", "L"];
    let member = ["--company", company, "--role", "administrator", "--password-stdin"];
    assert_eq!(printed(&[&named[..], &member].concat())["password_link"], Value::Null);
    let mut browser = Browser::new(switch.http);
    browser.sign_in("ada@example.com", PASSWORD);
    printed(&["user", "reset-second-factor", "--email", "ada@example.com"]);
    assert_eq!(browser.get("/account").header("location"), Some("/login?next=%2Faccount"));
    let named =
        ["user", "add", "--email", "bob@example.com", "--first-name", "B", "--last-name", "C"];
    let link = text(&printed(&named)["password_link"]);
    assert!(link.starts_with(&format!("http://{}/password/set/", switch.http)), "{link}");

    let added = printed(&["app", "add", "--company", company, "--name", "Books", "--token"]);
    switch.api_with(&text(&added["access_token"])).get("/v1/company").expect(200);

    for action in [
        "access_token.created",
        "access_token.revoked",
        "company.updated",
        "user.created",
        "app.created",
    ] {
        let events = switch.api().get(&format!("/v1/audit-events?action={action}")).expect(200);
        assert_eq!(events["results"][0]["actor"]["kind"], "operator", "{action}: {events:#}");
    }
    let log = switch.log();
    assert!(!log.contains(&token) && !log.contains(PASSWORD), "secrets are not logged");
    switch.stop();
    installation.verify_ok();
}
