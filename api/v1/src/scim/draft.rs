//! A user as a client wants it: the attributes sent, name by name, before any change is made.
//!
//! POST and PUT fill an empty draft, PATCH changes that of the user as it is. The difference from
//! the user at the end is the change. No rule is repeated here: the parsers of `/v1` read the
//! values.

use cardswitch_edge::error::ApiError;
use cardswitch_engine::directory::member::MemberRole;
use cardswitch_engine::domain::email::email_key;
use cardswitch_engine::domain::text::LineText;
use cardswitch_wire::email::email;
use cardswitch_wire::fault::Flaw;
use cardswitch_wire::fields;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::attribute::Target;
use super::user::User;
use crate::routes::members;

/// The most characters of the id that a client gives.
const EXTERNAL_ID_CHARS_MAX: usize = 255;
/// The most characters of a department's name or code.
const DEPARTMENT_CHARS_MAX: usize = 200;

/// A user as a client wants it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct UserDraft {
    /// The e-mail address that people sign in with.
    pub(super) user_name: Option<String>,
    /// First name.
    pub(super) given_name: Option<LineText>,
    /// Last name.
    pub(super) family_name: Option<LineText>,
    /// Whether the member takes part.
    pub(super) active: Option<bool>,
    /// The role.
    pub(super) role: Option<MemberRole>,
    /// The client's own id.
    pub(super) external_id: Option<LineText>,
    /// The member's code.
    pub(super) employee_number: Option<String>,
    /// The department, by name or code.
    pub(super) department: Option<LineText>,
}

impl UserDraft {
    /// The draft of what a user is already.
    pub(super) fn of(user: &User) -> Self {
        let member = &user.member;
        Self {
            user_name: Some(member.email.clone()),
            given_name: Some(LineText::spaced(&member.first_name)),
            family_name: Some(LineText::spaced(&member.last_name)),
            active: Some(user.is_active()),
            role: Some(member.role),
            external_id: member.external_id.as_deref().map(LineText::spaced),
            employee_number: member.code.clone(),
            department: user.department.as_deref().map(LineText::spaced),
        }
    }

    /// Reads the body of POST or PUT. It ignores null, and attributes that only this side sets.
    /// Errors: a value that nobody could have.
    pub(super) fn read(body: &Map<String, Value>) -> Result<Self, ApiError> {
        let mut draft = Self::default();
        for (target, value) in targets(body) {
            let is_theirs = !matches!(target, Target::Settled | Target::Emails);
            if is_theirs && !value.is_null() {
                draft.set(target, value)?;
            }
        }
        Ok(draft)
    }

    /// Sets what `target` names.
    /// Errors: a value that it cannot have, or that it cannot be changed to.
    pub(super) fn set(&mut self, target: Target, value: &Value) -> Result<(), ApiError> {
        if value.is_null() {
            return self.remove(target);
        }
        match target {
            Target::Name | Target::Enterprise => return self.set_all(target, value),
            Target::UserName => self.set_user_name(value)?,
            Target::Emails => self.check_emails(value)?,
            Target::GivenName => {
                self.given_name = Some(read(value, "name.givenName", members::name)?);
            }
            Target::FamilyName => {
                self.family_name = Some(read(value, "name.familyName", members::name)?);
            }
            Target::Active => self.active = Some(flag(value)?),
            Target::UserType => self.role = Some(read(value, "userType", role)?),
            Target::ExternalId => {
                let line = |value: &RawValue| fields::line(value, EXTERNAL_ID_CHARS_MAX);
                self.external_id = Some(read(value, "externalId", line)?);
            }
            Target::EmployeeNumber => {
                self.employee_number = Some(read(value, "employeeNumber", members::code)?);
            }
            Target::Department => {
                let line = |value: &RawValue| fields::line(value, DEPARTMENT_CHARS_MAX);
                self.department = Some(read(value, "department", line)?);
            }
            Target::Settled => return Err(immutable("id, meta and schemas")),
            Target::Unkept => {}
        }
        Ok(())
    }

    /// Takes away what `target` names.
    /// Errors: every user has it.
    pub(super) fn remove(&mut self, target: Target) -> Result<(), ApiError> {
        match target {
            Target::ExternalId => self.external_id = None,
            Target::EmployeeNumber => self.employee_number = None,
            Target::Department => self.department = None,
            Target::Enterprise => (self.employee_number, self.department) = (None, None),
            Target::Unkept => {}
            Target::UserName
            | Target::Name
            | Target::GivenName
            | Target::FamilyName
            | Target::Active
            | Target::UserType
            | Target::Emails
            | Target::Settled => return Err(immutable("what every user has")),
        }
        Ok(())
    }

    /// Sets what the keys of an object name: those of a name or of what employers add, which stand
    /// there without what they belong to.
    fn set_all(&mut self, target: Target, value: &Value) -> Result<(), ApiError> {
        let (param, within) = match target {
            Target::Name => ("name", "name."),
            _ => (super::attribute::ENTERPRISE_SCHEMA, super::attribute::ENTERPRISE_PREFIX),
        };
        let object = value.as_object();
        let object = object.ok_or_else(|| ApiError::invalid_field(param, Flaw::not_an_object()))?;
        for (key, value) in object {
            // No object within these is looked into, so this goes no deeper.
            match Target::find(&format!("{within}{key}")) {
                Some(Target::Name | Target::Enterprise) | None => {}
                Some(target) => self.set(target, value)?,
            }
        }
        Ok(())
    }

    fn set_user_name(&mut self, value: &Value) -> Result<(), ApiError> {
        let wanted = read(value, "userName", email)?;
        match &self.user_name {
            Some(known) if email_key(known) == email_key(&wanted) => {}
            Some(_) => return Err(immutable("`userName`")),
            None => self.user_name = Some(wanted),
        }
        Ok(())
    }

    /// The only address is that of `userName`; nobody is to believe that another was taken.
    fn check_emails(&self, value: &Value) -> Result<(), ApiError> {
        let known = self.user_name.as_deref().map(email_key);
        let listed = value.as_array().map_or_else(|| vec![value], |list| list.iter().collect());
        for entry in listed {
            let address = entry.get("value").unwrap_or(entry);
            let is_known = address.as_str().map(email_key) == known;
            if !is_known && !address.is_null() {
                return Err(immutable("`emails`, which holds the address in `userName`,"));
            }
        }
        Ok(())
    }
}

/// The attributes that the keys of a body name; unknown keys are left out.
fn targets(body: &Map<String, Value>) -> impl Iterator<Item = (Target, &Value)> {
    body.iter().filter_map(|(key, value)| Some((Target::find(key)?, value)))
}

fn immutable(what: &str) -> ApiError {
    let message = format!("leaves {what} unchanged");
    ApiError::invalid_field("value", Flaw::new("immutable", message))
}

/// Reads a value as `/v1` does. Some identity providers put single values into a list.
fn read<T>(
    value: &Value,
    param: &str,
    reader: impl FnOnce(&RawValue) -> Result<T, Flaw>,
) -> Result<T, ApiError> {
    let raw = to_raw_value(sole(value)).map_err(|error| ApiError::internal(&error))?;
    reader(&raw).map_err(|flaw| ApiError::invalid_field(param, flaw))
}

fn sole(value: &Value) -> &Value {
    match value.as_array().map(Vec::as_slice) {
        Some([only]) => only.get("value").unwrap_or(only),
        _ => value,
    }
}

/// True or false, which some identity providers write as text.
fn flag(value: &Value) -> Result<bool, ApiError> {
    let flaw = || Flaw::new("not_a_boolean", "must be true or false");
    let read = match sole(value) {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => text.to_lowercase().parse().ok(),
        _ => None,
    };
    read.ok_or_else(|| ApiError::invalid_field("active", flaw()))
}

/// A role by its name in any case; whether it can be given to anybody is seen later.
fn role(value: &RawValue) -> Result<MemberRole, Flaw> {
    let name = fields::text(value)?.to_lowercase();
    MemberRole::parse(&name).ok_or_else(members::role_not_settable)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn known() -> UserDraft {
        UserDraft {
            user_name: Some("Ada@example.com".into()),
            given_name: Some("Ada".parse().unwrap()),
            family_name: Some("Lovelace".parse().unwrap()),
            active: Some(true),
            role: Some(MemberRole::Member),
            external_id: Some("7".parse().unwrap()),
            employee_number: Some("42".into()),
            department: Some("Mathematics".parse().unwrap()),
        }
    }

    #[test]
    fn each_value_is_read_or_refused() {
        let rows: &[(Target, Value, Option<&str>)] = &[
            (Target::UserName, json!("ADA@EXAMPLE.COM"), None),
            (Target::UserName, json!("bob@example.com"), Some("immutable")),
            (Target::UserName, json!("ada"), Some("not_an_email")),
            (Target::UserName, json!([{"$ref": null, "value": "ada@example.com"}]), None),
            (Target::UserName, json!(5), Some("not_text")),
            (Target::GivenName, json!("Grace"), None),
            (Target::GivenName, json!(" "), Some("blank")),
            (Target::GivenName, json!("x".repeat(101)), Some("too_long")),
            (Target::GivenName, json!("A\r\nB: c"), Some("control_character")),
            (Target::GivenName, json!(null), Some("immutable")),
            (Target::FamilyName, json!(["a", "b"]), Some("not_text")),
            (Target::Name, json!({"givenName": "Grace", "formatted": "x", "middleName": 5}), None),
            (Target::Name, json!({"GIVENNAME": 5}), Some("not_text")),
            (Target::Name, json!("Grace Hopper"), Some("not_an_object")),
            (Target::Active, json!(false), None),
            (Target::Active, json!("False"), None),
            (Target::Active, json!("true"), None),
            (Target::Active, json!("no"), Some("not_a_boolean")),
            (Target::Active, json!(0), Some("not_a_boolean")),
            (Target::Active, json!(null), Some("immutable")),
            (Target::UserType, json!("Reviewer"), None),
            (Target::UserType, json!("administrator"), None),
            (Target::UserType, json!("root"), Some("unknown_value")),
            (Target::ExternalId, json!("00u1a2b3"), None),
            (Target::ExternalId, json!(null), None),
            (Target::ExternalId, json!(""), Some("blank")),
            (Target::ExternalId, json!("x".repeat(256)), Some("too_long")),
            (Target::EmployeeNumber, json!("0042"), None),
            (Target::EmployeeNumber, json!(42), None),
            (Target::EmployeeNumber, json!("E42"), Some("not_digits")),
            (Target::Enterprise, json!({"employeeNumber": "1", "manager": {"value": "x"}}), None),
            (Target::Enterprise, json!({"department": {}}), Some("not_text")),
            (Target::Enterprise, json!([]), Some("not_an_object")),
            (Target::Emails, json!("ada@EXAMPLE.com"), None),
            (Target::Emails, json!([{"value": "ada@example.com", "type": "home"}]), None),
            (Target::Emails, json!([{"value": "eve@example.com"}]), Some("immutable")),
            (Target::Emails, json!("eve@example.com"), Some("immutable")),
            (Target::Settled, json!("x"), Some("immutable")),
            (Target::Unkept, json!({"deep": [[[1]]]}), None),
        ];
        for (target, value, code) in rows {
            let told = known().set(*target, value).err().map(|error| error.code);
            assert_eq!(told, *code, "{target:?} {value}");
        }
    }

    #[test]
    fn only_what_is_optional_can_be_taken_away() {
        for target in [Target::ExternalId, Target::EmployeeNumber, Target::Department] {
            let mut draft = known();
            draft.remove(target).unwrap();
            assert_ne!(draft, known(), "{target:?}");
        }
        let mut draft = known();
        draft.remove(Target::Enterprise).unwrap();
        assert_eq!((draft.employee_number, draft.department), (None, None));
        for target in [Target::UserName, Target::Name, Target::Active, Target::Emails] {
            let told = known().remove(target).unwrap_err();
            assert_eq!(told.code, "immutable", "{target:?}");
        }
    }

    #[test]
    fn bodies_are_read_whatever_else_is_in_them() {
        let body = json!({
            "schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"],
            "id": "x", "meta": 5, "password": "secret", "groups": [], "unknown": 7, "active": null,
            "USERNAME": "ada@example.com",
            "emails": [{"value": "other@example.com"}],
            "name": {"givenName": "Ada", "familyName": "Lovelace"},
            "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User": {"employeeNumber": "42"},
        });
        let draft = UserDraft::read(body.as_object().unwrap()).unwrap();
        let expected = UserDraft {
            active: None,
            role: None,
            external_id: None,
            department: None,
            user_name: Some("ada@example.com".into()),
            ..known()
        };
        assert_eq!(draft, expected);
    }
}
