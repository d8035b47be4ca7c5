//! A user as SCIM shows it: a member of the company. Source: RFC 7643, 4.1 and 4.3.

use cardswitch_engine::directory::member::{Member, MemberState};
use cardswitch_engine::domain::card::DimensionKind;
use cardswitch_engine::store::StoreError;
use cardswitch_wire::time::render_time;
use cardswitch_wire::urls::Urls;
use serde_json::{Value, json};

use super::attribute::{ENTERPRISE_SCHEMA, Field, USER_SCHEMA};
use super::filter::{FieldValue, Filter};
use crate::routes::view::View;

/// The name of users as resources.
pub(super) const RESOURCE_TYPE: &str = "User";
/// The purpose of the only e-mail address.
const EMAIL_TYPE: &str = "work";
/// The place of the department among a member's dimensions.
const DEPARTMENT: usize = DimensionKind::Department as usize;

/// A member with what is kept beside it.
#[derive(Clone, Debug)]
pub(super) struct User {
    /// The member.
    pub(super) member: Member,
    /// The name of its department.
    pub(super) department: Option<String>,
    display_name: String,
    id: String,
}

impl User {
    /// The user that a member is.
    /// Errors: the rows kept beside it cannot be read.
    pub(super) fn new(member: Member, view: &View<'_>) -> Result<Self, StoreError> {
        let department = view.dimension_reference(member.dimensions[DEPARTMENT])?;
        Ok(Self {
            department: department.map(|department| department.name),
            display_name: format!("{} {}", member.first_name, member.last_name),
            id: member.id.0.to_string(),
            member,
        })
    }

    /// Whether it takes part.
    pub(super) fn is_active(&self) -> bool {
        self.member.state == MemberState::Active
    }

    /// Whether a filter finds it.
    pub(super) fn is_found_by(&self, filter: &Filter) -> bool {
        filter.accepts(&mut |field| self.value_of(field))
    }

    fn value_of(&self, field: Field) -> Option<FieldValue<'_>> {
        let member = &self.member;
        let text = match field {
            Field::Active => return Some(FieldValue::Flag(self.is_active())),
            Field::EmailPrimary => return Some(FieldValue::Flag(true)),
            Field::Created => return Some(FieldValue::Time(member.created_at)),
            Field::Id => &self.id,
            Field::ExternalId => self.member.external_id.as_deref()?,
            Field::UserName | Field::Email => &member.email,
            Field::GivenName => &member.first_name,
            Field::FamilyName => &member.last_name,
            Field::DisplayName => &self.display_name,
            Field::UserType => member.role.word(),
            Field::EmailType => EMAIL_TYPE,
            Field::EmployeeNumber => member.code.as_deref()?,
            Field::Department => self.department.as_deref()?,
            Field::ResourceType => RESOURCE_TYPE,
        };
        Some(FieldValue::Text(text))
    }

    /// The user as it is shown whole.
    pub(super) fn body(&self, urls: &Urls) -> Value {
        let member = &self.member;
        let mut body = json!({
            "schemas": [USER_SCHEMA],
            "id": self.id,
            "userName": member.email,
            "name": {"givenName": member.first_name, "familyName": member.last_name},
            "displayName": self.display_name,
            "active": self.is_active(),
            "userType": member.role.word(),
            "emails": [{"value": member.email, "type": EMAIL_TYPE, "primary": true}],
            "meta": {
                "resourceType": RESOURCE_TYPE,
                "created": render_time(member.created_at),
                "location": urls.path(&format!("/scim/v2/Users/{}", self.id)),
            },
        });
        if let Some(external_id) = &self.member.external_id {
            body["externalId"] = json!(external_id);
        }
        let mut enterprise = serde_json::Map::new();
        let added = [("employeeNumber", &member.code), ("department", &self.department)];
        for (name, value) in added {
            if let Some(value) = value {
                enterprise.insert(name.to_owned(), json!(value));
            }
        }
        if !enterprise.is_empty() {
            body["schemas"] = json!([USER_SCHEMA, ENTERPRISE_SCHEMA]);
            body[ENTERPRISE_SCHEMA] = Value::Object(enterprise);
        }
        body
    }
}
