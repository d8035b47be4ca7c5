//! The query of a request: parameters by name, and what is wrong with them.

use cardswitch_engine::domain::business_date::BusinessDate;
use cardswitch_engine::domain::ids::Timestamp;
use uuid::Uuid;

use super::fault::{Fault, Flaw};
use super::{fields, time};

/// The parameters of a query; the last one of a name counts. Unknown ones are ignored.
#[derive(Debug, Default)]
pub struct Query {
    parameters: Vec<(String, String)>,
    faults: Vec<Fault>,
}

impl Query {
    /// The query with these parameters, decoded.
    #[must_use]
    pub fn new(parameters: Vec<(String, String)>) -> Self {
        Self { parameters, faults: Vec::new() }
    }

    /// A parameter's text; an empty one counts as absent.
    #[must_use]
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

    /// An id.
    pub fn id(&mut self, name: &str) -> Option<Uuid> {
        self.parsed(name, fields::parse_id, || Flaw::new("not_an_id", "must be a UUID"))
    }

    /// An instant.
    pub fn time(&mut self, name: &str) -> Option<Timestamp> {
        self.parsed(name, time::parse_query_time, time::not_a_time)
    }

    /// A date.
    pub fn date(&mut self, name: &str) -> Option<BusinessDate> {
        self.parsed(name, time::parse_date, time::not_a_date)
    }

    /// Whether something is asked for: `true` or `false`; not where it is absent.
    pub fn flag(&mut self, name: &str) -> bool {
        let flaw = || Flaw::new("not_a_boolean", "must be true or false");
        self.parsed(name, |text| text.parse().ok(), flaw).unwrap_or(false)
    }

    /// A whole number of zero or more; one beyond `usize` counts as its largest value.
    pub fn whole_number(&mut self, name: &str) -> Option<usize> {
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

fn parse_whole_number(text: &str) -> Option<usize> {
    let is_whole = text.bytes().all(|byte| byte.is_ascii_digit());
    (is_whole && !text.is_empty()).then(|| text.parse().unwrap_or(usize::MAX))
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
            assert_eq!(query.whole_number("limit"), expected, "{text}");
            assert_eq!(query.finish().is_ok(), expected.is_some(), "{text}");
        }
    }

    #[test]
    fn flags_are_true_or_false() {
        let rows = [
            ("true", Some(true)),
            ("false", Some(false)),
            ("", Some(false)),
            ("True", None),
            ("1", None),
            ("yes", None),
            ("null", None),
        ];
        for (text, expected) in rows {
            let mut query = Query::new(vec![("exclude_declines".into(), text.into())]);
            assert_eq!(query.flag("exclude_declines"), expected.unwrap_or(false), "{text}");
            assert_eq!(query.finish().is_ok(), expected.is_some(), "{text}");
        }
        assert!(!Query::default().flag("exclude_declines"));
    }

    #[test]
    fn the_last_of_a_name_counts_and_empty_is_absent() {
        let pairs = [("a", "1"), ("a", "2"), ("b", ""), ("c", "x")];
        let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let mut query = Query::new(pairs.into());
        assert_eq!(query.text("a"), Some("2"));
        assert_eq!(query.text("b"), None);
        assert_eq!(query.id("b"), None);
        assert_eq!(query.id("c"), None);
        assert_eq!(query.time("c"), None);
        let faults = query.finish().unwrap_err();
        let codes: Vec<_> = faults.iter().map(|fault| fault.flaw.code).collect();
        assert_eq!(codes, ["not_an_id", "not_a_time"]);
    }
}
