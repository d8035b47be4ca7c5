//! The feed's own ledger: the expected books of the switch for each purchase, as far as the answers
//! tell.
//!
//! A lost answer leaves several possibilities, so a purchase is kept as the set of states it may
//! be in at the switch ("worlds"). A certain answer carries every world over; an unknown one (91,
//! 96 or silence) keeps both the world before and the world after. The switch's books are right if they
//! are one of the worlds.
//!
//! This file keeps all purchases and compares them with the switch's books; `purchase_book` keeps
//! one, and `worlds` has the states and the changes from one to another.
//!
//! INVARIANT: messages count in the order in which they were sent, whatever the order of answers.

mod purchase_book;
mod worlds;

use std::collections::BTreeMap;

use self::purchase_book::PurchaseBook;
use self::worlds::describe;
pub(super) use self::worlds::{ABSENT, Event, Outcome, PossibleState, State, carry};

/// Names a message of a purchase, for its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EntryId {
    pub(super) purchase: u64,
    index: u16,
}

/// The switch's state of one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TransactionView {
    pub(super) rrn: u64,
    pub(super) world: PossibleState,
    pub(super) response_code: Option<u16>,
    /// Whether it is flagged as giving back more than was paid; none where that is not shown.
    pub(super) over_refunded: Option<bool>,
}

/// A difference between the feed's books and the switch's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The card, by its identifier under `/v1`.
    pub card_id: String,
    /// The retrieval reference number, where one purchase is concerned.
    pub rrn: Option<String>,
    /// The state that the feed expected.
    pub expected: String,
    /// The state that the switch showed.
    pub found: String,
}

/// A purchase whose state at the switch differs from the feed's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PurchaseMismatch {
    pub(super) rrn: u64,
    pub(super) expected: String,
    pub(super) found: String,
}

/// The ledger of a run.
#[derive(Default)]
pub(super) struct Books {
    purchases: BTreeMap<u64, PurchaseBook>,
    by_card: BTreeMap<u32, Vec<u64>>,
}

impl Books {
    /// Opens the page of a purchase on a card.
    pub(super) fn open(&mut self, purchase: u64, card: u32, rrn: u64, opened_us: u64) {
        self.open_page(purchase, PurchaseBook::new(card, rrn, opened_us));
    }

    /// Opens the page of the refund for a purchase, where that has one.
    pub(super) fn open_refund(&mut self, purchase: u64, rrn: u64, opened_us: u64) {
        let Some(card) = self.purchases.get(&purchase).map(|book| book.card) else { return };
        let book = PurchaseBook::new(card, rrn, opened_us).for_refund_of(purchase);
        self.open_page(refund_page(purchase), book);
    }

    fn open_page(&mut self, page: u64, book: PurchaseBook) {
        self.by_card.entry(book.card).or_default().push(page);
        self.purchases.insert(page, book);
    }

    /// Enters a message about the refund for a purchase. `None` for one without a page.
    pub(super) fn sent_of_refund(&mut self, purchase: u64, event: Event) -> Option<EntryId> {
        self.sent(refund_page(purchase), event)
    }

    /// Enters a message that is being sent. `None` for a purchase without a page.
    pub(super) fn sent(&mut self, purchase: u64, event: Event) -> Option<EntryId> {
        let index = self.purchases.get_mut(&purchase)?.sent(event)?;
        Some(EntryId { purchase, index })
    }

    /// Enters what became of a message.
    pub(super) fn answered(&mut self, entry: EntryId, outcome: Outcome) {
        if let Some(book) = self.purchases.get_mut(&entry.purchase) {
            book.answered(entry.index, outcome);
        }
    }

    /// Enters the exact response code of a purchase's first answer.
    pub(super) fn set_response_code(&mut self, purchase: u64, code: u16) {
        if let Some(book) = self.purchases.get_mut(&purchase) {
            book.set_response_code(code);
        }
    }

    /// Cards with at least one purchase.
    pub(super) fn cards(&self) -> impl Iterator<Item = u32> {
        self.by_card.keys().copied()
    }

    /// The least and the most that a card's purchases may have taken from its allowance, less what
    /// their refunds may have given back.
    pub(super) fn spent_bounds(&self, card: u32, now_us: u64) -> (i64, i64) {
        let of_card = self.by_card.get(&card).into_iter().flatten();
        let books = of_card.filter_map(|purchase| self.purchases.get(purchase));
        books.fold((0, 0), |sum, book| {
            let (least, most) = bounds(&self.taken(book, now_us));
            (sum.0 + least, sum.1 + most)
        })
    }

    /// The amounts that a page may have taken from the allowance; negative for amounts given back.
    fn taken(&self, book: &PurchaseBook, now_us: u64) -> Vec<i64> {
        let signed = |minor: u64| i64::try_from(minor).unwrap_or(i64::MAX);
        let worlds = book.worlds_at(now_us);
        if book.takes {
            return worlds.iter().map(|w| signed(w.held_minor + w.posted_minor)).collect();
        }
        let Some(purchase) = book.refund.and_then(|refund| self.purchases.get(&refund.of)) else {
            return vec![0];
        };
        let paid = purchase.worlds_at(now_us);
        let given = |refund: &PossibleState| {
            let refunded = refund.posted_minor;
            paid.iter().map(move |paid| -signed(refunded.min(paid.posted_minor)))
        };
        worlds.iter().flat_map(given).collect()
    }

    /// Whether a refund has to be flagged for giving back more than was paid; none where that is
    /// not known, or where it is no refund of a purchase.
    fn is_over_refunded(&self, book: &PurchaseBook, now_us: u64) -> Option<bool> {
        let refund = book.refund?;
        let paid = self.purchases.get(&refund.of)?.worlds_at(now_us);
        let mut over = paid.iter().map(|paid| refund.asked_minor > paid.posted_minor);
        let first = over.next()?;
        over.all(|other| other == first).then_some(first)
    }

    /// Compares what the switch shows of a card's transactions with the ledger.
    /// `is_ours` tells whether a reference number is one of this run.
    pub(super) fn compare(
        &self,
        card: u32,
        views: &[TransactionView],
        now_us: u64,
        is_ours: impl Fn(u64) -> bool,
    ) -> Vec<PurchaseMismatch> {
        let mut shown: BTreeMap<u64, Vec<&TransactionView>> = BTreeMap::new();
        for view in views.iter().filter(|view| is_ours(view.rrn)) {
            shown.entry(view.rrn).or_default().push(view);
        }
        let mut mismatches = Vec::new();
        for purchase in self.by_card.get(&card).into_iter().flatten() {
            let Some(book) = self.purchases.get(purchase) else { continue };
            let found = shown.remove(&book.rrn).unwrap_or_default();
            mismatches.extend(book.compare(&found, now_us));
            mismatches.extend(self.compare_flag(book, &found, now_us));
        }
        mismatches.extend(shown.into_iter().map(|(rrn, found)| PurchaseMismatch {
            rrn,
            expected: "nothing: this purchase was never sent".to_owned(),
            found: found.iter().map(|view| describe(&view.world)).collect::<Vec<_>>().join(", "),
        }));
        mismatches
    }

    /// Compares the flag of a refund that is there.
    fn compare_flag(
        &self,
        book: &PurchaseBook,
        found: &[&TransactionView],
        now_us: u64,
    ) -> Option<PurchaseMismatch> {
        let [TransactionView { over_refunded: Some(found), .. }] = found else { return None };
        let expected = self.is_over_refunded(book, now_us).filter(|expected| expected != found)?;
        let text = |is_flagged| if is_flagged { "flagged over_refunded" } else { "not so flagged" };
        Some(PurchaseMismatch {
            rrn: book.rrn,
            expected: text(expected).to_owned(),
            found: text(*found).to_owned(),
        })
    }
}

/// The page of a purchase's refund: purchases are fewer than that.
const fn refund_page(purchase: u64) -> u64 {
    purchase | 1 << 63
}

/// The least and the most of some amounts.
fn bounds(amounts: &[i64]) -> (i64, i64) {
    let least = amounts.iter().min().copied().unwrap_or(0);
    (least, amounts.iter().max().copied().unwrap_or(0))
}

#[cfg(test)]
#[path = "books_tests.rs"]
mod tests;
