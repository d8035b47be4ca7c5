//! What is found by lists, proven against the rows that it follows from: the sets of states, and
//! what tags set by hand did to the lists of dimensions.

use redb::{ReadableTable, ReadableTableMetadata};

use super::audit::AuditFigure;
use super::error::StoreError;
use super::query::Snapshot;
use super::rows;
use super::sets;
use super::tables::{TAG_MOVES, TRANSACTION_TAGS};
use crate::domain::transaction_tags::TagChanges;

impl Snapshot {
    /// Compares the lists that change with what stands in the rows.
    /// Errors: a page or a row that is not as it was written. Cost: reads every transaction and card.
    pub(super) fn audit_lists(&self) -> Result<Vec<AuditFigure>, StoreError> {
        let states = sets::compare(self)?;
        let rows = [
            ("transactions and cards found by their state", states.rows, states.found),
            ("pages of states off their rows", 0, states.differing),
            ("tags set by hand off the lists of their dimensions", 0, self.differing_moves()?),
        ];
        let figure = |(name, expected, found): (&str, u64, u64)| AuditFigure {
            name: name.to_owned(),
            expected: i128::from(expected),
            found: i128::from(found),
        };
        Ok(rows.map(figure).into())
    }

    /// How many moves are missing, wrong or too many.
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
