//! Lists of a company's transactions by what they are found by: time, card, member, dimensions,
//! state and kind, in any combination.
//!
//! Each filter has a list of its own (`hits`). A query with several reads the shortest, and
//! compares its transactions with the other filters.

use std::ops::Range;

use super::hits::{Hits, TagMoves};
use super::list::{ListPage, Page};
use super::transaction::{TransactionRow, TransactionRows};
use super::{SharedTable, Snapshot};
use crate::directory::dimension::Dimension;
use crate::domain::card::{DimensionKind, Dimensions};
use crate::domain::ids::{CardSlot, CompanySlot, DimensionId, MemberSlot, Timestamp};
use crate::store::error::StoreError;
use crate::store::runs::RunTables;
use crate::store::sets::{ClassFilter, SetReader, TransactionClasses};
use crate::store::tables::{ListKey, TAG_MOVES};

/// A filter for the transactions of a company; every part that is set has to fit.
/// Source: spec "Transactions", filters.
#[derive(Clone, Copy, Debug, Default)]
pub struct TransactionFilter {
    /// Authorized before this instant.
    pub before: Option<Timestamp>,
    /// Authorized at this instant or later.
    pub after: Option<Timestamp>,
    /// With this card.
    pub card: Option<CardSlot>,
    /// By this member.
    pub member: Option<MemberSlot>,
    /// With these dimensions, as they stand: those of the card at that time, or set by hand since.
    pub dimensions: Dimensions,
    /// The states and kinds, one of which has to fit.
    pub classes: TransactionClasses,
}

impl Snapshot {
    /// Lists transactions of a company, declined ones too.
    /// Cost: O(log n), O(limit) rows and the dimension's tags set by hand within the time for one
    /// filter; for several O(rows of the shortest list among them).
    pub fn list_transactions(
        &self,
        company: CompanySlot,
        filter: &TransactionFilter,
        page: &Page,
    ) -> Result<ListPage<TransactionRow>, StoreError> {
        let after = page.created_after.max(filter.after);
        let before = earlier(page.created_before, filter.before);
        let mut rows = self.transaction_rows()?;
        let seqs = rows.authorized_within(after, before)?;
        let lists = Lists { runs: self.runs()?, sets: self.sets()?, moves: self.table(TAG_MOVES)? };
        let Some(wanted) = TransactionCriteria::new(self, company, filter)? else {
            return Ok(ListPage::EMPTY);
        };
        lists.list((self, &mut rows), &wanted, seqs, page)?.load(|seq| rows.get(seq))
    }

    /// Lists transactions with a card, declined ones too. Cost: O(limit) rows.
    pub fn list_card_transactions(
        &self,
        card: CardSlot,
        page: &Page,
    ) -> Result<ListPage<TransactionRow>, StoreError> {
        let mut rows = self.transaction_rows()?;
        let seqs = rows.authorized_within(page.created_after, page.created_before)?;
        let runs = self.runs()?;
        let hits = Hits::of_run(&runs, ListKey::card(card))?;
        hits.list(seqs, page)?.load(|seq| rows.get(seq))
    }
}

fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.into_iter().chain(other).min()
}

/// The criteria of a query besides the time.
struct TransactionCriteria {
    company: CompanySlot,
    filters: Vec<Filter>,
}

/// One criterion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filter {
    Company,
    Card(CardSlot),
    Member(MemberSlot),
    Dimension(ListKey, DimensionId, Home),
    Classes(TransactionClasses),
}

/// Whether all that a dimension's list names is known to be the company's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Home {
    Company,
    Unknown,
}

impl TransactionCriteria {
    /// None where nothing can fit: a dimension is another company's, of another kind, or gone.
    fn new(
        snapshot: &Snapshot,
        company: CompanySlot,
        filter: &TransactionFilter,
    ) -> Result<Option<Self>, StoreError> {
        let TransactionFilter { card, member, dimensions, classes, .. } = filter;
        let people = card.map(Filter::Card).into_iter().chain(member.map(Filter::Member));
        let mut filters: Vec<_> = people.collect();
        let named = DimensionKind::ALL.into_iter().zip(dimensions);
        let named = named.filter_map(|(kind, id)| id.map(|id| (kind, id)));
        for (list, (kind, id)) in ListKey::dimensions(dimensions).zip(named) {
            let home = match snapshot.row_by_id(id.0)? {
                None => Home::Unknown,
                Some(known) if is_of(&known, company, kind) => Home::Company,
                Some(_) => return Ok(None),
            };
            filters.push(Filter::Dimension(list, id, home));
        }
        if *classes != TransactionClasses::ALL {
            filters.push(Filter::Classes(*classes));
        }
        if filters.is_empty() {
            filters.push(Filter::Company);
        }
        Ok(Some(Self { company, filters }))
    }
}

/// Whether a dimension is one of a company's of this kind, and not gone.
fn is_of(dimension: &Dimension, company: CompanySlot, kind: DimensionKind) -> bool {
    dimension.company == company && dimension.kind == kind && !dimension.is_deleted
}

/// The tables that lists are read from.
struct Lists {
    runs: RunTables,
    sets: SetReader,
    moves: SharedTable<(u128, u64), bool>,
}

impl Lists {
    /// Lists the transactions that fit.
    /// Errors: `LongScan`.
    fn list(
        &self,
        (snapshot, rows): (&Snapshot, &mut TransactionRows),
        wanted: &TransactionCriteria,
        seqs: Range<u64>,
        page: &Page,
    ) -> Result<ListPage<u64>, StoreError> {
        let mut shortest: Option<(u64, usize, Hits<'_>)> = None;
        for (place, filter) in wanted.filters.iter().enumerate() {
            let hits = self.hits(wanted.company, *filter, &seqs)?;
            let count = hits.count(seqs.clone())?;
            if shortest.as_ref().is_none_or(|(least, ..)| count < *least) {
                shortest = Some((count, place, hits));
            }
        }
        let Some((count, place, hits)) = shortest else { return Ok(ListPage::EMPTY) };
        let mut rest = wanted.filters.clone();
        let read = rest.swap_remove(place);
        let mut within = hits.scan(seqs.clone(), page.order);
        if !self.is_of_company(rows, (wanted.company, read), within.as_mut())? {
            rest.extend([Filter::Company, read]);
        }
        if rest.is_empty() {
            return hits.list_counted(count, seqs, page);
        }
        let mut check = Check::new(self, wanted.company, &rest);
        let mut listed = ListPage::EMPTY;
        for seq in hits.scan(seqs, page.order) {
            let seq = seq?;
            snapshot.look_at_row()?;
            if check.fits(rows, seq)? {
                listed.add(page, seq);
            }
        }
        Ok(listed)
    }

    /// The list of what fits one filter.
    fn hits(
        &self,
        company: CompanySlot,
        filter: Filter,
        seqs: &Range<u64>,
    ) -> Result<Hits<'_>, StoreError> {
        match filter {
            Filter::Company => Hits::of_run(&self.runs, ListKey::company(company)),
            Filter::Card(card) => Hits::of_run(&self.runs, ListKey::card(card)),
            Filter::Member(member) => Hits::of_run(&self.runs, ListKey::member(member)),
            Filter::Dimension(list, id, _) => {
                let moves = TagMoves::load(&self.moves, id, seqs)?;
                Hits::of_dimension(&self.runs, list, moves)
            }
            Filter::Classes(classes) => {
                Ok(Hits::Classes { sets: &self.sets, company, classes: classes.into() })
            }
        }
    }

    /// Whether all that the list of one filter names is the company's. INVARIANT: a card and a member
    /// are of one company, so one of their transactions tells for all. The list of a dimension is found
    /// by the 62 random bits in half of its id: where the company has such a dimension, all in the list
    /// are its.
    fn is_of_company(
        &self,
        rows: &mut TransactionRows,
        (company, filter): (CompanySlot, Filter),
        hits: &mut dyn Iterator<Item = Result<u64, StoreError>>,
    ) -> Result<bool, StoreError> {
        match filter {
            Filter::Company | Filter::Classes(_) => Ok(true),
            Filter::Dimension(.., home) => Ok(home == Home::Company),
            Filter::Card(_) | Filter::Member(_) => {
                let Some(one) = hits.next().transpose()? else { return Ok(true) };
                rows.look_at(one, |row| row.company() == company)
            }
        }
    }

    /// Whether a transaction carries a dimension now: as it was made, or by hand.
    fn carries(
        &self,
        rows: &mut TransactionRows,
        (list, id): (ListKey, DimensionId),
        seq: u64,
    ) -> Result<bool, StoreError> {
        if let Some(is_put_on) = self.moves.get((id.0.as_u128(), seq))? {
            return Ok(is_put_on.value());
        }
        rows.look_at(seq, |row| {
            let made_with = row.dimensions();
            ListKey::dimensions(&made_with)
                .zip(made_with.iter().flatten())
                .any(|made| made == (list, &id))
        })
    }
}

/// Compares transactions with what is wanted of them.
struct Check<'t> {
    lists: &'t Lists,
    company: CompanySlot,
    filters: &'t [Filter],
    classes: Option<ClassFilter<'t>>,
}

impl<'t> Check<'t> {
    fn new(lists: &'t Lists, company: CompanySlot, filters: &'t [Filter]) -> Self {
        let classes = filters.iter().find_map(|filter| match filter {
            Filter::Classes(classes) => {
                Some(ClassFilter::new(&lists.sets, company, (*classes).into()))
            }
            _ => None,
        });
        Self { lists, company, filters, classes }
    }

    fn fits(&mut self, rows: &mut TransactionRows, seq: u64) -> Result<bool, StoreError> {
        // First what needs no row.
        if let Some(classes) = &mut self.classes
            && !classes.accepts(seq)?
        {
            return Ok(false);
        }
        for filter in self.filters {
            let fits = match *filter {
                Filter::Classes(_) => true,
                Filter::Company => rows.look_at(seq, |row| row.company() == self.company)?,
                Filter::Card(card) => rows.look_at(seq, |row| row.card() == Some(card))?,
                Filter::Member(member) => rows.look_at(seq, |row| row.member() == Some(member))?,
                Filter::Dimension(list, id, _) => self.lists.carries(rows, (list, id), seq)?,
            };
            if !fits {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
