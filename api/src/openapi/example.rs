//! Examples, made from the schemas they are of, so that they cannot go stale: a field's own example,
//! else one that its name, its words or its format imply.

use cardswitch_v1::routes::card_texts::CARD_TEXTS;
use serde_json::{Map, Value, json};

/// How deep an example goes; recursive objects end here.
const DEPTH_MAX: usize = 12;
/// The id of examples.
pub(super) const ID: &str = "0198f2a0-1b2c-7d3e-8f40-5a6b7c8d9e0f";

/// Texts by the names of their fields, besides those of cards.
const TEXTS: &[(&str, &str)] = &[
    ("name", "Corner Bakery"),
    ("first_name", "Dana"),
    ("last_name", "Reyes"),
    ("email", "dana@example.com"),
    ("website", "https://example.com"),
    ("address_1", "1 Market Street"),
    ("address_2", "Floor 2"),
    ("city", "San Francisco"),
    ("state", "CA"),
    ("zip_code", "94105"),
    ("zip", "94105"),
    ("country", "US"),
    ("attn", "Front desk"),
    ("last_four", "4242"),
    ("code", "4100"),
    ("note", "Lunch with the auditors"),
    ("number", "000123456789"),
    ("card_acceptor_id", "000000000123456"),
    ("currency", "USD"),
    ("foreign_currency_code", "EUR"),
    ("authorization_id", "A1B2C3"),
    ("filename", "receipt.pdf"),
    ("pin", "4321"),
    ("message", "Here is the card."),
    ("value", "blue"),
    ("domain", "example.com"),
    ("idp_metadata", "<EntityDescriptor/>"),
    ("card_number", "4111111111111111"),
    ("cvv", "123"),
    ("rrn", "000000000123"),
    ("stan", "000001"),
    ("acquirer", "123456"),
    ("expiration", "2029-10-31"),
    ("link", "https://example.com/shared/4f7c"),
];

/// Adds an example to each body of an operation that is JSON.
pub(super) fn add_examples(operation: &mut Map<String, Value>, components: &Value) {
    if let Some(body) = operation.get_mut("requestBody") {
        add_example(body, components);
    }
    for (_, response) in
        operation.get_mut("responses").and_then(Value::as_object_mut).into_iter().flatten()
    {
        add_example(response, components);
    }
}

fn add_example(body: &mut Value, components: &Value) {
    let Some(media) = body.pointer_mut("/content/application~1json") else { return };
    if media.get("example").is_none()
        && media.get("examples").is_none()
        && let Some(example) = example_of("", &media["schema"], components, 0)
    {
        media["example"] = example;
    }
}

/// A value that the schema of the field `name` allows; none where it would go too deep.
fn example_of(name: &str, schema: &Value, components: &Value, depth: usize) -> Option<Value> {
    if depth > DEPTH_MAX {
        return None;
    }
    if let Some(given) = own_example(schema) {
        return Some(given);
    }
    if let Some(target) = resolve(schema, components) {
        return example_of(name, target, components, depth);
    }
    if let Some(variants) =
        ["oneOf", "anyOf", "allOf"].iter().find_map(|key| schema[key].as_array())
    {
        let first = variants.iter().find(|variant| variant["type"] != "null");
        let example = first.and_then(|variant| example_of(name, variant, components, depth + 1));
        let is_nullable = variants.iter().any(|variant| variant["type"] == "null");
        return example.or(is_nullable.then_some(Value::Null));
    }
    Some(match kind_of(schema) {
        "object" => return object_example(schema, components, depth),
        "array" => {
            let items = schema.get("items");
            json!(items.and_then(|items| example_of(name, items, components, depth + 1)).as_slice())
        }
        "integer" => {
            schema.get("minimum").filter(|least| **least != 0).cloned().unwrap_or(json!(1))
        }
        "number" => json!(125.5),
        "boolean" => json!(name == "is_virtual" || name.starts_with("approved")),
        "string" => text_example(name, schema),
        _ => Value::Null,
    })
}

fn own_example(schema: &Value) -> Option<Value> {
    let given = schema.get("example").or_else(|| schema["examples"].as_array()?.first());
    let word = || schema["enum"].as_array()?.iter().find(|word| !word.is_null());
    given.or_else(word).cloned()
}

fn resolve<'a>(schema: &Value, components: &'a Value) -> Option<&'a Value> {
    let name = schema["$ref"].as_str()?.strip_prefix("#/components/schemas/")?;
    components["schemas"].get(name)
}

fn kind_of(schema: &Value) -> &str {
    match &schema["type"] {
        Value::String(kind) => kind,
        Value::Array(kinds) => {
            kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null").unwrap_or("null")
        }
        _ if schema.get("properties").is_some() => "object",
        _ => "null",
    }
}

/// Optional fields beyond the depth are left out; none where a required one is beyond it.
fn object_example(schema: &Value, components: &Value, depth: usize) -> Option<Value> {
    let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
    let mut object = Map::new();
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        match example_of(name, schema, components, depth + 1) {
            Some(example) => drop(object.insert(name.clone(), example)),
            None if required.iter().any(|key| key == name) => return None,
            None => {}
        }
    }
    Some(Value::Object(object))
}

fn text_example(name: &str, schema: &Value) -> Value {
    let by_format = match schema["format"].as_str() {
        Some("date-time") if name == "end_time" => Some("2030-12-31T23:59:59Z"),
        Some("uuid") => Some(ID),
        Some("date-time") => Some("2026-03-04T20:00:00.000000Z"),
        Some("date") => Some("2026-03-04"),
        Some("uri") => {
            Some("https://api.example.com/v1/cards/0198f2a0-1b2c-7d3e-8f40-5a6b7c8d9e0f")
        }
        _ => None,
    };
    let of_cards = CARD_TEXTS.named().map(|(known, text)| (known, text.example));
    let mut texts = of_cards.iter().chain(TEXTS);
    let by_name = || texts.find(|(known, _)| *known == name).map(|(_, text)| *text);
    json!(by_format.or_else(by_name).unwrap_or("text"))
}
