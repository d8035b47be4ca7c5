//! The rules of a body's fields, each with the schema that is published.
//!
//! A parser on `Fields` is the only declaration of a body. It names each field once, with what it
//! means and the rule for its value; the published document has it read an empty object and notes what
//! it asks for. A parser must therefore ask for every field whatever the others hold.

use std::fmt;

use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use cardswitch_engine::domain::text::{LineText, ParagraphText};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use utoipa::openapi::RefOr;
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::schema::{Object, Schema};
use uuid::Uuid;

use super::amount::parse_json_amount;
use super::fault::Flaw;
use super::fields::{self, Fields};
use crate::words;

/// Schemas that others refer to, by their names.
pub type Parts = Vec<(String, RefOr<Schema>)>;

/// The rule for the value of a field. It is known when the switch is built, so that it costs a request
/// nothing beyond reading.
pub trait ValueRule<'a, T>: Sized {
    /// Reads a value that is not null.
    /// Errors: it breaks the rule.
    fn read(self, value: &'a RawValue) -> Result<T, Flaw>;

    /// The schema of the values that keep the rule.
    fn schema(&self, parts: &mut Parts) -> Value;

    /// The rule with an example of its own, which is JSON.
    fn example(self, example: &'static str) -> impl ValueRule<'a, T> {
        ExampleRule { rule: self, example }
    }
}

struct Pair<S, R>(S, R);

impl<'a, T, S, R> ValueRule<'a, T> for Pair<S, R>
where
    S: Fn(&mut Parts) -> Value,
    R: FnOnce(&'a RawValue) -> Result<T, Flaw>,
{
    fn read(self, value: &'a RawValue) -> Result<T, Flaw> {
        (self.1)(value)
    }

    fn schema(&self, parts: &mut Parts) -> Value {
        (self.0)(parts)
    }
}

struct ExampleRule<R> {
    rule: R,
    example: &'static str,
}

impl<'a, T, R: ValueRule<'a, T>> ValueRule<'a, T> for ExampleRule<R> {
    fn read(self, value: &'a RawValue) -> Result<T, Flaw> {
        self.rule.read(value)
    }

    fn schema(&self, parts: &mut Parts) -> Value {
        let mut schema = self.rule.schema(parts);
        schema["example"] = serde_json::from_str(self.example).unwrap_or_default();
        schema
    }
}

/// A rule of a schema, such as `part::<S>`, and a reader.
pub fn rule<'a, T>(
    schema: impl Fn(&mut Parts) -> Value,
    read: impl FnOnce(&'a RawValue) -> Result<T, Flaw>,
) -> impl ValueRule<'a, T> {
    Pair(schema, read)
}

/// A reference to the schema of `S`, which becomes one of the parts.
pub fn part<S: ToSchema>(parts: &mut Parts) -> Value {
    S::schemas(parts);
    parts.push((S::name().into_owned(), S::schema()));
    json!({"$ref": format!("#/components/schemas/{}", S::name())})
}

/// A text of one line that is not blank.
pub fn line<'a>(chars_max: usize) -> impl ValueRule<'a, LineText> {
    rule(line_schema(chars_max), move |value| fields::line(value, chars_max))
}

/// The schema of a text of one line that is not blank.
pub fn line_schema(chars_max: usize) -> impl Fn(&mut Parts) -> Value {
    move |_| json!({"type": "string", "maxLength": chars_max, "pattern": r"\S"})
}

/// A text of one line that may be blank.
pub fn short_line<'a>(chars_max: usize) -> impl ValueRule<'a, LineText> {
    let schema = move |_: &mut Parts| json!({"type": "string", "maxLength": chars_max});
    rule(schema, move |value| fields::short_text(value, chars_max))
}

/// A text of any lines.
pub fn paragraph<'a>(chars_max: usize) -> impl ValueRule<'a, ParagraphText> {
    let schema = move |_: &mut Parts| json!({"type": "string", "maxLength": chars_max});
    rule(schema, move |value| fields::lines(value, chars_max))
}

/// True or false.
pub fn flag<'a>() -> impl ValueRule<'a, bool> {
    rule(|_| json!({"type": "boolean"}), fields::boolean)
}

/// An id.
pub fn id<'a>() -> impl ValueRule<'a, Uuid> {
    rule(|_| json!({"type": "string", "format": "uuid"}), fields::id)
}

/// An instant.
pub fn instant<'a>() -> impl ValueRule<'a, Timestamp> {
    rule(|_| json!({"type": "string", "format": "date-time"}), fields::timestamp)
}

/// An instant that is still to come.
pub fn later<'a>(now: Timestamp) -> impl ValueRule<'a, Timestamp> {
    rule(
        |_| json!({"type": "string", "format": "date-time"}),
        move |value| {
            let at = fields::timestamp(value)?;
            if at > now { Ok(at) } else { Err(Flaw::new("past", "must be later than now")) }
        },
    )
}

/// An e-mail address.
pub fn email<'a>() -> impl ValueRule<'a, String> {
    rule(|_| json!({"type": "string", "format": "email"}), super::email::email)
}

/// A reference to another object, by an id of the kind `of`.
pub fn reference<'a, T: 'a>(of: fn(Uuid) -> T) -> impl ValueRule<'a, T> {
    rule(part::<words::Reference>, move |value| fields::reference(value).map(of))
}

/// A number that is a name.
pub fn code<'a>(digits_max: usize) -> impl ValueRule<'a, String> {
    rule(part::<words::Code>, move |value| fields::digits(value, digits_max))
}

/// An amount of 0 or more.
pub fn budget<'a>(currency: CurrencyCode) -> impl ValueRule<'a, Minor> {
    rule(part::<words::Budget>, move |value| {
        let amount = parse_json_amount(value, currency)?;
        let is_budget = amount >= Minor::ZERO;
        is_budget.then_some(amount).ok_or_else(|| Flaw::new("negative", "must be 0 or more"))
    })
}

/// An amount above 0; `otherwise` is what a client is told of others.
pub fn limit<'a>(currency: CurrencyCode, otherwise: &'static str) -> impl ValueRule<'a, Minor> {
    rule(part::<words::Limit>, move |value| {
        let amount = parse_json_amount(value, currency)?;
        amount.is_positive().then_some(amount).ok_or_else(|| Flaw::new("not_positive", otherwise))
    })
}

/// The alternatives to a value that a field allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Nothing else.
    Required,
    /// Absent.
    Optional,
    /// Absent or null.
    Nullable,
}

/// The fields that a parser asks for.
#[derive(Default)]
pub struct Shape {
    included: Vec<Value>,
    properties: Map<String, Value>,
    required: Vec<String>,
    /// The schemas that the fields refer to.
    pub parts: Parts,
}

impl fmt::Debug for Shape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_map().entries(&self.properties).finish()
    }
}

impl Shape {
    /// The fields that `read` asks for.
    pub fn of(read: impl FnOnce(&mut Fields<'static>)) -> Self {
        let mut fields = Fields::describing();
        read(&mut fields);
        fields.shape.map(|shape| *shape).unwrap_or_default()
    }

    #[cold]
    fn note(&mut self, name: &str, about: &str, presence: Presence, mut schema: Value) {
        schema["description"] = json!(about);
        match presence {
            Presence::Nullable if schema["type"].is_string() => {
                schema["type"] = json!([schema["type"], "null"]);
            }
            Presence::Nullable => schema = json!({"anyOf": [schema, {"type": "null"}]}),
            Presence::Required => self.required.push(name.to_owned()),
            Presence::Optional => {}
        }
        self.properties.insert(name.to_owned(), schema);
    }

    /// The schema of an object, described by the lines of a doc comment.
    pub fn schema(self, about: &str) -> RefOr<Schema> {
        let about: Vec<_> = about.lines().map(str::trim).collect();
        let mut schema = json!({"type": "object", "properties": self.properties});
        if !self.required.is_empty() {
            schema["required"] = json!(self.required);
        }
        if !self.included.is_empty() {
            let parts = [self.included, vec![schema]].concat();
            schema = json!({"allOf": parts});
        }
        schema["description"] = json!(about.join("\n"));
        wrapped(schema)
    }
}

/// The field of an object in a document that stands for a schema made here.
const WRAPPING: &str = "x-schema";

/// A schema in the library's type, which cannot say all of it. `replace_wrapped` must see the document.
pub(crate) fn wrapped(schema: Value) -> RefOr<Schema> {
    let wrapping = Extensions::builder().add(WRAPPING, schema).build();
    Object::builder().extensions(Some(wrapping)).into()
}

/// Puts the schema in the place of the object that stands for it.
pub fn replace_wrapped(object: &mut Map<String, Value>) {
    if let Some(Value::Object(schema)) = object.remove(WRAPPING) {
        *object = schema;
    }
}

impl<'a> Fields<'a> {
    /// Notes a field in the published schema.
    pub fn describe(
        &mut self,
        name: &str,
        about: &str,
        presence: Presence,
        schema: impl FnOnce(&mut Parts) -> Value,
    ) {
        let Some(shape) = &mut self.shape else { return };
        let schema = schema(&mut shape.parts);
        shape.note(name, about, presence, schema);
    }

    /// Reads fields that are published by themselves as the schema `S`, which this object includes.
    pub fn including<S: ToSchema, T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        let Some(shape) = &mut self.shape else { return read(self) };
        let included = part::<S>(&mut shape.parts);
        if !shape.included.contains(&included) {
            shape.included.push(included);
        }
        read(&mut Self::describing())
    }

    /// A field that must be there. A default, which nobody will see, stands in for one at fault.
    pub fn must<T: Default>(&mut self, name: &str, about: &str, rule: impl ValueRule<'a, T>) -> T {
        self.describe(name, about, Presence::Required, |parts| rule.schema(parts));
        self.required(name, |value| rule.read(value))
    }

    /// A field that may be absent but not null.
    pub fn may<T>(&mut self, name: &str, about: &str, rule: impl ValueRule<'a, T>) -> Option<T> {
        self.given(name, about, Presence::Optional, rule)
    }

    /// A field that is published with this presence and read as one that may be absent. The caller
    /// knows when it may not.
    pub fn given<T>(
        &mut self,
        name: &str,
        about: &str,
        presence: Presence,
        rule: impl ValueRule<'a, T>,
    ) -> Option<T> {
        self.describe(name, about, presence, |parts| rule.schema(parts));
        self.optional(name, |value| rule.read(value))
    }

    /// A field that may be absent or null: none, or none within.
    pub fn patch<T>(
        &mut self,
        name: &str,
        about: &str,
        rule: impl ValueRule<'a, T>,
    ) -> Option<Option<T>> {
        self.describe(name, about, Presence::Nullable, |parts| rule.schema(parts));
        self.nullable(name, |value| rule.read(value))
    }

    /// An object of the schema `S` that may be absent or null: none, or none within.
    pub fn patch_object<S: ToSchema, T>(
        &mut self,
        name: &str,
        about: &str,
        read: impl FnOnce(&mut Self) -> T,
    ) -> Option<Option<T>> {
        self.describe(name, about, Presence::Nullable, part::<S>);
        let is_null = self.is_sent(name) && !self.has(name);
        if is_null { Some(None) } else { self.object(name, read).map(Some) }
    }

    /// An object of the schema `S` that must be there.
    pub fn must_object<S: ToSchema, T>(
        &mut self,
        name: &str,
        about: &str,
        read: impl FnOnce(&mut Self) -> T,
    ) -> Option<T> {
        self.describe(name, about, Presence::Required, part::<S>);
        if !self.has(name) {
            self.fault(name, Flaw::required());
        }
        self.object(name, read)
    }

    /// At most `len_max` objects of the schema `S`, each read by `read`, which is told its place;
    /// absent and null are as in `patch`.
    pub fn patch_objects<S: ToSchema, T>(
        &mut self,
        name: &str,
        about: &str,
        len_max: usize,
        read: impl FnMut(usize, &mut Self) -> T,
    ) -> Option<Option<Vec<T>>> {
        self.describe(
            name,
            about,
            Presence::Nullable,
            |parts| json!({"type": "array", "items": part::<S>(parts), "maxItems": len_max}),
        );
        self.nullable_objects(name, len_max, read)
    }

    /// As `patch_objects`, of at least one.
    pub fn must_objects<S: ToSchema, T>(
        &mut self,
        name: &str,
        about: &str,
        len_max: usize,
        read: impl FnMut(usize, &mut Self) -> T,
    ) -> Vec<T> {
        self.describe(name, about, Presence::Required, |parts| {
            let items = part::<S>(parts);
            json!({"type": "array", "items": items, "minItems": 1, "maxItems": len_max})
        });
        if !self.has(name) {
            self.fault(name, Flaw::required());
            return Vec::new();
        }
        let objects = self.nullable_objects(name, len_max, read).flatten().unwrap_or_default();
        if objects.is_empty() && self.is_sound() {
            self.fault(name, Flaw::new("empty", "must have one entry at least"));
        }
        objects
    }
}

/// Publishes bodies: for each the type that operations name, what clients call it, and the parser
/// that declares its fields.
#[macro_export]
macro_rules! bodies {
    ($($(#[doc = $about:literal])+ $type:ident $name:literal $read:expr;)*) => {$(
        $(#[doc = $about])+
        #[derive(Debug)]
        pub struct $type;

        impl $type {
            fn shape() -> $crate::body::Shape {
                $crate::body::Shape::of($read)
            }
        }

        impl utoipa::PartialSchema for $type {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                Self::shape().schema(concat!($($about, "\n"),+))
            }
        }

        impl utoipa::ToSchema for $type {
            fn name() -> std::borrow::Cow<'static, str> {
                std::borrow::Cow::Borrowed($name)
            }

            fn schemas(parts: &mut $crate::body::Parts) {
                parts.extend(Self::shape().parts);
            }
        }
    )*};
}

#[cfg(test)]
mod tests {
    use super::*;

    type Thing = (LineText, Option<bool>, Option<Option<Uuid>>);

    fn parse(fields: &mut Fields<'_>) -> Thing {
        let name = fields.must("name", "Its name.", line(5));
        let is_open = fields.may("is_open", "Whether it is open.", flag().example("true"));
        (name, is_open, fields.patch("parent", "Parent object.", reference(|id| id)))
    }

    #[test]
    fn what_is_read_is_what_is_published() {
        let shape = Shape::of(|fields| _ = parse(fields));
        let names: Vec<_> = shape.parts.iter().map(|(name, _)| name.clone()).collect();
        let schema = serde_json::to_value(shape.schema(" A thing,\n of some kind.\n")).unwrap();
        let Value::Object(mut schema) = schema else { panic!("{schema}") };
        replace_wrapped(&mut schema);
        let parent =
            json!({"$ref": "#/components/schemas/Reference", "description": "Parent object."});
        let expected = json!({
            "type": "object",
            "description": "A thing,\nof some kind.",
            "required": ["name"],
            "properties": {
                "name": {"type": "string", "description": "Its name.", "maxLength": 5, "pattern": r"\S"},
                "is_open": {"type": "boolean", "description": "Whether it is open.", "example": true},
                "parent": {"anyOf": [parent, {"type": "null"}]},
            },
        });
        assert_eq!((Value::Object(schema), names), (expected, vec!["Reference".to_owned()]));
    }

    #[test]
    fn absent_null_and_a_value_are_three() {
        let read = |json: &str| {
            let mut fields = Fields::parse(json.as_bytes()).unwrap();
            let (_, is_open, parent) = parse(&mut fields);
            let faults = fields.finish().err().unwrap_or_default();
            let codes: Vec<_> = faults.iter().map(|fault| fault.flaw.code).collect();
            (is_open, parent, codes.join(" "))
        };
        let nil = Uuid::nil();
        let named = format!(r#"{{"name": "a", "is_open": true, "parent": {{"id": "{nil}"}}}}"#);
        let wrong = r#"{"name": null, "is_open": null, "parent": 1}"#;
        let rows = [
            (r#"{"name": "a"}"#, (None, None, "")),
            (r#"{"name": "a", "parent": null}"#, (None, Some(None), "")),
            (&named, (Some(true), Some(Some(nil)), "")),
            (wrong, (None, None, "required null not_a_reference")),
        ];
        for (json, (is_open, parent, codes)) in rows {
            assert_eq!(read(json), (is_open, parent, codes.to_owned()), "{json}");
        }
    }
}
