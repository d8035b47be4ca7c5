//! The site of a real switch: the administrator whom `init` makes signs in, and what the process
//! writes besides its answers (log, mail) gives nothing away. Everything finer is tested against
//! the router.

use std::fs;
use std::time::{Duration, Instant};

use cardswitch_harness::{Browser, HttpResponse, Installation, Switch, run_cardswitch_reading};

const NEW_PASSWORD: &str = "analytical engine no. 1";

fn browser(switch: &Switch) -> Browser {
    Browser::new(switch.http)
}

fn location(response: &HttpResponse) -> &str {
    response.header("location").unwrap_or_default()
}

/// Waits for a letter; none is ever so late that this ends without one.
fn letter(installation: &Installation, subject: &str) -> String {
    let asked = Instant::now();
    loop {
        let entries = fs::read_dir(installation.data().join("outbox")).expect("an outbox");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let letters = paths.filter(|path| path.extension().is_some_and(|kind| kind == "eml"));
        let mut texts = letters.map(|path| fs::read_to_string(path).expect("a letter is text"));
        if let Some(text) = texts.find(|text| text.contains(&format!("Subject: {subject}"))) {
            return text;
        }
        assert!(asked.elapsed() < Duration::from_secs(60), "no letter about `{subject}` came");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Once, nobody learned of it whose password an operator had set.
#[test]
fn the_user_learns_of_a_password_that_an_operator_sets() {
    let installation = Installation::init(1, 7);
    let _switch = installation.serve();
    let (data, email) = (installation.data(), &installation.credentials.admin_email);
    let at = ["--data", data.to_str().expect("UTF-8"), "--email", email];
    let set = [&["user", "add", "--password-stdin"][..], &at].concat();
    run_cardswitch_reading(&set, "a rather long passphrase\n").expect_done();
    assert!(letter(&installation, "Your password was set").contains(email));
}

#[test]
fn the_administrator_signs_in_and_out() {
    let installation = Installation::init(1, 1);
    let switch = installation.serve();
    let credentials = &installation.credentials;
    let mut browser = browser(&switch);
    assert_eq!(location(&browser.get("/")), "/login");
    let wrong = [("email", credentials.admin_email.as_str()), ("password", "wrong")];
    assert_eq!(browser.fill("/login", &wrong).status, 401);
    browser.sign_in(&credentials.admin_email, &credentials.admin_password);
    let page = browser.get("/account");
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"));
    assert!(page.text().contains(&credentials.admin_email));
    assert_eq!(location(&browser.get("/")), "/overview");

    // A session outlives the process, and no sign-out.
    switch.stop();
    let switch = installation.serve();
    let mut browser = browser.moved_to(switch.http);
    assert_eq!(browser.get("/account").status, 200);
    let replay = browser.clone();
    assert_eq!(browser.post("/logout", &[]).status, 303);
    assert_eq!(browser.cookie("session"), None);
    for mut signed_out in [browser, replay] {
        assert_eq!(location(&signed_out.get("/account")), "/login?next=%2Faccount");
    }
}

#[test]
fn a_forgotten_password_is_set_by_mail_and_the_key_is_in_no_log() {
    let installation = Installation::init(1, 2);
    let switch = installation.serve_with(&["--log", "json"]);
    let email = installation.credentials.admin_email.clone();
    let mut browser = browser(&switch);
    assert_eq!(browser.fill("/password/forgot", &[("email", &email)]).status, 200);
    let text = letter(&installation, "Set a new password");
    let (_, rest) = text.split_once("/password/set/").expect("a letter has its link");
    let key = rest.split_whitespace().next().expect("a key").to_owned();
    let path = format!("/password/set/{key}");
    let fields = [("password", NEW_PASSWORD), ("repeated", NEW_PASSWORD)];
    assert_eq!(browser.fill(&path, &fields).status, 303);
    assert_eq!(browser.get(&path).status, 404);
    browser.sign_in(&email, NEW_PASSWORD);
    letter(&installation, "Your password was set");
    let log = switch.log();
    assert!(!log.contains(&key) && !log.contains(NEW_PASSWORD), "{log}");
}

#[test]
fn where_a_session_was_begun_is_what_known_proxies_say() {
    let installation = Installation::init(1, 3);
    let credentials = &installation.credentials;
    let rows = [(&[][..], "127.0.0.1"), (&["--trusted-proxies", "127.0.0.0/8"], "198.51.100.1")];
    for (arguments, expected) in rows {
        let switch = installation.serve_with(arguments);
        let mut browser = browser(&switch);
        browser.get("/login");
        let forwarded = [("x-forwarded-for", "203.0.113.1, 198.51.100.1")];
        let fields = [
            ("email", credentials.admin_email.as_str()),
            ("password", credentials.admin_password.as_str()),
        ];
        assert_eq!(browser.post_with("/login", &fields, &forwarded).status, 303);
        let page = browser.get("/account").text();
        assert!(page.contains(&format!("{expected} · since")), "{page}");
        assert!(!page.contains("203.0.113.1"), "an address anybody may write");
    }
}
