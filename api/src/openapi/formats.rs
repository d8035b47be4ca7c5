//! The formats that the names of fields and parameters imply.

use serde_json::{Value, json};

use super::schemas::each_object_mut;

/// Names say what texts are: `created_at` an instant, `url` an address.
pub(super) fn name_formats(document: &mut Value) {
    each_object_mut(document, &mut |object| {
        if let Some(Value::Object(properties)) = object.get_mut("properties") {
            for (name, schema) in properties {
                name_format(name, schema);
            }
        }
        let name = object.get("name").and_then(Value::as_str).map(str::to_owned);
        if let (Some(name), Some(schema)) = (name, object.get_mut("schema")) {
            name_format(&name, schema);
            // An absent parameter is absent; null is a text as any other.
            drop_null(schema);
            if object.get("in").is_some_and(|place| place == "query") {
                // Whole numbers of any length are read, those that are too large as the largest.
                if let Some(Value::Object(schema)) = object.get_mut("schema")
                    && schema.get("type").is_some_and(|kind| kind == "integer")
                {
                    schema.remove("format");
                }
                object.insert("allowEmptyValue".into(), json!(true));
            }
        }
    });
}

fn name_format(name: &str, schema: &mut Value) {
    let Some(format) = format_of(name) else { return };
    let is_text = schema["type"] == "string"
        || schema["type"].as_array().is_some_and(|types| types.contains(&json!("string")));
    let has_form = ["format", "pattern", "enum"].iter().any(|key| schema.get(key).is_some());
    if is_text && !has_form {
        schema["format"] = json!(format);
    }
}

fn format_of(name: &str) -> Option<&'static str> {
    match name {
        "url" | "next" | "previous" | "link" => Some("uri"),
        "start_time" | "end_time" | "time" | "created_after" | "created_before" | "before"
        | "after" | "now" | "period_start" | "period_end" | "failing_since" => Some("date-time"),
        "date" | "day" | "expiration" | "valid_through" => Some("date"),
        _ if name.ends_with("_at") => Some("date-time"),
        _ if name.ends_with("_date") || name.ends_with("_on") => Some("date"),
        _ => None,
    }
}

fn drop_null(schema: &mut Value) {
    let Some(types) = schema["type"].as_array() else { return };
    let kept: Vec<_> = types.iter().filter(|kind| *kind != "null").cloned().collect();
    if let [only] = kept.as_slice() {
        schema["type"] = only.clone();
    }
}
