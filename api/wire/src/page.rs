//! Pages of a list: the parameters that ask for one, and the envelope it is answered in.
//! Source: spec "Limits", pagination parameters.

use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::limits;
use cardswitch_engine::store::query::{ListPage, Order, Page};
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use super::fault::Flaw;
use super::query::Query;
use super::urls::Urls;
use crate::queries;

/// How many rows a page has where the client does not say.
const LIMIT_DEFAULT: usize = 10;

/// A list as responses show it.
#[derive(Debug, Serialize, ToSchema)]
pub struct Listing<T> {
    /// Number of rows on all pages.
    pub count: u64,
    /// The address of the page after this one.
    pub next: Option<String>,
    /// The address of the page before this one.
    pub previous: Option<String>,
    /// The rows of this page.
    pub results: Vec<T>,
}

queries! {
    /// The parameters that every list takes.
    PageParameters |query| _ = parse_page(query, &["created_at"]);
}

/// The address of a list, from which the addresses of its other pages are made.
#[derive(Clone, Debug)]
pub struct ListAddress {
    /// The path, without a slash at its end.
    pub path: String,
    /// The query as sent, still encoded.
    pub query: String,
}

/// Reads the parameters that every list takes. `time_orderings` are the names by which the list
/// can be ordered, all of them instants that rise together.
pub fn parse_page(query: &mut Query, time_orderings: &[&str]) -> Page {
    let about = "Number of rows of a page; more than 1000 count as 1000.";
    let limit = query.count("limit", about, LIMIT_DEFAULT);
    let offset = query.count("offset", "Number of rows before the page.", 0);
    let [created_after, created_before] = parse_creation_bounds(query);
    let about = "By what the list is ordered; `-` for the newest first.";
    describe_ordering(query, about, &time_orderings.join("|"), "-created_at");
    let order = query.parsed(
        "ordering",
        |text| parse_order(text, time_orderings),
        || Flaw::new("unknown_value", format!("must be {}", one_of(time_orderings))),
    );
    Page {
        limit: limit.min(limits::PAGE_LEN_MAX),
        offset,
        created_after,
        created_before,
        order: order.unwrap_or(Order::NewestFirst),
    }
}

/// Reads the bounds of the time of creation: rows from the first on, and before the second.
pub fn parse_creation_bounds(query: &mut Query) -> [Option<Timestamp>; 2] {
    let after = query.time("created_after", "Made at this time or after it.");
    [after, query.time("created_before", "Made before this time.")]
}

/// Notes by what a list can be ordered: `names` with bars between them.
pub fn describe_ordering(query: &mut Query, about: &str, names: &str, absent: &str) {
    let names = if names.contains('|') { &format!("({names})") } else { names };
    let schema = || json!({"type": "string", "pattern": format!("^-?{names}$"), "default": absent});
    query.describe("ordering", about, schema);
}

fn parse_order(text: &str, names: &[&str]) -> Option<Order> {
    let (name, order) = match text.strip_prefix('-') {
        Some(name) => (name, Order::NewestFirst),
        None => (text, Order::OldestFirst),
    };
    names.contains(&name).then_some(order)
}

fn one_of(names: &[&str]) -> String {
    let signed: Vec<_> = names.iter().map(|name| format!("`{name}`, `-{name}`")).collect();
    format!("one of {}", signed.join(", "))
}

/// Puts a page into its envelope.
pub fn envelope<T>(
    listed: ListPage<T>,
    page: &Page,
    address: &ListAddress,
    urls: &Urls,
) -> Listing<T> {
    let ListPage { count, rows: results } = listed;
    let end = page.offset.saturating_add(page.limit);
    let has_next = page.limit > 0 && u64::try_from(end).is_ok_and(|end| end < count);
    let link = |offset| urls.path(&address.at(page.limit, offset));
    Listing {
        count,
        next: has_next.then(|| link(end)),
        previous: (page.offset > 0 && page.limit > 0)
            .then(|| link(page.offset.saturating_sub(page.limit))),
        results,
    }
}

impl ListAddress {
    /// The path and query of the page at `offset`: the client's own filters, kept as sent.
    fn at(&self, limit: usize, offset: usize) -> String {
        let kept = self.query.split('&').filter(|pair| {
            let name = pair.split('=').next().unwrap_or_default();
            !pair.is_empty() && name != "limit" && name != "offset"
        });
        let mut address = format!("{}?", self.path);
        for pair in kept {
            address.push_str(pair);
            address.push('&');
        }
        address.push_str(&format!("limit={limit}&offset={offset}"));
        address
    }
}

/// Whether a page is to show a row that was made at this time.
pub fn is_within(page: &Page, at: Timestamp) -> bool {
    page.created_after.is_none_or(|after| at >= after)
        && page.created_before.is_none_or(|before| at < before)
}

/// The page of rows that are all at hand, newest last; for lists that are short by nature.
pub fn page_of<T>(mut rows: Vec<T>, page: &Page) -> ListPage<T> {
    let count = rows.len() as u64;
    if page.order == Order::NewestFirst {
        rows.reverse();
    }
    let rows = rows.into_iter().skip(page.offset).take(page.limit).collect();
    ListPage { count, rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Query {
        Query::new(
            text.split('&')
                .filter_map(|pair| pair.split_once('='))
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        )
    }

    fn page(limit: usize, offset: usize) -> Page {
        Page { limit, offset, created_after: None, created_before: None, order: Order::NewestFirst }
    }

    fn listed(count: u64) -> ListPage<()> {
        ListPage { count, rows: vec![()] }
    }

    #[test]
    fn limits_have_a_default_and_a_ceiling() {
        for (text, limit, offset) in [
            ("", 10, 0),
            ("limit=5&offset=7", 5, 7),
            ("limit=0", 0, 0),
            ("limit=1000", 1_000, 0),
            ("limit=1001", 1_000, 0),
            ("limit=99999999999999999999999", 1_000, 0),
        ] {
            let page = parse_page(&mut query(text), &["created_at"]);
            assert_eq!((page.limit, page.offset), (limit, offset), "{text}");
        }
    }

    #[test]
    fn orderings_are_those_of_the_list() {
        let rows = [
            ("created_at", Some(Order::OldestFirst)),
            ("-created_at", Some(Order::NewestFirst)),
            ("time", Some(Order::OldestFirst)),
            ("-time", Some(Order::NewestFirst)),
            ("amount", None),
            ("--time", None),
        ];
        for (text, expected) in rows {
            let mut query = query(&format!("ordering={text}"));
            let page = parse_page(&mut query, &["created_at", "time"]);
            assert_eq!(page.order, expected.unwrap_or(Order::NewestFirst));
            assert_eq!(query.finish().is_ok(), expected.is_some(), "{text}");
        }
    }

    #[test]
    fn every_fault_is_named() {
        let mut query = query("limit=x&offset=-1&created_after=y&created_before=2026&ordering=z");
        parse_page(&mut query, &["created_at"]);
        let faults = query.finish().unwrap_err();
        let names: Vec<_> = faults.iter().map(|fault| fault.param.as_str()).collect();
        assert_eq!(names, ["limit", "offset", "created_after", "created_before", "ordering"]);
    }

    #[test]
    fn links_lead_to_every_row_and_keep_the_filters() {
        let urls = Urls::new("https://api.example.com/");
        let address = ListAddress {
            path: "/v1/cards".into(),
            query: "state=active%2Csuspended&offset=9&limit=4&description=a+b".into(),
        };
        let kept = "https://api.example.com/v1/cards?state=active%2Csuspended&description=a+b";
        let rows = [
            (10, 4, 0, Some(4), None),
            (10, 4, 4, Some(8), Some(0)),
            (10, 4, 8, None, Some(4)),
            (10, 4, 2, Some(6), Some(0)),
            (8, 4, 4, None, Some(0)),
            (0, 4, 0, None, None),
            (3, 4, 50, None, Some(46)),
            (3, 0, 0, None, None),
        ];
        for (count, limit, offset, next, previous) in rows {
            let listing = envelope(listed(count), &page(limit, offset), &address, &urls);
            let link = |offset| format!("{kept}&limit={limit}&offset={offset}");
            assert_eq!(listing.next, next.map(link), "{count} {limit} {offset}");
            assert_eq!(listing.previous, previous.map(link), "{count} {limit} {offset}");
        }
        let bare = ListAddress { path: "/v1/cards".into(), query: String::new() };
        let listing = envelope(listed(2), &page(1, 0), &bare, &urls);
        let next = "https://api.example.com/v1/cards?limit=1&offset=1";
        assert_eq!(listing.next.as_deref(), Some(next));
    }

    #[test]
    fn short_lists_are_cut_in_either_order() {
        let newest_first = Page { offset: 1, limit: 2, ..page(2, 1) };
        assert_eq!(page_of(vec![1, 2, 3, 4], &newest_first).rows, [3, 2]);
        let oldest_first = Page { order: Order::OldestFirst, ..newest_first };
        let cut = page_of(vec![1, 2, 3, 4], &oldest_first);
        assert_eq!((cut.count, cut.rows), (4, vec![2, 3]));
        assert_eq!(page_of(Vec::<u8>::new(), &oldest_first).count, 0);
    }
}
