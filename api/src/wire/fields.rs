//! A JSON object as a client sent it, read field by field.
//!
//! Values stay text until a reader for their type takes them, so numbers keep every digit. Faults
//! are collected: `finish` refuses the whole object and names every field at fault. Keys that
//! nobody asks for, unknown and read-only ones alike, are ignored.

use std::collections::BTreeMap;

use cardswitch_engine::domain::ids::Timestamp;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::fault::{Fault, Flaw};
use super::time;

/// The fields of one object, and what was wrong with those read so far.
#[derive(Debug)]
pub struct Fields<'a> {
    values: BTreeMap<String, &'a RawValue>,
    path: String,
    faults: Vec<Fault>,
}

impl<'a> Fields<'a> {
    /// Reads an object; none where the text is no JSON object.
    #[must_use]
    pub fn parse(json: &'a [u8]) -> Option<Self> {
        let values = serde_json::from_slice(json).ok()?;
        Some(Self { values, path: String::new(), faults: Vec::new() })
    }

    /// Whether the field is there and not null.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.values.get(name).is_some_and(|value| value.get() != "null")
    }

    /// A field that may be absent but not null.
    pub fn optional<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&'a RawValue) -> Result<T, Flaw>,
    ) -> Option<T> {
        match self.nullable(name, read)? {
            Some(value) => Some(value),
            None => {
                self.fault(name, Flaw::new("null", "must not be null"));
                None
            }
        }
    }

    /// A field that may be absent or null: none, or none within.
    pub fn nullable<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&'a RawValue) -> Result<T, Flaw>,
    ) -> Option<Option<T>> {
        let value = *self.values.get(name)?;
        if value.get() == "null" {
            return Some(None);
        }
        match read(value) {
            Ok(value) => Some(Some(value)),
            Err(flaw) => {
                self.fault(name, flaw);
                None
            }
        }
    }

    /// A field that must be there. Where it is at fault a default stands in, which nobody will
    /// see: `finish` refuses the object.
    pub fn required<T: Default>(
        &mut self,
        name: &str,
        read: impl FnOnce(&'a RawValue) -> Result<T, Flaw>,
    ) -> T {
        if !self.has(name) {
            self.fault(name, Flaw::required());
            return T::default();
        }
        self.optional(name, read).unwrap_or_default()
    }

    /// An object within this one, read by `read`; absent and null are none.
    pub fn object<T>(&mut self, name: &str, read: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if !self.has(name) {
            return None;
        }
        let Ok(values) = serde_json::from_str(self.values[name].get()) else {
            self.fault(name, Flaw::new("not_an_object", "must be an object"));
            return None;
        };
        let path = format!("{}{name}.", self.path);
        let mut inner = Self { values, path, faults: Vec::new() };
        let value = read(&mut inner);
        self.faults.append(&mut inner.faults);
        Some(value)
    }

    /// An object within this one that may be null: none, or none within.
    pub fn nullable_object<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&mut Self) -> T,
    ) -> Option<Option<T>> {
        let is_null = self.values.get(name)?.get() == "null";
        if is_null { Some(None) } else { self.object(name, read).map(Some) }
    }

    /// Notes a fault of the field `name`.
    pub fn fault(&mut self, name: &str, flaw: Flaw) {
        self.faults.push(Fault::new(format!("{}{name}", self.path), flaw));
    }

    /// Whether the field `name` was found at fault already.
    #[must_use]
    pub fn is_faulty(&self, name: &str) -> bool {
        let param = format!("{}{name}", self.path);
        self.faults.iter().any(|fault| fault.param == param)
    }

    /// The faults found.
    /// Errors: every one of them, in the order they were met.
    pub fn finish(self) -> Result<(), Vec<Fault>> {
        if self.faults.is_empty() { Ok(()) } else { Err(self.faults) }
    }
}

/// Reads text.
pub fn text(value: &RawValue) -> Result<String, Flaw> {
    serde_json::from_str(value.get()).map_err(|_| Flaw::new("not_text", "must be text"))
}

/// Reads text that is not blank.
pub fn non_blank_text(value: &RawValue) -> Result<String, Flaw> {
    let text = text(value)?;
    if text.trim().is_empty() {
        return Err(Flaw::new("blank", "must not be blank"));
    }
    Ok(text)
}

/// Reads text of at most `chars_max` characters.
pub fn short_text(value: &RawValue, chars_max: usize) -> Result<String, Flaw> {
    let text = text(value)?;
    if text.chars().count() > chars_max {
        return Err(Flaw::new("too_long", format!("must have at most {chars_max} characters")));
    }
    Ok(text)
}

/// Reads true or false.
pub fn boolean(value: &RawValue) -> Result<bool, Flaw> {
    match value.get() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Flaw::new("not_a_boolean", "must be true or false")),
    }
}

/// Reads an instant.
pub fn timestamp(value: &RawValue) -> Result<Timestamp, Flaw> {
    text(value).ok().as_deref().and_then(time::parse_time).ok_or_else(time::not_a_time)
}

/// Reads an id.
pub fn id(value: &RawValue) -> Result<Uuid, Flaw> {
    let text = text(value).ok();
    text.as_deref().and_then(parse_id).ok_or_else(|| Flaw::new("not_an_id", "must be a UUID"))
}

/// Reads a reference to another object, `{"id": ..}`.
pub fn reference(value: &RawValue) -> Result<Uuid, Flaw> {
    let flaw = || Flaw::new("not_a_reference", "must be an object with an `id`, a UUID");
    let fields = Fields::parse(value.get().as_bytes()).ok_or_else(flaw)?;
    fields.values.get("id").and_then(|value| id(value).ok()).ok_or_else(flaw)
}

/// Parses an id in its usual form of 36 characters.
#[must_use]
pub fn parse_id(text: &str) -> Option<Uuid> {
    (text.len() == uuid::fmt::Hyphenated::LENGTH).then(|| Uuid::parse_str(text).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_of(fields: Fields<'_>) -> Vec<(String, &'static str)> {
        let faults = fields.finish().err().unwrap_or_default();
        faults.into_iter().map(|fault| (fault.param, fault.flaw.code)).collect()
    }

    #[test]
    fn only_objects_are_bodies() {
        for body in ["", "{", "[]", "1", "null", "{\"a\":}", "{'a':1}", "{} {}", "\u{feff}{}"] {
            assert!(Fields::parse(body.as_bytes()).is_none(), "{body}");
        }
        assert!(Fields::parse(b"\xff").is_none());
        assert!(Fields::parse(b"{\"a\":\"\xff\"}").is_none());
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(5_000), "]".repeat(5_000));
        let parsed = Fields::parse(deep.as_bytes());
        assert!(parsed.is_none_or(|mut fields| fields.optional("a", boolean).is_none()));
    }

    #[test]
    fn absent_null_and_given_are_three_things() {
        let mut fields = Fields::parse(br#"{"null": null, "yes": true, "extra": 1}"#).unwrap();
        assert_eq!(fields.nullable("absent", boolean), None);
        assert_eq!(fields.nullable("null", boolean), Some(None));
        assert_eq!(fields.nullable("yes", boolean), Some(Some(true)));
        assert_eq!(fields.optional("absent", boolean), None);
        assert!(fields.required("yes", boolean));
        assert!(fields.faults.is_empty());
        assert_eq!(fields.optional("null", boolean), None);
        assert!(!fields.required("null", boolean));
        assert!(!fields.required("absent", boolean));
        let expected = [("null", "null"), ("null", "required"), ("absent", "required")];
        assert_eq!(faults_of(fields), expected.map(|(name, code)| (name.to_owned(), code)));
    }

    #[test]
    fn faults_within_an_object_carry_its_name() {
        let mut fields = Fields::parse(br#"{"a": {"b": 1, "c": {"d": "x"}}, "n": 5}"#).unwrap();
        fields.object("a", |a| {
            a.optional("b", text);
            a.object("c", |c| c.optional("d", boolean));
        });
        assert_eq!(fields.object("n", |_| ()), None);
        assert_eq!(fields.object("absent", |_| ()), None);
        let expected = [("a.b", "not_text"), ("a.c.d", "not_a_boolean"), ("n", "not_an_object")];
        assert_eq!(faults_of(fields), expected.map(|(name, code)| (name.to_owned(), code)));
    }

    #[test]
    fn references_are_objects_with_an_id() {
        let id = "0190a000-0000-7000-8000-000000000001";
        let rows = [
            (format!("{{\"id\": \"{id}\"}}"), true),
            (format!("{{\"id\": \"{id}\", \"url\": \"x\"}}"), true),
            (format!("\"{id}\""), false),
            (format!("{{\"id\": \"{}\"}}", id.replace('-', "")), false),
            ("{\"id\": 5}".to_owned(), false),
            ("{}".to_owned(), false),
        ];
        for (json, is_reference) in rows {
            let value: &RawValue = serde_json::from_str(&json).unwrap();
            assert_eq!(reference(value).is_ok(), is_reference, "{json}");
        }
    }

    #[test]
    fn text_is_measured_in_characters() {
        let value: &RawValue = serde_json::from_str("\"\u{e9}\u{e9}\u{e9}\"").unwrap();
        assert!(short_text(value, 3).is_ok());
        assert_eq!(short_text(value, 2).unwrap_err().code, "too_long");
        let blank: &RawValue = serde_json::from_str("\" \\n\"").unwrap();
        assert_eq!(non_blank_text(blank).unwrap_err().code, "blank");
    }
}
