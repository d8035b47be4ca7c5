//! One search for cards, people and purchases, from every page. GET /search.
//!
//! Cards are found by their last four digits at once, by an index. All else is compared with the
//! newest rows of its kind, as many as `SCANNED_MAX`, and the page says where there are more. The id
//! of a transaction leads to it.
//! Visitors who see only their own things find only those.

use askama::Template;
use axum::extract::Query;
use axum::response::{IntoResponse, Redirect, Response};
use cardswitch_edge::error::ApiError;
use cardswitch_engine::directory::member::Member;
use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use cardswitch_engine::domain::search_key::search_key;
use cardswitch_engine::limits::PAGE_LEN_MAX;
use cardswitch_engine::store::StoreError;
use cardswitch_engine::store::query::{
    CardFilter, CardRow, ListPage, Page, TransactionFilter, TransactionRow,
};
use cardswitch_v1::routes::view::View;
use cardswitch_wire::amount::parse_amount;
use cardswitch_wire::fields::parse_id;
use serde::Deserialize;

use crate::cards::face::CardFace;
use crate::frame;
use crate::rights::{ActingMember, Right};
use crate::transactions::find;
use crate::transactions::list::TransactionLine;
use crate::words::{grouped, person, unsigned_amount};

/// How many rows of a kind are compared, from the newest back.
const SCANNED_MAX: usize = 10_000;
/// How many of a kind are shown.
const SHOWN_MAX: usize = 12;
/// How much of the text is compared. Units: characters.
const TEXT_CHARS_MAX: usize = 100;

/// The text searched for, as typed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SearchQuery {
    q: String,
}

#[derive(Template)]
#[template(path = "search.html")]
struct SearchContent {
    text: String,
    is_whole: bool,
    cards: SearchHits<CardFace>,
    people: SearchHits<PersonLine>,
    purchases: SearchHits<TransactionLine>,
    scanned_max: String,
}

struct PersonLine {
    id: String,
    name: String,
    email: String,
}

/// The rows found of one kind.
struct SearchHits<T> {
    rows: Vec<T>,
    /// Whether rows were left out: older than those compared, or beyond those shown.
    is_cut: bool,
}

impl<T> SearchHits<T> {
    const NONE: Self = Self { rows: Vec::new(), is_cut: false };
}

/// GET /search.
pub(super) async fn search(
    acting: ActingMember,
    Query(query): Query<SearchQuery>,
) -> Result<Response, ApiError> {
    let text: String = query.q.trim().chars().take(TEXT_CHARS_MAX).collect();
    if let Some(id) = parse_id(&text)
        && find(&acting, id).await.is_ok()
    {
        return Ok(Redirect::to(&format!("/transactions/{id}")).into_response());
    }
    let found = acting.read_lists(|view| {
        let wanted = SearchTerms::new(&text, view);
        if text.is_empty() {
            return Ok((SearchHits::NONE, SearchHits::NONE, SearchHits::NONE));
        }
        Ok((
            wanted.cards(&acting, view)?,
            wanted.people(&acting, view)?,
            wanted.purchases(&acting, view)?,
        ))
    });
    let (cards, people, purchases) = found.await?;
    let content = SearchContent {
        is_whole: acting.limited_to().is_none(),
        scanned_max: grouped(SCANNED_MAX as u64),
        cards,
        people,
        purchases,
        text,
    };
    Ok(frame::page("Search", content))
}

/// The text searched for, and its readings as digits and as an amount.
struct SearchTerms<'a> {
    text: &'a str,
    compared: String,
    last_four: Option<[u8; 4]>,
    amount: Option<Minor>,
}

fn amount_of(text: &str, currency: CurrencyCode) -> Option<Minor> {
    parse_amount(&unsigned_amount(text, currency), currency).ok()
}

impl<'a> SearchTerms<'a> {
    fn new(text: &'a str, view: &View<'_>) -> Self {
        Self {
            text,
            compared: search_key(text),
            last_four: last_four_of(text),
            amount: amount_of(text, view.company.currency),
        }
    }

    fn cards(
        &self,
        acting: &ActingMember,
        view: &View<'_>,
    ) -> Result<SearchHits<CardFace>, StoreError> {
        let company = view.company.slot;
        let filter = CardFilter {
            assigned_to: acting.limited_to(),
            last_four: self.last_four,
            ..CardFilter::default()
        };
        let list = |page: &Page| view.snapshot.list_cards(company, &filter, page);
        let fits = |card: &CardRow| {
            self.last_four.is_some()
                || search_key(&card.profile.texts.description).contains(&self.compared)
        };
        let found = scan(list, |card| Ok(fits(&card).then_some(card)))?;
        let face = |card: &CardRow| CardFace::new(card, view.company, view.now);
        Ok(SearchHits { rows: found.rows.iter().map(face).collect(), is_cut: found.is_cut })
    }

    fn people(
        &self,
        acting: &ActingMember,
        view: &View<'_>,
    ) -> Result<SearchHits<PersonLine>, StoreError> {
        if !acting.may(Right::SeeMembers) {
            return Ok(SearchHits::NONE);
        }
        let known = view.snapshot.newest_members(view.company.slot, SCANNED_MAX)?;
        let is_known_whole = known.len() < SCANNED_MAX;
        let fits = |member: &&Member| {
            let Member { first_name, last_name, email, .. } = member;
            search_key(&format!("{first_name} {last_name} {email}")).contains(&self.compared)
        };
        let mut fitting = known.iter().filter(fits);
        let line = |member: &Member| PersonLine {
            id: member.id.0.to_string(),
            name: person(&member.first_name, &member.last_name, &member.email),
            email: member.email.clone(),
        };
        let rows = fitting.by_ref().take(SHOWN_MAX).map(line).collect();
        Ok(SearchHits { rows, is_cut: !is_known_whole || fitting.next().is_some() })
    }

    fn purchases(
        &self,
        acting: &ActingMember,
        view: &View<'_>,
    ) -> Result<SearchHits<TransactionLine>, StoreError> {
        let filter =
            TransactionFilter { member: acting.limited_to(), ..TransactionFilter::default() };
        let list = |page: &Page| view.snapshot.list_transactions(view.company.slot, &filter, page);
        scan(list, |row| {
            let fits = self.fits(&row);
            fits.then(|| TransactionLine::of(&row, view)).transpose()
        })
    }

    /// Whether a transaction is at such a merchant or bank, or of such an amount.
    fn fits(&self, row: &TransactionRow) -> bool {
        let TransactionRow { record, progress, .. } = row;
        let names = record.merchant.as_ref().map(|merchant| search_key(&merchant.name));
        let banks = record.bank_account.as_ref().map(|bank| search_key(&bank.name));
        let is_named = names.into_iter().chain(banks).any(|name| name.contains(&self.compared));
        let amount = progress.amount(record.kind, record.requested);
        let amounts = [record.requested, amount, -amount];
        let is_foreign = record
            .foreign
            .is_some_and(|foreign| amount_of(self.text, foreign.currency) == Some(foreign.amount));
        is_named || is_foreign || self.amount.is_some_and(|wanted| amounts.contains(&wanted))
    }
}

/// The last four digits of a card, if a text is such.
pub(crate) fn last_four_of(text: &str) -> Option<[u8; 4]> {
    let digits: [u8; 4] = text.as_bytes().try_into().ok()?;
    digits.iter().all(u8::is_ascii_digit).then_some(digits)
}

/// Compares the newest rows of a list, a page at a time, until enough are found.
fn scan<R, T>(
    list: impl Fn(&Page) -> Result<ListPage<R>, StoreError>,
    mut compare: impl FnMut(R) -> Result<Option<T>, StoreError>,
) -> Result<SearchHits<T>, StoreError> {
    let mut page = Page::first(PAGE_LEN_MAX);
    let mut rows = Vec::new();
    loop {
        let listed = list(&page)?;
        page.offset += listed.rows.len();
        let is_last = listed.rows.len() < page.limit;
        for row in listed.rows {
            let found = compare(row)?;
            if found.is_some() && rows.len() == SHOWN_MAX {
                return Ok(SearchHits { rows, is_cut: true });
            }
            rows.extend(found);
        }
        if is_last || page.offset >= SCANNED_MAX {
            return Ok(SearchHits { rows, is_cut: !is_last });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_digits_may_end_a_card_number() {
        let rows =
            [("4242", true), ("424", false), ("42424", false), ("424a", false), ("٤٢", false)];
        for (text, expected) in rows {
            assert_eq!(last_four_of(text).is_some(), expected, "{text}");
        }
    }

    #[test]
    fn a_scan_ends_with_the_list_with_enough_found_or_at_its_bound() {
        let numbers = |count: usize| {
            move |page: &Page| {
                let rows = (page.offset..count).take(page.limit).collect();
                Ok(ListPage { count: count as u64, rows })
            }
        };
        let found = |count, fits: fn(usize) -> bool| {
            let found = scan(numbers(count), |row| Ok(fits(row).then_some(row))).unwrap();
            (found.rows.len(), found.is_cut)
        };
        assert_eq!(found(5, |row| row == 4), (1, false));
        assert_eq!(found(SHOWN_MAX, |_| true), (SHOWN_MAX, false));
        assert_eq!(found(SHOWN_MAX + 1, |_| true), (SHOWN_MAX, true));
        assert_eq!(found(SCANNED_MAX + 1, |row| row == SCANNED_MAX - 1), (1, true));
        assert_eq!(found(SCANNED_MAX + 1, |row| row == SCANNED_MAX), (0, true));
    }
}
