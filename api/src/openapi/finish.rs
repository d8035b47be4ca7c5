//! The parts that all operations of a document have in common, added to those of the handlers.
//!
//! | file | what |
//! |---|---|
//! | `schemas`, `formats`, `alternatives` | schemas: names, formats, alternatives |
//! | `components`, `failures` | what operations refer to |
//! | `operation_parts`, `example` | what each operation gets |
//!
//! Works on the document as JSON; a test of the whole holds it to the running routes.

use cardswitch_v1::operations::path_of_dimension;
use cardswitch_wire::body;
use cardswitch_wire::reference::DIMENSION_FIELDS;
use cardswitch_wire::urls::Urls;
use serde_json::{Map, Value, json};
use utoipa::openapi::OpenApi;

use super::components::{add_components, drop_unused_components};
use super::formats::name_formats;
use super::operation_parts::finish_operation;
use super::schemas::{
    drop_sources, each_object_mut, reachable_from_requests, rename_schemas, require_present_keys,
};
use super::{alternatives, example};

/// The API of a document, one of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentedDoor {
    /// `/v1`, with access tokens.
    Company,
    /// `/network/v1`, with the network key.
    Network,
}

/// The methods of an item of `paths`.
const METHODS: [&str; 4] = ["get", "post", "put", "delete"];

/// Completes a document.
pub(super) fn finish(plain: OpenApi, door: DocumentedDoor, urls: &Urls) -> Value {
    // INVARIANT: a document made of strings and maps is JSON.
    let mut document = serde_json::to_value(plain).unwrap_or_default();
    each_object_mut(&mut document, &mut body::replace_wrapped);
    document["info"]["license"] =
        json!({"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"});
    document["info"]["contact"] =
        json!({"name": "The operator of this switch", "url": urls.page("/")});
    document["servers"] = json!([{"url": urls.path("")}]);
    spread_dimensions(&mut document);
    rename_schemas(&mut document);
    drop_sources(&mut document);
    name_formats(&mut document);
    alternatives::open(&mut document);
    alternatives::name_tagged(&mut document);
    add_components(&mut document, door, urls);
    let from_requests = reachable_from_requests(&document);
    require_present_keys(&mut document, &from_requests);
    let components = document["components"].clone();
    for (path, method, operation) in operations_mut(&mut document) {
        finish_operation(operation, &path, &method, door);
        example::add_examples(operation, &components);
    }
    drop_unused_components(&mut document);
    document
}

/// Every operation with its path and its method in lower case.
fn operations_mut(document: &mut Value) -> Vec<(String, String, &mut Map<String, Value>)> {
    let paths = document["paths"].as_object_mut().into_iter().flatten();
    let operations = paths.flat_map(|(path, item)| {
        let item = item.as_object_mut().into_iter().flatten();
        item.filter_map(|(method, operation)| {
            Some((path.clone(), method.clone(), operation.as_object_mut()?))
        })
    });
    operations.filter(|(_, method, _)| METHODS.contains(&method.as_str())).collect()
}

/// The four dimensions have one handler each method, annotated as that of categories.
fn spread_dimensions(document: &mut Value) {
    let Some(paths) = document["paths"].as_object_mut() else { return };
    let written: Vec<_> = paths
        .iter()
        .filter(|(path, _)| path.starts_with("/v1/categories"))
        .map(|(path, item)| (path.clone(), item.clone()))
        .collect();
    for singular in DIMENSION_FIELDS {
        for (path, item) in &written {
            let path = path_of_dimension(path, singular);
            let plural = path.split('/').nth(2).unwrap_or_default().to_owned();
            let mut item = item.clone();
            for (_, operation) in item.as_object_mut().into_iter().flatten() {
                for key in ["operationId", "summary", "description"] {
                    if let Some(Value::String(text)) = operation.get_mut(key) {
                        *text = text.replace("dimensions", &plural).replace("dimension", singular);
                    }
                }
            }
            paths.insert(path, item);
        }
    }
}
