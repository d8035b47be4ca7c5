//! The schemas of a document: their names, their texts, and the keys that answers always have.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// `CardBody` is `Card` to clients, and a page of them is `CardList`.
pub(super) fn rename_schemas(document: &mut Value) {
    let renamed = |name: &str| -> String {
        let short = |name: &str| name.strip_suffix("Body").unwrap_or(name).to_owned();
        match name.strip_prefix("Listing_") {
            Some(inner) => format!("{}List", short(inner)),
            None => short(name),
        }
    };
    if let Some(schemas) = document["components"]["schemas"].as_object_mut() {
        let named = std::mem::take(schemas).into_iter();
        *schemas = named.map(|(name, schema)| (renamed(&name), schema)).collect();
        name_rows(schemas);
    }
    each_object_mut(document, &mut |object| {
        let Some(Value::String(reference)) = object.get_mut("$ref") else { return };
        if let Some(name) = reference.strip_prefix("#/components/schemas/") {
            *reference = format!("#/components/schemas/{}", renamed(name));
        }
    });
}

/// The rows of a list are objects as they are shown by themselves, under the same name.
fn name_rows(schemas: &mut Map<String, Value>) {
    let names: BTreeSet<_> = schemas.keys().cloned().collect();
    for (list, schema) in schemas {
        let Some(name) = list.strip_suffix("List").filter(|name| names.contains(*name)) else {
            continue;
        };
        if let Some(items) = schema.pointer_mut("/properties/results/items") {
            *items = json!({"$ref": format!("#/components/schemas/{name}")});
        }
    }
}

/// Visits every object within a value, the outer before the inner.
pub(super) fn each_object_mut(value: &mut Value, visit: &mut dyn FnMut(&mut Map<String, Value>)) {
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        match value {
            Value::Object(object) => {
                visit(object);
                waiting.extend(object.values_mut());
            }
            Value::Array(items) => waiting.extend(items),
            _ => {}
        }
    }
}

/// Removes the sources that comments of the code cite: they are no news for readers of the
/// document.
pub(super) fn drop_sources(document: &mut Value) {
    each_object_mut(document, &mut |object| {
        if let Some(Value::String(text)) = object.get_mut("description")
            && let Some(at) = text.find("Source: spec")
        {
            text.truncate(at);
            text.truncate(text.trim_end().len());
        }
    });
}

/// The places that references within some values lead to, within these too, as far as `follows` them:
/// pointers such as `/components/schemas/Card`.
pub(super) fn referred_to<'a>(
    document: &'a Value,
    mut waiting: Vec<&'a Value>,
    follows: impl Fn(&str) -> bool,
) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    while let Some(value) = waiting.pop() {
        match value {
            Value::Object(object) => {
                let pointer = object.get("$ref").and_then(Value::as_str);
                let pointer = pointer.and_then(|reference| reference.strip_prefix('#'));
                let pointer = pointer.filter(|pointer| follows(pointer));
                if let Some(pointer) = pointer.filter(|text| found.insert((*text).to_owned())) {
                    waiting.extend(document.pointer(pointer));
                }
                waiting.extend(object.values());
            }
            Value::Array(items) => waiting.extend(items),
            _ => {}
        }
    }
    found
}

/// The names of the schemas among places in a document.
pub(super) fn schemas_among(places: BTreeSet<String>) -> BTreeSet<String> {
    let names = places.iter().filter_map(|place| place.strip_prefix("/components/schemas/"));
    names.map(str::to_owned).collect()
}

/// The names of all schemas that a request body is made of.
pub(super) fn reachable_from_requests(document: &Value) -> BTreeSet<String> {
    let paths = document["paths"].as_object().into_iter().flat_map(Map::values);
    let operations = paths.filter_map(Value::as_object).flat_map(Map::values);
    let bodies = operations.filter_map(|operation| operation.get("requestBody")).collect();
    schemas_among(referred_to(document, bodies, |_| true))
}

/// In answers a key that may be null is there all the same; one that may be missing is never null.
pub(super) fn require_present_keys(document: &mut Value, from_requests: &BTreeSet<String>) {
    let schemas = document["components"]["schemas"].as_object_mut().into_iter().flatten();
    for (_, schema) in schemas.filter(|(name, _)| !from_requests.contains(*name)) {
        each_object_mut(schema, &mut |object| {
            let Some(Value::Object(properties)) = object.get("properties") else { return };
            let nullable: Vec<Value> = properties
                .iter()
                .filter(|(_, schema)| is_nullable(schema))
                .map(|(name, _)| json!(name))
                .collect();
            let required = object.entry("required").or_insert_with(|| json!([]));
            if let Some(required) = required.as_array_mut() {
                required.extend(nullable);
                required.sort_by_key(Value::to_string);
                required.dedup();
            }
        });
    }
}

fn is_nullable(schema: &Value) -> bool {
    let is_null = |kind: &Value| kind == "null";
    let among = |key: &str| {
        let variants = schema[key].as_array().into_iter().flatten();
        variants.into_iter().any(|variant| is_null(&variant["type"]))
    };
    schema["type"].as_array().is_some_and(|types| types.iter().any(is_null))
        || among("oneOf")
        || among("anyOf")
}
