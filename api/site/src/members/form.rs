//! The form of a member as typed: shown again as it was, and the body of the API that it means.

use cardswitch_edge::error::ApiError;
use cardswitch_engine::directory::member::{Member, MemberRole};
use cardswitch_engine::domain::card::DimensionKind;
use cardswitch_engine::store::StoreError;
use cardswitch_v1::routes::members::{ROLES, is_settable, render_role};
use cardswitch_v1::routes::view::View;
use cardswitch_wire::reference::DIMENSION_FIELDS;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::role_words;
use crate::choices::Choice;
use crate::dimension_choices::{DimensionChoice, ids_of, put_dimensions};
use crate::faults::Faults;
use crate::form_snapshot::FormSnapshot;
use crate::forms::TypedFields;

/// The kinds of dimensions that members can have. Source: spec "Member".
const KINDS: [DimensionKind; 3] =
    [DimensionKind::Department, DimensionKind::Label, DimensionKind::Location];

/// The fields of a member who takes part, each with its label.
const FIELDS: [(&str, &str); 4] = [
    ("first_name", "first name"),
    ("last_name", "last name"),
    ("role", "role"),
    ("code", "employee id"),
];

/// A form as it was sent: fields with the names of `/v1`.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct MemberForm {
    #[serde(flatten)]
    pub(super) typed: TypedFields,
}

impl MemberForm {
    /// The form of a member, with the stored values.
    pub(super) fn of(member: &Member) -> Self {
        let typed = [
            ("first_name", member.first_name.clone()),
            ("last_name", member.last_name.clone()),
            ("role", render_role(member.role).to_owned()),
            ("code", member.code.clone().unwrap_or_default()),
        ];
        Self { typed: typed.into_iter().collect() }
    }

    /// The fields of dimensions with the values sent, else those of the member.
    pub(super) fn choices(
        &self,
        view: &View<'_>,
        known: Option<&Member>,
    ) -> Result<Vec<DimensionChoice>, StoreError> {
        self.typed.dimension_choices(view, &KINDS, known.map(|known| &known.dimensions))
    }

    /// The roles that can be given, and the one that a member has.
    pub(super) fn roles(&self, known: Option<MemberRole>) -> Vec<Choice> {
        let is_offered = |role: MemberRole| is_settable(role) || known == Some(role);
        let chosen = self.typed.get("role").filter(|role| !role.is_empty()).unwrap_or("member");
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
        for name in FIELDS.map(|(name, _)| name).into_iter().chain(["email"]) {
            // A blank field is null in the API; a blank role is the usual one.
            let value = match self.typed.of(name).trim() {
                "" if name == "role" => continue,
                "" if name == "code" => Value::Null,
                value => json!(value),
            };
            body.insert(name.to_owned(), value);
        }
        put_dimensions(&mut body, self.typed.dimensions());
        body
    }
}

/// The faults of the form. Errors: failures with pages of their own.
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

/// The values that a member's form shows, compared where two people edit it at once.
pub(super) fn seen(member: &Member) -> FormSnapshot {
    let typed = MemberForm::of(member).typed;
    let seen = FIELDS
        .into_iter()
        .fold(FormSnapshot::default(), |seen, (name, words)| seen.field(words, typed.of(name)));
    // Members have no category.
    let dimensions = DIMENSION_FIELDS.into_iter().zip(ids_of(&member.dimensions)).skip(1);
    let seen = dimensions.fold(seen, |seen, (name, id)| seen.field(name, id));
    seen.field("active status", member.takes_part())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_becomes_the_body_of_the_api() {
        let typed = [
            ("first_name", " Ada "),
            ("email", "ada@example.com"),
            ("department", "x"),
            ("location", ""),
        ];
        let form = MemberForm { typed: typed.into_iter().collect() };
        let expected = json!({
            "first_name": "Ada", "last_name": "", "email": "ada@example.com", "code": null,
            "department": {"id": "x"}, "location": null,
        });
        assert_eq!(Value::Object(form.body()), expected);
    }

    #[test]
    fn roles_of_operators_are_offered_to_whom_they_belong() {
        let form = |role| MemberForm { typed: [("role", role)].into_iter().collect() };
        let names = |role, known| {
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
