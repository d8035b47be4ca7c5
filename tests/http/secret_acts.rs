//! Acts that make secrets pass through a switch: everything that people and programs do with one on the site,
//! with webhooks and by mail. Each act returns the secrets that must be nowhere afterwards.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cardswitch_harness::{
    Browser, HookReceiver, Installation, Manner, Switch, TestCard, hidden_field,
};
use serde_json::json;
use totp_rs::Builder;

const BASE32: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const BASE64: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const ANSWER: &str = "the heron of Lake Isoline";
const WRONG_ANSWER: &str = "a stork, or was it a crane";
/// The password of the mail server.
pub(crate) const SMTP_PASSWORD: &str = "Zanzibar-Mombasa-7";

/// A secret: its name, and the ways in which it might be written.
pub(crate) type SecretSpellings = (&'static str, Vec<Vec<u8>>);

/// The bytes that a text in base 32 or 64 stands for.
fn decoded(text: &str, alphabet: &[u8]) -> Vec<u8> {
    let bits_each = alphabet.len().trailing_zeros();
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0_u32, 0_u32);
    for letter in text.bytes().filter(|letter| *letter != b'=' && *letter != b' ') {
        let value = alphabet.iter().position(|known| *known == letter).expect("a letter of it");
        held = held << bits_each | u32::try_from(value).expect("a small number");
        bits += bits_each;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(held >> bits).expect("eight bits"));
            held &= (1 << bits) - 1;
        }
    }
    bytes
}

/// Has webhooks sent and their secret replaced.
pub(crate) fn use_webhooks(switch: &Switch, card: &TestCard) -> Vec<SecretSpellings> {
    let receiver = HookReceiver::start(Manner::Answers(204));
    let api = switch.api();
    let endpoint = json!({"delivery_url": receiver.url(), "description": "books"});
    let made = api.post("/v1/webhook-endpoints", &endpoint).expect(201);
    let buy = json!({"card_id": card.card_id, "amount": 1, "merchant": {"mcc": "5812"}});
    switch.network_api().post("/network/v1/authorizations", &buy).expect(200);
    receiver.wait_for_events(1);
    let id = made["id"].as_str().expect("an id");
    let rotated = api.post(&format!("/v1/webhook-endpoints/{id}/rotate-secret"), &json!({}));
    let rotated = rotated.expect(200);
    switch.network_api().post("/network/v1/authorizations", &buy).expect(200);
    receiver.wait_for_events(2);
    let kept = |text: &str| {
        let body = text.strip_prefix("whsec_").expect("it begins so");
        vec![body.as_bytes().to_vec(), decoded(body, BASE64)]
    };
    [&made, &rotated]
        .map(|shown| ("a webhook's secret", kept(shown["secret"].as_str().expect("a secret"))))
        .into()
}

/// Looks at a card's number on the site, and at the page of a link to it.
pub(crate) fn look_at_numbers(
    switch: &Switch,
    signed_in: &mut Browser,
    (card, password): (&TestCard, &str),
    (key, passphrase): (&str, &str),
) {
    let shown =
        signed_in.fill(&format!("/cards/{}/number", card.card_id), &[("password", password)]);
    assert_eq!(shown.status, 200, "{}", shown.text());
    assert!(shown.text().contains(&card.pan) && shown.text().contains(&card.cvv));
    let (mut guest, path) = (Browser::new(switch.http), format!("/s/{key}"));
    let wrong = guest.fill(&path, &[("answer", "Bucephalus"), ("action", "open")]);
    assert!(!wrong.text().contains(&card.pan));
    assert!(guest.fill(&path, &[("answer", passphrase), ("action", "open")]).status < 400);
    let shown = guest.fill(&path, &[("action", "show")]);
    assert_eq!(shown.status, 200, "{}", shown.text());
    assert!(shown.text().contains(&card.pan) && shown.text().contains(&card.cvv));
}

/// Sets a security question, then an authenticator app, and signs in with each.
pub(crate) fn use_second_factors(
    switch: &Switch,
    signed_in: &mut Browser,
    email: &str,
    password: &str,
) -> Vec<SecretSpellings> {
    let question = [
        ("action", "set"),
        ("question", "Which bird?"),
        ("answer", ANSWER),
        ("password", password),
    ];
    assert_eq!(signed_in.fill("/account/question", &question).status, 303);
    let mut again = Browser::new(switch.http);
    let credentials = [("email", email), ("password", password)];
    assert_eq!(again.fill("/login", &credentials).status, 303);
    let path = "/login/second-factor";
    assert_eq!(again.fill(path, &[("answer", WRONG_ANSWER)]).status, 401);
    assert_eq!(again.fill(path, &[("answer", ANSWER)]).status, 303);

    let page = again.get("/account/totp").text();
    let sealed = hidden_field(&page, "seed").expect("a seed for the form");
    let (_, typed) = page.split_once("<code class=\"secret\">").expect("the key to type");
    let typed: String = typed.chars().take_while(|letter| *letter != '<').collect();
    let typed = typed.replace(' ', "");
    let seed = decoded(&typed, BASE32);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
    let totp = Builder::new().with_secret(seed.clone()).build_noncompliant();
    let code = totp.generate(now.as_secs()).to_string();
    let on = [
        ("action", "on"),
        ("seed", sealed.as_str()),
        ("code", code.as_str()),
        ("password", password),
    ];
    assert_eq!(again.post("/account/totp", &on).status, 303);
    assert!(again.get("/account").text().contains("Authenticator app set up."));
    let text = |text: &str| vec![text.as_bytes().to_vec(), text.to_lowercase().into_bytes()];
    vec![
        ("an answer", text(ANSWER)),
        ("a wrong answer", text(WRONG_ANSWER)),
        ("the seed of one-time codes", vec![seed, typed.into_bytes()]),
    ]
}

/// The arguments that have a switch send its letters to a server that is not there, with a password for it that
/// is read from `file`.
pub(crate) fn mail_arguments(file: &Path) -> [String; 6] {
    fs::write(file, format!("{SMTP_PASSWORD}\n")).expect("a file can be written");
    let file = file.to_str().expect("temporary paths are UTF-8");
    let address = "smtp://mailer@127.0.0.1:1";
    ["--smtp-url", address, "--smtp-password-file", file, "--mail-from", "cards@example.com"]
        .map(str::to_owned)
}

/// Has letters wait for that server, of both kinds. Returns the key in one of them.
pub(crate) fn fill_mail(
    installation: &Installation,
    switch: &Switch,
    card: &TestCard,
    email: &str,
) -> String {
    let recipient = json!({"name": "Bo", "email": "bo@example.com", "notify": true});
    let link = json!({"card": {"id": card.card_id}, "recipient": recipient});
    let made = switch.api().post("/v1/shared-links", &link).expect(201);
    let link = made["link"].as_str().expect("a link");
    let key = link.rsplit('/').next().expect("a link ends with its key").to_owned();
    let mut browser = Browser::new(switch.http);
    assert_eq!(browser.fill("/password/forgot", &[("email", email)]).status, 200);
    let (mail, asked) = (installation.data().join("mail"), Instant::now());
    let waits = |extension: &str| {
        let entries = fs::read_dir(&mail).expect("letters wait there");
        entries.flatten().any(|entry| entry.path().extension().is_some_and(|ext| ext == extension))
    };
    while !waits("due") || !waits("first") {
        assert!(asked.elapsed() < Duration::from_secs(60), "no letters wait");
        std::thread::sleep(Duration::from_millis(20));
    }
    key
}
