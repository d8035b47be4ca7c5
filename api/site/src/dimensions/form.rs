//! The fields of a category, department, label or location as the site shows and takes them.

use cardswitch_engine::limits;
use serde_json::{Map, Value, json};

use super::tree::{Branch, Tree};
use crate::dimension_choices::{DimensionChoice, DimensionField, choice_among};
use crate::forms::TypedFields;

/// The fields of one, with the names of `/v1`; `parent` is an id, a name or a code.
pub(super) const FIELDS: [&str; 3] = ["name", "code", "parent"];

/// The values sent, as `/v1` takes them.
pub(super) fn body_of(typed: &TypedFields) -> Map<String, Value> {
    let value = |name: &str| match typed.of(name).trim() {
        "" if name != "name" => Value::Null,
        id if name == "parent" => json!({ "id": id }),
        text => text.into(),
    };
    FIELDS.into_iter().map(|name| (name.to_owned(), value(name))).collect()
}

/// The possible parents of a dimension: all of its kind that have room below them, except those at
/// `left_out`.
pub(super) fn parent_choices(
    tree: &Tree,
    left_out: &std::ops::Range<usize>,
    chosen: &str,
) -> DimensionChoice {
    let has_room = |branch: &Branch| branch.level + 1 < limits::DIMENSION_LEVELS_MAX;
    let offered = tree.branches.iter().enumerate().filter(|(place, _)| !left_out.contains(place));
    let offered: Vec<_> =
        offered.map(|(_, branch)| branch).filter(|branch| has_room(branch)).collect();
    let none = "None (top level)";
    let asked = DimensionField { name: "parent", label: "Parent", none, chosen };
    choice_among(asked, &offered, tree.count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_fields_clear_what_was_there() {
        let body = |texts: [&str; 3]| {
            Value::Object(body_of(&FIELDS.into_iter().zip(texts).collect::<TypedFields>()))
        };
        let blank = json!({"name": "", "code": null, "parent": null});
        assert_eq!(body([" ", " ", ""]), blank);
        let whole = json!({"name": "Travel", "code": "6010", "parent": {"id": "x"}});
        assert_eq!(body([" Travel ", "6010 ", "x"]), whole);
    }
}
