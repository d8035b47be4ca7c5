//! Lists that look at many rows, for readers who may look at few.

use super::model::Model;
use super::world::journal;
use super::*;
use crate::domain::card::{CardState, CardTexts};
use crate::domain::ids::CardSlot;
use crate::store::query::{
    CardFilter, Page, RequisitionFilter, TransactionClasses, TransactionFilter,
};
use crate::store::{Snapshot, StoreError};

/// The rows that a list names; it looks at as many at least.
type List<'a> = &'a dyn Fn(&Snapshot) -> Result<u64, StoreError>;

#[test]
fn a_list_that_reads_rows_stops_where_its_reader_has_to() {
    let records = journal(11, 1_500);
    let store = store_of(&records);
    let snapshot = store.read().unwrap();
    let (card, page) = (CardSlot(0), &Page::first(3));
    let company = Model::of(&records).cards[&card].profile.company;
    let with_texts = CardTexts::from_fn(|name| (name == "description").then(|| "r".to_owned()));
    let named = CardFilter { contains: with_texts, ..CardFilter::default() };
    let named_active = CardFilter { states: vec![CardState::Active], ..named.clone() };
    let approved = TransactionClasses::default().without_declines();
    let of_card = TransactionFilter { card: Some(card), ..TransactionFilter::default() };
    let approved_of_card = TransactionFilter { classes: approved, ..of_card };
    let requisitions = &RequisitionFilter::default();
    let lists: [(&str, List<'_>); 5] = [
        ("members", &|view| Ok(view.list_members(company, page, |_| true)?.count)),
        ("requisitions", &|view| Ok(view.list_requisitions(company, requisitions, page)?.count)),
        ("cards by text", &|view| Ok(view.list_cards(company, &named, page)?.count)),
        ("cards by both", &|view| Ok(view.list_cards(company, &named_active, page)?.count)),
        ("purchases", &|view| Ok(view.list_transactions(company, &approved_of_card, page)?.count)),
    ];
    for (name, list) in lists {
        let count = list(&snapshot).unwrap();
        assert!(count > 3, "{name}: {count} rows prove nothing");
        let few = usize::try_from(count).unwrap() - 1;
        let stopped = list(&snapshot.within(few));
        assert!(matches!(stopped, Err(StoreError::LongScan)), "{name}: {stopped:?}");
        assert_eq!(list(&snapshot.within(100_000)).unwrap(), count, "{name}");
    }
    let unread = snapshot.within(0);
    let one_filter = unread.list_transactions(company, &of_card, page).unwrap();
    assert!(one_filter.count > 3, "one filter is counted without its rows");
}
