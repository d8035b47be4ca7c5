//! Everything that a switch writes, after everything that is secret has passed through it: no card
//! number, CVV, PIN, token, key or password is in any file, whatever the log was asked to tell.
//!
//! Letters are the exception by purpose: in a local run they lie in `outbox/`, and links are what they
//! are for. The master key and the cards file of `init` are secrets themselves.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cardswitch_harness::{
    Browser, HttpClient, HttpRequest, HttpResponse, Installation, Purchase, Switch, TestCard,
    run_cardswitch,
};
use serde_json::{Value, json};

use crate::secret_acts::{
    SMTP_PASSWORD, SecretSpellings, fill_mail, look_at_numbers, mail_arguments, use_second_factors,
    use_webhooks,
};

const PIN: &str = "918273645546";
const WRONG_PIN: &str = "918273645500";
const OLD_WRONG_PASSWORD: &str = "a guess that was wrong";
const NEW_PASSWORD: &str = "analytical engine no. 7";
const PASSPHRASE: &str = "Rosinante of La Mancha";
const REDIRECT: &str = "https://books.example.com/callback";

/// A secret that must be nowhere: its name, and the ways in which it might be written.
struct Secret {
    name: &'static str,
    forms: Vec<Vec<u8>>,
}

impl Secret {
    fn text(name: &'static str, text: &str) -> Self {
        assert!(text.len() >= 6, "`{text}` is anywhere by chance");
        let mut forms = vec![text.as_bytes().to_vec()];
        forms.extend(bytes_of_hex(text));
        Self { name, forms }
    }

    fn kept((name, forms): SecretSpellings) -> Self {
        assert!(forms.iter().all(|form| form.len() >= 6), "{name} is anywhere by chance");
        Self { name, forms }
    }

    /// A card number as text, as a number, and two digits a byte.
    fn pan(pan: &str) -> Self {
        let number: u64 = pan.parse().expect("a card number has digits");
        let mut forms = Self::text("a card number", pan).forms;
        forms.push(number.to_le_bytes().to_vec());
        forms.push(number.to_be_bytes().to_vec());
        Self { name: "a card number", forms }
    }
}

/// The bytes that hexadecimal text stands for, where it is such.
fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    let pairs = (0..text.len()).step_by(2);
    pairs.map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
}

/// Fills a form to the token endpoint.
fn post_form(switch: &Switch, fields: &[(&str, &str)]) -> HttpResponse {
    let body = fields.iter().map(|(name, value)| format!("{name}={value}"));
    let body = body.collect::<Vec<_>>().join("&");
    let headers = &[("content-type", "application/x-www-form-urlencoded")];
    let path = "/v1/oauth/token";
    let request = HttpRequest { method: "POST", path, headers, body: body.as_bytes() };
    HttpClient::anonymous(switch.http).send(&request)
}

/// Purchases through both doors, with everything that cardholders know, right and wrong.
fn buy(switch: &Switch, card: &TestCard, pin: &str) {
    let mut acquirer = switch.acquirer();
    let mut purchase = Purchase::of(card, 100);
    purchase.expiry_yymm = Some(card.expiry_yymm());
    purchase.cvv = Some(card.cvv.clone());
    purchase.zip = Some(card.zip.clone());
    purchase.pin = Some(pin.to_owned());
    let _ = acquirer.ask(&purchase.request());
    // A message that cannot be read, with a card number in it.
    let mut broken = purchase.request().encode();
    broken.truncate(broken.len() - 3);
    acquirer.send_frame(&broken).expect("the door is open");
    let body = json!({
        "card_number": card.pan, "amount": 1, "pin": pin, "cvv": card.cvv, "zip": card.zip,
        "merchant": {"mid": "1", "mcc": 5812, "name": "Cafe", "city": "Oakland", "state": "CA",
            "country": "US", "zip": "94601"},
    });
    let network = switch.network_api();
    assert_eq!(network.post("/network/v1/authorizations", &body).status, 200);
    // The same, at fault in every way that a message is written about.
    let mut faulty = body.clone();
    faulty["amount"] = json!("much");
    assert_eq!(network.post("/network/v1/authorizations", &faulty).status, 400);
    let bytes = format!("{body}}}");
    let headers = &[("content-type", "application/json")];
    let path = "/network/v1/authorizations";
    let request = HttpRequest { method: "POST", path, headers, body: bytes.as_bytes() };
    assert_eq!(network.send(&request).status, 400);
    assert_eq!(switch.anonymous().post(path, &body).status, 401);
    // A client may put a number into a path or a query, where it does not belong.
    for path in [format!("/v1/cards/{}", card.pan), format!("/v1/cards?description={}", card.pan)] {
        let _ = switch.api().get(&path);
    }
}

/// Sets and shows secrets through `/v1`; returns the key of a shared link.
fn use_api(switch: &Switch, card: &TestCard) -> String {
    let api = switch.api();
    let number = api.get(&format!("/v1/cards/{}/number", card.card_id)).expect(200);
    assert_eq!(number["number"], card.pan.as_str());
    let pin = json!({ "pin": PIN });
    api.put(&format!("/v1/cards/{}/pin", card.card_id), &pin).expect(200);
    let link = json!({
        "card": {"id": card.card_id},
        "recipient": {"name": "Ada", "email": "ada@example.com", "message": "For you", "notify": true},
        "passphrase_fields": [{"name": "Horse", "value": PASSPHRASE, "type": "text"}],
    });
    // Its answer is kept under an idempotency key, with all that is in it.
    let headers = &[("content-type", "application/json"), ("idempotency-key", "link-of-ada")];
    let body = link.to_string();
    let path = "/v1/shared-links";
    let request = HttpRequest { method: "POST", path, headers, body: body.as_bytes() };
    let made = api.send(&request).expect(201);
    assert_eq!(api.send(&request).expect(201), made, "kept");
    let link = made["link"].as_str().expect("a link");
    let key = link.rsplit('/').next().expect("a link ends with its key").to_owned();
    assert!(switch.anonymous().get(&format!("/s/{key}")).status < 500);
    key
}

/// Waits for the letter about a new password; returns the key in it.
fn key_of_letter(installation: &Installation) -> String {
    let asked = Instant::now();
    loop {
        for path in files_below(&installation.data().join("outbox")) {
            let text = fs::read_to_string(path).unwrap_or_default();
            if let Some((_, rest)) = text.split_once("/password/set/") {
                return rest.chars().take_while(char::is_ascii_hexdigit).collect();
            }
        }
        assert!(asked.elapsed() < Duration::from_secs(60), "no letter came");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Signs in, right and wrong, and sets another password; returns what opened something meanwhile, and
/// the browser that is signed in.
fn use_site(installation: &Installation, switch: &Switch) -> ([String; 2], Browser) {
    let credentials = &installation.credentials;
    let email = credentials.admin_email.as_str();
    let mut browser = Browser::new(switch.http);
    let wrong = [("email", email), ("password", OLD_WRONG_PASSWORD)];
    assert_eq!(browser.fill("/login", &wrong).status, 401);
    browser.sign_in(email, &credentials.admin_password);
    let session = browser.cookie("session").expect("a session").to_owned();
    let mut other = Browser::new(switch.http);
    assert_eq!(other.fill("/password/forgot", &[("email", email)]).status, 200);
    let key = key_of_letter(installation);
    let fields = [("password", NEW_PASSWORD), ("repeated", NEW_PASSWORD)];
    assert_eq!(other.fill(&format!("/password/set/{key}"), &fields).status, 303);
    other.sign_in(email, NEW_PASSWORD);
    ([session, key], other)
}

/// The files in a folder and below, without those that are secrets by purpose.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for path in entries.map(|entry| entry.expect("an entry").path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.is_file() {
                // Sockets keep nothing.
                files.push(path);
            }
        }
    }
    files
}

/// Looks for many secrets in one pass.
struct Search<'a> {
    /// Forms by their first two bytes, each with the name of its secret.
    starts: Vec<Vec<(&'a str, &'a [u8])>>,
}

impl<'a> Search<'a> {
    fn new(secrets: &'a [Secret]) -> Self {
        let mut starts = vec![Vec::new(); 1 << 16];
        for secret in secrets {
            for form in &secret.forms {
                starts[Self::start(form)].push((secret.name, form.as_slice()));
            }
        }
        Self { starts }
    }

    fn start(bytes: &[u8]) -> usize {
        usize::from(bytes[0]) << 8 | usize::from(bytes[1])
    }

    /// The first secret in `bytes`: its name, and what stands around it.
    fn find(&self, bytes: &[u8]) -> Option<(&'a str, String)> {
        bytes.windows(2).enumerate().find_map(|(at, start)| {
            let mut forms = self.starts[Self::start(start)].iter();
            let (name, form) = forms.find(|(_, form)| bytes[at..].starts_with(form))?;
            Some((*name, surroundings(bytes, at, form.len())))
        })
    }
}

/// Asserts that nothing secret is in any file that the switch has written.
#[track_caller]
fn assert_nowhere(installation: &Installation, secrets: &[Secret]) {
    let outbox = installation.data().join("outbox");
    let exempt = [installation.cards_file(), installation.data().join("master.key")];
    let (search, mut bytes_read) = (Search::new(secrets), 0);
    for path in files_below(installation.home()) {
        if exempt.contains(&path) || path.starts_with(&outbox) {
            continue;
        }
        // A letter goes on its way meanwhile: its file is there once the switch has stopped.
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            read => read.expect("a file can be read"),
        };
        bytes_read += bytes.len();
        let found = search.find(&bytes);
        assert!(found.is_none(), "in {}: {found:?}", path.display());
    }
    assert!(bytes_read > 100_000, "there was much to look through: {bytes_read} bytes");
}

/// The text before a find, which shows its author.
fn surroundings(bytes: &[u8], at: usize, len: usize) -> String {
    let start = at.saturating_sub(200);
    String::from_utf8_lossy(&bytes[start..(at + len).min(bytes.len())]).into_owned()
}

#[test]
fn nothing_secret_is_in_any_file_whatever_the_log_tells() {
    let installation = Installation::init(60, 898);
    let scim = installation.add_token("scim");
    let app = register_app(&installation);
    let credentials = installation.credentials.clone();
    let cards = installation.cards.with_profile("ordinary");
    // The most that can be asked of the log.
    let switch = installation.serve_logging("trace", &["--allow-local-webhooks", "--log", "json"]);
    buy(&switch, cards[0], WRONG_PIN);
    let key = use_api(&switch, cards[0]);
    buy(&switch, cards[0], PIN);
    let own = [("client_id", app.0.as_str()), ("client_secret", app.1.as_str())];
    let signed_in = [
        ("grant_type", "password"),
        ("username", credentials.admin_email.as_str()),
        ("password", credentials.admin_password.as_str()),
    ];
    let given = post_form(&switch, &[&own[..], &signed_in].concat());
    let given: Value = serde_json::from_str(&given.text()).expect("JSON");
    let given = given["access_token"].as_str().expect("a token").to_owned();
    assert_eq!(switch.api_with(&given).get("/v1/company").status, 200);
    assert_eq!(switch.api_with(&scim).get("/scim/v2/Users").status, 200);
    let email = credentials.admin_email.as_str();
    let ([session, letter_key], mut signed_in) = use_site(&installation, &switch);
    let mut kept = use_webhooks(&switch, cards[1]);
    let (own_card, link) = ((cards[0], NEW_PASSWORD), (key.as_str(), PASSPHRASE));
    look_at_numbers(&switch, &mut signed_in, own_card, link);
    kept.extend(use_second_factors(&switch, &mut signed_in, email, NEW_PASSWORD));

    let mut secrets: Vec<Secret> =
        installation.cards.all().iter().map(|card| Secret::pan(&card.pan)).collect();
    secrets.extend([
        Secret::text("a CVV, as ISO 8583 has it", &format!("9203{}", cards[0].cvv)),
        Secret::text("a CVV, as JSON has it", &format!("\"cvv\":\"{}\"", cards[0].cvv)),
        Secret::text("a PIN", PIN),
        Secret::text("a wrong PIN", WRONG_PIN),
        Secret::text("the administrator's token", &credentials.access_token),
        Secret::text("the network key", &credentials.network_key),
        Secret::text("a token for SCIM", &scim),
        Secret::text("an app's secret", &app.1),
        Secret::text("a token given for a password", &given),
        Secret::text("a session", &session),
        Secret::text("the key of a shared link", &key),
        Secret::text("a passphrase", PASSPHRASE),
        Secret::text("the key of a letter", &letter_key),
        Secret::text("the first password", &credentials.admin_password),
        Secret::text("a wrong password", OLD_WRONG_PASSWORD),
        Secret::text("the new password", NEW_PASSWORD),
    ]);
    secrets.extend(kept.into_iter().map(Secret::kept));
    assert_nowhere(&installation, &secrets);
    switch.stop();
    assert_nowhere(&installation, &secrets);
    // The reading at a start reveals as little. This time letters wait for a server.
    let keys = tempfile::tempdir().expect("a temporary directory");
    let mail = mail_arguments(&keys.path().join("smtp-password"));
    let switch = installation.serve_logging("trace", &mail.each_ref().map(String::as_str));
    let waiting_key = fill_mail(&installation, &switch, cards[1], email);
    secrets.push(Secret::text("the key in a letter that waits", &waiting_key));
    secrets.push(Secret::text("the mail server's password", SMTP_PASSWORD));
    assert_nowhere(&installation, &secrets);
    switch.stop();
    installation.verify_ok();
    assert_nowhere(&installation, &secrets);
}

/// The id and the secret of an app.
fn register_app(installation: &Installation) -> (String, String) {
    let data = installation.data();
    let data = data.to_str().expect("temporary paths are UTF-8");
    let company = installation.credentials.company_id.as_str();
    let mut arguments = vec!["app", "add", "--data", data, "--company", company, "--json"];
    arguments.extend(["--name", "Books", "--redirect-url", REDIRECT]);
    let printed = run_cardswitch(&arguments).expect_json();
    let text = |key: &str| printed[key].as_str().expect("app add prints it").to_owned();
    (text("client_id"), text("client_secret"))
}

/// The search itself finds what is there.
#[test]
fn a_secret_that_is_written_is_found() {
    let secret = Secret::pan("4537110012345678");
    let number = 4_537_110_012_345_678_u64;
    let written: [&[u8]; 4] = [
        b"..4537110012345678..",
        &[0x45, 0x37, 0x11, 0x00, 0x12, 0x34, 0x56, 0x78, 0x00],
        &number.to_le_bytes(),
        &number.to_be_bytes(),
    ];
    let secrets = [Secret::text("a PIN", PIN), secret];
    let search = Search::new(&secrets);
    for bytes in written {
        assert_eq!(search.find(bytes).map(|(name, _)| name), Some("a card number"), "{bytes:?}");
    }
    assert_eq!(search.find(b"..4537110012345679.."), None);
}
