//! The collection for Postman and Bruno, made from the documents and held to the committed file: a folder for
//! each tag, a request for each operation, with its parameters and an example of its body.
//!
//! Ids are variables, which the scripts of earlier requests fill from their answers. `tests/http/collection.rs`
//! sends the requests.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Value, json};

use super::example::ID;
use super::golden::{canonical, hold};
use super::world::{World, id_name, singular_id};
use super::{DocumentedDoor, document};

const SCHEMA: &str = "https://schema.getpostman.com/json/collection/v2.1.0/collection.json";
/// In this order of a folder, each request finds the objects that it needs.
const METHODS: [&str; 4] = ["post", "get", "put", "delete"];

const DESCRIPTION: &str = "`base_url` is the address that `cardswitch dev` or `serve` prints; `access_token` and \
    `network_key` come from `dev` or `init`. The other variables are ids, which requests take from answers: send a \
    folder from its top. Requests that delete are its last: leave them out of a run of everything. The requests of \
    OAuth need an app, and setting the clock needs `serve --clock manual`.";

/// A field that the tokens of `dev` and `init` may not change.
const IAM_FIELD: &str = "sso";

/// Texts that may be taken once, with the same text for any number of runs.
const UNIQUE: [(&str, &str); 2] =
    [("dana@example.com", "dana.{{$timestamp}}@example.com"), ("\"4100\"", "\"{{$timestamp}}\"")];

#[tokio::test]
async fn the_collection_is_that_of_the_documents() {
    let world = World::new().await;
    let folders = |door| folders(door, &canonical(&document(door, world.urls())));
    let folders = [DocumentedDoor::Company, DocumentedDoor::Network].map(folders).concat();
    let requests = folders.iter().map(|folder| folder["item"].as_array().unwrap().len());
    assert!(requests.sum::<usize>() > 90);
    let variable = |key: &str, value: &str| json!({ "key": key, "value": value });
    let mut variables = vec![variable("base_url", "http://127.0.0.1:8080")];
    variables.extend(["access_token", "network_key"].map(|key| variable(key, "")));
    variables.extend(ids_in(&json!(folders)).iter().map(|id| variable(id, "")));
    let collection = json!({
        "info": { "name": "cardswitch", "description": DESCRIPTION, "schema": SCHEMA },
        "variable": variables,
        "item": folders,
    });
    let mut text = Vec::new();
    let pretty = PrettyFormatter::with_indent(b" ");
    collection.serialize(&mut Serializer::with_formatter(&mut text, pretty)).unwrap();
    text.push(b'\n');
    hold("examples/cardswitch.postman_collection.json", &String::from_utf8(text).unwrap());
}

fn folders(door: DocumentedDoor, document: &Value) -> Vec<Value> {
    let folder = |tag: &Value| {
        let paths = document["paths"].as_object().unwrap().iter();
        let operations = paths.flat_map(|(path, item)| {
            let of = move |method| Some((path, method, item.get(method)?));
            METHODS.into_iter().filter_map(of)
        });
        let mut operations: Vec<_> = operations.collect();
        // What names fewer ids comes first, and what ends a thing last.
        operations.sort_by_key(|(path, method, _)| {
            (*method == "delete" || path.ends_with("/return"), path.matches('{').count())
        });
        let mut requests = Vec::new();
        for (path, method, operation) in operations {
            if operation["tags"][0] == tag["name"] {
                requests.push(request(door, document, (path, method), operation));
            }
        }
        let description = tag["description"].as_str().unwrap_or_default();
        json!({ "name": tag["name"], "description": description, "item": requests })
    };
    document["tags"].as_array().unwrap().iter().map(folder).collect()
}

fn request(
    door: DocumentedDoor,
    document: &Value,
    (path, method): (&str, &str),
    operation: &Value,
) -> Value {
    let parts = path.trim_matches('/').split('/');
    let parts: Vec<_> = parts.map(|part| part.replace('{', ":").replace('}', "")).collect();
    let mut url = json!({ "host": ["{{base_url}}"], "path": parts });
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let parameters: Vec<_> = parameters.map(|parameter| resolved(document, parameter)).collect();
    let of = |place: &str, show: fn(&Value) -> Value| {
        let those = parameters.iter().filter(|parameter| parameter["in"] == place);
        those.map(|parameter| show(parameter)).collect::<Vec<_>>()
    };
    let ids = of("path", |one| {
        let name = one["name"].as_str().unwrap_or_default();
        json!({ "key": name, "value": id_variable(name) })
    });
    let query = of("query", |one| {
        let description = one["description"].as_str().unwrap_or_default();
        json!({ "key": one["name"], "value": "", "description": description, "disabled": true })
    });
    for (name, those) in [("variable", ids), ("query", query)] {
        if !those.is_empty() {
            url[name] = Value::Array(those);
        }
    }
    url["raw"] = format!("{{{{base_url}}}}/{}", parts.join("/")).into();
    let mut headers = Vec::new();
    if operation["security"].as_array().is_some_and(|security| !security.is_empty()) {
        let credential = match door {
            DocumentedDoor::Company => "Token {{access_token}}",
            DocumentedDoor::Network => "Bearer {{network_key}}",
        };
        headers.push(json!({ "key": "Authorization", "value": credential }));
    }
    let body = body_of(&resolved(document, &operation["requestBody"])["content"]);
    if let Some((content_type, _)) = &body {
        headers.push(json!({ "key": "Content-Type", "value": content_type }));
    }
    let mut made = json!({ "method": method.to_uppercase(), "header": headers, "url": url });
    if let Some((_, body)) = body {
        made["body"] = body;
    }
    made["description"] = operation["description"].as_str().unwrap_or_default().into();
    let name = operation["summary"].as_str().unwrap().trim_end_matches('.');
    let mut item = json!({ "name": name, "request": made });
    let filled = filled(document, (path, method));
    if !filled.is_empty() {
        item["event"] = script(&filled);
    }
    item
}

/// The body of a request, and its type: JSON, or a file of the user's.
fn body_of(content: &Value) -> Option<(&'static str, Value)> {
    if let Some(json) = content.get("application/json") {
        let raw = body_text(json.get("example").unwrap_or(&json!({})));
        return Some(("application/json", json!({ "mode": "raw", "raw": raw })));
    }
    let file = json!({ "mode": "file", "file": { "src": "receipt.png" } });
    content.get("image/png").map(|_| ("image/png", file))
}

/// The body of an example: its ids are variables. References are left out, but those to cards: a company has
/// cards from the start, and nothing else that most bodies need not name.
fn body_text(example: &Value) -> String {
    let mut example = example.clone();
    let mut waiting = vec![&mut example];
    while let Some(value) = waiting.pop() {
        match value {
            Value::Object(object) => {
                object.retain(|key, value| {
                    let is_reference = value.get("id").is_some_and(|id| id == ID);
                    key != IAM_FIELD && (!is_reference || id_name(key) == "card_id")
                });
                for (key, value) in object {
                    if *value == ID {
                        *value = id_variable(key);
                    } else if let Some(id) = value.get_mut("id") {
                        *id = id_variable(id_name(key));
                    } else {
                        waiting.push(value);
                    }
                }
            }
            Value::Array(items) => waiting.extend(items),
            _ => {}
        }
    }
    let text = format!("{example:#}");
    UNIQUE.iter().fold(text, |text, (taken, unique)| text.replace(taken, unique))
}

fn id_variable(name: &str) -> Value {
    json!(format!("{{{{{name}}}}}"))
}

/// The ids that requests name as variables.
fn ids_in(folders: &Value) -> BTreeSet<String> {
    let text = folders.to_string();
    let names =
        text.split("{{").skip(1).filter_map(|rest| Some(rest.split_once("}}")?.0.to_owned()));
    names.filter(|name| name.ends_with("_id")).collect()
}

/// The variables that an answer fills, each with the place of its value in the body.
fn filled(document: &Value, (path, method): (&str, &str)) -> Vec<(String, &'static str)> {
    let last = path.rsplit('/').next().unwrap_or_default();
    let named = |name: &str, place| vec![(name.to_owned(), place)];
    let is_in_paths = |id: &str| {
        let mut paths = document["paths"].as_object().unwrap().keys();
        paths.any(|path| path.contains(&format!("{{{id}}}")))
    };
    match (method, path) {
        ("get", "/v1/company") => named("shipping_address_id", "shipping_address?.id"),
        ("post", "/v1/cards") => {
            [named("card_id", "id"), named("allowance_id", "allowance?.id")].concat()
        }
        ("post", _) if last == "test" => named("attempt_id", "id"),
        (_, _) if matches!(last, "batch" | "clock") => Vec::new(),
        ("post", _) if path.starts_with("/network/") => named("transaction_id", "transaction_id"),
        ("post", _) if is_in_paths(&singular_id(last)) => named(&singular_id(last), "id"),
        ("get", _) if is_in_paths(&singular_id(last)) => {
            named(&singular_id(last), "results?.[0]?.id")
        }
        _ => Vec::new(),
    }
}

/// The script that fills these variables; an error, or an empty list, leaves them as they are.
fn script(filled: &[(String, &str)]) -> Value {
    let mut lines = vec![
        "const body = pm.response.json();".to_owned(),
        "const fill = (name, id) => id && pm.collectionVariables.set(name, id);".to_owned(),
    ];
    lines.extend(filled.iter().map(|(name, place)| format!("fill(\"{name}\", body.{place});")));
    json!([{ "listen": "test", "script": { "type": "text/javascript", "exec": lines } }])
}

/// A part of a document, or the one it refers to.
fn resolved<'a>(document: &'a Value, part: &'a Value) -> &'a Value {
    let place = part["$ref"].as_str().and_then(|place| place.strip_prefix('#'));
    place.map_or(part, |place| document.pointer(place).unwrap())
}
