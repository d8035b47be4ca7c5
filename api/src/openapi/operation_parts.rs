//! The parts of an operation beside those of its handler: rights, ids in the path, failures, headers.

use cardswitch_edge::min_seq::SEQ;
use cardswitch_edge::required_access::RequiredAccess;
use cardswitch_v1::operations::{ACCESS, is_open};
use serde_json::{Map, Value, json};

use super::failures::FAILURES;
use super::finish::DocumentedDoor;

pub(super) fn finish_operation(
    operation: &mut Map<String, Value>,
    path: &str,
    method: &str,
    door: DocumentedDoor,
) {
    if door == DocumentedDoor::Company && is_open(&method.to_uppercase(), path) {
        return finish_open(operation, path, method);
    }
    let needed = ACCESS.needed(&method.to_uppercase(), path).unwrap_or(RequiredAccess::Read);
    let scopes = if door == DocumentedDoor::Company { needed.scopes() } else { &[] };
    operation.insert("security".into(), security(door, scopes));
    let names: Vec<_> = scopes.iter().map(|name| format!("`{name}`")).collect();
    say_who_may(
        operation,
        &match (door, scopes) {
            (DocumentedDoor::Network, _) => "Needs the network key.".to_owned(),
            (DocumentedDoor::Company, []) => "Needs an access token of any scope.".to_owned(),
            (DocumentedDoor::Company, _) => format!("Needs the scope {}.", names.join(" or ")),
        },
    );
    add_path_ids(operation, path);
    if method == "get" && door == DocumentedDoor::Company {
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
            response["headers"][SEQ.as_str()] = json!({"$ref": "#/components/headers/Seq"});
        }
    }
    for failure in FAILURES.iter().filter(|failure| statuses.contains(&failure.status)) {
        let reference = json!({"$ref": format!("#/components/responses/{}", failure.name)});
        if responses.get(failure.status).is_none() {
            responses[failure.status] = reference;
        }
    }
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

/// Ends the description with who may carry the operation out.
fn say_who_may(operation: &mut Map<String, Value>, sentence: &str) {
    let text = match operation.get("description").and_then(Value::as_str) {
        Some(text) if !text.is_empty() => format!("{text}\n\n{sentence}"),
        _ => sentence.to_owned(),
    };
    operation.insert("description".into(), json!(text));
}

/// One requirement for each scope that suffices.
fn security(door: DocumentedDoor, scopes: &[&str]) -> Value {
    match (door, scopes) {
        (DocumentedDoor::Network, _) => json!([{"network_key": []}]),
        (DocumentedDoor::Company, []) => json!([{"access_token": []}]),
        (DocumentedDoor::Company, scopes) => {
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
    door: DocumentedDoor,
    needs_scope: bool,
) -> Vec<&'static str> {
    let has_body = operation.get("requestBody").is_some();
    let is_write = method != "get";
    let parameters = operation.get("parameters").and_then(Value::as_array);
    let has_query = parameters
        .is_some_and(|parameters| parameters.iter().any(|parameter| parameter["in"] == "query"));
    let has_condition = parameters.is_some_and(|parameters| {
        parameters.iter().any(|parameter| parameter["name"] == "If-Match")
    });
    let names_objects = path.contains('{') || door == DocumentedDoor::Network && has_body;
    let given = [
        (true, ["401", "500", "503"].as_slice()),
        (has_query || is_write || door == DocumentedDoor::Company, &["400"]),
        (needs_scope, &["403"]),
        (names_objects, &["404"]),
        (is_write, &["409"]),
        (has_condition, &["412"]),
        (door == DocumentedDoor::Company, &["429"]),
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
    if method != "get" {
        response["headers"]["idempotent-replayed"] =
            json!({"$ref": "#/components/headers/IdempotentReplayed"});
    }
}
