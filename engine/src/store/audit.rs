//! The money invariants, over the tables alone: everything that is kept as a sum is added up again
//! from what it is the sum of. Reads everything; meant for `verify`, not for a running switch.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::Range;

use super::audit_lists::RowLookup;
use super::audit_runs::EntrySums;
use super::error::StoreError;
use super::error::unreadable_transaction;
use super::project::{each_entry, implied_posting, is_moved_end};
use super::query::{Snapshot, parse_line_row};
use super::runs::RunKind;
use super::tables::{ACCOUNTS, LINE_BLOCKS, MOVED_HOLDS, POSTING_BLOCKS};
use crate::domain::account::AccountBalances;
use crate::domain::allowance::CardUsage;
use crate::domain::ids::{AccountSlot, CardId};
use crate::domain::money::Minor;
use crate::domain::posting::{Book, Posting};
use crate::domain::transaction::{TransactionKind, TransactionProgress, TransactionState};
use crate::limits;
use crate::packed::{TransactionView, parse_posting};

/// Transactions or lines that are compared in one pass over the rows that belong to them.
const WINDOW_LEN: u64 = 1 << 20;

/// A figure, as it follows from its parts and as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditFigure {
    /// The name of the figure, with that of its owner.
    pub name: String,
    /// The sum of its parts.
    pub expected: String,
    /// The stored value.
    pub found: String,
}

impl AuditFigure {
    pub(crate) fn new(
        name: impl Into<String>,
        expected: impl Display,
        found: impl Display,
    ) -> Self {
        let (expected, found) = (expected.to_string(), found.to_string());
        Self { name: name.into(), expected, found }
    }

    /// Whether both are the same.
    pub fn is_right(&self) -> bool {
        self.expected == self.found
    }
}

impl Snapshot {
    /// Adds up every sum again, and proves the lists that follow from rows: a handful of figures for
    /// each account, and one for each card or transaction that differs, up to
    /// `limits::AUDIT_DETAILS_MAX` of a kind.
    /// Errors: a row, block or run that is not as it was written.
    /// Cost: O(all rows), once more over postings and line numbers for each `WINDOW_LEN` of them.
    pub fn audit(&self) -> Result<Vec<AuditFigure>, StoreError> {
        let runs = self.runs()?;
        for kind in RunKind::ALL {
            runs.reader(kind)?.check()?;
        }
        let mut audit = Audit::load(self)?;
        audit.add_lines(self)?;
        audit.add_postings(self)?;
        audit.add_transactions(self)?;
        let mut figures = self.audit_counts(&audit)?;
        figures.extend(audit.entries.compare(&runs)?);
        figures.push(audit.moved_ends.figure("holds found by their moved end"));
        figures.extend(self.audit_lists()?);
        figures.extend(self.audit_events_log()?);
        for (slot, tally) in &audit.accounts {
            tally.report(*slot, &mut figures);
        }
        audit.report_all_accounts(&mut figures);
        audit.report_cards(&mut figures);
        Ok(figures)
    }

    /// Transactions and lines are numbered without holes, so a lost row shows in their count.
    fn audit_counts(&self, audit: &Audit) -> Result<Vec<AuditFigure>, StoreError> {
        let checkpoint = self.checkpoint()?;
        let rows = [
            ("transactions", checkpoint.last_transaction.0, audit.transactions),
            ("statement lines", checkpoint.last_line.0, audit.lines),
        ];
        let figure = |(name, expected, found): (&str, u64, u64)| {
            AuditFigure::new(format!("{name}, numbered without holes"), expected, found)
        };
        Ok(rows.map(figure).into())
    }
}

/// Sums over the rows of an account.
#[derive(Default)]
struct AccountTally {
    balances: AccountBalances,
    lines: i128,
    line_count: u64,
    last_line: u64,
    numbered_lines: u64,
    open_holds: i128,
    posted: i128,
    books: BTreeMap<Book, i128>,
    differences: RowDifferences,
}

impl AccountTally {
    fn book(&self, book: Book) -> i128 {
        self.books.get(&book).copied().unwrap_or(0)
    }

    fn report(&self, slot: u32, figures: &mut Vec<AuditFigure>) {
        let own = [Book::Funds, Book::Holds, Book::TransitOut];
        let own_books: i128 = own.into_iter().map(|book| self.book(book)).sum();
        let ledger = minor(self.balances.ledger);
        let held = minor(self.balances.held);
        let rows = [
            ("ledger balance = sum of statement lines", self.lines, ledger),
            ("ledger balance = funds, holds and transit books", own_books, ledger),
            ("sum of statement lines = -(posted by transactions)", -self.posted, self.lines),
            ("held = open holds of all transactions", self.open_holds, held),
            ("held = holds book", self.book(Book::Holds), held),
            (
                "debits in transit = transit book",
                self.book(Book::TransitOut),
                minor(self.balances.debits_in_transit),
            ),
            (
                "pending credits = book of deposits in transit",
                self.book(Book::TransitIn),
                minor(self.balances.credits_in_transit),
            ),
            ("sum of all books", 0, self.books.values().sum()),
            (
                "statement line count",
                i128::from(self.line_count),
                i128::from(self.balances.line_count),
            ),
            ("last statement line number", i128::from(self.line_count), i128::from(self.last_line)),
            (
                "statement lines found by number",
                i128::from(self.line_count),
                i128::from(self.numbered_lines),
            ),
        ];
        for (name, expected, found) in rows {
            figures.push(AuditFigure::new(format!("account {slot}: {name}"), expected, found));
        }
        self.differences.report(&format!("account {slot}: transactions off their books"), figures);
    }
}

/// Differences of single rows: a count of all, the details of the first few.
#[derive(Default)]
struct RowDifferences {
    count: i128,
    details: Vec<AuditFigure>,
}

impl RowDifferences {
    fn compare(&mut self, expected: i128, found: i128, name: impl FnOnce() -> String) {
        if expected == found {
            return;
        }
        self.count += 1;
        if self.details.len() < limits::AUDIT_DETAILS_MAX {
            self.details.push(AuditFigure::new(name(), expected, found));
        }
    }

    fn report(&self, name: &str, figures: &mut Vec<AuditFigure>) {
        figures.push(AuditFigure::new(name, 0, self.count));
        figures.extend(self.details.iter().cloned());
    }
}

/// Sums over the rows of a card.
struct CardTally {
    id: CardId,
    account: AccountSlot,
    usage: CardUsage,
    held: Minor,
    spent: i128,
    day_spent: i128,
    open_holds: i128,
}

#[derive(Default)]
struct Audit {
    accounts: BTreeMap<u32, AccountTally>,
    cards: BTreeMap<u32, CardTally>,
    entries: EntrySums,
    moved_ends: RowLookup,
    transactions: u64,
    lines: u64,
}

/// Sums of a transaction's postings: into the holds, and out of the account's own books.
type PostingSums = (i128, i128);

impl Audit {
    fn load(snapshot: &Snapshot) -> Result<Self, StoreError> {
        let mut audit = Self::default();
        snapshot.each(&ACCOUNTS, |slot, _| {
            audit.accounts.insert(slot, AccountTally::default());
        })?;
        for (slot, tally) in &mut audit.accounts {
            tally.balances = snapshot.balances(AccountSlot(*slot))?.unwrap_or_default();
        }
        snapshot.card_tables()?.each(|card| {
            let (id, account, usage) = (card.profile.id, card.record.account, card.record.usage);
            let held = card.held;
            let tally =
                CardTally { id, account, usage, held, spent: 0, day_spent: 0, open_holds: 0 };
            audit.cards.insert(card.profile.slot.0, tally);
        })?;
        Ok(audit)
    }

    fn account(&mut self, slot: AccountSlot) -> &mut AccountTally {
        self.accounts.entry(slot.0).or_default()
    }

    fn add_lines(&mut self, snapshot: &Snapshot) -> Result<(), StoreError> {
        let end = snapshot.blocks(LINE_BLOCKS)?.end()?;
        let mut places = BTreeMap::new();
        each_window(end, |window| {
            let numbers = self.add_lines_of(snapshot, window.clone())?;
            self.find_by_number(snapshot, &window, &numbers, &mut places)
        })
    }

    /// Adds up lines, and returns each one's account and number.
    fn add_lines_of(
        &mut self,
        snapshot: &Snapshot,
        window: Range<u64>,
    ) -> Result<Vec<Option<(u32, u64)>>, StoreError> {
        let mut numbers = Vec::new();
        snapshot.blocks(LINE_BLOCKS)?.each(window.clone(), |row| {
            let line = parse_line_row(&row)?;
            numbers.resize(place_in(&window, row.number), None);
            numbers.push(Some((line.account.0, line.number)));
            self.lines += 1;
            let tally = self.account(line.account);
            tally.lines += minor(line.amount);
            tally.line_count += 1;
            tally.last_line = tally.last_line.max(line.number);
            Ok(())
        })?;
        Ok(numbers)
    }

    /// Counts the lines that the list of their account leads to by their number.
    fn find_by_number(
        &mut self,
        snapshot: &Snapshot,
        window: &Range<u64>,
        numbers: &[Option<(u32, u64)>],
        places: &mut BTreeMap<u64, u64>,
    ) -> Result<(), StoreError> {
        let runs = snapshot.runs()?;
        runs.reader(RunKind::AccountLines)?.each(window.start, |entry| {
            if !window.contains(&entry.minor()) {
                return;
            }
            let place = places.entry(entry.major()).or_default();
            *place += 1;
            let found = numbers.get(place_in(window, entry.minor())).copied().flatten();
            if let Some((account, number)) = found
                && u64::from(account) == entry.major()
                && number == *place
            {
                self.account(AccountSlot(account)).numbered_lines += 1;
            }
        })
    }

    /// Adds up the postings that no row implies.
    fn add_postings(&mut self, snapshot: &Snapshot) -> Result<(), StoreError> {
        each_posting(snapshot, |posting| post(&mut self.account(posting.account).books, posting))
    }

    fn add_transactions(&mut self, snapshot: &Snapshot) -> Result<(), StoreError> {
        let (rows, moved_ends) = (snapshot.transaction_rows()?, snapshot.table(MOVED_HOLDS)?);
        let (end, applied_at) = (rows.end()?, snapshot.checkpoint()?.applied_at);
        each_window(end, |window| {
            let mut moved = moved_in(snapshot, &window)?;
            rows.each(window.clone(), |row, view, newer| {
                let progress =
                    newer.map_or_else(|| view.to_progress(), Ok).map_err(unreadable_transaction)?;
                if progress.state == TransactionState::Declined {
                    // No state holds it: nobody else reads its texts.
                    view.to_record().map_err(unreadable_transaction)?;
                }
                each_entry(view, |kind, entry| self.entries.add(kind, entry));
                let ends_at = progress.hold_expires_at;
                // An end that is past may be forgotten.
                if !progress.held.is_empty()
                    && ends_at >= applied_at
                    && is_moved_end(view.authorized_at(), ends_at)
                {
                    self.moved_ends.look_up(&*moved_ends, (ends_at.0, row.number), ())?;
                }
                let moved = &mut moved[place_in(&window, row.number)];
                if row.is_marked {
                    let posting = implied_posting(view);
                    post(&mut self.account(posting.account).books, &posting);
                    add_moved(moved, &posting);
                }
                self.transactions += 1;
                self.add_transaction(view, &progress, *moved);
                Ok(())
            })
        })
    }

    fn add_transaction(
        &mut self,
        row: &TransactionView<'_>,
        progress: &TransactionProgress,
        (in_holds, outside): PostingSums,
    ) {
        let (held, posted) = (minor(progress.held.total()), minor(progress.posted));
        let seq = row.seq().0;
        let tally = self.account(row.account());
        tally.open_holds += held;
        tally.posted += posted;
        tally.differences.compare(in_holds, held, || format!("transaction {seq}: held"));
        tally.differences.compare(outside, posted, || format!("transaction {seq}: posted"));
        let card = row.card().and_then(|card| self.cards.get_mut(&card.0));
        let Some(card) = card else { return };
        card.open_holds += held;
        // The parts of a refund are those that it gave back.
        if row.kind() == TransactionKind::Refund {
            return;
        }
        for part in progress.held.parts().iter().chain(progress.cleared.parts()) {
            if part.period == card.usage.period {
                card.spent += minor(part.amount);
            }
            if part.day == card.usage.day {
                card.day_spent += minor(part.amount);
            }
        }
    }

    /// Reports the sums that hold over all accounts together.
    fn report_all_accounts(&self, figures: &mut Vec<AuditFigure>) {
        let sum = |value: fn(&AccountTally) -> i128| self.accounts.values().map(value).sum();
        let rows: [(_, i128, i128); 2] = [
            ("sum of all books", 0, sum(|tally| tally.books.values().sum())),
            (
                "sum of ledger balances = sum of statement lines",
                sum(|tally| tally.lines),
                sum(|tally| minor(tally.balances.ledger)),
            ),
        ];
        for (name, expected, found) in rows {
            figures.push(AuditFigure::new(format!("all accounts: {name}"), expected, found));
        }
    }

    /// One figure an account for all its cards, then the cards that differ.
    fn report_cards(&self, figures: &mut Vec<AuditFigure>) {
        let mut by_account: BTreeMap<u32, Vec<&CardTally>> = BTreeMap::new();
        for card in self.cards.values() {
            by_account.entry(card.account.0).or_default().push(card);
        }
        for (account, cards) in by_account {
            let sum = |value: fn(&CardTally) -> i128| cards.iter().map(|card| value(card)).sum();
            let rows: [(_, i128, i128); 3] = [
                (
                    "spent on all cards = their parts",
                    sum(|card| card.spent),
                    sum(|card| minor(card.usage.spent)),
                ),
                (
                    "spent today on all cards = their parts",
                    sum(|card| card.day_spent),
                    sum(|card| minor(card.usage.day_spent)),
                ),
                (
                    "held on all cards = their open holds",
                    sum(|card| card.open_holds),
                    sum(|card| minor(card.held)),
                ),
            ];
            for (name, expected, found) in rows {
                figures.push(AuditFigure::new(
                    format!("account {account}: {name}"),
                    expected,
                    found,
                ));
            }
            let mut differences = RowDifferences::default();
            for card in cards {
                let name = |what: &str| format!("card {}: {what}", card.id.0);
                differences.compare(card.spent, minor(card.usage.spent), || name("spent"));
                differences.compare(card.open_holds, minor(card.held), || name("held"));
                differences.compare(card.day_spent, minor(card.usage.day_spent), || {
                    name("spent on its day")
                });
            }
            differences.report(&format!("account {account}: cards off their parts"), figures);
        }
    }
}

/// Calls `visit` with the numbers below `end`, `WINDOW_LEN` at a time.
fn each_window(
    end: u64,
    mut visit: impl FnMut(Range<u64>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut start = 0;
    while start < end {
        let next = start.saturating_add(WINDOW_LEN).min(end);
        visit(start..next)?;
        start = next;
    }
    Ok(())
}

fn place_in(window: &Range<u64>, number: u64) -> usize {
    // INVARIANT: a window is `WINDOW_LEN` long.
    usize::try_from(number - window.start).expect("a place in a window is small")
}

/// Sums of the postings that no row implies, for each transaction of a window.
fn moved_in(snapshot: &Snapshot, window: &Range<u64>) -> Result<Vec<PostingSums>, StoreError> {
    let mut moved = vec![(0, 0); place_in(window, window.end)];
    each_posting(snapshot, |posting| {
        if window.contains(&posting.transaction.0) {
            add_moved(&mut moved[place_in(window, posting.transaction.0)], posting);
        }
    })?;
    Ok(moved)
}

/// Visits the postings that no row implies.
pub(super) fn each_posting(
    snapshot: &Snapshot,
    mut visit: impl FnMut(&Posting),
) -> Result<(), StoreError> {
    let unreadable = |source| StoreError::Row { table: "posting_blocks", source };
    snapshot.blocks(POSTING_BLOCKS)?.each(0..u64::MAX, |row| {
        visit(&parse_posting(row.bytes).map_err(unreadable)?);
        Ok(())
    })
}

fn add_moved((in_holds, outside): &mut PostingSums, posting: &Posting) {
    let signed = [(posting.from, -minor(posting.amount)), (posting.to, minor(posting.amount))];
    for (book, amount) in signed {
        match book {
            Book::Holds => *in_holds += amount,
            Book::NetworkSettlement | Book::Bank | Book::TransitIn => *outside += amount,
            Book::Funds | Book::TransitOut => {}
        }
    }
}

fn post(books: &mut BTreeMap<Book, i128>, posting: &Posting) {
    *books.entry(posting.from).or_default() -= minor(posting.amount);
    *books.entry(posting.to).or_default() += minor(posting.amount);
}

fn minor(amount: Minor) -> i128 {
    i128::from(amount.0)
}
