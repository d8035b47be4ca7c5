//! Apps at a real switch: tokens outlive it, what waits for an answer does not; guessing from one
//! address is refused; and nothing of it all is in the log. Everything finer is tested against the
//! router, and with a client of others in `tests/outside`.

use std::fs;

use cardswitch_harness::{
    Browser, HttpClient, HttpRequest, HttpResponse, Installation, Switch, run_cardswitch,
};
use serde_json::Value;

const REDIRECT: &str = "https://books.example.com/callback";
const TOKEN: &str = "/v1/oauth/token";

/// An app, registered on the command line.
struct App {
    id: String,
    secret: String,
}

impl App {
    fn add(installation: &Installation, scope: &str) -> Self {
        let (data, company) = (installation.data(), &installation.credentials.company_id);
        let data = data.to_str().expect("temporary paths are UTF-8");
        let mut arguments = vec!["app", "add", "--data", data, "--company", company, "--json"];
        arguments.extend(["--name", "Books", "--redirect-url", REDIRECT]);
        if !scope.is_empty() {
            arguments.extend(["--scope", scope]);
        }
        let printed = run_cardswitch(&arguments).expect_json();
        let text = |key: &str| printed[key].as_str().expect("app add prints it").to_owned();
        Self { id: text("client_id"), secret: text("client_secret") }
    }

    fn post(&self, switch: &Switch, path: &str, fields: &[(&str, &str)]) -> HttpResponse {
        let own = [("client_id", self.id.as_str()), ("client_secret", self.secret.as_str())];
        let all = own.iter().chain(fields);
        let body = all.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&");
        let headers = &[("content-type", "application/x-www-form-urlencoded")];
        let request = HttpRequest { method: "POST", path, headers, body: body.as_bytes() };
        HttpClient::anonymous(switch.http).send(&request)
    }

    fn exchange(&self, switch: &Switch, code: &str) -> HttpResponse {
        self.post(switch, TOKEN, &[("grant_type", "authorization_code"), ("code", code)])
    }

    fn sign_in(&self, switch: &Switch, email: &str, password: &str) -> HttpResponse {
        let fields = [("grant_type", "password"), ("username", email), ("password", password)];
        self.post(switch, TOKEN, &fields)
    }

    /// A code, allowed by the administrator on the page.
    fn code(&self, installation: &Installation, switch: &Switch, scope: &str) -> String {
        let mut browser = Browser::new(switch.http);
        let credentials = &installation.credentials;
        browser.sign_in(&credentials.admin_email, &credentials.admin_password);
        let path = format!(
            "/v1/oauth/authorize?response_type=code&client_id={}&scope={scope}&state=s",
            self.id
        );
        let company = credentials.company_id.as_str();
        let answer = browser.fill(&path, &[("company", company), ("decision", "allow")]);
        let page = answer.text();
        let address = answer.header("location").unwrap_or(&page);
        let (_, rest) = address.split_once("code=").expect("the answer has a code");
        rest.chars().take_while(char::is_ascii_hexdigit).collect()
    }
}

fn is_open(switch: &Switch, token: &str) -> bool {
    let client = HttpClient::with_authorization(switch.http, &format!("Bearer {token}"));
    client.get("/v1/company").status == 200
}

fn token_of(answer: &HttpResponse) -> String {
    let body: Value = serde_json::from_str(&answer.text()).expect("an answer is JSON");
    body["access_token"].as_str().expect("a token").to_owned()
}

fn error_of(answer: &HttpResponse) -> (u16, String) {
    let body: Value = serde_json::from_str(&answer.text()).expect("an answer is JSON");
    (answer.status, body["error"].as_str().expect("an error").to_owned())
}

#[test]
fn tokens_codes_and_their_end_outlive_the_process() {
    let installation = Installation::init(60, 971);
    let app = App::add(&installation, "admin");
    let switch = installation.serve();
    let used = app.code(&installation, &switch, "admin");
    let waiting = app.code(&installation, &switch, "");
    let token = token_of(&app.exchange(&switch, &used));
    let revoked = token_of(&app.exchange(&switch, &app.code(&installation, &switch, "")));
    let told = app.post(&switch, "/v1/oauth/token/revoke", &[("access_token", &revoked)]);
    assert_eq!((told.status, told.text().as_str()), (200, "{}"));
    switch.kill9();

    let switch = installation.serve();
    assert!(is_open(&switch, &token) && !is_open(&switch, &revoked));
    let late = token_of(&app.exchange(&switch, &waiting));
    assert!(is_open(&switch, &late));
    assert_eq!(error_of(&app.exchange(&switch, &used)), (400, "invalid_grant".to_owned()));
    assert!(!is_open(&switch, &token), "a second use takes the token back");
    switch.stop();
    installation.verify_ok();
}

#[test]
fn nothing_secret_is_in_the_log() {
    let installation = Installation::init(60, 972);
    let app = App::add(&installation, "");
    let switch = installation.serve_with(&["--log", "json"]);
    let credentials = installation.credentials.clone();
    let code = app.code(&installation, &switch, "");
    let tokens = [
        token_of(&app.exchange(&switch, &code)),
        token_of(&app.sign_in(&switch, &credentials.admin_email, &credentials.admin_password)),
    ];
    let wrong = app.sign_in(&switch, &credentials.admin_email, "a-wrong-password");
    assert_eq!(error_of(&wrong), (400, "invalid_grant".to_owned()));
    assert!(tokens.iter().all(|token| is_open(&switch, token)));
    switch.stop();
    let log_path = installation.data().with_file_name("serve-0.log");
    let log = fs::read_to_string(log_path).expect("the switch has a log");
    let secrets = [&tokens[0], &tokens[1], &code, &app.secret, &credentials.admin_password];
    for secret in secrets.into_iter().map(String::as_str).chain(["a-wrong-password"]) {
        assert!(!log.contains(secret), "the log tells a secret");
    }
}

#[test]
fn who_guesses_from_one_address_is_refused_and_codes_by_others_work() {
    let installation = Installation::init(60, 973);
    let app = App::add(&installation, "");
    let proxied = &["--trusted-proxies", "127.0.0.1"];
    let switch = installation.serve_with(proxied);
    let code = app.code(&installation, &switch, "");
    let guess = |from: &str, secret: &str| {
        let body = format!(
            "grant_type=authorization_code&client_id={}&client_secret={secret}&code={code}",
            app.id
        );
        let headers =
            &[("content-type", "application/x-www-form-urlencoded"), ("x-forwarded-for", from)];
        let request = HttpRequest { method: "POST", path: TOKEN, headers, body: body.as_bytes() };
        HttpClient::anonymous(switch.http).send(&request)
    };
    let mut answers = Vec::new();
    while answers.last() != Some(&429) {
        assert!(answers.len() < 1_000, "nobody is ever refused");
        let answer = guess("203.0.113.7", &format!("guess{}", answers.len()));
        if answer.status == 429 {
            let wait = answer.header("retry-after").expect("when to come back");
            assert!((1..=61).contains(&wait.parse::<u32>().expect("seconds")), "{wait}");
            assert_eq!(error_of(&answer).1, "temporarily_unavailable");
        }
        answers.push(answer.status);
    }
    assert!(answers[..answers.len() - 1].iter().all(|status| *status == 401));
    assert_eq!(guess("203.0.113.7", &app.secret).status, 429, "also where the guess is right");
    assert_eq!(guess("203.0.113.8", &app.secret).status, 201);
}
