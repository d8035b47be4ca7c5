//! The document against the code: every line of the table is served, and shown in full.

use std::collections::BTreeSet;

use cardswitch_v1::operations::guarded;
use cardswitch_wire::error_codes::ERROR_CODES;
use serde_json::Value;

use super::world::{Side, World};

/// A path with an id in each of its places.
fn with_ids(path: &str) -> String {
    let id = "0198f2a0-1b2c-7d3e-8f40-5a6b7c8d9e0f";
    let parts = path.split('/').map(|part| if part.starts_with('{') { id } else { part });
    parts.collect::<Vec<_>>().join("/")
}

#[tokio::test]
async fn every_row_of_the_table_is_served() {
    let world = World::new().await;
    for row in guarded() {
        let path = with_ids(&row.path);
        let nobody = world.ask((Side::Own, ""), row.method, &path, None).await;
        let admin = world.ask((Side::Own, "admin"), row.method, &path, None).await;
        let is_served = nobody.status == 401 && admin.status != 405;
        let operation = format!("{} {}", row.method, row.path);
        assert!(is_served, "{operation}: {nobody:?} {admin:?}");
    }
}

#[tokio::test]
async fn operations_are_complete() {
    let world = World::new().await;
    let mut ids = BTreeSet::new();
    for operation in world.all_operations() {
        let (name, value) = (format!("{} {}", operation.method, operation.path), &operation.value);
        let id = value["operationId"].as_str().unwrap_or_default().to_owned();
        assert!(!id.is_empty() && ids.insert(id), "{name}: an operationId of its own");
        assert!(value["summary"].as_str().is_some_and(|text| !text.is_empty()), "{name}: summary");
        assert!(value["tags"][0].is_string(), "{name}: a tag");
        assert!(value["security"].is_array(), "{name}: security");
        let responses = value["responses"].as_object().unwrap();
        for status in ["401", "500", "503"] {
            assert!(responses.contains_key(status), "{name}: {status}");
        }
        for (status, response) in responses {
            assert!(response.get("content").is_none_or(Value::is_object), "{name}: {status}");
            let media = response.pointer("/content/application~1json");
            assert!(media.is_none_or(|media| media.get("example").is_some()), "{name}: {status}");
        }
        if let Some(body) = value.pointer("/requestBody/content/application~1json") {
            assert!(body.get("example").is_some(), "{name}: an example of the body");
        }
        for parameter in value["parameters"].as_array().into_iter().flatten() {
            let parameter = world.resolve(parameter);
            let described = parameter["description"].as_str().is_some_and(|text| !text.is_empty());
            assert!(described, "{name}: {parameter}");
        }
    }
}

#[tokio::test]
async fn references_lead_somewhere() {
    let world = World::new().await;
    let mut waiting = vec![&world.document];
    let mut references = 0;
    while let Some(value) = waiting.pop() {
        match value {
            Value::Object(object) => {
                if let Some(Value::String(reference)) = object.get("$ref") {
                    references += 1;
                    let target = world.document.pointer(reference.trim_start_matches('#'));
                    assert!(target.is_some(), "{reference}");
                }
                waiting.extend(object.values());
            }
            Value::Array(items) => waiting.extend(items),
            _ => {}
        }
    }
    assert!(references > 100, "{references}");
}

#[tokio::test]
async fn documents_and_pages_are_served_to_anybody_and_load_nothing_from_elsewhere() {
    let world = World::new().await;
    let rows = [
        ("/openapi.json", "application/json"),
        ("/network/v1/openapi.json", "application/json"),
        ("/docs", "text/html; charset=utf-8"),
        ("/docs/", "text/html; charset=utf-8"),
        ("/docs/network", "text/html; charset=utf-8"),
        ("/docs/errors", "text/html; charset=utf-8"),
        ("/llms.txt", "text/plain; charset=utf-8"),
    ];
    for (path, content_type) in rows {
        let answer = world.ask((Side::Own, ""), "GET", path, None).await;
        assert_eq!((answer.status, answer.headers["content-type"].as_str()), (200, content_type));
        if content_type == "application/json" {
            assert_eq!(answer.json()["openapi"], "3.1.0", "{path}");
        } else if content_type.starts_with("text/html") {
            let policy = &answer.headers["content-security-policy"];
            assert!(policy.contains("default-src 'none'"), "{policy}");
            for outside in ["<script", "style=", "src=\"http", "@import", "url("] {
                assert!(!answer.body.contains(outside), "{outside} in {path}");
            }
        }
    }
    let missing = world.ask((Side::Own, ""), "GET", "/docs/nothing", None).await;
    assert_eq!(missing.status, 404);
}

/// The most that a page of the documentation has. Units: bytes.
const PAGE_BYTES_MAX: usize = 60_000;

/// The texts between quotation marks behind each `name`.
fn values<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let parts = text.split(&format!("{name}=\"")).skip(1).collect::<Vec<_>>();
    parts.into_iter().filter_map(|part| part.split('"').next()).collect()
}

#[tokio::test]
async fn the_documentation_is_whole_and_its_links_lead_somewhere() {
    let world = World::new().await;
    let mut pages = std::collections::BTreeMap::new();
    let mut waiting = vec!["/docs".to_owned()];
    while let Some(path) = waiting.pop() {
        if pages.contains_key(&path) {
            continue;
        }
        let answer = world.ask((Side::Own, ""), "GET", &path, None).await;
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.body.len() <= PAGE_BYTES_MAX, "{path} has {} bytes", answer.body.len());
        let links =
            values(&answer.body, "href").into_iter().filter(|link| link.starts_with("/docs"));
        waiting.extend(links.map(|link| link.split('#').next().unwrap_or(link).to_owned()));
        pages.insert(path, answer.body);
    }
    assert!(pages.len() > 15, "{:?}", pages.keys());
    for (path, body) in &pages {
        let ids: BTreeSet<_> = values(body, "id").into_iter().collect();
        assert_eq!(ids.len(), values(body, "id").len(), "{path} has an id twice");
        for link in values(body, "href") {
            let Some((target, anchor)) = link.split_once('#') else { continue };
            let target = if target.is_empty() { path } else { target };
            let page = pages.get(target).unwrap_or_else(|| panic!("{path} leads to {link}"));
            assert!(values(page, "id").contains(&anchor), "{path} leads to {link}");
        }
    }
    for operation in world.all_operations() {
        let id = operation.value["operationId"].as_str().unwrap();
        let is_of_network = operation.path.starts_with("/network");
        let own =
            pages.iter().filter(|(path, _)| path.starts_with("/docs/network") == is_of_network);
        let places = own.filter(|(_, body)| values(body, "id").contains(&id)).count();
        assert_eq!(places, 1, "{id} is on one page");
    }
    for known in ERROR_CODES {
        assert!(values(&pages["/docs/errors"], "id").contains(&known.code), "{}", known.code);
    }
    let text = world.ask((Side::Own, ""), "GET", "/llms.txt", None).await.body;
    for path in pages.keys().filter(|path| !["/docs", "/docs/network"].contains(&path.as_str())) {
        assert!(text.contains(&format!("{path})")), "{path} is in llms.txt");
    }
}
