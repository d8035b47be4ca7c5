//! The questions: one filter each, alone, within a time, and behind a deep offset.

use cardswitch_benches::program::Random;
use cardswitch_engine::domain::ids::Timestamp;
#[cfg(test)]
use cardswitch_engine::domain::transaction::TransactionKind;
use cardswitch_engine::domain::transaction::TransactionState;

use super::history::{History, Row};

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

/// One filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filter {
    /// No filter but the id: one transaction.
    Id(u64),
    All,
    Card(u64),
    Member(u64),
    Category(u64),
    State(TransactionState),
    WithoutDeclines,
    WithoutVerifications,
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
    name: &'static str,
    filter: Shape,
    span: Span,
}

/// How the filter of a question is made from one transaction of the company.
type Shape = fn(&Row) -> Filter;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Span {
    Whole,
    /// An eighth of the time, wherever it begins.
    Eighth,
    Deep,
}

const SHAPES: [(&str, Shape); 11] = [
    ("none", |_| Filter::All),
    ("card", |row| Filter::Card(row.card)),
    ("member", |row| Filter::Member(row.member)),
    ("category", |row| Filter::Category(row.category.unwrap_or(0))),
    ("state=pending", |_| Filter::State(TransactionState::Pending)),
    ("state=completed", |_| Filter::State(TransactionState::Completed)),
    ("state=declined", |_| Filter::State(TransactionState::Declined)),
    ("state=canceled", |_| Filter::State(TransactionState::Canceled)),
    ("exclude_declines", |_| Filter::WithoutDeclines),
    ("exclude_verifications", |_| Filter::WithoutVerifications),
    ("by id", |row| Filter::Id(row.seq)),
];
/// The lists that are read behind a deep offset.
const DEEP_SHAPES: [&str; 4] = ["none", "state=completed", "exclude_declines", "category"];

/// Every shape of question.
pub(crate) fn cells(history: &History) -> Vec<Cell<'_>> {
    let mut cells = Vec::new();
    for (name, filter) in SHAPES {
        let spans: &[Span] = match name {
            "by id" => &[Span::Whole],
            _ if DEEP_SHAPES.contains(&name) => &[Span::Whole, Span::Eighth, Span::Deep],
            _ => &[Span::Whole, Span::Eighth],
        };
        cells.extend(spans.iter().map(|span| Cell { history, name, filter, span: *span }));
    }
    cells
}

impl Cell<'_> {
    pub(crate) fn name(&self) -> String {
        match self.span {
            Span::Whole => self.name.to_owned(),
            Span::Eighth => format!("{}, within an eighth of the time", self.name),
            Span::Deep => format!("{}, offset {}", self.name, self.offset()),
        }
    }

    /// A question: its filter is that of some transaction of the company.
    pub(crate) fn question(&self, random: &mut Random) -> Question {
        let size = self.history.size;
        let row = loop {
            let row = self.history.row(1 + random.below(size));
            if row.company == 0 {
                break row;
            }
        };
        let time = (self.span == Span::Eighth).then(|| {
            let first = 1 + random.below(size - size / 8);
            (self.history.time_of(first), self.history.time_of(first + size / 8))
        });
        Question { filter: (self.filter)(&row), time, offset: self.offset() }
    }

    /// A category has a thirtieth of all.
    fn offset(&self) -> u64 {
        let deepest =
            if self.name == "category" { self.history.size / 50 } else { self.history.size / 4 };
        if self.span == Span::Deep { DEEP.min(deepest) } else { 0 }
    }
}

impl Question {
    /// The answer, from looking at every row.
    #[cfg(test)]
    pub(crate) fn answer_slowly(&self, history: &History) -> QueryAnswer {
        let mut fitting: Vec<u64> =
            history.rows().filter(|row| self.fits(row)).map(|row| row.seq).collect();
        fitting.reverse();
        let offset = usize::try_from(self.offset).unwrap();
        let count = fitting.len() as u64;
        QueryAnswer { count, page: fitting.into_iter().skip(offset).take(PAGE_LEN).collect() }
    }

    #[cfg(test)]
    fn fits(&self, row: &Row) -> bool {
        let fits = match self.filter {
            Filter::Id(seq) => row.seq == seq,
            Filter::All => true,
            Filter::Card(card) => row.card == card,
            Filter::Member(member) => row.member == member,
            Filter::Category(number) => row.category == Some(number),
            Filter::State(state) => row.state == state,
            Filter::WithoutDeclines => row.state != TransactionState::Declined,
            Filter::WithoutVerifications => row.kind != TransactionKind::Verification,
        };
        let within = self.time.is_none_or(|(from, to)| row.at >= from && row.at < to);
        fits && within && row.company == 0
    }
}
