//! Dimensions: categories, departments, labels and locations.

use super::entry::{Entries, Index};
use super::row::Indexed;
use crate::domain::card::DimensionKind;
use crate::domain::dimension::Dimension;
use crate::domain::ids::{CompanySlot, DimensionSlot};

impl Dimension {
    /// Those of a company and kind that are not deleted.
    pub const OF_COMPANY: Index<Self, (CompanySlot, DimensionKind)> = Index::new(1);
    /// The one of a company and kind with a code.
    pub const BY_CODE: Index<Self, (CompanySlot, DimensionKind, String)> = Index::new(2);
    /// The children of one.
    pub const OF_PARENT: Index<Self, DimensionSlot> = Index::new(3);
}

impl Indexed for Dimension {
    const CHANGES_ACCESS: bool = false;

    fn index(&self, entries: &mut Entries) {
        if self.is_deleted {
            return;
        }
        entries.add(&Self::OF_COMPANY, &(self.company, self.kind));
        if let Some(code) = &self.code {
            entries.add(&Self::BY_CODE, &(self.company, self.kind, code.clone()));
        }
        if let Some(parent) = &self.parent {
            entries.add(&Self::OF_PARENT, parent);
        }
    }
}
