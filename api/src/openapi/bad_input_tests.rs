//! Bad input made from the document: every field of every body and every parameter of every query,
//! wrong in each way that its schema knows. The answer names the field, and nothing has changed.

use serde_json::{Value, json};

use super::golden::{hold_lines, line_of};
use super::world::{
    ADMIN_AND_IAM, DocumentOperation, Ids, RecordedAnswer, SampleRequest, Side, World, id_name,
};

/// An id that is nobody's.
const NOBODY: &str = "0198f2a0-1b2c-7d3e-8f40-5a6b7c8d9e0f";

/// Texts that no field takes, of one line or of several.
const STEERING: [&str; 9] = [
    "a\u{0}b",
    "a\u{1b}[31mb",
    "a\u{7f}b",
    "a\u{85}b",
    "a\u{9b}b",
    "a\u{202e}b",
    "a\u{2066}b",
    "a\u{2028}b",
    "a\u{2029}b",
];

/// A field of a body.
#[derive(Debug)]
struct Field<'a> {
    /// The keys that lead to it.
    path: Vec<String>,
    schema: &'a Value,
    required: bool,
}

/// A body that is wrong in one place.
struct BadBody {
    body: Value,
    /// The field at fault, with dots between levels.
    param: String,
    what: &'static str,
}

/// Every field of a body, those within objects too.
fn fields_of<'a>(world: &'a World, schema: &'a Value) -> Vec<Field<'a>> {
    let (mut fields, mut waiting) = (Vec::new(), vec![(Vec::new(), schema)]);
    while let Some((path, schema)) = waiting.pop() {
        let object = plain(world, schema);
        let required = object["required"].as_array().cloned().unwrap_or_default();
        for (name, schema) in object["properties"].as_object().into_iter().flatten() {
            let path = [path.clone(), vec![name.clone()]].concat();
            let required = required.contains(&json!(name));
            // A reference is one value: it is its field that is at fault.
            if !is_reference(world, schema) {
                waiting.push((path.clone(), schema));
            }
            fields.push(Field { path, schema, required });
        }
    }
    fields
}

/// A schema without its reference, and without the null it may be.
fn plain<'a>(world: &'a World, schema: &'a Value) -> &'a Value {
    let mut schema = world.resolve(schema);
    for _ in 0..4 {
        let variants = ["oneOf", "anyOf"].iter().find_map(|key| schema[key].as_array());
        let first = variants.into_iter().flatten().find(|variant| variant["type"] != "null");
        let Some(first) = first else { break };
        schema = world.resolve(first);
    }
    schema
}

fn is_reference(world: &World, schema: &Value) -> bool {
    let properties = plain(world, schema)["properties"].as_object();
    properties.is_some_and(|properties| properties.keys().eq(["id"]))
}

fn is_nullable(schema: &Value) -> bool {
    let is_null = |kind: &Value| kind == "null";
    schema["type"].as_array().is_some_and(|kinds| kinds.iter().any(is_null))
        || ["oneOf", "anyOf"].iter().any(|key| {
            schema[key]
                .as_array()
                .is_some_and(|variants| variants.iter().any(|variant| is_null(&variant["type"])))
        })
}

fn kinds(schema: &Value) -> Vec<&str> {
    match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// The amount schemas are a number or the same as text.
fn is_amount(world: &World, schema: &Value) -> bool {
    let variants = |schema: &Value| -> Vec<Value> {
        let schema = world.resolve(schema);
        let of = ["anyOf", "oneOf"].map(|key| schema[key].as_array().cloned());
        of.into_iter().flatten().flatten().collect()
    };
    let of = |schema: &Value| variants(schema).iter().any(|variant| variant["type"] == "number");
    of(schema) || variants(schema).iter().any(of)
}

/// Every wrong value of a field, with what is wrong.
fn wrong_values(world: &World, field: &Field<'_>, foreign: &Ids) -> Vec<(&'static str, Value)> {
    let schema = plain(world, field.schema);
    let mut wrong: Vec<(&'static str, Value)> = Vec::new();
    if !is_nullable(field.schema) {
        wrong.push(("null", Value::Null));
    }
    if is_reference(world, field.schema) {
        let name = field.path.last().unwrap();
        wrong.extend([
            ("wrong type", json!(5)),
            ("wrong type", json!([])),
            ("id alone", json!(NOBODY)),
            ("no id", json!({})),
            ("wrong id", json!({"id": "not-an-id"})),
            ("wrong id", json!({"id": 5})),
            ("unknown reference", json!({"id": NOBODY})),
        ]);
        if let Some(id) = foreign.get(id_name(name)) {
            wrong.push(("foreign reference", json!({"id": id})));
        }
        return wrong;
    }
    if is_amount(world, field.schema) {
        wrong.extend(wrong_amounts(schema));
        return wrong;
    }
    let kinds = kinds(schema);
    let others = [
        ("object", json!({"a": 1})),
        ("array", json!(["a"])),
        ("string", json!("NaN")),
        ("integer", json!(7)),
        ("boolean", json!(true)),
    ];
    let is_other =
        |kind: &str| !(kinds.contains(&kind) || kind == "integer" && kinds.contains(&"number"));
    // The rows of its form below cover the content of a text.
    wrong.extend(
        others
            .into_iter()
            .filter(|(kind, _)| is_other(kind))
            .map(|(_, value)| ("wrong type", value)),
    );
    if kinds.contains(&"string") {
        wrong.extend(wrong_texts(schema));
    }
    if kinds.contains(&"array") {
        wrong.extend(wrong_arrays(schema));
    }
    wrong
}

fn wrong_amounts(number: &Value) -> Vec<(&'static str, Value)> {
    let mut wrong = vec![
        ("wrong type", json!(true)),
        ("wrong type", json!([1])),
        ("wrong type", json!({"a": 1})),
        ("not a number", json!("NaN")),
        ("not a number", json!("Infinity")),
        ("not a number", json!("-inf")),
        ("not a number", json!("")),
        ("not a number", json!("0x10")),
        ("too large", json!(1e13)),
        ("too large", serde_json::from_str("99999999999999999999999999999999999").unwrap()),
        ("too many decimals", json!(1.23456)),
        ("too many decimals", json!("1.00001")),
    ];
    if number["minimum"] == json!(0) || number["minimum"] == json!(0.0) {
        wrong.push(("negative", json!(-0.01)));
        wrong.push(("negative", json!("-1")));
    }
    if number.get("exclusiveMinimum").is_some() {
        wrong.push(("not positive", json!(0)));
        wrong.push(("not positive", json!(-1)));
    }
    wrong
}

fn wrong_texts(schema: &Value) -> Vec<(&'static str, Value)> {
    let mut wrong = Vec::new();
    if let Some(len_max) = schema["maxLength"].as_u64() {
        let len = usize::try_from(len_max).unwrap() + 1;
        wrong.push(("too long", json!("x".repeat(len))));
        wrong.extend(STEERING.map(|text| ("control character", json!(text))));
    }
    if schema["pattern"] == r"\S" {
        wrong.push(("blank", json!("")));
        wrong.push(("blank", json!(" \t")));
    } else if schema.get("pattern").is_some() {
        wrong.push(("wrong form", json!("\u{e4}!")));
    }
    if schema["enum"].is_array() {
        wrong.push(("unknown word", json!("surprise")));
        wrong.push(("unknown word", json!("")));
    }
    match schema["format"].as_str() {
        Some("date-time") => wrong.extend(
            ["now", "2026-03-04", "2026-03-04T20:00:00", "2026-02-30T00:00:00Z", ""]
                .map(|text| ("no time", json!(text))),
        ),
        Some("date") => {
            wrong.extend(["today", "2026-02-30", "26-1-1"].map(|text| ("no date", json!(text))));
        }
        Some("uuid") => wrong.extend(["x", ""].map(|text| ("no id", json!(text)))),
        Some("email") => wrong.extend(["x", "a@", "@b"].map(|text| ("no address", json!(text)))),
        _ => {}
    }
    wrong
}

fn wrong_arrays(schema: &Value) -> Vec<(&'static str, Value)> {
    let mut wrong = vec![("wrong item", json!([null])), ("wrong item", json!([[]]))];
    if schema["items"]["type"] == "integer" {
        wrong.extend([
            ("wrong item", json!(["x"])),
            ("wrong item", json!([1.5])),
            ("wrong item", json!([-1])),
            ("unknown item", json!([65_535])),
            ("huge item", serde_json::from_str("[99999999999999999999999]").unwrap()),
            ("twice", json!([5812, 5812])),
        ]);
        if let Some(len_max) = schema["maxItems"].as_u64() {
            let len = usize::try_from(len_max).unwrap() + 1;
            wrong.push(("too many", json!((5_811..).take(len).collect::<Vec<u32>>())));
        }
    }
    wrong
}

/// The body with another value at `path`, or without one.
fn with(body: &Value, path: &[String], value: Option<Value>) -> Option<Value> {
    let (last, above) = path.split_last()?;
    let mut body = body.clone();
    let mut inner = &mut body;
    for key in above {
        inner = inner.get_mut(key)?;
    }
    let object = inner.as_object_mut()?;
    match value {
        Some(value) => object.insert(last.clone(), value),
        None => object.remove(last),
    };
    Some(body)
}

/// Every body of an operation that is wrong in one field.
fn wrong_bodies(
    world: &World,
    operation: &DocumentOperation,
    good: &Value,
    foreign: &Ids,
) -> Vec<BadBody> {
    let mut all = Vec::new();
    for field in fields_of(world, operation.body_schema().unwrap()) {
        let mut values: Vec<_> = wrong_values(world, &field, foreign)
            .into_iter()
            .map(|(what, value)| (what, Some(value)))
            .collect();
        if field.required {
            values.push(("missing", None));
        }
        for (what, value) in values {
            // Fields within an object that the example leaves out have no place in it.
            let Some(body) = with(good, &field.path, value) else { continue };
            all.push(BadBody { body, param: field.path.join("."), what });
        }
    }
    all
}

/// Whether a refusal names this field, or the object it is in.
fn names(answer: &RecordedAnswer, param: &str) -> bool {
    let errors = answer.json()["detail"]["errors"].as_array().cloned().unwrap_or_default();
    errors.iter().any(|error| {
        let named = error["param"].as_str().unwrap_or_default();
        named == param
            || param.strip_prefix(named).is_some_and(|rest| rest.starts_with('.'))
            || named
                .strip_prefix(param)
                .is_some_and(|rest| rest.starts_with('.') || rest.starts_with('['))
    })
}

/// The operations whose body is JSON, with an example of it that is taken.
async fn writing(world: &World, ids: &Ids) -> Vec<(DocumentOperation, Value)> {
    let all = world.operations().into_iter().filter(|operation| operation.body_schema().is_some());
    let mut writing = Vec::new();
    for operation in all {
        let mut body = world.example_with(&operation, ids);
        if operation.path == "/v1/cards" {
            // Only a physical card's shipping address is looked at.
            body["is_virtual"] = json!(false);
        }
        writing.push((operation, body));
    }
    writing
}

fn scope_for(operation: &DocumentOperation) -> &'static str {
    if operation.path == "/v1/company" { ADMIN_AND_IAM } else { "admin" }
}

#[tokio::test]
async fn the_examples_are_taken() {
    let world = World::new().await;
    let ids = world.make_objects(Side::Own).await;
    for (operation, body) in writing(&world, &ids).await {
        let (path, scope) = (operation.at(&ids), scope_for(&operation));
        let told = world.ask((Side::Own, scope), &operation.method, &path, Some(&body)).await;
        let name = format!("{} {}", operation.method, operation.path);
        assert!([200, 201].contains(&told.status), "{name} {body:#}: {told:?}");
    }
}

/// Two equal keys leave it open which one counts. So every reader of JSON refuses a body that has them,
/// at any depth and for any key.
#[tokio::test]
async fn a_key_that_comes_twice_is_named_and_nothing_changes() {
    let world = World::new().await;
    let ids = world.make_objects(Side::Own).await;
    let before = world.picture(Side::Own).await;
    for (operation, good) in writing(&world, &ids).await {
        let good = good.to_string();
        let comma = if good == "{}" { "" } else { ", " };
        let rows = [(r#""z": 1, "z": 1"#, "z"), (r#""x": [{"y": 1, "\u0079": 1}]"#, "x.0.y")];
        for (keys, param) in rows {
            let repeated = good.replacen('{', &format!("{{{keys}{comma}"), 1);
            let (method, path) = (operation.method.as_str(), operation.at(&ids));
            let (path, body) = (path.as_str(), repeated.clone().into_bytes());
            let sent = SampleRequest { method, path, content_type: Some("application/json"), body };
            let told = world.send(Side::Own, scope_for(&operation), sent).await;
            assert_eq!(told.status, 400, "{method} {path} {repeated}: {told:?}");
            assert!(names(&told, param), "{method} {path} {repeated}: {told:?}");
            assert_eq!(told.json()["detail"]["code"], "repeated", "{method} {path}");
        }
    }
    assert_eq!(world.picture(Side::Own).await, before);
}

#[tokio::test]
async fn a_wrong_field_is_named_and_nothing_changes() {
    let world = World::new().await;
    let ids = world.make_objects(Side::Own).await;
    let foreign = world.make_objects(Side::Foreign).await;
    let (mut sent, mut misses, mut answers) = (0, Vec::new(), String::new());
    for (operation, good) in writing(&world, &ids).await {
        let (path, scope) = (operation.at(&ids), scope_for(&operation));
        let before = world.picture(Side::Own).await;
        for BadBody { body, param, what } in wrong_bodies(&world, &operation, &good, &foreign) {
            let told = world.ask((Side::Own, scope), &operation.method, &path, Some(&body)).await;
            let name = format!("{} {} {param}: {what}", operation.method, operation.path);
            let at = param.split('.').fold(&body, |value, key| &value[key]).to_string();
            answers.push_str(&line_of(&format!("{name} {at:.60}"), &told));
            if told.status != 400 || !names(&told, &param) {
                let shown: String = told.body.chars().take(200).collect();
                misses.push(format!("{name} {at:.60}: {} {shown}", told.status));
            }
            sent += 1;
        }
        let path = &operation.path;
        assert_eq!(world.picture(Side::Own).await, before, "{} {path}", operation.method);
    }
    assert!(misses.is_empty(), "{} of {sent}:\n{}", misses.len(), misses.join("\n"));
    assert!(sent > 200, "{sent} bodies were sent");
    hold_lines("wrong_fields.txt", &answers);
}

#[tokio::test]
async fn every_wrong_field_is_named_at_once() {
    let world = World::new().await;
    let ids = world.make_objects(Side::Own).await;
    let mut answers = String::new();
    for (operation, good) in writing(&world, &ids).await {
        let fields = fields_of(&world, operation.body_schema().unwrap());
        let top: Vec<_> = fields.iter().filter(|field| field.path.len() == 1).collect();
        let wrong = |field: &&Field<'_>| {
            let values = wrong_values(&world, field, &Ids::new());
            values.into_iter().find(|(what, _)| *what == "wrong type").map(|(_, value)| value)
        };
        let mut body = good.clone();
        let mut expected = Vec::new();
        for field in &top {
            if let Some(value) = wrong(field) {
                body[&field.path[0]] = value;
                expected.push(field.path[0].clone());
            }
        }
        // A card whose kind is unknown needs no address.
        if operation.path == "/v1/cards" {
            body["is_virtual"] = json!(false);
            expected.retain(|name| name != "is_virtual");
        }
        let (path, scope) = (operation.at(&ids), scope_for(&operation));
        let told = world.ask((Side::Own, scope), &operation.method, &path, Some(&body)).await;
        assert_eq!(told.status, 400, "{path}: {told:?}");
        let unnamed: Vec<_> = expected.iter().filter(|name| !names(&told, name)).collect();
        assert!(unnamed.is_empty(), "{path}: {unnamed:?} in {}", told.body);
        answers.push_str(&line_of(&format!("{} {}", operation.method, operation.path), &told));
    }
    hold_lines("all_fields_wrong.txt", &answers);
}

#[tokio::test]
async fn a_wrong_body_is_refused_whole() {
    let world = World::new().await;
    let ids = world.make_objects(Side::Own).await;
    let long = format!("{{\"description\": \"{}\"}}", "x".repeat(10 * 1024 * 1024));
    let deep = format!("{{\"a\": {}1{}}}", "[".repeat(5_000), "]".repeat(5_000));
    let json = Some("application/json");
    let rows = [
        (json, "", 400),
        (json, "{", 400),
        (json, "[]", 400),
        (json, "null", 400),
        (json, "\"text\"", 400),
        (json, "{\"a\": NaN}", 400),
        (json, "{\"a\": Infinity}", 400),
        (json, "{'a': 1}", 400),
        (json, "{\"a\": 1} x", 400),
        (json, "\u{feff}{}", 400),
        (json, long.as_str(), 413),
        (Some("text/plain"), "{}", 415),
        (Some("application/x-www-form-urlencoded"), "a=1", 415),
        (Some("application/xml"), "<a/>", 415),
        (Some(""), "{}", 415),
        (None, "{}", 415),
    ];
    let before = world.picture(Side::Own).await;
    for (operation, _) in writing(&world, &ids).await {
        let (path, scope) = (operation.at(&ids), scope_for(&operation));
        for (content_type, body, status) in rows {
            let body = body.as_bytes().to_vec();
            let sent = SampleRequest { method: &operation.method, path: &path, content_type, body };
            let shown: String = String::from_utf8_lossy(&sent.body).chars().take(30).collect();
            let told = world.send(Side::Own, scope, sent).await;
            assert_eq!(told.status, status, "{path} {content_type:?} {shown}: {told:?}");
            assert!(told.json()["detail"]["code"].is_string());
        }
        // A value that no parser asks for is skipped, however deep it is.
        let body = deep.as_bytes().to_vec();
        let sent =
            SampleRequest { method: &operation.method, path: &path, content_type: json, body };
        assert!(world.send(Side::Own, scope, sent).await.status < 500, "{path}");
    }
    assert_eq!(world.picture(Side::Own).await, before);
}

/// Every wrong value of a query parameter.
fn wrong_parameters(schema: &Value) -> Vec<&'static str> {
    let by_kind: &[&str] = match (schema["type"].as_str(), schema["format"].as_str()) {
        (Some("integer"), _) => &["x", "-1", "1.5", "1e3", "NaN", "0x1", "%00", "1%201"],
        (Some("boolean"), _) => &["maybe", "1", "TRUE%00"],
        (_, Some("uuid")) => &["x", "%00", "0198f2a01b2c7d3e8f405a6b7c8d9e0f", "null"],
        (_, Some("date-time")) => &["yesterday", "2026-03-04", "2026-03-04T20:00:00", "%00"],
        (_, Some("date")) => &["today", "2026-02-30", "20260304", "%00"],
        _ if schema.get("pattern").is_some() || schema.get("enum").is_some() => {
            &["surprise", "%00", "-"]
        }
        _ => &[],
    };
    by_kind.to_vec()
}

#[tokio::test]
async fn a_wrong_parameter_is_named() {
    let world = World::new().await;
    let ids = world.make_objects(Side::Own).await;
    let (mut sent, mut misses, mut answers) = (0, Vec::new(), String::new());
    for operation in world.operations() {
        for parameter in operation.value["parameters"].as_array().into_iter().flatten() {
            let parameter = world.resolve(parameter);
            if parameter["in"] != "query" {
                continue;
            }
            let name = parameter["name"].as_str().unwrap();
            for value in wrong_parameters(&parameter["schema"]) {
                let path = format!("{}?{name}={value}", operation.at(&ids));
                let told = world.ask((Side::Own, "admin"), &operation.method, &path, None).await;
                answers.push_str(&line_of(&path, &told));
                if told.status != 400 || !names(&told, name) {
                    misses.push(format!("{path}: {} {:.200}", told.status, told.body));
                }
                sent += 1;
            }
        }
    }
    assert!(misses.is_empty(), "{} of {sent}:\n{}", misses.len(), misses.join("\n"));
    assert!(sent > 100, "{sent} queries were sent");
    hold_lines("wrong_parameters.txt", &answers);
}

#[tokio::test]
async fn an_empty_parameter_is_as_if_left_out() {
    let world = World::new().await;
    let ids = world.make_objects(Side::Own).await;
    // Links to other pages repeat the query as it was sent.
    let shown = |told: &RecordedAnswer| match serde_json::from_str::<Value>(&told.body) {
        Ok(Value::Object(mut object)) => {
            object.retain(|key, _| !["next", "previous"].contains(&key.as_str()));
            (told.status, Value::Object(object))
        }
        _ => (told.status, Value::Null),
    };
    let mut sent = 0;
    for operation in world.operations() {
        // A stream never ends.
        if operation.path.ends_with("/stream") {
            continue;
        }
        let path = operation.at(&ids);
        let without = world.ask((Side::Own, "admin"), &operation.method, &path, None).await;
        for parameter in operation.value["parameters"].as_array().into_iter().flatten() {
            let parameter = world.resolve(parameter);
            if parameter["in"] != "query" {
                continue;
            }
            assert_eq!(parameter["allowEmptyValue"], true, "{path}: {parameter}");
            let path = format!("{path}?{}=", parameter["name"].as_str().unwrap());
            let told = world.ask((Side::Own, "admin"), &operation.method, &path, None).await;
            assert_eq!(shown(&told), shown(&without), "{path}");
            sent += 1;
        }
    }
    assert!(sent > 30, "{sent} queries were sent");
}

#[tokio::test]
async fn bytes_that_are_no_text_find_nothing() {
    let world = World::new().await;
    world.make_objects(Side::Own).await;
    for query in ["description=%FF", "description=%C3%28"] {
        let path = format!("/v1/cards?{query}");
        let told = world.ask((Side::Own, "admin"), "GET", &path, None).await;
        assert_eq!((told.status, &told.json()["count"]), (200, &json!(0)), "{query}: {told:?}");
    }
    for path in ["/v1/cards/%00", "/v1/cards/%FF", "/v1/cards/%2e%2e", "/v1/cards/..;/"] {
        let told = world.ask((Side::Own, "admin"), "GET", path, None).await;
        assert_eq!(told.status, 404, "{path}: {told:?}");
    }
}
