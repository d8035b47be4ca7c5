//! The client's view of the API, held to committed files: both documents, and every answer to bad
//! input. `UPDATE_GOLDEN=1` writes the files anew.

use std::path::Path;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::world::{RecordedAnswer, World};
use super::{DocumentedDoor, document};

/// Holds lines to the file `name`, in whatever order they were written.
#[track_caller]
pub(super) fn hold_lines(name: &str, lines: &str) {
    let mut sorted: Vec<_> = lines.lines().collect();
    sorted.sort_unstable();
    hold(&format!("src/openapi/golden/{name}"), &(sorted.join("\n") + "\n"));
}

/// Holds a text to the file `name` of this crate.
#[track_caller]
pub(super) fn hold(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        return;
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = known.lines().zip(text.lines()).position(|(known, told)| known != told);
    let line = differs.unwrap_or(known.lines().count().min(text.lines().count()));
    let of = |text: &str| text.lines().skip(line).take(3).collect::<Vec<_>>().join("\n");
    assert!(known == text, "{name}:{}\nwas {}\nis  {}", line + 1, of(&known), of(text));
}

/// A request and its answer as one line: the status, and every fault with its field.
pub(super) fn line_of(request: &str, told: &RecordedAnswer) -> String {
    let body = serde_json::from_str(&told.body).unwrap_or(json!({}));
    let mut faults = String::new();
    for error in body["detail"]["errors"].as_array().into_iter().flatten() {
        let of = |key: &str| error[key].as_str().unwrap_or("null");
        faults.push_str(&format!("; {} {}: {}", of("param"), of("code"), of("message")));
    }
    let code = body["detail"]["code"].as_str().unwrap_or_default();
    let line = format!("{request} -> {} {code} {}{faults}\n", told.status, body["detail"]["param"]);
    without_ids(&line)
}

fn without_ids(text: &str) -> String {
    let (mut shown, mut rest) = (String::new(), text);
    while let Some(letter) = rest.chars().next() {
        let id = rest.get(..36).filter(|id| Uuid::parse_str(id).is_ok());
        shown.push_str(id.map_or(&rest[..letter.len_utf8()], |_| "<id>"));
        rest = &rest[id.map_or(letter.len_utf8(), str::len)..];
    }
    shown
}

/// The value with the keys of all objects in order, and the names of what is required likewise.
pub(super) fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let mut entries: Vec<_> = object.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            let entries = entries.into_iter().map(|(key, value)| {
                let mut value = canonical(value);
                if let (true, Some(names)) = (key == "required", value.as_array_mut()) {
                    names.sort_by_key(Value::to_string);
                }
                (key.clone(), value)
            });
            Value::Object(entries.collect::<Map<_, _>>())
        }
        Value::Array(items) => items.iter().map(canonical).collect(),
        other => other.clone(),
    }
}

#[tokio::test]
async fn the_documents_are_those_that_are_committed() {
    let world = World::new().await;
    for (door, name) in
        [(DocumentedDoor::Company, "company.json"), (DocumentedDoor::Network, "network.json")]
    {
        hold(
            &format!("src/openapi/golden/{name}"),
            &format!("{:#}\n", canonical(&document(door, world.urls()))),
        );
    }
}
