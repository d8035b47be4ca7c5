//! Schemas of several forms: how a reader tells them apart.
//!
//! Forms with a word of their own in `type` get names and a discriminator, so that generated clients have a type for each.

use serde_json::{Map, Value, json};

use super::schemas::each_object_mut;

/// The key whose word names the form.
const TAG: &str = "type";

/// Alternatives are told apart by reading them, not by excluding each other: a whole amount is a
/// count too, and unknown keys are ignored.
pub(super) fn open(document: &mut Value) {
    each_object_mut(document, &mut |object| {
        if let Some(alternatives) = object.remove("oneOf") {
            object.insert("anyOf".into(), alternatives);
        }
    });
}

/// Makes a schema of each form that has a word of its own: `raise` of `Change` is `RaiseChange`.
pub(super) fn name_tagged(document: &mut Value) {
    let Some(schemas) = document["components"]["schemas"].as_object_mut() else { return };
    let mut named = Map::new();
    for (name, schema) in schemas.iter_mut() {
        let Some(forms) = schema.get_mut("anyOf").and_then(Value::as_array_mut) else { continue };
        let Some(words) = forms.iter().map(word_of).collect::<Option<Vec<_>>>() else { continue };
        let mut mapping = Map::new();
        for (form, word) in forms.iter_mut().zip(words) {
            let own = format!("{}{name}", camel(&word));
            let reference = format!("#/components/schemas/{own}");
            named.insert(own, std::mem::replace(form, json!({"$ref": reference})));
            mapping.insert(word, json!(reference));
        }
        schema["discriminator"] = json!({"propertyName": TAG, "mapping": mapping});
    }
    schemas.extend(named);
}

/// The word of a form; none where it has none or several.
fn word_of(form: &Value) -> Option<String> {
    match form["properties"][TAG]["enum"].as_array()?.as_slice() {
        [Value::String(word)] => Some(word.clone()),
        _ => None,
    }
}

fn camel(word: &str) -> String {
    let part = |part: &str| {
        let (first, rest) = part.split_at_checked(1).unwrap_or_default();
        first.to_uppercase() + rest
    };
    word.split('_').map(part).collect()
}
