//! The parts that all operations of a document have in common, added to those of the handlers:
//! rights, failures, headers, ids in the path, formats that names imply, examples.
//!
//! Works on the document as JSON; a test of the whole holds it to the running routes.

use std::collections::BTreeSet;

use cardswitch_edge::error::ErrorBody;
use cardswitch_edge::min_seq::{MIN_SEQ, SEQ};
use cardswitch_edge::required_access::RequiredAccess;
use cardswitch_identity::scope_words::SCOPES;
use cardswitch_v1::operations::{ACCESS, is_open, path_of_dimension};
use cardswitch_wire::error_codes::ERRORS_PATH;
use cardswitch_wire::reference::DIMENSION_FIELDS;
use cardswitch_wire::urls::Urls;
use serde_json::{Map, Value, json};
use utoipa::openapi::OpenApi;
use utoipa::{PartialSchema, ToSchema};

use super::{alternatives, example};

/// The API of a document, one of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// `/v1`, with access tokens.
    Company,
    /// `/network/v1`, with the network key.
    Network,
}

/// A failure that operations share.
struct SharedFailure {
    status: &'static str,
    name: &'static str,
    description: &'static str,
    code: &'static str,
}

const fn failure(
    status: &'static str,
    name: &'static str,
    code: &'static str,
    description: &'static str,
) -> SharedFailure {
    SharedFailure { status, name, description, code }
}

const FAILURES: &[SharedFailure] = &[
    failure(
        "400",
        "BadRequest",
        "invalid_fields",
        "A value is wrong or missing; `errors` lists every field at fault.",
    ),
    failure("401", "Unauthorized", "unauthorized", "No token, or one that is unknown or revoked."),
    failure("403", "Forbidden", "insufficient_scope", "The token's scope is too small."),
    failure("404", "NotFound", "not_found", "No such object, or none of this company."),
    failure("408", "BodyTooSlow", "body_too_slow", "The body did not come in time."),
    failure("409", "Conflict", "code_taken", "The object's state does not allow the change."),
    failure("413", "BodyTooLarge", "body_too_large", "The body is too long."),
    failure(
        "415",
        "UnsupportedMediaType",
        "unsupported_media_type",
        "The body's `Content-Type` is not one that is taken here.",
    ),
    failure(
        "429",
        "TooManyRequests",
        "too_many_requests",
        "More idempotency keys in a day than are kept; `Retry-After` says when to come back.",
    ),
    failure("500", "Internal", "internal", "The switch failed; its log has the cause."),
    failure(
        "503",
        "Unavailable",
        "overloaded",
        "Overloaded or stopping, or the outcome is unknown; `Retry-After` says when to come back.",
    ),
];

/// The methods of an item of `paths`.
const METHODS: [&str; 4] = ["get", "post", "put", "delete"];

/// Completes a document.
#[must_use]
pub(super) fn finish(plain: OpenApi, door: Door, urls: &Urls) -> Value {
    // INVARIANT: a document made of strings and maps is JSON.
    let mut document = serde_json::to_value(plain).unwrap_or_default();
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

/// Removes components that no operation refers to.
fn drop_unused_components(document: &mut Value) {
    let mut used = BTreeSet::new();
    let mut waiting = vec![&document["paths"]];
    while let Some(value) = waiting.pop() {
        match value {
            Value::Object(object) => {
                let pointer = object.get("$ref").and_then(Value::as_str);
                let pointer = pointer.and_then(|reference| reference.strip_prefix('#'));
                if let Some(pointer) = pointer.filter(|text| used.insert((*text).to_owned())) {
                    waiting.extend(document.pointer(pointer));
                }
                waiting.extend(object.values());
            }
            Value::Array(items) => waiting.extend(items),
            _ => {}
        }
    }
    for (kind, named) in document["components"].as_object_mut().into_iter().flatten() {
        if let Some(named) = named.as_object_mut().filter(|_| kind != "securitySchemes") {
            named.retain(|name, _| used.contains(&format!("/components/{kind}/{name}")));
        }
    }
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

/// `CardBody` is `Card` to clients, and a page of them is `CardList`.
fn rename_schemas(document: &mut Value) {
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
fn drop_sources(document: &mut Value) {
    each_object_mut(document, &mut |object| {
        if let Some(Value::String(text)) = object.get_mut("description")
            && let Some(at) = text.find("Source: spec")
        {
            text.truncate(at);
            text.truncate(text.trim_end().len());
        }
    });
}

/// Names say what texts are: `created_at` an instant, `url` an address.
fn name_formats(document: &mut Value) {
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
        | "after" | "now" => Some("date-time"),
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

/// The names of all schemas that a request body is made of.
fn reachable_from_requests(document: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut waiting = Vec::new();
    for item in document["paths"].as_object().into_iter().flat_map(Map::values) {
        let operations = item.as_object().into_iter().flat_map(Map::values);
        waiting.extend(operations.filter_map(|operation| operation.get("requestBody")));
    }
    while let Some(value) = waiting.pop() {
        match value {
            Value::Object(object) => {
                let reference = object.get("$ref").and_then(Value::as_str);
                let name = reference.and_then(|text| text.strip_prefix("#/components/schemas/"));
                if let Some(name) = name.filter(|name| found.insert((*name).to_owned())) {
                    waiting.push(&document["components"]["schemas"][name]);
                }
                waiting.extend(object.values());
            }
            Value::Array(items) => waiting.extend(items),
            _ => {}
        }
    }
    found
}

/// In answers a key that may be null is there all the same; one that may be missing is never null.
fn require_present_keys(document: &mut Value, from_requests: &BTreeSet<String>) {
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

fn add_components(document: &mut Value, door: Door, urls: &Urls) {
    let components = &mut document["components"];
    let mut parts = vec![("Error".to_owned(), ErrorBody::schema())];
    ErrorBody::schemas(&mut parts);
    for (name, schema) in parts {
        components["schemas"][name] = json!(schema);
    }
    for SharedFailure { name, description, code, .. } in FAILURES {
        let field =
            json!({"param": "amount", "code": "negative", "message": "`amount` must be 0 or more"});
        let doc_url = |code: &str| format!("{ERRORS_PATH}#{code}");
        let example = match *name {
            "BadRequest" => json!({"detail": {"code": "negative", "message": field["message"],
                "param": "amount", "errors": [field], "doc_url": doc_url("negative")}}),
            _ => json!({"detail": {"code": code, "message": description, "param": null,
                "errors": [], "doc_url": doc_url(code)}}),
        };
        let mut headers = json!({"request-id": {"$ref": "#/components/headers/RequestId"}});
        if ["TooManyRequests", "Unavailable"].contains(name) {
            headers["retry-after"] = json!({"$ref": "#/components/headers/RetryAfter"});
        }
        components["responses"][*name] = json!({
            "description": description,
            "headers": headers,
            "content": {"application/json": {
                "schema": {"$ref": "#/components/schemas/Error"}, "example": example,
            }},
        });
    }
    if door == Door::Company {
        add_open_components(components);
    }
    components["headers"] = json!({
        "RequestId": {"description": "The id of this answer, which the log repeats.",
            "required": true, "schema": {"type": "string", "format": "uuid"}},
        "RetryAfter": {"description": "When to come back. Units: seconds.",
            "schema": {"type": "integer", "minimum": 0}},
        "IdempotentReplayed": {"description": "`true` where this is the stored answer to an earlier \
            request with the same key.", "schema": {"type": "string", "enum": ["true"]}},
        "Seq": {"description": "The newest record that the answer can show; see `min_seq`.", "schema": {"type": "integer", "minimum": 0}},
    });
    if door == Door::Company {
        components["parameters"]["MinSeq"] = json!({
            "name": MIN_SEQ, "in": "query", "required": false, "allowEmptyValue": true,
            "description": "The `cardswitch-seq` of an earlier answer: this one shows no less, at any \
                node of a cluster.",
            "schema": {"type": "integer", "minimum": 0},
        });
    }
    components["parameters"]["IdempotencyKey"] = json!({
        "name": "Idempotency-Key", "in": "header", "required": false,
        "description": "Marks a request that may be repeated: within 24 hours the same key gets the \
            first answer again.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
    });
    let (name, scheme) = match door {
        Door::Company => ("access_token", access_token_scheme(urls)),
        Door::Network => (
            "network_key",
            json!({"type": "http", "scheme": "bearer",
                "description": "The network key that `cardswitch init` prints."}),
        ),
    };
    components["securitySchemes"][name] = scheme;
}

/// Access tokens and their scopes. However a token was made, it is sent in the same way.
fn access_token_scheme(urls: &Urls) -> Value {
    let scopes: Map<_, _> =
        SCOPES.iter().map(|words| (words.name.to_owned(), json!(words.allows))).collect();
    json!({
        "type": "oauth2",
        "description": "An access token of one company: that of an app, or one that `cardswitch \
            token add` prints. It is sent as `Authorization: Bearer`.",
        "flows": {"authorizationCode": {
            "authorizationUrl": urls.page("/v1/oauth/authorize"),
            "tokenUrl": urls.path("/v1/oauth/token"),
            "scopes": scopes,
        }},
    })
}

/// The failures of the token endpoints: those of all, with what stock clients read besides.
fn add_open_components(components: &mut Value) {
    let mut schema = components["schemas"]["Error"].clone();
    for (name, description) in [
        ("error", "The failure in one of the words of RFC 6749, 4.1.2.1 or 5.2, or RFC 6750."),
        ("error_description", "The failure for people."),
    ] {
        schema["properties"][name] = json!({"type": "string", "description": description});
        if let Some(required) = schema["required"].as_array_mut() {
            required.push(json!(name));
        }
    }
    components["schemas"]["OAuthError"] = schema;
    for SharedFailure { name, description, .. } in FAILURES {
        let mut response = components["responses"][*name].clone();
        let media = &mut response["content"]["application/json"];
        media["schema"] = json!({"$ref": "#/components/schemas/OAuthError"});
        media["example"]["error"] = json!("invalid_request");
        media["example"]["error_description"] = json!(description);
        components["responses"][format!("OAuth{name}")] = response;
    }
    components["securitySchemes"]["app"] = json!({"type": "http", "scheme": "basic",
        "description": "`client_id` and `client_secret` of an app; both may stand in the body instead."});
}

/// The token endpoints. The client is an app, by its own secret, or the holder of a token that
/// waits for answers.
fn finish_open(operation: &mut Map<String, Value>, path: &str, method: &str) {
    let is_challenge = path.ends_with("/challenge");
    let security =
        if is_challenge { json!([{"access_token": []}]) } else { json!([{"app": []}, {}]) };
    operation.insert("security".into(), security);
    say_who_may(
        operation,
        match is_challenge {
            true => "Needs the token that waits for the answer.",
            false => "Needs the credentials of an app.",
        },
    );
    let responses = operation.entry("responses").or_insert_with(|| json!({}));
    for (status, response) in responses.as_object_mut().into_iter().flatten() {
        finish_response(response, status, "get");
    }
    let mut statuses = vec!["401", "429", "500", "503"];
    if method == "post" {
        statuses.extend(["400", "408", "413", "415"]);
    }
    match (is_challenge, method) {
        (true, "post") => statuses.push("403"),
        (true, _) => statuses.push("404"),
        _ => {}
    }
    for failure in FAILURES.iter().filter(|failure| statuses.contains(&failure.status)) {
        let name = format!("#/components/responses/OAuth{}", failure.name);
        responses[failure.status] = json!({"$ref": name});
    }
}

fn finish_operation(operation: &mut Map<String, Value>, path: &str, method: &str, door: Door) {
    if door == Door::Company && is_open(&method.to_uppercase(), path) {
        return finish_open(operation, path, method);
    }
    let needed = ACCESS.needed(&method.to_uppercase(), path).unwrap_or(RequiredAccess::Read);
    let scopes = if door == Door::Company { needed.scopes() } else { &[] };
    operation.insert("security".into(), security(door, scopes));
    let names: Vec<_> = scopes.iter().map(|name| format!("`{name}`")).collect();
    say_who_may(
        operation,
        &match (door, scopes) {
            (Door::Network, _) => "Needs the network key.".to_owned(),
            (Door::Company, []) => "Needs an access token of any scope.".to_owned(),
            (Door::Company, _) => format!("Needs the scope {}.", names.join(" or ")),
        },
    );
    add_path_ids(operation, path);
    if method == "get" && door == Door::Company {
        parameters_of(operation).push(json!({"$ref": "#/components/parameters/MinSeq"}));
    }
    if method != "get" {
        parameters_of(operation).push(json!({"$ref": "#/components/parameters/IdempotencyKey"}));
    }
    let statuses = failures_of(operation, path, method, door, !scopes.is_empty());
    let responses = operation.entry("responses").or_insert_with(|| json!({}));
    for (status, response) in responses.as_object_mut().into_iter().flatten() {
        if response.get("$ref").is_none() {
            finish_response(response, status, method);
        }
    }
    for failure in FAILURES.iter().filter(|failure| statuses.contains(&failure.status)) {
        let reference = json!({"$ref": format!("#/components/responses/{}", failure.name)});
        if responses.get(failure.status).is_none() {
            responses[failure.status] = reference;
        }
    }
}

/// Ends the description with who may carry the operation out.
fn say_who_may(operation: &mut Map<String, Value>, sentence: &str) {
    let text = match operation.get("description").and_then(Value::as_str) {
        Some(text) if !text.is_empty() => format!("{text}\n\n{sentence}"),
        _ => sentence.to_owned(),
    };
    operation.insert("description".into(), json!(text));
}

/// One requirement for each scope that suffices.
fn security(door: Door, scopes: &[&str]) -> Value {
    match (door, scopes) {
        (Door::Network, _) => json!([{"network_key": []}]),
        (Door::Company, []) => json!([{"access_token": []}]),
        (Door::Company, scopes) => {
            scopes.iter().map(|scope| json!({"access_token": [scope]})).collect()
        }
    }
}

fn parameters_of(operation: &mut Map<String, Value>) -> &mut Vec<Value> {
    let parameters = operation.entry("parameters").or_insert_with(|| json!([]));
    if !parameters.is_array() {
        *parameters = json!([]);
    }
    match parameters {
        Value::Array(parameters) => parameters,
        // INVARIANT: it was made an array above.
        _ => unreachable!("an array"),
    }
}

/// Adds the ids in the path, and keeps the last of two parameters of one name: a list's own
/// `ordering` stands for that of all lists.
fn add_path_ids(operation: &mut Map<String, Value>, path: &str) {
    let given = parameters_of(operation);
    let names: Vec<_> = given.iter().map(|parameter| parameter["name"].clone()).collect();
    let mut place = 0;
    given.retain(|_| {
        place += 1;
        !names[place..].contains(&names[place - 1])
    });
    let ids = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let described = ids.filter(|name| !names.contains(&json!(name))).map(|name| {
        let noun = name.trim_end_matches("_id").replace('_', " ");
        json!({"name": name, "in": "path", "required": true, "description": format!("The id of the {noun}."),
            "schema": {"type": "string", "format": "uuid"}})
    });
    let mut all: Vec<_> = described.collect();
    all.append(given);
    *given = all;
}

fn failures_of(
    operation: &Map<String, Value>,
    path: &str,
    method: &str,
    door: Door,
    needs_scope: bool,
) -> Vec<&'static str> {
    let has_body = operation.get("requestBody").is_some();
    let is_write = method != "get";
    let parameters = operation.get("parameters").and_then(Value::as_array);
    let has_query = parameters
        .is_some_and(|parameters| parameters.iter().any(|parameter| parameter["in"] == "query"));
    let names_objects = path.contains('{') || door == Door::Network && has_body;
    let given = [
        (true, ["401", "500", "503"].as_slice()),
        (has_query || is_write || door == Door::Company, &["400"]),
        (needs_scope, &["403"]),
        (names_objects, &["404"]),
        (is_write, &["409"]),
        (is_write && door == Door::Company, &["429"]),
        (has_body, &["408", "413", "415"]),
    ];
    given
        .into_iter()
        .filter(|(applies, _)| *applies)
        .flat_map(|(_, statuses)| statuses)
        .copied()
        .collect()
}

fn finish_response(response: &mut Value, status: &str, method: &str) {
    if response["description"].as_str().is_none_or(str::is_empty) {
        response["description"] = json!(match status {
            "201" => "Created.",
            "204" => "Deleted; the body is empty.",
            _ => "As asked.",
        });
    }
    response["headers"]["request-id"] = json!({"$ref": "#/components/headers/RequestId"});
    response["headers"][SEQ.as_str()] = json!({"$ref": "#/components/headers/Seq"});
    if method != "get" {
        response["headers"]["idempotent-replayed"] =
            json!({"$ref": "#/components/headers/IdempotentReplayed"});
    }
}
