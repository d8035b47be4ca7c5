//! What is typed of a member: shown again as it was, and the body of the API that it means.

use cardswitch_edge::error::ApiError;
use cardswitch_engine::directory::member::{Member, MemberRole};
use cardswitch_engine::domain::card::DimensionKind;
use cardswitch_engine::store::StoreError;
use cardswitch_v1::routes::members::{ROLES, is_settable, render_role};
use cardswitch_v1::routes::view::View;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::role_words;
use crate::choices::Choice;
use crate::dimension_choices::{
    DimensionChoice, Sent, again, chosen_of, dimension_choices, ids_of, put_dimensions,
};
use crate::faults::Faults;
use crate::seen::Seen;

/// What members can be sorted by. Source: spec "Member".
const KINDS: [DimensionKind; 3] =
    [DimensionKind::Department, DimensionKind::Label, DimensionKind::Location];

/// What was sent.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct MemberForm {
    /// First name.
    pub(super) first_name: String,
    /// Last name.
    pub(super) last_name: String,
    /// E-mail address; of a new member only.
    pub(super) email: String,
    /// Role.
    pub(super) role: String,
    /// Employee id.
    pub(super) code: String,
    /// What the form showed.
    pub(super) seen: String,
    department: Option<String>,
    label: Option<String>,
    location: Option<String>,
}

impl MemberForm {
    /// With what is known of a member.
    pub(super) fn of(member: &Member) -> Self {
        Self {
            first_name: member.first_name.clone(),
            last_name: member.last_name.clone(),
            email: member.email.clone(),
            role: render_role(member.role).to_owned(),
            code: member.code.clone().unwrap_or_default(),
            ..Self::default()
        }
    }

    fn sent(&self) -> Sent<'_> {
        let [department, label, location] =
            [&self.department, &self.label, &self.location].map(|sent| sent.as_deref());
        [None, department, label, location]
    }

    /// The fields of dimensions with what was sent, or what the member has.
    pub(super) fn choices(
        &self,
        view: &View<'_>,
        known: Option<&Member>,
    ) -> Result<Vec<DimensionChoice>, StoreError> {
        let known = known.map(|known| chosen_of(view, &known.dimensions)).transpose()?;
        let chosen = again(self.sent(), known.unwrap_or_default());
        dimension_choices(view, &KINDS, &chosen)
    }

    /// The roles that can be given, and the one that a member has.
    pub(super) fn roles(&self, known: Option<MemberRole>) -> Vec<Choice> {
        let is_offered = |role: MemberRole| is_settable(role) || known == Some(role);
        let chosen = if self.role.is_empty() { "member" } else { &self.role };
        let offered = ROLES.iter().rev().filter(|(_, role)| is_offered(*role));
        let choice = |(name, role): &(&str, MemberRole)| Choice {
            value: (*name).to_owned(),
            label: role_words(*role).to_owned(),
            is_chosen: *name == chosen,
        };
        offered.map(choice).collect()
    }

    /// The body that the API would take.
    pub(super) fn body(&self) -> Map<String, Value> {
        let mut body = Map::new();
        for (name, value) in [
            ("first_name", &self.first_name),
            ("last_name", &self.last_name),
            ("email", &self.email),
            ("role", &self.role),
            ("code", &self.code),
        ] {
            // Blank is what an API calls null; for a role it is the usual one.
            let value = match value.trim() {
                "" if name == "role" => continue,
                "" if name == "code" => Value::Null,
                value => json!(value),
            };
            body.insert(name.to_owned(), value);
        }
        put_dimensions(&mut body, self.sent());
        body
    }
}

/// What is wrong with the form. Errors: failures with pages of their own.
pub(super) fn faults_of(error: ApiError) -> Result<Faults, ApiError> {
    match error.code() {
        "email_taken" => {
            Ok(Faults::conflict("").and("email", "Another member has this email address."))
        }
        "code_taken" => {
            Ok(Faults::conflict("").and("code", "Another member has this employee ID."))
        }
        _ => Faults::of_refusal(error),
    }
}

/// What the form shows of a member.
pub(super) fn seen(member: &Member) -> Seen {
    let form = MemberForm::of(member);
    let [_, department, label, location] = ids_of(&member.dimensions);
    Seen::default()
        .field("first name", form.first_name)
        .field("last name", form.last_name)
        .field("role", form.role)
        .field("employee id", form.code)
        .field("department", department)
        .field("label", label)
        .field("location", location)
        .field("active status", member.takes_part())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_becomes_the_body_of_the_api() {
        let form = MemberForm {
            first_name: " Ada ".to_owned(),
            email: "ada@example.com".to_owned(),
            department: Some("x".to_owned()),
            location: Some(String::new()),
            ..MemberForm::default()
        };
        let expected = json!({
            "first_name": "Ada", "last_name": "", "email": "ada@example.com", "code": null,
            "department": {"id": "x"}, "location": null,
        });
        assert_eq!(Value::Object(form.body()), expected);
    }

    #[test]
    fn roles_of_operators_are_offered_to_whom_they_belong() {
        let form = |role: &str| MemberForm { role: role.to_owned(), ..MemberForm::default() };
        let names = |role: &str, known| {
            let roles = form(role).roles(known);
            assert_eq!(roles.iter().filter(|role| role.is_chosen).count(), 1, "{role}");
            roles.into_iter().map(|role| role.value).collect::<Vec<_>>()
        };
        assert_eq!(names("", None), ["member", "reviewer"]);
        let administrator = Some(MemberRole::Administrator);
        assert_eq!(names("administrator", administrator), ["member", "reviewer", "administrator"]);
        assert_eq!(names("reviewer", administrator).len(), 3);
    }
}
