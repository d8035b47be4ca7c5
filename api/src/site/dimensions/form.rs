//! The fields of a category, department, label or location as the site shows and takes them.

use cardswitch_engine::limits;
use serde::Deserialize;
use serde_json::{Value, json};

use super::tree::Branch;
use crate::site::choices::{Choice, choices};

/// What was sent.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct DimensionFields {
    /// Its name.
    pub(super) name: String,
    /// Its number in accounting; blank where it has none.
    pub(super) code: String,
    /// The id of what it stands below; blank where it stands on its own.
    pub(super) parent: String,
    /// What the form showed when it was made.
    pub(super) seen: String,
}

impl DimensionFields {
    /// As `/v1` takes it.
    pub(super) fn body(&self) -> Value {
        let code = self.code.trim();
        json!({
            "name": self.name.trim(),
            "code": (!code.is_empty()).then_some(code),
            "parent": (!self.parent.is_empty()).then(|| json!({"id": self.parent})),
        })
    }
}

/// What one may be part of: everything of its kind that has room below it, but for those at
/// `left_out`.
pub(super) fn parent_choices(
    branches: &[Branch],
    left_out: &std::ops::Range<usize>,
    chosen: &str,
) -> Vec<Choice> {
    let has_room = |branch: &Branch| branch.level + 1 < limits::DIMENSION_LEVELS_MAX;
    let offered = branches.iter().enumerate().filter(|(place, _)| !left_out.contains(place));
    let offered = offered.map(|(_, branch)| branch).filter(|branch| has_room(branch));
    let choice = |branch: &Branch| {
        let value = branch.dimension.id.0.to_string();
        Choice { is_chosen: value == chosen, label: branch.choice_words(), value }
    };
    choices([("", "Nothing: it stands on its own")], chosen)
        .into_iter()
        .chain(offered.map(choice))
        .collect()
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
        assert_eq!(fields(" ", " ", "").body(), blank);
        let whole = json!({"name": "Travel", "code": "6010", "parent": {"id": "x"}});
        assert_eq!(fields(" Travel ", "6010 ", "x").body(), whole);
    }
}
