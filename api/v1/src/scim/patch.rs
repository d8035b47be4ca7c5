//! PATCH: operations one after the other, all of them or none. Source: RFC 7644, 3.5.2.
//!
//! Taken as well is what the large identity providers send: operations in capitals, truths as text,
//! values without a path, names with dots as keys of these.

use cardswitch_edge::error::ApiError;
use cardswitch_wire::fault::Flaw;
use serde_json::{Map, Value};

use super::attribute::Target;
use super::draft::UserDraft;

/// The most operations of one request.
const OPERATIONS_MAX: usize = 100;

/// Applies the operations in a body.
/// Errors: one of them cannot be read, or not be applied.
pub(super) fn apply(draft: &mut UserDraft, body: &Map<String, Value>) -> Result<(), ApiError> {
    let operations = member(body, "Operations").and_then(Value::as_array);
    let operations = operations
        .filter(|operations| (1..=OPERATIONS_MAX).contains(&operations.len()))
        .ok_or_else(|| {
            let message = format!("must be a list of 1 to {OPERATIONS_MAX} operations");
            ApiError::invalid_field("Operations", Flaw::new("not_operations", message))
        })?;
    operations.iter().try_for_each(|operation| apply_one(draft, operation))
}

fn apply_one(draft: &mut UserDraft, operation: &Value) -> Result<(), ApiError> {
    let not_an_object = || ApiError::invalid_field("Operations", Flaw::not_an_object());
    let operation = operation.as_object().ok_or_else(not_an_object)?;
    let op = member(operation, "op").and_then(Value::as_str).unwrap_or_default();
    let path = match member(operation, "path") {
        None | Some(Value::Null) => None,
        Some(Value::String(path)) => Some(path.as_str()),
        Some(_) => {
            return Err(ApiError::invalid_field("path", Flaw::new("not_text", "must be text")));
        }
    };
    let value = member(operation, "value");
    match op.to_lowercase().as_str() {
        "remove" => match path {
            Some(path) => draft.remove(Target::parse(path)?),
            None => Err(no_target()),
        },
        "add" | "replace" => {
            let value = value.ok_or_else(|| ApiError::invalid_field("value", Flaw::required()))?;
            match path {
                Some(path) => draft.set(Target::parse(path)?, value),
                None => set_each(draft, value),
            }
        }
        _ => {
            let flaw = Flaw::new("unknown_value", "must be `add`, `replace` or `remove`");
            Err(ApiError::invalid_field("op", flaw))
        }
    }
}

/// Sets the attributes that the keys of a value without a path name. Unknown keys are ignored, as
/// in other bodies.
fn set_each(draft: &mut UserDraft, value: &Value) -> Result<(), ApiError> {
    let object = value.as_object();
    let object = object.ok_or_else(|| ApiError::invalid_field("value", Flaw::not_an_object()))?;
    for (key, value) in object {
        match Target::find(key) {
            Some(Target::Settled) | None => {}
            Some(target) => draft.set(target, value)?,
        }
    }
    Ok(())
}

fn no_target() -> ApiError {
    ApiError::invalid_field("path", Flaw::new("no_target", "is needed to remove something"))
}

/// The member of this name in any case.
pub(super) fn member<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let exact = object.get(name);
    exact.or_else(|| object.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, v)| v))
}

#[cfg(test)]
mod tests {
    use cardswitch_engine::directory::member::MemberRole;
    use serde_json::json;

    use super::*;

    fn known() -> UserDraft {
        UserDraft {
            user_name: Some("ada@example.com".into()),
            given_name: Some("Ada".parse().unwrap()),
            family_name: Some("Lovelace".parse().unwrap()),
            active: Some(true),
            role: Some(MemberRole::Member),
            external_id: None,
            employee_number: Some("42".into()),
            department: Some("Mathematics".parse().unwrap()),
        }
    }

    fn patched(operations: &Value) -> Result<UserDraft, ApiError> {
        let body = json!({"Operations": operations});
        let mut draft = known();
        apply(&mut draft, body.as_object().unwrap()).map(|()| draft)
    }

    #[test]
    fn identity_providers_are_understood() {
        let inactive = UserDraft { active: Some(false), ..known() };
        let renamed = UserDraft { given_name: Some("Grace".parse().unwrap()), ..known() };
        let alone = UserDraft { employee_number: None, department: None, ..known() };
        let moved = UserDraft { department: Some("Physics".parse().unwrap()), ..known() };
        let enterprise = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";
        let department = format!("{enterprise}:department");
        let rows = [
            (json!([{"op": "replace", "value": {"active": false}}]), &inactive),
            (json!([{"op": "Replace", "path": "active", "value": "False"}]), &inactive),
            (json!([{"op": "Add", "path": "active", "value": [{"value": "False"}]}]), &inactive),
            (json!([{"op": "replace", "path": "name.givenName", "value": "Grace"}]), &renamed),
            (json!([{"op": "add", "value": {"name.givenName": "Grace"}}]), &renamed),
            (json!([{"op": "add", "path": "name", "value": {"givenName": "Grace"}}]), &renamed),
            (json!([{"op": "replace", "path": department, "value": "Physics"}]), &moved),
            (json!([{"op": "add", "value": {department.as_str(): "Physics"}}]), &moved),
            (json!([{"op": "add", "value": {enterprise: {"department": "Physics"}}}]), &moved),
            (json!([{"op": "remove", "path": enterprise}]), &alone),
            (
                json!([
                    {"op": "replace", "path": "displayName", "value": "Ada L."},
                    {"op": "add", "path": "emails[type eq \"work\"].value", "value": "ada@example.com"},
                    {"op": "replace", "value": {"id": "x", "title": "Countess", "unknown": 1}},
                    {"op": "remove", "path": "title"},
                ]),
                &known(),
            ),
            (
                json!([
                    {"op": "replace", "path": "active", "value": false},
                    {"op": "replace", "path": "active", "value": true},
                ]),
                &known(),
            ),
        ];
        for (operations, expected) in rows {
            assert_eq!(patched(&operations).as_ref(), Ok(expected), "{operations}");
        }
    }

    #[test]
    fn what_cannot_be_applied_is_refused_by_its_cause() {
        let many = vec![json!({"op": "add", "value": {}}); OPERATIONS_MAX + 1];
        let rows = [
            (json!([]), "not_operations"),
            (json!(null), "not_operations"),
            (json!({"op": "add"}), "not_operations"),
            (json!(many), "not_operations"),
            (json!([5]), "not_an_object"),
            (json!([{"op": "move", "path": "active", "value": 1}]), "unknown_value"),
            (json!([{"path": "active", "value": true}]), "unknown_value"),
            (json!([{"op": "replace", "path": "active"}]), "required"),
            (json!([{"op": "replace", "path": 5, "value": true}]), "not_text"),
            (json!([{"op": "replace", "path": "nothing", "value": true}]), "invalid_path"),
            (json!([{"op": "replace", "path": "emails[", "value": "x"}]), "invalid_path"),
            (json!([{"op": "replace", "path": "emails[type]", "value": "x"}]), "invalid_filter"),
            (json!([{"op": "replace", "value": true}]), "not_an_object"),
            (json!([{"op": "remove"}]), "no_target"),
            (json!([{"op": "remove", "path": "userName"}]), "immutable"),
            (json!([{"op": "replace", "path": "id", "value": "x"}]), "immutable"),
            (json!([{"op": "replace", "path": "userName", "value": "b@example.com"}]), "immutable"),
            (
                json!([{"op": "replace", "path": "active", "value": false}, {"op": "remove"}]),
                "no_target",
            ),
        ];
        for (operations, code) in rows {
            let told = patched(&operations).err().map(|error| error.code);
            assert_eq!(told, Some(code), "{operations}");
        }
    }
}
