//! Guesses at a card's expiry, CVV, PIN and ZIP: after five wrong ones nobody learns any more, through
//! whichever door and message; advices teach nothing at all.
//!
//! A locked card told the right CVV by its answer, 1701 among 1303s, and an advice told the right PIN by
//! its `failed_rules`: 1,000 CVVs took 0.12 s, 10,000 PINs 1.4 s.

use std::collections::{BTreeMap, BTreeSet};

use cardswitch_harness::{
    HttpClient, Installation, Message, Purchase, Random, Switch, TestCard, next_stan, seed_for,
};
use serde_json::{Value, json};

/// The message kinds of both doors that carry credentials, and whether these are compared there.
const ISO_KINDS: [(&str, &str, bool); 9] = [
    ("0100", "purchase", true),
    ("0101", "purchase", true),
    ("0100", "verification", true),
    ("0100", "balance_inquiry", true),
    ("0100", "increment", true),
    ("0200", "purchase", true),
    ("0120", "purchase", false),
    ("0121", "purchase", false),
    ("0220", "purchase", false),
];
const HTTP_KINDS: [(&str, &str, bool); 9] = [
    ("authorizations", "purchase", true),
    ("authorizations", "single_message", true),
    ("authorizations", "verification", true),
    ("authorizations", "balance_inquiry", true),
    ("increments", "increment", true),
    ("advices", "approved", false),
    ("advices", "declined", false),
    ("presentments", "presentment", false),
    ("refunds", "refund", false),
];
const CREDENTIAL_RULES: [&str; 5] =
    ["credentials_locked", "expiration_differs", "pin_wrong", "cvv_wrong", "zip_differs"];

#[test]
fn a_thousand_cvvs_tell_five_times_that_they_are_wrong() {
    let installation = Installation::init(60, 1_101);
    let switch = installation.serve();
    let card = installation.cards.ordinary();
    let mut acquirer = switch.acquirer();
    // The right one in the middle, where the lock has long closed.
    let mut guesses: Vec<String> = (0..1_000).map(|guess| format!("{guess:03}")).collect();
    guesses.retain(|guess| *guess != card.cvv);
    guesses.insert(500, card.cvv.clone());
    let answers: Vec<_> = guesses
        .iter()
        .map(|guess| {
            let mut purchase = Purchase::of(card, 100);
            purchase.cvv = Some(guess.clone());
            told_by_iso(&acquirer.ask(&purchase.request()))
        })
        .collect();
    let wrong = answers.iter().filter(|told| told.contains("1303")).count();
    assert_eq!(wrong, 5, "one answer for each try before the lock");
    assert!(answers[5].contains("1701"), "{}", answers[5]);
    assert!(answers[5..].iter().all(|told| *told == answers[5]), "the right CVV stood out");

    // A purchase without a CVV is not checked for one.
    acquirer.ask(&Purchase::of(card, 100).request()).expect_approved();
}

#[test]
fn ten_thousand_pins_by_advices_tell_nothing() {
    let installation = Installation::init(60, 1_102);
    let switch = installation.serve();
    let card = card_with_all(&installation);
    let pins: Vec<String> = (0..10_000).map(|pin| format!("{pin:04}")).collect();

    let mut acquirer = switch.acquirer();
    let mut reader = acquirer.second_handle();
    let answers: Vec<String> = std::thread::scope(|scope| {
        let receive = move |_: &String| told_by_iso(&reader.receive().expect("an answer"));
        let collector = scope.spawn(|| pins.iter().map(receive).collect());
        for pin in &pins {
            let mut purchase = Purchase::of(card, 100);
            purchase.pin = Some(pin.clone());
            let mut advice = purchase.request();
            advice.mti = "0120".to_owned();
            advice.set(39, "05");
            acquirer.send(&advice).expect("the connection stays open");
        }
        collector.join().expect("every advice is answered")
    });
    assert!(answers.iter().all(|told| *told == answers[0]), "a PIN stood out over ISO 8583");

    let network = switch.network_api();
    for some in pins.chunks(1_000) {
        let advice = |pin| {
            json!({"type": "advice", "card_number": card.pan, "amount": 1, "approved": false,
                "pin": pin})
        };
        let batch: Vec<_> = some.iter().map(advice).collect();
        let answers = network.post("/network/v1/batch", &json!(batch)).expect(200);
        for answer in answers.as_array().expect("an answer to each") {
            assert_eq!(answer["failed_rules"], json!([]), "a PIN stood out over HTTP: {answer}");
        }
    }
    let listed = switch.api().get("/v1/transactions?limit=1000").expect(200);
    for transaction in listed["results"].as_array().expect("results") {
        assert_eq!(rules_of(transaction), Vec::<&str>::new(), "{transaction}");
    }

    // Nothing was counted either.
    let mut purchase = Purchase::of(card, 100);
    purchase.pin = Some(card.pin.clone());
    acquirer.ask(&purchase.request()).expect_approved();
}

/// A locked card is answered the same for right and wrong credentials, through both doors and every message:
/// in answers, in the transaction, in its explanation, in its event.
#[test]
fn a_locked_credential_answers_the_same_right_or_wrong() {
    let seed = seed_for("a_locked_credential_answers_the_same_right_or_wrong");
    let mut random = Random::new(seed);
    let installation = Installation::init(60, 1_103);
    let switch = installation.serve();
    let card = card_with_all(&installation);
    let pending = PendingPurchase::make(&switch, card);
    lock(&switch, card);

    let mut acquirer = switch.acquirer();
    let mut pairs = Vec::new();
    for round in 0..24 {
        let shown = GuessedCredentials::draw(&mut random);
        for (mti, kind, is_compared) in ISO_KINDS {
            let [right, wrong] = [true, false].map(|is_right| {
                acquirer.ask(&pending.message((mti, kind), &shown.purchase(card, is_right)))
            });
            let told = told_by_iso(&right);
            assert_eq!(told, told_by_iso(&wrong), "round {round}: {mti} {kind} {shown:?}");
            assert_eq!(told.contains("1701"), is_compared, "{mti} {kind} {right:?}");
        }
        for (path, kind, is_compared) in HTTP_KINDS {
            let what = format!("round {round}: {path} {kind} {shown:?}");
            let body = |is_right| pending.body((path, kind), &shown, card, is_right);
            let (right, wrong) =
                (post(&switch, path, &body(true)), post(&switch, path, &body(false)));
            assert_eq!(told_by_http(&right), told_by_http(&wrong), "{what}");
            assert_eq!(right["response_code"] == 1701, is_compared, "{what} {right}");
            let batch = json!([in_batch(path, body(true)), in_batch(path, body(false))]);
            let both = post(&switch, "batch", &batch);
            assert_eq!(told_by_http(&both[0]), told_by_http(&both[1]), "{what} in a batch");
            assert_eq!(told_by_http(&both[0]), told_by_http(&right), "{what} in a batch");
            if kind != "increment" {
                assert_eq!(told_by_api(&switch, &right), told_by_api(&switch, &wrong), "{what}");
                pairs.push([right, wrong].map(|told| told["transaction_id"].clone()));
            }
        }
    }
    assert_eq!(explanations(&switch, &pending.transaction), 1, "one for all increments");
    let events = events_by_transaction(&switch.api());
    for [right, wrong] in &pairs {
        let of = |id: &Value| id.as_str().and_then(|id| events.get(id));
        assert_eq!(of(right), of(wrong), "{right} {wrong}");
    }
}

/// A credential was let through where it came with an increment that named the transaction alone: the
/// card's number was not looked up, so that its PIN was not compared.
#[test]
fn an_increment_by_its_transaction_alone_compares_the_pin() {
    let installation = Installation::init(60, 1_104);
    let switch = installation.serve();
    let card = card_with_all(&installation);
    let pending = PendingPurchase::make(&switch, card);
    let increment = |pin: &str| {
        let body = json!({"transaction_id": pending.transaction, "amount": 1, "pin": pin});
        post(&switch, "increments", &body)["response_code"].clone()
    };
    assert_eq!(increment(&other_digits(&card.pin)), 1302);
    assert_eq!(increment(&card.pin), 0);
}

/// The credentials that a guess shows.
#[derive(Debug)]
struct GuessedCredentials {
    expiry: bool,
    cvv: bool,
    pin: bool,
    zip: bool,
}

impl GuessedCredentials {
    fn draw(random: &mut Random) -> Self {
        let bits = random.between(1, 16);
        let is_shown = |bit: u64| bits >> bit & 1 == 1;
        Self { expiry: is_shown(0), cvv: is_shown(1), pin: is_shown(2), zip: is_shown(3) }
    }

    fn purchase(&self, card: &TestCard, is_right: bool) -> Purchase {
        let value = |is_shown: bool, own: &str| {
            let shown = if is_right { own.to_owned() } else { other_digits(own) };
            is_shown.then_some(shown)
        };
        let expiry = card.expiry_yymm();
        let other_expiry = format!("{}{}", other_digits(&expiry[..2]), &expiry[2..]);
        Purchase {
            expiry_yymm: self.expiry.then_some(if is_right { expiry } else { other_expiry }),
            cvv: value(self.cvv, &card.cvv),
            pin: value(self.pin, &card.pin),
            zip: value(self.zip, &card.zip),
            // So little that no limit is met on the way.
            ..Purchase::of(card, 1)
        }
    }
}

/// As many digits, the last one another.
fn other_digits(own: &str) -> String {
    let (first, last) = own.split_at(own.len() - 1);
    format!("{first}{}", if last == "0" { "1" } else { "0" })
}

/// A purchase that is pending, for what asks more on it.
struct PendingPurchase {
    transaction: String,
    authorization_id: String,
}

impl PendingPurchase {
    fn make(switch: &Switch, card: &TestCard) -> Self {
        let body = json!({"card_number": card.pan, "amount": 1, "merchant": {"mcc": 5411}});
        let made = post(switch, "authorizations", &body);
        let text = |key: &str| made[key].as_str().expect("an approval").to_owned();
        Self { transaction: text("transaction_id"), authorization_id: text("authorization_id") }
    }

    fn message(&self, (mti, kind): (&str, &str), purchase: &Purchase) -> Message {
        let mut message = purchase.request();
        message.mti = mti.to_owned();
        match kind {
            "verification" => message.set(4, "000000000000"),
            "balance_inquiry" => message.set(3, "300000"),
            "increment" => message.set(38, &self.authorization_id),
            _ => {}
        }
        message.set_optional(39, mti.starts_with("012").then_some("05"));
        message
    }

    fn body(
        &self,
        (path, kind): (&str, &str),
        shown: &GuessedCredentials,
        card: &TestCard,
        is_right: bool,
    ) -> Value {
        let purchase = shown.purchase(card, is_right);
        let expiration =
            purchase.expiry_yymm.map(|yymm| format!("20{}-{}", &yymm[..2], &yymm[2..]));
        let mut body = json!({"card_number": card.pan, "stan": next_stan()});
        let credentials = [
            ("expiration", expiration),
            ("cvv", purchase.cvv),
            ("pin", purchase.pin),
            ("zip", purchase.zip),
        ];
        for (name, value) in credentials {
            if let Some(value) = value {
                body[name] = json!(value);
            }
        }
        match (path, kind) {
            (_, "increment") => body["transaction_id"] = json!(self.transaction),
            ("advices", outcome) => body["approved"] = json!(outcome == "approved"),
            ("authorizations", kind) => body["kind"] = json!(kind),
            _ => {}
        }
        if !matches!(kind, "verification" | "balance_inquiry") {
            body["amount"] = json!(0.01);
            body["merchant"] = json!({"mcc": 5411});
        }
        body
    }
}

fn in_batch(path: &str, mut body: Value) -> Value {
    body["type"] = json!(path.trim_end_matches('s'));
    body
}

fn card_with_all(installation: &Installation) -> &TestCard {
    let has_all = |card: &&&TestCard| !card.pin.is_empty() && !card.zip.is_empty();
    let cards = installation.cards.with_profile("ordinary");
    cards.iter().find(has_all).copied().expect("a card with PIN and ZIP")
}

#[track_caller]
fn lock(switch: &Switch, card: &TestCard) {
    let body = json!({"card_number": card.pan, "kind": "verification",
        "cvv": other_digits(&card.cvv)});
    let codes: Vec<_> =
        (0..6).map(|_| post(switch, "authorizations", &body)["response_code"].clone()).collect();
    assert_eq!(codes, [1303, 1303, 1303, 1303, 1303, 1701]);
}

#[track_caller]
fn post(switch: &Switch, path: &str, body: &Value) -> Value {
    switch.network_api().post(&format!("/network/v1/{path}"), body).expect(200)
}

/// An answer without the names of its message and the balance that the message before left.
fn told_by_iso(answer: &Message) -> String {
    let (code, reason) = (answer.response(), answer.get(44).unwrap_or_default());
    format!("{code} {reason} {}", answer.get(38).is_some())
}

fn told_by_http(answer: &Value) -> Value {
    let mut told = answer.clone();
    for name in ["transaction_id", "authorization_id"] {
        told[name] = json!(told[name].is_null());
    }
    told["allowance_balance"] = Value::Null;
    told
}

/// The view of a read token on a message: the transaction, the reason of its decision, and its event.
fn told_by_api(switch: &Switch, answer: &Value) -> Option<Value> {
    let id = answer["transaction_id"].as_str()?;
    let api = switch.api();
    let transaction = api.get(&format!("/v1/transactions/{id}")).expect(200);
    let decision = api.get(&format!("/v1/transactions/{id}/decision")).expect(200);
    let mut findings = Vec::new();
    for rule in decision["rules"].as_array().expect("rules") {
        let name = rule["rule"].as_str().expect("a name");
        if CREDENTIAL_RULES.contains(&name) {
            findings.push(rule.clone());
        }
    }
    let shown = &decision["facts"]["credentials"];
    let changes = rule_names(&decision["least_change"]);
    let [rules, code, state] =
        ["failed_rules", "response_code", "state"].map(|name| &transaction[name]);
    Some(json!([rules, code, state, findings, shown, changes]))
}

/// The names of all events, by the transaction that they are of.
fn events_by_transaction(api: &HttpClient) -> BTreeMap<String, Vec<String>> {
    let mut events: BTreeMap<_, Vec<_>> = BTreeMap::new();
    let mut path = "/v1/events?limit=1000".to_owned();
    loop {
        let page = api.get(&path).expect(200);
        for event in page["results"].as_array().expect("results") {
            let text = |value: &Value| value.as_str().expect("a text").to_owned();
            events
                .entry(text(&event["transaction"]["id"]))
                .or_default()
                .push(text(&event["event"]));
        }
        if page["has_more"] == false {
            return events;
        }
        path =
            format!("/v1/events?limit=1000&after={}", page["cursor"].as_str().expect("a cursor"));
    }
}

fn rules_of(transaction: &Value) -> Vec<&str> {
    let rules = transaction["failed_rules"].as_array().into_iter().flatten();
    rules.filter_map(Value::as_str).filter(|rule| CREDENTIAL_RULES.contains(rule)).collect()
}

fn rule_names(remedies: &Value) -> Vec<&str> {
    remedies.as_array().into_iter().flatten().filter_map(|one| one["rule"].as_str()).collect()
}

/// How many explanations the increments of a transaction have between them, but for their times.
fn explanations(switch: &Switch, transaction: &str) -> usize {
    let path = format!("/v1/transactions/{transaction}/decision");
    let decision = switch.api().get(&path).expect(200);
    let increments = decision["increments"].as_array().expect("increments");
    let told: BTreeSet<_> = increments.iter().map(|one| one["failed_rules"].to_string()).collect();
    assert!(!increments.is_empty());
    told.len()
}
