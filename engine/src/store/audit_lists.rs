//! Audit of the lists against the rows that they follow from: the sets of states, the lists of
//! dimensions with tags set by hand, audit events, and the indexes of rows.

use std::collections::BTreeMap;

use redb::{ReadableTable, ReadableTableMetadata};

use super::audit::AuditFigure;
use super::error::StoreError;
use super::figures;
use super::project::{MARK_ACTOR, MARK_OBJECT};
use super::query::Snapshot;
use super::rows;
use super::sets;
use super::tables::{AUDIT_EVENTS, AUDIT_MARKS, TAG_MOVES, TRANSACTION_TAGS};
use crate::domain::audit::AuditEvent;
use crate::domain::transaction_tags::TagChanges;

/// A figure's name, its expected value and its value.
type ListFigure = (&'static str, u64, u64);

/// Rows that are looked up in a list.
#[derive(Default)]
struct RowLookup {
    rows: u64,
    right: u64,
}

impl RowLookup {
    fn look(&mut self, is_right: bool) {
        self.rows += 1;
        self.right += u64::from(is_right);
    }

    /// Entries of the list beyond the rows count too, once every row is found.
    fn figure(&self, name: &'static str, listed: u64) -> ListFigure {
        (name, self.rows, if self.right == self.rows { listed } else { self.right })
    }
}

impl Snapshot {
    /// Compares the lists that change with what stands in the rows.
    /// Errors: a page or a row that is not as it was written. Cost: reads every transaction and card.
    pub(super) fn audit_lists(&self) -> Result<Vec<AuditFigure>, StoreError> {
        let states = sets::compare(self)?;
        let decisions = figures::compare(self)?;
        let rows = [
            ("decisions counted by quarter of an hour", decisions.decisions, decisions.counted),
            ("figures of decisions off their transactions", 0, decisions.differing),
            ("transactions and cards found by their state", states.rows, states.found),
            ("pages of states off their rows", 0, states.differing),
            ("tags set by hand off the lists of their dimensions", 0, self.differing_moves()?),
        ];
        let figure = |(name, expected, found): ListFigure| AuditFigure::new(name, expected, found);
        let rows = rows.into_iter().chain(self.lists_of_events()?);
        Ok(rows.map(figure).chain(self.audit_directory()?).collect())
    }

    /// Audit events, and how many the lists lead to.
    fn lists_of_events(&self) -> Result<[ListFigure; 2], StoreError> {
        let marks = self.table(AUDIT_MARKS)?;
        let (mut newest, mut events, mut marked) = (BTreeMap::new(), 0, RowLookup::default());
        self.try_each(&AUDIT_EVENTS, |(owner, number), event: AuditEvent| {
            newest.insert(owner, number);
            events += 1;
            let actors = event.actor.ids().into_iter().flatten().map(|id| (MARK_ACTOR, id));
            for (kind, id) in actors.chain(event.object.map(|id| (MARK_OBJECT, id))) {
                marked.look(marks.get((owner, kind, id.as_u128(), number))?.is_some());
            }
            Ok(())
        })?;
        Ok([
            ("audit events, numbered without holes", newest.values().sum(), events),
            marked.figure("audit events found by who and by what", marks.len()?),
        ])
    }

    /// The number of moves that are missing, wrong or too many.
    fn differing_moves(&self) -> Result<u64, StoreError> {
        let mut rows = self.transaction_rows()?;
        let moves = self.table(TAG_MOVES)?;
        let (mut right, mut wrong) = (0, 0);
        for entry in self.table(TRANSACTION_TAGS.definition())?.iter()? {
            let (seq, row) = entry?;
            let tags: TagChanges = rows::decode(TRANSACTION_TAGS.name(), row.value())?;
            let made = rows.look_at(seq.value(), |row| row.dimensions())?;
            for (made, now) in made.iter().zip(tags.dimensions_over(&made)) {
                if *made == now {
                    continue;
                }
                for (dimension, is_put_on) in [(*made, false), (now, true)] {
                    let Some(id) = dimension else { continue };
                    let found = moves.get((id.0.as_u128(), seq.value()))?.map(|row| row.value());
                    let is_right = found == Some(is_put_on);
                    right += u64::from(is_right);
                    wrong += u64::from(!is_right);
                }
            }
        }
        Ok(wrong + moves.len()?.saturating_sub(right))
    }
}
