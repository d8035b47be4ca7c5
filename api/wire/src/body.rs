//! What a body may hold: the rules of its fields, each with the schema that is published.
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
use utoipa::openapi::schema::Schema;
use uuid::Uuid;

use super::amount::parse_json_amount;
use super::fault::Flaw;
use super::fields::{self, Fields};
use crate::words;

/// Schemas that others refer to, by their names.
pub type Parts = Vec<(String, RefOr<Schema>)>;

/// The rule for the value of a field: how one that is not null is read, and the schema of those that
/// can be.
pub struct Rule<'a, T> {
    read: Box<dyn FnOnce(&'a RawValue) -> Result<T, Flaw> + 'a>,
    schema: Box<dyn Fn(&mut Parts) -> Value + 'a>,
    example: Option<&'static str>,
}

impl<'a, T> Rule<'a, T> {
    fn new(
        schema: impl Fn(&mut Parts) -> Value + 'a,
        read: impl FnOnce(&'a RawValue) -> Result<T, Flaw> + 'a,
    ) -> Self {
        Self { read: Box::new(read), schema: Box::new(schema), example: None }
    }

    /// A rule whose schema is written out where it is used.
    pub fn plain(
        schema: impl Fn() -> Value + 'a,
        read: impl FnOnce(&'a RawValue) -> Result<T, Flaw> + 'a,
    ) -> Self {
        Self::new(move |_| schema(), read)
    }

    /// A rule whose schema is that of `S`, by its name.
    pub fn named<S: ToSchema + 'a>(
        read: impl FnOnce(&'a RawValue) -> Result<T, Flaw> + 'a,
    ) -> Self {
        Self::new(part::<S>, read)
    }

    /// The rule with an example of its own, which is JSON.
    #[must_use]
    pub fn example(self, example: &'static str) -> Self {
        Self { example: Some(example), ..self }
    }

    /// The schema of the values that keep the rule.
    pub fn schema(&self, parts: &mut Parts) -> Value {
        let mut schema = (self.schema)(parts);
        if let Some(example) = self.example {
            schema["example"] = serde_json::from_str(example).unwrap_or_default();
        }
        schema
    }

    /// Reads a value that is not null.
    /// Errors: it breaks the rule.
    pub fn read(self, value: &'a RawValue) -> Result<T, Flaw> {
        (self.read)(value)
    }
}

/// A reference to the schema of `S`, which becomes one of the parts.
pub fn part<S: ToSchema>(parts: &mut Parts) -> Value {
    S::schemas(parts);
    parts.push((S::name().into_owned(), S::schema()));
    json!({"$ref": format!("#/components/schemas/{}", S::name())})
}

/// A text of one line that is not blank.
pub fn line<'a>(chars_max: usize) -> Rule<'a, LineText> {
    Rule::plain(line_schema(chars_max), move |value| fields::line(value, chars_max))
}

/// The schema of a text of one line that is not blank.
pub fn line_schema(chars_max: usize) -> impl Fn() -> Value {
    move || json!({"type": "string", "maxLength": chars_max, "pattern": r"\S"})
}

/// A text of one line that may be blank.
pub fn short_line<'a>(chars_max: usize) -> Rule<'a, LineText> {
    let schema = move || json!({"type": "string", "maxLength": chars_max});
    Rule::plain(schema, move |value| fields::short_text(value, chars_max))
}

/// A text of any lines.
pub fn paragraph<'a>(chars_max: usize) -> Rule<'a, ParagraphText> {
    let schema = move || json!({"type": "string", "maxLength": chars_max});
    Rule::plain(schema, move |value| fields::lines(value, chars_max))
}

/// True or false.
pub fn flag<'a>() -> Rule<'a, bool> {
    Rule::plain(|| json!({"type": "boolean"}), fields::boolean)
}

/// An instant.
pub fn instant<'a>() -> Rule<'a, Timestamp> {
    Rule::plain(|| json!({"type": "string", "format": "date-time"}), fields::timestamp)
}

/// An instant that is still to come.
pub fn later<'a>(now: Timestamp) -> Rule<'a, Timestamp> {
    Rule::plain(
        || json!({"type": "string", "format": "date-time"}),
        move |value| {
            let at = fields::timestamp(value)?;
            if at > now { Ok(at) } else { Err(Flaw::new("past", "must be later than now")) }
        },
    )
}

/// An e-mail address.
pub fn email<'a>() -> Rule<'a, String> {
    Rule::plain(|| json!({"type": "string", "format": "email"}), super::email::email)
}

/// A reference to another object, by an id of the kind `of`.
pub fn reference<'a, T: 'a>(of: fn(Uuid) -> T) -> Rule<'a, T> {
    Rule::named::<words::Reference>(move |value| fields::reference(value).map(of))
}

/// A number that is a name.
pub fn code<'a>(digits_max: usize) -> Rule<'a, String> {
    Rule::named::<words::Code>(move |value| fields::digits(value, digits_max))
}

/// An amount of 0 or more.
pub fn budget<'a>(currency: CurrencyCode) -> Rule<'a, Minor> {
    Rule::named::<words::Budget>(move |value| {
        let amount = parse_json_amount(value, currency)?;
        let is_budget = amount >= Minor::ZERO;
        is_budget.then_some(amount).ok_or_else(|| Flaw::new("negative", "must be 0 or more"))
    })
}

/// An amount above 0; `otherwise` is what a client is told of others.
pub fn limit<'a>(currency: CurrencyCode, otherwise: &'static str) -> Rule<'a, Minor> {
    Rule::named::<words::Limit>(move |value| {
        let amount = parse_json_amount(value, currency)?;
        amount.is_positive().then_some(amount).ok_or_else(|| Flaw::new("not_positive", otherwise))
    })
}

/// What a field may be instead of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Nothing else.
    Required,
    /// Absent.
    Optional,
    /// Absent or null.
    Nullable,
}

/// What a parser asks for.
#[derive(Default)]
pub struct Shape {
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
    /// What `read` asks for.
    pub fn of(read: impl FnOnce(&mut Fields<'static>)) -> Self {
        let mut fields = Fields::describing();
        read(&mut fields);
        fields.shape.map(|shape| *shape).unwrap_or_default()
    }

    /// The schema of an object, described by the lines of a doc comment.
    #[must_use]
    pub fn schema(self, about: &str) -> RefOr<Schema> {
        let about: Vec<_> = about.lines().map(str::trim).collect();
        let mut schema = json!({
            "type": "object", "description": about.join("\n"), "properties": self.properties,
        });
        if !self.required.is_empty() {
            schema["required"] = json!(self.required);
        }
        typed(schema)
    }
}

/// INVARIANT: schemas here are made of what the type knows.
fn typed(schema: Value) -> RefOr<Schema> {
    serde_json::from_value(schema).unwrap_or_else(|_| RefOr::T(Schema::default()))
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
        let mut schema = schema(&mut shape.parts);
        schema["description"] = json!(about);
        match presence {
            Presence::Nullable if schema.get("type").is_some() => {
                schema["type"] = json!([schema["type"], "null"]);
            }
            Presence::Nullable => schema = json!({"anyOf": [schema, {"type": "null"}]}),
            Presence::Required => shape.required.push(name.to_owned()),
            Presence::Optional => {}
        }
        shape.properties.insert(name.to_owned(), schema);
    }

    /// A field that must be there. Where it is at fault a default stands in, which nobody will see.
    pub fn must<T: Default>(&mut self, name: &str, about: &str, rule: Rule<'a, T>) -> T {
        self.describe(name, about, Presence::Required, |parts| rule.schema(parts));
        self.required(name, |value| rule.read(value))
    }

    /// A field that may be absent but not null.
    pub fn may<T>(&mut self, name: &str, about: &str, rule: Rule<'a, T>) -> Option<T> {
        self.describe(name, about, Presence::Optional, |parts| rule.schema(parts));
        self.optional(name, |value| rule.read(value))
    }

    /// A field that may be absent or null: none, or none within.
    pub fn patch<T>(&mut self, name: &str, about: &str, rule: Rule<'a, T>) -> Option<Option<T>> {
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
        self.nullable_object(name, read)
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
        (name, is_open, fields.patch("parent", "What it is below.", reference(|id| id)))
    }

    #[test]
    fn what_is_read_is_what_is_published() {
        let shape = Shape::of(|fields| _ = parse(fields));
        let names: Vec<_> = shape.parts.iter().map(|(name, _)| name.clone()).collect();
        let schema = serde_json::to_value(shape.schema(" A thing,\n of some kind.\n")).unwrap();
        let parent =
            json!({"$ref": "#/components/schemas/Reference", "description": "What it is below."});
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
        assert_eq!((schema, names), (expected, vec!["Reference".to_owned()]));
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
