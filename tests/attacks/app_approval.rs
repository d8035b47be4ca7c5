//! An app is approved as one thing and turned into another: a plain member, named developer, renames
//! it, points it elsewhere and takes its secret, all of which an approval used to survive.

use cardswitch_harness::{
    Browser, HttpResponse, Installation, run_cardswitch, run_cardswitch_reading,
};
use serde_json::json;

const HONEST: &str = "https://books.example.com/callback";
const EVIL: &str = "https://evil.example.com/callback";
const DEVELOPER: &str = "eve@example.com";
const PASSWORD: &str = "correct horse battery";

/// The value of a hidden field of a page.
fn field(page: &HttpResponse, name: &str) -> String {
    let text = page.text();
    let (_, rest) = text.split_once(&format!("name=\"{name}\" value=\"")).expect("a hidden field");
    rest.split('"').next().expect("a value").to_owned()
}

#[test]
fn an_approved_app_is_what_was_approved_until_the_operator_says_otherwise() {
    let installation = Installation::init(1, 41);
    let credentials = installation.credentials.clone();
    let data = installation.data();
    let at = ["--data", data.to_str().expect("UTF-8"), "--json"];
    let of = ["--company", credentials.company_id.as_str()];
    let named = ["--name", "Honest Books", "--redirect-url", HONEST, "--scope", "admin"];
    let app = run_cardswitch(&[&["app", "add"], &at[..], &of, &named].concat()).expect_json();
    let id = app["client_id"].as_str().expect("an id");
    let who = ["--email", DEVELOPER, "--first-name", "Eve", "--last-name", "Byron"];
    let rights = ["--developer", "--password-stdin"];
    let added = [&["user", "add"], &at[..], &of, &who, &rights].concat();
    run_cardswitch_reading(&added, PASSWORD).expect_json();

    let switch = installation.serve();
    let mut developer = Browser::new(switch.http);
    developer.sign_in(DEVELOPER, PASSWORD);
    let path = format!("/apps/{id}");
    let seen = field(&developer.get(&path), "seen");
    let edited = [
        ("seen", seen.as_str()),
        ("name", "First Bank"),
        ("website", "https://bank.example.com"),
        ("redirect_urls", EVIL),
        ("scope", "admin"),
    ];
    assert_eq!(developer.post(&path, &edited).status, 303);
    assert!(developer.get(&path).text().contains("Your changes wait for the operator."));
    assert_eq!(developer.post(&format!("{path}/secret"), &[]).status, 403);

    let mut victim = Browser::new(switch.http);
    victim.sign_in(&credentials.admin_email, &credentials.admin_password);
    let ask = |back: &str| {
        format!(
            "/v1/oauth/authorize?response_type=code&scope=admin&client_id={id}&redirect_uri={back}"
        )
    };
    let page = victim.get(&ask(HONEST)).text();
    assert!(
        page.contains("Allow Honest Books to access your account?")
            && !page.contains("bank.example.com"),
        "{page}"
    );
    assert_eq!(victim.get(&ask(EVIL)).status, 400, "the code would go elsewhere");

    let listed = run_cardswitch(&[&["app", "list"], &at[..], &of].concat()).expect_json();
    let waiting = json!({"name": "First Bank", "website": "https://bank.example.com",
        "redirect_urls": [EVIL]});
    assert_eq!(listed["apps"][0]["revision"], waiting);
    assert_eq!(listed["apps"][0]["name"], "Honest Books");
    let approve = [&["app", "approve"], &at[..], &["--app", id]].concat();
    let refused = run_cardswitch_reading(&approve, "y\n").expect_one_line_error();
    assert!(refused.contains("nothing is approved"), "{refused}");
    let approved = run_cardswitch(&[&approve[..], &["--yes"]].concat()).expect_json();
    assert_eq!((&approved["name"], &approved["revision"]), (&json!("First Bank"), &json!(null)));

    assert!(victim.get(&ask(EVIL)).text().contains("Allow First Bank to access your account?"));
    assert_eq!(victim.get(&ask(HONEST)).status, 400);
    switch.stop();
    installation.verify_ok();
}
