//! Habits of older clients of such an API: `serve --compat legacy-client`. Off unless asked for.
//!
//! One layer around `/v1`; handlers know nothing of it.
//!
//! | habit | what is done |
//! |---|---|
//! | list answers under the resource's name | the list stands there besides `results`: `cards`, `shared_links` |
//! | DELETE answers 200 | `{}` in place of 204 without a body |
//! | `assigned_to=null` | lists what has none |
//! | `card[]=A&card[]=B`, `state[]=active` | lists what has any of them |
//! | shared links | `card` is the id as text, in requests and answers |
//!
//! Lists know one value of a filter and no null, so what asks for more is several lists put
//! together here. Null reads the list it is to narrow from end to end, `ROWS_MAX` rows at most.

use std::collections::HashMap;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Query as UriQuery, Request, State};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::uri::PathAndQuery;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use cardswitch_edge::json::Json;
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::limits::PAGE_LEN_MAX;
use cardswitch_engine::store::query::{ListPage, Page};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use url::form_urlencoded;

use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::BODY_BYTES_MAX;
use cardswitch_edge::request_body::read_json;
use cardswitch_identity::state::AppState;
use cardswitch_wire::fault::Flaw;
use cardswitch_wire::page::{ListAddress, Listing, envelope, parse_page};
use cardswitch_wire::query::Query;
use cardswitch_wire::time::render_time;

/// Filters that take an id, and null for what has none.
const ID_FILTERS: [&str; 7] =
    ["assigned_to", "card", "category", "department", "label", "location", "member"];
/// Filters that take several values with commas between them.
const WORD_FILTERS: [&str; 2] = ["state", "status"];
/// The fields that lists can be ordered by.
const ORDERINGS: [&str; 3] = ["created_at", "time", "number"];
/// The most lists that are put together.
const LISTS_MAX: usize = 50;
/// The most rows that are read for one answer.
const ROWS_MAX: usize = 100_000;
/// The longest answer of a handler. Units: bytes.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// The path of shared links.
const SHARED_LINKS: &str = "/v1/shared-links";

/// Puts a client's habits around the routes of `/v1`.
pub fn follow(routes: Router<AppState>, state: AppState) -> Router<AppState> {
    routes.layer(middleware::from_fn_with_state(state, serve_legacy_client))
}

async fn serve_legacy_client(
    State(state): State<AppState>,
    request: Request,
    next: Next,
) -> Response {
    answer(&state, request, next).await.unwrap_or_else(IntoResponse::into_response)
}

async fn answer(state: &AppState, request: Request, next: Next) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let (method, path) = (parts.method.clone(), parts.uri.path().to_owned());
    let is_of_links = path == SHARED_LINKS || path.starts_with("/v1/shared-links/");
    let response = match method {
        Method::GET => match wanted(&parts)? {
            Some(wanted) => return put_together(state, &parts, &next, &wanted).await,
            None => next.run(Request::from_parts(parts, body)).await,
        },
        Method::POST | Method::PUT if is_of_links => {
            let bytes = read_json(&parts.headers, body, BODY_BYTES_MAX).await?;
            let body = Body::from(with_card_object(bytes));
            next.run(Request::from_parts(parts, body)).await
        }
        _ => next.run(Request::from_parts(parts, body)).await,
    };
    let shows = method == Method::GET || is_of_links;
    match response.status() {
        StatusCode::NO_CONTENT if method == Method::DELETE => Ok(without_content(response)),
        status if status.is_success() && shows && is_json(&response) => {
            let (parts, body) = response.into_parts();
            let shown = shown_to_legacy_client(&path, &bytes_of(body).await?)?;
            Ok(with_body(parts, shown))
        }
        _ => Ok(response),
    }
}

fn without_content(response: Response) -> Response {
    let (parts, _) = response.into_parts();
    let mut answer = Json(json!({})).into_response();
    // The headers that outer layers set, such as the request's id, stay.
    answer.headers_mut().extend(parts.headers);
    answer
}

fn is_json(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("application/json"))
}

async fn bytes_of(body: Body) -> Result<Bytes, ApiError> {
    to_bytes(body, ANSWER_BYTES_MAX).await.map_err(|error| ApiError::internal(&error))
}

fn with_body(mut parts: axum::http::response::Parts, body: Vec<u8>) -> Response {
    parts.headers.remove(CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(body))
}

/// The body of a request for a shared link, with `card` as an object.
fn with_card_object(body: Bytes) -> Bytes {
    let Ok(mut fields) = serde_json::from_slice::<Map<String, Value>>(&body) else { return body };
    let Some(card @ Value::String(_)) = fields.get_mut("card") else { return body };
    *card = json!({"id": card.take()});
    serde_json::to_vec(&fields).map_or(body, Bytes::from)
}

/// A row of shared links, with `card` as text. None of its values is an amount, so nothing of them
/// is lost.
fn with_card_text(row: &RawValue) -> Result<Box<RawValue>, serde_json::Error> {
    let mut fields: Map<String, Value> = serde_json::from_str(row.get())?;
    if let Some(card) = fields.get_mut("card")
        && let Some(id) = card.get_mut("id")
    {
        *card = id.take();
    }
    to_raw_value(&fields)
}

/// A list as handlers answer it; numbers keep every digit.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListAnswer {
    count: u64,
    next: Option<String>,
    previous: Option<String>,
    results: Vec<Box<RawValue>>,
}

/// A list with its rows under a second name.
struct AliasedListing<'a> {
    name: String,
    listing: &'a Listing<Box<RawValue>>,
}

impl Serialize for AliasedListing<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Listing { count, next, previous, results } = self.listing;
        let mut map = serializer.serialize_map(Some(5))?;
        map.serialize_entry("count", count)?;
        map.serialize_entry("next", next)?;
        map.serialize_entry("previous", previous)?;
        map.serialize_entry("results", results)?;
        map.serialize_entry(&self.name, results)?;
        map.end()
    }
}

/// The answer to `path` as an older client expects it.
fn shown_to_legacy_client(path: &str, body: &[u8]) -> Result<Vec<u8>, ApiError> {
    let is_of_links = path.starts_with(SHARED_LINKS);
    match serde_json::from_slice(body) {
        Ok(ListAnswer { count, next, previous, results }) => {
            rendered_list(path, Listing { count, next, previous, results })
        }
        Err(_) if is_of_links => {
            let row =
                serde_json::from_slice(body).and_then(|row: Box<RawValue>| with_card_text(&row));
            row.map(|row| row.get().as_bytes().to_vec()).map_err(|error| ApiError::internal(&error))
        }
        Err(_) => Ok(body.to_vec()),
    }
}

fn rendered_list(path: &str, mut listing: Listing<Box<RawValue>>) -> Result<Vec<u8>, ApiError> {
    if path == SHARED_LINKS {
        for row in &mut listing.results {
            *row = with_card_text(row).map_err(|error| ApiError::internal(&error))?;
        }
    }
    let name = path.rsplit('/').next().unwrap_or_default().replace('-', "_");
    serde_json::to_vec(&AliasedListing { name, listing: &listing })
        .map_err(|error| ApiError::internal(&error))
}

/// A query that no list answers by itself.
#[derive(Debug)]
struct LegacyQuery {
    /// The lists to be put together; no row is in two of them.
    lists: Vec<PartialList>,
    page: Page,
    /// The field that orders the rows.
    ordered_by: &'static str,
    has_newest_first: bool,
}

/// One list, as far as handlers understand filters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct PartialList {
    parameters: Vec<(String, String)>,
    /// The fields that have to be null.
    absent: Vec<&'static str>,
}

/// The lists that a query asks for; none where handlers understand it by themselves.
/// Errors: a page that cannot be read, or too many lists.
fn wanted(parts: &Parts) -> Result<Option<LegacyQuery>, ApiError> {
    let Ok(UriQuery(parameters)) = UriQuery::<Vec<(String, String)>>::try_from_uri(&parts.uri)
    else {
        return Ok(None);
    };
    let Some(lists) = lists_of(&parameters) else { return Ok(None) };
    if lists.len() > LISTS_MAX {
        let message = format!("filters have more than {LISTS_MAX} combinations");
        return Err(ApiError::invalid_field("[]", Flaw::new("too_many", message)));
    }
    let mut query = Query::new(parameters);
    let page = parse_page(&mut query, &ORDERINGS);
    let ordering = query.text("ordering").map(str::to_owned).unwrap_or_default();
    query.finish()?;
    if page.offset.saturating_add(page.limit) > ROWS_MAX {
        return Err(ApiError::invalid_field("offset", too_many_rows()));
    }
    let name = ordering.trim_start_matches('-');
    let ordered_by = ORDERINGS.into_iter().find(|known| *known == name);
    let is_upward = ordered_by.is_some() && !ordering.starts_with('-');
    let ordered_by = ordered_by.unwrap_or("created_at");
    Ok(Some(LegacyQuery { lists, page, ordered_by, has_newest_first: !is_upward }))
}

fn too_many_rows() -> Flaw {
    let message = format!("leads through more than {ROWS_MAX} rows: ask for a shorter list");
    Flaw::new("too_many_rows", message)
}

/// The lists that a query asks for together; none where it is one that handlers understand.
fn lists_of(parameters: &[(String, String)]) -> Option<Vec<PartialList>> {
    let is_asked = |filter: &str| {
        parameters.iter().any(|(name, value)| {
            let is_of = name == filter && value == "null";
            is_of || (is_repeated(name, filter) && !value.is_empty())
        })
    };
    let ids: Vec<_> = ID_FILTERS.into_iter().filter(|filter| is_asked(filter)).collect();
    let words: Vec<_> = WORD_FILTERS.into_iter().filter(|filter| is_asked(filter)).collect();
    if ids.is_empty() && words.is_empty() {
        return None;
    }
    let is_plain = |name: &str| {
        let is_of = |filter: &&str| name == *filter || is_repeated(name, filter);
        !ids.iter().any(is_of) && !words.iter().any(is_of) && !["limit", "offset"].contains(&name)
    };
    let mut first = PartialList::default();
    first.parameters.extend(parameters.iter().filter(|(name, _)| is_plain(name)).cloned());
    for filter in words {
        first.parameters.push((filter.to_owned(), values_of(parameters, filter).join(",")));
    }
    let mut lists = vec![first];
    for filter in ids {
        let values = values_of(parameters, filter);
        let with_each = |list: PartialList| {
            values.iter().map(|value| list.narrowed(filter, value)).collect::<Vec<_>>()
        };
        lists = lists.into_iter().flat_map(with_each).take(LISTS_MAX + 1).collect();
    }
    Some(lists)
}

fn is_repeated(name: &str, filter: &str) -> bool {
    name.strip_suffix("[]") == Some(filter)
}

/// The values of a filter, each once.
fn values_of(parameters: &[(String, String)], filter: &str) -> Vec<String> {
    let mut values = Vec::new();
    for (name, value) in parameters {
        let value = value.to_ascii_lowercase();
        let is_of = name == filter || is_repeated(name, filter);
        if is_of && !value.is_empty() && !values.contains(&value) {
            values.push(value);
        }
    }
    values
}

impl PartialList {
    fn narrowed(&self, filter: &'static str, value: &str) -> Self {
        let mut list = self.clone();
        if value == "null" {
            list.absent.push(filter);
        } else {
            list.parameters.push((filter.to_owned(), value.to_owned()));
        }
        list
    }

    /// The query for so many of its rows from `offset` on.
    fn query(&self, limit: usize, offset: usize) -> String {
        let place = [("limit", limit), ("offset", offset)];
        let place = place.map(|(name, number)| (name, number.to_string()));
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(&self.parameters).extend_pairs(&place).finish()
    }

    fn accepts(&self, row: &RawValue) -> bool {
        let Ok(fields) = fields_of(row) else { return false };
        let is_null = |name: &&str| fields.get(*name).is_some_and(|value| value.get() == "null");
        self.absent.iter().all(is_null)
    }
}

fn fields_of(row: &RawValue) -> Result<HashMap<String, &RawValue>, serde_json::Error> {
    serde_json::from_str(row.get())
}

/// Answers with the page wanted of all lists together.
async fn put_together(
    state: &AppState,
    parts: &Parts,
    next: &Next,
    wanted: &LegacyQuery,
) -> Result<Response, ApiError> {
    let mut whole = ListPage::EMPTY;
    // Commands of one burst stand a little after the clock.
    let until = render_time(state.now().plus(Timestamp::SECOND));
    let mut reader = ListReader { parts, next, until, rows_left: ROWS_MAX };
    for list in &wanted.lists {
        match reader.read(list, wanted.page.offset + wanted.page.limit).await? {
            Ok(listed) => {
                whole.count += listed.count;
                whole.rows.extend(listed.rows);
            }
            Err(response) => return Ok(response),
        }
    }
    wanted.order(&mut whole.rows);
    let of_page = whole.rows.into_iter().skip(wanted.page.offset).take(wanted.page.limit);
    let listed = ListPage { count: whole.count, rows: of_page.collect() };
    let path = parts.uri.path();
    let address = ListAddress {
        path: path.to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
    };
    let listing = envelope(listed, &wanted.page, &address, state.urls());
    let mut response = Body::from(rendered_list(path, listing)?).into_response();
    response
        .headers_mut()
        .insert(CONTENT_TYPE, axum::http::HeaderValue::from_static("application/json"));
    Ok(response)
}

impl LegacyQuery {
    /// Puts the rows of several lists, each in order, in order.
    fn order(&self, rows: &mut [Box<RawValue>]) {
        if self.lists.len() < 2 {
            return;
        }
        // An instant is a text of always the same length; a longer whole number is a greater one.
        let key = |row: &RawValue| {
            let fields = fields_of(row).unwrap_or_default();
            let value = fields.get(self.ordered_by).map(|value| value.get().to_owned());
            let value = value.unwrap_or_default();
            (value.len(), value)
        };
        if self.has_newest_first {
            rows.sort_by_cached_key(|row| std::cmp::Reverse(key(row)));
        } else {
            rows.sort_by_cached_key(|row| key(row));
        }
    }
}

/// Reads lists as a client would, page by page.
struct ListReader<'a> {
    parts: &'a Parts,
    next: &'a Next,
    /// The instant of the request. Rows made later would shift the pages, so they are left out.
    until: String,
    rows_left: usize,
}

impl ListReader<'_> {
    /// Reads the first `rows_wanted` rows of a list, and counts all of it; an answer that is no list is
    /// handed back as it came.
    async fn read(
        &mut self,
        list: &PartialList,
        rows_wanted: usize,
    ) -> Result<Result<ListPage<Box<RawValue>>, Response>, ApiError> {
        let (mut listed, mut offset) = (ListPage::EMPTY, 0);
        let mut list = list.clone();
        if !list.parameters.iter().any(|(name, _)| name == "created_before") {
            list.parameters.push(("created_before".to_owned(), self.until.clone()));
        }
        let reads_all = !list.absent.is_empty();
        loop {
            let rows_missing = if reads_all { PAGE_LEN_MAX } else { rows_wanted - offset };
            let query = list.query(rows_missing.min(PAGE_LEN_MAX), offset);
            let page = match self.ask(&query).await? {
                Ok(page) => page,
                Err(response) => return Ok(Err(response)),
            };
            let rows_read = page.results.len();
            self.rows_left = self.rows_left.checked_sub(rows_read).ok_or_else(|| {
                let name = list.absent.first().copied().unwrap_or("offset");
                ApiError::invalid_field(name, too_many_rows())
            })?;
            offset += rows_read;
            let accepted = page.results.into_iter().filter(|row| !reads_all || list.accepts(row));
            for row in accepted {
                listed.count += 1;
                if listed.rows.len() < rows_wanted {
                    listed.rows.push(row);
                }
            }
            if !reads_all {
                listed.count = page.count;
            }
            let is_enough = !reads_all && offset >= rows_wanted;
            if rows_read == 0 || is_enough || offset as u64 >= page.count {
                return Ok(Ok(listed));
            }
        }
    }

    /// Asks the handler; an answer that is no list is handed back as it came.
    async fn ask(&self, query: &str) -> Result<Result<ListAnswer, Response>, ApiError> {
        let mut parts = self.parts.clone();
        parts.uri = with_query(&parts.uri, query).ok_or_else(ApiError::malformed_query)?;
        let response = self.next.clone().run(Request::from_parts(parts, Body::empty())).await;
        if response.status() != StatusCode::OK || !is_json(&response) {
            return Ok(Err(response));
        }
        let (parts, body) = response.into_parts();
        let bytes = bytes_of(body).await?;
        let page = serde_json::from_slice(&bytes);
        Ok(page.map_err(|_| Response::from_parts(parts, Body::from(bytes))))
    }
}

fn with_query(uri: &Uri, query: &str) -> Option<Uri> {
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(format!("{}?{query}", uri.path())).ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists(query: &str) -> Option<Vec<(String, Vec<&'static str>)>> {
        let uri: Uri = format!("/v1/cards?{query}").parse().unwrap();
        let UriQuery(parameters) = UriQuery::<Vec<(String, String)>>::try_from_uri(&uri).unwrap();
        let lists = lists_of(&parameters)?;
        Some(lists.into_iter().map(|list| (list.query(5, 0), list.absent)).collect())
    }

    #[test]
    fn a_query_is_as_many_lists_as_it_has_combinations() {
        let plain = |query: &str| (format!("{query}limit=5&offset=0"), vec![]);
        let rows = [
            ("", None),
            ("assigned_to=a&state=active", None),
            ("description=null&other[]=x&card[]=", None),
            ("assigned_to=null", Some(vec![("limit=5&offset=0".to_owned(), vec!["assigned_to"])])),
            ("card[]=A", Some(vec![plain("card=a&")])),
            ("card[]=a&card%5B%5D=b&card[]=a", Some(vec![plain("card=a&"), plain("card=b&")])),
            ("state[]=active&state[]=suspended", Some(vec![plain("state=active%2Csuspended&")])),
            (
                "label[]=l&label[]=null&card[]=c&limit=3&offset=1&description=a%26b",
                Some(vec![
                    plain("description=a%26b&card=c&label=l&"),
                    ("description=a%26b&card=c&limit=5&offset=0".to_owned(), vec!["label"]),
                ]),
            ),
        ];
        for (query, expected) in rows {
            assert_eq!(lists(query), expected, "{query}");
        }
        let many: Vec<_> = (0..200).map(|n| format!("card[]={n}&label[]={n}")).collect();
        assert_eq!(lists(&many.join("&")).unwrap().len(), LISTS_MAX + 1);
    }

    #[test]
    fn lists_stand_under_two_names_with_every_digit() {
        let body = br#"{"count":1,"next":null,"previous":"x","results":[{"amount":1.00}]}"#;
        let shown = shown_to_legacy_client("/v1/accounts/5/statement-lines", body).unwrap();
        let rows = r#"[{"amount":1.00}]"#;
        let expected = format!(
            r#"{{"count":1,"next":null,"previous":"x","results":{rows},"statement_lines":{rows}}}"#
        );
        assert_eq!(String::from_utf8(shown).unwrap(), expected);
        let card = br#"{"id":"5","amount":1.00}"#;
        assert_eq!(shown_to_legacy_client("/v1/cards/5", card).unwrap(), card);
    }

    #[test]
    fn the_card_of_a_shared_link_is_text() {
        let body = br#"{"id":"5","card":{"id":"7"},"hide_balance":true}"#;
        let shown = shown_to_legacy_client("/v1/shared-links/5", body).unwrap();
        assert_eq!(shown, br#"{"id":"5","card":"7","hide_balance":true}"#);
        let rows = [
            (r#"{"card":"7","a":1}"#, r#"{"card":{"id":"7"},"a":1}"#),
            (r#"{"card":{"id":"7"}}"#, r#"{"card":{"id":"7"}}"#),
            (r#"{"card":7}"#, r#"{"card":7}"#),
            ("[1", "[1"),
        ];
        for (sent, expected) in rows {
            assert_eq!(with_card_object(Bytes::from(sent)), expected, "{sent}");
        }
    }

    #[test]
    fn rows_of_several_lists_are_put_in_order() {
        let rows = |values: &[&str]| -> Vec<Box<RawValue>> {
            let row = |value: &&str| RawValue::from_string(format!(r#"{{"number":{value}}}"#));
            values.iter().map(row).collect::<Result<_, _>>().unwrap()
        };
        let mut mixed = rows(&["9", "10", "2", "100"]);
        let wanted = |has_newest_first| LegacyQuery {
            lists: vec![PartialList::default(); 2],
            page: Page::first(10),
            ordered_by: "number",
            has_newest_first,
        };
        let texts = |rows: &[Box<RawValue>]| {
            rows.iter().map(|row| row.get().to_owned()).collect::<Vec<_>>()
        };
        wanted(false).order(&mut mixed);
        assert_eq!(texts(&mixed), texts(&rows(&["2", "9", "10", "100"])));
        wanted(true).order(&mut mixed);
        assert_eq!(texts(&mixed), texts(&rows(&["100", "10", "9", "2"])));
    }
}
