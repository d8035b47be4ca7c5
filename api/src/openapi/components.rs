//! The components that operations share: errors, headers, parameters, and the ways to prove access.

use cardswitch_edge::error::ErrorBody;
use cardswitch_edge::min_seq::MIN_SEQ;
use cardswitch_identity::scope_words::SCOPES;
use cardswitch_wire::error_codes::ERRORS_PATH;
use cardswitch_wire::urls::Urls;
use serde_json::{Map, Value, json};
use utoipa::{PartialSchema, ToSchema};

use super::failures::{FAILURES, SharedFailure};
use super::finish::DocumentedDoor;
use super::schemas::referred_to;

pub(super) fn add_components(document: &mut Value, door: DocumentedDoor, urls: &Urls) {
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
    if door == DocumentedDoor::Company {
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
    if door == DocumentedDoor::Company {
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
        DocumentedDoor::Company => ("access_token", access_token_scheme(urls)),
        DocumentedDoor::Network => (
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

/// Removes components that no operation refers to.
pub(super) fn drop_unused_components(document: &mut Value) {
    let used = referred_to(document, vec![&document["paths"]], |_| true);
    for (kind, named) in document["components"].as_object_mut().into_iter().flatten() {
        if let Some(named) = named.as_object_mut().filter(|_| kind != "securitySchemes") {
            named.retain(|name, _| used.contains(&format!("/components/{kind}/{name}")));
        }
    }
}
