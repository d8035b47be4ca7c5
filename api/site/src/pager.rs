//! Pages of long lists: their filters, the part that is shown, and the links to the parts before
//! and after.

use cardswitch_engine::store::query::{Order, Page};
use cardswitch_wire::page::parse_creation_bounds;
use cardswitch_wire::query::Query;
use serde::Deserialize;
use url::form_urlencoded::Serializer;

use crate::words::grouped;

/// How many rows a page has.
pub(super) const ROWS: usize = 50;

/// The part of a list that is requested.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Part {
    /// Rows to skip.
    #[serde(default)]
    pub(super) offset: usize,
}

impl Part {
    /// The part as reads take it, the newest first.
    pub(super) const fn page(self) -> Page {
        Page {
            limit: ROWS,
            offset: self.offset,
            created_after: None,
            created_before: None,
            order: Order::NewestFirst,
        }
    }
}

/// The ends at which a list may begin: the value in the query, and the label.
pub(super) const ORDERS: [(&str, &str); 2] = [("", "Newest first"), ("oldest", "Oldest first")];

/// The order that a query asks for; the newest first where it says something else.
pub(super) fn order_of(text: &str) -> Order {
    if text == ORDERS[1].0 { Order::OldestFirst } else { Order::NewestFirst }
}

/// A list's query as typed: filters by their names, an order and a part. Filters that `/v1`
/// knows by the same name are its own to read.
///
/// INVARIANT: each name is there once.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(try_from = "Vec<(String, String)>")]
pub(super) struct ListForm(Vec<(String, String)>);

impl TryFrom<Vec<(String, String)>> for ListForm {
    type Error = &'static str;

    fn try_from(pairs: Vec<(String, String)>) -> Result<Self, Self::Error> {
        let mut names: Vec<_> = pairs.iter().map(|(name, _)| name).collect();
        names.sort_unstable();
        // Neither of two values counts more than the other.
        if !names.is_sorted_by(|one, next| one < next) {
            return Err("a field came more than once");
        }
        let mut offsets = pairs.iter().filter(|(name, _)| name == "offset");
        let is_number = offsets.all(|(_, text)| text.parse::<usize>().is_ok());
        if is_number { Ok(Self(pairs)) } else { Err("an offset is a whole number") }
    }
}

impl ListForm {
    /// The value of a field, without blanks around it.
    pub(super) fn of(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, text)| text.trim())
    }

    /// The same with another text in a field.
    pub(super) fn set(&mut self, name: &str, text: String) {
        self.0.retain(|(known, _)| known != name);
        self.0.push((name.to_owned(), text));
    }

    /// The part of the list; the first where none is named.
    pub(super) fn part(&self) -> Part {
        Part { offset: self.of("offset").parse().unwrap_or_default() }
    }

    /// The part of the list in the requested order. `/v1` reads its bounds from the `query` of this
    /// form; faults stay there.
    pub(super) fn page(&self, query: &mut Query) -> Page {
        let [created_after, created_before] = parse_creation_bounds(query);
        let order = order_of(self.of("order"));
        Page { created_after, created_before, order, ..self.part().page() }
    }

    /// The filters and the order, which addresses of other parts keep.
    pub(super) fn pairs(&self) -> Vec<(&str, &str)> {
        let pairs = self.0.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        pairs.filter(|(name, _)| *name != "offset").collect()
    }

    /// The filters that are filled in and for which a form with these `fields` has none: it sends
    /// them along.
    pub(super) fn besides(&self, fields: &[&str]) -> Vec<(&str, &str)> {
        let mut pairs = self.pairs();
        pairs.retain(|(name, text)| !text.is_empty() && !fields.contains(name));
        pairs
    }

    /// The address of this part of the list at `path`.
    pub(super) fn address(&self, path: &str) -> String {
        filtered(path, self.0.iter().map(|(name, text)| (name.as_str(), text.as_str())))
    }

    pub(super) fn is_filtered(&self) -> bool {
        self.pairs().iter().any(|(name, text)| *name != "order" && !text.trim().is_empty())
    }

    /// The query of `/v1`, in which filters of the page's `own` stand in place of others.
    pub(super) fn query<'a>(&'a self, own: impl IntoIterator<Item = (&'a str, &'a str)>) -> Query {
        let pairs = self.pairs().into_iter().chain(own);
        Query::new(pairs.map(|(name, text)| (name.to_owned(), text.trim().to_owned())).collect())
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for ListForm {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect())
    }
}

/// The address of a list with those filters that are filled in.
pub(super) fn filtered<'a>(
    path: &str,
    filters: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> String {
    let filled = filters.into_iter().filter(|(_, value)| !value.is_empty());
    let query = Serializer::new(String::new()).extend_pairs(filled).finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

/// The links and numbers below a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pager {
    /// The way to the part before.
    pub(super) newer: Option<String>,
    /// The way to the part after.
    pub(super) older: Option<String>,
    /// The place of the first row shown, from 1.
    pub(super) first: usize,
    /// The place of the last row shown.
    pub(super) last: usize,
    /// How many rows there are in all.
    pub(super) count: u64,
}

impl Pager {
    /// The links for `shown` rows of `count` of the list at `path`, which keeps its filters.
    pub(super) fn new(
        part: Part,
        shown: usize,
        count: u64,
        path: &str,
        filters: &[(&str, &str)],
    ) -> Self {
        let at = |offset: usize| {
            let offset = if offset > 0 { offset.to_string() } else { String::new() };
            filtered(path, filters.iter().copied().chain([("offset", &*offset)]))
        };
        let last = part.offset.saturating_add(shown);
        let has_more = u64::try_from(last).is_ok_and(|last| last < count) && shown > 0;
        Self {
            newer: (part.offset > 0).then(|| at(part.offset.saturating_sub(ROWS))),
            older: has_more.then(|| at(last)),
            first: part.offset.saturating_add(1).min(last),
            last,
            count,
        }
    }

    /// The rows shown, and how many there are in all.
    pub(super) fn words(&self) -> String {
        let place = |place| grouped(u64::try_from(place).unwrap_or(u64::MAX));
        format!("{}–{} of {}", place(self.first), place(self.last), grouped(self.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_asked_of_v1_by_its_names() {
        let pairs = [("text", " a "), ("offset", "50"), ("state", "x"), ("order", "")];
        let form: ListForm = pairs.into_iter().collect();
        assert_eq!((form.of("text"), form.of("kind"), form.part().offset), ("a", "", 50));
        assert!(form.is_filtered() && !ListForm::default().is_filtered());
        let query = form.query([("state", "active")]);
        let read = ["text", "state", "offset"].map(|name| query.text(name));
        assert_eq!(read, [Some("a"), Some("active"), None]);
        assert_eq!(form.besides(&["state"]), [("text", " a ")]);
        let twice = ["a", "b", "a"].map(|name| (name.to_owned(), String::new()));
        assert!(ListForm::try_from(twice.to_vec()).is_err());
        assert!(ListForm::try_from(vec![("offset".to_owned(), "x".to_owned())]).is_err());
    }

    #[test]
    fn ways_lead_to_the_parts_beside_and_keep_filters() {
        let filters = [("action", "card.updated"), ("actor", "")];
        let row = |offset, shown, count| {
            let pager = Pager::new(Part { offset }, shown, count, "/audit", &filters);
            (pager.newer, pager.older, pager.first, pager.last)
        };
        let way = |query: &str| Some(format!("/audit?action=card.updated{query}"));
        assert_eq!(row(0, 7, 7), (None, None, 1, 7));
        assert_eq!(row(0, 50, 51), (None, way("&offset=50"), 1, 50));
        assert_eq!(row(50, 1, 51), (way(""), None, 51, 51));
        assert_eq!(row(75, 50, 200), (way("&offset=25"), way("&offset=125"), 76, 125));
        assert_eq!(row(90, 0, 7), (way("&offset=40"), None, 90, 90));
        let plain = Pager::new(Part { offset: 50 }, 1, 51, "/tokens", &[]);
        assert_eq!(plain.newer.as_deref(), Some("/tokens"));
        let odd = Pager::new(Part::default(), 50, 99, "/audit", &[("action", "a&b=\"c")]);
        assert_eq!(odd.older.as_deref(), Some("/audit?action=a%26b%3D%22c&offset=50"));
        let far = Pager::new(Part { offset: 1_000 }, 50, 12_345, "/audit", &[]);
        assert_eq!(far.words(), "1,001–1,050 of 12,345");
    }
}
