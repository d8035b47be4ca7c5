//! The fields of a category, department, label or location as the site shows and takes them.

use cardswitch_engine::limits;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::tree::{Branch, Tree};
use crate::dimension_choices::{Asked, DimensionChoice, choice_among};

/// What was sent.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct DimensionFields {
    /// Its name.
    pub(super) name: String,
    /// Its number in accounting; blank where it has none.
    pub(super) code: String,
    /// The id of parent, or its name or code; blank where it stands on its own.
    pub(super) parent: String,
    /// What the form showed when it was made.
    pub(super) seen: String,
}

impl DimensionFields {
    /// As `/v1` takes it.
    pub(super) fn body(&self) -> Map<String, Value> {
        let (code, parent) = (self.code.trim(), self.parent.trim());
        let parent = (!parent.is_empty()).then(|| json!({ "id": parent }));
        Map::from_iter([
            ("name".to_owned(), self.name.trim().into()),
            ("code".to_owned(), (!code.is_empty()).then_some(code).into()),
            ("parent".to_owned(), parent.into()),
        ])
    }
}

/// What one may be part of: everything of its kind that has room below it, but for those at
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
    let asked = Asked { name: "parent", label: "Parent", none, chosen };
    choice_among(asked, &offered, tree.count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_fields_clear_what_was_there() {
        let fields = |name: &str, code: &str, parent: &str| DimensionFields {
            name: name.to_owned(),
            code: code.to_owned(),
            parent: parent.to_owned(),
            seen: String::new(),
        };
        let blank = json!({"name": "", "code": null, "parent": null});
        assert_eq!(Value::Object(fields(" ", " ", "").body()), blank);
        let whole = json!({"name": "Travel", "code": "6010", "parent": {"id": "x"}});
        assert_eq!(Value::Object(fields(" Travel ", "6010 ", "x").body()), whole);
    }
}
