//! The money invariants, over the tables alone: everything that is kept as a sum is added up again
//! from what it is the sum of. Reads everything; meant for `verify`, not for a running switch.

use std::collections::BTreeMap;

use redb::{ReadOnlyTable, ReadableTable, ReadableTableMetadata};

use super::error::StoreError;
use super::query::{Snapshot, required};
use super::rows;
use super::tables::{
    ACCOUNT_BALANCES, ACCOUNT_LINES, ACCOUNTS, CARD_BASES, CARD_PROFILES, CARD_USAGES, POSTINGS,
    PostingKey, STATEMENT_LINES, TRANSACTION_PROGRESS, TRANSACTIONS,
};
use crate::domain::account::AccountBalances;
use crate::domain::allowance::CardUsage;
use crate::domain::card::CardProfile;
use crate::domain::ids::AccountSlot;
use crate::domain::money::Minor;
use crate::domain::posting::{Book, Posting};
use crate::domain::transaction::{TransactionProgress, TransactionRecord};
use crate::limits;

/// One figure, as it follows from its parts and as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditFigure {
    /// What it is, and whose.
    pub name: String,
    /// The sum of its parts.
    pub expected: i128,
    /// What is kept.
    pub found: i128,
}

impl AuditFigure {
    /// Whether both are the same.
    #[must_use]
    pub const fn agrees(&self) -> bool {
        self.expected == self.found
    }
}

impl Snapshot {
    /// Adds up every sum again: a handful of figures for each account, and one for each card or
    /// transaction that differs, up to `limits::AUDIT_DETAILS_MAX` of a kind.
    /// Cost: O(all rows).
    pub fn audit(&self) -> Result<Vec<AuditFigure>, StoreError> {
        let mut audit = Audit::load(self)?;
        audit.add_lines(self)?;
        self.each(&POSTINGS, |_, posting| audit.add_posting(&posting))?;
        audit.add_transactions(self)?;
        let mut figures = self.audit_counts()?;
        for (slot, tally) in &audit.accounts {
            tally.report(*slot, &mut figures);
        }
        audit.report_cards(self, &mut figures)?;
        Ok(figures)
    }

    /// Transactions and lines are numbered without holes, so a lost row shows in their count.
    fn audit_counts(&self) -> Result<Vec<AuditFigure>, StoreError> {
        let checkpoint = self.checkpoint()?;
        let transactions = self.table(TRANSACTIONS.definition())?.len()?;
        let lines = self.table(STATEMENT_LINES.definition())?.len()?;
        let rows = [
            ("transactions", checkpoint.last_transaction.0, transactions),
            ("statement lines", checkpoint.last_line.0, lines),
        ];
        let figure = |(name, expected, found): (&str, u64, u64)| AuditFigure {
            name: format!("{name}, numbered without holes"),
            expected: i128::from(expected),
            found: i128::from(found),
        };
        Ok(rows.map(figure).into())
    }
}

/// What an account's figures add up to.
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
    differing: Differing,
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
            figures.push(AuditFigure { name: format!("account {slot}: {name}"), expected, found });
        }
        self.differing.report(&format!("account {slot}: transactions off their books"), figures);
    }
}

/// What differs one by one: all are counted, the first few are named.
#[derive(Default)]
struct Differing {
    count: i128,
    details: Vec<AuditFigure>,
}

impl Differing {
    fn compare(&mut self, expected: i128, found: i128, name: impl FnOnce() -> String) {
        if expected == found {
            return;
        }
        self.count += 1;
        if self.details.len() < limits::AUDIT_DETAILS_MAX {
            self.details.push(AuditFigure { name: name(), expected, found });
        }
    }

    fn report(&self, name: &str, figures: &mut Vec<AuditFigure>) {
        figures.push(AuditFigure { name: name.to_owned(), expected: 0, found: self.count });
        figures.extend(self.details.iter().cloned());
    }
}

/// What a card's usage adds up to.
struct CardTally {
    account: AccountSlot,
    usage: CardUsage,
    spent: i128,
    day_spent: i128,
}

#[derive(Default)]
struct Audit {
    accounts: BTreeMap<u32, AccountTally>,
    cards: BTreeMap<u32, CardTally>,
}

impl Audit {
    fn load(snapshot: &Snapshot) -> Result<Self, StoreError> {
        let mut audit = Self::default();
        snapshot.each(&ACCOUNTS, |slot, _| {
            audit.accounts.insert(slot, AccountTally::default());
        })?;
        snapshot.each(&ACCOUNT_BALANCES, |slot, balances| {
            audit.account(AccountSlot(slot)).balances = balances;
        })?;
        snapshot.each(&CARD_BASES, |slot, base| {
            let (account, usage) = (base.account, CardUsage::default());
            audit.cards.insert(slot, CardTally { account, usage, spent: 0, day_spent: 0 });
        })?;
        snapshot.each(&CARD_USAGES, |slot, usage| {
            if let Some(card) = audit.cards.get_mut(&slot) {
                card.usage = usage;
            }
        })?;
        Ok(audit)
    }

    fn account(&mut self, slot: AccountSlot) -> &mut AccountTally {
        self.accounts.entry(slot.0).or_default()
    }

    fn add_lines(&mut self, snapshot: &Snapshot) -> Result<(), StoreError> {
        let by_number = snapshot.table(ACCOUNT_LINES)?;
        let mut outcome = Ok(());
        snapshot.each(&STATEMENT_LINES, |seq, line| {
            let tally = self.account(line.account);
            tally.lines += minor(line.amount);
            tally.line_count += 1;
            tally.last_line = tally.last_line.max(line.number);
            match by_number.get((line.account.0, line.number)) {
                Ok(found) => {
                    let is_found = found.is_some_and(|found| found.value() == seq);
                    tally.numbered_lines += u64::from(is_found);
                }
                Err(error) => outcome = Err(error),
            }
        })?;
        Ok(outcome?)
    }

    fn add_posting(&mut self, posting: &Posting) {
        post(&mut self.account(posting.account).books, posting);
    }

    fn add_transactions(&mut self, snapshot: &Snapshot) -> Result<(), StoreError> {
        let progress = snapshot.table(TRANSACTION_PROGRESS.definition())?;
        let postings = snapshot.table(POSTINGS.definition())?;
        for entry in snapshot.table(TRANSACTIONS.definition())?.iter()? {
            let (seq, row) = entry?;
            let record: TransactionRecord = rows::decode(TRANSACTIONS.name(), row.value())?;
            let progress = required(&TRANSACTION_PROGRESS, &progress, seq.value())?;
            let books = books_of(&postings, seq.value())?;
            self.add_transaction(&record, &progress, &books);
        }
        Ok(())
    }

    fn add_transaction(
        &mut self,
        record: &TransactionRecord,
        progress: &TransactionProgress,
        books: &BTreeMap<Book, i128>,
    ) {
        let (held, posted) = (minor(progress.held.total()), minor(progress.posted));
        let seq = record.seq.0;
        let tally = self.account(record.account);
        tally.open_holds += held;
        tally.posted += posted;
        let sum = |kinds: [Book; 2]| kinds.iter().filter_map(|kind| books.get(kind)).sum::<i128>();
        let in_holds = books.get(&Book::Holds).copied().unwrap_or(0);
        tally.differing.compare(in_holds, held, || format!("transaction {seq}: held"));
        let outside = sum([Book::NetworkSettlement, Book::Bank]);
        tally.differing.compare(outside, posted, || format!("transaction {seq}: posted"));
        let card = record.card.and_then(|card| self.cards.get_mut(&card.0));
        let Some(card) = card else { return };
        for part in progress.held.parts().iter().chain(progress.cleared.parts()) {
            if part.period == card.usage.period {
                card.spent += minor(part.amount);
            }
            if part.day == card.usage.day {
                card.day_spent += minor(part.amount);
            }
        }
    }

    /// One figure an account for all its cards, then the cards that differ.
    fn report_cards(
        &self,
        snapshot: &Snapshot,
        figures: &mut Vec<AuditFigure>,
    ) -> Result<(), StoreError> {
        let profiles = snapshot.table(CARD_PROFILES.definition())?;
        let mut by_account: BTreeMap<u32, Vec<(u32, &CardTally)>> = BTreeMap::new();
        for (slot, card) in &self.cards {
            by_account.entry(card.account.0).or_default().push((*slot, card));
        }
        for (account, cards) in by_account {
            let sum =
                |value: fn(&CardTally) -> i128| cards.iter().map(|(_, card)| value(card)).sum();
            figures.push(AuditFigure {
                name: format!("account {account}: spent on all cards = their parts"),
                expected: sum(|card| card.spent),
                found: sum(|card| minor(card.usage.spent)),
            });
            figures.push(AuditFigure {
                name: format!("account {account}: spent today on all cards = their parts"),
                expected: sum(|card| card.day_spent),
                found: sum(|card| minor(card.usage.day_spent)),
            });
            let mut differing = Differing::default();
            for (slot, card) in cards {
                let profile: CardProfile = required(&CARD_PROFILES, &profiles, slot)?;
                let name = |what: &str| format!("card {}: {what}", profile.id.0);
                differing.compare(card.spent, minor(card.usage.spent), || name("spent"));
                differing.compare(card.day_spent, minor(card.usage.day_spent), || {
                    name("spent on its day")
                });
            }
            differing.report(&format!("account {account}: cards off their parts"), figures);
        }
        Ok(())
    }
}

/// What a transaction's postings brought into each book.
fn books_of(
    postings: &ReadOnlyTable<PostingKey, &'static [u8]>,
    seq: u64,
) -> Result<BTreeMap<Book, i128>, StoreError> {
    let mut books = BTreeMap::new();
    for entry in postings.range((seq, 0, 0)..=(seq, u64::MAX, u32::MAX))? {
        let posting: Posting = rows::decode(POSTINGS.name(), entry?.1.value())?;
        post(&mut books, &posting);
    }
    Ok(books)
}

fn post(books: &mut BTreeMap<Book, i128>, posting: &Posting) {
    *books.entry(posting.from).or_default() -= minor(posting.amount);
    *books.entry(posting.to).or_default() += minor(posting.amount);
}

fn minor(amount: Minor) -> i128 {
    i128::from(amount.0)
}
