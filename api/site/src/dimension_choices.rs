//! The categories, departments, labels and locations of a company, for forms in which one of each
//! kind can be chosen: from a list, or by name or code where there are more than a list is good for.
//!
//! INVARIANT: the present choice is always among those of a form, so that a form in which something
//! else is changed sends it back as it was. A form leaves out the kinds of which the company has
//! none: a kind that it does not send stays as it is.

use std::collections::HashMap;

use cardswitch_edge::error::ApiError;
use cardswitch_engine::domain::card::{DimensionKind, Dimensions};
use cardswitch_engine::domain::ids::DimensionId;
use cardswitch_engine::domain::search_key::search_key;
use cardswitch_engine::store::StoreError;
use cardswitch_v1::routes::view::View;
use cardswitch_wire::fields::parse_id;
use cardswitch_wire::reference::DIMENSION_FIELDS;
use serde_json::{Map, Value, json};

use super::choices::Choice;
use super::dimensions::kind_words;
use super::dimensions::tree::{Branch, tree, whole_tree};
use super::forms::TypedFields;
use super::rights::ActingMember;
use super::words::grouped;

/// The longest list to choose from. Beyond, a name or code is typed.
const LISTED_MAX: usize = 200;
/// The most suggestions for a field to type in.
const SUGGESTED_MAX: usize = 1_000;
/// The separator between a name and the id that tells it from others of the same name.
const BEFORE_ID: &str = " · ";

/// The value sent for each kind: an id, a name, a code, nothing, or no such field.
pub(super) type DimensionValues<'a> = [Option<&'a str>; 4];

/// A field; `dimension_field.html` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DimensionChoice {
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    /// The choices, none first; suggestions where something is typed.
    pub(super) options: Vec<Choice>,
    /// The text typed, where there are too many for a list.
    pub(super) typed: Option<TextInput>,
}

/// The text in a field to type in, and the hint below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TextInput {
    /// The name of the chosen one; the text as typed where it names none.
    pub(super) text: String,
    /// How many there are, and how to find one.
    pub(super) hint: String,
}

/// A field as a form asks for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct DimensionField<'a> {
    /// The name of the field.
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    /// The label of the choice of none.
    pub(super) none: &'static str,
    /// The id of the chosen one, or the text as typed; blank for none.
    pub(super) chosen: &'a str,
}

/// The fields of these kinds. `chosen` are ids or texts as typed; blank for none.
/// Cost: O(dimensions of the kinds), up to the bound of `tree`.
pub(super) fn dimension_choices(
    view: &View<'_>,
    kinds: &[DimensionKind],
    chosen: &[String; 4],
) -> Result<Vec<DimensionChoice>, StoreError> {
    let mut fields = Vec::new();
    for ((kind, name), chosen) in DimensionKind::ALL.into_iter().zip(DIMENSION_FIELDS).zip(chosen) {
        if kinds.contains(&kind) {
            let tree = tree(view, kind, parse_id(chosen.trim()).map(DimensionId))?;
            let asked =
                DimensionField { name, label: kind_words(kind).label, none: "None", chosen };
            let offered: Vec<_> = tree.branches.iter().collect();
            if !offered.is_empty() {
                fields.push(choice_among(asked, &offered, tree.count));
            }
        }
    }
    Ok(fields)
}

/// A field in which one of those `offered` is chosen, which are part of `count`.
pub(super) fn choice_among(
    asked: DimensionField<'_>,
    offered: &[&Branch],
    count: u64,
) -> DimensionChoice {
    let DimensionField { name, label, none, chosen } = asked;
    let mut options = options_of(offered, chosen.trim());
    options.sort_by_cached_key(|option| (option.label.to_lowercase(), option.value.clone()));
    if offered.len() > LISTED_MAX {
        let (options, typed) = suggested(options, chosen.trim(), count);
        return DimensionChoice { name, label, options, typed: Some(typed) };
    }
    let is_none = options.iter().all(|option| !option.is_chosen);
    let none = Choice { value: String::new(), label: none.to_owned(), is_chosen: is_none };
    options.insert(0, none);
    DimensionChoice { name, label, options, typed: None }
}

/// The choices of those offered, each by a label that no other has.
fn options_of(offered: &[&Branch], chosen: &str) -> Vec<Choice> {
    let labels: Vec<_> = offered.iter().map(|branch| branch.choice_words()).collect();
    let mut counts: HashMap<String, usize> = HashMap::new();
    for label in &labels {
        *counts.entry(search_key(label)).or_default() += 1;
    }
    let option = |(branch, label): (&&Branch, String)| {
        let value = branch.dimension.id.0.to_string();
        let is_only = counts.get(&search_key(&label)) == Some(&1);
        let label = if is_only { label } else { format!("{label}{BEFORE_ID}{value}") };
        Choice { is_chosen: value == chosen, label, value }
    };
    offered.iter().zip(labels).map(option).collect()
}

/// The suggestions for a field to type in. A text that names none narrows them to those that
/// contain it; else they are as many as there is room for, the chosen one among them.
fn suggested(options: Vec<Choice>, chosen: &str, count: u64) -> (Vec<Choice>, TextInput) {
    let known = options.iter().find(|option| option.is_chosen).cloned();
    let text = match &known {
        Some(known) => known.label.clone(),
        // A deleted one is none.
        None if parse_id(chosen).is_some() => String::new(),
        None => chosen.to_owned(),
    };
    let part = search_key(&text);
    let is_narrowed = known.is_none()
        && !part.is_empty()
        && options.iter().any(|option| search_key(&option.label).contains(&part));
    let fits = |option: &Choice| !is_narrowed || search_key(&option.label).contains(&part);
    let mut shown: Vec<_> = options.into_iter().filter(fits).take(SUGGESTED_MAX).collect();
    if let Some(known) = known
        && !shown.iter().any(|option| option.is_chosen)
    {
        shown.push(known);
    }
    let hint = match shown.len() as u64 {
        suggested if suggested < count => format!(
            "The list has {} of {}. Any of them is found by its name or code.",
            grouped(suggested),
            grouped(count)
        ),
        _ => format!("One of {}, by its name or code.", grouped(count)),
    };
    (shown, TextInput { text, hint })
}

/// The ids of an object's dimensions as its form has them; a deleted one is none.
pub(super) fn chosen_of(
    view: &View<'_>,
    dimensions: &Dimensions,
) -> Result<[String; 4], StoreError> {
    let references = view.dimension_references(dimensions)?;
    Ok(references.map(|known| known.map_or_else(String::new, |known| known.id.to_string())))
}

/// The names of an object's dimensions, each with the label of its kind.
pub(super) fn tags_of(
    view: &View<'_>,
    dimensions: &Dimensions,
) -> Result<Vec<(&'static str, String)>, StoreError> {
    let kinds = DimensionKind::ALL.map(|kind| kind_words(kind).label);
    let known = kinds.into_iter().zip(view.dimension_references(dimensions)?);
    Ok(known.filter_map(|(label, known)| Some((label, known?.name))).collect())
}

impl TypedFields {
    /// The value sent for each kind.
    pub(super) fn dimensions(&self) -> DimensionValues<'_> {
        DIMENSION_FIELDS.map(|name| self.get(name))
    }

    /// The fields of these kinds with the values sent, else those of an object.
    /// Errors: the tables cannot be read.
    pub(super) fn dimension_choices(
        &self,
        view: &View<'_>,
        kinds: &[DimensionKind],
        known: Option<&Dimensions>,
    ) -> Result<Vec<DimensionChoice>, StoreError> {
        let known = known.map(|known| chosen_of(view, known)).transpose()?;
        dimension_choices(view, kinds, &again(self.dimensions(), known.unwrap_or_default()))
    }
}

/// The values sent, to be shown again. A field that was not sent has the object's value.
fn again(sent: DimensionValues<'_>, known: [String; 4]) -> [String; 4] {
    let mut chosen = known;
    for (chosen, sent) in chosen.iter_mut().zip(sent) {
        if let Some(sent) = sent {
            sent.clone_into(chosen);
        }
    }
    chosen
}

/// Adds the values sent to the body that the API would take.
pub(super) fn put_dimensions(body: &mut Map<String, Value>, sent: DimensionValues<'_>) {
    for (name, sent) in DIMENSION_FIELDS.into_iter().zip(sent) {
        match sent.map(str::trim) {
            None => {}
            Some("") => drop(body.insert(name.to_owned(), Value::Null)),
            Some(id) => drop(body.insert(name.to_owned(), json!({ "id": id }))),
        }
    }
}

/// Replaces names and codes of dimensions by ids in a body that is made of a form. A text that
/// names none, or several, stays: the reader of the body refuses it at its field.
/// Errors: the tables cannot be read.
/// Cost: nothing where there are ids alone, else reads every one of the kind.
pub(super) async fn find_meant(
    acting: &ActingMember,
    body: &mut Map<String, Value>,
) -> Result<(), ApiError> {
    for (name, kind) in DIMENSION_FIELDS.into_iter().zip(DimensionKind::ALL) {
        find_meant_in(acting, body, (name, kind)).await?;
    }
    Ok(())
}

/// Does the same as `find_meant`, for one field of a body.
pub(super) async fn find_meant_in(
    acting: &ActingMember,
    body: &mut Map<String, Value>,
    (name, kind): (&str, DimensionKind),
) -> Result<(), ApiError> {
    let typed = body.get(name).and_then(|reference| reference.get("id")).and_then(Value::as_str);
    let Some(typed) = typed.filter(|typed| parse_id(typed).is_none()) else { return Ok(()) };
    if let Some(id) = acting.read(|view| meant(view, kind, typed)).await? {
        body.insert(name.to_owned(), json!({ "id": id.0 }));
    }
    Ok(())
}

/// The dimension with this code or name, as forms suggest them; none where none or several fit.
/// Errors: the tables cannot be read.
pub(super) fn meant(
    view: &View<'_>,
    kind: DimensionKind,
    typed: &str,
) -> Result<Option<DimensionId>, StoreError> {
    Ok(meant_among(&whole_tree(view, kind)?.branches, typed.trim()))
}

fn meant_among(branches: &[Branch], typed: &str) -> Option<DimensionId> {
    if typed.is_empty() {
        return None;
    }
    let wanted = search_key(typed);
    let named = typed.rsplit_once(BEFORE_ID).and_then(|(_, id)| parse_id(id)).map(DimensionId);
    if let Some(found) = branches.iter().find(|branch| Some(branch.dimension.id) == named) {
        return Some(found.dimension.id);
    }
    let readings: [fn(&Branch) -> String; 3] = [
        Branch::choice_words,
        |branch| branch.dimension.code.clone().unwrap_or_default(),
        |branch| branch.dimension.name.clone(),
    ];
    for reading in readings {
        let mut found = branches.iter().filter(|branch| search_key(&reading(branch)) == wanted);
        match (found.next(), found.next()) {
            (Some(found), None) => return Some(found.dimension.id),
            (Some(_), Some(_)) => return None,
            (None, _) => {}
        }
    }
    None
}

/// The ids of dimensions, in the form of a digest's values.
pub(super) fn ids_of(dimensions: &Dimensions) -> [String; 4] {
    let text = |id: DimensionId| id.0.to_string();
    dimensions.map(|id| id.map_or_else(String::new, text))
}

#[cfg(test)]
mod tests {
    use cardswitch_engine::directory::dimension::Dimension;
    use cardswitch_engine::domain::ids::{CompanySlot, DimensionSlot, Timestamp};
    use uuid::Uuid;

    use super::*;

    fn branch(slot: u32, path: &str, code: Option<&str>) -> Branch {
        let name = path.rsplit(" › ").next().unwrap_or_default().to_owned();
        let dimension = Dimension {
            slot: DimensionSlot(slot),
            id: DimensionId(Uuid::from_u128(slot.into())),
            company: CompanySlot(0),
            kind: DimensionKind::Label,
            name,
            code: code.map(str::to_owned),
            parent: None,
            is_deleted: false,
            created_at: Timestamp(0),
        };
        Branch { dimension, level: 0, path: path.to_owned() }
    }

    fn choice(branches: &[Branch], chosen: &str) -> DimensionChoice {
        let asked = DimensionField { name: "label", label: "Label", none: "None", chosen };
        choice_among(asked, &branches.iter().collect::<Vec<_>>(), branches.len() as u64)
    }

    fn id(slot: u32) -> String {
        Uuid::from_u128(slot.into()).to_string()
    }

    #[test]
    fn few_are_a_list_with_none_first() {
        let branches = [branch(1, "Travel", Some("40")), branch(2, "Travel › Flights", None)];
        let labels = |chosen: &str| {
            let shown = choice(&branches, chosen);
            assert_eq!(shown.typed, None);
            let marked = |option: Choice| (option.label, option.is_chosen);
            shown.options.into_iter().map(marked).collect::<Vec<_>>()
        };
        let expected = |chosen: usize| {
            let labels = ["None", "Travel (40)", "Travel › Flights"].into_iter().enumerate();
            labels.map(|(place, label)| (label.to_owned(), place == chosen)).collect::<Vec<_>>()
        };
        assert_eq!(labels(""), expected(0));
        assert_eq!(labels(&id(2)), expected(2));
        assert_eq!(labels(&id(9)), expected(0));
    }

    #[test]
    fn of_many_the_one_that_is_chosen_is_always_among_those_suggested() {
        let many = u32::try_from(SUGGESTED_MAX + 200).unwrap();
        let branches: Vec<_> =
            (1..=many).map(|slot| branch(slot, &format!("Label {slot:05}"), None)).collect();
        for slot in [1, many] {
            let shown = choice(&branches, &id(slot));
            let typed = shown.typed.unwrap();
            assert_eq!(typed.text, format!("Label {slot:05}"));
            assert!(typed.hint.starts_with("The list has 1,00"), "{}", typed.hint);
            assert!(shown.options.iter().any(|option| option.is_chosen), "{slot}");
            assert_eq!(
                meant_among(&branches, &typed.text),
                Some(DimensionId(Uuid::from_u128(slot.into())))
            );
        }
        // A text that names none narrows the suggestions, and stays as it was typed.
        let shown = choice(&branches, "bel 0119");
        assert_eq!((shown.options.len(), shown.typed.unwrap().text), (10, "bel 0119".to_owned()));
        assert_eq!(choice(&branches, "nothing").options.len(), SUGGESTED_MAX);
        assert_eq!(choice(&branches, &id(many + 1)).typed.unwrap().text, "");
    }

    #[test]
    fn one_is_meant_by_what_is_suggested_its_code_or_its_name_where_no_other_is() {
        let branches = [
            branch(1, "Travel", Some("40")),
            branch(2, "Travel › Other", None),
            branch(3, "Meals › Other", Some("41")),
            branch(4, "40", None),
            branch(5, "Twin", None),
            branch(6, "Twin", None),
        ];
        let rows = [
            ("travel (40)", Some(1)),
            ("Travel › Other", Some(2)),
            ("40", Some(4)),
            ("41", Some(3)),
            ("TRAVEL", Some(1)),
            ("other", None),
            ("Oth", None),
            ("Twin", None),
            ("", None),
        ];
        for (typed, expected) in rows {
            let expected = expected.map(|slot: u32| DimensionId(Uuid::from_u128(slot.into())));
            assert_eq!(meant_among(&branches, typed), expected, "{typed}");
        }
        let twins: Vec<_> = branches.iter().collect();
        for option in options_of(&twins, "") {
            let found = meant_among(&branches, &option.label).unwrap();
            assert_eq!(found.0.to_string(), option.value, "{}", option.label);
        }
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
