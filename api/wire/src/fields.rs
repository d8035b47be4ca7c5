//! A JSON object as a client sent it, read field by field.
//!
//! Values stay text until a reader for their type takes them, so numbers keep every digit. Faults
//! are collected: `finish` refuses the whole object and names every field at fault. Keys that
//! nobody asks for, unknown and read-only ones alike, are ignored, unless `refuse_unread` says
//! otherwise.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::domain::text::{LineText, ParagraphText, SteeringCharacter};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::body::Shape;
use super::fault::{Fault, Flaw};
use super::time;

/// How many keys an object usually has at most.
const KEYS_USUAL: usize = 24;

/// The most unknown keys that an answer names to their sender, so that it stays short.
const UNKNOWN_NAMED_MAX: usize = 20;

/// The fields of one object, and what was wrong with those read so far.
#[derive(Debug)]
pub struct Fields<'a> {
    values: Values<'a>,
    path: String,
    faults: Vec<Fault>,
    /// The fields asked for so far, while the object is described instead of read.
    pub(super) shape: Option<Box<Shape>>,
}

impl<'a> Fields<'a> {
    /// The fields of an empty object, which note what is asked of them.
    pub(super) fn describing() -> Self {
        Self { shape: Some(Box::default()), ..Self::within(Values(Vec::new()), String::new()) }
    }

    fn within(values: Values<'a>, path: String) -> Self {
        Self { values, path, faults: Vec::new(), shape: None }
    }

    /// Reads an object; none where the text is no JSON object.
    pub fn parse(json: &'a [u8]) -> Option<Self> {
        // Looked at once as a whole: else each value is looked at again.
        let values = serde_json::from_str(std::str::from_utf8(json).ok()?).ok()?;
        Some(Self::within(values, String::new()))
    }

    /// Whether the field is there and not null.
    pub fn has(&self, name: &str) -> bool {
        self.values.get(name).is_some_and(|value| value.get() != "null")
    }

    /// Whether the field is there, be it null.
    pub fn is_sent(&self, name: &str) -> bool {
        self.values.get(name).is_some()
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
        let value = self.values.get(name)?;
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

    /// A field that must be there. A default stands in for one at fault, which nobody will see:
    /// `finish` refuses the object.
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
        let value = self.values.get(name).filter(|value| value.get() != "null")?;
        let Ok(values) = serde_json::from_str(value.get()) else {
            self.fault(name, Flaw::not_an_object());
            return None;
        };
        let path = format!("{}{name}.", self.path);
        let mut inner = Self::within(values, path);
        let value = read(&mut inner);
        self.faults.append(&mut inner.faults);
        Some(value)
    }

    /// An array of at most `len_max` objects within this one, each read by `read`, which is told its
    /// place. The array may be null: none, or none within.
    pub fn nullable_objects<T>(
        &mut self,
        name: &str,
        len_max: usize,
        mut read: impl FnMut(usize, &mut Self) -> T,
    ) -> Option<Option<Vec<T>>> {
        let elements: Vec<&'a RawValue> =
            match self.nullable(name, |value| array(value, len_max))? {
                Some(elements) => elements,
                None => return Some(None),
            };
        let mut objects = Vec::with_capacity(elements.len());
        for (place, element) in elements.into_iter().enumerate() {
            let Ok(values) = serde_json::from_str(element.get()) else {
                self.fault(&format!("{name}.{place}"), Flaw::not_an_object());
                continue;
            };
            let path = format!("{}{name}.{place}.", self.path);
            let mut inner = Self::within(values, path);
            objects.push(read(place, &mut inner));
            self.faults.append(&mut inner.faults);
        }
        Some(Some(objects))
    }

    /// Notes a fault of the field `name`.
    pub fn fault(&mut self, name: &str, flaw: Flaw) {
        self.faults.push(Fault::new(format!("{}{name}", self.path), flaw));
    }

    /// Finds the fields at fault that nobody has read so far, the first of them where they are many: to
    /// be called when all that are known have been.
    pub fn refuse_unread(&mut self) {
        let unread = self.values.unread().take(UNKNOWN_NAMED_MAX);
        let unread: Vec<_> = unread.map(str::to_owned).collect();
        for name in unread {
            self.fault(&name, Flaw::new("unknown_field", "is no field of this request"));
        }
    }

    /// Whether the field `name` was found at fault already.
    pub fn is_faulty(&self, name: &str) -> bool {
        let param = format!("{}{name}", self.path);
        self.faults.iter().any(|fault| fault.param == param)
    }

    /// Whether no fault was found so far.
    pub fn is_sound(&self) -> bool {
        self.faults.is_empty()
    }

    /// The faults found.
    /// Errors: every one of them, in the order they were met.
    pub fn finish(self) -> Result<(), Vec<Fault>> {
        if self.faults.is_empty() { Ok(()) } else { Err(self.faults) }
    }
}

/// The values of an object by their keys, in the order sent. Objects here have few keys, and those
/// of a body are read once each, so looking along the list is the quickest.
#[derive(Debug)]
struct Values<'a>(Vec<ObjectEntry<'a>>);

#[derive(Debug)]
struct ObjectEntry<'a> {
    key: Cow<'a, str>,
    value: &'a RawValue,
    is_read: Cell<bool>,
}

impl<'a> Values<'a> {
    /// The value under a key, the last of two; bodies that have one twice are refused when they are read.
    fn get(&self, name: &str) -> Option<&'a RawValue> {
        let entry = self.0.iter().rev().find(|entry| entry.key == name)?;
        entry.is_read.set(true);
        Some(entry.value)
    }

    /// The keys that nobody has asked for.
    fn unread(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|entry| !entry.is_read.get()).map(|entry| &*entry.key)
    }
}

impl<'de> Deserialize<'de> for Values<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ValuesVisitor)
    }
}

struct ValuesVisitor;

impl<'de> Visitor<'de> for ValuesVisitor {
    type Value = Values<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut values = Vec::with_capacity(KEYS_USUAL);
        while let Some((Key(key), value)) = map.next_entry()? {
            values.push(ObjectEntry { key, value, is_read: Cell::new(false) });
        }
        Ok(Values(values))
    }
}

/// A key, borrowed where it has no escapes.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// Reads text.
pub fn text(value: &RawValue) -> Result<String, Flaw> {
    borrowed_text(value).map(Cow::into_owned)
}

/// Reads text where it stands, unless it has escapes.
pub fn borrowed_text(value: &RawValue) -> Result<Cow<'_, str>, Flaw> {
    let json = value.get();
    let quoted = json.strip_prefix('"').and_then(|json| json.strip_suffix('"'));
    match quoted {
        // A raw value is well formed, so nothing but a backslash makes its text differ.
        Some(text) if !text.contains('\\') => Ok(Cow::Borrowed(text)),
        _ => serde_json::from_str(json)
            .map(Cow::Owned)
            .map_err(|_| Flaw::new("not_text", "must be text")),
    }
}

/// Reads text of one line that is not blank.
pub fn non_blank_text(value: &RawValue) -> Result<LineText, Flaw> {
    let text = plain(LineText::new(&borrowed_text(value)?))?;
    if text.trim().is_empty() {
        return Err(Flaw::new("blank", "must not be blank"));
    }
    Ok(text)
}

/// Reads text of one line and at most `chars_max` characters.
pub fn short_text(value: &RawValue, chars_max: usize) -> Result<LineText, Flaw> {
    plain(LineText::new(&borrowed_short_text(value, chars_max)?))
}

/// Reads text of at most `chars_max` characters where it stands, unless it has escapes.
pub fn borrowed_short_text(value: &RawValue, chars_max: usize) -> Result<Cow<'_, str>, Flaw> {
    let text = borrowed_text(value)?;
    if text.len() > chars_max && text.chars().count() > chars_max {
        return Err(Flaw::new("too_long", format!("must have at most {chars_max} characters")));
    }
    Ok(text)
}

/// Reads a text of one line: at most `chars_max` characters, not all of them blank.
pub fn line(value: &RawValue, chars_max: usize) -> Result<LineText, Flaw> {
    non_blank_text(value)?;
    short_text(value, chars_max)
}

/// Reads a text of any lines: at most `chars_max` characters; it may be blank.
pub fn lines(value: &RawValue, chars_max: usize) -> Result<ParagraphText, Flaw> {
    plain(ParagraphText::new(&borrowed_short_text(value, chars_max)?))
}

/// Refuses a text with characters that steer.
pub fn plain<T>(text: Result<T, SteeringCharacter>) -> Result<T, Flaw> {
    let message = "must have no control characters and no overrides of its direction";
    text.map_err(|_| Flaw::new("control_character", message))
}

/// Reads a number that is a name: text of 1 to `digits_max` digits, or a whole number.
pub fn digits(value: &RawValue, digits_max: usize) -> Result<String, Flaw> {
    let is_number = value.get().starts_with(|letter: char| letter.is_ascii_digit());
    let text = if is_number { value.get().to_owned() } else { text(value).unwrap_or_default() };
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Flaw::new("not_digits", "must be digits only"));
    }
    if text.len() > digits_max {
        return Err(Flaw::new("too_long", format!("must have at most {digits_max} digits")));
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
    borrowed_text(value).ok().as_deref().and_then(time::parse_time).ok_or_else(time::not_a_time)
}

/// Reads an id.
pub fn id(value: &RawValue) -> Result<Uuid, Flaw> {
    let text = borrowed_text(value).ok();
    text.as_deref().and_then(parse_id).ok_or_else(|| Flaw::new("not_an_id", "must be a UUID"))
}

/// Reads a reference to another object, `{"id": ..}`.
pub fn reference(value: &RawValue) -> Result<Uuid, Flaw> {
    let flaw = || Flaw::new("not_a_reference", "must be an object with an `id`, a UUID");
    let fields = Fields::parse(value.get().as_bytes()).ok_or_else(flaw)?;
    fields.values.get("id").and_then(|value| id(value).ok()).ok_or_else(flaw)
}

/// Reads an array of at most `len_max` values.
fn array(value: &RawValue, len_max: usize) -> Result<Vec<&RawValue>, Flaw> {
    let values: Vec<&RawValue> = serde_json::from_str(value.get())
        .map_err(|_| Flaw::new("not_an_array", "must be an array"))?;
    if values.len() > len_max {
        return Err(Flaw::new("too_many", format!("must have at most {len_max} entries")));
    }
    Ok(values)
}

/// Parses an id in its usual form of 36 characters.
pub fn parse_id(text: &str) -> Option<Uuid> {
    (text.len() == uuid::fmt::Hyphenated::LENGTH).then(|| Uuid::parse_str(text).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn names_are_one_line_and_notes_are_many() {
        let rows = [
            (r#""Travel""#, Ok(()), Ok(())),
            (r#""Voyage à Zürich 東京""#, Ok(()), Ok(())),
            (r#""""#, Err("blank"), Ok(())),
            (r#""  ""#, Err("blank"), Ok(())),
            (r#""one\ntwo\tthree\r\n""#, Err("control_character"), Ok(())),
            (r#""bell \u0007""#, Err("control_character"), Err("control_character")),
            (r#""nul \u0000""#, Err("control_character"), Err("control_character")),
            (r#""del \u007f""#, Err("control_character"), Err("control_character")),
            (r#""c1 \u0085""#, Err("control_character"), Err("control_character")),
            (r#""\u202egpj.exe""#, Err("control_character"), Err("control_character")),
            ("\"raw \u{2066}\"", Err("control_character"), Err("control_character")),
            (r#""line \u2028""#, Err("control_character"), Err("control_character")),
            (r#""123456789012345678901""#, Err("too_long"), Err("too_long")),
            ("12", Err("not_text"), Err("not_text")),
            ("[]", Err("not_text"), Err("not_text")),
        ];
        for (json, one, many) in rows {
            let code = |flaw: Flaw| flaw.code;
            assert_eq!(line(&raw(json), 20).map(drop).map_err(code), one, "{json}");
            assert_eq!(lines(&raw(json), 20).map(drop).map_err(code), many, "{json}");
        }
    }

    #[test]
    fn codes_are_digits_as_text_or_number() {
        let rows = [
            (r#""007""#, Ok("007")),
            ("42", Ok("42")),
            ("0", Ok("0")),
            ("12345", Ok("12345")),
            ("123456", Err("too_long")),
            (r#""123456""#, Err("too_long")),
            (r#""""#, Err("not_digits")),
            (r#""4-2""#, Err("not_digits")),
            (r#""٤٢""#, Err("not_digits")),
            ("-4", Err("not_digits")),
            ("4.0", Err("not_digits")),
            ("4e1", Err("not_digits")),
            ("true", Err("not_digits")),
        ];
        for (json, expected) in rows {
            let read = digits(&raw(json), 5).map_err(|flaw| flaw.code);
            assert_eq!(read.as_deref(), expected.as_ref().map(|text| *text), "{json}");
        }
    }

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
    fn keys_are_read_with_their_escapes_and_the_last_of_two_counts() {
        let json = "{\"a\": 1, \"\\u0062\": true, \"a\": \"x\\ty\", \"\": \"\\u00e9\", \"c\": \"\u{e9}\\\\\"}";
        let mut fields = Fields::parse(json.as_bytes()).unwrap();
        assert!(fields.required("b", boolean));
        let texts = ["a", "", "c"].map(|name| fields.required(name, text));
        assert_eq!(texts, ["x\ty", "\u{e9}", "\u{e9}\\"]);
        assert!(fields.faults.is_empty() && !fields.has("d"));
        let plain: &RawValue = serde_json::from_str(r#""plain""#).unwrap();
        assert!(matches!(borrowed_text(plain), Ok(Cow::Borrowed("plain"))));
        for not_text in ["1", "null", "[\"a\"]", "{\"a\": \"b\"}"] {
            let value: &RawValue = serde_json::from_str(not_text).unwrap();
            assert_eq!(borrowed_text(value).unwrap_err().code, "not_text", "{not_text}");
        }
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
    fn faults_within_arrays_carry_their_place() {
        let json = br#"{"a": [{"b": true}, 5, {"b": 1}], "n": null, "o": {}, "long": [1, 2, 3]}"#;
        let mut fields = Fields::parse(json).unwrap();
        let mut read = |name: &str, len_max| {
            fields.nullable_objects(name, len_max, |_, inner| inner.optional("b", boolean))
        };
        assert_eq!(read("a", 3), Some(Some(vec![Some(true), None])));
        assert_eq!(read("n", 3), Some(None));
        assert_eq!((read("absent", 3), read("o", 3), read("long", 2)), (None, None, None));
        let expected = [
            ("a.1", "not_an_object"),
            ("a.2.b", "not_a_boolean"),
            ("o", "not_an_array"),
            ("long", "too_many"),
        ];
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
        let blank: &RawValue = serde_json::from_str("\" \u{3000}\"").unwrap();
        assert_eq!(non_blank_text(blank).unwrap_err().code, "blank");
        for json in [r#""a\u0000""#, r#""a\tb""#, r#""\u001b[1m""#, r#""\u0085""#] {
            let value: &RawValue = serde_json::from_str(json).unwrap();
            assert_eq!(short_text(value, 9).unwrap_err().code, "control_character", "{json}");
            assert_eq!(non_blank_text(value).unwrap_err().code, "control_character", "{json}");
        }
    }
}
