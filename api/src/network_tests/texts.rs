//! Texts with characters that steer, made from the published document: every text of every body.
//! A request is refused; what tells of something that has happened gets spaces, so no money is lost.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::world::{Card, DoorBench, purchase};
use crate::openapi::{DocumentedDoor, document};

/// One of each kind that is refused: C0, DEL, C1, separators, overrides.
const STEERING: [char; 8] =
    ['\0', '\r', '\u{1b}', '\u{7f}', '\u{85}', '\u{2028}', '\u{202e}', '\u{2066}'];
/// Operations that ask; the others tell.
const ASKING: [&str; 3] = ["authorizations", "increments", "transfers"];

/// The texts of a schema, by the keys that lead to them, each with its greatest length.
fn texts_of(document: &Value, schema: &Value) -> BTreeMap<Vec<String>, u64> {
    let (mut texts, mut waiting) = (BTreeMap::new(), vec![(Vec::new(), schema)]);
    while let Some((path, schema)) = waiting.pop() {
        if let Some(name) = schema["$ref"].as_str() {
            let pointer = name.strip_prefix('#').unwrap();
            waiting.push((path.clone(), document.pointer(pointer).unwrap()));
        }
        for key in ["allOf", "anyOf", "oneOf"] {
            let parts = schema[key].as_array().into_iter().flatten();
            waiting.extend(parts.map(|part| (path.clone(), part)));
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            waiting.push(([path.clone(), vec![name.clone()]].concat(), property));
        }
        if let Some(len_max) = schema["maxLength"].as_u64() {
            texts.insert(path, len_max);
        }
    }
    texts
}

/// A body that is taken.
async fn good(bench: &DoorBench, card: &Card, operation: &str) -> Value {
    if operation == "transfers" {
        return json!({"account_id": bench.account_id(), "amount": 1, "settled": true});
    }
    let mut body = purchase(card, json!(1));
    if ["reversals", "presentments", "increments"].contains(&operation) {
        let asked = bench.post("authorizations", body.clone()).await;
        body["transaction_id"] = asked["transaction_id"].clone();
    }
    if operation == "reversals" {
        body.as_object_mut().unwrap().remove("merchant");
    }
    body
}

fn with(mut body: Value, path: &[String], text: &str) -> Value {
    let (last, above) = path.split_last().unwrap();
    let mut inner = &mut body;
    for key in above {
        if !inner[key].is_object() {
            inner[key] = Value::Object(Map::new());
        }
        inner = &mut inner[key];
    }
    inner[last] = json!(text);
    body
}

fn steers(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(|letter: char| {
            letter.is_control() || STEERING.contains(&letter) || letter == '\u{2029}'
        }),
        Value::Array(values) => values.iter().any(steers),
        Value::Object(fields) => fields.values().any(steers),
        _ => false,
    }
}

#[tokio::test]
async fn requests_are_refused_and_what_has_happened_is_kept_with_spaces() {
    let bench = DoorBench::new().await;
    let card = bench.card(100_000).await;
    let document = document(DocumentedDoor::Network, bench.state.urls());
    let mut sent = BTreeMap::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let schema = &item["post"]["requestBody"]["content"]["application/json"]["schema"];
        let operation = path.rsplit('/').next().unwrap();
        for (field, len_max) in texts_of(&document, schema) {
            assert!(len_max >= 3, "{path} {field:?}");
            for letter in STEERING {
                let body = good(&bench, &card, operation).await;
                let body = with(body, &field, &format!("a{letter}b"));
                let sent_body = body.to_string();
                let (status, answer) = bench.ask("Bearer key", "POST", path, &sent_body).await;
                let expected = if ASKING.contains(&operation) { 400 } else { 200 };
                assert_eq!(status, expected, "{path} {body}: {answer}");
                let param = &answer["detail"]["errors"][0]["param"];
                assert!(status == 200 || *param == field.join("."), "{path} {body}: {answer}");
                *sent.entry(operation).or_insert(0) += 1;
            }
        }
    }
    let operations: Vec<_> = sent.keys().copied().collect();
    let expected = [
        "advices",
        "authorizations",
        "increments",
        "presentments",
        "refunds",
        "reversals",
        "transfers",
    ];
    assert_eq!(operations, expected, "{sent:?}");

    let kept = bench.get(&format!("cards/{}/transactions?limit=1000", card.id)).await;
    let (status, listed) = bench.ask("Token token", "GET", "/v1/transactions?limit=1000", "").await;
    assert_eq!(status, 200);
    assert!(listed.to_string().contains("\"a b\""), "spaces took their places");
    assert!(!steers(&kept) && !steers(&listed));
}
