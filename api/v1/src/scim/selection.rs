//! The selection of a client: which users, which page of them, which of their attributes.
//! Source: RFC 7644, 3.4.2, 3.4.3 and 3.9.

use cardswitch_edge::error::ApiError;
use cardswitch_wire::fault::Flaw;
use cardswitch_wire::query::Query;
use serde_json::{Map, Value};

use super::attribute::canonical;
use super::filter::Filter;
use super::patch::member;

/// The default length of a page. Units: users.
const COUNT_DEFAULT: usize = 100;
/// The greatest length of a page. Units: users.
pub(super) const COUNT_MAX: usize = cardswitch_engine::limits::PAGE_LEN_MAX;
/// The most attributes that are named.
const NAMES_MAX: usize = 100;

/// The users that a client selects, and their shown attributes.
#[derive(Clone, Debug)]
pub(super) struct UserSelection {
    /// The condition on users; none selects all.
    pub(super) filter: Option<Filter>,
    /// The place of the first one, from 1 on.
    pub(super) start_index: usize,
    /// The most users on the page.
    pub(super) count: usize,
    /// The shown attributes.
    pub(super) shown: AttributeSelection,
}

impl UserSelection {
    /// Reads the query of a list.
    /// Errors: a filter or a number that cannot be read.
    pub(super) fn of_query(query: &Query) -> Result<Self, ApiError> {
        let number = |name: &str| query.text(name).map(parse_number);
        Self::new(
            query.text("filter"),
            number("startIndex"),
            number("count"),
            AttributeSelection::of_query(query)?,
        )
    }

    /// Reads the body of a search.
    /// Errors: as `of_query`.
    pub(super) fn of_body(body: &Map<String, Value>) -> Result<Self, ApiError> {
        let number = |name: &str| match member(body, name) {
            None | Some(Value::Null) => None,
            Some(value) => Some(parse_number(&value.to_string())),
        };
        let filter = member(body, "filter").and_then(Value::as_str);
        let names = |name: &str| match member(body, name) {
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            Some(Value::String(names)) => names.split(',').collect(),
            _ => Vec::new(),
        };
        let shown = AttributeSelection::new(&names("attributes"), &names("excludedAttributes"))?;
        Self::new(filter, number("startIndex"), number("count"), shown)
    }

    fn new(
        filter: Option<&str>,
        start_index: Option<Option<i64>>,
        count: Option<Option<i64>>,
        shown: AttributeSelection,
    ) -> Result<Self, ApiError> {
        let number = |name: &str, read: Option<Option<i64>>, default: usize| match read {
            None => Ok(default),
            // Less than the least counts as the least. Source: RFC 7644, 3.4.2.4.
            Some(Some(number)) => Ok(usize::try_from(number.max(0)).unwrap_or(usize::MAX)),
            Some(None) => {
                Err(ApiError::invalid_field(name, Flaw::new("not_a_number", "must be whole")))
            }
        };
        Ok(Self {
            filter: filter.map(Filter::parse).transpose()?,
            start_index: number("startIndex", start_index, 1)?.max(1),
            count: number("count", count, COUNT_DEFAULT)?.min(COUNT_MAX),
            shown,
        })
    }
}

fn parse_number(text: &str) -> Option<i64> {
    text.parse().ok()
}

/// The shown attributes of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AttributeSelection {
    /// The default: all attributes.
    Usual,
    /// These only, and those of `ALWAYS`, which tell whose they are.
    Only(Vec<String>),
    /// All but these.
    Without(Vec<String>),
}

/// The attributes that are always shown. Source: RFC 7643, 7, `returned`.
const ALWAYS: [&str; 2] = ["schemas", "id"];

impl AttributeSelection {
    /// Reads what a query says.
    /// Errors: it names both what is wanted and what is not.
    pub(super) fn of_query(query: &Query) -> Result<Self, ApiError> {
        let names = |name: &str| match query.text(name) {
            Some(names) => names.split(',').collect(),
            None => Vec::new(),
        };
        Self::new(&names("attributes"), &names("excludedAttributes"))
    }

    fn new(only: &[&str], without: &[&str]) -> Result<Self, ApiError> {
        let flaw = |message: &str| {
            Err(ApiError::invalid_field("attributes", Flaw::new("not_attributes", message)))
        };
        if only.len().max(without.len()) > NAMES_MAX {
            return flaw("are too many");
        }
        let names = |names: &[&str]| names.iter().map(|name| canonical(name.trim())).collect();
        match (only.is_empty(), without.is_empty()) {
            (true, true) => Ok(Self::Usual),
            (false, true) => Ok(Self::Only(names(only))),
            (true, false) => Ok(Self::Without(names(without))),
            (false, false) => flaw("and `excludedAttributes` exclude each other"),
        }
    }

    /// The shown part of a user.
    pub(super) fn of(&self, whole: Value) -> Value {
        let Value::Object(whole) = whole else { return whole };
        let shown = whole.into_iter().filter_map(|(key, value)| {
            if ALWAYS.contains(&key.as_str()) { Some((key, value)) } else { self.part(key, value) }
        });
        Value::Object(shown.collect())
    }

    fn part(&self, key: String, mut value: Value) -> Option<(String, Value)> {
        let name = canonical(&key);
        let (names, is_wanted) = match self {
            Self::Usual => return Some((key, value)),
            Self::Only(names) => (names, true),
            Self::Without(names) => (names, false),
        };
        if names.contains(&name) {
            return is_wanted.then_some((key, value));
        }
        let within: Vec<_> = names.iter().filter_map(|inner| inner_name(inner, &name)).collect();
        if within.is_empty() {
            return (!is_wanted).then_some((key, value));
        }
        let keep = |inner: &String| within.contains(&inner.to_lowercase().as_str()) == is_wanted;
        match &mut value {
            Value::Object(object) => object.retain(|inner, _| keep(inner)),
            Value::Array(elements) => elements
                .iter_mut()
                .filter_map(Value::as_object_mut)
                .for_each(|object| object.retain(|inner, _| keep(inner))),
            _ => {}
        }
        Some((key, value))
    }
}

/// The name within the attribute `outer`, where that is what is named.
fn inner_name<'a>(name: &'a str, outer: &str) -> Option<&'a str> {
    name.strip_prefix(outer)?.strip_prefix(['.', ':'])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::attribute::ENTERPRISE_SCHEMA;
    use super::*;

    fn query(pairs: &[(&str, &str)]) -> Query {
        Query::new(pairs.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect())
    }

    #[test]
    fn pages_are_within_bounds_whatever_is_asked() {
        let rows = [
            (vec![], Some((1, 100))),
            (vec![("startIndex", "0"), ("count", "-1")], Some((1, 0))),
            (vec![("startIndex", "-5"), ("count", "0")], Some((1, 0))),
            (vec![("startIndex", "11"), ("count", "5000")], Some((11, 1_000))),
            (vec![("startIndex", "one")], None),
            (vec![("count", "1.5")], None),
            (vec![("count", "99999999999999999999")], None),
            (vec![("filter", "userName")], None),
            (vec![("attributes", "id"), ("excludedAttributes", "name")], None),
        ];
        for (pairs, expected) in rows {
            let wanted = UserSelection::of_query(&query(&pairs)).ok();
            let page = wanted.map(|wanted| (wanted.start_index, wanted.count));
            assert_eq!(page, expected, "{pairs:?}");
        }
    }

    #[test]
    fn a_search_says_the_same_in_a_body() {
        let body = json!({
            "schemas": [], "startIndex": 3, "count": 2, "filter": "active pr",
            "attributes": ["userName", "name.givenName"],
        });
        let wanted = UserSelection::of_body(body.as_object().unwrap()).unwrap();
        assert_eq!((wanted.start_index, wanted.count), (3, 2));
        assert!(wanted.filter.is_some());
        assert_eq!(
            wanted.shown,
            AttributeSelection::Only(vec!["username".into(), "name.givenname".into()])
        );
        let body = json!({"count": "two"});
        assert!(UserSelection::of_body(body.as_object().unwrap()).is_err());
    }

    #[test]
    fn attributes_are_shown_or_left_out_by_name() {
        let user = json!({
            "schemas": ["s"], "id": "1", "userName": "u", "name": {"givenName": "g", "familyName": "f"},
            "emails": [{"value": "v", "type": "work"}],
            ENTERPRISE_SCHEMA: {"employeeNumber": "1", "department": "d"},
        });
        let department = format!("{ENTERPRISE_SCHEMA}:department");
        let rows = [
            ("attributes", "userName", json!({"userName": "u"})),
            (
                "attributes",
                "NAME.familyname, emails.value",
                json!({
                    "name": {"familyName": "f"}, "emails": [{"value": "v"}],
                }),
            ),
            ("attributes", department.as_str(), json!({ENTERPRISE_SCHEMA: {"department": "d"}})),
            ("attributes", "nothing", json!({})),
            (
                "excludedAttributes",
                "id,schemas,name,emails,userName",
                json!({
                    ENTERPRISE_SCHEMA: {"employeeNumber": "1", "department": "d"},
                }),
            ),
            (
                "excludedAttributes",
                "name.givenName,emails,userName,urn:ietf:params:scim:schemas:extension:enterprise:2.0:User",
                json!({
                    "name": {"familyName": "f"},
                }),
            ),
        ];
        for (parameter, names, mut expected) in rows {
            expected["schemas"] = json!(["s"]);
            expected["id"] = json!("1");
            let shown = AttributeSelection::of_query(&query(&[(parameter, names)])).unwrap();
            assert_eq!(shown.of(user.clone()), expected, "{parameter} {names}");
        }
        assert_eq!(AttributeSelection::Usual.of(user.clone()), user);
    }
}
