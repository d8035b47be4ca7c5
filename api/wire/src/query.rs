//! The query of a request: parameters by name, and their faults.
//!
//! The function that reads a query is the only declaration of its parameters, as with bodies. It
//! describes each of them, and the published document has it read an empty query.

use cardswitch_engine::domain::business_date::BusinessDate;
use cardswitch_engine::domain::ids::Timestamp;
use serde_json::{Value, json};
use utoipa::openapi::Required;
use utoipa::openapi::path::{Parameter, ParameterIn};
use uuid::Uuid;

use super::body::wrapped;
use super::fault::{Fault, Flaw};
use super::{fields, time};

/// The parameters of a query; the last one of a name counts. Unknown ones are ignored.
#[derive(Debug, Default)]
pub struct Query {
    parameters: Vec<(String, String)>,
    faults: Vec<Fault>,
    /// The parameters asked for, where these are to be found out: name, meaning, schema.
    shape: Option<Vec<(String, String, Value)>>,
}

impl Query {
    /// The parameters that `read` asks for.
    pub fn described(read: impl FnOnce(&mut Self)) -> Vec<Parameter> {
        let mut query = Self { shape: Some(Vec::new()), ..Self::default() };
        read(&mut query);
        query.shape.into_iter().flatten().map(parameter).collect()
    }

    /// Notes a parameter in the published document; the schema's example is the parameter's.
    pub fn describe(&mut self, name: &str, about: &str, schema: impl FnOnce() -> Value) {
        let Some(shape) = &mut self.shape else { return };
        shape.push((name.to_owned(), about.to_owned(), schema()));
    }

    /// The query with these parameters, decoded.
    pub fn new(parameters: Vec<(String, String)>) -> Self {
        Self { parameters, ..Self::default() }
    }

    /// A parameter's text; an empty one counts as absent.
    pub fn text(&self, name: &str) -> Option<&str> {
        let (_, text) = self.parameters.iter().rfind(|(key, _)| key == name)?;
        Some(text.as_str()).filter(|text| !text.is_empty())
    }

    /// A parameter that `parse` understands; otherwise `flaw` is noted.
    pub fn parsed<T>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> Option<T>,
        flaw: impl FnOnce() -> Flaw,
    ) -> Option<T> {
        let value = parse(self.text(name)?);
        if value.is_none() {
            self.faults.push(Fault::new(name, flaw()));
        }
        value
    }

    /// A parameter of one of the values that keep to `schema`.
    pub fn noted(&mut self, name: &str, about: &str, schema: fn() -> Value) -> Option<&str> {
        self.describe(name, about, schema);
        self.text(name)
    }

    /// An id.
    pub fn id(&mut self, name: &str, about: &str) -> Option<Uuid> {
        self.describe(name, about, || json!({"type": "string", "format": "uuid"}));
        self.parsed(name, fields::parse_id, || Flaw::new("not_an_id", "must be a UUID"))
    }

    /// An instant.
    pub fn time(&mut self, name: &str, about: &str) -> Option<Timestamp> {
        self.describe(name, about, || json!({"type": "string", "format": "date-time"}));
        self.parsed(name, time::parse_query_time, time::not_a_time)
    }

    /// A date.
    pub fn date(&mut self, name: &str, about: &str) -> Option<BusinessDate> {
        self.describe(name, about, || json!({"type": "string", "format": "date"}));
        self.parsed(name, time::parse_date, time::not_a_date)
    }

    /// `true` or `false`.
    pub fn flag(&mut self, name: &str, about: &str) -> Option<bool> {
        self.describe(name, about, || json!({"type": "boolean"}));
        let flaw = || Flaw::new("not_a_boolean", "must be true or false");
        self.parsed(name, |text| text.parse().ok(), flaw)
    }

    /// Any of the words `known`, with commas between them; `noun` is what they are.
    pub fn words<T>(
        &mut self,
        (name, noun): (&str, &str),
        about: &str,
        known: &[&str],
        parse: impl Fn(&str) -> Option<T>,
    ) -> Vec<T> {
        self.describe(name, about, || {
            let word = format!(r"\s*({})?\s*", known.join("|"));
            json!({"type": "string", "pattern": format!("^{word}(,{word})*$")})
        });
        let parse = |text: &str| {
            let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
            words.map(&parse).collect::<Option<Vec<_>>>()
        };
        let flaw =
            || Flaw::new("unknown_value", format!("must be {noun} with commas between them"));
        self.parsed(name, parse, flaw).unwrap_or_default()
    }

    /// A whole number of zero or more that stands for another where it is absent.
    pub fn count(&mut self, name: &str, about: &str, absent: usize) -> usize {
        let schema = || json!({"type": "integer", "minimum": 0, "default": absent});
        self.describe(name, about, schema);
        self.parsed_number(name).unwrap_or(absent)
    }

    /// A whole number of zero or more; one beyond `usize` counts as its largest value.
    pub fn whole_number(&mut self, name: &str, about: &str) -> Option<usize> {
        self.describe(name, about, || json!({"type": "integer", "minimum": 0}));
        self.parsed_number(name)
    }

    fn parsed_number(&mut self, name: &str) -> Option<usize> {
        self.parsed(name, parse_whole_number, || {
            Flaw::new("not_a_whole_number", "must be a whole number of 0 or more")
        })
    }

    /// The faults found.
    /// Errors: every one of them, in the order they were met.
    pub fn finish(self) -> Result<(), Vec<Fault>> {
        if self.faults.is_empty() { Ok(()) } else { Err(self.faults) }
    }
}

fn parameter((name, about, mut schema): (String, String, Value)) -> Parameter {
    let example = schema.as_object_mut().and_then(|schema| schema.remove("example"));
    Parameter::builder()
        .name(name)
        .parameter_in(ParameterIn::Query)
        .description(Some(about))
        .required(Required::False)
        .schema(Some(wrapped(schema)))
        .example(example)
        .build()
}

fn parse_whole_number(text: &str) -> Option<usize> {
    let is_whole = text.bytes().all(|byte| byte.is_ascii_digit());
    (is_whole && !text.is_empty()).then(|| text.parse().unwrap_or(usize::MAX))
}

/// The schema of a text that may be any.
pub fn any_text() -> Value {
    json!({"type": "string"})
}

/// Publishes parameters: for each set the type that operations name, and what reads them.
#[macro_export]
macro_rules! queries {
    ($($(#[doc = $about:literal])+ $type:ident $read:expr;)*) => {$(
        $(#[doc = $about])+
        #[derive(Debug)]
        pub struct $type;

        impl utoipa::IntoParams for $type {
            fn into_params(
                _: impl Fn() -> Option<utoipa::openapi::path::ParameterIn>,
            ) -> Vec<utoipa::openapi::path::Parameter> {
                $crate::query::Query::described($read)
            }
        }
    )*};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_have_digits_only() {
        let rows = [
            ("0", Some(0)),
            ("007", Some(7)),
            ("99999999999999999999999999", Some(usize::MAX)),
            ("-1", None),
            ("+1", None),
            ("1.0", None),
            ("1e3", None),
            ("ten", None),
            (" 1", None),
        ];
        for (text, expected) in rows {
            let mut query = Query::new(vec![("limit".into(), text.into())]);
            assert_eq!(query.whole_number("limit", ""), expected, "{text}");
            assert_eq!(query.finish().is_ok(), expected.is_some(), "{text}");
        }
    }

    #[test]
    fn flags_are_true_or_false() {
        let rows = [
            ("true", Some(true)),
            ("false", Some(false)),
            ("True", None),
            ("1", None),
            ("yes", None),
            ("null", None),
        ];
        for (text, expected) in rows {
            let mut query = Query::new(vec![("exclude_declines".into(), text.into())]);
            assert_eq!(query.flag("exclude_declines", ""), expected, "{text}");
            assert_eq!(query.finish().is_ok(), expected.is_some(), "{text}");
        }
        assert_eq!(Query::default().flag("exclude_declines", ""), None);
    }

    #[test]
    fn the_last_of_a_name_counts_and_empty_is_absent() {
        let pairs = [("a", "1"), ("a", "2"), ("b", ""), ("c", "x")];
        let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let mut query = Query::new(pairs.into());
        assert_eq!(query.text("a"), Some("2"));
        assert_eq!(query.text("b"), None);
        assert_eq!(query.id("b", ""), None);
        assert_eq!(query.id("c", ""), None);
        assert_eq!(query.time("c", ""), None);
        let faults = query.finish().unwrap_err();
        let codes: Vec<_> = faults.iter().map(|fault| fault.flaw.code).collect();
        assert_eq!(codes, ["not_an_id", "not_a_time"]);
    }
}
