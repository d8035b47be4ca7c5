//! The categories, departments, labels and locations of a company, for forms in which one of each
//! kind can be chosen.
//!
//! A form leaves out the kinds of which the company has none: what it does not send stays as it is.

use std::collections::BTreeMap;

use cardswitch_engine::domain::card::{DimensionKind, Dimensions};
use cardswitch_engine::domain::dimension::Dimension;
use cardswitch_engine::domain::ids::{DimensionId, DimensionSlot};
use cardswitch_engine::limits;
use cardswitch_engine::store::StoreError;
use cardswitch_engine::store::query::Page;
use serde_json::{Map, Value, json};

use super::choices::Choice;
use crate::routes::view::View;
use crate::wire::reference::DIMENSION_FIELDS;

/// What was sent of each kind: an id, nothing, or no such field.
pub(super) type Sent<'a> = [Option<&'a str>; 4];

/// One field.
#[derive(Debug)]
pub(super) struct DimensionChoice {
    /// The name of the field.
    pub(super) name: &'static str,
    /// What people call it.
    pub(super) label: &'static str,
    /// What there is to choose from, none first.
    pub(super) options: Vec<Choice>,
}

/// The fields of these kinds, with what is chosen; `chosen` are ids, blank for none.
/// Cost: O(dimensions of the kinds), which people make by hand; a field offers a thousand.
pub(super) fn dimension_choices(
    view: &View<'_>,
    kinds: &[DimensionKind],
    chosen: &[String; 4],
) -> Result<Vec<DimensionChoice>, StoreError> {
    let mut fields = Vec::new();
    for ((kind, name), chosen) in DimensionKind::ALL.into_iter().zip(DIMENSION_FIELDS).zip(chosen) {
        if kinds.contains(&kind)
            && let Some(options) = options_of(view, kind, chosen)?
        {
            fields.push(DimensionChoice { name, label: label_of(kind), options });
        }
    }
    Ok(fields)
}

const fn label_of(kind: DimensionKind) -> &'static str {
    match kind {
        DimensionKind::Category => "Category",
        DimensionKind::Department => "Department",
        DimensionKind::Label => "Label",
        DimensionKind::Location => "Location",
    }
}

fn options_of(
    view: &View<'_>,
    kind: DimensionKind,
    chosen: &str,
) -> Result<Option<Vec<Choice>>, StoreError> {
    let page = Page::first(limits::PAGE_LEN_MAX);
    let known = view.snapshot.list_dimensions(view.company.slot, kind, &page)?.rows;
    if known.is_empty() {
        return Ok(None);
    }
    let by_slot: BySlot<'_> = known.iter().map(|known| (known.slot, known)).collect();
    let option = |dimension: &Dimension| {
        let value = dimension.id.0.to_string();
        let is_chosen = value == chosen;
        Choice { value, label: path_of(dimension, &by_slot), is_chosen }
    };
    let mut options: Vec<_> = known.iter().map(option).collect();
    options.sort_by_cached_key(|option| option.label.to_lowercase());
    let none = Choice {
        value: String::new(),
        label: "None".to_owned(),
        is_chosen: options.iter().all(|option| !option.is_chosen),
    };
    options.insert(0, none);
    Ok(Some(options))
}

type BySlot<'a> = BTreeMap<DimensionSlot, &'a Dimension>;

/// A name with those of what it stands below, and its code.
fn path_of(dimension: &Dimension, known: &BySlot<'_>) -> String {
    let mut path = dimension.name.clone();
    let mut parent = dimension.parent;
    for _ in 0..limits::DIMENSION_LEVELS_MAX {
        let Some(above) = parent.and_then(|slot| known.get(&slot)) else { break };
        path = format!("{} › {path}", above.name);
        parent = above.parent;
    }
    match &dimension.code {
        Some(code) => format!("{path} ({code})"),
        None => path,
    }
}

/// The ids of an object's dimensions as its form has them; what was deleted is none.
pub(super) fn chosen_of(
    view: &View<'_>,
    dimensions: &Dimensions,
) -> Result<[String; 4], StoreError> {
    let references = view.dimension_references(dimensions)?;
    Ok(references.map(|known| known.map_or_else(String::new, |known| known.id.to_string())))
}

/// What was sent, to be shown again: what was not, as the object has it.
pub(super) fn again(sent: Sent<'_>, known: [String; 4]) -> [String; 4] {
    let mut chosen = known;
    for (chosen, sent) in chosen.iter_mut().zip(sent) {
        if let Some(sent) = sent {
            sent.clone_into(chosen);
        }
    }
    chosen
}

/// Adds what was sent to the body that the API would take.
pub(super) fn put_dimensions(body: &mut Map<String, Value>, sent: Sent<'_>) {
    for (name, sent) in DIMENSION_FIELDS.into_iter().zip(sent) {
        match sent.map(str::trim) {
            None => {}
            Some("") => drop(body.insert(name.to_owned(), Value::Null)),
            Some(id) => drop(body.insert(name.to_owned(), json!({ "id": id }))),
        }
    }
}

/// As digests of forms take them.
pub(super) fn ids_of(dimensions: &Dimensions) -> [String; 4] {
    let text = |id: DimensionId| id.0.to_string();
    dimensions.map(|id| id.map_or_else(String::new, text))
}

#[cfg(test)]
mod tests {
    use cardswitch_engine::domain::ids::{CompanySlot, Timestamp};
    use uuid::Uuid;

    use super::*;

    fn dimension(slot: u32, name: &str, parent: Option<u32>, code: Option<&str>) -> Dimension {
        Dimension {
            slot: DimensionSlot(slot),
            id: DimensionId(Uuid::from_u128(slot.into())),
            company: CompanySlot(0),
            kind: DimensionKind::Label,
            name: name.to_owned(),
            code: code.map(str::to_owned),
            parent: parent.map(DimensionSlot),
            is_deleted: false,
            created_at: Timestamp(0),
        }
    }

    #[test]
    fn names_are_told_apart_by_what_they_stand_below() {
        let known = [
            dimension(1, "Travel", None, Some("40")),
            dimension(2, "Flights", Some(1), None),
            dimension(3, "Europe", Some(2), Some("4711")),
            // Of one that is not among those known the name alone is told.
            dimension(4, "Asia", Some(9), None),
            // A ring, which the shard does not make, ends.
            dimension(5, "Ring", Some(5), None),
        ];
        let by_slot = known.iter().map(|known| (known.slot, known)).collect();
        let rows = ["Travel (40)", "Travel › Flights", "Travel › Flights › Europe (4711)", "Asia"];
        for (dimension, expected) in known.iter().zip(rows) {
            assert_eq!(path_of(dimension, &by_slot), expected);
        }
        assert!(path_of(&known[4], &by_slot).ends_with("› Ring"));
    }

    #[test]
    fn what_is_not_sent_stays_and_blank_clears() {
        let mut body = Map::new();
        put_dimensions(&mut body, [None, Some(" "), Some("x"), None]);
        assert_eq!(Value::Object(body), json!({"department": null, "label": {"id": "x"}}));
        let known = ["a", "b", "c", "d"].map(str::to_owned);
        assert_eq!(again([None, Some(""), Some("x"), None], known), ["a", "", "x", "d"]);
    }
}
