//! The questions: one filter each, alone, within a time, and behind a deep offset.

use cardswitch_benches::program::Random;
use cardswitch_engine::domain::ids::{CompanySlot, Timestamp, TransactionSeq};
use cardswitch_engine::domain::transaction::TransactionState;
use cardswitch_engine::store::query::{TransactionClasses, TransactionFilter};

use super::history::{History, Row, category_id};

/// Rows of a page.
pub(crate) const PAGE_LEN: usize = 10;
/// A deep offset, where there are twice as many.
const DEEP: u64 = 1_000_000;

/// A question about the greatest company's transactions.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) filter: Filter,
    /// Authorized at the first instant or later, and before the second.
    pub(crate) time: Option<(Timestamp, Timestamp)>,
    pub(crate) offset: u64,
}

/// One filter, as either side takes it.
#[derive(Clone, Debug)]
pub(crate) enum Filter {
    /// No filter but the id: one transaction.
    Id(TransactionSeq),
    /// That of cardswitch; the condition of PostgreSQL, and its one parameter. A card, a member and a
    /// category are of one company, so nobody needs to ask for that, too.
    List(TransactionFilter, &'static str, u32),
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueryAnswer {
    pub(crate) count: u64,
    /// The sequence numbers of the page.
    pub(crate) page: Vec<u64>,
}

/// Questions of one shape.
pub(crate) struct Cell<'a> {
    history: &'a History,
    pub(crate) name: String,
    filter: Shape,
    /// Within an eighth of the time, wherever that begins.
    is_of_an_eighth: bool,
    offset: u64,
}

/// How the filter of a question is made from one transaction of the company.
type Shape = fn(&Row) -> Filter;

const SHAPES: [(&str, Shape); 11] = [
    ("none", |_| classes(TransactionClasses::ALL, "company = $1")),
    ("card", |row| {
        let filter = TransactionFilter { card: row.record.card, ..TransactionFilter::default() };
        Filter::List(filter, "card = $1", row.record.card.map_or(0, |card| card.0))
    }),
    ("member", |row| {
        let member = row.record.member;
        let filter = TransactionFilter { member, ..TransactionFilter::default() };
        Filter::List(filter, "member = $1", member.map_or(0, |member| member.0))
    }),
    ("category", |row| {
        let (number, mut filter) = (row.category.unwrap_or(0), TransactionFilter::default());
        filter.dimensions[0] = Some(category_id(number));
        Filter::List(filter, "category = $1", u32::try_from(number).unwrap_or(0))
    }),
    ("state=pending", |_| state(TransactionState::Pending, "company = $1 AND state = 0")),
    ("state=completed", |_| state(TransactionState::Completed, "company = $1 AND state = 1")),
    ("state=declined", |_| state(TransactionState::Declined, "company = $1 AND state = 2")),
    ("state=canceled", |_| state(TransactionState::Canceled, "company = $1 AND state = 3")),
    ("exclude_declines", |_| {
        classes(TransactionClasses::ALL.without_declines(), "company = $1 AND state <> 2")
    }),
    ("exclude_verifications", |_| {
        classes(TransactionClasses::ALL.without_verifications(), "company = $1 AND kind <> 2")
    }),
    ("by id", |row| Filter::Id(row.record.seq)),
];

fn classes(classes: TransactionClasses, condition: &'static str) -> Filter {
    Filter::List(TransactionFilter { classes, ..TransactionFilter::default() }, condition, 0)
}

fn state(state: TransactionState, condition: &'static str) -> Filter {
    classes(TransactionClasses::in_states(&[state]), condition)
}

/// The lists that are read behind a deep offset.
const DEEP_SHAPES: [&str; 4] = ["none", "state=completed", "exclude_declines", "category"];

/// Every shape of question.
pub(crate) fn cells(history: &History) -> Vec<Cell<'_>> {
    let mut cells = Vec::new();
    for (name, filter) in SHAPES {
        let mut add = |name, is_of_an_eighth, offset| {
            cells.push(Cell { history, name, filter, is_of_an_eighth, offset });
        };
        add(name.to_owned(), false, 0);
        if name != "by id" {
            add(format!("{name}, within an eighth of the time"), true, 0);
        }
        if DEEP_SHAPES.contains(&name) {
            // A category has a thirtieth of all.
            let deepest = history.size / if name == "category" { 50 } else { 4 };
            let offset = DEEP.min(deepest);
            add(format!("{name}, offset {offset}"), false, offset);
        }
    }
    cells
}

impl Cell<'_> {
    /// A question: its filter is that of some transaction of the company.
    pub(crate) fn question(&self, random: &mut Random) -> Question {
        let size = self.history.size;
        let row = loop {
            let row = self.history.row(1 + random.below(size));
            if row.record.company == CompanySlot(0) {
                break row;
            }
        };
        let time = self.is_of_an_eighth.then(|| {
            let first = 1 + random.below(size - size / 8);
            (self.history.time_of(first), self.history.time_of(first + size / 8))
        });
        Question { filter: (self.filter)(&row), time, offset: self.offset }
    }
}
