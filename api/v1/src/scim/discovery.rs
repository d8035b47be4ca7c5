//! Discovery for clients: the capabilities of this side, and the attributes of users.
//! Source: RFC 7643, 5 to 7; RFC 7644, 4.

use std::sync::LazyLock;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use cardswitch_edge::error::ApiError;
use cardswitch_identity::state::AppState;
use cardswitch_wire::urls::Urls;
use serde_json::{Value, json};

use super::attribute::{ENTERPRISE_SCHEMA, USER_SCHEMA};
use super::error::ScimError;
use super::selection::COUNT_MAX;
use super::user::RESOURCE_TYPE;
use super::{ScimJson, list_response};

/// The schemas as they are published: that of users as members have them, and those of what is
/// published here itself, as the standard has them.
static SCHEMAS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    // INVARIANT: a test reads the file.
    serde_json::from_str(include_str!("../../data/scim_schemas.json")).unwrap_or_default()
});

/// The capabilities of this side.
pub(super) async fn get_config(State(state): State<AppState>) -> ScimJson {
    let unsupported = json!({"supported": false});
    ScimJson(json!({
        "schemas": ["urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"],
        "patch": {"supported": true},
        "bulk": {"supported": false, "maxOperations": 0, "maxPayloadSize": 0},
        "filter": {"supported": true, "maxResults": COUNT_MAX},
        "changePassword": unsupported,
        "sort": unsupported,
        "etag": unsupported,
        "authenticationSchemes": [{
            "type": "oauthbearertoken",
            "name": "Access token",
            "description": "Authorization: Bearer <ACCESS_TOKEN>, a token with the scope `scim`",
            "primary": true,
        }],
        "meta": meta(state.urls(), "ServiceProviderConfig", "ServiceProviderConfig"),
    }))
}

/// The kinds of resources: users.
pub(super) async fn list_resource_types(State(state): State<AppState>) -> ScimJson {
    ScimJson(list_response(1, 1, vec![resource_type(state.urls())]))
}

/// One kind of resources.
pub(super) async fn get_resource_type(
    State(state): State<AppState>,
    name: Result<Path<String>, PathRejection>,
) -> Result<ScimJson, ScimError> {
    match name.as_ref().map(|Path(name)| name.as_str()) {
        Ok(RESOURCE_TYPE) => Ok(ScimJson(resource_type(state.urls()))),
        _ => Err(ApiError::not_found().into()),
    }
}

fn resource_type(urls: &Urls) -> Value {
    json!({
        "schemas": ["urn:ietf:params:scim:schemas:core:2.0:ResourceType"],
        "id": RESOURCE_TYPE,
        "name": RESOURCE_TYPE,
        "description": "Members of the company",
        "endpoint": "/Users",
        "schema": USER_SCHEMA,
        "schemaExtensions": [{"schema": ENTERPRISE_SCHEMA, "required": false}],
        "meta": meta(urls, "ResourceType", &format!("ResourceTypes/{RESOURCE_TYPE}")),
    })
}

/// The schemas of everything here.
pub(super) async fn list_schemas(State(state): State<AppState>) -> ScimJson {
    let schemas: Vec<_> = SCHEMAS.iter().map(|schema| published(schema, state.urls())).collect();
    ScimJson(list_response(schemas.len() as u64, 1, schemas))
}

/// One schema.
pub(super) async fn get_schema(
    State(state): State<AppState>,
    urn: Result<Path<String>, PathRejection>,
) -> Result<ScimJson, ScimError> {
    let Path(urn) = urn.map_err(|_| ApiError::not_found())?;
    let schema = SCHEMAS.iter().find(|schema| schema["id"] == urn.as_str());
    let schema = schema.ok_or_else(ApiError::not_found)?;
    Ok(ScimJson(published(schema, state.urls())))
}

fn published(schema: &Value, urls: &Urls) -> Value {
    let mut schema = schema.clone();
    let urn = schema["id"].as_str().unwrap_or_default();
    schema["meta"] = meta(urls, "Schema", &format!("Schemas/{urn}"));
    schema
}

fn meta(urls: &Urls, resource_type: &str, path: &str) -> Value {
    json!({"resourceType": resource_type, "location": urls.path(&format!("/scim/v2/{path}"))})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schemas_are_those_named_elsewhere() {
        let ids: Vec<_> = SCHEMAS.iter().filter_map(|schema| schema["id"].as_str()).collect();
        let core = "urn:ietf:params:scim:schemas:core:2.0:";
        let expected = [
            USER_SCHEMA.to_owned(),
            ENTERPRISE_SCHEMA.to_owned(),
            format!("{core}ServiceProviderConfig"),
            format!("{core}ResourceType"),
            format!("{core}Schema"),
        ];
        assert_eq!(ids, expected);
    }
}
