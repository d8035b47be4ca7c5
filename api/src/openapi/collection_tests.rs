//! The collection for Postman and Bruno, made from the documents and held to the committed file: a folder for
//! each tag, a request for each operation, with its parameters and an example of its body.

use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Value, json};

use super::golden::{canonical, hold};
use super::world::World;
use super::{DocumentedDoor, document};

const SCHEMA: &str = "https://schema.getpostman.com/json/collection/v2.1.0/collection.json";
const METHODS: [&str; 4] = ["get", "post", "put", "delete"];

#[tokio::test]
async fn the_collection_is_that_of_the_documents() {
    let world = World::new().await;
    let folders = |door| folders(door, &canonical(&document(door, world.urls())));
    let folders = [DocumentedDoor::Company, DocumentedDoor::Network].map(folders).concat();
    let requests = folders.iter().map(|folder| folder["item"].as_array().unwrap().len());
    assert!(requests.sum::<usize>() > 90);
    let variable = |key: &str, value: &str| json!({ "key": key, "value": value });
    let collection = json!({
        "info": {
            "name": "cardswitch",
            "description": "Set `base_url`, `access_token` and `network_key`; `cardswitch init` prints both.",
            "schema": SCHEMA,
        },
        "variable": [
            variable("base_url", "http://127.0.0.1:8080"),
            variable("access_token", ""),
            variable("network_key", ""),
        ],
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
    let ids = of("path", |one| json!({ "key": one["name"], "value": "" }));
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
    let body = &resolved(document, &operation["requestBody"])["content"]["application/json"];
    if body.is_object() {
        headers.push(json!({ "key": "Content-Type", "value": "application/json" }));
    }
    let mut made = json!({ "method": method.to_uppercase(), "header": headers, "url": url });
    if body.is_object() {
        let raw = format!("{:#}", body.get("example").unwrap_or(&json!({})));
        made["body"] = json!({ "mode": "raw", "raw": raw });
    }
    made["description"] = operation["description"].as_str().unwrap_or_default().into();
    let name = operation["summary"].as_str().unwrap().trim_end_matches('.');
    json!({ "name": name, "request": made })
}

/// A part of a document, or the one it refers to.
fn resolved<'a>(document: &'a Value, part: &'a Value) -> &'a Value {
    let place = part["$ref"].as_str().and_then(|place| place.strip_prefix('#'));
    place.map_or(part, |place| document.pointer(place).unwrap())
}
