//! The form of a member as typed: shown again as it was, and the body of the API that it means.

use cardswitch_edge::error::ApiError;
use cardswitch_engine::directory::member::{Member, MemberRole};
use cardswitch_engine::domain::card::DimensionKind;
use cardswitch_v1::routes::members::is_settable;
use cardswitch_wire::reference::DIMENSION_FIELDS;
use serde_json::{Map, Value, json};

use super::role_words;
use crate::choices::{Choice, choices};
use crate::dimension_choices::{ids_of, put_dimensions};
use crate::faults::Faults;
use crate::form_snapshot::FormSnapshot;
use crate::forms::TypedFields;

/// The kinds of dimensions that members can have. Source: spec "Member".
pub(super) const KINDS: [DimensionKind; 3] =
    [DimensionKind::Department, DimensionKind::Label, DimensionKind::Location];

/// The fields of a member who takes part, each with its label.
const FIELDS: [(&str, &str); 4] = [
    ("first_name", "first name"),
    ("last_name", "last name"),
    ("role", "role"),
    ("code", "employee id"),
];

/// The fields of a member's form, as the member is.
pub(super) fn shown_of(member: &Member) -> TypedFields {
    let shown = [
        ("first_name", member.first_name.clone()),
        ("last_name", member.last_name.clone()),
        ("role", member.role.word().to_owned()),
        ("code", member.code.clone().unwrap_or_default()),
    ];
    shown.into_iter().collect()
}

/// The roles that can be given, and the one that a member has.
pub(super) fn roles(typed: &TypedFields, known: Option<MemberRole>) -> Vec<Choice> {
    let is_offered = |role: MemberRole| is_settable(role) || known == Some(role);
    let chosen = typed.get("role").filter(|role| !role.is_empty()).unwrap_or("member");
    let offered = MemberRole::ALL.into_iter().rev().filter(|role| is_offered(*role));
    choices(offered.map(|role| (role.word(), role_words(role))), chosen)
}

/// The body that the API would take.
pub(super) fn body_of(typed: &TypedFields) -> Map<String, Value> {
    let mut body = Map::new();
    for name in FIELDS.map(|(name, _)| name).into_iter().chain(["email"]) {
        // A blank field is null in the API; a blank role is the usual one.
        let value = match typed.of(name).trim() {
            "" if name == "role" => continue,
            "" if name == "code" => Value::Null,
            value => json!(value),
        };
        body.insert(name.to_owned(), value);
    }
    put_dimensions(&mut body, typed.dimensions());
    body
}

/// The faults of the form. Errors: failures with pages of their own.
pub(super) fn faults_of(error: ApiError) -> Result<Faults, ApiError> {
    match error.code {
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
    let shown = shown_of(member);
    FormSnapshot::default()
        .fields(FIELDS.map(|(name, words)| (words, shown.of(name))))
        // Members have no category.
        .fields(DIMENSION_FIELDS.into_iter().zip(ids_of(&member.dimensions)).skip(1))
        .field("active status", member.takes_part())
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
        let expected = json!({
            "first_name": "Ada", "last_name": "", "email": "ada@example.com", "code": null,
            "department": {"id": "x"}, "location": null,
        });
        assert_eq!(Value::Object(body_of(&typed.into_iter().collect())), expected);
    }

    #[test]
    fn roles_of_operators_are_offered_to_whom_they_belong() {
        let names = |role, known| {
            let roles = roles(&[("role", role)].into_iter().collect(), known);
            assert_eq!(roles.iter().filter(|role| role.is_chosen).count(), 1, "{role}");
            roles.into_iter().map(|role| role.value).collect::<Vec<_>>()
        };
        assert_eq!(names("", None), ["member", "reviewer"]);
        let administrator = Some(MemberRole::Administrator);
        assert_eq!(names("administrator", administrator), ["member", "reviewer", "administrator"]);
        assert_eq!(names("reviewer", administrator).len(), 3);
    }
}
